package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// ticketBytes is what fits into a ticket: Jira takes 32,767 characters of a comment,
// GitHub 65,536, GitLab more.
const ticketBytes = 32_000

// Markdown tells a report to whoever reads a ticket.
func Markdown(w io.Writer, r *spec.Report) error {
	_, err := io.WriteString(w, markdownOf(r).within(ticketBytes))
	return err
}

// How much is listed before the rest is counted.
const (
	ticketRows     = 64 // of a table
	ticketFindings = 16
	ticketLines    = 12 // of evidence, of advice, of notes
	ticketStalls   = shownStalls
)

// How many bytes of somebody else's text are shown.
const (
	ticketCell     = 300
	ticketSentence = 1_000
	ticketCommand  = 4_000
)

// markdownPage is a page in parts that stay whole, however little of it there is room
// for.
type markdownPage struct{ parts []string }

func markdownOf(r *spec.Report) *markdownPage {
	p := &markdownPage{}
	switch {
	case r.Comparison != nil:
		p.comparison(r)
	case r.Bench != nil:
		p.judged(r)
		p.bench(r.Bench)
		p.environment(r, "Environment")
	default:
		p.judged(r)
		p.stalls(r.Verdict)
		p.figures(r.Verdict.Figures)
		p.notes("Notes", r.Verdict.Notes)
		if r.Trend != nil {
			p.notes("History", r.Trend.Lines)
		}
		p.environment(r, "Environment")
	}
	p.again(r)
	return p
}

