package graph

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// The load is told where each worker is before it begins, by what the command has kept for
// it, and the record has it too.
func TestALoadKnowsWhereEachWorkerIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := newMemory(), keptRun()
		in := NamesOf(memoryRun).Namespace
		m.put(resDRA("v1", "resourceslices"), objectOf(t, `{"metadata":{"name":"s"},"spec":{"driver":"gpu.nvidia.com","pool":{"name":"gpu-0","generation":1},"devices":[{"name":"gpu-0","attributes":{"uuid":{"string":"GPU-a"}}},{"name":"gpu-1","attributes":{"uuid":{"string":"GPU-b"}}}]}}`))
		play(m, map[time.Duration]func(){time.Second: func() {
			for i, name := range []string{"w-0", "w-1"} {
				st := copied(podReady)
				st["podIP"] = fmt.Sprintf("10.0.0.%d", i+1)
				if i == 0 { // nobody says which the other has
					st["resourceClaimStatuses"] = []any{map[string]any{"name": "gpu", "resourceClaimName": "c"}}
				}
				m.put(resPods, memoryPod(name, "worker", st))
			}
			m.put(resPods, memoryPod("f-0", "frontend", podReady))
			m.put(resDRA("v1", "resourceclaims"), objectOf(t, `{"metadata":{"name":"c","namespace":"`+in+`"},"status":{"allocation":{"devices":{"results":[{"driver":"gpu.nvidia.com","pool":"gpu-0","device":"gpu-1"}]}}}}`))
			m.graphIs("successful", 1, 2)
		}})
		var given *Kept
		graphMade := m.created
		m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
			graphMade(m, r, o)
			if o.Name() == NamesOf(memoryRun).Load {
				var err error
				if given, err = readKept(m.objects[memoryKey(keptResource, k.Settings.Namespace, NamesOf(memoryRun).Kept)]); err != nil {
					t.Error(err)
				}
			}
		}
		r, book, h := newTestRun(m, k)
		_, _ = r.Go(t.Context()) // no pod of the load comes: that is another matter
		if given == nil {
			t.Fatalf("no load was begun: %q", h.said)
		}
		want := []spec.Event{{Kind: spec.EventPlaced, Source: "gpu-0", Worker: "w-0", GPU: "GPU-b"}, {Kind: spec.EventPlaced, Source: "gpu-0", Worker: "w-1"}}
		for who, events := range map[string][]spec.Event{"the load": given.Events, "the record": book.events} {
			var got []spec.Event
			for _, e := range events {
				if e.T = 0; e.Kind == spec.EventPlaced {
					got = append(got, e)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", who, diff)
			}
		}
		if err := r.tellPlaces(k.Targets); err != nil || len(book.events) != len(r.Kept.Events) {
			t.Errorf("told again: %v, %d and %d", err, len(book.events), len(r.Kept.Events))
		}
	})
}
