package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/load/aiperf"
	"aicr/internal/load/metric"
	"aicr/internal/load/workload"
	"aicr/internal/redact"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/internal/stats"
)

// benchReport turns a run into its documents.
type benchReport struct {
	app    *app
	job    *benchJob
	target *load.Target
	probe  *load.Probe
	work   *workload.Workload
	res    *load.Result

	addresses map[uint64]string // of workers by their ids, where the frontend tells

	implausible string // why the tokens cannot be what the server claims
	exhausted   int    // requests that failed for want of a port or a file descriptor of the client
}

// options are those of the figures: AIPerf's, over the main stage.
func (r *benchReport) options() metric.Options {
	o := metric.Options{SLOs: r.job.goodput, Epoch: r.res.Epoch.UnixNano()}
	if r.job.replay == nil && r.job.options.outputStdDev == 0 {
		o.RequestedTokens = int32(r.job.options.output)
	}
	return o
}

func (r *benchReport) meta() aiperf.Meta {
	seed := r.job.spec.Seed
	id := fmt.Sprintf("%012x", uint64(r.res.Epoch.UnixNano())&0xffffffffffff)
	return aiperf.Meta{
		Version: r.app.env.Build.Version, BenchmarkID: id, Epoch: r.res.Epoch, CommandLine: r.app.commandLine("bench"), Seed: &seed,
		Cancelled: r.res.Interrupted,
		InputConfig: aiperf.Input{Model: r.probe.Model, URL: redact.URL(r.target.String()), Requests: r.job.main.Count,
			Concurrency: r.job.main.Users, Input: r.job.options.input, Output: r.job.options.output}.JSON(),
	}
}

// commandLine is how the command could be given again, without what is secret.
func (a *app) commandLine(command string) string {
	words := []string{"aicr", command}
	for _, s := range a.settings.all {
		if s.Source == FromDefault || s.Name == "run" || s.Name == "record" || s.Name == "report" { // where a run is kept is no part of it
			continue
		}
		values := s.List
		if values == nil {
			values = []string{s.Value}
		}
		for _, v := range values {
			words = append(words, "--"+s.Name+"="+layout.Quoted(a.secrets.known().Text(shownValue(s.Name, v))))
		}
	}
	return strings.Join(words, " ")
}

// document computes everything that is told of the run.
func (r *benchReport) document() *spec.Bench {
	opt := r.options()
	sum := metric.Summarize(r.res.Log, r.res.Gaps, opt)
	o := r.job.options
	clock := func(stamp int64) string { return r.res.Epoch.Add(time.Duration(stamp)).UTC().Format(time.RFC3339Nano) }
	d := &spec.Bench{
		Schema: spec.BenchSchema, Version: r.app.env.Build.Version, Command: r.app.commandLine("bench"),
		Start: clock(r.res.Main.Start), End: clock(r.res.Main.End),
		Target: spec.BenchTarget{URL: redact.URL(r.target.String()), Model: r.probe.Model, Wire: r.res.Wire,
			ResolveMS: millis(r.target.Resolve), FirstAnswerMS: millis(r.probe.FirstAnswer),
			ProbeRequests: r.probe.Requests, NamesWorkers: r.probe.Workers, Nagle: r.probe.Nagle.String(), Closes: r.probe.Closes},
		Workload: r.workload(sum),
		Schedule: spec.BenchSchedule{Concurrency: r.job.main.Users, RampS: r.job.main.Ramp.Seconds(), Rate: r.job.main.Rate,
			Count: r.job.main.Count, DurationS: r.job.main.Duration.Seconds(), WarmupCount: r.job.warmup.Count,
			SentinelRate: o.sentinel, NewConnection: o.reuse == neverReuse || r.probe.Closes},
		Requests: r.requests(sum),
		Figures:  slices.Concat(r.throughputs(), figures(sum), r.fromIntended()),
		Phases:   r.phases(),
		Workers:  r.workers(opt),
		Sentinel: r.sentinel(),
		Client:   r.client(),
	}
	for _, f := range r.probe.Refused {
		d.Target.Refused = append(d.Target.Refused, spec.BenchRefusal{Field: f.Field, Message: f.Message})
	}
	if r.job.main.Rate > 0 {
		d.Schedule.Pattern = r.job.main.Pattern.String()
		if r.job.main.Pattern == load.Gamma {
			d.Schedule.Smoothness = r.job.main.Smoothness
		}
	}
	if o.definitions {
		d.Rosetta = rosetta(metric.Rosetta(r.res.Log, r.res.Gaps, r.res.Choices, opt))
	}
	r.implausible = r.claims().Implausible()
	for _, rec := range metric.Select(r.res.Log, opt) {
		if rec.Has(load.Exhausted) {
			r.exhausted++
		}
	}
	d.Notes = r.notes(d, sum)
	d.Verdict, d.Reason = r.verdict(d)
	return d
}

