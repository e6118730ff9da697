package judge

import (
	"fmt"
	"math"
)

const (
	holeS      = 5   // seconds that are looked at
	holeOf     = 2   // and how many periods at the least
	holeEmptyS = 3   // after it began: by then it has ended what it had
	holeOverS  = 3   // without a failure: then it is over
	holeShare  = 0.5 // of what it ended
	holeLeast  = 3.0 // requests
	holePeers  = 0.25
	holeNoPage = "its own counters do not tell"
)

// blackHoles finds workers that fail what they are sent. A router that counts
// requests sends them ever more, since they have none.
func blackHoles(w *window) []Symptom {
	ended, failed := make([]float64, len(w.workers)), make([]float64, len(w.workers))
	first := make([]int64, len(w.workers)) // sample that counts a failure
	look := w.span(holeS, holeOf)
	var allEnded, allFailed float64
	for i, t := range w.workers {
		for j := t.since(w.now - int64(look)*second); j < len(t.states); j++ {
			s := &t.states[j]
			if s.gap == "" && !math.IsNaN(s.ended) && !math.IsNaN(s.failed) {
				ended[i] += s.ended * seconds(s.t-s.from)
				failed[i] += s.failed * seconds(s.t-s.from)
				if s.failed > 0 && first[i] == 0 {
					first[i] = s.t
				}
			}
		}
		allEnded, allFailed = allEnded+ended[i], allFailed+failed[i]
	}
	var all []Symptom
	for i, t := range w.workers {
		if failed[i] < holeLeast || failed[i] < holeShare*ended[i] || allFailed-failed[i] > holePeers*(allEnded-ended[i]) {
			continue
		}
		all = append(all, Symptom{Finding: "worker/black-hole", Severity: Fail, Workers: []string{t.name}, SinceS: seconds(w.now - first[i]),
			Words: fmt.Sprintf("%s failed %s of the %s requests that it ended in the last %d s, its peers %s of %s: a router that counts requests sends it ever more",
				workerWord(t.name), amount(failed[i]), amount(ended[i]), look, amount(allFailed-failed[i]), amount(allEnded-ended[i]))})
	}
	if len(all) == 0 {
		all = holesByTheFrontend(w)
	}
	return all
}

// holesByTheFrontend is for workers that do not count what they fail: the frontend
// fails half of all, and when that began or soon after one worker, and only one,
// stood empty or was gone while its peers were at work.
func holesByTheFrontend(w *window) []Symptom {
	onset, newest, told, failing := -1, -1, -1, 0.0
	for k := range fleetLook {
		ended, failed := w.endedAt(k)
		if math.IsNaN(failed) {
			continue
		}
		if told < 0 {
			told = k
		}
		if failed >= holeLeast && failed >= holeShare*ended {
			if onset, failing = k, failing+failed; newest < 0 {
				newest = k
			}
		} else if newest >= 0 || k-told >= holeOverS {
			break
		}
	}
	if newest < 0 || told > w.span(bridges, bridges) {
		return nil
	}
	var found []int
	soon := false
	for i, t := range w.workers {
		if !workedBefore(w, i, onset) {
			continue
		}
		gone := kindOfGap(lastGap(t)) == gapGone && t.everGood && t.good <= w.now-int64(onset-holeEmptyS)*second
		at, later := isEmpty(w, i, onset), false
		for k := onset - 1; !at && !later && k >= max(0, onset-w.span(holeEmptyS, 1)); k-- {
			later = isEmpty(w, i, k) && staysEmpty(w, i, k)
		}
		if at || later || gone {
			found, soon = append(found, i), later
		}
	}
	if len(found) != 1 || len(w.workers) < fleetWorkers {
		return nil
	}
	t := w.workers[found[0]]
	since := "when that began"
	if soon {
		since = "since soon after that began"
	}
	return []Symptom{{Finding: "worker/black-hole", Severity: Fail, Workers: []string{t.name}, SinceS: float64(onset + 1),
		Words: fmt.Sprintf("the frontend failed %s requests in the last %s, and %s alone stood empty %s: it may fail what it is sent, fast (%s)",
			amount(failing), lasted(float64(onset+1)), workerWord(t.name), since, holeNoPage)}}
}

// isEmpty says whether worker i has nothing in second k while its peers are at work.
func isEmpty(w *window, i, k int) bool {
	s := w.told(i, k)
	return s != nil && !s.hasWork() && s.made && s.tokens < holeShare*medianBut(w.at(i, k).tokens, s.tokens)
}

// staysEmpty says whether worker i had nothing in any second since.
func staysEmpty(w *window, i, k int) bool {
	for ; k >= 0; k-- {
		if s := w.told(i, k); s != nil && s.hasWork() {
			return false
		}
	}
	return true
}

// workedBefore says whether a worker made tokens in the seconds before.
func workedBefore(w *window, i, k int) bool {
	for b := k; b < min(lookS, k+2*holeS); b++ {
		if s := w.told(i, b); s != nil && s.tokens > 0 {
			return true
		}
	}
	return false
}

func lastGap(t *workerTrack) string { return t.states[len(t.states)-1].gap }

// endedAt is what the frontends ended and failed in a second.
func (w *window) endedAt(k int) (ended, failed float64) {
	ended, failed = math.NaN(), math.NaN()
	middle := w.now - int64(k)*second - second/2
	for _, t := range w.frontends {
		i := t.since(middle - 1)
		if i == len(t.states) {
			continue
		}
		if s := &t.states[i]; s.gap == "" && s.from < middle && !math.IsNaN(s.failed) {
			failed = orZero(failed) + s.failed
			ended = orZero(ended) + s.failed + orZero(s.served)
		}
	}
	return ended, failed
}
