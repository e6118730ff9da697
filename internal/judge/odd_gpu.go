package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
)

// oddity is how a GPU differs from the others of its worker, which wait for it at each step.
type oddity struct {
	gpu         string
	why         oddWhy
	own, others float64 // the others' best
}

type oddWhy uint8

const (
	oddIdle     oddWhy = iota // it does nothing while the others spin; shares of the time
	oddClock                  // it is clocked lower; MHz
	oddThrottle               // it is held back and they are not; shares of the samples
)

// oddClockShare is the share of the others' clock below which a GPU is odd: by less they
// differ where power caps them.
const oddClockShare = 0.9

// oddAmong finds the GPUs of one worker that differ from the others, if there are others.
func oddAmong(gpus []*gpuDigest, th *spec.Thresholds) []oddity {
	var all []oddity
	for _, g := range gpus {
		clock, busy, held := math.NaN(), math.NaN(), 1.0
		for _, o := range gpus {
			if o != g {
				clock, busy, held = maxKnown(clock, o.clock), maxKnown(busy, o.utilization), min(held, o.heldBack())
			}
		}
		switch {
		case len(gpus) < 2:
		case g.utilization < idleDuty && busy >= hungDuty:
			all = append(all, oddity{g.name, oddIdle, g.utilization, busy})
		case g.clock < oddClockShare*clock:
			all = append(all, oddity{g.name, oddClock, g.clock, clock})
		case g.heldBack() >= th.ThrottleShare && held < th.ThrottleShare:
			all = append(all, oddity{g.name, oddThrottle, g.heldBack(), held})
		}
	}
	if len(all) == len(gpus) {
		return nil
	}
	return all
}

// heldBack is the share of its samples in which a GPU was throttled, by the reason that most
// of them have.
func (g *gpuDigest) heldBack() float64 {
	return float64(slices.Max(g.harm[:])) / float64(max(1, g.samples))
}

// words tells it of a worker's GPU.
func (o *oddity) words() string {
	switch o.why {
	case oddIdle:
		return fmt.Sprintf("GPU %s of it idled, %s busy, while the others of it were %s busy: they wait for it", o.gpu, percent(o.own), percent(o.others))
	case oddClock:
		return fmt.Sprintf("GPU %s of it was clocked at %s MHz, the others of it at %s: they wait for it", o.gpu, amount(o.own), amount(o.others))
	case oddThrottle:
	}
	return fmt.Sprintf("GPU %s of it was throttled in %s of its samples, another of it in %s: they wait for it", o.gpu, percent(o.own), percent(o.others))
}

// oddOf are the odd GPUs of a worker in the last episode that shows any.
func (ev *Evidence) oddOf(worker string) []oddity {
	for _, d := range slices.Backward(ev.episodes) {
		if w := d.worker(worker); w != nil && len(w.odd) > 0 {
			return w.odd
		}
	}
	return nil
}

// blamed are the GPUs of workers: of each those that are odd, where some are, else all.
func (ev *Evidence) blamed(workers []string, odd func(worker string) []oddity) []string {
	var all []string
	for _, w := range workers {
		named := odd(w)
		for i := range named {
			if !slices.Contains(all, named[i].gpu) {
				all = append(all, named[i].gpu)
			}
		}
		if len(named) == 0 {
			all = append(all, ev.held(w)...)
		}
	}
	return all
}