// verdict is the answer that everything begins with. A client that was the
// limit says nothing about the server's speed, so INVALID comes before FAIL; but
// an error that the server itself told is no less true for being read late, and
// where nothing was served there is no speed to be wrong about. What the server
// cannot have sent, or was not asked for, makes every figure its mere word.
func (r *benchReport) verdict(d *spec.Bench) (spec.State, string) {
	q := d.Requests
	allowed := r.job.options.errorShare * float64(q.Sent)
	told := 0
	for _, c := range []load.Class{load.HTTPStatus, load.ErrorEvent, load.NoTokens, load.BadStream} {
		told += q.Classes[c.String()]
	}
	switch {
	case r.res.Interrupted:
		return spec.Inconclusive, fmt.Sprintf("interrupted after %d requests, %d of them served", q.Sent, q.Served)
	case r.res.Unsolicited > 0:
		return spec.Invalid, d.Client.Reasons[0].Text
	case r.implausible != "":
		return spec.Invalid, "the server counts tokens that it did not send: " + r.implausible
	case q.Served == 0 && q.Failed > r.exhausted:
		return spec.Fail, fmt.Sprintf("none of %d requests was served", q.Sent)
	case !d.Client.Valid && float64(told) > allowed:
		return spec.Fail, fmt.Sprintf("%d of %d requests failed by the server's own word; the figures of the rest are invalid: %s", told, q.Sent, d.Client.Reasons[0].Text)
	case !d.Client.Valid:
		return spec.Invalid, "the client was the limit: " + d.Client.Reasons[0].Text
	case q.Sent == 0:
		return spec.Inconclusive, "no request was sent"
	case q.Served == 0 && q.Failed == 0:
		return spec.Inconclusive, fmt.Sprintf("none of %d requests had been answered when the time was up", q.Sent)
	case q.Served == 0:
		return spec.Inconclusive, fmt.Sprintf("none of %d requests could be sent", q.Sent)
	case float64(q.Failed) > allowed:
		return spec.Fail, fmt.Sprintf("%d of %d requests failed", q.Failed, q.Sent)
	case float64(q.SentinelFailed) > r.job.options.errorShare*float64(q.SentinelSent):
		return spec.Fail, fmt.Sprintf("%d of %d sentinel requests failed", q.SentinelFailed, q.SentinelSent)
	case q.Interrupted > 0 && r.job.options.grace > 0:
		// They outlived the end of the sending by the whole grace period: a server
		// that stalls must not pass for that.
		return spec.Inconclusive, fmt.Sprintf("%d of %d requests were unanswered when the grace period of %s ended",
			q.Interrupted, q.Sent, time.Duration(r.job.options.grace))
	case q.Interrupted > 0:
		return spec.Pass, fmt.Sprintf("%d of %d requests served; %d failed, %d cut off when the time was up", q.Served, q.Sent, q.Failed, q.Interrupted)
	case q.Failed > 0:
		return spec.Pass, fmt.Sprintf("%d of %d requests served; %d failed, which --max-error-share allows", q.Served, q.Sent, q.Failed)
	}
	return spec.Pass, fmt.Sprintf("all %d requests served", q.Sent)
}

