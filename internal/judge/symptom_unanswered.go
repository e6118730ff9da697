package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

const (
	unansweredTimes = 2   // samples in a row
	tooManyAtOnce   = 0.5 // of the workers: when more fall silent together, it is rather the watcher
	tooManyLeast    = 3
)

// gapKind is what a missing sample says of whoever was asked.
type gapKind int

const (
	gapOther      gapKind = iota // it answers, but not with its metrics; or its sample was lost on the way
	gapUnanswered                // it does not answer
	gapGone                      // there is nobody to answer
	gapNone                      // it says nothing of whoever was asked
)

// kindOfGap reads the reasons that the observer gives.
func kindOfGap(why string) gapKind {
	if strings.HasPrefix(why, spec.GapObserver) || why == logSilent {
		return gapNone
	}
	for _, gone := range []string{spec.GapRefused, spec.GapNoHost} {
		if strings.HasPrefix(why, gone) {
			return gapGone
		}
	}
	for _, silent := range []string{spec.GapNoAnswer, spec.GapLate, spec.GapReset, spec.GapCutOff, nothingHeard} {
		if strings.HasPrefix(why, silent) {
			return gapUnanswered
		}
	}
	return gapOther
}

// unansweredWorkers finds workers whose page is not there: their tokens are not
// none, they are unknown. One that had work and falls silent is suspect.
func unansweredWorkers(w *window) []Symptom {
	var all []Symptom
	var silent []string
	longest := 0.0
	for _, t := range w.workers {
		if why, ns := t.gapAt(w.now); why != "" && kindOfGap(why) == gapUnanswered && t.missed(w.now) >= unansweredTimes {
			silent = append(silent, t.name)
			longest = max(longest, seconds(ns))
		}
	}
	together := len(silent) >= tooManyLeast && float64(len(silent)) > tooManyAtOnce*float64(len(w.workers))
	if together {
		all = append(all, Symptom{Finding: "telemetry/gap", Severity: Note, Workers: silent, SinceS: longest,
			Words: fmt.Sprintf("%d of %d workers have not answered for up to %s: all unknown; so many at once is rather the watcher or its network",
				len(silent), len(w.workers), lasted(longest))})
	}
	for i, t := range w.workers {
		why, ns := t.gapAt(w.now)
		kind := kindOfGap(why)
		if why == "" || kind == gapNone || t.missed(w.now) < unansweredTimes || together && kind == gapUnanswered {
			continue
		}
		all = append(all, unanswered(w, i, why, kind, seconds(ns)))
	}
	return all
}

func unanswered(w *window, i int, why string, kind gapKind, forS float64) Symptom {
	t := w.workers[i]
	s := Symptom{Finding: "telemetry/gap", Severity: Note, Workers: []string{t.name}, SinceS: forS}
	last := t.newest()
	had := last != nil && (last.hasWork() || last.tokens > 0)
	words := fmt.Sprintf("%s has not answered for %s (%s)", workerWord(t.name), lasted(forS), why)
	if !t.everGood {
		words = fmt.Sprintf("%s has never answered, %s since it was first asked (%s)", workerWord(t.name), lasted(forS), why)
	}
	switch {
	case kind == gapGone:
		s.Finding, s.Severity = "worker/absent", Fail
		words += ": it is not there"
		if had {
			words += fmt.Sprintf("; it had %s when last seen", last.requests())
		}
	case kind == gapUnanswered && had:
		s.Finding, s.Severity = "worker/stall", Fail
		words += fmt.Sprintf(": unknown, and suspect: it had %s when last seen", last.requests())
	case kind == gapUnanswered:
		words += ": unknown, and suspect"
	default:
		words = fmt.Sprintf("%s has told nothing for %s (%s): unknown", workerWord(t.name), lasted(forS), why)
	}
	if kind == gapUnanswered {
		w.addGPU(&s, &words, i)
	}
	s.Words = words
	return s
}
