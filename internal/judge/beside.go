package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicr/internal/stats"
)

const (
	starvedPower = 0.4 // of the peers' power: less is not working
	hungDuty     = 0.9 // duty cycle of a kernel that never ends
	idleDuty     = 0.5 // duty cycle of a GPU that mostly waits
)

// cards are worker i's GPUs that tell something now. Those of one worker step together: of
// each value there is the mean, and whether any of them is throttled.
type cards struct {
	n                  int
	power, utilization float64 // means of those that are known
	working            bool    // each draws what it does at work
	throttleKnown      bool
	harmful            string
}

// cardsOf looks at worker i's GPUs now.
func (w *window) cardsOf(i int) (c cards) {
	var power, use []float64
	c.working, c.throttleKnown = true, true
	for _, g := range w.gpusOf[i] {
		t := w.gpus[g]
		s := t.current(w.now)
		if s == nil {
			continue
		}
		c.n++
		power, use = appendKnown(power, s.power), appendKnown(use, s.utilization)
		most := 0.0
		for j := range t.states {
			if t.states[j].gap == "" {
				most = max(most, orZero(t.states[j].power))
			}
		}
		c.working = c.working && most > 0 && s.utilization >= idleDuty && s.power >= worksPower*most
		if c.throttleKnown = c.throttleKnown && s.throttleKnown; s.throttleKnown {
			c.harmful = cmp.Or(c.harmful, harmful(s.throttle))
		}
	}
	c.power, c.utilization = stats.Mean(power), stats.Mean(use)
	c.throttleKnown = c.throttleKnown || c.harmful != ""
	return c
}

// gpuWorks says whether worker i's GPUs draw what they do at work: tokens that do
// not come are then those of a long prompt.
func (w *window) gpuWorks(i int) bool {
	c := w.cardsOf(i)
	return c.n > 0 && c.working
}

// gpuNames are worker i's GPUs, as far as there is telemetry of them.
func (w *window) gpuNames(i int) []string {
	var all []string
	for _, g := range w.gpusOf[i] {
		all = append(all, w.gpus[g].name)
	}
	return all
}

// atWork is what the GPUs draw that are peers of another: those of workers of a group that
// make tokens.
type atWork struct {
	powers []float64 // sorted
	has    []bool    // of GPU: its power is among them
}

// peersPower is the median power of the GPUs at work of worker i's peers; NaN when there is
// none. They are looked at once, however many workers are told of.
func (w *window) peersPower(i int) float64 {
	of := w.groupOf[i]
	if w.atWork == nil {
		w.atWork = map[group]*atWork{}
	}
	at := w.atWork[of]
	if at == nil {
		at = &atWork{has: make([]bool, len(w.gpus))}
		w.atWork[of] = at
		for j, g := range w.gpus {
			k := w.workerOf[j]
			if k < 0 || w.stall[k] != nil || w.groupOf[k] != of {
				continue
			}
			o, of := g.current(w.now), w.workers[k].current(w.now)
			if o != nil && of != nil && of.tokens > 0 && !math.IsNaN(o.power) {
				at.powers = append(at.powers, o.power)
				at.has[j] = true
			}
		}
		slices.Sort(at.powers)
	}
	others := at.powers
	for _, g := range w.gpusOf[i] {
		if at.has[g] {
			k, _ := slices.BinarySearch(others, w.gpus[g].current(w.now).power)
			others = slices.Delete(slices.Clone(others), k, k+1)
		}
	}
	return stats.Percentile(others, 50)
}

// addGPU adds to a symptom what the GPUs of its worker say: power beside tokens
// tells a GPU that is starved from one that hangs.
func (w *window) addGPU(to *Symptom, words *string, i int) {
	to.GPUs = append(to.GPUs, w.gpuNames(i)...)
	s := w.cardsOf(i)
	if s.n == 0 || math.IsNaN(s.power) {
		return
	}
	if n := len(w.gpusOf[i]); n > 1 {
		*words += fmt.Sprintf("; its %d GPUs: %s W each", n, amount(s.power))
	} else {
		*words += fmt.Sprintf("; its GPU: %s W", amount(s.power))
	}
	if !math.IsNaN(s.utilization) {
		*words += " at " + percent(s.utilization) + " use"
	}
	peers := w.peersPower(i)
	if !math.IsNaN(peers) {
		*words += fmt.Sprintf(", peers %s W", amount(peers))
	}
	throttled := ""
	if s.throttleKnown {
		throttled = ", no throttle"
		if s.harmful != "" {
			throttled = ", throttled (" + s.harmful + ")"
		}
	}
	*words += throttled
	switch low := s.power < starvedPower*peers; {
	case low && s.utilization >= hungDuty:
		*words += ": hung in a kernel?"
	case low && s.utilization < idleDuty && throttled == ", no throttle":
		*words += ": starved, not broken"
	case low && s.utilization < idleDuty && throttled == "":
		*words += ": starved (throttling is not measured)"
	}
}
