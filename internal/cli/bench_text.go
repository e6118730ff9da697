package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// printBench writes the product: the answer first.
func (a *app) printBench(d *spec.Bench, o *benchOptions) error {
	if o.format == outputJSON {
		return a.printJSON(d)
	}
	if a.quiet {
		_, err := fmt.Fprintln(a.env.Stdout, report.Line(&spec.Report{Verdict: &spec.Verdict{Verdict: d.Verdict, Reason: d.Reason}}))
		return err
	}
	var b bytes.Buffer
	writeBench(&b, d, a.stdoutPalette())
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

func writeBench(b *bytes.Buffer, d *spec.Bench, paint layout.Palette) {
	word := paint.Yellow
	switch d.Verdict {
	case spec.Pass:
		word = paint.Green
	case spec.Fail, spec.Invalid:
		word = paint.Red
	case spec.Inconclusive, spec.Skip, spec.NotJudged:
	}
	verdict := string(d.Verdict)
	hang := len(verdict) + 2
	writeHanging(b, word(verdict)+"  ", hang, wrap(d.Reason, textColumns-hang))
	about := []string{d.Target.Model + " at " + d.Target.URL, scheduleText(d.Schedule), elapsedText(d)}
	writeHanging(b, strings.Repeat(" ", hang), hang, fill(about, textColumns-hang))

	writeRates(b, d.Figures, paint)
	writeTable(b, append(timed(d.Figures), d.Sentinel...))
	writeFailures(b, d, paint)
	writeWorkers(b, d)
	writeRosetta(b, d, paint)

	b.WriteByte('\n')
	entry := func(name string, lines ...string) {
		writeHanging(b, fmt.Sprintf("  %-10s", name), entryColumn, lines)
	}
	entry("tokens", fill(tokensText(d.Workload), entryColumns)...)
	entry("prompts", fmt.Sprintf("%s, seed %d, sha256 %s", d.Workload.Prompts, d.Workload.Seed, d.Workload.SHA256[:min(16, len(d.Workload.SHA256))]))
	entry("phases", phasesText(d.Phases))
	entry("client", clientText(d.Client, paint)...)
	entry("", machineText(d.Client, d.Target.Wire)...)
	for _, r := range d.Client.Reasons {
		why := wrap(fmt.Sprintf("%s (%s)", r.Text, r.ID), entryColumns-2)
		if r.Hint != "" {
			why = append(why, wrap(r.Hint, entryColumns-2)...)
		}
		writeHanging(b, strings.Repeat(" ", entryColumn)+paint.Red("✗")+" ", entryColumn+2, why)
	}
	for _, n := range d.Notes {
		entry("note", wrap(n, entryColumns)...)
	}
	if len(d.Files) > 0 {
		entry("written", d.Files...) // a line each: paths are copied
	}
}

// The summary is set for a window of some hundred columns, and is the same for
// every reader: what is compared between runs should not depend on a window.
const (
	textColumns  = 100
	entryColumn  = 12 // where what is told of a thing begins
	entryColumns = textColumns - entryColumn
)

// writeHanging writes lines, the first after a lead and the others below it.
func writeHanging(b *bytes.Buffer, lead string, hang int, lines []string) {
	for _, line := range lines {
		b.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", hang)
	}
}

// fill puts parts on lines, as many on each as fit.
func fill(parts []string, columns int) []string {
	var lines []string
	line := ""
	for _, p := range parts {
		switch {
		case p == "":
		case line == "":
			line = p
		case layout.Width(line)+layout.Width(" · ")+layout.Width(p)+layout.Width(" ·") > columns:
			lines = append(lines, line+" ·")
			line = p
		default:
			line += " · " + p
		}
	}
	return append(lines, line)
}

// writeRates writes the figures that are one number.
func writeRates(b *bytes.Buffer, all []spec.BenchFigure, paint layout.Palette) {
	first := true
	for _, f := range all {
		if f.N > 0 || f.Mean == nil {
			continue
		}
		if first {
			b.WriteByte('\n')
			first = false
		}
		fmt.Fprintf(b, "  %-20s %s %s\n", f.Name, paint.Bold(layout.Number(*f.Mean)), f.Unit)
	}
}

func scheduleText(s spec.BenchSchedule) string {
	var t string
	switch {
	case s.Rate > 0 && s.Concurrency > 0:
		t = fmt.Sprintf("%s requests/s (%s), at most %d in flight", layout.Number(s.Rate), s.Pattern, s.Concurrency)
	case s.Rate > 0:
		t = fmt.Sprintf("%s requests/s (%s)", layout.Number(s.Rate), s.Pattern)
	default:
		t = fmt.Sprintf("%d in flight", s.Concurrency)
	}
	if s.SentinelRate > 0 {
		t += fmt.Sprintf(", sentinel at %s/s", layout.Number(s.SentinelRate))
	}
	return t
}

func elapsedText(d *spec.Bench) string {
	start, err1 := time.Parse(time.RFC3339Nano, d.Start)
	end, err2 := time.Parse(time.RFC3339Nano, d.End)
	if err1 != nil || err2 != nil {
		return ""
	}
	return end.Sub(start).Round(100 * time.Millisecond).String()
}

func timed(all []spec.BenchFigure) []spec.BenchFigure {
	var some []spec.BenchFigure
	for _, f := range all {
		if f.N > 0 || f.WithFailures != nil {
			some = append(some, f)
		}
	}
	return some
}

// writeTable writes the figures that are distributions, each column as wide as
// what is in it.
func writeTable(b *bytes.Buffer, all []spec.BenchFigure) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{{"", "mean", "p50", "p90", "p99", "max", "n"}}
	for _, f := range all {
		rows = append(rows, []string{f.Name, ms(f.Mean), ms(f.P50), ms(f.P90), ms(f.P99), ms(f.Max), layout.Number(float64(f.N))})
		if f.WithFailures == nil {
			continue
		}
		with := func(p string) string {
			switch v := f.WithFailures[p].(type) {
			case float64:
				return ms(&v)
			case string:
				return "∞"
			}
			return "–"
		}
		rows = append(rows, []string{"  with failures", "", with("p50"), with("p90"), with("p99"), "", ""})
	}
	b.WriteByte('\n')
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			widths[i] = max(widths[i], layout.Width(c), 6)
		}
	}
	for _, cells := range rows {
		var line strings.Builder
		line.WriteString("  " + cells[0] + strings.Repeat(" ", widths[0]-layout.Width(cells[0])))
		for i, c := range cells[1:] {
			line.WriteString(strings.Repeat(" ", 2+widths[i+1]-layout.Width(c)) + c)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func writeFailures(b *bytes.Buffer, d *spec.Bench, paint layout.Palette) {
	if len(d.Requests.Failures) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  %s %d of %d\n", paint.Red("failed"), d.Requests.Failed, d.Requests.Sent)
	for _, f := range d.Requests.Failures {
		writeHanging(b, fmt.Sprintf("    %6d  %-11s  ", f.Count, f.Class), 25, wrap(f.Message, textColumns-25))
	}
}

func writeWorkers(b *bytes.Buffer, d *spec.Bench) {
	if len(d.Workers) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  %-22s %8s  %-22s %9s %9s %9s %7s\n", "worker", "requests", "share of tokens", "ttft p50", "itl", "max gap", "failed")
	for _, w := range d.Workers {
		fmt.Fprintf(b, "  %-22s %8d  %s %5.1f %% %9s %9s %9s %7d\n", w.Worker, w.Requests, bar(w.Share, 14), 100*w.Share,
			ms(w.TTFT50MS), ms(w.ITLMS), ms(&w.MaxGapMS), w.Failed)
	}
}

// writeRosetta writes two lines a tool: what it would print, and what it would
// mean by it.
func writeRosetta(b *bytes.Buffer, d *spec.Bench, paint layout.Palette) {
	if len(d.Rosetta) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  the same requests, as other tools would call and compute them\n")
	last := ""
	for _, r := range d.Rosetta {
		if r.Measure != last {
			head := r.Measure
			if r.Unit != "" && r.Unit != "ms" {
				head += ", " + r.Unit
			}
			line := fmt.Sprintf("    %-52s", head)
			if r.Unit == "ms" {
				line += fmt.Sprintf("  %8s  %8s  %8s", "mean", "p50", "p99")
			}
			fmt.Fprintf(b, "\n%s\n", paint.Bold(strings.TrimRight(line, " ")))
			last = r.Measure
		}
		var values strings.Builder
		for _, v := range []*float64{r.Mean, r.P50, r.P99} {
			switch {
			case v == nil:
			case r.Unit == "ms":
				fmt.Fprintf(&values, "  %8s", ms(v))
			default:
				fmt.Fprintf(&values, "  %8s", layout.Number(*v))
			}
		}
		name := r.Name
		if name == "" {
			name = "–"
		}
		fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("      %-21s %-28s%s", r.Tool, name, values.String()), " "))
		meaning := r.Definition
		if r.Caveat != "" {
			meaning += " [" + r.Caveat + "]"
		}
		for _, line := range wrap(meaning, textColumns-8) {
			fmt.Fprintf(b, "        %s\n", paint.Dim(line))
		}
	}
}

