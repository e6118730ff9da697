package judge

import "fmt"

// restart is that a worker began anew, and how that shows.
type restart struct {
	t   int64
	how string
}

const (
	restartShare = 0.5 // of what it was: a counter that falls below that began at 0
	countersAnew = "its counters began at 0"
	anotherID    = "another id at the same address"
)

// restarts finds workers that started anew: one may be meant, many are a crash loop
// that no single sample shows.
func restarts(w *window) []Symptom {
	var all []Symptom
	for _, t := range w.workers {
		n, first, how := 0, w.now, ""
		for _, r := range t.restarts {
			if w.now-r.t > lookNS {
				continue
			}
			if n++; n == 1 {
				first = r.t
			}
			how = r.how
		}
		if n == 0 {
			continue
		}
		times := "once"
		if n > 1 {
			times = fmt.Sprintf("%d times", n)
		}
		all = append(all, Symptom{Finding: "worker/absent", Severity: Note, Workers: []string{t.name}, SinceS: seconds(w.now - first),
			Words: fmt.Sprintf("%s has started anew %s in the last %s (%s)", workerWord(t.name), times, lasted(lookS), how)})
	}
	return all
}

// again notes that a worker began anew, and forgets what is too long ago.
func (t *workerTrack) again(r restart) {
	t.restarts = append(t.restarts, r)
	for len(t.restarts) > 1 && (r.t-t.restarts[0].t > lookNS || len(t.restarts) > mostOf) {
		t.restarts = t.restarts[1:]
	}
}

// countedDown says whether a counter began anew. Two readers of one page may be a
// little out of order, which is no restart.
func (t *workerTrack) countedDown(generated *float64) bool {
	if generated == nil {
		return false
	}
	before := t.total
	t.total = *generated
	return *generated < restartShare*before
}
