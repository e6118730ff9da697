package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// graphObject is a graph as Dynamo's operator leaves it.
func graphObject(state string, front, workers int) kube.Object {
	return kube.Object{"kind": "DynamoGraphDeployment",
		"metadata": map[string]any{"name": graphName, "namespace": NamesOf(memoryRun).Namespace, "generation": 1, "labels": words(Labels(memoryRun, PartGraph))},
		"spec": map[string]any{"components": []any{
			map[string]any{"name": "Frontend", "type": "frontend", "replicas": 1},
			map[string]any{"name": "VllmDecodeWorker", "type": "worker", "replicas": 2}}},
		"status": map[string]any{"state": state, "observedGeneration": 1, "components": map[string]any{
			"Frontend": map[string]any{"readyReplicas": front}, "VllmDecodeWorker": map[string]any{"readyReplicas": workers}}}}
}

func memoryPod(name, kind string, status map[string]any) kube.Object {
	return kube.Object{"kind": "Pod", "metadata": map[string]any{"name": name, "namespace": NamesOf(memoryRun).Namespace, "labels": map[string]any{"nvidia.com/dynamo-component-type": kind}},
		"spec": map[string]any{"nodeName": "gpu-0", "containers": []any{map[string]any{"name": "main", "image": "example.com/runtime:1.2.3"}}}, "status": status}
}

var (
	podReady    = map[string]any{"phase": "Running", "podIP": "10.0.0.1", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "containerStatuses": []any{map[string]any{"name": "main", "ready": true, "state": map[string]any{"running": map[string]any{}}}}}
	podCreating = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"waiting": map[string]any{"reason": "ContainerCreating"}}}}}
	podNoImage  = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"waiting": map[string]any{"reason": "ErrImagePull", "message": "not found"}}}}}
)

// play is an operator that makes the graph go through states, each at its time after the
// graph was made.
func play(m *memoryAPI, states map[time.Duration]func()) {
	m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
		if r.Name != "dynamographdeployments" {
			return
		}
		for after, change := range states {
			go func() { time.Sleep(after); change() }()
		}
	}
}

func (m *memoryAPI) graphIs(state string, front, workers int) {
	m.put(resGraphs("v1beta1"), graphObject(state, front, workers))
}

func TestDeployMakesThingsInOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), memorySettings()
		s.Token, s.Cache, s.Queue, s.Gateway = true, &Cache{Size: "100Gi", Populate: Duration(time.Minute)}, true, true
		m.deny["get secrets"], m.deny["list secrets"] = true, true
		n := NamesOf(s.Run)
		m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
			switch r.Name {
			case "jobs":
				go func() {
					time.Sleep(20 * time.Second)
					o["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
					m.put(r, o)
				}()
			case "dynamographdeployments":
				go func() { time.Sleep(30 * time.Second); m.graphIs("successful", 1, 2) }()
			}
		}
		h := &heard{}
		began := time.Now()
		ready, err := Deploy(t.Context(), m, s, "hf_secret", h.told())
		if err != nil || !ready {
			t.Fatal(ready, err, h.events)
		}
		if took := time.Since(began); took < 50*time.Second || took > 53*time.Second {
			t.Errorf("took %s", took)
		}
		want := []string{"create Namespace /" + n.Namespace, "create Job aicr-validation/" + n.Trial, "create Secret " + n.Namespace + "/aicr-hf-token", "create PersistentVolumeClaim " + n.Namespace + "/aicr-model-cache",
			"create Job " + n.Namespace + "/" + n.Populate, "create ResourceClaimTemplate " + n.Namespace + "/aicr-inference-gpu-claim", "create Queue /" + n.Queue,
			"create DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf", "create HTTPRoute " + n.Namespace + "/aicr-inference-perf"}
		if diff := cmp.Diff(want, m.writes); diff != "" {
			t.Error(diff)
		}
		last := h.events[len(h.events)-1]
		if last.Kind != spec.EventWorkers || *last.Want != 2 || *last.Have != 2 {
			t.Errorf("told %+v", last)
		}
		ready, err = Deploy(t.Context(), m, s, "hf_secret", h.told())
		if !ready || err != nil || len(m.writes) != len(want) {
			t.Errorf("again: %v %v %v", ready, err, m.writes[len(want):])
		}
	})
}

