package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/spec"
)

func TestALineGoesOnBelowItself(t *testing.T) {
	long := strings.Repeat("0123456789 ", 12)
	p := &Page{Palette: Palette{On: true}}
	p.Line(2, p.Red("FAIL")+"  ", long+"\x1b[31m")
	p.Line(0, "", "")
	p.Line(4, "- ", strings.Repeat("x", 2001))
	want := "  \x1b[1;31mFAIL\x1b[0m  " + strings.TrimSpace(strings.Repeat("0123456789 ", 8)) + "\n        " + strings.Repeat("0123456789 ", 4) + "□[31m\n\n"
	got, rest := p.String()[:len(want)], p.String()[len(want):]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(rest, "    - xxx") || !strings.HasSuffix(rest, "(cut here; it has 2,001 bytes)\n") {
		t.Errorf("the long one is %s", rest)
	}
}

func TestATableFits(t *testing.T) {
	uuid := "GPU-6fa1734a-a640-4429-9ccd-7e39ebe03109"
	p := &Page{}
	p.Table([]Column{{}, {Head: "n", Right: true}, {Head: "gpu"}, {Head: "why"}}, []Row{
		{Cells: []string{"名字", "1,000", uuid, "a long story that goes on and on below itself and is not cut"}, Below: "below it"},
		{Cells: []string{"b", "2", "", "short"}},
	})
	want := `            n  gpu                                       why
  名字  1,000  GPU-6fa1734a-a640-4429-9ccd-7e39ebe03109  a long story that goes on and on below
                                                         itself and is not cut
      below it
  b         2                                            short
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestANarrowColumnHoldsWhatIsWrapped: no line is narrower than two columns, and so no
// column may be, however much the others want.
func TestANarrowColumnHoldsWhatIsWrapped(t *testing.T) {
	p := &Page{}
	p.Table(make([]Column, 4), []Row{{Cells: []string{" %", strings.Repeat("x", 99), strings.Repeat("y", 99), strings.Repeat("z", 99)}}})
	for line := range strings.Lines(p.String()) {
		if w := Width(strings.TrimSuffix(line, "\n")); w > Columns {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestATableWithoutHeadsHasNone(t *testing.T) {
	p := &Page{}
	p.Table(make([]Column, 2), []Row{{Cells: []string{"a", "b"}}})
	if got := p.String(); got != "  a  b\n" {
		t.Errorf("got %q", got)
	}
}

func TestATablePaintsAllOfACellAndNothingElse(t *testing.T) {
	p := &Page{Palette: Palette{On: true}}
	p.Table([]Column{{Paint: func(cell string) func(string) string { return p.State(spec.State(cell)) }}, {}}, []Row{{Cells: []string{"PASS", "\x1b[31m"}}, {Cells: []string{"NOT JUDGED", "b"}}})
	want := "  \x1b[1;32mPASS\x1b[0m        □[31m\n  \x1b[1;33mNOT JUDGED\x1b[0m  b\n"
	if got := p.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNoTableIsTooWideAndNoneLosesALetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 8).Draw(t, "columns")
		var rows []Row
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			rows = append(rows, Row{Cells: rapid.SliceOfN(anyText(), columns, columns).Draw(t, "cells"), Below: anyText().Draw(t, "below")})
		}
		p := &Page{}
		p.Table(make([]Column, columns), rows)
		for line := range strings.Lines(p.String()) {
			if w := Width(strings.TrimSuffix(line, "\n")); w > Columns {
				t.Errorf("%d columns: %s", w, line)
			}
		}
		var want string
		for _, r := range rows {
			for _, text := range append(slices.Clone(r.Cells), r.Below) {
				want += letters(Shown(text, longest))
			}
		}
		if got, want := sorted(letters(strings.ReplaceAll(p.String(), "\n", ""))), sorted(want); got != want {
			t.Errorf("letters %q, want %q", got, want)
		}
	})
}

func sorted(text string) string {
	all := []rune(text)
	slices.Sort(all)
	return string(all)
}

func TestPaletteColoursOrLeavesAlone(t *testing.T) {
	for _, on := range []bool{true, false} {
		p := Palette{On: on}
		for _, paint := range []func(string) string{p.Red, p.Green, p.Yellow, p.Cyan, p.Bold, p.Dim} {
			if got := paint("x"); Width(got) != 1 || (got != "x") != on || paint("") != "" {
				t.Errorf("on %v: %q", on, got)
			}
		}
	}
}

func TestOnlyAPassIsGreenAndOnlyAFailRed(t *testing.T) {
	p := Palette{On: true}
	for state, want := range map[spec.State]string{spec.Pass: p.Green("x"), spec.Fail: p.Red("x"), spec.Invalid: p.Yellow("x"), spec.Inconclusive: p.Yellow("x"),
		spec.Skip: p.Yellow("x"), spec.NotJudged: p.Yellow("x"), "anything": p.Yellow("x")} {
		if got := p.State(state)("x"); got != want {
			t.Errorf("%s is %q, want %q", state, got, want)
		}
	}
}
