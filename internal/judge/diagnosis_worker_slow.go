package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// workerSlow finds workers that are slower than their peers. Peers in one run share
// its noise, so that this is seen long before the fleet's throughput tells.
func workerSlow(ev *Evidence) []spec.Finding {
	slow, suspects := ev.tests.slowWorkers()
	if len(slow) == 0 && (len(suspects) == 0 || !ev.tests.enough()) {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: slow,
		Advice: []string{"compare the GPU's clocks, power and PCIe link with its peers': nvidia-smi -q -d CLOCK,POWER,PERFORMANCE -i GPU", "aicr bench --url URL straight at the worker and at a peer",
			"move the worker to another GPU: does the slowness go with it?"}}
	if len(slow) == 0 {
		f.Severity, f.Confidence, f.Workers = spec.SeverityNote, spec.ConfidenceLow, suspects
	}
	f.GPUs = ev.gpusOf(f.Workers)
	least := math.Inf(1)
	for _, w := range f.Workers {
		s := ev.shares[w]
		least = min(least, mean(s))
		f.Evidence = append(f.Evidence, fmt.Sprintf("worker %s made %.2f of a fair share of the tokens (%d of %d episodes below %.2f or slow for each request)", w, mean(s),
			ev.tests.slow[w], ev.tests.episodes, ev.th.PeerShare))
		if text := ev.beside(w); text != "" {
			f.Evidence = append(f.Evidence, text)
		}
	}
	f.Summary = fmt.Sprintf("%s %s slow: %.2f of a fair share of the tokens", several("worker", f.Workers), verb(len(f.Workers), "is", "are"), least)
	return []spec.Finding{f}
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
	for _, o := range d.workers {
		if o != w {
			rate, itl, power = appendKnown(rate, o.rate), appendKnown(itl, o.itl), appendKnown(power, o.power)
		}
	}
	var parts []string
	if r := median(rate); !math.IsNaN(w.rate + r) {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s for each request, its peers %.1f", w.rate, r))
	}
	if r := median(itl); !math.IsNaN(w.itl + r) {
		parts = append(parts, fmt.Sprintf("%.1f ms between tokens by the client, its peers %.1f", w.itl, r))
	}
	if r := median(power); !math.IsNaN(w.power + r) {
		parts = append(parts, fmt.Sprintf("its GPU at %s W, its peers' at %s W", amount(w.power), amount(r)))
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
