package exporter

import (
	"math"
	"sync/atomic"
)

// unknownModel is what the frontend calls every model that it does not serve,
// so that clients cannot make series.
const unknownModel = "unknown_model"

// The values of Finished.ErrorType that mean something here.
const (
	errorCancelled = "cancelled"
	errorOverload  = "overload"
)

// Finished is a request that is over, as the frontend saw it.
type Finished struct {
	Worker    int     // -1: none had it
	Endpoint  string  // chat_completions, completions
	Kind      string  // stream, unary
	Status    string  // success, error
	ErrorType string  // of an error: internal, validation, not_found, overload, cancelled
	Model     string  // as the client called it
	Duration  float64 // from its arrival to its end, in seconds of fleet time

	Prompt int // tokens
	Cached int // of them, found in the prefix cache
	Output int
}

// Started says that a request for the fleet's model has arrived. One for
// another model is not told here: Finished counts it as started too.
func (e *Exporter) Started(endpoint, kind string) {
	e.frontend.asked.Store(true)
	e.frontend.started.WithLabelValues(e.options.Model, endpoint, kind).Inc()
}

// FirstToken says that a request got its first token so many seconds after it
// arrived.
func (e *Exporter) FirstToken(worker int, seconds float64) {
	e.frontend.ttft.Observe(seconds)
	e.frontend.latest[worker].ttft.set(seconds)
}

// Gap says that a token came so many seconds after the one before it.
func (e *Exporter) Gap(worker int, seconds float64) {
	e.frontend.gap.Observe(seconds)
	e.frontend.latest[worker].gap.set(seconds)
}

// Finished says that a request is over, however it ended.
func (e *Exporter) Finished(f Finished) {
	known := f.Model == e.options.Model
	if !known {
		f.Model = unknownModel
	}
	e.frontend.finish(f, known)
}

// latest is what the frontend keeps of a worker.
type latest struct{ ttft, gap, input *last }

// last is the latest of some values, once there is one.
type last struct{ bits atomic.Uint64 }

// none is no value's pattern: the NaN that has every bit set.
const none = math.MaxUint64

func newLast() *last {
	l := new(last)
	l.bits.Store(none)
	return l
}

func (l *last) set(v float64) { l.bits.Store(math.Float64bits(v)) }

func (l *last) get() (v float64, ok bool) {
	b := l.bits.Load()
	return math.Float64frombits(b), b != none
}
