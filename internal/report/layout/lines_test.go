package layout

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWidthCountsColumns(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		want int
	}{
		"nothing":             {"", 0},
		"letters":             {"worker 5", 8},
		"more than a byte":    {"µ–…●", 4},
		"Chinese is two":      {"工作节点", 8},
		"full width is two":   {"ＡＢ", 4},
		"half width is one":   {"ｱｲ", 2},
		"Korean is two":       {"한", 2},
		"Korean in parts":     {"\u1112\u1161\u11ab", 2},
		"Arabic is one":       {"عامل", 4},
		"a mark is none":      {"e\u0301", 1},
		"a joiner is none":    {"a\u200db", 2},
		"a sign is seen":      {"\u06dd", 1},
		"an emoji is two":     {"🔥", 2},
		"colour is none":      {"\x1b[1;31mFAIL\x1b[0m", 4},
		"no colour is itself": {"\x1b[2J", 4},
		"no UTF-8":            {"a\xffb", 3},
	} {
		if got := Width(tt.line); got != tt.want {
			t.Errorf("%s: %q has %d columns, want %d", name, tt.line, got, tt.want)
		}
	}
}

func TestEscapeLenIsOfColourAlone(t *testing.T) {
	for line, want := range map[string]int{"": 0, "m": 0, "\x1b[m": 3, "\x1b[1;31mx": 7, "\x1b[2K": 0, "\x1b[12": 0, "\x1b]0;m": 0, "x\x1b[0m": 0} {
		if got := EscapeLen(line); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}

func TestWrappedBreaksAtSpaces(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		columns int
		want    []string
	}{
		"nothing":                             {"", 10, []string{""}},
		"what fits":                           {"one two", 7, []string{"one two"}},
		"what does not":                       {"one two three", 7, []string{"one two", "three"}},
		"spaces inside stay":                  {"a   b", 10, []string{"a   b"}},
		"spaces at a line's end go":           {"one   two", 4, []string{"one", "two"}},
		"and at the end of all":               {"one  ", 10, []string{"one"}},
		"a word that is too long":             {"a 0123456789 b", 4, []string{"a", "0123", "4567", "89 b"}},
		"a percent sign stays by its number":  {"up to 95 %", 8, []string{"up to", "95 %"}},
		"and what follows it with it":         {"with 95 %, each", 9, []string{"with", "95 %,", "each"}},
		"a word that begins with one":         {"aaaa %b", 5, []string{"aaaa", "%b"}},
		"Chinese by columns":                  {"一二三四", 5, []string{"一二", "三四"}},
		"a mark stays on its letter":          {"aae\u0301b", 3, []string{"aae\u0301", "b"}},
		"a colour is not cut":                 {"\x1b[1;31mabcd\x1b[0m", 2, []string{"\x1b[1;31mab", "cd\x1b[0m"}},
		"no room at all is room for anything": {"一a", -5, []string{"一", "a"}},
	} {
		if diff := cmp.Diff(tt.want, Wrapped(tt.text, tt.columns)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A word that is broken is no command to GitHub's runner, wherever a server has put one.
func TestABrokenWordIsNoCommand(t *testing.T) {
	for at := range 30 {
		text := strings.Repeat("a", at) + "::stop-commands::token" + strings.Repeat("b", 40)
		for _, line := range Wrapped(text, 12) {
			if strings.HasPrefix(line, "::") && at > 0 {
				t.Errorf("%d letters before: %q", at, line)
			}
		}
	}
}

func TestWrappedLosesNothingAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := Clean(anyText().Draw(t, "text"))
		columns := rapid.IntRange(2, 60).Draw(t, "columns")
		lines := Wrapped(text, columns)
		whole := true // no word was broken
		for _, word := range words(text) {
			whole = whole && Width(word) <= columns-3 // a percent sign and a comma may be at its end
		}
		for _, line := range lines {
			if Width(line) > columns {
				t.Errorf("%d columns: %q", Width(line), line)
			}
		}
		if whole {
			if diff := cmp.Diff(words(text), words(strings.Join(lines, " "))); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		}
		if got, want := letters(strings.Join(lines, "")), letters(text); got != want {
			t.Errorf("letters %q, want %q", got, want)
		}
	})
}

// words are what stands between spaces; there are others that nothing is broken at.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
}

func letters(text string) string { return strings.ReplaceAll(text, " ", "") }

func anyText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{" ", " ", " ", "a", "worker", "%", " %", "5", "工作", "e\u0301", "\u202e", "\x1b[31m", "\x00", "\n", "\xff", "\u00a0",
			"0123456789-0123456789-0123456789-0123456789-0123456789-0123456789"})).Draw(t, "parts")
		return strings.Join(parts, "") + rapid.String().Draw(t, "rest")
	})
}

func TestAlignedSetsColumns(t *testing.T) {
	for name, tt := range map[string]struct {
		rows  [][]string
		right []bool
		want  []string
	}{
		"nothing":               {nil, []bool{false}, nil},
		"left and right":        {[][]string{{"", "n"}, {"a", "1,000"}, {"long", "2"}}, []bool{false, true}, []string{"            n", "  a     1,000", "  long      2"}},
		"nothing at a line end": {[][]string{{"a", ""}, {"b", "c"}}, []bool{false, false}, []string{"  a", "  b  c"}},
		"Chinese":               {[][]string{{"节点", "x"}, {"abcd", "y"}}, []bool{false, false}, []string{"  节点  x", "  abcd  y"}},
		"colour":                {[][]string{{"\x1b[1mab\x1b[0m", "x"}, {"abc", "y"}}, []bool{false, false}, []string{"  \x1b[1mab\x1b[0m   x", "  abc  y"}},
		"a row that is shorter": {[][]string{{"a", "b"}, {"c"}}, []bool{false, false}, []string{"  a  b", "  c"}},
	} {
		if diff := cmp.Diff(tt.want, Aligned(tt.rows, tt.right)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		width    int
		want     string
	}{
		{0, 4, "    "},
		{0.5, 4, "██  "},
		{0.625, 4, "██▌ "},
		{0.99, 2, "█▉"},
		{1, 4, "████"},
		{1.5, 4, "████"},
		{-1, 4, "    "},
		{math.NaN(), 4, "    "},
		{1, 0, ""},
		{1, -1, ""},
	} {
		if got := Bar(c.fraction, c.width); got != c.want {
			t.Errorf("Bar(%v, %d) = %q, want %q", c.fraction, c.width, got, c.want)
		}
	}
}

func TestFilledPutsAsManyPartsOnALineAsFit(t *testing.T) {
	for _, c := range []struct {
		columns int
		parts   []string
		want    string
	}{
		{20, nil, ""},
		{20, []string{"", ""}, ""},
		{20, []string{"one", "", "two"}, "one · two"},
		{9, []string{"one", "two"}, "one · two"},
		{9, []string{"one", "two", "three"}, "one ·\ntwo ·\nthree"}, // a dot has to fit as well
		{11, []string{"one", "two", "three"}, "one · two ·\nthree"},
		{3, []string{"a long part", "b"}, "a long part ·\nb"},
	} {
		if got := strings.Join(Filled(c.parts, c.columns), "\n"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.parts, c.columns, got, c.want)
		}
	}
}
