package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/report/layout"
)

// printKnee writes the product: the answer first.
func (a *app) printKnee(d *kneeDoc, format string) error {
	if format == outputJSON {
		return a.printJSON(d)
	}
	var b bytes.Buffer
	writeKnee(&b, d, a.stdoutPalette())
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

func writeKnee(b *bytes.Buffer, d *kneeDoc, paint layout.Palette) {
	word, tint := "NO KNEE", paint.Yellow
	answer := d.Reason
	if d.Knee != nil && d.Knee.Found {
		word = "KNEE"
		answer = kneeText(d.Knee, d.GPUs)
		if d.Known {
			tint = paint.Green
			answer += "; propose " + proposedText(d)
		} else {
			answer += "; " + d.Reason
		}
	}
	hang := len(word) + 2
	writeHanging(b, tint(word)+"  ", hang, wrap(answer, textColumns-hang))
	writeHanging(b, strings.Repeat(" ", hang), hang, layout.Filled(kneeAbout(d), textColumns-hang))
	writeLevels(b, d, paint)

	entry := func(name string, lines ...string) {
		writeHanging(b, fmt.Sprintf("  %-10s", name), entryColumn, lines)
	}
	if len(d.Levels) > 0 {
		b.WriteByte('\n')
	}
	if k := d.Knee; k != nil && k.Found {
		entry("knee", wrap(kneeReason(k), entryColumns)...)
		for _, o := range k.Opinions {
			says := "disagrees"
			if o.Agrees {
				says = "agrees"
			}
			entry("", wrap(fmt.Sprintf("%s %s: %s", o.By, says, o.Text), entryColumns)...)
		}
		if k.ClientLimited {
			entry("", paint.Yellow("above the highest level that counts, the client was the limit"))
		}
	}
	if d.Ended != "" && d.Known {
		entry("ended", wrap(d.Ended, entryColumns)...)
	}
	if text := moreText(d); text != "" {
		entry("more", wrap(text, entryColumns)...)
	}
	if text := queueText(d); text != "" {
		entry("queue", wrap(text, entryColumns)...)
	}
	resent := 0
	for _, l := range slices.Concat(d.Levels, d.Looks, d.Reference) {
		resent += l.Resent
	}
	if resent > 0 {
		entry("note", wrap(judge.ResentNote(resent), entryColumns)...)
	}
	writeProposal(entry, d)
	for _, line := range kneeNext(d) {
		entry("next", line) // on one line: commands are copied
	}
}

// queueText is from which load requests always wait in the engines' queues, and that the
// queues were not seen where nothing shows them.
func queueText(d *kneeDoc) string {
	full := judge.FullFrom(d.Levels)
	switch {
	case full != nil:
		return fmt.Sprintf("at %s in flight requests always wait in the engines' queues, %s on average: the engines take no more at once", layout.Number(float64(full.InFlight)), layout.Number(*full.Waiting))
	case len(d.Levels) > 0 && !slices.ContainsFunc(d.Levels, func(l judge.KneeLevel) bool { return l.Waiting != nil }):
		return "the engines' queues were not seen: --worker-metrics URL for each worker shows whether requests wait there"
	}
	return ""
}

// kneeText says where the knee is, or within what it cannot be told.
func kneeText(k *judge.Knee, gpus int) string {
	if !k.Vague || k.Low == nil || k.High == nil {
		return "about " + inFlightText(k.InFlight, gpus)
	}
	text := fmt.Sprintf("cannot tell within %s to %s in flight", layout.Number(math.Round(*k.Low)), layout.Number(math.Round(*k.High)))
	if gpus > 0 {
		text += fmt.Sprintf(" (%s to %s a GPU)", layout.Number(math.Round(*k.Low/float64(gpus))), layout.Number(math.Round(*k.High/float64(gpus))))
	}
	return text
}

// moreText is what more budget would buy.
func moreText(d *kneeDoc) string {
	k := d.Knee
	switch {
	case k == nil || !k.Vague:
		return ""
	case d.More == nil:
		return "more levels of this length would not tell it closer: give each more time with --level-duration"
	}
	takes := time.Duration(d.More.TakesS * float64(time.Second))
	budget := time.Duration(d.Budget.LevelsS*float64(time.Second)) + takes + time.Duration(d.Budget.KeptS*float64(time.Second))
	return fmt.Sprintf("about %s more, %s of load, would tell it within %.0f %%: --budget %s", layout.Plural(d.More.Levels, "level"), shortTime(takes), 100*d.More.Within,
		budget.Round(time.Minute)+time.Minute)
}

// inFlightText says a load of all GPUs and of one.
func inFlightText(n float64, gpus int) string {
	text := layout.Number(math.Round(n)) + " in flight"
	if gpus > 0 {
		text += fmt.Sprintf(" (%s a GPU)", layout.Number(math.Round(n/float64(gpus))))
	}
	return text
}

func proposedText(d *kneeDoc) string {
	p := d.Proposal
	text := fmt.Sprintf("%d in flight", p.InFlight)
	if d.GPUs > 0 {
		text = fmt.Sprintf("%d a GPU", p.PerGPU)
	}
	return fmt.Sprintf("%s: %s tokens/s ± %s", text, layout.Number(p.Reference.Throughput), percent((p.High-p.Low)/2/p.Reference.Throughput))
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// kneeAbout is what was loaded, and what that took.
func kneeAbout(d *kneeDoc) []string {
	what := d.Target.URL
	if d.Target.Simulated {
		what = fmt.Sprintf("%s, simulated, seed %d", d.Target.Scenario, d.Target.Seed)
	}
	return []string{what, fmt.Sprintf("%d tokens in, %d out", d.InputTokens, d.OutputTokens), layout.Plural(len(d.Levels), "level"),
		fmt.Sprintf("%s, %.0f GPU-minutes", shortTime(time.Duration(d.TookS*float64(time.Second))), d.GPUMinutes)}
}

func kneeReason(k *judge.Knee) string {
	scatter := fmt.Sprintf("; levels scatter around the curve by %s", percent(k.Scatter))
	if k.Low == nil || k.High == nil {
		return k.Reason + "; how sure that is could not be told" + scatter
	}
	return fmt.Sprintf("%s; between %s and %s with 95 %%%s", k.Reason, layout.Number(math.Round(*k.Low)), layout.Number(math.Round(*k.High)), scatter)
}

const kneeBar = 14

// writeLevels is the table, from the lowest level to the highest.
func writeLevels(b *bytes.Buffer, d *kneeDoc, paint layout.Palette) {
	if len(d.Levels) == 0 {
		return
	}
	levels := slices.Clone(d.Levels)
	slices.SortStableFunc(levels, func(x, y judge.KneeLevel) int { return cmp.Compare(x.InFlight, y.InFlight) })
	top := 0.0
	for _, l := range levels {
		if l.Throughput.Value != nil {
			top = max(top, *l.Throughput.Value)
		}
	}
	rows := [][]string{{"in flight", "a GPU", "held", "tokens/s", "±", "", "ttft p50", "p99", "goodput", "elasticity", "waiting", ""}}
	for _, l := range levels {
		row := []string{layout.Number(float64(l.InFlight)), "–", "–", "–", "–", strings.Repeat(" ", kneeBar), layout.Millis(l.TTFT50), layout.Millis(l.TTFT99), "–", "–", "–", ""}
		if d.GPUs > 0 {
			row[1] = layout.Number(math.Round(l.PerGPU))
		}
		if l.Held != nil {
			row[2] = layout.Number(math.Round(*l.Held))
		}
		if x := l.Throughput; x.Value != nil {
			row[3], row[5] = layout.Number(*x.Value), layout.Bar(*x.Value/top, kneeBar)
			if x.Low != nil && x.High != nil {
				row[4] = percent((*x.High - *x.Low) / 2 / *x.Value)
			}
		}
		if l.Goodput != nil {
			row[8] = percent(*l.Goodput)
		}
		if l.Elasticity != nil {
			row[9] = fmt.Sprintf("%.2f", *l.Elasticity)
		}
		if l.Waiting != nil {
			row[10] = layout.Number(*l.Waiting)
		}
		if l.NotUsed != "" {
			row[11] = "does not count: " + l.NotUsed
		}
		rows = append(rows, row)
	}
	b.WriteByte('\n')
	for i, line := range layout.Aligned(rows, []bool{true, true, true, true, true, false, true, true, true, true, true, false}) {
		if i == 0 {
			line = paint.Dim(line)
		}
		b.WriteString(line + "\n")
	}
}

// writeProposal says what is proposed, and why.
func writeProposal(entry func(string, ...string), d *kneeDoc) {
	p := d.Proposal
	if p == nil {
		return
	}
	at := fmt.Sprintf("%d in flight", p.InFlight)
	if d.GPUs > 0 {
		at = fmt.Sprintf("%d in flight a GPU, %s in all", p.PerGPU, layout.Number(float64(p.InFlight)))
	}
	name := "propose"
	if !d.Known { // it was not confirmed, or not measured
		name = "tried"
	}
	entry(name, wrap(at+": "+p.Why, entryColumns)...)
	if b := p.Doubling; b != nil {
		entry("", wrap(fmt.Sprintf("measured there: from %s to %s in flight throughput rises by 2^%.2f", layout.Number(float64(b.From)), layout.Number(float64(b.To)), b.Elasticity), entryColumns)...)
	}
	if p.Reference == nil {
		return
	}
	r := p.Reference
	entry("", wrap(fmt.Sprintf("reference %s tokens/s, between %s and %s with 95 %%: %d episodes, whose ln(throughput) scatters by %.3f",
		layout.Number(r.Throughput), layout.Number(p.Low), layout.Number(p.High), r.N, r.Dispersion), entryColumns)...)
	entry("", wrap(fmt.Sprintf("floor %s tokens/s: %s", layout.Number(p.Floor), p.FloorWhy), entryColumns)...)
	entry("", wrap(fmt.Sprintf("TTFT guardrail %s ms: %s", layout.Number(p.GuardrailMS), p.GuardrailWhy), entryColumns)...)
}

// kneeNext is what to do with it.
func kneeNext(d *kneeDoc) []string {
	switch {
	case d.Written != "":
		return []string{"aicr validate " + d.again + " --recipe " + layout.Quoted(d.Written)}
	case d.Known:
		return []string{"keep it as a recipe with --write FILE, and validate with it: aicr validate " + d.again + " --recipe FILE"}
	case d.Knee != nil && d.Knee.ClientLimited:
		return []string{"give the client more CPU, or run it nearer to the frontend, and look again"}
	case slices.ContainsFunc(d.Levels, func(l judge.KneeLevel) bool { return l.Failed > 0 && l.NotUsed != "" }):
		return []string{"find out why requests fail: aicr validate " + d.again}
	case d.Knee != nil && !d.Knee.Found && len(d.Levels) > 0:
		return []string{"allow more with --budget or --max-per-gpu, or begin lower with --first-per-gpu"}
	}
	return nil
}

// printKneeCost prints what would be loaded and what that takes, and loads nothing.
func (a *app) printKneeCost(j *kneeJob, format string) error {
	c := j.plan.Cost()
	if format == outputJSON {
		return a.printJSON(c)
	}
	var b bytes.Buffer
	paint := a.stdoutPalette()
	minutes := func(s float64) string { return shortTime(time.Duration(s * float64(time.Second))) }
	gpuMinutes := func(m float64) string {
		if j.plan.Point.Workers == 0 {
			return ""
		}
		return fmt.Sprintf(", %.0f GPU-minutes", m)
	}
	fmt.Fprintf(&b, "%s  about %s of load%s; at most about %s%s\n\n", paint.Bold("DRY RUN"), minutes(c.ExpectedS), gpuMinutes(c.ExpectedGPUMinutes), minutes(c.WorstS), gpuMinutes(c.WorstGPUMinutes))
	var rising []string
	for _, n := range c.Rising {
		rising = append(rising, fmt.Sprint(n))
	}
	entry := func(name string, lines ...string) {
		writeHanging(&b, fmt.Sprintf("  %-10s", name), entryColumn, lines)
	}
	unit := "a GPU"
	if j.plan.Point.Workers == 0 {
		unit = "in all: --workers is not given"
	}
	entry("rising", wrap(fmt.Sprintf("%s in flight %s, until the knee is passed by half", strings.Join(rising, ", "), unit), entryColumns)...)
	entry("around", wrap(fmt.Sprintf("levels between an eighth of the knee and half above it, about %d in all, until it is known within a tenth", c.ExpectedLevels), entryColumns)...)
	entry("each", fmt.Sprintf("%s of steady load, and longer where three requests take longer", layout.Loaded(j.plan.LevelS)))
	entry("reference", fmt.Sprintf("%d episodes of %s at the proposed point, and a look at half of it", c.ReferenceEpisodes, layout.Loaded(j.plan.ReferenceS)))
	entry("budget", wrap(fmt.Sprintf("%s: %s for levels, and %s kept for the reference", j.plan.Budget, shortTime(j.plan.Budget-time.Duration(c.KeptS*float64(time.Second))), shortTime(time.Duration(c.KeptS*float64(time.Second)))), entryColumns)...)
	entry("simulated", simulatedText(j)...)
	_, err := a.env.Stdout.Write(b.Bytes())
	return err
}

func simulatedText(j *kneeJob) []string {
	switch {
	case j.named == nil:
		return nil
	case j.options.realTime:
		return []string{"the fleet is served over HTTP and takes as long as a real one"}
	}
	return []string{"the fleet lives in virtual time: it costs no GPU, and some seconds here"}
}
