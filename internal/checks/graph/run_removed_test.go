package graph

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// removable is a run whose load has ended, on a cluster on which all of it stands.
func removable(m *memoryAPI) (*Run, *memoryBook) {
	k := keptRun()
	n := NamesOf(memoryRun)
	k.Stage = StageLoad
	at := entrance(k.Settings)
	k.Targets = &Targets{URL: at.URL, Frontend: at.Frontend, Node: "gpu-0", Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", UID: "w0", URL: "http://10.0.0.1:9090/metrics"}}, Serving: []ServingPod{{Pod: "f-0", UID: "f0", Role: roleFrontend}},
		Made: map[string]string{"Namespace " + n.Namespace: "ns", "DynamoGraphDeployment " + n.Namespace + "/" + n.Graph: "g"}}
	put := func(r kube.Resource, namespace, name, uid string) {
		m.put(r, kube.Object{"metadata": map[string]any{"name": name, "namespace": namespace, "uid": uid}})
	}
	put(resNamespaces, "", n.Namespace, "ns")
	put(resGraphs("v1beta1"), n.Namespace, n.Graph, "g")
	put(resJobs, "aicr-validation", n.Load, "j")
	kept := keptManifest(k.Settings)
	data, _ := k.data()
	kept["data"] = data
	m.put(resConfigMaps, kept)
	r, book, _ := newTestRun(m, k)
	r.loadJob = "j"
	book.events = []spec.Event{{Kind: spec.EventStage, Stage: "start", T: 10}, {Kind: spec.EventStage, Stage: "episode", Episode: 1, T: 20}, {Kind: spec.EventStage, Stage: "end", T: 60}}
	return r, book
}

// Whoever deletes what is loaded makes no deployment sick: the verdict says what was
// deleted, and nothing of the workers that went with it.
func TestWhatSomebodyDeletesUnderLoadDecidesNothing(t *testing.T) {
	n := NamesOf(memoryRun)
	graphs := resGraphs("v1beta1")
	going := func(m *memoryAPI, r kube.Resource, namespace, name string, after time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		meta := m.objects[memoryKey(r, namespace, name)]["metadata"].(map[string]any)
		meta["deletionTimestamp"] = time.Now().Add(after).UTC().Format(time.RFC3339)
		meta["managedFields"] = []any{map[string]any{"manager": "argocd-controller", "time": time.Now().Add(after).UTC().Format(time.RFC3339)},
			map[string]any{"manager": "operator", "time": time.Now().Add(after - time.Hour).UTC().Format(time.RFC3339)}}
	}
	ended := restartedPodFor("w-0")
	for name, c := range map[string]struct {
		do   func(m *memoryAPI)
		want string // "": nothing was deleted
		when bool
	}{
		"nothing":        {func(m *memoryAPI) {}, "", false},
		"the graph":      {func(m *memoryAPI) { m.drop(graphs, n.Namespace, n.Graph) }, "DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf was deleted under load, and not by this run: it is gone", false},
		"the namespace":  {func(m *memoryAPI) { m.mu.Lock(); m.sweep(n.Namespace); m.mu.Unlock() }, "Namespace " + n.Namespace + " was deleted under load", false},
		"the load's Job": {func(m *memoryAPI) { m.drop(resJobs, "aicr-validation", n.Load) }, "Job aicr-validation/" + n.Load + " was deleted under load", false},
		"the graph goes": {func(m *memoryAPI) { going(m, graphs, n.Namespace, n.Graph, 40*time.Second) }, "it is being deleted since ", true},
		"by whom":        {func(m *memoryAPI) { going(m, resNamespaces, "", n.Namespace, 40*time.Second) }, "; written to then by argocd-controller", true},
		"after the load": {func(m *memoryAPI) { going(m, graphs, n.Namespace, n.Graph, time.Hour) }, "", false},
		"and made anew":  {func(m *memoryAPI) { m.drop(graphs, n.Namespace, n.Graph); m.graphIs("successful", 1, 2) }, "it is gone, and another of its name is there", false},
		"all of it, later": {func(m *memoryAPI) {
			m.drop(graphs, n.Namespace, n.Graph)
			m.drop(resConfigMaps, "aicr-validation", n.Kept)
		}, "was deleted under load", false},
		"by another command, which has led the run to its end": {func(m *memoryAPI) {
			m.drop(graphs, n.Namespace, n.Graph)
			m.mu.Lock()
			m.objects[memoryKey(resConfigMaps, "aicr-validation", n.Kept)]["data"].(map[string]any)["stage"] = StageJudged
			m.mu.Unlock()
		}, "", false},
	} {
		for _, by := range []string{ByRecord, ByMessage} {
			t.Run(name+", by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					r, book := removable(m)
					m.put(resPods, ended())
					f := memoryPod("f-0", "frontend", podReady)
					f["metadata"].(map[string]any)["uid"] = "f0"
					m.put(resPods, f)
					c.do(m)
					before := len(book.events)
					end := &End{By: by}
					if by == ByMessage {
						end.Verdict, end.over = passed(), time.Now().Add(time.Minute)
					}
					end, err := r.judge(t.Context(), end)
					if err != nil {
						t.Fatal(err)
					}
					told := book.events[before:]
					if c.want == "" {
						if len(told) != 1 || told[0].Reason != spec.PodEnded {
							t.Errorf("told %+v", told)
						}
						return
					}
					if len(told) != 1 || told[0].Kind != spec.EventRemoved || (told[0].Seconds != nil) != c.when {
						t.Fatalf("told %+v", told)
					}
					v := end.Verdict
					if v.Verdict != spec.Inconclusive || len(v.Findings) != 1 || v.Findings[0].ID != "cluster/removed" || !strings.Contains(v.Reason, c.want) {
						t.Errorf("%s: %s, %+v; want %s", v.Verdict, v.Reason, v.Findings, c.want)
					}
				})
			})
		}
	}
}