func TestDeployTouchesNothingThatIsNotOfThisRun(t *testing.T) {
	labels := func(run string) map[string]any { return words(Labels(run, PartGraph)) }
	for name, c := range map[string]struct {
		at       func(s *Settings) (kube.Resource, kube.Object)
		writes   int // before it is met
		foreign  bool
		terminal bool
	}{
		"a namespace without labels": {func(*Settings) (kube.Resource, kube.Object) {
			return resNamespaces, kube.Object{"metadata": map[string]any{"name": NamesOf(memoryRun).Namespace}}
		}, 0, true, false},
		"a namespace of another run": {func(*Settings) (kube.Resource, kube.Object) {
			return resNamespaces, kube.Object{"metadata": map[string]any{"name": NamesOf(memoryRun).Namespace, "labels": labels("another")}}
		}, 0, true, false},
		"a namespace with the run's label and another owner": {func(*Settings) (kube.Resource, kube.Object) {
			return resNamespaces, kube.Object{"metadata": map[string]any{"name": NamesOf(memoryRun).Namespace, "labels": map[string]any{LabelRun: memoryRun}}}
		}, 0, true, false},
		"a queue of somebody": {func(*Settings) (kube.Resource, kube.Object) {
			return resQueues, kube.Object{"metadata": map[string]any{"name": NamesOf(memoryRun).Queue}}
		}, 3, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), memorySettings()
				s.Queue = true
				m.put(c.at(s))
				ready, err := Deploy(t.Context(), m, s, "", (&heard{}).told())
				var foreign *ForeignError
				if ready || !errors.As(err, &foreign) || len(m.writes) != c.writes {
					t.Errorf("ready %v, %v, wrote %v", ready, err, m.writes)
				}
			})
		})
	}
}

