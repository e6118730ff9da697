package serve

import (
	"sync"
	"time"

	"aicr/internal/sim"
)

// inbox is where the fleet leaves what becomes of a stream, and where its
// handler finds it. The fleet never waits: a client that reads slowly fills its
// own inbox, with one number a token and so at most as many as it asked for.
type inbox struct {
	wake chan struct{} // holds one when there is news

	mu   sync.Mutex
	news news
}

// news is what has happened since the handler last looked; what it says of the
// whole stream it says each time.
type news struct {
	routed   bool
	worker   int
	given    int             // tokens in all
	tokensAt []time.Duration // when those came that are new
	ended    bool
	endedAt  time.Duration
	wallTime time.Time // of the end
	outcome  sim.Outcome
	status   int
	cached   int
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), news: news{worker: -1}}
}

// Routed implements sim.Client.
func (b *inbox) Routed(_ time.Duration, s *sim.Stream) {
	b.mu.Lock()
	b.news.routed, b.news.worker = true, s.Worker
	b.mu.Unlock()
	b.ring()
}

// Token implements sim.Client.
func (b *inbox) Token(now time.Duration, s *sim.Stream) {
	b.mu.Lock()
	b.news.given = s.Given
	b.news.tokensAt = append(b.news.tokensAt, now)
	b.mu.Unlock()
	b.ring()
}

// Ended implements sim.Client.
func (b *inbox) Ended(now time.Duration, s *sim.Stream) {
	b.mu.Lock()
	b.news.ended, b.news.endedAt, b.news.wallTime = true, now, time.Now()
	b.news.given, b.news.cached = s.Given, s.Cached
	b.news.outcome, b.news.status = s.Outcome, s.Status
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default: // it rings already
	}
}

// take empties the inbox. The times of the tokens are moved to the room that is
// lent, so that two slices serve a whole stream.
func (b *inbox) take(room []time.Duration) news {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.news
	b.news.tokensAt = room[:0]
	return n
}
