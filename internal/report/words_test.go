package report

import (
	"math"
	"strings"
	"testing"

	"aicr/internal/spec"

	"pgregory.net/rapid"
)

func TestTheCommandsOfAnAdviceAreToldFromItsWords(t *testing.T) {
	for advice, want := range map[string]string{
		"look while it stands: `py-spy dump --pid PID`": "look while it stands: |[py-spy dump --pid PID]",
		"`kubectl top pod`; `cat /proc/x` on the node":  "[kubectl top pod]|; |[cat /proc/x]| on the node",
		"add a frontend replica":                        "add a frontend replica",
		"a lone ` is a word":                            "a lone ` is a word",
		"`a` and ` alone":                               "[a]| and ` alone",
		"`` `a`":                                        "`` `a`",
		"":                                              "",
	} {
		var told []string
		for _, p := range pieces(advice) {
			if p.Code {
				p.Text = "[" + p.Text + "]"
			}
			told = append(told, p.Text)
		}
		if got := strings.Join(told, "|"); got != want {
			t.Errorf("%q is %q, want %q", advice, got, want)
		}
	}
}

func TestNothingOfAnAdviceIsLost(t *testing.T) {
	words := rapid.SampledFrom([]string{"aicr", "on", "--flag", "`", "``", " ", "é", "\x00"})
	rapid.Check(t, func(t *rapid.T) {
		advice := strings.Join(rapid.SliceOfN(words, 0, 12).Draw(t, "words"), "")
		var whole strings.Builder
		for _, p := range pieces(advice) {
			if p.Text == "" {
				t.Fatal("an empty piece")
			}
			if p.Code {
				p.Text = "`" + p.Text + "`"
			}
			whole.WriteString(p.Text)
		}
		if whole.String() != advice {
			t.Fatalf("%q became %q", advice, whole.String())
		}
	})
}

func TestAnExpectationIsToldInALine(t *testing.T) {
	for want, e := range map[string]spec.Expected{
		"5 ms (4 to 6), n 9; wanted <= 7 (<= 7.7); nearly": {Value: new(5.0), Low: new(4.0), High: new(6.0), N: 9, Unit: "ms", Want: "<= 7", Effective: "<= 7.7", Note: "nearly"},
		"5 ms (from 4), n 9; wanted <= 7":                  {Value: new(5.0), Low: new(4.0), High: new(math.Inf(1)), N: 9, Unit: "ms", Want: "<= 7", Effective: "<= 7"},
		"0.99 ratio, n 2; wanted >= 0.92 of 557 (bad at 0.80 or less)": {Value: new(0.99), N: 2, Unit: "ratio", Want: ">= 0.92 of 557",
			Effective: "> 0.80, by a sequential test", Good: new(0.92), Bad: new(0.8)},
		"0 stalls/min, n 0; wanted <= 0.033 (bad at 0.75 or more)": {Value: new(0.0), Unit: "stalls/min", Want: "<= 0.033",
			Effective: "< 0.75, by a sequential test", Good: new(0.033), Bad: new(0.75)},
		"not measured; wanted <= 7":                   {Low: new(4.0), Unit: "ms", Want: "<= 7", Note: notMeasured},
		"not measured; wanted <= 7; one has no peers": {Value: new(math.NaN()), Want: "<= 7", Note: "one has no peers"},
		"0, n 1; not measured":                        {Value: new(0.0), N: 1, Note: notMeasured},
		"not measured":                                {},
	} {
		if got := expectedLine(&e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
