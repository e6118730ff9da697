package judge

import (
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

// gpuState is worker i's GPU now, if it is known.
func (w *window) gpuState(i int) (*gpuTrack, *gpuState) {
	g := w.gpuOf[i]
	if g < 0 {
		return nil, nil
	}
	return w.gpus[g], w.gpus[g].current(w.now)
}

// gpuWorks says whether worker i's GPU draws what it does at work: tokens that do
// not come are then those of a long prompt.
func (w *window) gpuWorks(i int) bool {
	t, s := w.gpuState(i)
	if s == nil {
		return false
	}
	most := 0.0
	for j := range t.states {
		if t.states[j].gap == "" {
			most = max(most, orZero(t.states[j].power))
		}
	}
	return most > 0 && s.utilization >= idleDuty && s.power >= worksPower*most
}

// atWork is what the GPUs draw that are peers of another: those of workers that make
// tokens.
type atWork struct {
	powers []float64 // sorted
	has    []bool    // of GPU: its power is among them
}

// peersPower is the median power of the GPUs at work without this one; NaN when there is
// none. They are looked at once, however many workers are told of.
func (w *window) peersPower(gpu int, power float64) float64 {
	if w.atWork == nil {
		w.atWork = &atWork{has: make([]bool, len(w.gpus))}
		for j, g := range w.gpus {
			k := w.workerOf[j]
			if k < 0 || w.stall[k] != nil {
				continue
			}
			o, of := g.current(w.now), w.workers[k].current(w.now)
			if o != nil && of != nil && of.tokens > 0 && !math.IsNaN(o.power) {
				w.atWork.powers = append(w.atWork.powers, o.power)
				w.atWork.has[j] = true
			}
		}
		slices.Sort(w.atWork.powers)
	}
	if w.atWork.has[gpu] {
		return medianBut(w.atWork.powers, power)
	}
	return stats.Percentile(w.atWork.powers, 50)
}

// addGPU adds to a symptom what the GPU of its worker says: power beside tokens
// tells a GPU that is starved from one that hangs.
func (w *window) addGPU(to *Symptom, words *string, i int) {
	t, s := w.gpuState(i)
	if t == nil {
		return
	}
	to.GPUs = append(to.GPUs, t.name)
	if s == nil || math.IsNaN(s.power) {
		return
	}
	*words += fmt.Sprintf("; its GPU: %s W", amount(s.power))
	if !math.IsNaN(s.utilization) {
		*words += " at " + percent(s.utilization) + " use"
	}
	peers := w.peersPower(w.gpuOf[i], s.power)
	if !math.IsNaN(peers) {
		*words += fmt.Sprintf(", peers %s W", amount(peers))
	}
	throttled := ""
	if s.throttleKnown {
		throttled = ", no throttle"
		if bad := harmful(s.throttle); bad != "" {
			throttled = ", throttled (" + bad + ")"
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
