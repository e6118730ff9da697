package sim

import "time"

// slots are the requests that may be in flight at once: the users and the sentinel
// share them, so that both together are the load that was asked for. The sentinel
// never waits; a user sends only when a slot is left after those that the sentinels
// which are due before the next answers end will take. It is the rule of the load
// engine (internal/load/slots.go), kept here a second time because the instrument and
// what it measures share no code.
type slots struct {
	most   int
	busy   int
	life   time.Duration // of a request, a moving mean; 0: none has ended
	due    time.Duration // the sentinel's next arrival
	period time.Duration // between two of them; 0: there is no sentinel

	sends []time.Duration // the latest, a ring
	sent  int
}

// keptIdle bounds what is kept free for the sentinel, as a share of the slots.
const keptIdle = 0.02

// room says whether a user may send now.
func (s *slots) room(now time.Duration) bool {
	free := s.most - s.busy - 1 // when this user has sent
	if free < 0 {
		return false
	}
	if s.period == 0 || s.life == 0 {
		return true
	}
	cheap, _ := after(0, keptIdle*float64(s.most)*float64(s.period))
	for i := 0; ; i++ {
		due, end := s.due+time.Duration(free+i)*s.period, now+s.life
		if due >= end {
			return true
		}
		if i < s.busy {
			end = s.oldest(i) + s.life
		}
		if wait := due - now; end > due && (wait <= cheap || 2*wait < end-now) {
			return false
		}
	}
}

// oldest is when the i-th oldest request in flight was sent, as far as requests end in
// the order in which they were sent.
func (s *slots) oldest(i int) time.Duration { return s.sends[(s.sent-s.busy+i)%len(s.sends)] }

// take notes a send.
func (s *slots) take(now time.Duration) {
	if s.busy == len(s.sends) {
		ring := make([]time.Duration, max(16, s.most, 2*len(s.sends)))
		for i := range s.busy {
			ring[(s.sent-s.busy+i)%len(ring)] = s.oldest(i)
		}
		s.sends = ring
	}
	s.sends[s.sent%len(s.sends)] = now
	s.sent++
	s.busy++
}

// yield notes the end of a request that was served within so long; 0: it was not served.
func (s *slots) yield(life time.Duration) {
	s.busy--
	switch {
	case life <= 0:
	case s.life == 0:
		s.life = life
	default:
		s.life += (life - s.life) / 8
	}
}