func TestANamespaceThatGoesIsWaitedFor(t *testing.T) {
	going := kube.Object{"kind": "Namespace", "metadata": map[string]any{"name": NamesOf(memoryRun).Namespace, "uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"kubernetes"}}}
	synctest.Test(t, func(t *testing.T) {
		m, h := newMemory(), &heard{}
		m.put(resNamespaces, going)
		play(m, map[time.Duration]func(){time.Second: func() { m.graphIs("successful", 1, 2) }})
		go func() { time.Sleep(200 * time.Second); m.drop(resNamespaces, "", going.Name()) }()
		ready, err := Deploy(t.Context(), m, memorySettings(), "", h.told())
		if !ready || err != nil || !strings.Contains(strings.Join(h.waiting, "\n"), "which is being deleted, to be gone (3m0s)") {
			t.Error(ready, err, h.waiting)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, going)
		began := time.Now()
		_, err := Deploy(t.Context(), m, memorySettings(), "", Told{})
		if err == nil || !strings.Contains(err.Error(), "finalizer kubernetes is not done") || len(m.writes) > 0 || time.Since(began) > terminatingWithin+2*time.Second {
			t.Error(err, m.writes, time.Since(began))
		}
	})
}

func TestAStartThatFailsIsToldInSecondsAndATransientIsNot(t *testing.T) {
	status := func(reason string) map[string]any {
		return map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"waiting": map[string]any{"reason": reason, "message": "Back-off: ErrImagePull: not found"}}}}}
	}
	worker := func(m *memoryAPI, st map[string]any) func() {
		return func() { m.put(resPods, memoryPod("w-0", "worker", st)) }
	}
	healthy := func(m *memoryAPI) func() {
		return func() { m.put(resPods, memoryPod("w-0", "worker", podReady)); m.graphIs("successful", 1, 2) }
	}
	for name, c := range map[string]struct {
		states func(m *memoryAPI) map[time.Duration]func()
		ready  bool
		reason string
		within time.Duration
	}{
		"an image that is not there": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: worker(m, podNoImage), 3 * time.Second: worker(m, status("ImagePullBackOff"))}
		}, false, "ImagePullBackOff", 6 * time.Second},
		"an image that comes at the second try": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: worker(m, podNoImage), 4 * time.Second: worker(m, podCreating), 30 * time.Second: healthy(m)}
		}, true, "", 33 * time.Second},
		"a graph that failed for a moment": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("failed", 0, 0) }, 8 * time.Second: func() { m.graphIs("pending", 0, 0) }, 30 * time.Second: healthy(m)}
		}, true, "", 33 * time.Second},
		"a graph that failed": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("failed", 0, 0) }}
		}, false, "GraphFailed", 14 * time.Second},
		"successful, and a worker short": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("successful", 1, 1) }, 40 * time.Second: healthy(m)}
		}, true, "", 43 * time.Second},
		"ready, and the frontend has panicked": {func(m *memoryAPI) map[time.Duration]func() {
			m.logs["f-0/main"] = "Unfold must not be polled after it returned\n"
			return map[time.Duration]func(){time.Second: func() { m.put(resPods, memoryPod("f-0", "frontend", podReady)); m.graphIs("successful", 1, 2) }}
		}, false, "DiscoveryPanic", 4 * time.Second},
		"nothing happens": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("pending", 0, 0) }}
		}, false, "timeout", 10*time.Minute + 2*time.Second},
		"the operator goes away": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("pending", 0, 0); m.hook(false) }}
		}, false, "OperatorAway", operatorLasts + 5*time.Second},
		"the operator is started again": {func(m *memoryAPI) map[time.Duration]func() {
			return map[time.Duration]func(){time.Second: func() { m.graphIs("pending", 0, 0); m.hook(false) },
				2 * time.Minute: func() { m.hook(true) }, 4 * time.Minute: healthy(m)}
		}, true, "", 4*time.Minute + 3*time.Second},
		"no operator looks at the graph": {func(*memoryAPI) map[time.Duration]func() { return nil }, false, "GraphIgnored", graphSeenWithin + 3*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h := newMemory(), &heard{}
				play(m, c.states(m))
				began := time.Now()
				ready, err := Deploy(t.Context(), m, memorySettings(), "", h.told())
				if took := time.Since(began); err != nil || ready != c.ready || took > c.within {
					t.Fatalf("ready %v, %v, after %s: %v", ready, err, took, h.reasons())
				}
				if last := h.events[len(h.events)-1]; !ready && (last.Kind != spec.EventNotServed || last.Reason != c.reason || last.Text == "") {
					t.Errorf("told %+v", h.events)
				}
				synctest.Wait()
				time.Sleep(time.Minute) // what was to come later
			})
		})
	}
}

func TestACrashIsToldWithItsLastLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := newMemory(), &heard{}
		m.logs["w-0/main/previous"] = "loading\nwith token hf_abcdefgh\nRuntimeError: no kernel\n"
		play(m, map[time.Duration]func(){time.Second: func() {
			m.put(resPods, memoryPod("w-0", "worker", map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "restartCount": 1,
				"state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}, "lastState": map[string]any{"terminated": map[string]any{"exitCode": 1}}}}}))
		}})
		ready, err := Deploy(t.Context(), m, memorySettings(), "", h.told())
		if ready || err != nil {
			t.Fatal(ready, err)
		}
		want := []string{"workers", "pod-event CrashLoopBackOff", "log last-words", "log last-words", "log last-words", "not-served CrashLoopBackOff"}
		if diff := cmp.Diff(want, h.reasons()); diff != "" {
			t.Error(diff)
		}
		if e := h.events[1]; e.Worker != "w-0" || e.Text != "container main ended 2 times, last with code 1: RuntimeError: no kernel" {
			t.Errorf("told %+v", e)
		}
		for _, e := range h.events {
			if strings.Contains(e.Text, "abcdefgh") {
				t.Errorf("a secret was told: %+v", e)
			}
		}
	})
}

func TestAModelThatCannotBeFetchedHasABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), memorySettings(), &heard{}
		s.Cache = &Cache{Size: "1Gi", Populate: Duration(2 * time.Minute)}
		began := time.Now()
		ready, err := Deploy(t.Context(), m, s, "", h.told())
		if took := time.Since(began); ready || err != nil || took < 2*time.Minute || took > 2*time.Minute+2*time.Second {
			t.Fatal(ready, err, took)
		}
		if last := h.events[len(h.events)-1]; last.Reason != "PopulateFailed" || !strings.Contains(last.Text, "not fetched within 2m0s") {
			t.Errorf("told %+v", last)
		}
		if m.has(resGraphs("v1beta1"), NamesOf(s.Run).Namespace, graphName) {
			t.Error("the graph was made all the same")
		}
	})
}

