package graph

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// A mesh that injects a container all the same keeps the Job running: the model is there,
// and the run goes on and says which container it is.
func TestASidecarDoesNotHoldARunUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), memorySettings(), &heard{}
		s.Cache = &Cache{Size: "1Gi", Populate: Duration(10 * time.Minute)}
		n := NamesOf(s.Run)
		m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
			if r == resJobs && o.Name() == n.Populate {
				m.place(resPods, kube.Object{"metadata": map[string]any{"name": "p-0", "namespace": n.Namespace, "labels": map[string]any{"job-name": n.Populate}},
					"spec": map[string]any{"containers": []any{map[string]any{"name": "populate"}, map[string]any{"name": "istio-proxy", "image": "registry.example/istio/proxyv2:9.9.9"}}},
					"status": map[string]any{"phase": "Running", "containerStatuses": []any{
						map[string]any{"name": "istio-proxy", "state": map[string]any{"running": map[string]any{}}},
						map[string]any{"name": "populate", "state": map[string]any{"terminated": map[string]any{"exitCode": 0}}}}}})
			}
			if r.Name == "dynamographdeployments" {
				m.place(r, graphObject("successful", 1, 2))
			}
		}
		began := time.Now()
		ready, err := Deploy(t.Context(), m, s, "", h.told())
		if !ready || err != nil || time.Since(began) > time.Minute {
			t.Errorf("ready %v, %v after %s", ready, err, time.Since(began))
		}
		if said := strings.Join(h.said, "\n"); !strings.Contains(said, "p-0 is done, and container istio-proxy (registry.example/istio/proxyv2:9.9.9) keeps its Job running") {
			t.Errorf("said %s", said)
		}
	})
}

// No pod of this program's Jobs is to be injected into.
func TestEveryJobAsksNotToBeInjectedInto(t *testing.T) {
	for _, engine := range []string{EngineOwn, EngineAIPerf} {
		s := memorySettings()
		s.Cache, s.Engine, s.AIPerf = &Cache{Size: "1Gi"}, engine, &AIPerfLoad{}
		jobs := 0
		for _, step := range Objects(s) {
			if step.Object.Text("kind") != "Job" {
				continue
			}
			jobs++
			meta := step.Object.Map("spec", "template", "metadata")
			for _, path := range [][]string{{"labels", "sidecar.istio.io/inject", "false"}, {"annotations", "sidecar.istio.io/inject", "false"}, {"annotations", "linkerd.io/inject", "disabled"}, {"labels", LabelOwner, OwnerValue}} {
				if got := meta.Text(path[0], path[1]); got != path[2] {
					t.Errorf("%s: %s %s is %q", step.Object.Name(), path[0], path[1], got)
				}
			}
		}
		if jobs != 3 {
			t.Errorf("%d Jobs", jobs)
		}
	}
}