// claims holds what the server counts against what came.
func (r *benchReport) claims() *judge.Claims {
	var c judge.Claims
	for rec := range r.res.Log.All() {
		if rec.Phase == load.Warmup {
			continue
		}
		q := rec.Request(0, "")
		c.Add(&q, int(rec.Asked))
	}
	return &c
}

func (r *benchReport) workload(sum *metric.Summary) spec.BenchWorkload {
	w := spec.BenchWorkload{Prompts: r.work.Kind(), Seed: r.job.spec.Seed, SHA256: r.work.Hash(), Tokens: "usage"}
	if sum.Uncounted > 0 {
		w.Tokens = "chunks"
	}
	length := func(tag string, asked int) spec.BenchCount {
		var c spec.BenchCount
		if r.job.replay == nil {
			c.Asked = pointer(float64(asked))
		}
		if f, ok := sum.Get(tag); ok {
			c.Observed, c.Min, c.Max = pointer(f.Avg), pointer(f.Min), pointer(f.Max)
		}
		return c
	}
	w.Input = length("usage_prompt_tokens", r.job.options.input)
	w.Output = length("output_sequence_length", r.job.options.output)
	if f, ok := sum.Get("overall_usage_prompt_cache_read_pct"); ok {
		w.Input.Cached = pointer(f.Avg / 100)
	}
	var counted, chunks int64
	for _, rec := range metric.Select(r.res.Log, r.options()) {
		if !rec.OK() || !rec.Has(load.HasUsage) {
			continue
		}
		counted += int64(rec.CompletionTokens)
		chunks += int64(rec.Chunks)
		if rec.CompletionTokens < rec.Chunks {
			w.Undercounted++
		}
	}
	if chunks > 0 {
		w.TokensPerChunk = pointer(float64(counted) / float64(chunks))
	}
	return w
}

func (r *benchReport) requests(sum *metric.Summary) spec.BenchRequests {
	q := spec.BenchRequests{Sent: sum.Requests, Unsent: r.res.Main.Unsent, Failed: sum.Failed, Interrupted: sum.Interrupted,
		Served: sum.Requests - sum.Failed - sum.Interrupted, Classes: map[string]int{}}
	for c, n := range sum.Classes {
		q.Classes[c.String()] = n
	}
	for rec := range r.res.Log.All() {
		if rec.Lane != load.Sentinel || rec.Class == load.Interrupt {
			continue
		}
		q.SentinelSent++
		if !rec.OK() {
			q.SentinelFailed++
		}
	}
	for _, rec := range metric.Select(r.res.Log, r.options()) {
		if rec.Has(load.Resent) {
			q.Resent++
		}
	}
	type key struct {
		class  load.Class
		status uint16
		detail int32
	}
	counts := map[key]int{}
	for _, rec := range metric.Select(r.res.Log, r.options()) {
		if !rec.OK() && rec.Class != load.Interrupt {
			counts[key{rec.Class, rec.Status, rec.Detail}]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b key) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.class, b.class), cmp.Compare(a.detail, b.detail))
	})
	for _, k := range keys[:min(len(keys), 20)] {
		q.Failures = append(q.Failures, spec.BenchFailure{Class: k.class.String(), Status: int(k.status),
			Message: r.res.Log.Details[k.detail], Count: counts[k]})
	}
	return q
}

