package judge

import (
	"fmt"
	"math"
)

const (
	pressureShare = 0.25 // of the time in which some task waited for a CPU
	pressureS     = 10   // seconds that are looked at
	pressureLeast = 2    // samples
)

// shortNodes finds nodes on which tasks wait for a CPU. None does not mean that the
// host is fast: one thread that is full does not show here.
func shortNodes(w *window) []Symptom {
	var all []Symptom
	for _, t := range w.nodes {
		sum, n := 0.0, 0
		for i := t.since(w.now - max(pressureS*second, pressureLeast*t.period)); i < len(t.states); i++ {
			if s := &t.states[i]; s.gap == "" && !math.IsNaN(s.cpu) {
				sum += s.cpu
				n++
			}
		}
		if n < pressureLeast || sum/float64(n) < pressureShare || t.current(w.now) == nil {
			continue
		}
		words := fmt.Sprintf("node %s is short of CPU: some task waited %s of the last %d s", t.name, percent(sum/float64(n)), pressureS)
		if s := t.current(w.now); !math.IsNaN(s.load1) {
			words += fmt.Sprintf(", load %s", amount(s.load1))
		}
		all = append(all, Symptom{Finding: "fleet/slow-host", Severity: Note, Nodes: []string{t.name}, Words: words, SinceS: pressureS})
	}
	return all
}
