package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// kvFullest finds workers that put requests back for want of KV cache. That is no fault:
// the load asks for more cache than there is, and what was put back is made again.
func kvFullest(ev *Evidence) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceHigh,
		Advice: []string{"lower the concurrency, or the limit of sequences that the engine runs at once (vLLM: --max-num-seqs)",
			"give the cache more memory (vLLM: --gpu-memory-utilization), an FP8 cache, or more GPUs"}}
	times := 0.0
	for _, d := range ev.looked() {
		for _, w := range d.workers {
			if w.preempted < kvFullLeast || w.kvMost < kvFull {
				continue
			}
			times += w.preempted
			f.Workers = append(f.Workers, w.name)
			line := fmt.Sprintf("%s: worker %s put requests back %s times", d.title(), w.name, amount(w.preempted))
			if math.IsNaN(w.kvMost) {
				f.Confidence = spec.ConfidenceMedium
			} else {
				line += ", its KV cache used up to " + percent(w.kvMost)
			}
			if !math.IsNaN(w.hits) {
				line += fmt.Sprintf("; %s of its prompts' tokens were cached", percent(w.hits))
			}
			f.Evidence = append(f.Evidence, line)
		}
	}
	if times == 0 {
		return nil
	}
	f.Workers = orderly(f.Workers)
	f.GPUs = ev.gpusOf(f.Workers)
	f.Summary = fmt.Sprintf("%s put requests back %s times for want of KV cache: they are computed again", several("worker", f.Workers), amount(times))
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}
