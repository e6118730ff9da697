package report

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// Text tells a report to a person who reads a terminal: the answer first, then what it
// rests on.
func Text(w io.Writer, r *spec.Report) error { return TextIn(layout.Palette{})(w, r) }

// TextIn is Text in colour.
func TextIn(paint layout.Palette) func(io.Writer, *spec.Report) error {
	return func(w io.Writer, r *spec.Report) error {
		t := &textPage{layout.Page{Palette: paint}}
		switch {
		case r.Comparison != nil:
			t.comparison(r)
		case r.Bench != nil:
			t.bench(r)
		default:
			t.run(r)
		}
		_, err := w.Write(t.Bytes())
		return err
	}
}

// Line is a report in one line, however long. A FAIL names whom it is about.
func Line(r *spec.Report) string {
	if c := r.Comparison; c != nil {
		return layout.Shown(strings.ToUpper(c.Says)+"  "+comparedReason(c), longestLine)
	}
	v := r.Verdict
	text := string(v.Verdict) + "  " + v.Reason
	if names := unnamed(v); len(names) > 0 {
		text = layout.Clip(text, longestLine/2) + " (" + namedThings("worker", names) + ")"
	}
	return layout.Shown(text, longestLine)
}

// longestLine is how many bytes of somebody else's text Line shows.
const longestLine = 4000

// namedWorkers finds the workers that a reason names.
var namedWorkers = regexp.MustCompile(`\bworkers? ([^\s,;:]+(?:(?:, | and )[^\s,;:]+)*)`)

// unnamed lists the workers that a FAIL is about and that its reason does not name.
func unnamed(v *spec.Verdict) []string {
	if v.Verdict != spec.Fail {
		return nil
	}
	var named, names []string
	for _, m := range namedWorkers.FindAllStringSubmatch(v.Reason, -1) {
		named = append(named, strings.Split(strings.ReplaceAll(m[1], " and ", ", "), ", ")...)
	}
	for _, f := range v.Findings {
		if f.Severity != spec.SeverityFail {
			continue
		}
		for _, w := range f.Workers {
			shown := v.Named(w)
			if !slices.Contains(named, w) && !slices.Contains(named, shown) && (shown == w || !strings.Contains(v.Reason, shown)) {
				named, names = append(named, shown), append(names, shown)
			}
		}
	}
	return names
}

// How many of a list the text shows. The json format has them all.
const (
	shownStalls   = 12
	shownEvidence = 12
)

// textPage is a Page that knows what is told.
type textPage struct{ layout.Page }

// run tells of one run.
func (t *textPage) run(r *spec.Report) {
	v := r.Verdict
	t.verdict(v)
	if r.Unended() {
		t.Line(2, "", unendedLine(r))
	}
	if v.Plan != "" {
		t.Line(2, "", "judged otherwise than it was planned: "+v.Plan)
	}
	t.ledgers(v.Ledgers)
	t.checks(v)
	t.expectations(v.Expectations)
	t.findings(v.Findings)
	t.stalls(v)
	t.figures(v.Figures)
	t.tests(v.Tests)
	t.notes(v.Notes, r.Notes)
	t.Blank()
	t.Line(2, "", fmt.Sprintf("%s, %s of load, profile %s", layout.Plural(v.Episodes, "episode"), layout.Loaded(v.LoadedS), v.Profile))
	t.target(r.Run.Target)
	t.kept(r)
	if r.Trend != nil {
		for _, line := range r.Trend.Lines {
			t.Line(2, "history: ", line)
		}
	}
}

// target says what was loaded, as far as it is known.
func (t *textPage) target(of spec.Target) {
	text := targetWords(of)
	switch {
	case of.Model != "" && of.Node != "":
		text = layout.Clip(of.Model, longestPath) + " on " + text
	case of.Model != "" && !of.Simulated:
		text = strings.TrimSuffix(layout.Clip(of.Model, longestPath)+" at "+text, " at ")
	}
	if text != "" {
		t.Line(2, "target: ", text)
	}
}

// kept says where the run is, and what can be done with it.
func (t *textPage) kept(r *spec.Report) {
	var lines []string
	if r.Kept != "" {
		lines = append(lines, "kept in "+r.Kept)
	}
	if r.Judge != "" {
		lines = append(lines, "judge it again with: "+r.Judge)
	}
	if one := strings.Join(lines, "; "); len(lines) == 2 && layout.Width(one) <= layout.Columns-2 {
		lines = []string{one}
	}
	if r.Page != "" {
		lines = append(lines, "see it with: "+r.Page)
	}
	for _, line := range lines {
		t.Line(2, "", line)
	}
}

// verdict is the answer.
func (t *textPage) verdict(v *spec.Verdict) {
	t.Line(0, t.State(v.Verdict)(word(string(v.Verdict)))+"  ", v.Reason)
}

// word makes a short word fit for a head.
func word(text string) string { return layout.Shown(text, 16) }

// painted colours a cell by the state that it names.
func (t *textPage) painted(cell string) func(string) string { return t.State(spec.State(cell)) }

func (t *textPage) ledgers(all []spec.Ledger) {
	if len(all) == 0 {
		return
	}
	t.Blank()
	var rows []layout.Row
	for _, l := range all {
		rows = append(rows, layout.Row{Cells: []string{l.Name, string(l.State), l.Reason}})
	}
	t.Table([]layout.Column{{}, {Paint: t.painted}, {}}, rows)
}