func TestWhatTheClusterRefusesIsAFindingAndWhatIsForbiddenAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := newMemory(), &heard{}
		m.deny["create dynamographdeployments"] = true
		ready, err := Deploy(t.Context(), m, memorySettings(), "", h.told())
		if ready || !kube.IsForbidden(err) || len(h.events) > 0 {
			t.Errorf("ready %v, %v, told %v", ready, err, h.events)
		}
	})
	for text, reason := range map[string]string{"exceeded quota: compute": "GraphRefused", "failed quota: q: must specify limits.cpu": "GraphRefused", "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no": "GraphRefused",
		`admission webhook "x" denied the request: no parseable tag`: "GraphRefused"} {
		cause, refused := refusedBy(errors.New(text))
		if !refused || cause(Step{Object: graphObject("", 0, 0)}).Reason != reason {
			t.Errorf("%s: %v", text, refused)
		}
	}
	if _, refused := refusedBy(context.DeadlineExceeded); refused {
		t.Error("a time-out is no refusal")
	}
}

func TestReadyIsEveryReplicaAndNotTheOperatorsWordAlone(t *testing.T) {
	alpha := func(status string) kube.Object {
		return objectOf(t, `{"metadata":{"generation":1},"spec":{"services":{"Frontend":{"componentType":"frontend"},"Worker":{"componentType":"worker","replicas":3}}},"status":`+status+`}`)
	}
	for name, c := range map[string]struct {
		graph kube.Object
		ready bool
		have  int
	}{
		"none":                          {nil, false, 0},
		"all":                           {graphObject("successful", 1, 2), true, 2},
		"a worker short":                {graphObject("successful", 1, 1), false, 1},
		"the frontend short":            {graphObject("successful", 0, 2), false, 2},
		"pending":                       {graphObject("pending", 1, 2), false, 2},
		"more than are wanted":          {graphObject("successful", 1, 3), true, 2},
		"v1alpha1, the frontend short":  {alpha(`{"state":"successful","services":{"Frontend":{"readyReplicas":0},"Worker":{"readyReplicas":3}}}`), false, 3},
		"told of a newer generation":    {alpha(`{"state":"successful","observedGeneration":2,"services":{"Frontend":{"readyReplicas":1},"Worker":{"readyReplicas":3}}}`), true, 3},
		"a component that is off":       {objectOf(t, `{"spec":{"services":{"Off":{"componentType":"worker","replicas":0}}},"status":{"state":"successful","services":{"Off":{"readyReplicas":0}}}}`), true, 0},
		"v1alpha1, all":                 {alpha(`{"state":"successful","services":{"Frontend":{"readyReplicas":1},"Worker":{"availableReplicas":3}}}`), true, 3},
		"v1alpha1, in another case":     {alpha(`{"state":"successful","services":{"frontend":{"readyReplicas":1},"worker":{"availableReplicas":3}}}`), true, 3},
		"v1alpha1, not told":            {alpha(`{"state":"successful","services":{"Frontend":{"readyReplicas":1},"Worker":{"replicas":3}}}`), false, 0},
		"v1alpha1, no component":        {alpha(`{"state":"successful"}`), false, 0},
		"told of an older generation":   {alpha(`{"state":"successful","observedGeneration":0,"services":{"Frontend":{"readyReplicas":1},"Worker":{"readyReplicas":3}}}`), false, 3},
		"zero ready, though available":  {alpha(`{"state":"successful","services":{"Frontend":{"readyReplicas":1},"Worker":{"readyReplicas":0,"availableReplicas":3}}}`), false, 0},
		"successful without components": {objectOf(t, `{"status":{"state":"successful"}}`), false, 0},
	} {
		r := readinessOf(c.graph)
		if _, have := r.Workers(); r.Ready != c.ready || have != c.have {
			t.Errorf("%s: ready %v, %d workers", name, r.Ready, have)
		}
	}
}

func TestTheLineSaysWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := newMemory(), &heard{}
		event := func(reason string) {
			m.put(resEvents, kube.Object{"metadata": map[string]any{"name": "e" + reason, "namespace": NamesOf(memoryRun).Namespace}, "involvedObject": map[string]any{"kind": "Pod", "name": "w-0"}, "reason": reason})
		}
		running := map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"running": map[string]any{}}}}}
		play(m, map[time.Duration]func(){
			2*time.Second + 1: func() { m.graphIs("pending", 0, 0) },
			3*time.Second + 1: func() {
				m.graphIs("pending", 1, 0)
				m.put(resPods, memoryPod("w-0", "worker", podCreating))
				m.put(resPods, memoryPod("w-1", "worker", podCreating))
				event("Pulling")
			},
			73*time.Second + 1: func() {
				m.graphIs("pending", 1, 1)
				m.put(resPods, memoryPod("w-0", "worker", podReady))
				m.put(resPods, memoryPod("w-1", "worker", running))
			},
			75*time.Second + 1: func() { m.graphIs("pending", 1, 2) },
			76*time.Second + 1: func() { m.graphIs("successful", 1, 2) },
		})
		if ready, err := Deploy(t.Context(), m, memorySettings(), "", h.told()); !ready || err != nil {
			t.Fatal(ready, err)
		}
		var some []string
		for _, line := range h.waiting {
			if !strings.Contains(line, "5s)") && !strings.Contains(line, "0s)") || strings.Contains(line, "1m0s)") {
				some = append(some, line)
			}
		}
		want := []string{
			"the frontend: no pod yet",
			"2 of 2 workers: w-0 ContainerCreating (pulling image) and 1 more",
			"2 of 2 workers: w-0 ContainerCreating (pulling image, 1m0s) and 1 more",
			"1 of 2 workers: w-1 Running (not ready)",
			"Dynamo's operator: the graph is pending",
		}
		if diff := cmp.Diff(want, some); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLookAgainTellsWhatOnlyTheLogSays(t *testing.T) {
	m, h := newMemory(), &heard{}
	m.graphIs("successful", 1, 2)
	m.put(resPods, memoryPod("f-0", "frontend", podReady))
	m.logs["f-0/main"] = strings.Repeat("DEBUG bucket missing for query=AllEndpoints, bucket=v1/instances\n", 50)
	found, err := LookAgain(t.Context(), m, memorySettings(), h.told())
	if err != nil || !found || len(h.events) != 1 || h.events[0].Kind != spec.EventLog || h.events[0].Count != 50 {
		t.Errorf("%v %v %+v", found, err, h.events)
	}
	m.logs["f-0/main"], h.events = strings.Repeat("DEBUG bucket missing for query=AllEndpoints, bucket=v1/instances\n", 2), nil
	if found, err := LookAgain(t.Context(), m, memorySettings(), h.told()); err != nil || !found || len(h.events) != 1 || h.events[0].Count != 2 {
		t.Errorf("%v %v %+v", found, err, h.events)
	}
	m.logs["f-0/main"] = "INFO all is well\n"
	if found, err := LookAgain(t.Context(), m, memorySettings(), h.told()); found || err != nil {
		t.Errorf("%v %v", found, err)
	}
}

