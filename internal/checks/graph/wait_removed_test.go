package graph

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// Who deletes what a run waits for, by hand or with `aicr clean --run`, makes no deployment
// fail: there is no verdict, and it does not take until the time is up.
func TestWhatSomebodyDeletesIsNoFailureOfTheDeployment(t *testing.T) {
	n := NamesOf(memoryRun)
	graphs := resGraphs("v1beta1")
	going := func(m *memoryAPI, r kube.Resource, namespace, name string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.objects[memoryKey(r, namespace, name)]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	for name, c := range map[string]struct {
		cached bool
		do     func(m *memoryAPI)
		want   string
		within time.Duration
	}{
		"the graph": {do: func(m *memoryAPI) { m.drop(graphs, n.Namespace, n.Graph) },
			want: "DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf was deleted while it was waited for, and not by this command", within: 25 * time.Second},
		"the graph goes": {do: func(m *memoryAPI) { going(m, graphs, n.Namespace, n.Graph) },
			want: "DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf was deleted while it was waited for, and not by this command", within: 25 * time.Second},
		"the graph, and it is made anew": {do: func(m *memoryAPI) { m.drop(graphs, n.Namespace, n.Graph); m.graphIs("pending", 0, 0) },
			want: "DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf was deleted while it was waited for, and not by this command", within: 25 * time.Second},
		"the namespace": {do: func(m *memoryAPI) { m.mu.Lock(); m.sweep(n.Namespace); m.mu.Unlock() },
			want: "DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf was deleted while it was waited for, and not by this command", within: 25 * time.Second},
		"the namespace goes, and pods fail for it": {do: func(m *memoryAPI) {
			going(m, resNamespaces, "", n.Namespace)
			time.AfterFunc(time.Minute, func() { m.mu.Lock(); m.sweep(n.Namespace); m.mu.Unlock() })
			m.put(resPods, memoryPod("w-0", "worker", podNoImage))
		}, want: "Namespace " + n.Namespace + " was deleted while it was waited for, and not by this command", within: 35 * time.Second},
		"the Job that fetches the model": {cached: true, do: func(m *memoryAPI) { m.drop(resJobs, n.Namespace, n.Populate) },
			want: "Job " + n.Namespace + "/" + n.Populate + " was deleted while it was waited for, and not by this command", within: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				if c.cached {
					k.Settings.Cache = &Cache{Size: "1Gi", Populate: Duration(time.Hour)}
				}
				r, book, _ := newTestRun(m, k)
				began, took := time.Now(), time.Duration(0)
				go func() { time.Sleep(20 * time.Second); c.do(m) }()
				r.Told.Waiting = func(text string) {
					if text == "diagnostics to be gathered" {
						took = time.Since(began)
					}
				}
				end, err := r.Go(t.Context())
				if _, ok := errors.AsType[*RemovedError](err); !ok || err.Error() != "deploying: "+c.want {
					t.Errorf("%v, want %s", err, c.want)
				}
				if end.Verdict != nil || len(end.Left) > 0 || len(ownLeft(m)) > 0 {
					t.Errorf("%+v of %v; left %v", end.Verdict, book.events, ownLeft(m))
				}
				if took > c.within {
					t.Errorf("known after %s, want %s", took, c.within)
				}
			})
		})
	}
}