// restartedPodFor is a worker that ended half a minute into the run.
func restartedPodFor(name string) func() kube.Object {
	return func() kube.Object {
		p := restartedPod(name, 1, 30*time.Second, "Error", 1)
		p["metadata"].(map[string]any)["uid"] = "w0"
		return p
	}
}

// What cannot be looked at is not there for certain: PASS is not given then.
func TestWhatCannotBeLookedAtKeepsARunFromPass(t *testing.T) {
	m := newMemory()
	r, _ := removable(m)
	m.deny["get dynamographdeployments"] = true
	end, err := r.judge(t.Context(), &End{By: ByMessage, Verdict: passed(), over: time.Now().Add(time.Minute)})
	if err != nil || end.Verdict.Verdict != spec.Inconclusive || !strings.Contains(end.Verdict.Reason, "whether what is loaded was deleted") {
		t.Errorf("%+v, %v", end.Verdict, err)
	}
}

// standingLoad is a load on a cluster on which its graph is deleted after a while.
type standingLoad struct {
	ledLoad
	m    *memoryAPI
	gone time.Time
}

func (s standingLoad) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	switch r.Name {
	case "namespaces", "dynamographdeployments", "configmaps":
		if r.Name == "dynamographdeployments" && !time.Now().Before(s.gone) {
			return nil, notFound(r, name)
		}
		return s.m.Read(ctx, r, namespace, name)
	}
	return s.ledLoad.Read(ctx, r, namespace, name)
}

// A load whose deployment is deleted is not waited for to its end.
func TestALoadWhoseGraphIsDeletedIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		led, book := removable(m)
		f := newFakeLoad()
		f.exec = func(command []string, stdout io.Writer) error {
			if strings.Contains(strings.Join(command, " "), "--stop") {
				_, _ = stdout.Write(recordOf(t, memoryRun))
			}
			return nil
		}
		f.log = []string{numberedLine(1, LineProgress, "")}
		r := &Run{API: standingLoad{ledLoad{f}, m, time.Now().Add(time.Minute)}, Kept: led.Kept, Told: (&heard{}).told(), Now: time.Now, Book: book, Hear: func(LoadLine) {}}
		began := time.Now()
		end, err := r.follow(t.Context())
		if err != nil || end.By != ByRecord || time.Since(began) > 2*time.Minute {
			t.Fatalf("%+v, %v after %s", end, err, time.Since(began))
		}
		last := book.events[len(book.events)-1]
		if last.Kind != spec.EventRemoved || last.Seconds == nil || *last.Seconds < 40 || *last.Seconds >= 60 || !strings.Contains(last.Text, "it is gone since a time between ") {
			t.Errorf("told %+v", last)
		}
	})
}

// Who deletes says so in an event, if at all.
func TestEventsTellWhoDeleted(t *testing.T) {
	n := NamesOf(memoryRun)
	event := func(kind, name, reason string, after time.Duration) kube.Object {
		return kube.Object{"metadata": map[string]any{"name": reason + kind, "namespace": n.Namespace}, "involvedObject": map[string]any{"kind": kind, "name": name},
			"reason": reason, "message": "not in git", "source": map[string]any{"component": "argocd"}, "lastTimestamp": time.Now().Add(after).UTC().Format(time.RFC3339)}
	}
	for name, c := range map[string]struct {
		event kube.Object
		want  string
	}{
		"of the graph":         {event("DynamoGraphDeployment", n.Graph, "ResourcePruned", time.Minute), "; event ResourcePruned by argocd: not in git"},
		"of another":           {event("DynamoGraphDeployment", "theirs", "ResourcePruned", time.Minute), ""},
		"of something else":    {event("DynamoGraphDeployment", n.Graph, "Reconciled", time.Minute), ""},
		"of the run before it": {event("DynamoGraphDeployment", n.Graph, "ResourcePruned", -time.Hour), ""},
	} {
		m := newMemory()
		r, _ := removable(m)
		m.put(resEvents, c.event)
		m.drop(resGraphs("v1beta1"), n.Namespace, n.Graph)
		gone, err := r.firstRemoved(t.Context(), time.Time{})
		if err != nil || gone == nil || strings.Contains(gone.Text, "event ") != (c.want != "") || !strings.HasSuffix(gone.Text, c.want) {
			t.Errorf("%s: %+v, %v", name, gone, err)
		}
	}
}