// within is as much of the page as has room, and a sentence where that is not all. It is
// nothing where there is no room for the verdict, which is the first part.
func (p *markdownPage) within(most int) string {
	whole := strings.Join(p.parts, "")
	if len(whole) <= most {
		return whole
	}
	const cut = "\nCut here, since there is no more room. The html and json reports have all of it.\n"
	var b strings.Builder
	for _, part := range p.parts {
		if b.Len()+len(part)+len(cut) > most {
			break
		}
		b.WriteString(part)
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + cut
}

// add adds a part. No two lines in a row are empty.
func (p *markdownPage) add(format string, values ...any) {
	part := fmt.Sprintf(format, values...)
	if n := len(p.parts); n > 0 && strings.HasSuffix(p.parts[n-1], "\n\n") {
		part = strings.TrimLeft(part, "\n")
	}
	if part != "" {
		p.parts = append(p.parts, part)
	}
}

// heading begins a part of the page, with the line before and after it.
func (p *markdownPage) heading(text string) { p.add("\n### %s\n\n", text) }

// table writes rows whose cells are fit to be written; right marks the columns of numbers.
func (p *markdownPage) table(head []string, right []bool, rows [][]string, most int) {
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	rules := make([]string, len(head))
	for i := range head {
		rules[i] = "---"
		if right[i] {
			rules[i] = "--:"
		}
	}
	top := line(head) + "|" + strings.Join(rules, "|") + "|\n"
	for i, row := range rows {
		if i == most {
			break
		}
		p.add("%s", top+line(row))
		top = ""
	}
	p.more(len(rows), most)
}

// more says how many of a list are not shown.
func (p *markdownPage) more(n, most int) {
	if n > most {
		p.add("\nand %s more, which the json report has.\n", count(n-most))
	}
}

// list writes a line each, as set makes it.
func (p *markdownPage) list(texts []string, set func(string) string) {
	for i, text := range texts {
		if i == ticketLines {
			break
		}
		p.add("- %s\n", set(text))
	}
	p.more(len(texts), ticketLines)
}

// judged is a verdict and what it rests on.
func (p *markdownPage) judged(r *spec.Report) {
	v := r.Verdict
	state := prose(string(cmp.Or(v.Verdict, spec.NotJudged)), ticketCell)
	p.add("## aicr: %s\n\n", state)
	p.add("**%s** %s\n", state, prose(v.Reason, ticketSentence))
	if r.Unended() {
		p.add("\n**Not ended**: %s\n", prose(strings.TrimPrefix(unendedLine(r), "not ended: "), ticketSentence))
	}
	if v.Plan != "" {
		p.add("\nJudged otherwise than it was planned: %s\n", prose(v.Plan, ticketSentence))
	}
	if len(v.Ledgers) > 0 {
		p.add("\n")
		var rows [][]string
		for _, l := range v.Ledgers {
			rows = append(rows, []string{proseCell(l.Name), proseCell(string(l.State)), proseCell(l.Reason)})
		}
		p.table([]string{"ledger", "state", "why"}, make([]bool, 3), rows, ticketRows)
	}
	p.checks(v)
	p.expectations(v.Expectations)
	p.findings(v.Findings)
}

// notes are sentences of somebody else's.
func (p *markdownPage) notes(title string, all []string) {
	if len(all) > 0 {
		p.heading(title)
		p.list(all, sentence)
	}
}

func sentence(text string) string { return prose(text, ticketSentence) }

func (p *markdownPage) expectations(all []spec.Expected) {
	if len(all) == 0 {
		return
	}
	p.heading("Expected")
	var rows [][]string
	for _, e := range all {
		rows = append(rows, []string{proseCell(e.Name), optional(e.Value), interval(e.Low, e.High), proseCell(wantedLine(&e, "")),
			count(e.N), proseCell(e.Unit), proseCell(string(e.Judged()))})
	}
	p.table([]string{"expectation", "value", "interval", "wanted", "n", "unit", "state"},
		[]bool{1: true, 2: true, 4: true, 6: false}, rows, ticketRows)
}

func (p *markdownPage) findings(all []spec.Finding) {
	if len(all) == 0 {
		return
	}
	p.heading("Found")
	for i, f := range all {
		if i == ticketFindings {
			break
		}
		who := namesOf("worker", f.Named()) + namesOf("GPU", f.GPUs)
		p.add("\n#### %s: %s%s (confidence %s)\n\n", prose(f.Severity, ticketCell), codeSpan(layout.Shown(f.ID, ticketCell)), who, prose(f.Confidence, ticketCell))
		p.add("%s\n\n", prose(f.Summary, ticketSentence))
		p.list(f.Evidence, sentence)
		if len(f.Advice) > 0 {
			p.add("\nDo next:\n\n")
			p.list(f.Advice, adviceLine)
		}
	}
	p.more(len(all), ticketFindings)
}

// namesOf are the names of so many things, the first few of them.
func namesOf(of string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, name := range first(all, shownNames) {
		names = append(names, codeSpan(layout.Shown(name, ticketCell)))
	}
	text := ", " + layout.Noun(len(all), of) + " " + strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (p *markdownPage) stalls(v *spec.Verdict) {
	all := v.Stalls
	if len(all) == 0 {
		return
	}
	p.heading("Stalls")
	var rows [][]string
	for _, s := range all[:min(len(all), ticketStalls)] {
		who, lasted := "the fleet", secondsOf(s.Seconds)
		if s.Worker != "" {
			who = "worker " + codeCell(v.Named(s.Worker))
		}
		if s.Open {
			lasted += ", to the end"
		}
		rows = append(rows, []string{strconv.Itoa(s.Episode), secondsOf(s.At), lasted, who, codeCell(s.GPU), proseCell(strings.Join(s.By, ", "))})
	}
	p.table([]string{"episode", "into the episode", "lasted", "who", "GPU", "seen by"}, []bool{0: true, 1: true, 2: true, 5: false}, rows, ticketStalls)
	p.more(len(all), ticketStalls)
}

func (p *markdownPage) figures(all []spec.Figure) {
	if len(all) == 0 {
		return
	}
	p.heading("Measured")
	var rows [][]string
	for _, f := range all {
		rows = append(rows, []string{proseCell(f.Name), optional(f.Value), interval(f.Low, f.High), count(f.N), proseCell(f.Unit), proseCell(f.By)})
	}
	p.table([]string{"figure", "value", "interval", "n", "unit", "by"}, []bool{1: true, 2: true, 3: true, 5: false}, rows, ticketRows)
}

// bench is what a load run measured.
func (p *markdownPage) bench(b *spec.Bench) {
	p.benchFigures("Measured", b.Figures)
	p.benchFigures("Measured by the sentinel", b.Sentinel)
	p.heading("Requests")
	p.add("%s sent, %s served, %s failed, %s interrupted.\n", count(b.Requests.Sent), count(b.Requests.Served),
		count(b.Requests.Failed), count(b.Requests.Interrupted))
	if b.Requests.Unsent > 0 {
		p.add("%s were due and never sent.\n", count(b.Requests.Unsent))
	}
	if len(b.Requests.Classes) > 0 {
		p.add("\n")
		var rows [][]string
		for _, class := range slices.Sorted(maps.Keys(b.Requests.Classes)) {
			rows = append(rows, []string{proseCell(class), count(b.Requests.Classes[class])})
		}
		p.table([]string{"class", "requests"}, []bool{false, true}, rows, ticketRows)
	}
	if len(b.Requests.Failures) > 0 {
		p.add("\n")
		var rows [][]string
		for _, f := range b.Requests.Failures {
			rows = append(rows, []string{proseCell(f.Class), httpStatus(f.Status), count(f.Count), proseCell(f.Message)})
		}
		p.table([]string{"failure", "status", "times", "message"}, []bool{1: true, 2: true, 3: false}, rows, ticketRows)
	}
	p.benchWorkers(b.Workers)
	p.heading("Client")
	switch {
	case b.Client.Valid:
		p.add("The client was not the limit.\n")
	case b.Client.Limited():
		p.add("The client was the limit: nothing of this is a figure of the server.\n\n")
	default:
		p.add("The client was not the limit, and yet nothing of this is a figure of the server.\n\n")
	}
	var why []string
	for _, reason := range b.Client.Reasons {
		why = append(why, strings.TrimSuffix(reason.Text+"; "+reason.Hint, "; "))
	}
	p.list(why, sentence)
	p.notes("Notes", b.Notes)
}

func httpStatus(s int) string {
	if s == 0 {
		return ""
	}
	return strconv.Itoa(s)
}

func (p *markdownPage) benchFigures(title string, all []spec.BenchFigure) {
	if len(all) == 0 {
		return
	}
	p.heading(title)
	var rows [][]string
	for _, f := range all {
		n := ""
		if f.N > 0 {
			n = count(f.N)
		}
		rows = append(rows, []string{proseCell(f.Name), numberOr(f.Mean, ""), numberOr(f.P50, ""), numberOr(f.P90, ""), numberOr(f.P99, ""), numberOr(f.Max, ""), n, proseCell(f.Unit)})
	}
	p.table([]string{"figure", "mean", "p50", "p90", "p99", "max", "n", "unit"},
		[]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: false}, rows, ticketRows)
}

func (p *markdownPage) benchWorkers(all []spec.BenchWorker) {
	if len(all) == 0 {
		return
	}
	p.heading("Workers")
	var rows [][]string
	for _, w := range all {
		rows = append(rows, []string{codeCell(w.Named()), count(w.Requests), count(w.Failed),
			count(w.Tokens), numberOr(&w.Share, ""), numberOr(w.TTFT50MS, ""), numberOr(w.ITLMS, "")})
	}
	p.table([]string{"worker", "requests", "failed", "tokens", "share", "TTFT p50 (ms)", "ITL (ms)"},
		[]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true}, rows, ticketRows)
}

