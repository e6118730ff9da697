package observe

import (
	"time"

	"aicr/internal/spec"
)

// pressure turns the kernel's counters of the time in which some task waited into
// shares of the time that passed.
type pressure struct {
	before map[string]waited // by the value's name
}

// waited is what a counter stood at.
type waited struct {
	total time.Duration
	at    time.Time
}

// Why there is no share of the time.
const (
	firstPage = "a rate needs two pages"
	begunAnew = "the counter began anew"
	notNewer  = "no newer reading since the page before"
)

// since is the share of the time, 0 to 1, in which some task waited since the
// reading before, or why it is not known. A reading of the same time is the same
// reading.
func (p *pressure) since(field string, total time.Duration, at time.Time) (share *float64, why string) {
	before, known := p.before[field]
	passed := at.Sub(before.at)
	if known && passed <= 0 {
		return nil, notNewer
	}
	if p.before == nil {
		p.before = map[string]waited{}
	}
	p.before[field] = waited{total, at}
	switch {
	case !known:
		return nil, firstPage
	case total < before.total:
		return nil, begunAnew
	}
	// The counter was read a little before or after its page was stamped.
	return number(min(1, float64(total-before.total)/float64(passed))), ""
}

// forget makes the next reading the first. A counter that was away may have begun
// anew meanwhile and have passed its old value.
func (p *pressure) forget(field string) { delete(p.before, field) }

// nodePressures are the values of a node that are shares of the time.
func nodePressures(n *spec.NodeSample) map[string]**float64 {
	return map[string]**float64{
		nodeCPU.field:    &n.CPUPressure,
		nodeMemory.field: &n.MemoryPressure,
		nodeIO.field:     &n.IOPressure,
	}
}

// seconds is a counter's value as a time. One that is no time, or longer than any
// machine ran, is none.
func seconds(v float64) (time.Duration, bool) {
	const longest = 100 * 365 * 24 * 3600.0
	if !(v >= 0 && v <= longest) {
		return 0, false
	}
	return time.Duration(v * float64(time.Second)), true
}
