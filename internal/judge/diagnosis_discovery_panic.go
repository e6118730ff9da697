package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

// discoveryPanic finds a frontend that is up and will never serve, by its log.
func discoveryPanic(ev *Evidence) []spec.Finding {
	if e := ev.start.notServed; e == nil || e.T < ev.th.NoServeS {
		return nil
	}
	var seen []string
	sure := spec.ConfidenceMedium // a missing bucket alone is also told by one that starts
	for _, e := range ev.start.logs {
		if strings.Contains(e.Text, "Unfold must not be polled") || strings.Contains(e.Text, "bucket missing") {
			seen = append(seen, fmt.Sprintf("%d x %q in the log of %s", max(1, e.Count), clip(e.Text), e.Source))
			if strings.Contains(e.Text, "Unfold") {
				sure = spec.ConfidenceVeryHigh
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: sure,
		Summary:  "the frontend's discovery panicked: it is up and never serves",
		Evidence: append(seen, fmt.Sprintf("no completion in %s", lasted(ev.start.notServed.T))),
		Advice:   []string{"align the runtime's image tag with the version of the chart", "`kubectl logs -l nvidia.com/dynamo-component-type=frontend --tail=100`"}}
	if skew := skewed(ev); skew != "" {
		f.Evidence = append(f.Evidence, skew)
	}
	return []spec.Finding{f}
}

// clip shortens a line of a log.
func clip(s string) string {
	const most = 160
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