func TestTargetsAreFoundWithTheirGPUs(t *testing.T) {
	m, s := newMemory(), memorySettings()
	in := NamesOf(s.Run).Namespace
	for i, name := range []string{"w-1", "w-0"} {
		st := copied(podReady)
		st["podIP"] = fmt.Sprintf("10.0.0.%d", i+1)
		st["resourceClaimStatuses"] = []any{map[string]any{"name": "gpu", "resourceClaimName": name + "-claim"}}
		m.put(resPods, memoryPod(name, "worker", st))
		m.put(resDRA("v1", "resourceclaims"), objectOf(t, fmt.Sprintf(`{"metadata":{"name":"%s-claim","namespace":"%s"},"status":{"allocation":{"devices":{"results":[{"driver":"gpu.nvidia.com","pool":"gpu-0","device":"gpu-%d"}]}}}}`, name, in, i)))
	}
	m.put(resPods, memoryPod("w-2", "worker", podCreating))
	m.put(resPods, memoryPod("f-0", "frontend", podReady))
	m.put(resDRA("v1", "resourceslices"), objectOf(t, `{"metadata":{"name":"s"},"spec":{"driver":"gpu.nvidia.com","pool":{"name":"gpu-0","generation":2},"devices":[{"name":"gpu-0","attributes":{"uuid":{"string":"GPU-a"}}},{"name":"gpu-1","basic":{"attributes":{"gpu.nvidia.com/uuid":{"string":"GPU-b"}}}}]}}`))
	m.put(resDRA("v1", "resourceslices"), objectOf(t, `{"metadata":{"name":"old"},"spec":{"driver":"gpu.nvidia.com","pool":{"name":"gpu-0","generation":1},"devices":[{"name":"gpu-0","attributes":{"uuid":{"string":"GPU-old"}}}]}}`))
	exporter := func(name, label, value, node, ip string, port int) {
		m.put(resPods, kube.Object{"metadata": map[string]any{"name": name, "namespace": "monitoring", "labels": map[string]any{label: value}},
			"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "x", "ports": []any{map[string]any{"name": "metrics", "containerPort": port}}}}}, "status": map[string]any{"phase": "Running", "podIP": ip}})
	}
	exporter("d-0", "app", "nvidia-dcgm-exporter", "gpu-0", "10.0.1.1", 9400)
	exporter("d-1", "app", "nvidia-dcgm-exporter", "gpu-1", "10.0.1.2", 9400)
	exporter("n-0", "app.kubernetes.io/name", "prometheus-node-exporter", "gpu-0", "fd00::1", 9101)
	m.put(resNodes, objectOf(t, `{"metadata":{"name":"gpu-0"},"status":{"addresses":[{"type":"Hostname","address":"x"},{"type":"InternalIP","address":"10.1.1.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10251}}}}`))
	if _, err := FindTargets(t.Context(), m, s); err == nil || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("no namespace, and %v", err)
	}
	m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": in, "uid": "ns"}})
	g := graphObject("successful", 1, 2)
	g["metadata"].(map[string]any)["uid"] = "g"
	m.put(resGraphs("v1beta1"), g)
	got, err := FindTargets(t.Context(), m, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Workers {
		got.Workers[i].UID = ""
	}
	want := &Targets{Serving: []ServingPod{{Pod: "f-0", UID: got.Serving[0].UID, Role: roleFrontend}}, NodeWas: &NodeWas{UID: got.NodeWas.UID},
		Made: map[string]string{"Namespace " + in: "ns", "DynamoGraphDeployment " + in + "/aicr-inference-perf": "g"},
		URL:  "http://aicr-inference-perf-frontend." + in + ".svc:8000", Frontend: "http://aicr-inference-perf-frontend." + in + ".svc:8000/metrics", Node: "gpu-0",
		Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", URL: "http://10.0.0.2:9090/metrics", GPU: "GPU-b"}, {Name: "w-1", Pod: "w-1", URL: "http://10.0.0.1:9090/metrics", GPU: "GPU-a"}},
		GPUs:    []string{"http://10.0.1.1:9400/metrics"}, Nodes: []string{"http://[fd00::1]:9101/metrics"}, Kubelet: "https://10.1.1.1:10251/stats/summary",
		Missing: []string{"which GPU 1 of the workers have: their claims do not say"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.Gateway = true
	m.deny["list resourceclaims"] = true
	got, err = FindTargets(t.Context(), m, s)
	if err != nil || got.URL != "http://inference-gateway.agentgateway-system.svc:80" || got.Frontend != "" || len(got.Headers) != 1 || !slices.ContainsFunc(got.Missing, func(s string) bool { return strings.Contains(s, "forbidden") }) {
		t.Errorf("%+v %v", got, err)
	}
	m.drop(resPods, in, "w-0")
	m.drop(resPods, in, "w-1")
	if _, err := FindTargets(t.Context(), m, s); err == nil {
		t.Error("no worker, and no error")
	}
}
