package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// The bar, over all runs.
const (
	leastRight    = 0.95 // verdicts
	leastCause    = 0.90 // with the ledger, the finding and the workers that are wanted
	mostWrongPass = 0.02 // where PASS is wrong
)

// What a run costs beside its load.
const (
	deployMinutes = 6.0  // assumed; a whole published check took 7m16s
	halfLookS     = 20.0 // the look at half the load
	pauseS        = 5.0  // after each episode
)

// tally is what a scenario came to.
type tally struct {
	runs, verdict, cause, wrongPass int
	hasCause, passIsWrong           bool
	episodes, minutes               float64 // means
	classic                         map[spec.State]int
	classicRight, classicWrongPass  int
}

func (s *scenario) tally() tally {
	e := s.spec.Expect
	t := tally{runs: len(s.standard), hasCause: e.Finding != "" || e.Ledger != "", passIsWrong: !slices.Contains(e.Verdict, spec.Pass), classic: map[spec.State]int{}}
	n := float64(t.runs)
	for _, l := range s.standard {
		if slices.Contains(e.Verdict, l.Verdict) {
			t.verdict++
		}
		if l.Met != nil && *l.Met {
			t.cause++
		}
		if t.passIsWrong && l.Verdict == spec.Pass {
			t.wrongPass++
		}
		t.episodes += float64(l.Episodes) / n
		t.minutes += s.gpuMinutes(l) / n
	}
	for _, l := range s.classic {
		t.classic[l.Verdict]++
		if slices.Contains(e.Verdict, l.Verdict) {
			t.classicRight++
		}
		if t.passIsWrong && l.Verdict == spec.Pass {
			t.classicWrongPass++
		}
	}
	return t
}

// gpuMinutes is what a run cost. Of a run in which the client failed its audit from
// the start, the episode and its repetitions are counted.
func (s *scenario) gpuMinutes(l line) float64 {
	if l.Verdict == spec.Skip {
		return 0
	}
	seconds := l.FirstS
	if l.Requests > 0 {
		episodes, loaded := float64(l.Episodes), l.LoadedS
		if l.Episodes == 0 {
			limits, _ := spec.DefaultThresholds(spec.ProfileStandard)
			episodes = float64(1 + limits.MaxRetries)
			loaded = episodes * s.spec.Load.Episode.D().Seconds()
		}
		seconds += halfLookS + pauseS + episodes*pauseS + loaded
	}
	return float64(s.spec.Fleet.Workers) * (deployMinutes + seconds/60)
}

// must says what must be said of a scenario.
func must(e *spec.Expectation) string {
	var words []string
	for _, v := range e.Verdict {
		words = append(words, string(v))
	}
	text := strings.Join(words, " or ")
	if e.Ledger != "" {
		text += " (" + e.Ledger + ")"
	}
	if e.Finding != "" {
		text += ", " + e.Finding
	}
	if e.Workers != nil {
		text += " " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.Workers)), ", "), "[]")
	}
	return text
}

// share is a count with its bounds.
func share(k, n int) string {
	low, high := stats.ClopperPearson(k, n, 0.95)
	return fmt.Sprintf("%d/%d (%.0f–%.0f %%)", k, n, 100*low, 100*high)
}

// write prints the table, and says whether the bar is met.
func write(w io.Writer, all []scenario, seeds int) bool {
	fmt.Fprintf(w, "%d scenarios × %d seeds, each as `aicr sim play` plays it. Brackets: Clopper–Pearson, 95 %%.\n\n", len(all), seeds)
	fmt.Fprintf(w, "| | scenario | must be | right verdict | right cause | wrong PASS | episodes | GPU-min | classic: PASS / FAIL | classic right |\n|---|---|---|---|---|---|---|---|---|---|\n")
	var sum tally
	causes, wrongable := 0, 0
	var missed []string
	for i := range all {
		s := &all[i]
		t := s.tally()
		cause, wrong := "–", "–"
		if t.hasCause {
			cause = share(t.cause, t.runs)
			sum.cause += t.cause
			causes += t.runs
		}
		if t.passIsWrong {
			wrong = fmt.Sprint(t.wrongPass)
			sum.wrongPass += t.wrongPass
			sum.classicWrongPass += t.classicWrongPass
			wrongable += t.runs
		}
		sum.runs += t.runs
		sum.verdict += t.verdict
		sum.classicRight += t.classicRight
		for _, l := range s.standard {
			if l.Met == nil || !*l.Met {
				missed = append(missed, fmt.Sprintf("%s, seed %d: %s: %s", s.entry.Title, l.Seed, l.Verdict, l.Reason))
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %.1f | %.0f | %d / %d | %d/%d |\n", s.name, s.entry.Title, must(s.spec.Expect), share(t.verdict, t.runs), cause, wrong,
			t.episodes, t.minutes, t.classic[spec.Pass], t.classic[spec.Fail], t.classicRight, t.runs)
	}
	fmt.Fprintf(w, "| | **all** | | %s | %s | %s | | | | %s, wrong PASS %s |\n\n", share(sum.verdict, sum.runs), share(sum.cause, causes), share(sum.wrongPass, wrongable),
		share(sum.classicRight, sum.runs), share(sum.classicWrongPass, wrongable))
	fmt.Fprintf(w, "GPU-min = workers × (%.0f min to deploy, assumed + first answer + %.0f s look at half the load + the load + %.0f s after each); 0 where nothing was deployed.\n", deployMinutes, halfLookS, pauseS)
	for _, m := range missed {
		fmt.Fprintf(w, "not as expected: %s\n", m)
	}
	met := true
	bar := func(what string, k, n int, ok bool) {
		if !ok || n == 0 {
			met = false
			fmt.Fprintf(w, "MISSED: %s: %d of %d\n", what, k, n)
		}
	}
	bar(fmt.Sprintf("at least %.0f %% right verdicts", 100*leastRight), sum.verdict, sum.runs, float64(sum.verdict) >= leastRight*float64(sum.runs))
	bar(fmt.Sprintf("at least %.0f %% right causes", 100*leastCause), sum.cause, causes, float64(sum.cause) >= leastCause*float64(causes))
	bar(fmt.Sprintf("at most %.0f %% PASS where that is wrong", 100*mostWrongPass), sum.wrongPass, wrongable, float64(sum.wrongPass) <= mostWrongPass*float64(wrongable))
	return met
}
