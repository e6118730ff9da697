package exporter

import (
	"math"
	"sync/atomic"
)

// unknownModel is what the frontend calls every model that it does not serve,
// so that clients cannot make series.
const unknownModel = "unknown_model"

// The values of Finished.Status and Finished.ErrorType that mean something here.
const (
	statusSuccess  = "success"
	errorCancelled = "cancelled"
	errorOverload  = "overload"
)

// Finished is a request that is over. Times are seconds of fleet time.
type Finished struct {
	Worker       int    // -1: none had it
	Endpoint     string // chat_completions, completions
	Kind         string // stream, unary
	Status       string // success, error
	ErrorType    string // of an error: internal, validation, not_found, overload, cancelled
	Model        string // as the client called it
	FinishReason string // stop, length

	Duration float64 // from its arrival to its end
	Prefill  float64 // from its admission to its first token
	Decode   float64 // from its first token to its last

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

// FirstToken says that a request got its first token ttft seconds after it
// arrived, queued of which it waited for its worker to admit it.
func (e *Exporter) FirstToken(worker int, ttft, queued float64) {
	w := e.workers[worker]
	e.frontend.ttft.Observe(ttft)
	w.ttft.Observe(ttft)
	w.queue.Observe(queued)
	w.lastTTFT.set(ttft)
}

// Gap says that a token came seconds after the one before it.
func (e *Exporter) Gap(worker int, seconds float64) {
	w := e.workers[worker]
	e.frontend.gap.Observe(seconds)
	w.gap.Observe(seconds)
	w.lastGap.set(seconds)
}

// Finished says that a request is over, however it ended.
func (e *Exporter) Finished(f Finished) {
	known := f.Model == e.options.Model
	if !known {
		f.Model = unknownModel
	}
	e.frontend.finish(f, known)
	if f.Worker >= 0 {
		e.workers[f.Worker].finish(f)
	}
}

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
