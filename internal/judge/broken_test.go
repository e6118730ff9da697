package judge

import (
	"strings"
	"testing"

	"aicr/internal/spec"
)

func TestALoadThatBrokeOffIsInvalidInItsOwnWords(t *testing.T) {
	crash := spec.Event{Kind: spec.EventInterrupt, Reason: "OOMKilled", Text: "the load's container was killed for its memory, limit 4Gi"}
	person := spec.Event{Kind: spec.EventInterrupt, Text: "interrupted"}
	for _, profile := range []string{spec.ProfileStandard, spec.ProfileSmoke, spec.ProfileClassic} {
		limits, ok := spec.DefaultThresholds(profile)
		if !ok {
			t.Fatalf("no thresholds for %s", profile)
		}
		plan := &spec.Plan{Profile: profile, Thresholds: limits}
		if v := Judge(plan, []spec.Event{crash}); v.Verdict != spec.Invalid || !strings.Contains(v.Reason, "after 0 episodes: the load's container was killed for its memory") {
			t.Errorf("%s: a crash is %s: %s", profile, v.Verdict, v.Reason)
		}
		if v := Judge(plan, []spec.Event{person}); v.Verdict != spec.Inconclusive {
			t.Errorf("%s: an interrupt is %s: %s", profile, v.Verdict, v.Reason)
		}
	}
}
