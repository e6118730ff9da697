package checks

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/load/http1"
	"aicr/internal/load/workload"
	"aicr/internal/observe"
	"aicr/internal/spec"
)

// Load loads the endpoint at a point. The observers begin a period before, so that
// every page is known when the load begins.
func (e *Endpoint) Load(ctx context.Context, number int, point spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	if point.RequestTimeout == 0 {
		point.RequestTimeout = e.o.Point.RequestTimeout
	}
	s := e.workload(number)
	s.Count = int64(point.Requests)
	work, err := workload.Synthetic(s)
	if err != nil {
		return nil, err
	}
	e.pages(ctx) // a worker that has restarted has another id
	watch := observe.StartClock()
	seen := &gathered{}
	// The sources are asked until the last answer is there, also when ctx ends.
	observer := observe.New(watch, e.o.Period, seen)
	observer.Set(context.WithoutCancel(ctx), e.o.Sources)
	closed := sync.OnceFunc(observer.Close)
	defer closed()
	if !wait(ctx, e.o.Period) {
		return nil, context.Cause(ctx)
	}

	plan := e.plan(number, point, work)
	if e.o.Audit != nil {
		e.o.Audit() // what went wrong between two episodes is in none of them
	}
	live := &load.Live{}
	follow := e.follow(number, point, live, watch)
	res, err := drive(ctx, plan, live)
	client := follow()
	if err != nil {
		return nil, err
	}
	closed()
	if err := e.pass(seen.events, watch); err != nil {
		return nil, err
	}
	return e.record(number, point, res, watch, append(seen.samples, client...)), nil
}

// plan is the load of a point.
func (e *Endpoint) plan(number int, point spec.OperatingPoint, work *workload.Workload) *load.Plan {
	p := &load.Plan{
		Target: e.target, Work: work, Sentinel: point.SentinelRate, Seed: e.o.Seed + uint64(number),
		Main:    load.Schedule{Users: point.Concurrency, Ramp: seconds(point.RampS), Count: int64(point.Requests)},
		Timeout: seconds(point.RequestTimeout), Grace: e.o.Grace, Host: e.o.Host,
		NoReuse: e.o.NoReuse || e.probe.Closes,
	}
	if point.Requests == 0 {
		p.Main.Duration = seconds(point.DurationS)
	}
	if point.Wave {
		p.Warmup = load.Schedule{Users: point.Concurrency, Count: int64(point.WaveRequests())}
	}
	return p
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// leaveWithin is how long an interrupted load is waited for. What is in flight then
// ends by itself, at the end of its grace or with the program: nobody looks at it.
const leaveWithin = 500 * time.Millisecond

// drive carries out a plan. When ctx ends, what was measured so far is lost.
func drive(ctx context.Context, plan *load.Plan, live *load.Live) (*load.Result, error) {
	type outcome struct {
		res *load.Result
		err error
	}
	over := make(chan outcome, 1)
	go func() {
		res, err := load.Run(ctx, plan, live)
		over <- outcome{res, err}
	}()
	select {
	case o := <-over:
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return o.res, o.err
	case <-ctx.Done():
	}
	t := time.NewTimer(leaveWithin)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
	}
	return nil, context.Cause(ctx)
}

// gathered keeps what the observer says. It is read when the observer is closed.
type gathered struct {
	samples []spec.Sample
	events  []spec.Event
}

func (g *gathered) Sample(s spec.Sample) { g.samples = append(g.samples, s) }
func (g *gathered) Event(e spec.Event)   { g.events = append(g.events, e) }

// pass tells what a log said, at the times at which it did.
func (e *Endpoint) pass(events []spec.Event, watch observe.Clock) error {
	for _, event := range events {
		event.T += watch.Start().Sub(e.begun).Seconds()
		event.Text = e.clean(event.Text)
		if err := e.tell(event); err != nil {
			return err
		}
	}
	return nil
}

// looksASecond is how often a load is looked at; every so many make a sample.
const looksASecond = 4

