package judge

import "fmt"

const (
	coldS        = 5.0   // how long without a first token, before it is told
	coldTimeoutS = 300.0 // how long, before it is no cold start any more
)

// coldWorkers finds workers that have work and have never made a token. The first
// of all may take long (42 s were published), and is no stall.
func coldWorkers(w *window) []Symptom {
	var all []Symptom
	for i, t := range w.workers {
		s := t.current(w.now)
		if s == nil || s.made || !s.hasWork() || s.barrenS < coldS {
			continue
		}
		found := Symptom{Finding: "start/cold", Severity: Note, Workers: []string{t.name}, SinceS: s.barrenS}
		words := fmt.Sprintf("%s has made no token yet, %s after its first request, with %s%s: a cold start may take minutes",
			workerWord(t.name), lasted(s.barrenS), s.requests(), kvWords(s))
		if s.asleep {
			words = fmt.Sprintf("%s is asleep with %s, %s after its first request: no tokens until POST /wake_up", workerWord(t.name), s.requests(), lasted(s.barrenS))
		}
		if s.barrenS >= coldTimeoutS {
			found.Finding, found.Severity = "start/timeout", Fail
			words = fmt.Sprintf("%s has made no token yet, %s after its first request, with %s%s: too long for a cold start",
				workerWord(t.name), lasted(s.barrenS), s.requests(), kvWords(s))
		}
		w.addGPU(&found, &words, i)
		found.Words = words
		all = append(all, found)
	}
	return all
}
