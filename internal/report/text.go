package report

import (
	"fmt"
	"io"
	"math"
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
		t := &textPage{v: r.Verdict, Page: layout.Page{Palette: paint}}
		if r.Comparison != nil {
			t.comparison(r.Comparison)
		} else {
			t.run(r)
		}
		_, err := w.Write(t.Bytes())
		return err
	}
}

// run tells of one run.
func (t *textPage) run(r *spec.Report) {
	v := r.Verdict
	t.Line(0, t.State(v.Verdict)(string(v.Verdict))+"  ", v.Reason)
	if v.Plan != "" {
		t.Line(2, "", "judged otherwise than it was planned: "+v.Plan)
	}
	t.ledgers()
	t.expectations()
	t.findings()
	t.stalls()
	t.figures()
	t.tests()
	t.notes()
	t.Blank()
	t.Line(2, "", fmt.Sprintf("%s, %s of load, profile %s", layout.Plural(v.Episodes, "episode"), layout.Loaded(v.LoadedS), v.Profile))
	if r.Kept != "" {
		t.Line(2, "", "kept in "+r.Kept+"; judge it again with: aicr judge "+layout.Quoted(r.Kept))
	}
	if r.Trend != nil {
		for _, line := range r.Trend.Lines {
			t.Line(2, "history: ", line)
		}
	}
}

// Line is a report in one line.
func Line(r *spec.Report) string {
	if c := r.Comparison; c != nil {
		return strings.ToUpper(c.Says) + "  " + layout.Clean(c.Runs[1].Run+": "+c.Reason)
	}
	return string(r.Verdict.Verdict) + "  " + layout.Clean(r.Verdict.Reason)
}

type textPage struct {
	layout.Page
	v *spec.Verdict
}

func (t *textPage) ledgers() {
	t.Blank()
	for _, l := range t.v.Ledgers {
		t.Line(2, fmt.Sprintf("%-11s %s  ", l.Name, t.State(l.State)(fmt.Sprintf("%-12s", l.State))), l.Reason)
	}
}

func (t *textPage) expectations() {
	if len(t.v.Expectations) == 0 {
		return
	}
	t.Title("Expected")
	if t.unmeasured() {
		return
	}
	rows := [][]string{{"", "value", "interval", "n", "unit", ""}}
	for _, e := range t.v.Expectations {
		rows = append(rows, []string{e.Name, optional(e.Value), interval(e.Low, e.High), layout.Number(float64(e.N)), e.Unit,
			t.State(e.State)(string(e.State))})
	}
	for i, row := range layout.Aligned(rows, []bool{1: true, 2: true, 3: true, 5: false}) {
		fmt.Fprintf(t, "%s\n", row)
		if i == 0 {
			continue
		}
		e := t.v.Expectations[i-1]
		wanted := "wanted " + e.Want
		if e.Effective != "" && e.Effective != e.Want {
			wanted += " (" + e.Effective + ")"
		}
		if e.Note != "" {
			wanted += "; " + e.Note
		}
		t.Line(6, "", wanted)
	}
}

// unmeasured tells in a line that nothing of what was expected was measured.
func (t *textPage) unmeasured() bool {
	var names []string
	for _, e := range t.v.Expectations {
		if e.Value != nil {
			return false
		}
		names = append(names, e.Name)
	}
	t.Line(2, "", "not measured: "+strings.Join(names, ", "))
	return true
}

func (t *textPage) findings() {
	if len(t.v.Findings) == 0 {
		return
	}
	t.Title("Found")
	for _, f := range t.v.Findings {
		colour := t.Yellow
		switch f.Severity {
		case spec.SeverityFail:
			colour = t.Red
		case spec.SeverityNote:
			colour = t.Cyan
		}
		who := ""
		if n := len(f.Workers); n > 0 {
			who = ", " + layout.Noun(n, "worker") + " " + strings.Join(f.Workers, ", ")
		}
		t.Line(2, colour(fmt.Sprintf("%-7s", f.Severity))+" ", fmt.Sprintf("%s%s (confidence %s)", f.ID, who, f.Confidence))
		t.Line(10, "", f.Summary)
		if len(f.GPUs) > 0 {
			t.Line(10, layout.Noun(len(f.GPUs), "GPU")+" ", strings.Join(f.GPUs, ", "))
		}
		for _, e := range f.Evidence {
			t.Line(10, "- ", e)
		}
		for _, a := range f.Advice {
			t.Line(10, "→ ", a)
		}
	}
}

