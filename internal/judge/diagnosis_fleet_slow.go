package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// fleetSlow finds that all is slow and nothing else explains it.
func fleetSlow(ev *Evidence) []spec.Finding {
	if !ev.slow() || len(slowHost(ev)) > 0 || len(ev.silent(nil)) > 0 {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh,
		Summary: ev.slowWords(), Evidence: ev.slowEvidence(),
		Advice: ev.advise(tip{any: "compare versions, flags and clocks with the machine that the reference is of"}, tip{gpu: "`nvidia-smi -q -d CLOCK,PERFORMANCE`"},
			tip{any: "`aicr knee --url URL`: is it the same curve, lower?"})}
	if ev.chanceOfTheKnee() {
		f.Severity, f.Confidence = spec.SeverityNote, spec.ConfidenceLow
		f.Advice = stepDown()
	}
	return []spec.Finding{ev.unlessPastKnee(f)}
}

// stepDown is what to do past the knee.
func stepDown() []string {
	return []string{"step the concurrency down: `--concurrency-per-gpu`", "`aicr knee --url URL --write FILE` finds an operating point and its reference"}
}

// chanceOfTheKnee says that throughput is below the reference past the knee, and that
// nothing else is wrong that would explain it. There the same healthy fleet makes now
// more and now less, by how its queues fall: that fails no deployment. The recipe's own
// floor is another matter.
func (ev *Evidence) chanceOfTheKnee() bool {
	return ev.tests.capacityState() == spec.Fail && ev.floorState() != spec.Fail && ev.pastKneeOnAverage() && !ev.secondSign()
}

// pastKneeOnAverage is whether the load may be past the knee, by the first episode or by
// the mean of all: one of them alone may be a lucky one. What takes a FAIL away needs no
// margin, other than what says that the load is past the knee.
func (ev *Evidence) pastKneeOnAverage() bool {
	if ev.doubling.Elasticity < ev.th.Elasticity {
		return true
	}
	if ev.half == nil || len(ev.episodes) == 0 || !ev.half.comparable(ev.th) || !(ev.overall.value > 0) {
		return false
	}
	mean := doublingOf(ev.half.point.Concurrency, ev.episodes[0].point.Concurrency, ev.half.throughput, ev.overall, ev.scatter(), ev.th)
	return mean.Elasticity < ev.th.Elasticity
}

// secondSign says whether something else than throughput shows that the fleet is slow:
// clocks and power of its GPUs, its host, or workers that differ from their peers.
func (ev *Evidence) secondSign() bool {
	slow, _ := ev.tests.slowWorkers()
	return len(slow) > 0 || len(slowHost(ev)) > 0 || len(gpuThrottled(ev)) > 0 || len(gpuBroken(ev)) > 0 || len(workerAbsent(ev)) > 0
}

// slow says whether capability has failed.
func (ev *Evidence) slow() bool {
	return ev.tests.capacityState() == spec.Fail || ev.tests.ttftState() == spec.Fail || ev.floorState() == spec.Fail
}

// onlyLate says whether TTFT alone has failed.
func (ev *Evidence) onlyLate() bool {
	return ev.tests.ttftState() == spec.Fail && ev.tests.capacityState() != spec.Fail && ev.floorState() != spec.Fail
}

// lateAtTheKnee says that TTFT alone has failed at a load that may be past the knee, though
// not by the margin that says so. There a queue is the rule, as past the knee.
func (ev *Evidence) lateAtTheKnee() bool {
	return ev.onlyLate() && !ev.pastKnee() && ev.pastKneeOnAverage()
}

// unlessPastKnee takes the verdict off a long queue that was measured at the knee or past it.
func (ev *Evidence) unlessPastKnee(f spec.Finding) spec.Finding {
	if ev.onlyLate() && ev.pastKneeOnAverage() {
		f.Severity, f.Confidence, f.Advice = spec.SeverityNote, spec.ConfidenceLow, stepDown()
	}
	return f
}

// slowWords says in what it is slow.
func (ev *Evidence) slowWords() string {
	switch {
	case ev.tests.capacityState() == spec.Fail:
		return fmt.Sprintf("throughput is %.2f of the reference (%s of %s tokens/s)", ev.ratio(), grouped(ev.overall.value), grouped(ev.plan.Reference.Throughput))
	case ev.floorState() == spec.Fail:
		return fmt.Sprintf("throughput is %s tokens/s, below the floor of %s", grouped(ev.overall.value), grouped(effective(ev.floor)))
	}
	return fmt.Sprintf("TTFT p99 is above %s ms in %d of %d episodes", grouped(ev.guardMS), ev.tests.ttftBad, ev.tests.episodes)
}

func (ev *Evidence) slowEvidence() []string {
	var all []string
	if o := ev.overall; !math.IsNaN(o.low) {
		all = append(all, fmt.Sprintf("throughput %s tokens/s, 95 %% between %s and %s, over %s", grouped(o.value), grouped(o.low), grouped(o.high), counted(float64(o.n), "episode")))
	}
	if ev.tests.ttftBad > 0 {
		for _, d := range ev.episodes {
			if d.ttft.low > ev.guardMS {
				all = append(all, fmt.Sprintf("episode %d: TTFT p99 %s ms, 95 %% between %s and %s", d.number, grouped(d.ttft.value), grouped(d.ttft.low), grouped(d.ttft.high)))
			}
		}
	}
	least, most := math.Inf(1), 0.0
	for _, s := range ev.shares {
		least, most = min(least, mean(s)), max(most, mean(s))
	}
	if ref := ev.plan.Reference; ref != nil && ref.N > 0 {
		all = append(all, fmt.Sprintf("the reference is of %s that differed by %s (ln-sd %.3g): the test reckons with %.3g an episode",
			counted(float64(ref.N), "episode"), percent(ref.Dispersion), ref.Dispersion, ev.tests.sigma))
	}
	if len(ev.shares) > 1 {
		even := fmt.Sprintf("workers are even: %.2f to %.2f of a fair share", least, most)
		if least < ev.th.PeerShare {
			even = fmt.Sprintf("workers made %.2f to %.2f of a fair share each", least, most)
		}
		all = append(all, even)
	}
	return firstOf(all, 8)
}

// floorState is what throughput comes to against the recipe's floor.
func (ev *Evidence) floorState() spec.State {
	if ev.floor == nil {
		return spec.NotJudged
	}
	floor, o := effective(ev.floor), ev.overall
	switch {
	case o.n == 0:
		return spec.NotJudged
	case o.n < ev.th.MinEpisodes:
		return spec.Inconclusive
	case o.high < floor || o.value < floor && math.IsNaN(o.high):
		return spec.Fail
	case o.low >= floor:
		return spec.Pass
	}
	return spec.Inconclusive
}

// floorOpen says why it is open whether throughput is above the floor.
func (ev *Evidence) floorOpen() string {
	o, floor := ev.overall, grouped(effective(ev.floor))
	if math.IsNaN(o.low) {
		return fmt.Sprintf("throughput is %s tokens/s in one episode, which has no interval to hold against the floor of %s", grouped(o.value), floor)
	}
	return fmt.Sprintf("throughput is %s tokens/s, 95 %% between %s and %s by %s, and the floor of %s lies in between",
		grouped(o.value), grouped(o.low), grouped(o.high), counted(float64(o.n), "episode"), floor)
}
