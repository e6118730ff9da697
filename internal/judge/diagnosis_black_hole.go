package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// blackHole finds a worker that fails fast and so draws traffic: where least-loaded
// routing counts what is in flight, who refuses at once always has the least.
func blackHole(ev *Evidence) []spec.Finding {
	count, fast, burst := map[string]int{}, 0, 0
	var seen []string
	for _, d := range ev.looked() {
		e := &d.errors
		names := holes(d)
		if len(names) == 0 {
			continue
		}
		fast += e.fast
		burst = max(burst, e.burst)
		for _, w := range names {
			count[w]++
		}
		seen = append(seen, fmt.Sprintf("episode %d: %s requests refused at once, up to %d in a second, while %s stood empty", d.number, grouped(float64(e.fast)), e.burst, several("worker", names)))
	}
	if len(count) == 0 {
		return nil
	}
	var workers []string
	for w := range count {
		workers = append(workers, w)
	}
	workers = orderly(workers)
	return []spec.Finding{{Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: workers, GPUs: ev.gpusOf(workers),
		Summary:  fmt.Sprintf("%s %s what it is sent at once and draws the traffic: %s requests failed so", several("worker", workers), verb(len(workers), "fails", "fail"), grouped(float64(fast))),
		Evidence: firstOf(seen, 8),
		Advice: ev.advise(tip{any: "take the worker out of the router's list, or restart it"},
			tip{cluster: "`kubectl logs POD --previous`: it may have crashed", endpoint: "look at the worker's log: it may have crashed"},
			tip{any: "with least-loaded routing, have the router eject a worker that fails"})}}
}

// holes are the workers that stood empty while requests were refused in a burst.
// When the hole has swallowed all there was, every worker stands empty: then it is
// the one whose streams were cut.
func holes(d *digest) []string {
	e := &d.errors
	if e.burst == 0 {
		return nil
	}
	for w, n := range e.refused {
		if n >= leastBurst && float64(n) >= mostOnOne*float64(e.fast) {
			return []string{w} // they say themselves whose they were
		}
	}
	total := 0
	for _, n := range e.named {
		total += n
	}
	for w, n := range e.named {
		if total >= leastBurst && float64(n) >= mostOnOne*float64(total) && slices.Contains(e.empty, w) {
			return []string{w}
		}
	}
	if 2*len(e.empty) > len(d.workers) {
		return nil
	}
	return e.empty
}
