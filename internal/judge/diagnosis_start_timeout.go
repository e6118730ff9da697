package judge

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// startTimeout finds an endpoint that never served, where nothing tells why.
func startTimeout(ev *Evidence) []spec.Finding {
	e := ev.start.notServed
	if e == nil || ev.loaded() {
		return nil
	}
	if slices.ContainsFunc(ev.start.pods, func(p spec.Event) bool { return p.Reason == notReady }) {
		return nil // who is absent tells why
	}
	for _, better := range []func(*Evidence) []spec.Finding{noFreeGPUs, draStale, discoveryPanic, podsFailed, noTokensServed, unsolicitedAnswers} {
		if len(better(ev)) > 0 {
			return nil
		}
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh,
		Summary:  fmt.Sprintf("the endpoint never served: no completion in %s", lasted(e.T)),
		Evidence: []string{clip(e.Text)},
		Advice: ev.advise(tip{any: "look at the frontend's log, and at what it lists: `curl URL/v1/models`"},
			tip{cluster: "`kubectl get pods -o wide`: are all workers ready?", endpoint: "ask each worker without what is between: `aicr bench --url WORKER_URL`"})}
	for _, a := range ev.start.answers {
		if a.Text != "" && !strings.Contains(e.Text, a.Text) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", workerOrNobody(a.Worker), clip(a.Text)))
		}
	}
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}