// environment is what was loaded, with what, and how to do it again.
func (p *markdownPage) environment(r *spec.Report, title string) {
	var rows [][]string
	told := map[string]bool{}
	row := func(name, value string) {
		if value != "" && !told[name] {
			told[name] = true
			rows = append(rows, []string{name, value})
		}
	}
	row("run", codeCell(r.Run.ID))
	row("kept in", codeCell(r.Kept))
	row("target", codeCell(targetName(r.Run.Target)))
	row("model", codeCell(r.Run.Target.Model))
	if r.Run.Target.Simulated {
		row("simulated", "yes: nothing of this was a GPU")
	}
	row("profile", proseCell(r.Verdict.Profile))
	if r.Bench == nil {
		row("load", layout.Plural(r.Verdict.Episodes, "episode")+" that count, "+layout.Loaded(r.Verdict.LoadedS)+" of load")
	}
	row("start", proseCell(r.Run.Start))
	row("end", proseCell(r.Run.End))
	if r.Unended() {
		row("end", "none: it was killed or still runs")
	}
	row("aicr", codeCell(r.Run.Version))
	for _, f := range r.Facts {
		row(proseCell(f.Name), proseCell(f.Value))
	}
	p.heading(title)
	p.table([]string{"what", "value"}, make([]bool, 2), rows, ticketRows)
	if len(r.Notes) > 0 {
		p.add("\nOf the record:\n\n")
		p.list(r.Notes, sentence)
	}
	if r.Run.Command != "" {
		p.add("\nRun it again with:\n\n%s", codeBlock(layout.Shown(r.Run.Command, ticketCommand)))
	}
}

// again is how the record is judged and shown so again.
func (p *markdownPage) again(r *spec.Report) {
	of := "the record"
	if r.Comparison != nil {
		of = "both records"
	}
	if r.Judge != "" {
		p.add("\nJudge %s again with:\n\n%s", of, codeBlock(layout.Shown(r.Judge, ticketCommand)))
	}
	if r.Page != "" {
		p.add("\nSee %s with:\n\n%s", of, codeBlock(layout.Shown(r.Page, ticketCommand)))
	}
}

// comparison is what two runs say of each other.
func (p *markdownPage) comparison(r *spec.Report) {
	c := r.Comparison
	says := prose(strings.ToUpper(c.Says), ticketCell)
	p.add("## aicr: %s\n\n", says)
	p.add("**%s** %s\n\n", says, prose(c.Reason, ticketSentence))
	var rows [][]string
	for _, f := range c.Figures {
		rows = append(rows, []string{proseCell(f.Name), optional(f.First), optional(f.Second), ratioText(f.Ratio), ratioInterval(f.Low, f.High), proseCell(f.Unit), proseCell(f.Says)})
	}
	p.table([]string{"figure", "first", "second", "ratio", "interval", "unit", "the second is"},
		[]bool{1: true, 2: true, 3: true, 4: true, 6: false}, rows, ticketRows)
	if c.Together > 0 {
		p.add("\nThe ratio is the second to the first. The intervals hold together with %.0f %%, each with %.1f %%.\n", 100*c.Together, 100*c.Each)
	}
	if len(c.Runs) > 0 {
		p.heading("Runs")
		rows = nil
		for i, s := range c.Runs {
			rows = append(rows, []string{[]string{"first", "second"}[min(i, 1)], codeCell(s.Run), proseCell(string(s.Verdict)), strconv.Itoa(s.Episodes), layout.Loaded(s.LoadedS), strconv.Itoa(s.Stalls)})
		}
		p.table([]string{"which", "run", "verdict", "episodes that count", "load", "stalls"}, []bool{3: true, 4: true, 5: true}, rows, ticketRows)
	}
	p.notes("Notes", c.Notes)
	p.findings(r.Verdict.Findings)
	if r.Against != nil {
		p.environment(r.Against, "Environment of the first")
	}
	p.environment(r, "Environment of the second")
}
