package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
)

// workerSlow finds workers that are slower than their peers. Peers in one run share
// its noise, so that this is seen long before the fleet's throughput tells.
func workerSlow(ev *Evidence) []spec.Finding {
	slow, suspects := ev.tests.slowWorkers()
	if len(slow) == 0 && (len(suspects) == 0 || !ev.tests.enough()) {
		return sentLess(ev)
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: slow,
		Advice: ev.advise(tip{gpu: "compare the GPU's clocks, power and PCIe link with its peers': `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE -i GPU`",
			endpoint: "compare what its machine does with its peers': other processes, CPU, clocks"}, tip{any: "`aicr bench --url URL` straight at the worker and at a peer"},
			tip{gpu: "move the worker to another GPU: does the slowness go with it?", endpoint: "move the worker to another machine: does the slowness go with it?"})}
	if len(slow) == 0 {
		f.Severity, f.Confidence, f.Workers = spec.SeverityNote, spec.ConfidenceLow, suspects
	}
	f.GPUs = ev.blamed(f.Workers, ev.oddOf)
	for _, w := range f.Workers {
		var figures []string
		for _, r := range peerRules() {
			if v := ev.values(r)[w]; len(v) > 0 {
				figures = append(figures, r.words(mean(v), 1))
			}
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("worker %s was slow in %d of %d episodes: %s on average", w, ev.tests.slow[w], ev.tests.episodes, join(figures)))
		if text := ev.beside(w); text != "" {
			f.Evidence = append(f.Evidence, text)
		}
		for _, o := range ev.oddOf(w) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("worker %s: %s", w, o.words()))
		}
	}
	f.Summary = fmt.Sprintf("%s %s slow: %s", several("worker", f.Workers), verb(len(f.Workers), "is", "are"), ev.slowBecause(f.Workers))
	return []spec.Finding{f}
}

// slowBecause is the figure that decided that workers are slow, or both where each is
// that of another worker.
func (ev *Evidence) slowBecause(workers []string) string {
	var parts []string
	left := workers
	for _, r := range peerRules() {
		if w, f := ev.slowest(r, left); w != "" {
			parts = append(parts, r.words(f.value, len(workers)))
		}
		left = slices.DeleteFunc(slices.Clone(left), func(w string) bool { return ev.slowBy(r, w) != nil })
	}
	return join(parts)
}

// beside compares a worker with its peers in the last episode: by what it makes of
// each request, and by the client's own clock.
func (ev *Evidence) beside(name string) string {
	d := ev.episodes[len(ev.episodes)-1]
	w := d.worker(name)
	if w == nil {
		return ""
	}
	var rate, itl, power []float64
	for _, o := range peerWorkers(w, d.workers) {
		rate, itl, power = appendKnown(rate, o.rate), appendKnown(itl, o.itl), appendKnown(power, o.power)
	}
	var parts []string
	if r := median(rate); !math.IsNaN(w.rate + r) {
		parts = append(parts, fmt.Sprintf("%.1f %s/s for each request, its peers %.1f", w.rate, w.group.makes(), r))
	}
	if r := median(itl); !math.IsNaN(w.itl + r) {
		parts = append(parts, fmt.Sprintf("%.1f ms between tokens by the client, its peers %.1f", w.itl, r))
	}
	if r := median(power); !math.IsNaN(w.power + r) {
		its := "its GPU"
		if len(w.gpus) > 1 {
			its = fmt.Sprintf("its %d GPUs", len(w.gpus))
		}
		parts = append(parts, fmt.Sprintf("%s at %s W, its peers' at %s W", its, amount(w.power), amount(r)))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("worker %s, episode %d: %s", name, d.number, join(parts))
}

func appendKnown(to []float64, v float64) []float64 {
	if math.IsNaN(v) {
		return to
	}
	return append(to, v)
}

// sentLess notes workers that are as fast as their peers and get next to nothing,
// where no prefix cache explains it: somebody should know.
func sentLess(ev *Evidence) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceMedium,
		Advice: []string{"look at the router: does it know the worker, and how does it choose?"}}
	for w, s := range ev.shares {
		if len(s) >= ev.th.MinEpisodes && mean(s) < ev.th.StarvedShare && ev.starved[w] == 0 && len(ev.speeds[w]) > 0 {
			f.Workers = append(f.Workers, w)
		}
	}
	if len(f.Workers) == 0 {
		return nil
	}
	f.Workers = orderly(f.Workers)
	f.GPUs = ev.gpusOf(f.Workers)
	for _, w := range f.Workers {
		f.Evidence = append(f.Evidence, fmt.Sprintf("worker %s made %.2f of a fair share of the tokens", w, mean(ev.shares[w])))
	}
	f.Summary = fmt.Sprintf("%s %s less than half of a fair share, at their peers' pace", several("worker", f.Workers), verb(len(f.Workers), "gets", "get"))
	return []spec.Finding{f}
}