// figures are those that people look at, under plain names. The AIPerf export
// has them all.
func figures(sum *metric.Summary) []spec.BenchFigure {
	failing := map[string]metric.Distribution{}
	if sum.Failed > 0 {
		for _, f := range sum.WithFailures {
			failing[f.Tag] = f.Distribution
		}
	}
	var all []spec.BenchFigure
	for _, f := range []struct{ tag, name string }{
		{"output_token_throughput", "output throughput"},
		{"request_throughput", "request throughput"},
		{"goodput", "goodput"},
		{"time_to_first_token", "time to first token"},
		{"inter_token_latency", "inter-token latency"},
		{"inter_chunk_latency", "gap between chunks"},
		{"request_latency", "request latency"},
	} {
		d, ok := sum.Get(f.tag)
		with, failed := failing[f.tag]
		if !ok && !failed {
			continue
		}
		fig := figure(f.name, d)
		if !ok {
			fig = spec.BenchFigure{Name: f.name, Unit: with.Unit}
		}
		fig.Approximate = f.tag == "inter_chunk_latency" && sum.ApproximateGaps
		if failed {
			fig.WithFailures = map[string]any{"p50": finite(with.P50), "p90": finite(with.P90), "p99": finite(with.P99)}
		}
		all = append(all, fig)
	}
	return all
}

// mostJudged is of how many requests the judge's throughput is worked out, which takes
// them all at once.
const mostJudged = 500_000

// throughputs are those of a closed loop as a validation of the same load measures and
// names them. AIPerf's own, the output throughput, is of the whole run, its start and its
// end too, and without the sentinel.
func (r *benchReport) throughputs() []spec.BenchFigure {
	if r.job.main.Rate > 0 || r.res.Log.Len() > mostJudged {
		return nil
	}
	point := spec.OperatingPoint{Concurrency: r.job.main.Users, RampS: r.job.main.Ramp.Seconds(), DurationS: r.job.main.Duration.Seconds()}
	if r.job.main.Count > 0 || point.DurationS == 0 {
		point.DurationS = time.Duration(r.res.Main.Dry - r.res.Main.Start).Seconds()
	}
	e := &spec.EpisodeRecord{Requests: slices.Collect(r.records)}
	e.Episode = *judge.Summarize(&judge.Record{Number: 1, Point: point, Requests: e.Requests})
	limits, _ := spec.DefaultThresholds(spec.ProfileStandard)
	return slices.DeleteFunc(judge.ThroughputOf(e, &limits), func(f spec.BenchFigure) bool { return f.Mean == nil })
}

// fromIntended is the latency of the served requests from the time at which the
// schedule wanted them sent. AIPerf's effective_latency, which is in its export,
// has the failed ones in it with the time at which they failed: a server that
// refuses at once would look quick.
func (r *benchReport) fromIntended() []spec.BenchFigure {
	var values []float64
	failed := 0
	for rec := range r.res.Log.All() {
		switch {
		case rec.Phase == load.Warmup || rec.Lane == load.Sentinel:
		case rec.OK():
			values = append(values, float64(rec.End-rec.Intended)/1e6)
		case rec.Class != load.Interrupt:
			failed++
		}
	}
	if len(values)+failed == 0 {
		return nil
	}
	return []spec.BenchFigure{judge.Described("latency from intended send", values, failed)}
}

func figure(name string, d metric.Distribution) spec.BenchFigure {
	return spec.BenchFigure{Name: name, Unit: d.Unit, N: d.N, Mean: pointer(d.Avg), P50: pointer(d.P50), P90: pointer(d.P90),
		P95: pointer(d.P95), P99: pointer(d.P99), Min: pointer(d.Min), Max: pointer(d.Max)}
}

// finite makes a number fit for JSON, which has no infinity.
func finite(v float64) any {
	if math.IsInf(v, 1) {
		return "inf"
	}
	return v
}