// shownStalls is how many stalls the text lists.
const shownStalls = 12

func (t *textPage) stalls() {
	if len(t.v.Stalls) == 0 {
		return
	}
	t.Title("Stalls")
	rows := [][]string{}
	for i, s := range t.v.Stalls {
		if i == shownStalls {
			break
		}
		who, lasted := "the fleet", fmt.Sprintf("%.1f s", s.Seconds)
		if s.Worker != "" {
			who = "worker " + s.Worker
		}
		if s.Open {
			lasted += ", to the end"
		}
		rows = append(rows, []string{fmt.Sprintf("episode %d", s.Episode), fmt.Sprintf("at %.1f s", s.At), lasted, who, s.GPU, strings.Join(s.By, ", ")})
	}
	t.Table(rows, make([]bool, 5))
	if more := len(t.v.Stalls) - shownStalls; more > 0 {
		t.Line(2, "", fmt.Sprintf("and %d more: -o json has them all", more))
	}
}

func (t *textPage) figures() {
	if len(t.v.Figures) == 0 {
		return
	}
	t.Title("Measured")
	rows := [][]string{{"", "value", "interval", "n", "unit"}}
	for _, f := range t.v.Figures {
		rows = append(rows, []string{f.Name, optional(f.Value), interval(f.Low, f.High), layout.Number(float64(f.N)), f.Unit})
	}
	for i, row := range layout.Aligned(rows, []bool{1: true, 2: true, 3: true, 4: false}) {
		fmt.Fprintf(t, "%s\n", row)
		if i > 0 && t.v.Figures[i-1].By != "" {
			t.Line(6, "", t.v.Figures[i-1].By)
		}
	}
}

func (t *textPage) tests() {
	if len(t.v.Tests) == 0 {
		return
	}
	t.Title("Sequential tests")
	for _, w := range t.v.Tests {
		t.Line(2, "", WalkLine(w, 40))
	}
}

// WalkLine is a sequential test on its way: to the left it is for health.
func WalkLine(w spec.Walk, width int) string {
	at := math.NaN()
	if n := len(w.Values); n > 0 {
		at = w.Values[n-1]
	}
	return fmt.Sprintf("%-11s good at %s %s bad at %s, now %s", w.Ledger, Signed(w.Low), walkBar(w, width), Signed(w.High), Signed(at))
}

// Signed is a number with its sign.
func Signed(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%+.2f", v)
}

// walkBar draws where a test is between its bounds.
func walkBar(w spec.Walk, width int) string {
	line := []rune(strings.Repeat("·", width))
	place := func(v float64) int {
		share := (v - w.Low) / (w.High - w.Low)
		return min(width-1, int(max(0, share)*float64(width)))
	}
	if !(w.High > w.Low) || width < 1 {
		return ""
	}
	line[place(0)] = '|'
	if n := len(w.Values); n > 0 && !math.IsNaN(w.Values[n-1]) {
		line[place(w.Values[n-1])] = '●'
	}
	return "[" + string(line) + "]"
}

func (t *textPage) notes() {
	if len(t.v.Notes) == 0 {
		return
	}
	t.Title("Notes")
	for _, n := range t.v.Notes {
		t.Line(2, "- ", n)
	}
}

func optional(v *float64) string {
	if v == nil {
		return "not measured"
	}
	return layout.Number(*v)
}

func interval(low, high *float64) string {
	if low == nil || high == nil {
		return ""
	}
	return layout.Number(*low) + " to " + layout.Number(*high)
}
