package graph

import (
	"strings"
	"testing"
	"testing/synctest"

	"aicr/internal/spec"
)

// A container that was killed may be back when its pod is looked at for the diagnostics:
// what decided is told all the same, once, and nothing that says the opposite.
func TestTheIndexTellsWhatDecidedAndHasPassed(t *testing.T) {
	killed := spec.Event{Kind: spec.EventPod, Source: "w-0", Worker: "w-0", Reason: "OOMKilled", Text: "container main was killed for its memory"}
	unknown := spec.Event{Kind: spec.EventPod, Source: "w-0", Worker: "w-0", Reason: notReadyReason, Text: "ContainerCreating"}
	for name, c := range map[string]struct {
		status map[string]any
		told   []spec.Event
		want   string
	}{
		"it is back": {podReady, []spec.Event{unknown, killed, {Kind: spec.EventNotServed}},
			"FAIL: memory ran out\nw-0: OOMKilled: container main was killed for its memory (seen before, and not any more)\n\n"},
		"it is not": {map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}}},
			[]spec.Event{killed}, "FAIL: memory ran out\nw-0: OOMKilled: container main was killed for its memory, without a limit"},
		"nothing was told": {podReady, []spec.Event{unknown}, "FAIL: memory ran out\nNothing is seen to be wrong with the pods of the graph.\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				m.put(resGraphs("v1beta1"), graphObject("pending", 1, 0))
				m.put(resPods, memoryPod("w-0", "worker", c.status))
				index := ""
				Diagnose(t.Context(), m, s, "FAIL: memory ran out", func(name string, data []byte) error {
					if name == "index.txt" {
						index = string(data)
					}
					return nil
				}, c.told...)
				if !strings.HasPrefix(index, c.want) || strings.Count(index, "OOMKilled: ") > 1 {
					t.Errorf("it begins otherwise than with\n%s\n%s", c.want, index)
				}
			})
		})
	}
}
