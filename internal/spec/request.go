package spec

import "time"

// The words of a Request. A class that is none of these three is a failure of the server's.
const (
	LaneClosed   = "closed"
	LaneSentinel = "sentinel"

	PhaseRamp   = "ramp"
	PhaseSteady = "steady"
	PhaseDrain  = "drain"

	ClassOK          = "ok"
	ClassInterrupted = "interrupted"
	ClassExhausted   = "exhausted" // never sent: the client had no port or file descriptor left

	ClassUnsolicited = "unsolicited" // bytes came that no request asked for
)

// Served reports whether a request got what it asked for. One that was answered without
// a token was not served, whatever its class says.
func (q *Request) Served() bool { return q.Class == ClassOK && q.First > 0 && q.Tokens > 0 }

// Failed reports whether the deployment did not serve it. What was interrupted was given
// up by the client, and what the client could not send never reached the deployment.
func (q *Request) Failed() bool {
	return !q.Served() && q.Class != ClassInterrupted && q.Class != ClassExhausted
}

// RefusedAtOnce reports whether it failed so fast that it was never under way.
func (q *Request) RefusedAtOnce() bool {
	return q.Failed() && q.First == 0 && q.End-q.Sent < int64(time.Second)
}

// TokensOver says when its tokens came, in one stretch or two, each with how many came a
// nanosecond. Only its first and last token and its longest wait are known, so that they
// lie evenly on both sides of that wait. A stretch may be empty.
func (q *Request) TokensOver(yield func(from, until int64, perNanosecond float64)) {
	if q.Tokens == 0 || q.First == 0 {
		return
	}
	from, until, gap := q.First, max(q.Last, q.First+1), q.Gap
	if gap < longGap || q.GapEnd-gap < from || q.GapEnd > until {
		yield(from, until, float64(q.Tokens)/float64(until-from))
		return
	}
	rate := float64(q.Tokens) / float64(max(1, until-from-gap))
	yield(from, q.GapEnd-gap, rate)
	yield(q.GapEnd, max(until, q.GapEnd+1), rate)
}

// longGap is a wait, in nanoseconds, that is told apart from the usual ones.
const longGap = int64(time.Second / 2)

// Add counts how a request ended.
func (c *RequestCounts) Add(q *Request) {
	if c.Classes == nil {
		c.Classes = map[string]int{}
	}
	c.Sent++
	if q.Resent {
		c.Resent++
	}
	c.Classes[q.Class]++
	switch {
	case q.Served():
		c.Served++
	case q.Failed():
		c.Failed++
	default:
		c.Interrupted++
	}
}
