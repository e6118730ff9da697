package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// ended says that an event is of a pod that served and has ended, or was replaced.
func ended(e spec.Event) bool { return e.Reason == spec.PodEnded || e.Reason == spec.PodReplaced }

// servingRestarted finds that a frontend or an endpoint picker ended or was replaced since
// it was ready. It may be back between two episodes, and cost no request that counts.
func servingRestarted(ev *Evidence) []spec.Finding {
	if !ev.loaded() {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"`kubectl logs POD --previous`: why did it end?", "`kubectl get events --sort-by=.lastTimestamp`: who deleted or evicted it?", inDiagnostics}}
	for _, e := range ev.start.pods {
		if e.Worker == "" && ended(e) {
			f.Evidence = append(f.Evidence, e.Source+": "+shorten(e.Text))
		}
	}
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Summary = f.Evidence[0]
	if n := len(f.Evidence); n > 1 {
		f.Summary = fmt.Sprintf("%s; and %d more", f.Summary, n-1)
	}
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}
