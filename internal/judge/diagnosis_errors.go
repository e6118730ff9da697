package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// failedRequests finds requests that failed: refused, cut, or with an error inside a
// stream that began with a 200.
func failedRequests(ev *Evidence) []spec.Finding {
	failed, sent := 0, 0
	classes, by := map[string]int{}, map[string]int{}
	example := ""
	for _, d := range ev.episodes {
		failed += d.errors.failed - d.errors.classes[classNoTokens]
		sent += d.requests.Sent - d.requests.Interrupted
		for class, n := range d.errors.classes {
			if class != classNoTokens {
				classes[class] += n
			}
		}
		for w, n := range d.errors.named {
			by[w] += n
		}
		if example == "" {
			example = d.errors.example
		}
	}
	if failed == 0 {
		return nil
	}
	low, high := stats.ClopperPearson(failed, sent, confidence)
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Summary: fmt.Sprintf("%s of %s requests failed (%s %%, 95 %% between %s and %s %%)", grouped(float64(failed)), grouped(float64(sent)),
			twoDigits(100*float64(failed)/float64(sent)), twoDigits(100*low), twoDigits(100*high)),
		Advice: []string{"look at the frontend's log around the times in requests.jsonl", "`kubectl get events --sort-by=.lastTimestamp`"}}
	if low > ev.th.ErrorShare {
		f.Severity = spec.SeverityFail
	}
	var kinds []string
	for class := range classes {
		kinds = append(kinds, class)
	}
	slices.Sort(kinds)
	for _, class := range kinds {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", class, grouped(float64(classes[class]))))
	}
	if example != "" {
		f.Evidence = append(f.Evidence, fmt.Sprintf("for example: %q", clip(example)))
	}
	total := 0
	for _, n := range by {
		total += n
	}
	for w, n := range by {
		if total >= 5 && float64(n) >= mostOnOne*float64(total) && len(ev.digestWorkers()) > 1 {
			f.Workers = []string{w}
			f.Evidence = append(f.Evidence, fmt.Sprintf("%d of the %d that were with a known worker were with %s", n, total, workerWord(w)))
		}
	}
	f.GPUs = ev.gpusOf(f.Workers)
	return []spec.Finding{f}
}

// twoDigits writes a share in per cent, which is 100 at most.
func twoDigits(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