// follow looks at a load until it is told to stop, and gives what it looked like
// each second.
func (e *Endpoint) follow(number int, point spec.OperatingPoint, live *load.Live, watch observe.Clock) (stop func() []spec.Sample) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	var samples []spec.Sample
	looking.Go(func() {
		every := time.NewTicker(time.Second / looksASecond)
		defer every.Stop()
		var second load.Moment
		progress := Progress{Episode: number, Point: point, TokensPerS: math.NaN()}
		for n := 0; ; n++ {
			m, at := live.Now(), watch.Now()
			if n%looksASecond == 0 {
				samples = append(samples, spec.Sample{T: int64(at), Source: spec.SourceClient, Name: spec.SourceClient,
					Client: &spec.ClientSample{InFlight: int(m.InFlight), Sent: m.Sent, Ended: m.Done, Tokens: m.Tokens}})
				if d := m.Elapsed - second.Elapsed; n > 0 && d > 0 {
					progress.TokensPerS = float64(m.Tokens-second.Tokens) / d.Seconds()
				}
				second = m
			}
			if progress.Moment = m; e.o.Progress != nil {
				e.o.Progress(progress)
			}
			select {
			case <-over:
				return
			case <-every.C:
			}
		}
	})
	return func() []spec.Sample {
		close(over)
		looking.Wait()
		return samples
	}
}

// record puts what the engine and the observers saw on one clock, whose zero is the
// begin of the load, and sums it up.
func (e *Endpoint) record(number int, point spec.OperatingPoint, res *load.Result, watch observe.Clock, series []spec.Sample) *spec.EpisodeRecord {
	// Stamp 1 of the engine is its epoch. The first intended send keeps stamp 1: a
	// stamp of 0 says that a thing did not happen.
	zero := res.Main.Start - 1
	start := res.Epoch.Add(time.Duration(zero - 1))
	requests, waved := e.requests(res, zero)
	series = e.series(series, start.Sub(watch.Start()), waved)
	if point.Requests > 0 {
		point.DurationS = time.Duration(res.Main.Dry - res.Main.Start).Seconds()
	}
	sum := judge.Summarize(&judge.Record{Number: number, Start: start.UTC().Format(time.RFC3339Nano), Point: point,
		Requests: requests, Series: series, LagBy: res.Audit.LagBy})
	e.audit(&sum.Client, res)
	return &spec.EpisodeRecord{Episode: *sum, Requests: requests, Series: series}
}

// requests are the records of the load itself, with what the wave before it sent
// counted apart.
func (e *Endpoint) requests(res *load.Result, zero int64) ([]spec.Request, spec.ClientSample) {
	all := make([]spec.Request, 0, res.Log.Len())
	var waved spec.ClientSample
	details := make([]string, len(res.Log.Details))
	for i, text := range res.Log.Details {
		details[i] = e.clean(text)
	}
	behind := e.backends(res)
	for r := range res.Log.All() {
		if r.Phase == load.Warmup {
			waved.Sent++
			waved.Ended++
			waved.Tokens += int64(r.Chunks)
			continue
		}
		q := r.Request(zero, details[r.Detail])
		if r.Has(load.HasWorker) {
			q.Worker = e.names.ofID(r.Worker)
		} else if r.Has(load.HasBackend) {
			q.Worker = behind[r.Worker]
		}
		all = append(all, q)
	}
	return all, waved
}

// backends are the workers by what a proxy's headers call them, which is where their pages are
// or the name that these were given. There are none unless each worker has a page and every
// answer that was served names one of them: a proxy may name another proxy, or some of its
// servers otherwise.
func (e *Endpoint) backends(res *load.Result) map[uint64]string {
	known := map[uint64]string{}
	if e.workerPages() < e.o.Workers {
		return nil
	}
	for _, s := range e.o.Sources {
		if s.Kind != spec.SourceWorker || s.Reader == nil || e.engines[s.Address] > 1 {
			continue
		}
		name := e.names.ofPage(s.Labels.Name, s.Instance)
		known[http1.BackendID([]byte(s.Instance))] = name
		if s.Labels.Name != "" {
			known[http1.BackendID([]byte(s.Labels.Name))] = name
		}
	}
	for r := range res.Log.All() {
		if r.OK() && (!r.Has(load.HasBackend) || known[r.Worker] == "") {
			return nil
		}
	}
	return known
}

