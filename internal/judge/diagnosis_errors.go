package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// failedRequests finds requests that failed: refused, cut, or with an error inside a
// stream that began with a 200. Those outside the episodes count too, each part by itself:
// many seconds without one would hide the few in which everything failed.
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
	outside := ev.outside()
	if failed == 0 && len(outside) == 0 {
		return nil
	}
	counted := lostRequests{failed: failed, sent: sent}
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Summary: counted.words(),
		Advice: ev.advise(tip{any: "look at the frontend's log around the times in requests.jsonl"}, tip{cluster: "`kubectl get events --sort-by=.lastTimestamp`"})}
	switch worst := ev.lostOutside(); {
	case counted.over(ev.th):
		f.Severity = spec.SeverityFail
	case worst != nil:
		f.Summary = worst.words() + " " + worst.where
		if !worst.unsure {
			f.Severity = spec.SeverityFail
		}
	case failed == 0:
		f.Summary = outside[0].words() + " " + outside[0].where
	}
	for _, l := range outside {
		f.Evidence = append(f.Evidence, l.where+": "+l.words())
	}
	var kinds []string
	for class := range classes {
		kinds = append(kinds, class)
	}
	slices.Sort(kinds)
	for _, class := range kinds {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", class, grouped(float64(classes[class]))))
	}
	if example == "" {
		example = ev.exampleOutside()
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
