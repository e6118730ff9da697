package cli

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"aicr/internal/spec"
)

// verdictWidth is how wide a verdict may be: half of a wide screen, a whole page.
const verdictWidth = 100

// verdictText is a verdict for a person: the answer first, then what it rests on. It
// says no more than the verdict does.
func verdictText(v *spec.Verdict, run string, paint palette) []byte {
	t := &verdictPage{v: v, paint: paint}
	t.line(0, stateColour(paint, v.Verdict)(string(v.Verdict))+"  ", v.Reason)
	if v.Plan != "" {
		t.line(2, "", "judged otherwise than it was planned: "+v.Plan)
	}
	t.ledgers()
	t.expectations()
	t.findings()
	t.stalls()
	t.figures()
	t.tests()
	t.notes()
	t.blank()
	t.line(2, "", fmt.Sprintf("%s, %s of load, profile %s", plural(v.Episodes, "episode"), loadedTime(v.LoadedS), v.Profile))
	if run != "" {
		t.line(2, "", "kept in "+run+"; judge it again with: aicr judge "+shellQuoted(run))
	}
	return t.b.Bytes()
}

type verdictPage struct {
	b     bytes.Buffer
	v     *spec.Verdict
	paint palette
}

func (t *verdictPage) blank() { t.b.WriteByte('\n') }

// line writes text behind a head, and goes on below itself where it is too long.
func (t *verdictPage) line(indent int, head, text string) {
	room := verdictWidth - indent - textWidth(head)
	for i, part := range wrapped(text, room) {
		if i > 0 {
			head = strings.Repeat(" ", textWidth(head))
		}
		fmt.Fprintf(&t.b, "%s\n", strings.TrimRight(strings.Repeat(" ", indent)+head+part, " "))
	}
}

func (t *verdictPage) title(text string) {
	t.blank()
	fmt.Fprintln(&t.b, t.paint.bold(text))
}

func (t *verdictPage) ledgers() {
	t.blank()
	for _, l := range t.v.Ledgers {
		t.line(2, fmt.Sprintf("%-11s %s  ", l.Name, stateColour(t.paint, l.State)(fmt.Sprintf("%-12s", l.State))), l.Reason)
	}
}

func (t *verdictPage) expectations() {
	if len(t.v.Expectations) == 0 {
		return
	}
	t.title("Expected")
	if t.unmeasured() {
		return
	}
	rows := [][]string{{"", "value", "interval", "n", "unit", ""}}
	for _, e := range t.v.Expectations {
		rows = append(rows, []string{e.Name, optional(e.Value), interval(e.Low, e.High), number(float64(e.N)), e.Unit,
			stateColour(t.paint, e.State)(string(e.State))})
	}
	for i, row := range aligned(rows, []bool{1: true, 2: true, 3: true, 5: false}) {
		fmt.Fprintf(&t.b, "%s\n", row)
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
		t.line(6, "", wanted)
	}
}

// unmeasured tells in a line that nothing of what was expected was measured.
func (t *verdictPage) unmeasured() bool {
	var names []string
	for _, e := range t.v.Expectations {
		if e.Value != nil {
			return false
		}
		names = append(names, e.Name)
	}
	t.line(2, "", "not measured: "+strings.Join(names, ", "))
	return true
}

func (t *verdictPage) findings() {
	if len(t.v.Findings) == 0 {
		return
	}
	t.title("Found")
	for _, f := range t.v.Findings {
		colour := t.paint.yellow
		switch f.Severity {
		case spec.SeverityFail:
			colour = t.paint.red
		case spec.SeverityNote:
			colour = t.paint.cyan
		}
		who := ""
		if n := len(f.Workers); n > 0 {
			who = ", " + noun(n, "worker") + " " + strings.Join(f.Workers, ", ")
		}
		t.line(2, colour(fmt.Sprintf("%-7s", f.Severity))+" ", fmt.Sprintf("%s%s (confidence %s)", f.ID, who, f.Confidence))
		t.line(10, "", f.Summary)
		if len(f.GPUs) > 0 {
			t.line(10, noun(len(f.GPUs), "GPU")+" ", strings.Join(f.GPUs, ", "))
		}
		for _, e := range f.Evidence {
			t.line(10, "- ", e)
		}
		for _, a := range f.Advice {
			t.line(10, "→ ", a)
		}
	}
}