func pointer(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func (r *benchReport) phases() []spec.BenchPhase {
	counts := map[load.Phase]int{}
	for rec := range r.res.Log.All() {
		if rec.Lane != load.Sentinel {
			counts[rec.Phase]++
		}
	}
	var all []spec.BenchPhase
	for _, p := range []load.Phase{load.Warmup, load.Ramp, load.Steady, load.Drain} {
		all = append(all, spec.BenchPhase{Name: p.String(), Requests: counts[p]})
	}
	return all
}

// workers sums up what each worker did, where the server tells who served.
func (r *benchReport) workers(opt metric.Options) []spec.BenchWorker {
	type worker struct {
		spec.BenchWorker
		ttft []float64
		itl  []float64
	}
	by := map[uint64]*worker{}
	var total int64
	for _, rec := range metric.Select(r.res.Log, opt) {
		if !rec.Has(load.HasWorker) {
			continue
		}
		w := by[rec.Worker]
		if w == nil {
			w = &worker{BenchWorker: spec.BenchWorker{Worker: strconv.FormatUint(rec.Worker, 10)}}
			by[rec.Worker] = w
		}
		w.Requests++
		w.MaxGapMS = max(w.MaxGapMS, float64(rec.MaxGap)/1e6)
		if !rec.OK() {
			w.Failed++
			continue
		}
		w.Tokens += int64(rec.Tokens())
		total += int64(rec.Tokens())
		w.ttft = append(w.ttft, float64(rec.FirstContent-rec.Sent)/1e6)
		if n := rec.Tokens(); n > 1 {
			w.itl = append(w.itl, float64(rec.LastContent-rec.FirstContent)/1e6/float64(n-1))
		}
	}
	var all []spec.BenchWorker
	for _, id := range slices.Sorted(maps.Keys(by)) {
		w := by[id]
		if judge.IsInstanceID(w.Worker) {
			w.Shown = cmp.Or(r.addresses[id], "id "+w.Worker)
		}
		if total > 0 {
			w.Share = float64(w.Tokens) / float64(total)
		}
		if len(w.ttft) > 0 {
			slices.Sort(w.ttft)
			w.TTFT50MS = pointer(stats.Percentile(w.ttft, 50))
		}
		if len(w.itl) > 0 {
			w.ITLMS = pointer(stats.Mean(w.itl))
		}
		all = append(all, w.BenchWorker)
	}
	return all
}

// sentinel describes the requests that ran on a fixed schedule beside the
// closed loop: latencies from the intended send, which no stall can hide from.
func (r *benchReport) sentinel() []spec.BenchFigure {
	var first, whole []float64
	failed := 0
	for rec := range r.res.Log.All() {
		switch {
		case rec.Lane != load.Sentinel || rec.Class == load.Interrupt:
		case rec.OK():
			first = append(first, float64(rec.FirstContent-rec.Intended)/1e6)
			whole = append(whole, float64(rec.End-rec.Intended)/1e6)
		default:
			failed++
		}
	}
	if len(first)+failed == 0 {
		return nil
	}
	return []spec.BenchFigure{
		judge.Described("sentinel: first token from intended send", first, failed),
		judge.Described("sentinel: whole answer from intended send", whole, failed),
	}
}

func (r *benchReport) client() spec.BenchClient {
	a := &r.res.Audit
	c := spec.BenchClient{Valid: a.Valid(), InFlightAsked: a.Asked, InFlight: pointer(a.InFlight), Little: pointer(a.Little),
		SteadyS: a.Steady.Seconds(), SendLateness: spreadOf(a.Lateness), StampLag: spreadOf(a.StampLag), StampLagBy: a.LagBy,
		GCPauses: a.GCPauses, GCPauseMaxMS: millis(a.GCPauseMax), SchedLatencyP99MS: millis(a.SchedLag),
		CPUSeconds: a.CPU.Seconds(), Cores: a.Cores, CPUPressure: a.CPUPressure}
	for _, reason := range a.Reasons {
		c.Reasons = append(c.Reasons, spec.BenchReason{ID: reason.ID, Text: reason.Text, Hint: reason.Hint})
	}
	if t := a.Throttled; t != nil {
		c.ThrottledPeriods, c.ThrottledS = &t.Throttled, pointer(t.Time.Seconds())
	}
	var events, reads int64
	for rec := range r.res.Log.All() {
		if rec.Phase != load.Warmup {
			events += int64(rec.Events)
			reads += int64(rec.Reads)
		}
	}
	if reads > 0 {
		c.EventsPerRead = pointer(float64(events) / float64(reads))
	}
	return c
}

func spreadOf(s load.Spread) spec.BenchSpread {
	return spec.BenchSpread{N: s.N, P50: millis(s.P50), P99: millis(s.P99), Max: millis(s.Max)}
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// p99Needs is the least number of samples for which a 95 % interval of a p99
// exists, by order statistics.
const p99Needs = 441

// notes are what a reader of the figures must know to read them rightly.
func (r *benchReport) notes(d *spec.Bench, sum *metric.Summary) []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, f := range r.probe.Refused {
		add("the server refuses %s, so it was left out: %s", f.Field, f.Message)
	}
	if r.probe.Closes {
		add("the server closes each connection after its answer and does not say so: each request had a new one")
	}
	if n := d.Requests.Resent; n > 0 {
		add("%s", judge.ResentNote(n))
	}
	if r.probe.Nagle == load.NagleOn {
		add("the server leaves Nagle's algorithm on: clients that do not acknowledge at once see its first token some 40 ms late on a connection in use; this one does")
	}
	if d.Workload.Tokens == "chunks" {
		add("the server did not count the tokens of %d answers: they are counted as chunks, and no token figure is exact", sum.Uncounted)
	}
	if n := d.Workload.Undercounted; n > 0 {
		add("in %d answers the server counted fewer tokens than it sent events with content: its count is not to be trusted", n)
	}
	if t := d.Workload.TokensPerChunk; t != nil && *t > 1.02 {
		add("an event carried %.2f tokens on average: the gap between chunks is not one between tokens", *t)
	}
	if n, ok := r.work.Recycled(); ok {
		add("%d prompts were recycled: a prefix cache knows them after their first use", n)
	}
	if c := d.Workload.Input.Cached; c != nil && *c > 0.01 {
		add("%.0f %% of the prompt tokens came from the server's prefix cache", 100**c)
	}
	if w := d.Workload.Output; w.Asked != nil && w.Observed != nil && r.job.options.outputStdDev == 0 && math.Abs(*w.Observed-*w.Asked) > 0.02**w.Asked {
		add("answers had %.1f tokens where %.0f were asked", *w.Observed, *w.Asked)
	}
	if w := d.Workload.Input; w.Asked != nil && w.Observed != nil && r.job.options.inputStdDev == 0 && math.Abs(*w.Observed-*w.Asked) > 0.05**w.Asked {
		add("prompts had %.1f tokens where %.0f were asked", *w.Observed, *w.Asked)
	}
	if n := r.res.Main.Unsent; n > 0 {
		add("%s requests were due and never sent: %d were in flight, which is as many as was allowed", layout.Number(float64(n)), r.job.main.Users)
	}
	if served := d.Requests.Served; served > 0 && served < p99Needs {
		add("%d served requests are too few to say how sure a p99 is: %d more are needed", served, p99Needs-served)
	}
	if !sum.Swept && sum.Requests > 0 {
		add("%s requests are too many for the figures over step functions of time (effective_*, active_*): not computed", layout.Number(float64(sum.Requests)))
	}
	notes = append(notes, r.work.Notes()...)
	if r.job.options.demo {
		add("the endpoint was a simulated fleet inside this program, and its CPU time is counted here")
	}
	return notes
}

func rosetta(t metric.Table) []spec.BenchRosetta {
	var all []spec.BenchRosetta
	for _, row := range t.Rows {
		all = append(all, spec.BenchRosetta{Measure: string(row.Measure), Tool: string(row.Tool), Name: row.Name, Definition: row.Definition,
			Unit: row.Unit, Mean: pointer(row.Mean), P50: pointer(row.P50), P99: pointer(row.P99), Rank: row.Rank, Caveat: row.Caveat})
	}
	return all
}
