package graph

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// restartedPod is a worker whose container has been started anew so often, the last time
// so long after the run's start.
func restartedPod(name string, restarts int, last time.Duration, reason string, code int) kube.Object {
	st := copied(podReady)
	c := st["containerStatuses"].([]any)[0].(map[string]any)
	c["restartCount"] = restarts
	c["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason, "finishedAt": time.Now().Add(last).UTC().Format(time.RFC3339)}}
	return memoryPod(name, "worker", st)
}

// evictedPod is a worker that was put out of its node.
func evictedPod(after time.Duration) kube.Object {
	return memoryPod("w-0", "worker", map[string]any{"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
		"conditions":        []any{map[string]any{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": time.Now().Add(after).UTC().Format(time.RFC3339)}},
		"containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"terminated": map[string]any{"exitCode": 137, "finishedAt": time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}}}}})
}

// A worker that was started anew and is back by the next sample leaves no trace but the
// node's count.
func TestAWorkerThatEndsUnderLoadIsToldOf(t *testing.T) {
	began := []spec.Event{{Kind: spec.EventStage, Stage: "start", T: 10}, {Kind: spec.EventStage, Stage: "episode", Episode: 1, T: 20}, {Kind: spec.EventStage, Stage: "end", T: 60}}
	for name, c := range map[string]struct {
		pod    func() kube.Object
		before int64
		events []spec.Event
		want   string
	}{
		"killed for memory":      {func() kube.Object { return restartedPod("w-0", 3, 50*time.Second, "OOMKilled", 137) }, 1, began, "container main ended 2 times since it was ready, and was started anew; the last time with exit code 137 (OOMKilled)"},
		"a crash":                {func() kube.Object { return restartedPod("w-0", 1, 30*time.Second, "Error", 1) }, 0, began, "container main ended once since it was ready, and was started anew; the last time with exit code 1"},
		"as the load ended":      {func() kube.Object { return restartedPod("w-0", 1, 64*time.Second, "Error", 1) }, 0, began, "container main ended once since it was ready, and was started anew; the last time with exit code 1"},
		"put out of its node":    {func() kube.Object { return evictedPod(30 * time.Second) }, 0, began, "its pod was ended: Evicted: The node was low on resource: memory."},
		"put out after the load": {func() kube.Object { return evictedPod(time.Hour) }, 0, began, ""},
		"before it was ready":    {func() kube.Object { return restartedPod("w-0", 2, 5*time.Second, "Error", 1) }, 2, began, ""},
		"again after the load": {func() kube.Object {
			return endedAgain(restartedPod("w-0", 1, 30*time.Second, "OOMKilled", 137), time.Hour)
		}, 0, began,
			"container main ended once since it was ready, and does not run again; the last time with exit code 137 (OOMKilled)"},
		"and it does not run again": {func() kube.Object { return endedAgain(memoryPod("w-0", "worker", copied(podReady)), 50*time.Second) }, 0, began,
			"container main ended once since it was ready, and does not run again; the last time with exit code 2"},
		"and it waits to be started": {func() kube.Object { return waiting(restartedPod("w-0", 0, 50*time.Second, "Error", 1)) }, 0, began,
			"container main ended once since it was ready, and does not run again; the last time with exit code 1"},
		"after the load, twice":      {func() kube.Object { return endedAgain(restartedPod("w-0", 1, time.Hour, "Error", 1), 2*time.Hour) }, 0, began, ""},
		"after the load":             {func() kube.Object { return restartedPod("w-0", 1, time.Hour, "Error", 1) }, 0, began, ""},
		"never":                      {func() kube.Object { return memoryPod("w-0", "worker", podReady) }, 0, began, ""},
		"a pod that is not loaded":   {func() kube.Object { return restartedPod("other", 3, 30*time.Second, "Error", 1) }, 0, began, ""},
		"a run that came to no load": {func() kube.Object { return restartedPod("w-0", 3, 30*time.Second, "Error", 1) }, 0, began[2:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				k.Stage, k.Targets = StageLoad, &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", Restarts: c.before}}}
				m.put(resPods, c.pod())
				r, book, h := newTestRun(m, k)
				book.events = c.events
				if _, err := r.judge(t.Context(), &End{By: ByRecord}); err != nil {
					t.Fatal(err)
				}
				told := book.events[len(c.events):]
				if c.want == "" {
					if len(told) > 0 || len(book.order) != 1 {
						t.Errorf("told %+v, judged %d times", told, len(book.order))
					}
					return
				}
				if len(told) != 1 || len(book.order) != 2 {
					t.Fatalf("told %+v, judged %d times", told, len(book.order))
				}
				if e := told[0]; e.Kind != spec.EventPod || e.Reason != spec.PodEnded || e.Worker != "w-0" || e.Text != c.want || e.Count != int(ends(t, m, began[2].T)-c.before) {
					t.Errorf("told %+v\nwant %s", e, c.want)
				}
				if said := strings.Join(h.said, "\n"); !strings.Contains(said, "w-0: "+c.want) {
					t.Errorf("said %s", said)
				}
			})
		})
	}
}

// ends is how often the pod has ended, without the ends that are known to be after a time.
func ends(t *testing.T, m *memoryAPI, over float64) int64 {
	pod, err := m.Read(t.Context(), resPods, NamesOf(memoryRun).Namespace, "w-0")
	if err != nil {
		t.Fatal(err)
	}
	n, known := endsOf(pod)
	for _, end := range known {
		if end.at.After(time.Now().Add(time.Duration(over)*time.Second + clocksDiffer)) {
			n--
		}
	}
	return n
}

// endedAgain is a pod whose container has ended, again so long after the run's start, and
// that the node has not started anew yet.
func endedAgain(pod kube.Object, after time.Duration) kube.Object {
	c := pod.List("status", "containerStatuses")[0]
	c["state"] = map[string]any{"terminated": map[string]any{"exitCode": 2, "finishedAt": time.Now().Add(after).UTC().Format(time.RFC3339)}}
	return pod
}

// waiting is a pod whose container the node waits to start anew.
func waiting(pod kube.Object) kube.Object {
	pod.List("status", "containerStatuses")[0]["state"] = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}
	return pod
}

// Of ends that are after the load the node knows the last one alone, or two: whether there was
// one under load is then unknown, and nobody is well by it.
func TestEndsWhoseTimesAreLostAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for restarts, want := range map[int]string{1: "", 2: "w-0 has ended 2 times, the last time after the load, and when it did before is not known"} {
			m, k := newMemory(), keptRun()
			k.Targets = &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0"}}}
			m.put(resPods, restartedPod("w-0", restarts, time.Hour, "Error", 1))
			r, book, _ := newTestRun(m, k)
			told, err := r.tellEnded(t.Context(), time.Now().Add(time.Minute))
			if err != nil || told != (want != "") || told && (book.events[0].Reason != spec.PodsUnseen || book.events[0].Text != want) {
				t.Errorf("%d restarts: told %+v, %v", restarts, book.events, err)
			}
		}
	})
}

