package judge

import (
	"fmt"
	"math"

	"aicr/internal/stats"
)

const (
	idleS     = 15.0 // how long; a router that shuns a worker does so for 4 or 5 s
	idlePeers = 2.0  // requests that the median peer runs meanwhile
)

// idleWorkers finds workers that have nothing to do while their peers have. It may
// be the router's choice, or a worker that left discovery: one that was frozen for
// about 10 s does and does not return, though its page answers again.
func idleWorkers(w *window) []Symptom {
	var all []Symptom
	for i, t := range w.workers {
		from, ok := w.latest(i)
		if !ok || w.stall[i] != nil {
			continue
		}
		idle, peers := 0, math.NaN()
		last := w.told(i, from)
		for k := from; k < lookS; k++ {
			s := w.told(i, k)
			others := stats.Percentile(w.at(i, k).running, 50)
			if s == nil || s.hasWork() || s.tokens != 0 || !(others >= idlePeers) {
				break
			}
			if idle++; idle == 1 {
				peers = others
			}
		}
		if float64(idle) < idleS {
			continue
		}
		forS := float64(idle)
		s := Symptom{Finding: "worker/absent", Severity: Note, Workers: []string{t.name}, SinceS: forS,
			Words: fmt.Sprintf("%s has had nothing to do for %s while its peers run %s each: the router's choice, or it has left discovery",
				workerWord(t.name), lasted(forS), amount(peers))}
		if last.asleep {
			s.Words = fmt.Sprintf("%s is asleep, and has had nothing to do for %s while its peers run %s each: POST /wake_up wakes it up", workerWord(t.name), lasted(forS), amount(peers))
			all = append(all, s)
			continue
		}
		if math.IsNaN(last.inFlight) && hadAShare(w, i, from+idle) {
			s.Finding = "worker/stall"
			s.Words = fmt.Sprintf("%s makes no tokens for %s and says that it has no requests, while its peers run %s each: the router's choice, or wedged with a gauge that reads 0",
				workerWord(t.name), lasted(forS), amount(peers))
		}
		all = append(all, s)
	}
	return all
}
