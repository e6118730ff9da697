package judge

import (
	"fmt"
	"math"
)

const (
	kvFullS     = 10  // seconds that are looked at
	kvFullOf    = 2   // and how many periods at the least
	kvFull      = 0.9 // of the KV cache: with as much in use the next token may not fit
	kvFullLeast = 2.0 // preemptions: one is chance
)

// fullCaches finds workers that put requests back for want of KV cache: what these have
// made is made again, and their users wait.
func fullCaches(w *window) []Symptom {
	var all []Symptom
	look := w.span(kvFullS, kvFullOf)
	for _, t := range w.workers {
		preempted, kv := 0.0, math.NaN()
		for i := t.since(w.now - int64(look)*second); i < len(t.states); i++ {
			s := &t.states[i]
			if s.gap != "" {
				continue
			}
			kv = maxKnown(kv, s.kv)
			if !math.IsNaN(s.preempted) {
				preempted += s.preempted * seconds(s.t-s.from)
			}
		}
		s := t.current(w.now)
		if s == nil || preempted < kvFullLeast || kv < kvFull {
			continue
		}
		words := fmt.Sprintf("%s put requests back %s times in the last %d s for want of KV cache", workerWord(t.name), amount(preempted), look)
		if !math.IsNaN(kv) {
			words += ", " + percent(kv) + " of which was used"
		}
		all = append(all, Symptom{Finding: "load/kv-full", Severity: Note, Workers: []string{t.name}, SinceS: float64(look), Words: words + ": with " + s.requests()})
	}
	return all
}
