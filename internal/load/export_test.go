package load

import (
	"errors"
	"io/fs"
	"time"
)

// The tests stand outside the package, as its callers do. These are the few
// inner parts whose rules cannot be seen from there.

// Arrivals lists an open loop's first n send times.
func Arrivals(s Schedule, seed uint64, n int) []int64 {
	a := newArrivals(s, seed)
	all := make([]int64, n)
	for i := range all {
		all[i] = a.next()
	}
	return all
}

// ReadThrottling and ReadPressure are the audit's readings of the machine.
func ReadThrottling(host fs.FS) *Throttling { return readThrottling(host) }

// ReadPressure is the time that tasks have waited for a CPU.
func ReadPressure(host fs.FS) *time.Duration { return readPressure(host) }

// Judge gives the audit's reasons for the given readings.
func Judge(a Audit, p *Plan, res *Result, ttft time.Duration) []Reason {
	a.judge(p, res, ttft)
	return a.Reasons
}

// LagLimit is the stamp lag that is allowed beside a median time to first token.
func LagLimit(ttft time.Duration) time.Duration { return lagLimit(ttft) }

// NagleBetween tells Nagle's algorithm from two answers on a connection in use:
// one while the kernel delayed its acknowledgements, one while it did not.
func NagleBetween(later, once *Record) Nagle { return nagleBetween(later, once) }

// AcksAtOnce reports whether the load is to acknowledge every read at once.
func (t *Target) AcksAtOnce() bool { return t.quickAck }

// MostEvent is the largest event that is accepted in an answer.
func MostEvent(p *Plan) int { return p.mostEvent() }

// Fit says to what the soft limit of open files is raised for so many connections.
func Fit(soft, hard uint64, connections int, open uint64) (raise uint64, refused *DescriptorLimit) {
	raise, err := limits{soft, hard}.fit(connections, open)
	refused, _ = errors.AsType[*DescriptorLimit](err)
	return raise, refused
}
