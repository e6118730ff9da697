package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// noFreeGPUs finds that there was nothing to run on. Whether that is a fault is for the
// recipe to say: a cluster that is kept for this deployment has its GPUs free.
func noFreeGPUs(ev *Evidence) []spec.Finding {
	free := ev.start.freeGPUs
	if free == nil || *free > 0 || ev.loaded() {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Summary: "no free GPU: nothing was loaded",
		Advice:  []string{"free GPUs, or name another node", "`kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`"}}
	if ev.plan.NoFreeGPUs == spec.NoFreeGPUsFail {
		f.Severity = spec.SeverityFail
		f.Summary = "no free GPU, where the recipe wants some: nothing was loaded"
	}
	if ev.start.gpus != nil {
		f.Evidence = []string{fmt.Sprintf("0 of %d GPUs were free before the run", *ev.start.gpus)}
	}
	f.Evidence = append(f.Evidence, firstOf(ev.start.holders, 8)...)
	return []spec.Finding{f}
}
