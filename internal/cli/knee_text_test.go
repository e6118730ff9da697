package cli

import (
	"bytes"
	"strings"
	"testing"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/report/layout"
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

// Whether requests wait in the engines' queues is said, and that it was not seen.
func TestAKneeSaysWhatItSawOfTheQueues(t *testing.T) {
	level := func(inFlight int, running, waiting, queued float64) judge.KneeLevel {
		return judge.KneeLevel{InFlight: inFlight, Running: &running, Waiting: &waiting, Queued: &queued}
	}
	for want, levels := range map[string][]judge.KneeLevel{
		"": {level(16, 15, 0.1, 0.1)},
		"at 18 in flight requests always wait in the engines' queues, 2 on average: the engines take no more at once": {level(24, 16, 8, 1), level(18, 16, 2, 1), level(16, 14, 2, 0.5), level(12, 11, 1, 1)},
		"the engines' queues were not seen: --worker-metrics URL for each worker shows whether requests wait there":   {{InFlight: 16}},
	} {
		if got := queueText(&kneeDoc{Levels: levels}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The command that comes next looks at the same pages.
func TestTheNextCommandNamesThePages(t *testing.T) {
	o := &validateOptions{url: "http://h:1"}
	o.pages.workers = []string{"http://u:secret@w:2/metrics", "workers.txt"}
	j := &kneeJob{validateJob: &validateJob{options: o}}
	got := j.again(2)
	if !strings.HasPrefix(got, "--url http://h:1 --workers 2 --worker-metrics ") || !strings.HasSuffix(got, "--worker-metrics workers.txt") || strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// What was sent twice while looking for the knee is told, of every part of the search.
func TestAKneeTellsWhatWasSentAgain(t *testing.T) {
	for resent, want := range map[int]string{0: "", 2: "note      4 requests were sent again: the server closed kept connections"} {
		var b bytes.Buffer
		writeKnee(&b, &kneeDoc{Levels: []judge.KneeLevel{{Resent: resent}}, Reference: []judge.KneeLevel{{Resent: resent}}}, layout.Palette{})
		if got := b.String(); strings.Contains(got, "sent again") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%d: %s", resent, got)
		}
	}
}
