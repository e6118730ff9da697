package stats

import "math"

// Counter turns the values of a counter into rates. The zero value has seen
// nothing.
type Counter struct {
	seen  bool
	t     int64
	value float64
}

// Rate takes the counter's value v at time t, in nanoseconds, and gives its rate
// since the value before. There is none for the first value, when time did not
// advance, and across a reset.
//
// A counter that went down began anew at a time that is not known. Prometheus'
// rate() counts from zero then, which is a lower bound: right for a sum over an
// hour, wrong for a detector, which would read a restart as a stall. So the
// stretch of the reset is unknown, and the next one counts from its value. A
// value that is no number is passed over, and a rate that is none is not known.
func (c *Counter) Rate(t int64, v float64) (perSecond float64, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) || c.seen && t <= c.t {
		return 0, false
	}
	before := *c
	*c = Counter{seen: true, t: t, value: v}
	if !before.seen || v < before.value {
		return 0, false
	}
	perSecond = (v - before.value) / (float64(t-before.t) / 1e9)
	return perSecond, !math.IsInf(perSecond, 0)
}
