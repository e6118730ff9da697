package report

import (
	"cmp"
	"fmt"
	"slices"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// bench tells of one load run: what it measured, of whom, and whether the client may be
// believed.
func (t *textPage) bench(r *spec.Report) {
	b := r.Bench
	t.verdict(r.Verdict)
	t.target(spec.Target{Model: b.Target.Model, URL: b.Target.URL})
	t.benchRequests(&b.Requests)
	t.benchFigures("Measured", b.Figures)
	t.benchFigures("Sentinel, on a fixed schedule beside it", b.Sentinel)
	t.benchWorkers(b.Workers)
	t.benchClient(&b.Client)
	t.notes(b.Notes, r.Notes)
	if b.Command != "" {
		t.Blank()
		t.Line(2, "made by: ", b.Command)
	}
	for _, f := range b.Files {
		t.Line(2, "written: ", f)
	}
}

func (t *textPage) benchRequests(q *spec.BenchRequests) {
	counts := fmt.Sprintf("%s %s sent, %s served, %s failed", count(q.Sent), layout.Noun(q.Sent, "request"), count(q.Served), count(q.Failed))
	if q.Interrupted > 0 {
		counts += ", " + count(q.Interrupted) + " interrupted"
	}
	if q.Unsent > 0 {
		counts += ", " + count(q.Unsent) + " due and never sent"
	}
	t.Line(2, "", counts)
	for _, f := range q.Failures[:min(len(q.Failures), shownEvidence)] {
		t.Line(4, "", fmt.Sprintf("%s %s: %s", count(f.Count), layout.Clip(f.Class, longestPath), f.Message))
	}
	t.more(4, len(q.Failures)-shownEvidence)
}

// benchFigures has the rates first: they are one number, and no distribution.
func (t *textPage) benchFigures(title string, all []spec.BenchFigure) {
	if len(all) == 0 {
		return
	}
	t.Title(title)
	var rates, spreads []layout.Row
	for _, f := range all {
		if f.N == 0 && f.WithFailures == nil {
			rates = append(rates, layout.Row{Cells: []string{f.Name, optional(f.Mean), f.Unit}})
			continue
		}
		spreads = append(spreads, layout.Row{Cells: []string{f.Name, count(f.N), optional(f.Mean), optional(f.P50), optional(f.P99), optional(f.Max), f.Unit}})
		if f.WithFailures != nil {
			spreads = append(spreads, layout.Row{Cells: []string{"with failures", "", "", withFailures(f, "p50"), withFailures(f, "p99"), "", f.Unit}})
		}
	}
	if len(rates) > 0 {
		t.Table([]layout.Column{{}, {Right: true}, {}}, rates)
	}
	if len(rates) > 0 && len(spreads) > 0 {
		t.Blank()
	}
	if len(spreads) > 0 {
		t.Table([]layout.Column{{}, {Head: "n", Right: true}, {Head: "mean", Right: true}, {Head: "p50", Right: true}, {Head: "p99", Right: true},
			{Head: "max", Right: true}, {Head: "unit"}}, spreads)
	}
}

// withFailures is a percentile in which a failed request was infinitely slow.
func withFailures(f spec.BenchFigure, p string) string {
	switch v := f.WithFailures[p].(type) {
	case float64:
		return optional(&v)
	case string: // "inf"
		return "infinite"
	}
	return optional(nil)
}

// shownWorkers is how many workers the text has a row of.
const shownWorkers = 16

func (t *textPage) benchWorkers(all []spec.BenchWorker) {
	if len(all) == 0 {
		return
	}
	title := "Workers"
	if n := len(all); n > shownWorkers {
		title = fmt.Sprintf("The %d workers with the fewest tokens, of %d", shownWorkers, n)
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b spec.BenchWorker) int { return cmp.Compare(a.Tokens, b.Tokens) })
		all = all[:shownWorkers]
	}
	t.Title(title)
	var rows []layout.Row
	for _, w := range all {
		rows = append(rows, layout.Row{Cells: []string{w.Worker, count(w.Requests), count(w.Failed), count(w.Tokens), fmt.Sprintf("%.1f %%", 100*w.Share),
			optional(w.TTFT50MS), optional(w.ITLMS), optional(&w.MaxGapMS)}})
	}
	t.Table([]layout.Column{{Head: "worker"}, {Head: "requests", Right: true}, {Head: "failed", Right: true}, {Head: "tokens", Right: true},
		{Head: "share", Right: true}, {Head: "ttft p50 ms", Right: true}, {Head: "itl ms", Right: true}, {Head: "longest gap ms", Right: true}}, rows)
}

// benchClient tells whether the client was the limit.
func (t *textPage) benchClient(c *spec.BenchClient) {
	t.Title("Client")
	said := "not the limit"
	if !c.Valid {
		said = "the limit: the figures are of it, not of the server"
	}
	if c.InFlight != nil {
		said += "; " + optional(c.InFlight) + " in flight"
		if c.InFlightAsked > 0 {
			said += " of " + count(c.InFlightAsked) + " asked for"
		}
	} else {
		said += "; in flight not measured"
	}
	t.Line(2, "", said)
	for _, r := range c.Reasons {
		why := fmt.Sprintf("%s (%s)", layout.Clip(r.Text, longestPath), layout.Clip(r.ID, longestPath))
		if r.Hint != "" {
			why += ": " + r.Hint
		}
		t.Line(2, "- ", why)
	}
	t.Line(2, "", "sends late by "+lateness(c.SendLateness)+"; stamps by "+lateness(c.StampLag))
}

func lateness(s spec.BenchSpread) string {
	if s.N == 0 {
		return "an unknown time: none was measured"
	}
	return fmt.Sprintf("%s ms at p99, of %s", optional(&s.P99), count(s.N))
}
