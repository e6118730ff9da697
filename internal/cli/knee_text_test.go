package cli

import (
	"strings"
	"testing"

	"aicr/internal/checks"
	"aicr/internal/judge"
)

// Where the levels scatter the answer is an interval, and what more budget would buy.
func TestAKneeThatCannotBeToldSaysWhatWouldTellIt(t *testing.T) {
	low, high := 66.0, 126.0
	k := &judge.Knee{Found: true, InFlight: 91, Low: &low, High: &high}
	if got := kneeText(k, 4); got != "about 91 in flight (23 a GPU)" {
		t.Error(got)
	}
	k.Vague = true
	if got := kneeText(k, 4); got != "cannot tell within 66 to 126 in flight (17 to 32 a GPU)" {
		t.Error(got)
	}
	d := &kneeDoc{Knee: k, Budget: checks.KneeSpent{LevelsS: 120, KeptS: 300}, More: &checks.KneeMore{Levels: 12, TakesS: 180, Within: 0.1}}
	if got := moreText(d); got != "about 12 levels more, 3m0s of load, would tell it within 10 %: --budget 11m0s" {
		t.Error(got)
	}
	if d.More = nil; !strings.Contains(moreText(d), "--level-duration") {
		t.Error(moreText(d))
	}
}
