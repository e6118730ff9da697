package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// podFailures are the reasons of a pod's event after which it does not start.
var podFailures = [...]string{"ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "BackOff", "Failed", "FailedScheduling", "FailedMount", "OOMKilled"}

// podsFailed finds pods that could not start, where nothing was served for it.
func podsFailed(ev *Evidence) []spec.Finding {
	if ev.start.notServed == nil {
		return nil
	}
	var seen, workers []string
	for _, e := range ev.start.pods {
		if slices.Contains(podFailures[:], e.Reason) {
			seen = append(seen, fmt.Sprintf("%s: %s: %s", e.Source, e.Reason, clip(e.Text)))
			if e.Worker != "" {
				workers = append(workers, e.Worker)
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return []spec.Finding{{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh, Workers: workers,
		Summary: counted(float64(len(seen)), "event") + " of pods that could not start", Evidence: firstOf(seen, 8),
		Advice: []string{"`kubectl describe pod POD`", "`kubectl logs POD --previous`"}}}
}

// firstOf keeps a list readable.
func firstOf(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
}
