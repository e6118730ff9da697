package judge

import (
	"fmt"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// summary is what was seen of stalls, and what of it is tolerated in a large fleet.
func (t *stallTests) summary() string {
	_, low, high := stats.GammaRate(float64(t.all), t.minutes, confidence)
	text := fmt.Sprintf("%s in %.1f min of load (95 %% between %.2f and %.2f a minute)", counted(float64(t.all), "stall"), t.minutes, low, high)
	if t.large() {
		ok, bad := t.rates()
		text += fmt.Sprintf("; of %d workers %.2f a minute are tolerated and %.2f are bad", t.workers, ok, bad)
	}
	if t.prior > 0 {
		text += fmt.Sprintf(", and %.1f of earlier runs", t.prior)
	}
	return text
}

// wanted says what would end the tests.
func (t *stallTests) wanted() string {
	return fmt.Sprintf("%s in %.1f min of load: stability passes after %.1f more minutes without a stall, fails at %s",
		counted(float64(t.all), "stall"), t.minutes, t.left(), t.moreToFail())
}

// moreToFail is how many more stalls would fail the run.
func (t *stallTests) moreToFail() string {
	number := func(n int) string {
		if n == 0 {
			return fmt.Sprintf("more than %d", mostStalls)
		}
		return fmt.Sprint(n)
	}
	any := t.wouldFail()
	if !t.large() {
		if any == 1 {
			return "1 more stall"
		}
		return number(any) + " more stalls"
	}
	who := "one worker"
	if worst := t.worst(); worst != "" {
		who = workerWord(worst)
	}
	return fmt.Sprintf("%s more of the whole fleet or %s more of %s", number(any), number(t.workerWouldFail()), who)
}

// standsOut is why a worker's stalls are its own and not chance.
func (t *stallTests) standsOut(worker string) string {
	others := t.single - t.by[worker]
	text := fmt.Sprintf("%s alone: %s in %.1f min, where the other %d workers have %s together", workerWord(worker),
		counted(float64(t.by[worker]), "stall"), t.minutes, t.workers-1, counted(float64(others), "stall"))
	if prior := t.priorBy[worker]; prior > 0 {
		text += fmt.Sprintf("; %.1f in earlier runs", prior)
	}
	return text + fmt.Sprintf("; with all %d workers looked at, a healthy fleet shows this in less than %s of its runs", t.workers, percent(t.th.AlphaRate))
}

// The streams of stalls that a large fleet has a test for each.
const (
	walkOfFleet  = "whole fleet"
	walkOfWorker = "one worker"
)

// walks are the tests on their way.
func (t *stallTests) walks() []spec.Walk {
	low, high := t.bounds()
	walk := func(of string, values []float64) spec.Walk {
		return spec.Walk{Ledger: spec.Stability, Of: of, Low: round(low, 4), High: round(high, 4), Values: rounded(values)}
	}
	all := []spec.Walk{walk("", t.walkAll)}
	if t.large() {
		all = append(all, walk(walkOfFleet, t.walkFleet), walk(walkOfWorker, t.walkAny))
	}
	return all
}
