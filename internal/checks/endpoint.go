package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/observe"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// EndpointOptions say what is validated and how. Target.URL and Point are
// required.
type EndpointOptions struct {
	Target load.TargetOptions
	Model  string // "": the only one that the server has

	NoReuse bool // a connection for every request

	Sources []observe.Source // the pages that are observed beside the load
	Period  time.Duration    // each is asked about once in it; 0: a second

	Workers int               // that should be there; 0: not known
	Names   map[string]string // of workers, by their id in decimal or their page's host:port

	Runtime, Chart string // versions behind it, as a snapshot of its cluster has them; "": not known

	Begun time.Time           // when the run began, where that was elsewhere and before; zero: now
	Point spec.OperatingPoint // the plan's
	Seed  uint64              // of the workload, each episode's being another part of it

	AnswerWithin time.Duration // for the first answers, all together; 0: 300 s
	Grace        time.Duration // for what is in flight when an episode's time is up; 0: 30 s

	Mask     *redact.Mask              // of all that the servers are told in confidence; nil: what Target has of that
	Host     fs.FS                     // this machine's file tree, for the engine's audit; nil: not audited
	Audit    func() []spec.BenchReason // what else makes an episode invalid, asked after each; nil: nothing
	Progress func(Progress)            // called some times a second under load; nil: nobody looks
	Note     func(text string)         // told what a person should know; nil: nobody listens
}

// Progress is how an episode goes.
type Progress struct {
	Episode int
	Point   spec.OperatingPoint
	load.Moment
	TokensPerS float64 // over about the last second
}

const (
	defaultAnswerWithin   = 300 * time.Second
	defaultGrace          = 30 * time.Second
	defaultPeriod         = time.Second
	defaultRequestTimeout = 300 * time.Second

	mostPatience  = 120 * time.Second
	patienceShare = 5
)

// patience is how long the first request is left alone: who asks a cold server again makes it
// colder, but one worker that hangs must leave time to reach the others.
func (e *Endpoint) patience() time.Duration {
	return min(mostPatience, e.o.AnswerWithin/patienceShare)
}

// Endpoint is a Target that exists: an OpenAI-compatible server, loaded over HTTP
// and observed by the metrics pages that are named.
type Endpoint struct {
	o       EndpointOptions
	begun   time.Time
	entries int64 // prompts to recycle; 0: all are unique
	mask    *redact.Mask
	names   *names

	// What the first answers showed.
	target   *load.Target
	probe    *load.Probe
	examined bool // it is known how the server counts; what it takes is known in any case
	tell     func(spec.Event) error
	answered int  // workers that were named in an answer
	named    bool // answers name who serves

	engines map[string]int // of each worker's page, by its address: the most that it told of

	mu   sync.Mutex
	told map[string]bool // notes, each of which is told once
}

// NewEndpoint finds everything that is wrong with the options, and touches
// nothing. The run's clock starts here, unless it runs already.
func NewEndpoint(o EndpointOptions) (*Endpoint, error) {
	var wrong []error
	e := &Endpoint{begun: o.Begun, names: &names{given: o.Names, learned: map[string]string{}, last: map[string]string{}},
		engines: map[string]int{}, told: map[string]bool{}}
	if e.begun.IsZero() {
		e.begun = time.Now()
	}
	o.AnswerWithin = cmp.Or(o.AnswerWithin, defaultAnswerWithin)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	o.Period = cmp.Or(o.Period, defaultPeriod)
	o.Point.RequestTimeout = cmp.Or(o.Point.RequestTimeout, defaultRequestTimeout.Seconds())
	p := &o.Point
	if t, err := load.NewTarget(o.Target); err != nil {
		wrong = append(wrong, err)
	} else if err := t.FitDescriptors(p.Concurrency); err != nil {
		wrong = append(wrong, err)
	}
	if p.Concurrency < 1 {
		wrong = append(wrong, fmt.Errorf("a concurrency of %d is below 1", p.Concurrency))
	}
	if p.DurationS <= 0 && p.Requests < 1 {
		wrong = append(wrong, errors.New("an episode has neither a duration nor a number of requests"))
	}
	if p.RampS < 0 || p.SentinelRate < 0 || p.RequestTimeout < 0 {
		wrong = append(wrong, errors.New("a ramp, a sentinel rate and a request time limit are not below 0"))
	}
	if p.Prompts != "" && p.Prompts != "unique" {
		n, err := strconv.ParseInt(p.Prompts, 10, 64)
		if err != nil || n < 1 {
			wrong = append(wrong, fmt.Errorf("prompts %q are neither unique nor a number of them", p.Prompts))
		}
		e.entries = n
	}
	e.o = o
	tried := e.workload(0)
	tried.Model = cmp.Or(tried.Model, "the server's own")
	if _, err := workload.Synthetic(tried); err != nil {
		wrong = append(wrong, err)
	}
	e.mask = cmp.Or(o.Mask, redact.NewMask(o.Target.Secrets()...))
	return e, errors.Join(wrong...)
}

// Now is the time since the run's start.
func (e *Endpoint) Now() time.Duration { return time.Since(e.begun) }

// restFor is how long the target and the client's machine are left alone before an
// episode is repeated.
const restFor = 15 * time.Second

// Rest waits for a while.
func (e *Endpoint) Rest(ctx context.Context) error {
	pause := time.NewTimer(restFor)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Begun is the run's start.
func (e *Endpoint) Begun() time.Time { return e.begun }

// workload is what an episode asks for. Another number is another part of the
// words, so that what a prefix cache has kept of one episode is of no use in the
// next.
func (e *Endpoint) workload(number int) workload.Spec {
	s := workload.Spec{
		Model: e.o.Model, Endpoint: e.o.Target.Endpoint,
		InputTokens:  workload.Length{Mean: e.o.Point.InputTokens},
		OutputTokens: workload.Length{Mean: e.o.Point.OutputTokens},
		Seed:         e.o.Seed + uint64(number), Entries: e.entries, Fields: workload.AllFields(),
	}
	if e.probe != nil {
		s.Model, s.Fields, s.Calibration = e.probe.Model, e.probe.Fields, e.probe.Calibration
	}
	return s
}

// note tells something once.
func (e *Endpoint) note(format string, args ...any) {
	text := e.clean(fmt.Sprintf(format, args...))
	e.mu.Lock()
	known := e.told[text]
	e.told[text] = true
	e.mu.Unlock()
	if e.o.Note != nil && !known {
		e.o.Note(text)
	}
}

// longestText bounds what of a server's words is kept.
const longestText = 300

// clean makes a server's words fit for a record: masked, cleaned, and then cut.
func (e *Endpoint) clean(text string) string {
	return redact.Cut(redact.Clean(e.mask.Foreign(text)), longestText)
}