// series names the samples as answers name the workers and moves them to the
// episode's clock. What was said before the load is left out, but for why a value
// is not measured, which is said only once.
func (e *Endpoint) series(all []spec.Sample, by time.Duration, waved spec.ClientSample) []spec.Sample {
	slices.SortStableFunc(all, func(a, b spec.Sample) int { return int(min(1, max(-1, a.T-b.T))) })
	type thing struct{ source, name string }
	before := map[thing]spec.Sample{}
	proxies := map[string]bool{} // places of pages that were found to be of several processes
	for i := range all {
		if s := &all[i]; strings.HasPrefix(s.Gap, spec.GapProxy) {
			proxies[s.Instance] = true
		}
	}
	kept := make([]spec.Sample, 0, len(all))
	for _, s := range all {
		s.T -= int64(by)
		if s.Source == spec.SourceWorker && proxies[s.Instance] && !strings.HasPrefix(s.Gap, spec.GapProxy) {
			continue // it tells of another worker each time
		}
		if s.Source == spec.SourceWorker {
			s.Name = e.names.ofPage(s.Name, s.Instance)
		}
		if e.mask != nil {
			s = s.WithTexts(e.mask.Text)
		}
		s.Gap = e.clean(s.Gap)
		if c := s.Client; c != nil {
			c.Sent, c.Ended, c.Tokens = c.Sent-waved.Sent, c.Ended-waved.Ended, c.Tokens-waved.Tokens
		}
		key := thing{s.Source, s.Name}
		if s.T < 0 {
			if s.NotMeasured != nil || s.Derived != nil {
				before[key] = s
			}
			continue
		}
		if said, ok := before[key]; ok && s.Gap == "" {
			if s.NotMeasured == nil && s.Derived == nil {
				s.NotMeasured, s.Derived = said.NotMeasured, said.Derived
			}
			delete(before, key)
		}
		kept = append(kept, s)
	}
	return kept
}

// audit adds to the audit of the record what the engine knows of itself. Users who
// back off after a failed connection are not the client's shortfall, and only the
// engine can tell.
func (e *Endpoint) audit(c *spec.BenchClient, res *load.Result) {
	a := &res.Audit
	backedOff := false
	for r := range res.Log.All() {
		backedOff = backedOff || r.BackedOff() && !r.Has(load.Exhausted)
	}
	// The lag is the judge's to weigh, by the plan's limit: the engine's own is that of
	// a report of latencies.
	c.StampLag, c.StampLagBy, c.SendLateness = spread(a.StampLag), a.LagBy, spread(a.Lateness)
	limits, _ := spec.DefaultThresholds(spec.ProfileStandard)
	c.Reasons = judge.Audit(c, &limits)
	if backedOff {
		c.Reasons = slices.DeleteFunc(c.Reasons, func(r spec.BenchReason) bool { return r.ID == "client/under-driven" })
		c.InFlight, c.Little = number(a.InFlight), number(a.Little)
	}
	for _, r := range a.Reasons {
		if r.ID != "client/late" && !slices.ContainsFunc(c.Reasons, func(known spec.BenchReason) bool { return known.ID == r.ID }) {
			c.Reasons = append(c.Reasons, spec.BenchReason{ID: r.ID, Text: r.Text, Hint: r.Hint})
		}
	}
	if e.o.Audit != nil {
		c.Reasons = append(c.Reasons, e.o.Audit()...)
	}
	c.Valid = len(c.Reasons) == 0
	c.GCPauses, c.GCPauseMaxMS, c.SchedLatencyP99MS = a.GCPauses, milliseconds(a.GCPauseMax), milliseconds(a.SchedLag)
	c.CPUSeconds, c.Cores, c.CPUPressure = a.CPU.Seconds(), a.Cores, a.CPUPressure
	if t := a.Throttled; t != nil {
		throttled := t.Time.Seconds()
		c.ThrottledPeriods, c.ThrottledS = &t.Throttled, &throttled
	}
	var events, reads int64
	for r := range res.Log.All() {
		if r.Phase != load.Warmup {
			events, reads = events+int64(r.Events), reads+int64(r.Reads)
		}
	}
	if reads > 0 {
		c.EventsPerRead = number(float64(events) / float64(reads))
	}
}

func spread(s load.Spread) spec.BenchSpread {
	return spec.BenchSpread{N: s.N, P50: milliseconds(s.P50), P99: milliseconds(s.P99), Max: milliseconds(s.Max)}
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// number is a figure that exists, or nil.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
