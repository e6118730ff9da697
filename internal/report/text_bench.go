package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// bench tells of one load run: what it measured, of whom, and whether the client may be
// believed.
func (t *textPage) bench(r *spec.Report) {
	d, v := r.Bench, r.Verdict
	paint := t.State(v.Verdict)
	if v.Verdict == spec.Invalid {
		paint = t.Red // it is the client's fault, and there is something to do about it
	}
	verdict := word(string(v.Verdict))
	t.Line(0, paint(verdict)+"  ", v.Reason)
	t.parts(layout.Width(verdict)+2, "", benchTarget(d.Target), benchSchedule(d.Schedule), benchElapsed(d))

	t.benchRates(d.Figures)
	t.benchFigures(d)
	t.benchFailures(&d.Requests)
	t.benchWorkers(d.Workers)
	t.benchRosetta(d.Rosetta)

	t.Blank()
	t.entry("tokens", benchTokens(d.Workload)...)
	t.entry("prompts", fmt.Sprintf("%s, seed %d, sha256 %s", layout.Clip(d.Workload.Prompts, longestPath), d.Workload.Seed,
		d.Workload.SHA256[:min(16, len(d.Workload.SHA256))]))
	var phases []string
	for _, p := range d.Phases {
		phases = append(phases, fmt.Sprintf("%s %d", layout.Clip(p.Name, longestPath), p.Requests))
	}
	t.entry("phases", phases...)
	t.benchClient(&d.Client, d.Target.Wire)
	for _, n := range slices.Concat(d.Notes, r.Notes) {
		t.Line(2, "note      ", n)
	}
	for i, f := range d.Files { // a line each: paths are copied
		t.Line(2, []string{"written   ", "          "}[min(i, 1)], f)
	}
}

// entryColumn is where what is told of a thing begins.
const entryColumn = 12

func (t *textPage) entry(name string, parts ...string) {
	t.parts(2, fmt.Sprintf("%-*s", entryColumn-2, name), parts...)
}

// parts writes what there is of them behind a head, as many on a line as fit. A dot at
// a line's end says that it goes on.
func (t *textPage) parts(indent int, head string, all ...string) {
	all = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == "" })
	if len(all) == 0 {
		return
	}
	for i := range all {
		all[i] = layout.Shown(all[i], longestPath)
	}
	column := indent + layout.Width(head)
	for _, line := range layout.Filled(all, layout.Columns-column) {
		t.Line(indent, head, line)
		indent, head = column, ""
	}
}

// columns sets rows as they are where there is room, and otherwise so that cells go on
// below themselves. The first row is the head.
func (t *textPage) columns(right []bool, rows [][]string) {
	for _, cells := range rows {
		for i := range cells {
			cells[i] = layout.Shown(cells[i], longestPath)
		}
	}
	lines := layout.Aligned(rows, right)
	if !slices.ContainsFunc(lines, func(line string) bool { return layout.Width(line) > layout.Columns }) {
		fmt.Fprintln(t, strings.Join(lines, "\n"))
		return
	}
	set := make([]layout.Column, len(right))
	for i := range set {
		set[i] = layout.Column{Head: rows[0][i], Right: right[i]}
	}
	var table []layout.Row
	for _, cells := range rows[1:] {
		table = append(table, layout.Row{Cells: cells})
	}
	t.Table(set, table)
}

// nameIn is a name in so many columns: more, where it is longer, but no more than most.
func nameIn(name string, columns, most int) string {
	name = layout.Shown(name, longestPath)
	if layout.Width(name) > most {
		name = layout.Wrapped(name, most-1)[0] + "…"
	}
	return name + strings.Repeat(" ", max(0, columns-layout.Width(name)))
}

// longestName is how many columns a name may have where more is told behind it.
const longestName = 40

func benchTarget(of spec.BenchTarget) string {
	if of.Model == "" || of.URL == "" {
		return of.Model + of.URL
	}
	return layout.Clip(of.Model, longestPath/2) + " at " + of.URL
}

func benchSchedule(s spec.BenchSchedule) string {
	text := fmt.Sprintf("%d in flight", s.Concurrency)
	if s.Rate > 0 {
		text = fmt.Sprintf("%s requests/s (%s)", layout.Number(s.Rate), layout.Clip(s.Pattern, longestPath/2))
		if s.Concurrency > 0 {
			text += fmt.Sprintf(", at most %d in flight", s.Concurrency)
		}
	}
	if s.SentinelRate > 0 {
		text += fmt.Sprintf(", sentinel at %s/s", layout.Number(s.SentinelRate))
	}
	return text
}

func benchElapsed(d *spec.Bench) string {
	start, err1 := time.Parse(time.RFC3339Nano, d.Start)
	end, err2 := time.Parse(time.RFC3339Nano, d.End)
	if err1 != nil || err2 != nil {
		return ""
	}
	return end.Sub(start).Round(100 * time.Millisecond).String()
}

