package graph

import (
	"strings"
	"testing"
	"testing/synctest"

	"aicr/internal/kube"
)

// A Job whose pod is on a node that is gone waits for that pod for ever: it is removed
// without it, also by who comes later and finds it half deleted.
func TestAJobIsRemovedWithoutThePodOfADeadNode(t *testing.T) {
	n := NamesOf(memoryRun)
	for name, c := range map[string]struct {
		node     string // "": not there
		deleting bool
		left     bool
	}{
		"its node is gone":                        {"", false, false},
		"its node does not answer":                {`{"metadata":{"name":"gpu-9"},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, false, false},
		"it was deleted before":                   {"", true, false},
		"its node is well, and the pod goes when": {`{"metadata":{"name":"gpu-9"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h := newMemory(), &heard{}
				job := kube.Object{"metadata": map[string]any{"name": n.Load, "namespace": "aicr-validation", "labels": words(Labels(memoryRun, PartLoad))}}
				if c.deleting {
					job["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
					job["metadata"].(map[string]any)["finalizers"] = []any{"foregroundDeletion"}
				}
				m.put(resJobs, job)
				m.put(resPods, kube.Object{"metadata": map[string]any{"name": "load-x", "namespace": "aicr-validation", "labels": map[string]any{"batch.kubernetes.io/job-name": n.Load}},
					"spec": map[string]any{"nodeName": "gpu-9"}, "status": map[string]any{"phase": "Running"}})
				if c.node != "" {
					m.put(resNodes, objectOf(t, c.node))
				}
				left := Teardown(t.Context(), m, memorySettings(), h.told())
				if (len(left) > 0) != c.left || m.has(resJobs, "aicr-validation", n.Load) != c.left {
					t.Errorf("left %v; said %q", left, h.said)
				}
				if said := strings.Contains(strings.Join(h.said, "\n"), "is removed without its pod load-x: its node gpu-9 "); said == c.left {
					t.Errorf("said %q", h.said)
				}
			})
		})
	}
}

// In a namespace that the run shares with others it is the same.
func TestAJobOfASharedNamespaceIsRemovedWithoutThePodOfADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memorySettings()
		s.Namespace, s.Namespaced = "team-a", true
		m, h := newMemory(), &heard{}
		job := kube.Object{"metadata": map[string]any{"name": s.Names().Load, "namespace": "team-a", "labels": words(Labels(s.Run, PartLoad)), "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"foregroundDeletion"}}}
		m.put(resJobs, job)
		m.put(resPods, kube.Object{"metadata": map[string]any{"name": "load-x", "namespace": "team-a", "labels": map[string]any{"batch.kubernetes.io/job-name": s.Names().Load}},
			"spec": map[string]any{"nodeName": "gpu-9"}, "status": map[string]any{"phase": "Running"}})
		Teardown(t.Context(), m, s, h.told())
		if said := strings.Join(h.said, "\n"); m.has(resJobs, "team-a", s.Names().Load) || !strings.Contains(said, "is removed without its pod load-x: its node gpu-9 ") {
			t.Errorf("said %s", said)
		}
	})
}