func (t *textPage) expectations(all []spec.Expected) {
	if len(all) == 0 {
		return
	}
	t.Title("Expected")
	var rows []layout.Row
	var unjudged []string
	for _, e := range all {
		if e.Value == nil && e.Judged() == spec.NotJudged {
			unjudged = append(unjudged, e.Name)
		}
		rows = append(rows, layout.Row{Cells: []string{e.Name, optional(e.Value), interval(e.Low, e.High), count(e.N), e.Unit, string(e.Judged())}, Below: wantedLine(&e, "wanted ")})
	}
	if len(unjudged) == len(all) {
		t.Line(2, "", "not measured: "+layout.Some(unjudged, shownNames))
		return
	}
	t.Table([]layout.Column{{}, {Head: "value", Right: true}, {Head: "interval", Right: true}, {Head: "n", Right: true}, {Head: "unit"}, {Paint: t.painted}}, rows)
}

func (t *textPage) findings(all []spec.Finding) {
	if len(all) == 0 {
		return
	}
	t.Title("Found")
	for _, f := range all {
		colour := t.Yellow
		switch f.Severity {
		case spec.SeverityFail:
			colour = t.Red
		case spec.SeverityNote:
			colour = t.Cyan
		}
		about := f.ID
		if len(f.Workers) > 0 {
			about += ", " + namedThings("worker", f.Named())
		}
		t.Line(2, colour(fmt.Sprintf("%-7s", word(f.Severity)))+" ", fmt.Sprintf("%s (confidence %s)", about, f.Confidence))
		if f.Summary != "" {
			t.Line(10, "", f.Summary)
		}
		if len(f.GPUs) > 0 {
			t.Line(10, "", namedThings("GPU", f.GPUs))
		}
		for _, e := range f.Evidence[:min(len(f.Evidence), shownEvidence)] {
			t.Line(10, "- ", e)
		}
		t.more(10, len(f.Evidence)-shownEvidence)
		for _, a := range f.Advice {
			t.Line(10, "advice: ", a)
		}
	}
}

// more says that there are some that were not shown.
func (t *textPage) more(indent, n int) {
	if n > 0 {
		t.Line(indent, "", fmt.Sprintf("and %d more: the json format has them all", n))
	}
}

func (t *textPage) stalls(v *spec.Verdict) {
	all := v.Stalls
	if len(all) == 0 {
		return
	}
	t.Title("Stalls")
	var rows []layout.Row
	for _, s := range all[:min(len(all), shownStalls)] {
		who, lasted := "the fleet", secondsOf(s.Seconds)
		if s.Worker != "" {
			who = v.Named(s.Worker)
		}
		if s.Open {
			lasted += ", to the end"
		}
		rows = append(rows, layout.Row{Cells: []string{strconv.Itoa(s.Episode), secondsOf(s.At), lasted, who, s.GPU, strings.Join(s.By, ", ")}})
	}
	t.Table([]layout.Column{{Head: "episode", Right: true}, {Head: "into it", Right: true}, {Head: "lasted"}, {Head: "worker"}, {Head: "GPU"}, {Head: "seen by"}}, rows)
	t.more(2, len(all)-shownStalls)
}

func (t *textPage) figures(all []spec.Figure) {
	if len(all) == 0 {
		return
	}
	t.Title("Measured")
	var rows []layout.Row
	for _, f := range all {
		rows = append(rows, layout.Row{Cells: []string{f.Name, optional(f.Value), interval(f.Low, f.High), count(f.N), f.Unit}, Below: f.By})
	}
	t.Table([]layout.Column{{}, {Head: "value", Right: true}, {Head: "interval", Right: true}, {Head: "n", Right: true}, {Head: "unit"}}, rows)
}

func (t *textPage) tests(all []spec.Walk) {
	if len(all) == 0 {
		return
	}
	t.Title("Sequential tests")
	for _, w := range all {
		t.Line(2, "", WalkLine(w, 40))
	}
}

// WalkLine is a sequential test on its way: to the left it is for health.
func WalkLine(w spec.Walk, width int) string {
	at := math.NaN()
	if n := len(w.Values); n > 0 {
		at = w.Values[n-1]
	}
	return fmt.Sprintf("%-11s good at %s %s bad at %s, now %s", WalkName(w), Signed(w.Low), walkBar(w, at, width), Signed(w.High), Signed(at))
}

// WalkName is what a sequential test is of.
func WalkName(w spec.Walk) string {
	if w.Of == "" {
		return w.Ledger
	}
	return w.Ledger + ", " + w.Of
}

// Signed is a number with its sign.
func Signed(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not known"
	case math.Abs(v) >= 1e6:
		return fmt.Sprintf("%+.3g", v)
	}
	return fmt.Sprintf("%+.2f", v)
}

// walkBar draws where a test is between its bounds.
func walkBar(w spec.Walk, at float64, width int) string {
	if !(w.High > w.Low) || width < 1 {
		return ""
	}
	line := []rune(strings.Repeat("·", width))
	mark := func(v float64, r rune) {
		share := (v - w.Low) / (w.High - w.Low)
		if !math.IsNaN(share) {
			line[int(min(max(share*float64(width), 0), float64(width-1)))] = r
		}
	}
	mark(0, '|')
	mark(at, '●')
	return "[" + string(line) + "]"
}

// notes are those of who judged, and of who read the record.
func (t *textPage) notes(lists ...[]string) {
	all := slices.Concat(lists...)
	if len(all) == 0 {
		return
	}
	t.Title("Notes")
	for _, n := range all {
		t.Line(2, "- ", n)
	}
}
