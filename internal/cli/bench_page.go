package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/report"
	"aicr/internal/spec"
	"aicr/internal/stats"
)

// report makes of a bench what every report is made from: one episode, without
// telemetry, of which nobody judges more than what came back.
func (r *benchReport) report(d *spec.Bench) *spec.Report {
	run := spec.Run{Schema: spec.RunSchema, ID: "bench " + r.res.Epoch.UTC().Format(time.RFC3339), Version: d.Version, Command: d.Command,
		Target: spec.Target{URL: d.Target.URL, Model: d.Target.Model}, Start: d.Start, End: d.End}
	b := report.NewBuilder(run, nil, nil)
	e := r.episode(d)
	b.Begin(e)
	for q := range r.records {
		b.Request(&q)
	}
	all := b.Report(r.judged(d, e))
	all.Bench = d
	all.Requests = func(yield func(spec.RequestOf, error) bool) {
		for q := range r.records {
			if !yield(spec.RequestOf{Episode: e.Number, Request: &q}, nil) {
				return
			}
		}
	}
	return all
}

// episode is the load of a bench.
func (r *benchReport) episode(d *spec.Bench) *spec.Episode {
	e := &spec.Episode{Schema: spec.EpisodeSchema, Number: 1, Start: d.Start, Figures: d.Figures, Workers: d.Workers, Client: d.Client,
		LoadedS: time.Duration(r.res.Main.End - r.res.Main.Start).Seconds(),
		Point: spec.OperatingPoint{Workers: len(d.Workers), Concurrency: d.Schedule.Concurrency, RampS: d.Schedule.RampS, DurationS: d.Schedule.DurationS,
			Requests: int(d.Schedule.Count), Prompts: d.Workload.Prompts, SentinelRate: d.Schedule.SentinelRate},
		Requests: spec.RequestCounts{Sent: d.Requests.Sent, Served: d.Requests.Served, Failed: d.Requests.Failed,
			Interrupted: d.Requests.Interrupted, Classes: d.Requests.Classes},
		Sentinel: spec.RequestCounts{Sent: d.Requests.SentinelSent, Failed: d.Requests.SentinelFailed,
			Served: d.Requests.SentinelSent - d.Requests.SentinelFailed, Classes: map[string]int{}},
	}
	if v := d.Workload.Input.Asked; v != nil {
		e.Point.InputTokens = int(*v)
	}
	if v := d.Workload.Output.Asked; v != nil {
		e.Point.OutputTokens = int(*v)
	}
	all := func(mean *float64) int64 {
		if mean == nil {
			return 0
		}
		return int64(math.Round(*mean * float64(d.Requests.Served)))
	}
	e.Tokens = spec.TokenCounts{Prompt: all(d.Workload.Input.Observed), Completion: all(d.Workload.Output.Observed)}
	return e
}

// records gives the requests of the main stage, on its clock.
func (r *benchReport) records(yield func(spec.Request) bool) {
	zero := r.res.Main.Start - 1 // as in a run: stamp 0 says that a thing did not happen
	for rec := range r.res.Log.All() {
		if rec.Phase == load.Warmup {
			continue
		}
		q := rec.Request(zero, r.res.Log.Details[rec.Detail])
		if rec.Has(load.HasWorker) {
			q.Worker = strconv.FormatUint(rec.Worker, 10)
		}
		if !yield(q) {
			return
		}
	}
}