// isDistribution says whether a figure is of times, one a request. Others are rates, of
// which N counts the batches if anything.
func isDistribution(f *spec.BenchFigure) bool {
	return f.Unit == "ms" || f.P50 != nil || f.P90 != nil || f.P99 != nil || f.WithFailures != nil
}

// benchRates tells the figures that are one number.
func (t *textPage) benchRates(all []spec.BenchFigure) {
	first := true
	for _, f := range all {
		if isDistribution(&f) || f.Mean == nil {
			continue
		}
		if first {
			t.Blank()
			first = false
		}
		t.Line(2, nameIn(f.Name, 20, longestName)+" "+t.Bold(layout.Number(*f.Mean))+" ", f.Unit)
	}
}

// benchFigures tells the figures that are distributions.
func (t *textPage) benchFigures(d *spec.Bench) {
	rows := [][]string{{"      ", "  mean", "   p50", "   p90", "   p99", "   max", "     n"}}
	add := func(f spec.BenchFigure) {
		rows = append(rows, []string{f.Name, layout.Millis(f.Mean), layout.Millis(f.P50), layout.Millis(f.P90), layout.Millis(f.P99), layout.Millis(f.Max), count(f.N)})
		if f.WithFailures != nil {
			rows = append(rows, []string{"  with failures", "", withFailures(f, "p50"), withFailures(f, "p90"), withFailures(f, "p99"), "", ""})
		}
	}
	for _, f := range d.Figures {
		if isDistribution(&f) {
			add(f)
		}
	}
	for _, f := range d.Sentinel {
		add(f)
	}
	if len(rows) > 1 {
		t.Blank()
		t.columns([]bool{false, true, true, true, true, true, true}, rows)
	}
}

// withFailures is a percentile in which a failed request was infinitely slow.
func withFailures(f spec.BenchFigure, p string) string {
	switch v := f.WithFailures[p].(type) {
	case float64:
		return layout.Millis(&v)
	case string: // "inf"
		return "∞"
	}
	return layout.Millis(nil)
}

func (t *textPage) benchFailures(q *spec.BenchRequests) {
	if len(q.Failures) == 0 {
		return
	}
	t.Blank()
	t.Line(2, t.Red("failed")+" ", fmt.Sprintf("%d of %d", q.Failed, q.Sent))
	for _, f := range q.Failures {
		said := strings.Join(strings.Fields(layout.Clip(f.Message, longestLine)), " ") // some servers indent it
		t.Line(4, fmt.Sprintf("%6d  %s  ", f.Count, nameIn(f.Class, 11, longestName)), said)
	}
}

// shownBenchWorkers is how many workers are shown: a server may name each of its answers
// another.
const shownBenchWorkers = 128

func (t *textPage) benchWorkers(all []spec.BenchWorker) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{{fmt.Sprintf("%-21s", "worker"), "requests", "share of tokens", "ttft p50", "     itl", " max gap", "failed"}}
	for _, w := range first(all, shownBenchWorkers) {
		rows = append(rows, []string{w.Named(), strconv.Itoa(w.Requests), layout.Bar(w.Share, 14) + " " + sharePercent(w.Share),
			layout.Millis(w.TTFT50MS), layout.Millis(w.ITLMS), layout.Millis(&w.MaxGapMS), strconv.Itoa(w.Failed)})
	}
	t.Blank()
	t.columns([]bool{false, true, false, true, true, true, true}, rows)
	t.more(2, len(all)-shownBenchWorkers)
}

func sharePercent(share float64) string {
	if math.Abs(share) <= 10 {
		return fmt.Sprintf("%5.1f %%", 100*share)
	}
	return fmt.Sprintf("%5s %%", layout.Number(100*share)) // no share of anything
}

// benchRosetta has two lines a tool: what it would print, and what it would mean by it.
func (t *textPage) benchRosetta(all []spec.BenchRosetta) {
	if len(all) == 0 {
		return
	}
	t.Blank()
	t.Line(2, "", "the same requests, as other tools would call and compute them")
	last := ""
	for i, r := range all {
		timed := r.Unit == "ms"
		if i == 0 || r.Measure != last {
			head := nameIn(r.Measure, 0, longestName)
			if r.Unit != "" && !timed {
				head += ", " + nameIn(r.Unit, 0, longestName)
			}
			if timed {
				head = fmt.Sprintf("%s  %8s  %8s  %8s", nameIn(head, 52, 52), "mean", "p50", "p99")
			}
			t.Blank()
			fmt.Fprintln(t, strings.TrimRight("    "+t.Bold(strings.TrimRight(head, " ")), " "))
			last = r.Measure
		}
		name := r.Name
		if name == "" {
			name = "–"
		}
		var values strings.Builder
		for _, v := range []*float64{r.Mean, r.P50, r.P99} {
			switch {
			case v == nil:
			case timed:
				fmt.Fprintf(&values, "  %8s", layout.Millis(v))
			default:
				fmt.Fprintf(&values, "  %8s", layout.Number(*v))
			}
		}
		line := "      " + nameIn(r.Tool, 21, longestName) + " " + nameIn(name, 28, longestName) + values.String()
		if layout.Width(line) <= layout.Columns {
			fmt.Fprintln(t, strings.TrimRight(line, " "))
		} else {
			t.Line(6, "", strings.TrimLeft(line, " "))
		}
		meaning := layout.Clip(r.Definition, longestPath)
		if r.Caveat != "" {
			meaning += " [" + layout.Clip(r.Caveat, longestPath) + "]"
		}
		for _, line := range layout.Wrapped(layout.Clean(meaning), layout.Columns-8) {
			if line != "" {
				fmt.Fprintln(t, "        "+t.Dim(line))
			}
		}
	}
}

