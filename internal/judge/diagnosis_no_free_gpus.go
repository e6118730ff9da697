package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

// noFreeGPUs finds that there was nothing to run on. That is a failure, since nothing was
// validated: only a recipe that says so makes it a SKIP.
func noFreeGPUs(ev *Evidence) []spec.Finding {
	free := ev.start.freeGPUs
	if free == nil || *free > 0 || ev.loaded() {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh, Summary: "no free GPU: " + ev.gpusHeld(),
		Advice: []string{"free GPUs, or name another node", "`kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`",
			"a recipe of a shared cluster may say `noFreeGPUs: skip`"}}
	if ev.plan.NoFreeGPUs == spec.NoFreeGPUsSkip {
		f.Severity, f.Advice = spec.SeverityNote, f.Advice[:2]
	}
	if ev.start.gpus != nil {
		f.Evidence = []string{fmt.Sprintf("0 of %d GPUs were free before the run", *ev.start.gpus)}
	}
	f.Evidence = append(f.Evidence, firstOf(ev.start.holders, 8)...)
	return []spec.Finding{f}
}

// gpusHeld says who holds the GPUs, the first few of them.
func (ev *Evidence) gpusHeld() string {
	const most = 3
	held := ev.start.holders
	if len(held) == 0 {
		return "nothing was loaded"
	}
	text := strings.Join(held[:min(most, len(held))], "; ")
	if more := len(held) - most; more > 0 {
		text += fmt.Sprintf("; and on %s", counted(float64(more), "more node"))
	}
	return text + "; nothing was loaded"
}
