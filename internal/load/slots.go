package load

// slots are the requests that may be in flight at once: the users of a closed loop
// and the sentinel beside it share them, so that both together are the load that was
// asked for.
//
// The sentinel is an open loop and never waits: it takes a slot at its intended time,
// whether one is free or not. The users give way. A user sends only when a slot is
// left after those that the sentinels which are due before the next answers end will
// take. So the load exceeds the slots only where an answer ends later than expected.
//
// internal/sim/slots.go is the same rule for the modelled client.
type slots struct {
	most   int
	busy   int
	life   int64 // of a request, a moving mean, in nanoseconds; 0: none has ended
	due    int64 // stamp of the sentinel's next arrival; never: none
	period int64 // between two of its arrivals

	sends []int64 // stamps of the latest sends, a ring
	sent  int     // sends so far
}

// keptIdle bounds what is kept free for the sentinel, as a share of the slots. A slot
// that would stand idle for longer is kept only when the sentinel is due before half of
// that time is over: load that is missing and load that is too much then cancel out.
const keptIdle = 0.02

// newSlots are those of a closed loop and a sentinel of so many requests a second.
func newSlots(most int, rate float64) *slots {
	s := &slots{most: most, due: never}
	if rate > 0 {
		s.period = int64(1e9 / rate)
	}
	return s
}

// room reports whether a user may send now.
func (s *slots) room(now int64) bool {
	free := s.most - s.busy - 1 // when this user has sent
	if free < 0 {
		return false
	}
	if s.due == never || s.period == 0 || s.life == 0 {
		return true
	}
	cheap := int64(keptIdle * float64(s.most) * float64(s.period))
	// The first so many sentinels find a free slot. Each one after them needs an answer
	// that ends before it is due.
	for i := 0; ; i++ {
		due := s.due + int64(free+i)*s.period
		end := now + s.life
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

// oldest is the stamp of the send of the i-th oldest request in flight, as far as
// requests end in the order in which they were sent.
func (s *slots) oldest(i int) int64 { return s.sends[(s.sent-s.busy+i)%len(s.sends)] }

// take notes a send.
func (s *slots) take(now int64) {
	if s.busy == len(s.sends) { // all of them are in flight
		ring := make([]int64, max(16, s.most, 2*len(s.sends)))
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
func (s *slots) yield(life int64) {
	s.busy--
	switch {
	case life <= 0:
	case s.life == 0:
		s.life = life
	default:
		const weight = 8
		s.life += (life - s.life) / weight
	}
}
