package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// pastKnee finds that the operating point is where more load gives no more
// throughput, by the criterion to which aicr knee holds what it proposes. There a queue is
// the rule and its length is chance, and with it the TTFT and the throughput: neither
// fails a deployment by itself.
func pastKnee(ev *Evidence) []spec.Finding {
	if !ev.pastKnee() {
		return nil
	}
	c, half := ev.episodes[0].point.Concurrency, ev.half.point.Concurrency
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceHigh,
		Summary: fmt.Sprintf("the load is past the knee: from %d to %d in flight throughput %s (elasticity %.2f; the knee is at %.2f)", half, c,
			rise(ev.episodes[0].throughput.value/ev.half.throughput.value-1), ev.doubling.Elasticity, ev.th.Elasticity),
		Evidence: []string{fmt.Sprintf("%s tokens/s with %d in flight, %s with %d", grouped(ev.half.throughput.value), half, grouped(ev.episodes[0].throughput.value), c)},
		Advice:   stepDown()}
	if slow, _ := ev.tests.slowWorkers(); ev.onlyLate() && len(slow) == 0 {
		f.Severity = spec.SeverityInvalid // you measured the knee
	}
	return []spec.Finding{f}
}

// rise is how throughput went, in words.
func rise(share float64) string {
	if share <= 0 {
		return "did not rise"
	}
	return "rose by " + percent(share) + " only"
}