// judged is what a bench can say in the words of a verdict: whether requests were
// served, and by a client that was not the limit.
func (r *benchReport) judged(d *spec.Bench, e *spec.Episode) *spec.Verdict {
	served := spec.Ledger{Name: spec.Integrity, State: d.Verdict, Reason: fmt.Sprintf("%d of %d requests were served", d.Requests.Served, d.Requests.Sent)}
	switch d.Verdict {
	case spec.Pass, spec.Fail, spec.Inconclusive:
	case spec.Invalid, spec.Skip, spec.NotJudged, spec.NotRun:
		served.State = spec.NotJudged
	}
	const measured = "a bench measures one load; aicr validate judges it"
	v := &spec.Verdict{Schema: spec.VerdictSchema, Verdict: d.Verdict, Reason: d.Reason, Profile: "bench", Episodes: 1, LoadedS: e.LoadedS, Notes: d.Notes,
		Ledgers: []spec.Ledger{served, {Name: spec.Capability, State: spec.NotJudged, Reason: measured}, {Name: spec.Stability, State: spec.NotJudged, Reason: measured}},
		Parts:   []spec.Part{{Episode: e.Number, Cut: e.Point.RampS, Counted: d.Client.Valid}},
	}
	for _, w := range d.Workers {
		if w.Shown != "" {
			if v.Names == nil {
				v.Names = map[string]string{}
			}
			v.Names[w.Worker] = w.Shown
		}
	}
	v.Expectations = []spec.Expected{r.failures(d)}
	for _, f := range d.Figures {
		switch f.Name {
		case judge.Throughput:
			v.Parts[0].Throughput = f.Mean
		case judge.GrossThroughput:
			v.Parts[0].Gross = f.Mean
		}
		if f.P99 == nil {
			v.Figures = append(v.Figures, spec.Figure{Name: f.Name, Value: f.Mean, N: cmp.Or(int(f.N), d.Requests.Served), Unit: f.Unit})
			continue
		}
		v.Figures = append(v.Figures, spec.Figure{Name: f.Name + ", p50", Value: f.P50, N: int(f.N), Unit: f.Unit},
			spec.Figure{Name: f.Name + ", p99", Value: f.P99, N: int(f.N), Unit: f.Unit})
	}
	v.Findings = r.found(d)
	return v
}

// failures is the one thing that is wanted of a bench.
func (r *benchReport) failures(d *spec.Bench) spec.Expected {
	want := fmt.Sprintf("<= %g", r.job.options.errorShare)
	x := spec.Expected{Name: "failed-requests", Want: want, Effective: want, N: d.Requests.Sent, Unit: "of requests", State: d.Verdict}
	if d.Requests.Sent == 0 {
		return x
	}
	share := float64(d.Requests.Failed) / float64(d.Requests.Sent)
	low, high := stats.ClopperPearson(d.Requests.Failed, d.Requests.Sent, 0.95)
	x.Value, x.Low, x.High = &share, &low, &high
	return x
}

// found are the causes that a bench can name: what the server said, and what held the
// client back.
func (r *benchReport) found(d *spec.Bench) (all []spec.Finding) {
	if d.Requests.Failed > 0 {
		f := spec.Finding{ID: "serving/errors", Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
			Summary: fmt.Sprintf("%d of %d requests failed", d.Requests.Failed, d.Requests.Sent), Advice: []string{"look at the server's log at the times of the failures: --report csv=FILE has them"}}
		if d.Verdict == spec.Pass {
			f.Severity = spec.SeverityNote
		}
		for _, e := range d.Requests.Failures {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%d times %s: %s", e.Count, e.Class, e.Message))
		}
		all = append(all, f)
	}
	if r.implausible != "" {
		all = append(all, spec.Finding{ID: "server/tokens-implausible", Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh,
			Summary:  "the server counts tokens that it did not send: " + r.implausible,
			Evidence: []string{"by the text of the answers, in bytes, and by what was asked for"}, Advice: []string{"read one answer and its usage with curl, and compare with the worker's own counter"}})
	}
	for _, reason := range d.Client.Reasons {
		f := spec.Finding{ID: reason.ID, Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh, Summary: reason.Text,
			Evidence: []string{"by the audit that the engine makes of itself"}}
		if reason.Hint != "" {
			f.Advice = []string{reason.Hint}
		}
		all = append(all, f)
	}
	return all
}
