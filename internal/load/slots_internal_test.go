package load

import (
	"fmt"
	"testing"
)

// The users give way so that all that is in flight is the load that was asked for, while
// requests end one after the other and while they end in bursts.
func TestTheUsersGiveWayToTheSentinel(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		users      int
		rate       float64
		ramp, life int64
		above      float64 // on average, of the users
	}{
		{64, 0.64, 2000 * ms, 2000 * ms, 0},
		{64, 0.64, 2000 * ms, 8000 * ms, 0.002},
		{16, 0.5, 2000 * ms, 10000 * ms, 0.01},
		{1024, 10, 2000 * ms, 1260 * ms, 0},
		{1024, 10, 2000 * ms, 6000 * ms, 0.01},
		{4, 0.5, 1000 * ms, 700 * ms, 0.03},
		{1, 0.5, 0, 700 * ms, 0.25},
	} {
		t.Run(fmt.Sprintf("%d users, %.2f a second, %d ms", c.users, c.rate, c.life/ms), func(t *testing.T) {
			mean, above := giveWay(c.users, c.rate, c.ramp, c.life)
			if above > c.above*float64(c.users) || mean < 0.97*float64(c.users) && c.users > 4 {
				t.Errorf("%.2f in flight on average, %.3f of them above %d", mean, above, c.users)
			}
			if bare := float64(c.users) + c.rate*float64(c.life)/1e9; above > 0.8*(bare-float64(c.users)) {
				t.Errorf("%.3f above: without giving way it would be %.3f", above, bare-float64(c.users))
			}
		})
	}
}

// giveWay is a minute of a server that takes the same time for each request, a
// millisecond after the other.
func giveWay(users int, rate float64, ramp, life int64) (mean, above float64) {
	const ms = int64(1e6)
	s := newSlots(users, rate)
	s.due = 0
	var ends, besides []int64 // of the users' and the sentinel's requests, in order: all take the same time
	started, waiting, samples := 0, 0, 0
	for now := ms; now < 60_000*ms; now += ms {
		for len(ends) > 0 && ends[0] <= now {
			ends = ends[1:]
			s.yield(life)
			waiting++
		}
		for ; started < users && ramp*int64(started)/int64(users) <= now; started++ {
			waiting++
		}
		for len(besides) > 0 && besides[0] <= now {
			besides = besides[1:]
			s.yield(life)
		}
		for ; s.due <= now; s.due += s.period {
			if s.life != 0 {
				s.take(now)
				besides = append(besides, now+life)
			}
		}
		for waiting > 0 && s.room(now) {
			s.take(now)
			ends = append(ends, now+life)
			waiting--
		}
		if now > ramp+2*life {
			samples++
			mean += float64(s.busy)
			above += float64(max(0, s.busy-users))
		}
	}
	return mean / float64(samples), above / float64(samples)
}

// A ring that is full keeps the order of what is in flight.
func TestMoreRequestsThanSlotsAreKeptInOrder(t *testing.T) {
	s := newSlots(2, 1)
	for i := range int64(100) {
		s.take(i)
		if i%3 == 0 {
			s.yield(1)
		}
	}
	for i := range s.busy {
		if got := s.oldest(i); got != int64(100-s.busy+i) {
			t.Fatalf("the %d-th oldest of %d was sent at %d", i, s.busy, got)
		}
	}
}
