package cli

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"aicr/internal/spec"
)

// printBench writes the product: the answer first.
func (a *app) printBench(d *spec.Bench, o *benchOptions) error {
	if o.format == outputJSON {
		return a.printJSON(d)
	}
	var b bytes.Buffer
	writeBench(&b, d, a.stdoutPalette())
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

func writeBench(b *bytes.Buffer, d *spec.Bench, paint palette) {
	word := paint.yellow
	switch d.Verdict {
	case spec.Pass:
		word = paint.green
	case spec.Fail, spec.Invalid:
		word = paint.red
	case spec.Inconclusive, spec.Skip:
	}
	fmt.Fprintf(b, "%s  %s\n", word(string(d.Verdict)), d.Reason)
	fmt.Fprintf(b, "      %s at %s · %s · %s\n\n", d.Target.Model, d.Target.URL, scheduleText(d.Schedule), elapsedText(d))

	for _, f := range d.Figures {
		if f.N == 0 && f.Mean != nil {
			fmt.Fprintf(b, "  %-20s %s %s\n", f.Name, paint.bold(number(*f.Mean)), f.Unit)
		}
	}
	writeTable(b, append(timed(d.Figures), d.Sentinel...))
	writeFailures(b, d, paint)
	writeWorkers(b, d)
	writeRosetta(b, d)

	fmt.Fprintf(b, "\n  tokens    %s\n", tokensText(d.Workload))
	fmt.Fprintf(b, "  prompts   %s, seed %d, sha256 %s\n", d.Workload.Prompts, d.Workload.Seed, d.Workload.SHA256[:min(16, len(d.Workload.SHA256))])
	fmt.Fprintf(b, "  phases    %s\n", phasesText(d.Phases))
	fmt.Fprintf(b, "  client    %s\n", clientText(d.Client, paint))
	fmt.Fprintf(b, "            %s\n", machineText(d.Client, d.Target.Wire))
	for _, r := range d.Client.Reasons {
		fmt.Fprintf(b, "            %s %s (%s)\n", paint.red("✗"), r.Text, r.ID)
		if r.Hint != "" {
			fmt.Fprintf(b, "              %s\n", r.Hint)
		}
	}
	for _, n := range d.Notes {
		fmt.Fprintf(b, "  note      %s\n", n)
	}
	if len(d.Files) > 0 {
		fmt.Fprintf(b, "  written   %s\n", strings.Join(d.Files, ", "))
	}
}

func scheduleText(s spec.BenchSchedule) string {
	var t string
	switch {
	case s.Rate > 0 && s.Concurrency > 0:
		t = fmt.Sprintf("%s requests/s (%s), at most %d in flight", number(s.Rate), s.Pattern, s.Concurrency)
	case s.Rate > 0:
		t = fmt.Sprintf("%s requests/s (%s)", number(s.Rate), s.Pattern)
	default:
		t = fmt.Sprintf("%d in flight", s.Concurrency)
	}
	if s.SentinelRate > 0 {
		t += fmt.Sprintf(", sentinel at %s/s", number(s.SentinelRate))
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

func writeTable(b *bytes.Buffer, all []spec.BenchFigure) {
	if len(all) == 0 {
		return
	}
	row := func(name string, cells ...string) {
		line := fmt.Sprintf("  %-42s", name)
		for _, c := range cells {
			line += fmt.Sprintf(" %8s", c)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteByte('\n')
	row("", "mean", "p50", "p90", "p99", "max", "n")
	for _, f := range all {
		row(f.Name, ms(f.Mean), ms(f.P50), ms(f.P90), ms(f.P99), ms(f.Max), number(float64(f.N)))
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
		row("  with failures", "", with("p50"), with("p90"), with("p99"))
	}
}

func writeFailures(b *bytes.Buffer, d *spec.Bench, paint palette) {
	if len(d.Requests.Failures) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  %s %d of %d\n", paint.red("failed"), d.Requests.Failed, d.Requests.Sent)
	for _, f := range d.Requests.Failures {
		fmt.Fprintf(b, "    %6d  %-12s %s\n", f.Count, f.Class, f.Message)
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

func writeRosetta(b *bytes.Buffer, d *spec.Bench) {
	if len(d.Rosetta) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  the same requests, as other tools would call and compute them\n")
	last := ""
	for _, r := range d.Rosetta {
		if r.Measure != last {
			fmt.Fprintf(b, "    %s\n", r.Measure)
			last = r.Measure
		}
		value := func(v *float64) string {
			switch {
			case v == nil:
				return "–"
			case r.Unit == "ms":
				return ms(v)
			}
			return number(*v)
		}
		name := r.Name
		if name == "" {
			name = "(has none)"
		}
		fmt.Fprintf(b, "      %-21s %-28s mean %9s  p50 %9s  p99 %9s  %s", r.Tool, name, value(r.Mean), value(r.P50), value(r.P99), r.Definition)
		if r.Caveat != "" {
			fmt.Fprintf(b, " [%s]", r.Caveat)
		}
		b.WriteByte('\n')
	}
}

func tokensText(w spec.BenchWorkload) string {
	part := func(name string, c spec.BenchCount) string {
		t := name
		if c.Asked != nil {
			t += fmt.Sprintf(" asked %s", number(*c.Asked))
		}
		switch {
		case c.Observed == nil:
			t += ", not counted by the server"
		case c.Min != nil && c.Max != nil && *c.Min != *c.Max:
			t += fmt.Sprintf(", observed %s (%s to %s)", number(*c.Observed), number(*c.Min), number(*c.Max))
		default:
			t += fmt.Sprintf(", observed %s", number(*c.Observed))
		}
		return t
	}
	by := "the server's count"
	if w.Tokens == "chunks" {
		by = "counted as chunks"
	}
	return part("input", w.Input) + " · " + part("output", w.Output) + " · " + by
}

func phasesText(phases []spec.BenchPhase) string {
	var parts []string
	for _, p := range phases {
		parts = append(parts, fmt.Sprintf("%s %d", p.Name, p.Requests))
	}
	return strings.Join(parts, " · ")
}

func clientText(c spec.BenchClient, paint palette) string {
	mark := paint.green("✓ not the limit")
	if !c.Valid {
		mark = paint.red("✗ the limit")
	}
	parts := []string{mark}
	switch {
	case c.InFlightAsked > 0 && c.InFlight != nil:
		held := fmt.Sprintf("held %.1f of %d in flight", *c.InFlight, c.InFlightAsked)
		if c.Little != nil {
			held += fmt.Sprintf(" (by Little's law %.1f)", *c.Little)
		}
		parts = append(parts, held)
	case c.InFlightAsked > 0:
		parts = append(parts, "in flight not measured (no steady part)")
	case c.InFlight != nil:
		parts = append(parts, fmt.Sprintf("%.1f in flight", *c.InFlight))
	}
	parts = append(parts,
		fmt.Sprintf("sends late p50 %s p99 %s max %s", ms(&c.SendLateness.P50), ms(&c.SendLateness.P99), ms(&c.SendLateness.Max)),
		fmt.Sprintf("stamps late p99 %s by %s", ms(&c.StampLag.P99), c.StampLagBy))
	return strings.Join(parts, " · ")
}

func machineText(c spec.BenchClient, wire string) string {
	parts := []string{wire, fmt.Sprintf("%.2f CPU-s on %d cores", c.CPUSeconds, c.Cores)}
	if c.EventsPerRead != nil {
		parts = append(parts, fmt.Sprintf("%.2f events a read", *c.EventsPerRead))
	}
	parts = append(parts, fmt.Sprintf("%d GC pauses, max %s", c.GCPauses, ms(&c.GCPauseMaxMS)),
		fmt.Sprintf("scheduling p99 %s", ms(&c.SchedLatencyP99MS)))
	if c.ThrottledPeriods != nil {
		parts = append(parts, fmt.Sprintf("CPU quota throttled %d times, %.2f s", *c.ThrottledPeriods, *c.ThrottledS))
	} else {
		parts = append(parts, "CPU quota not measured")
	}
	if c.CPUPressure != nil {
		parts = append(parts, fmt.Sprintf("CPU pressure %.0f %%", 100**c.CPUPressure))
	} else {
		parts = append(parts, "CPU pressure not measured")
	}
	return strings.Join(parts, " · ")
}

// ms writes milliseconds with three significant digits.
func ms(v *float64) string {
	if v == nil {
		return "–"
	}
	return short(time.Duration(*v * 1e6))
}

// short writes a duration with three significant digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return digits(float64(d)/1e3) + "µs"
	case d < time.Second:
		return digits(float64(d)/1e6) + "ms"
	case d < time.Minute:
		return digits(d.Seconds()) + "s"
	}
	return d.Round(time.Second).String()
}

func digits(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// number writes a number for people: groups of thousands, and no more digits
// than it needs.
func number(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	if math.Abs(v) < 1000 && v != math.Trunc(v) {
		return digits(v)
	}
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}