// shownStalls is how many stalls the text lists.
const shownStalls = 12

func (t *verdictPage) stalls() {
	if len(t.v.Stalls) == 0 {
		return
	}
	t.title("Stalls")
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
	t.table(rows, make([]bool, 5))
	if more := len(t.v.Stalls) - shownStalls; more > 0 {
		t.line(2, "", fmt.Sprintf("and %d more: -o json has them all", more))
	}
}

func (t *verdictPage) figures() {
	if len(t.v.Figures) == 0 {
		return
	}
	t.title("Measured")
	rows := [][]string{{"", "value", "interval", "n", "unit"}}
	for _, f := range t.v.Figures {
		rows = append(rows, []string{f.Name, optional(f.Value), interval(f.Low, f.High), number(float64(f.N)), f.Unit})
	}
	for i, row := range aligned(rows, []bool{1: true, 2: true, 3: true, 4: false}) {
		fmt.Fprintf(&t.b, "%s\n", row)
		if i > 0 && t.v.Figures[i-1].By != "" {
			t.line(6, "", t.v.Figures[i-1].By)
		}
	}
}

// table sets rows whose last cell is text, which goes on below itself.
func (t *verdictPage) table(rows [][]string, right []bool) {
	var heads [][]string
	for _, r := range rows {
		heads = append(heads, r[:len(r)-1])
	}
	wide := 0
	lines := aligned(heads, right)
	for _, l := range lines {
		wide = max(wide, textWidth(l))
	}
	for i, l := range lines {
		t.line(0, l+strings.Repeat(" ", wide-textWidth(l)+2), rows[i][len(rows[i])-1])
	}
}

func (t *verdictPage) tests() {
	if len(t.v.Tests) == 0 {
		return
	}
	t.title("Sequential tests")
	for _, w := range t.v.Tests {
		t.line(2, "", walkLine(w, 40))
	}
}

// walkLine is a sequential test on its way: to the left it is for health.
func walkLine(w spec.Walk, width int) string {
	at := math.NaN()
	if n := len(w.Values); n > 0 {
		at = w.Values[n-1]
	}
	return fmt.Sprintf("%-11s good at %s %s bad at %s, now %s", w.Ledger, signed(w.Low), walkBar(w, width), signed(w.High), signed(at))
}

func signed(v float64) string {
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

func (t *verdictPage) notes() {
	if len(t.v.Notes) == 0 {
		return
	}
	t.title("Notes")
	for _, n := range t.v.Notes {
		t.line(2, "- ", n)
	}
}

// stateColour is how a state is shown: what is not known is not green.
func stateColour(paint palette, s spec.State) func(string) string {
	switch s {
	case spec.Pass:
		return paint.green
	case spec.Fail:
		return paint.red
	case spec.Inconclusive, spec.Invalid, spec.Skip, spec.NotJudged:
	}
	return paint.yellow
}

func optional(v *float64) string {
	if v == nil {
		return "not measured"
	}
	return number(*v)
}

func interval(low, high *float64) string {
	if low == nil || high == nil {
		return ""
	}
	return number(*low) + " to " + number(*high)
}

// noun is a word for so many.
func noun(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

func loadedTime(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// unbroken is a percent sign that stays with its number.
const unbroken = "\u00a0%"

// wrapped breaks text into lines at its spaces.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(strings.ReplaceAll(text, " %", unbroken), " ") {
		word = strings.ReplaceAll(word, unbroken, " %")
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= max(width, 20):
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