func benchTokens(w spec.BenchWorkload) []string {
	part := func(name string, c spec.BenchCount) string {
		text := name
		if c.Asked != nil {
			text += " asked " + layout.Number(*c.Asked)
		}
		switch {
		case c.Observed == nil && w.Tokens == "chunks":
			text += ", not counted by the server"
		case c.Observed == nil:
			text += ", none observed"
		case c.Min != nil && c.Max != nil && *c.Min != *c.Max:
			text += fmt.Sprintf(", observed %s (%s to %s)", layout.Number(*c.Observed), layout.Number(*c.Min), layout.Number(*c.Max))
		default:
			text += ", observed " + layout.Number(*c.Observed)
		}
		return text
	}
	by := ""
	switch {
	case w.Tokens == "chunks":
		by = "counted as chunks"
	case w.Input.Observed != nil || w.Output.Observed != nil:
		by = "the server's count"
	}
	return []string{part("input", w.Input), part("output", w.Output), by}
}

// benchClient tells whether the client drove the load; below it how late it was, what
// the load cost its machine, and what the machine did to the load.
func (t *textPage) benchClient(c *spec.BenchClient, wire string) {
	mark, said := t.Green("✓"), "not the limit"
	if !c.Valid {
		mark = t.Red("✗")
	}
	if c.Limited() {
		said = "the limit"
	}
	t.parts(2, "client    "+mark+" ", said, benchInFlight(c))
	t.entry("", lateness("sends", c.SendLateness, func(s spec.BenchSpread) string {
		return fmt.Sprintf("p50 %s p99 %s max %s", layout.Millis(&s.P50), layout.Millis(&s.P99), layout.Millis(&s.Max))
	}), lateness("stamps", c.StampLag, func(s spec.BenchSpread) string {
		return fmt.Sprintf("p99 %s by %s", layout.Millis(&s.P99), layout.Clip(c.StampLagBy, longestPath/2))
	}))
	reads := ""
	if c.EventsPerRead != nil {
		reads = fmt.Sprintf("%.2f events a read", *c.EventsPerRead)
	}
	t.entry("", wire, reads, fmt.Sprintf("%.2f CPU-s on %d cores", c.CPUSeconds, c.Cores))
	t.entry("", benchHarm(c)...)
	for _, r := range c.Reasons {
		t.Line(entryColumn, t.Red("✗")+" ", fmt.Sprintf("%s (%s)", layout.Clip(r.Text, longestPath), layout.Clip(r.ID, longestPath)))
		if r.Hint != "" {
			t.Line(entryColumn+2, "", r.Hint)
		}
	}
}

func benchInFlight(c *spec.BenchClient) string {
	switch {
	case c.InFlightAsked > 0 && c.InFlight != nil:
		text := fmt.Sprintf("held %.1f of %d in flight", *c.InFlight, c.InFlightAsked)
		if c.Little != nil {
			text += fmt.Sprintf(" (by Little's law %.1f)", *c.Little)
		}
		return text
	case c.InFlightAsked > 0:
		return "in flight not measured (no steady part)"
	case c.InFlight != nil:
		return fmt.Sprintf("%.1f in flight", *c.InFlight)
	}
	return ""
}

func lateness(of string, s spec.BenchSpread, how func(spec.BenchSpread) string) string {
	if s.N == 0 {
		return "lateness of " + of + " not measured"
	}
	return of + " late " + how(s)
}

// benchHarm is what the machine did to the load.
func benchHarm(c *spec.BenchClient) []string {
	pauses, throttled, pressure := "no GC pause", "never throttled", "CPU pressure not measured"
	if c.GCPauses > 0 {
		pauses = fmt.Sprintf("%d GC pauses, max %s", c.GCPauses, layout.Millis(&c.GCPauseMaxMS))
	}
	switch {
	case c.ThrottledPeriods == nil || c.ThrottledS == nil:
		throttled = "throttling not measured"
	case *c.ThrottledPeriods > 0:
		ms := 1e3 * *c.ThrottledS
		throttled = fmt.Sprintf("throttled %s times, %s", count(*c.ThrottledPeriods), layout.Millis(&ms))
	}
	if c.CPUPressure != nil {
		pressure = fmt.Sprintf("CPU pressure %.0f %%", 100**c.CPUPressure)
	}
	return []string{"scheduling p99 " + layout.Millis(&c.SchedLatencyP99MS), pauses, throttled, pressure}
}
