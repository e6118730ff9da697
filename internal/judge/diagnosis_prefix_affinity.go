package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// prefixAffinity finds that a router which follows cached prefixes starved a worker,
// because the prompts were too much alike: the workload's doing, not the worker's.
func prefixAffinity(ev *Evidence) []spec.Finding {
	var workers []string
	for w, n := range ev.starved {
		if 2*n >= len(ev.episodes) {
			workers = append(workers, w)
		}
	}
	if len(workers) == 0 {
		return nil
	}
	workers = orderly(workers)
	f := spec.Finding{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceMedium, Workers: workers, GPUs: ev.gpusOf(workers),
		Advice: []string{"send diverse prompts, as users do (prompts: unique), or judge with least-loaded routing", "`aicr bench --url URL` straight at the worker shows whether it is well"}}
	hits := 0.0
	for _, d := range ev.episodes {
		hits = max(hits, d.prefixHits())
	}
	if r := ev.plan.Point.Router; r == "kv" {
		f.Confidence = spec.ConfidenceHigh
		f.Evidence = append(f.Evidence, "router mode kv")
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("%s of the prompts' tokens came from a prefix cache", percent(hits)))
	for _, w := range workers {
		s := ev.shares[w]
		f.Evidence = append(f.Evidence, fmt.Sprintf("worker %s made %.2f of a fair share of the tokens in %s", w, mean(s), counted(float64(len(s)), "episode")))
	}
	f.Summary = fmt.Sprintf("prefix affinity starved %s: %s of the prompts' tokens were cached elsewhere", several("worker", workers), percent(hits))
	return []spec.Finding{f}
}
