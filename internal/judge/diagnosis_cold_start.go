package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// coldStart notes a first answer that took long: a server that warms is not broken.
func coldStart(ev *Evidence) []spec.Finding {
	longest, n := 0.0, 0
	var seen, workers []string
	for _, a := range ev.start.answers {
		if a.Seconds == nil || *a.Seconds <= ev.th.ColdS {
			continue
		}
		n++
		longest = max(longest, *a.Seconds)
		workers = append(workers, a.Worker)
		whose := "the first answer"
		if a.Worker != "" {
			whose += " of worker " + a.Worker
		}
		seen = append(seen, fmt.Sprintf("%s took %.1f s", whose, *a.Seconds))
	}
	if n == 0 {
		return nil
	}
	return []spec.Finding{{Severity: spec.SeverityNote, Confidence: spec.ConfidenceHigh, Workers: named(workers),
		Summary:  fmt.Sprintf("first answer took %.0f s; warm", longest),
		Evidence: firstOf(seen, 8),
		Advice:   []string{fmt.Sprintf("give a readiness probe more than %.0f s before it gives up", longest)}}}
}