func tokensText(w spec.BenchWorkload) []string {
	part := func(name string, c spec.BenchCount) string {
		t := name
		if c.Asked != nil {
			t += fmt.Sprintf(" asked %s", layout.Number(*c.Asked))
		}
		switch {
		case c.Observed == nil && w.Tokens == "chunks":
			t += ", not counted by the server"
		case c.Observed == nil:
			t += ", none observed"
		case c.Min != nil && c.Max != nil && *c.Min != *c.Max:
			t += fmt.Sprintf(", observed %s (%s to %s)", layout.Number(*c.Observed), layout.Number(*c.Min), layout.Number(*c.Max))
		default:
			t += fmt.Sprintf(", observed %s", layout.Number(*c.Observed))
		}
		return t
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

func phasesText(phases []spec.BenchPhase) string {
	var parts []string
	for _, p := range phases {
		parts = append(parts, fmt.Sprintf("%s %d", p.Name, p.Requests))
	}
	return strings.Join(parts, " · ")
}

// clientText tells whether the client drove the load, and below it how late it
// was.
func clientText(c spec.BenchClient, paint layout.Palette) []string {
	first := paint.Green("✓") + " not the limit"
	if !c.Valid {
		first = paint.Red("✗") + " the limit"
	}
	switch {
	case c.InFlightAsked > 0 && c.InFlight != nil:
		first += fmt.Sprintf(" · held %.1f of %d in flight", *c.InFlight, c.InFlightAsked)
		if c.Little != nil {
			first += fmt.Sprintf(" (by Little's law %.1f)", *c.Little)
		}
	case c.InFlightAsked > 0:
		first += " · in flight not measured (no steady part)"
	case c.InFlight != nil:
		first += fmt.Sprintf(" · %.1f in flight", *c.InFlight)
	}
	return []string{first, fmt.Sprintf("sends late p50 %s p99 %s max %s · stamps late p99 %s by %s",
		ms(&c.SendLateness.P50), ms(&c.SendLateness.P99), ms(&c.SendLateness.Max), ms(&c.StampLag.P99), c.StampLagBy)}
}

// machineText tells what the load cost this machine, and below it what the
// machine did to the load.
func machineText(c spec.BenchClient, wire string) []string {
	cost := []string{wire}
	if c.EventsPerRead != nil {
		cost = append(cost, fmt.Sprintf("%.2f events a read", *c.EventsPerRead))
	}
	cost = append(cost, fmt.Sprintf("%.2f CPU-s on %d cores", c.CPUSeconds, c.Cores))

	harm := []string{"scheduling p99 " + ms(&c.SchedLatencyP99MS), "no GC pause", "never throttled", "CPU pressure not measured"}
	if c.GCPauses > 0 {
		harm[1] = fmt.Sprintf("%d GC pauses, max %s", c.GCPauses, ms(&c.GCPauseMaxMS))
	}
	switch {
	case c.ThrottledPeriods == nil || c.ThrottledS == nil:
		harm[2] = "throttling not measured"
	case *c.ThrottledPeriods > 0:
		harm[2] = fmt.Sprintf("throttled %s times, %s", layout.Number(float64(*c.ThrottledPeriods)), layout.Short(time.Duration(*c.ThrottledS*1e9)))
	}
	if c.CPUPressure != nil {
		harm[3] = fmt.Sprintf("CPU pressure %.0f %%", 100**c.CPUPressure)
	}
	return []string{strings.Join(cost, " · "), strings.Join(harm, " · ")}
}

// ms writes milliseconds with three significant digits.
func ms(v *float64) string {
	if v == nil {
		return "–"
	}
	return layout.Short(time.Duration(*v * 1e6))
}
