package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
)

// workerStall finds workers that stalled while their peers did not. In a large fleet
// those that stall too often by themselves are a finding of their own: the others'
// stalls may be chance.
func workerStall(ev *Evidence) []spec.Finding {
	sick := ev.tests.stalls.sick()
	if !ev.gates() {
		sick = nil
	}
	isSick := func(worker string) bool { return slices.Contains(sick, worker) }
	all := ev.stallsOf(isSick)
	for i := range all {
		f := &all[i]
		f.Severity, f.Confidence = spec.SeverityFail, spec.ConfidenceHigh
		for _, w := range sick {
			f.Evidence = slices.Insert(f.Evidence, 0, ev.tests.stalls.standsOut(w))
		}
	}
	return append(all, ev.stallsOf(func(worker string) bool { return !isSick(worker) })...)
}

// stallsOf is the finding of the stalls of those workers, if there are any.
func (ev *Evidence) stallsOf(these func(worker string) bool) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceMedium,
		Advice: []string{"look at the engine's main thread while it stands: `py-spy dump --pid PID`", "`aicr watch --url URL --worker-metrics PAGE --record DIR` keeps the evidence of the next one",
			"least-loaded routing limits the damage; it also hides it from TTFT"}}
	n, minutes, longest := 0, ev.tests.stalls.minutes, 0
	both, odd := true, map[string][]oddity{}
	for _, d := range ev.episodes {
		for _, s := range d.stalls {
			if s.worker == "" || !these(s.worker) {
				continue
			}
			n++
			longest = max(longest, s.until-s.from)
			f.Workers = append(f.Workers, s.worker)
			f.Evidence = append(f.Evidence, s.words(d.number))
			odd[s.worker] = append(odd[s.worker], s.odd...)
			both = both && s.told && s.seen
		}
	}
	if n == 0 {
		return nil
	}
	f.Workers = orderly(f.Workers)
	f.GPUs = ev.blamed(f.Workers, func(w string) []oddity { return odd[w] })
	if both {
		f.Confidence = spec.ConfidenceHigh
	}
	if wedged := slices.DeleteFunc(ev.wedged(), func(w string) bool { return !these(w) }); len(wedged) > 0 {
		f.Severity, f.Confidence = spec.SeverityFail, spec.ConfidenceHigh
		f.Summary = fmt.Sprintf("%s %s for good: no token until the end of the load, in two episodes or more", ev.placed(wedged), verb(len(wedged), "hangs", "hang"))
	} else {
		times := "once"
		if n > 1 {
			times = fmt.Sprintf("%d times", n)
		}
		f.Summary = fmt.Sprintf("%s stalled %s in %.1f min of load, for up to %d s", ev.placed(f.Workers), times, minutes, longest)
	}
	if prior := ev.tests.stalls.prior; prior > 0 {
		f.Summary += fmt.Sprintf(", and this deployment %.1f times in earlier runs", prior)
		for _, p := range ev.plan.Prior {
			f.Evidence = append(f.Evidence, fmt.Sprintf("earlier runs: %.1f stalls of %s, the last %s", p.Count, priorName(p), p.Last))
		}
	}
	gate := ev.gates()
	switch worker := ev.escalated(); {
	case gate && worker != "" && these(worker):
		f.Severity, f.Confidence = spec.SeverityFail, spec.ConfidenceHigh
		if before := ev.priorOf(worker); before > 0 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("with those of earlier runs it is %.1f stalls of %s: %d of the same are no chance", float64(n)+before, priorName(spec.PriorStall{GPU: ev.gpuOf(worker), Worker: worker}), ev.th.SameWorker))
		}
		if n > 1 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("every stall was on worker %s: chance does that once in %.0f", worker, math.Pow(float64(len(ev.digestWorkers())), float64(n-1))))
		}
	case gate && ev.tests.stalls.allState() == spec.Fail:
		f.Severity = spec.SeverityFail
	}
	f.Evidence = firstOf(f.Evidence, 12)
	return []spec.Finding{f}
}

func priorName(p spec.PriorStall) string {
	switch {
	case p.GPU != "":
		return "GPU " + p.GPU
	case p.Worker != "":
		return workerWord(p.Worker)
	}
	return "the fleet"
}

// words tells a stall, and what its GPU did meanwhile.
func (s *standstill) words(episode int) string {
	who := "the whole fleet"
	if s.worker != "" {
		who = workerWord(s.worker)
	}
	text := fmt.Sprintf("episode %d: %s stood still from %d s to %d s (%s)", episode, who, s.from, s.until, join(s.by()))
	if s.open {
		text = fmt.Sprintf("episode %d: %s stood still from %d s until the end (%s)", episode, who, s.from, join(s.by()))
	}
	if s.asleep {
		text += "; its engine said that it was asleep: POST /wake_up wakes it up"
	}
	if math.IsNaN(s.power) || s.worker == "" {
		return text
	}
	if s.gpus > 1 {
		text += fmt.Sprintf("; its %d GPUs drew %s W each", s.gpus, amount(s.power))
	} else {
		text += fmt.Sprintf("; its GPU drew %s W", amount(s.power))
	}
	if !math.IsNaN(s.peers) {
		text += fmt.Sprintf(", its peers' %s W", amount(s.peers))
	}
	switch low := s.power < starvedPower*s.peers; {
	case low && s.duty >= hungDuty:
		text += ": hung in a kernel?"
	case low && s.duty < idleDuty && !s.throttled && len(s.odd) == 0:
		text += ", no throttle: starved, not broken"
	}
	for i := range s.odd {
		text += "; " + s.odd[i].words()
	}
	return text
}

func (s *standstill) by() []string {
	var all []string
	if s.told {
		all = append(all, byTelemetry)
	}
	if s.seen {
		all = append(all, byClient)
	}
	return all
}
