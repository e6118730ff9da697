package load

import (
	"math/rand/v2"
	"time"
)

// The waits of a user of the closed loop whose connection has failed (Record.BackedOff):
// firstRest after the first failure, twice as long after each further one in a row, and
// never more than longestRest. The seed takes up to half of each away, so that users
// who failed together do not come back together.
const (
	firstRest   = 100 * time.Millisecond
	longestRest = 5 * time.Second
)

// backoff counts a user's failures in a row.
type backoff struct{ failures int }

// after is how long the user waits after a request; 0: it goes on at once.
func (b *backoff) after(rec *Record, seed uint64) time.Duration {
	if !rec.BackedOff() {
		b.failures = 0
		return 0
	}
	b.failures++
	wait := longestRest
	if doublings := b.failures - 1; doublings < 16 {
		wait = min(firstRest<<doublings, longestRest)
	}
	draw := rand.New(rand.NewPCG(seed, uint64(rec.User)<<32|uint64(b.failures)))
	return wait - time.Duration(draw.Float64()*float64(wait)/2)
}