// What cannot be seen is said, and told to the record: nobody is well by it.
func TestEndsThatCannotBeSeenAreSaid(t *testing.T) {
	m, k := newMemory(), keptRun()
	m.deny["list pods"] = true
	k.Targets = &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0"}}}
	r, book, h := newTestRun(m, k)
	told, err := r.tellEnded(t.Context(), time.Now())
	if !told || err != nil || len(book.events) != 1 || book.events[0].Reason != spec.PodsUnseen || !strings.Contains(strings.Join(h.said, "\n"), "whether pods that serve have ended under load could not be seen") {
		t.Errorf("%v, %v, said %q", told, err, h.said)
	}
}

// What is kept of the frontend is held against it as what is kept of workers: it is back
// within seconds, and the episodes after it are well.
func TestAFrontendThatEndsOrIsReplacedIsToldOf(t *testing.T) {
	at := func(p kube.Object, after time.Duration, uid string) kube.Object {
		meta := p["metadata"].(map[string]any)
		meta["uid"], meta["creationTimestamp"] = uid, time.Now().Add(after).UTC().Format(time.RFC3339)
		return p
	}
	front := func(name string, after time.Duration, uid string) kube.Object {
		return at(memoryPod(name, "frontend", podReady), after, uid)
	}
	crashed := func() kube.Object {
		p := restartedPod("f-0", 1, 30*time.Second, "OOMKilled", 137)
		p["metadata"].(map[string]any)["labels"] = map[string]any{"nvidia.com/dynamo-component-type": "frontend"}
		return at(p, -time.Minute, "f0")
	}
	going := func(after time.Duration) kube.Object {
		p := front("f-0", -time.Minute, "f0")
		p["metadata"].(map[string]any)["deletionTimestamp"] = time.Now().Add(after + 30*time.Second).UTC().Format(time.RFC3339)
		p["metadata"].(map[string]any)["deletionGracePeriodSeconds"] = 30
		return p
	}
	worker := func() kube.Object { return at(memoryPod("w-0", "worker", podReady), -time.Minute, "w0") }
	ended := []spec.Event{{Kind: spec.EventStage, Stage: "start", T: 10}, {Kind: spec.EventStage, Stage: "episode", Episode: 1, T: 20}, {Kind: spec.EventStage, Stage: "end", T: 60}}
	for name, c := range map[string]struct {
		pods   func() []kube.Object
		reason string
		worker string
		says   string
	}{
		"it is as it was":       {func() []kube.Object { return []kube.Object{front("f-0", -time.Minute, "f0"), worker()} }, "", "", ""},
		"its container crashed": {func() []kube.Object { return []kube.Object{crashed(), worker()} }, spec.PodEnded, "", "exit code 137 (OOMKilled)"},
		"its pod was deleted": {func() []kube.Object { return []kube.Object{front("f-1", 30*time.Second, "f1"), worker()} }, spec.PodReplaced, "",
			"the pod (frontend) was deleted after it was ready; f-1 took its place at "},
		"a pod of its name took its place": {func() []kube.Object { return []kube.Object{front("f-0", 30*time.Second, "f1"), worker()} }, spec.PodReplaced, "", "f-0 took its place"},
		"it was deleted after the load":    {func() []kube.Object { return []kube.Object{front("f-1", time.Hour, "f1"), worker()} }, "", "", ""},
		"it goes":                          {func() []kube.Object { return []kube.Object{going(30 * time.Second), worker()} }, spec.PodReplaced, "", "is being deleted since"},
		"it goes since the load":           {func() []kube.Object { return []kube.Object{going(time.Hour), worker()} }, "", "", ""},
		"it is gone, and none is there":    {func() []kube.Object { return []kube.Object{worker()} }, spec.PodsUnseen, "", "pod f-0 (frontend) is gone, and nothing says since when"},
		"a worker was replaced": {func() []kube.Object {
			return []kube.Object{front("f-0", -time.Minute, "f0"), at(memoryPod("w-9", "worker", podReady), 40*time.Second, "w9")}
		}, spec.PodReplaced, "w-0", "w-9 took its place"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				k.Stage = StageLoad
				k.Targets = &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", UID: "w0"}}, Serving: []ServingPod{{Pod: "f-0", UID: "f0", Role: roleFrontend}}}
				for _, p := range c.pods() {
					m.put(resPods, p)
				}
				r, book, _ := newTestRun(m, k)
				book.events = ended
				if _, err := r.judge(t.Context(), &End{By: ByRecord}); err != nil {
					t.Fatal(err)
				}
				told := book.events[len(ended):]
				if c.reason == "" {
					if len(told) > 0 {
						t.Errorf("told %+v", told)
					}
					return
				}
				if len(told) != 1 || told[0].Reason != c.reason || told[0].Worker != c.worker || !strings.Contains(told[0].Text, c.says) {
					t.Errorf("told %+v, want %s: %s", told, c.reason, c.says)
				}
			})
		})
	}
}

