package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// versionSkew finds a runtime and a chart of different minor versions.
func versionSkew(ev *Evidence) []spec.Finding {
	skew := skewed(ev)
	if skew == "" {
		return nil
	}
	return []spec.Finding{{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Summary:  skew,
		Evidence: []string{"runtime image " + ev.start.runtime, "chart " + ev.start.chart},
		Advice:   []string{"align the runtime's image tag with the version of the chart", "`helm list -A | grep dynamo`"}}}
}

func skewed(ev *Evidence) string {
	runtime, chart := ev.start.runtime, ev.start.chart
	r, c := spec.MinorOf(runtime), spec.MinorOf(chart)
	if r == "" || c == "" || r == c {
		return ""
	}
	return fmt.Sprintf("runtime %s does not go with chart %s", runtime, chart)
}
