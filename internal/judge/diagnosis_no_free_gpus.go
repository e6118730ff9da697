package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// noFreeGPUs finds that there was nothing to run on.
func noFreeGPUs(ev *Evidence) []spec.Finding {
	free := ev.start.freeGPUs
	if free == nil || *free > 0 || ev.loaded() {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Summary: "no free GPU: nothing was loaded",
		Advice:  []string{"free GPUs, or name another node", "`kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`"}}
	if ev.start.gpus != nil {
		f.Evidence = []string{fmt.Sprintf("0 of %d GPUs were free before the run", *ev.start.gpus)}
	}
	return []spec.Finding{f}
}