// A replica that serves all the time has not taken the place of one that went.
func TestAnotherReplicaIsNoReplacement(t *testing.T) {
	m, k := newMemory(), keptRun()
	old := memoryPod("w-1", "worker", podReady)
	old["metadata"].(map[string]any)["uid"], old["metadata"].(map[string]any)["creationTimestamp"] = "w1", time.Now().UTC().Format(time.RFC3339)
	m.put(resPods, old)
	k.Targets = &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", UID: "w0"}, {Name: "w-1", Pod: "w-1", UID: "w1"}}}
	r, book, _ := newTestRun(m, k)
	if told, err := r.tellEnded(t.Context(), time.Now().Add(time.Minute)); told || err != nil {
		t.Errorf("told %+v, %v", book.events, err)
	}
}

// What befell the node is told, and decides nothing.
func TestANodeThatChangesIsToldOf(t *testing.T) {
	for want, node := range map[string]string{
		"":                  `{"metadata":{"name":"gpu-0","uid":"n0"}}`,
		spec.NodeCordoned:   `{"metadata":{"name":"gpu-0","uid":"n0"},"spec":{"unschedulable":true}}`,
		spec.NodeRegistered: `{"metadata":{"name":"gpu-0","uid":"n1"}}`,
		spec.NodeDeleted:    "",
	} {
		m, k := newMemory(), keptRun()
		k.Targets = &Targets{Node: "gpu-0", NodeWas: &NodeWas{UID: "n0"}}
		if node != "" {
			m.put(resNodes, objectOf(t, node))
		}
		r, book, _ := newTestRun(m, k)
		if _, err := r.tellEnded(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(book.events) == 1 && book.events[0].Kind == spec.EventNode && book.events[0].Source == "gpu-0" {
			got = book.events[0].Reason
		}
		if got != want {
			t.Errorf("told %+v, want %q", book.events, want)
		}
	}
}
