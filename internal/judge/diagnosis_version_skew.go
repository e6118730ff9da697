package judge

import (
	"fmt"
	"strings"

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
	if minor(runtime) == "" || minor(chart) == "" || minor(runtime) == minor(chart) {
		return ""
	}
	return fmt.Sprintf("runtime %s does not go with chart %s", runtime, chart)
}

// minor is the part of a version that two that go together share.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}
