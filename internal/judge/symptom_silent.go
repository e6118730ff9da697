package judge

import (
	"fmt"
	"maps"
	"slices"
)

const silentTimes = 3 // samples in a row

// silentSources finds GPUs, nodes and frontends that tell nothing. One exporter has
// many GPUs, so they are told together when the reason is the same.
func silentSources(w *window) []Symptom {
	var all []Symptom
	gpus := map[string][]*gpuTrack{} // by reason
	for _, t := range w.gpus {
		if why, _ := t.gapAt(w.now); why != "" && kindOfGap(why) != gapNone && t.missed(w.now) >= silentTimes {
			gpus[why] = append(gpus[why], t)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(gpus)) {
		s := Symptom{Finding: "telemetry/gap", Severity: Note}
		var short []string
		for _, t := range gpus[why] {
			_, ns := t.gapAt(w.now)
			s.SinceS = max(s.SinceS, seconds(ns))
			s.GPUs, short = append(s.GPUs, t.name), append(short, t.short())
		}
		s.Words = fmt.Sprintf("nothing is known of %s for %s (%s)", several("GPU", short), lasted(s.SinceS), why)
		all = append(all, s)
	}
	for _, t := range w.nodes {
		if why, ns := t.gapAt(w.now); why != "" && kindOfGap(why) != gapNone && t.missed(w.now) >= silentTimes {
			all = append(all, Symptom{Finding: "telemetry/gap", Severity: Note, Nodes: []string{t.name}, SinceS: seconds(ns),
				Words: fmt.Sprintf("nothing is known of node %s for %s (%s)", t.name, lasted(seconds(ns)), why)})
		}
	}
	for _, t := range w.frontends {
		why, ns := t.gapAt(w.now)
		if why == "" || kindOfGap(why) == gapNone {
			continue
		}
		forS := seconds(ns)
		switch gone := kindOfGap(why) == gapGone; {
		case gone && t.missed(w.now) >= unansweredTimes:
			// Who cannot be reached serves nobody.
			all = append(all, Symptom{Finding: "serving/no-tokens", Severity: Fail, Frontends: []string{t.name}, SinceS: forS,
				Words: fmt.Sprintf("the frontend %s does not answer (%s) for %s: it serves nothing", t.name, why, lasted(forS))})
		case !gone && t.missed(w.now) >= silentTimes:
			all = append(all, Symptom{Finding: "telemetry/gap", Severity: Note, Frontends: []string{t.name}, SinceS: forS,
				Words: fmt.Sprintf("the frontend %s has told nothing for %s (%s): unknown, and suspect", t.name, lasted(forS), why)})
		}
	}
	return all
}

// nobodyHeard finds that nothing came from anybody, not even that someone did not
// answer: then the watcher itself was stopped, and nothing is known of the others. A
// log may be silent by itself.
func nobodyHeard(w *window) []Symptom {
	period := int64(0)
	asked := func(of int64) {
		if period == 0 || of < period {
			period = of
		}
	}
	for _, t := range w.workers {
		if !t.log {
			asked(t.period)
		}
	}
	for _, t := range w.gpus {
		asked(t.period)
	}
	for _, t := range w.nodes {
		asked(t.period)
	}
	for _, t := range w.frontends {
		asked(t.period)
	}
	if silent := w.now - w.heard; period > 0 && silent > nobodyNS(period) {
		return []Symptom{{Finding: "telemetry/gap", Severity: Note, SinceS: seconds(silent),
			Words: fmt.Sprintf("nothing was heard from anybody for %s: the watcher itself was stopped, or its network", lasted(seconds(silent)))}}
	}
	return nil
}
