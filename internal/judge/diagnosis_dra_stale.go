package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

// draStale finds pods that get no GPU because the DRA plugin missed a restart of
// the driver.
func draStale(ev *Evidence) []spec.Finding {
	var workers []string
	n, text := 0, ""
	for _, e := range ev.start.pods {
		if e.Reason == "FailedPrepareDynamicResources" && strings.Contains(e.Text, "empty device edits") {
			n++
			text = e.Text
			if e.Worker != "" {
				workers = append(workers, e.Worker)
			}
		}
	}
	if n == 0 || ev.loaded() {
		return nil
	}
	return []spec.Finding{{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh, Workers: workers,
		Summary:  "the DRA plugin is stale: no pod gets its GPU",
		Evidence: []string{fmt.Sprintf("%s: %s", counted(float64(n), "pod event"), text)},
		Advice:   []string{"restart the driver, then the DRA kubelet plugin, then check that GPUs are allocatable", "the plugin's pod on that node alone: `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`, then `kubectl delete pod`", "`kubectl get resourceslices -o wide`"}}}
}
