package graph

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
)

// whole puts all that a run makes on a cluster, as it is when the run is over.
func whole(m *memoryAPI, s *Settings) {
	for _, step := range Objects(s) {
		if m.has(step.Resource, step.Object.Namespace(), step.Object.Name()) {
			continue // the namespace that runs share
		}
		m.put(step.Resource, step.Object)
	}
	n := NamesOf(s.Run)
	m.put(resConfigMaps, manifest("v1", "ConfigMap", s.Namespace, n.Results, s, PartLoad, nil))
	for _, in := range []string{s.Namespace, n.Namespace} {
		m.put(resAccounts, kube.Object{"metadata": map[string]any{"name": "default", "namespace": in}})
		m.put(resConfigMaps, kube.Object{"metadata": map[string]any{"name": "kube-root-ca.crt", "namespace": in}})
	}
}

func runSettings(run string) *Settings {
	s := memorySettings()
	s.Run, s.Token, s.Cache, s.Queue, s.Gateway = run, true, &Cache{Size: "1Gi", Populate: Duration(time.Minute)}, true, true
	return s
}

func TestTeardownRemovesAllOfARunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), runSettings(memoryRun), &heard{}
		whole(m, s)
		n := NamesOf(s.Run)
		m.put(resPods, memoryPod("w-0", "worker", podReady))
		m.put(resDRA("v1", "resourceclaims"), kube.Object{"metadata": map[string]any{"name": "c", "namespace": n.Namespace}})
		go func() { time.Sleep(40 * time.Second); m.drop(resPods, n.Namespace, "w-0") }()
		go func() { time.Sleep(50 * time.Second); m.drop(resDRA("v1", "resourceclaims"), n.Namespace, "c") }()
		left := Teardown(t.Context(), m, s, h.told())
		if len(left) > 0 || len(m.remains()) > 0 {
			t.Errorf("left %v, there %v", left, m.names())
		}
		want := []string{"delete DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf", "delete Job " + n.Namespace + "/" + n.Populate, "delete Queue /" + n.Queue,
			"delete HTTPRoute " + n.Namespace + "/aicr-inference-perf", "delete Namespace /" + n.Namespace,
			"delete Job aicr-validation/" + n.Load, "delete Job aicr-validation/" + n.Trial, "delete ClusterRoleBinding /" + n.Load, "delete ClusterRole /" + n.Load,
			"delete RoleBinding aicr-validation/" + n.Load, "delete Role aicr-validation/" + n.Load, "delete ServiceAccount aicr-validation/" + n.Load,
			"delete Lease aicr-validation/" + LeaseName(s.Node), "delete ConfigMap aicr-validation/" + n.Results, "delete ConfigMap aicr-validation/" + n.Kept}
		if diff := cmp.Diff(want, m.writes); diff != "" {
			t.Error(diff)
		}
		for what, o := range m.deletes { // who owns pods is there until they are gone, and they end in their own time
			if owns := strings.HasPrefix(what, "DynamoGraphDeployment ") || strings.HasPrefix(what, "Job "); o.Foreground != owns || o.Grace != 0 {
				t.Errorf("%s was deleted with %+v", what, o)
			}
		}
		if lines := strings.Join(h.waiting, "\n"); !strings.Contains(lines, "1 of pods to be gone: w-0 (40s)") && !strings.Contains(lines, "1 of pods to be gone: w-0 (35s)") {
			t.Error(lines)
		}
		if left := Teardown(t.Context(), m, s, h.told()); len(left) > 0 || len(m.writes) != len(want) {
			t.Errorf("again: left %v, wrote %v", left, m.writes[len(want):])
		}
	})
}

// Dynamo's operator gives the pod of an endpoint picker 130 s to end. One that takes them
// is not stuck.
func TestAnEndpointPickerHasItsTimeToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), runSettings(memoryRun), &heard{}
		whole(m, s)
		n := NamesOf(s.Run)
		m.put(resPods, memoryPod("epp-0", "epp", podReady))
		go func() { time.Sleep(135 * time.Second); m.drop(resPods, n.Namespace, "epp-0") }()
		if left := Teardown(t.Context(), m, s, h.told()); len(left) > 0 || len(m.remains()) > 0 {
			t.Errorf("left %v, there %v", left, m.names())
		}
		for _, line := range h.said {
			if strings.Contains(line, "epp-0") {
				t.Error(line)
			}
		}
	})
}

func TestAStuckFinalizerIsNamedAndNothingWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), runSettings(memoryRun), &heard{}
		whole(m, s)
		n := NamesOf(s.Run)
		stuck := graphObject("pending", 0, 0)
		stuck["metadata"].(map[string]any)["finalizers"] = []any{"nvidia.com/finalizer"}
		m.put(resGraphs("v1beta1"), stuck)
		m.put(resPods, memoryPod("w-0", "worker", podReady)) // which nobody takes away but the namespace
		began := time.Now()
		left := Teardown(t.Context(), m, s, h.told())
		if took := time.Since(began); took > 150*time.Second { // for the graph and its namespace, and not for pods that nobody takes away
			t.Errorf("took %s", took)
		}
		var lines []string
		for _, l := range left {
			lines = append(lines, l.String()+" | "+l.Command)
		}
		want := []string{
			"DynamoGraphDeployment " + n.Namespace + "/aicr-inference-perf: still there after 1m30s: finalizer nvidia.com/finalizer is not done: is its controller running? | kubectl patch dynamographdeployments.nvidia.com aicr-inference-perf -n " + n.Namespace + ` --type=merge -p '{"metadata":{"finalizers":null}}'`,
			"Namespace " + n.Namespace + ": still there after 30s: it is being deleted | kubectl delete namespace " + n.Namespace,
			"ConfigMap aicr-validation/" + n.Kept + ": kept as long as something else of the run is left | kubectl delete configmap " + n.Kept + " -n aicr-validation",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
		if left[0].Show != "kubectl get dynamographdeployments.nvidia.com aicr-inference-perf -n "+n.Namespace+" -o yaml" {
			t.Error(left[0].Show)
		}
		if m.has(resJobs, s.Namespace, n.Load) || m.has(resClusterRoles, "", n.Load) || m.has(resQueues, "", n.Queue) {
			t.Error("what could go did not")
		}
		// Its controller is back: the next one finishes.
		m.drop(resGraphs("v1beta1"), n.Namespace, graphName)
		m.mu.Lock()
		m.sweep(n.Namespace)
		m.mu.Unlock()
		if left := Teardown(t.Context(), m, s, h.told()); len(left) > 0 || len(m.remains()) > 0 {
			t.Errorf("left %v, there %v", left, m.names())
		}
	})
}

// No run deletes the namespace that runs share, whatever is in it and whoever made it, and no
// clean does that was not asked to.
func TestNoRunDeletesTheNamespaceThatRunsShare(t *testing.T) {
	for name, with := range map[string]func(m *memoryAPI, s *Settings){
		"nothing else is in it": func(*memoryAPI, *Settings) {},
		"somebody's Secret is in it": func(m *memoryAPI, s *Settings) {
			m.put(kube.Resource{Version: "v1", Name: "secrets"}, kube.Object{"metadata": map[string]any{"name": "theirs", "namespace": s.Namespace}})
		},
		"another run is in it": func(m *memoryAPI, _ *Settings) { whole(m, runSettings("another")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s, h := newMemory(), runSettings(memoryRun), &heard{}
				whole(m, s)
				with(m, s)
				theirs := m.names()
				if left := Teardown(t.Context(), m, s, h.told()); len(left) > 0 {
					t.Fatal(left)
				}
				if _, left, err := Clean(t.Context(), m, "aicr-validation", s.Run, false, h.told()); err != nil || len(left) > 0 {
					t.Fatal(left, err)
				}
				if _, _, err := Clean(t.Context(), m, "aicr-validation", "", false, h.told()); err != nil {
					t.Fatal(err)
				}
				if !m.has(resNamespaces, "", s.Namespace) || slices.Contains(m.writes, "delete Namespace /"+s.Namespace) {
					t.Errorf("the shared namespace is gone: %v", m.writes)
				}
				for _, key := range theirs {
					if strings.HasSuffix(key, "/theirs") && !slices.Contains(m.names(), key) {
						t.Errorf("%s is gone", key)
					}
				}
				if said := strings.Join(h.said, "\n"); !strings.Contains(said, "'aicr clean --namespace-too --namespace aicr-validation'") {
					t.Error(said)
				}
			})
		})
	}
}

func TestACancelledTeardownSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		stuck := graphObject("pending", 0, 0)
		stuck["metadata"].(map[string]any)["finalizers"] = []any{"nvidia.com/finalizer"}
		m.put(resGraphs("v1beta1"), stuck)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		left := Teardown(ctx, m, s, Told{})
		if len(left) == 0 || time.Since(began) > time.Minute {
			t.Errorf("left %v after %s", left, time.Since(began))
		}
	})
}

func TestCleanLeavesARunAloneThatIsAlive(t *testing.T) {
	for name, c := range map[string]struct {
		beat  time.Duration // ago; 0: none
		job   string
		named bool
		gone  bool
	}{
		"crashed long ago":             {beat: time.Hour, gone: true},
		"never told":                   {gone: true},
		"led right now":                {beat: 90 * time.Second},
		"led by a clock that is ahead": {beat: -time.Hour},
		"its load is running":          {beat: time.Hour, job: `{"active":1}`},
		"its load has ended":           {beat: time.Hour, job: `{"active":0,"conditions":[{"type":"Complete","status":"True"}]}`, gone: true},
		"its load has failed":          {beat: time.Hour, job: `{"active":1,"conditions":[{"type":"Failed","status":"True"}]}`, gone: true},
		"its load is complete":         {beat: time.Hour, job: `{"active":1,"conditions":[{"type":"Complete","status":"True"}]}`, gone: true},
		"led right now, and named":     {beat: time.Second, job: `{"active":1}`, named: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s, h := newMemory(), runSettings(memoryRun), &heard{}
				whole(m, s)
				n := NamesOf(s.Run)
				if c.beat != 0 {
					kept := keptManifest(s)
					kept["metadata"].(map[string]any)["annotations"] = map[string]any{AnnotationAlive: time.Now().Add(-c.beat).UTC().Format(time.RFC3339)}
					m.put(resConfigMaps, kept)
				}
				if c.job != "" {
					job := loadManifest(s)
					job["status"] = map[string]any(objectOf(t, c.job))
					m.put(resJobs, job)
				}
				// What else there is of its kinds does not speak for the run.
				m.put(resConfigMaps, manifest("v1", "ConfigMap", s.Namespace, "zz", s, PartLoad, nil))
				m.put(resJobs, manifest("batch/v1", "Job", s.Namespace, "zz", s, PartLoad, nil))
				run := ""
				if c.named {
					run = s.Run
				}
				before := m.names()
				would, left, err := Clean(t.Context(), m, "aicr-validation", run, true, h.told())
				if err != nil || len(left) > 0 || (len(would) > 0) != c.gone || !slices.Equal(before, m.names()) || len(m.writes) > 0 {
					t.Fatalf("dry run: %v %v %v, wrote %v", would, left, err, m.writes)
				}
				removed, left, err := Clean(t.Context(), m, "aicr-validation", run, false, h.told())
				if err != nil || len(left) > 0 {
					t.Fatal(left, err)
				}
				if gone := len(m.remains()) == 0; gone != c.gone {
					t.Errorf("gone %v: %v\n%v", gone, m.names(), h.said)
				}
				if diff := cmp.Diff(would, removed); diff != "" {
					t.Errorf("(-dry run +done):\n%s", diff)
				}
				if !c.gone && (m.has(resNamespaces, "", n.Namespace) == false || !strings.Contains(strings.Join(h.said, "\n"), "run "+s.Run+" is left alone: ")) {
					t.Error(h.said)
				}
			})
		})
	}
}

func TestCleanNeedsNoKAI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), runSettings(memoryRun), &heard{}
		s.Queue, s.Gateway = false, false
		whole(m, s)
		for _, verb := range []string{"list queues", "get queues", "list httproutes", "list resourceclaims"} {
			m.deny[verb] = true
		}
		_, left, err := Clean(t.Context(), m, "aicr-validation", "", false, h.told())
		if err != nil || len(left) > 0 || len(m.remains()) > 0 {
			t.Error(left, err, m.names())
		}
		// Nor rights in all namespaces.
		whole(m, s)
		for _, r := range []kube.Resource{resConfigMaps, resAccounts, resRoles, resRoleBindings} {
			m.deny["list all "+r.Name] = true
		}
		if _, left, err := Clean(t.Context(), m, "aicr-validation", "", false, h.told()); err != nil || len(left) > 0 || len(m.remains()) > 0 {
			t.Error(left, err, m.names())
		}
		// Nor rights over rights, where an administrator has prepared those of the load.
		s.Prepared = true
		whole(m, s)
		for _, r := range []kube.Resource{resClusterRoles, resClusterBinds} {
			m.deny["list "+r.Name] = true
		}
		if _, left, err := Clean(t.Context(), m, "aicr-validation", "", false, h.told()); err != nil || len(left) > 0 || len(m.remains()) > 0 {
			t.Error(left, err, m.names())
		}
		m.deny["list namespaces"] = true
		if _, _, err := Clean(t.Context(), m, "aicr-validation", "", false, h.told()); !kube.IsForbidden(err) {
			t.Error(err)
		}
	})
}

// What is not of the run that is removed stays, whatever it is and wherever it is,
// besides what is in the run's own namespace.
func TestNothingOfAnybodyElseIsTouched(t *testing.T) {
	kinds := []kube.Resource{resNamespaces, resPods, resConfigMaps, resAccounts, resJobs, resRoles, resRoleBindings, resClusterRoles, resClusterBinds, resQueues, resRoutes, resGraphs("v1beta1"), resVolumes}
	clusterWide := []kube.Resource{resNamespaces, resClusterRoles, resClusterBinds, resQueues}
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			pick := func(words ...string) string { return words[r.IntN(len(words))] }
			m, s := newMemory(), runSettings(memoryRun)
			n, other := NamesOf(s.Run), runSettings("another")
			oursThere := r.IntN(4) > 0
			if oursThere {
				whole(m, s)
			}
			if r.IntN(2) == 0 {
				whole(m, other)
			}
			ours := map[string]bool{}
			for _, key := range m.names() {
				if o := m.objects[key]; oursOf(o, s.Run) || o.Namespace() == n.Namespace {
					ours[key] = true
				}
			}
			for range 30 {
				res := kinds[r.IntN(len(kinds))]
				in := pick("default", s.Namespace, "their-own")
				if slices.Contains(clusterWide, res) {
					in = ""
				}
				name := pick(n.Namespace, n.Load, n.Kept, n.Queue, n.Graph, n.Results, "theirs", "aicr-validation", fmt.Sprint("x", r.IntN(50)))
				labels := map[string]any{}
				switch r.IntN(6) {
				case 0:
					labels[LabelOwner] = OwnerValue // and no run
				case 1:
					labels[LabelRun] = s.Run // and no owner
				case 2:
					labels[LabelOwner], labels[LabelRun] = OwnerValue, "another"
				case 3:
					labels[LabelOwner], labels[LabelRun] = "somebody", s.Run
				case 4:
					labels["app.kubernetes.io/name"] = "aicr"
				}
				if m.has(res, in, name) {
					continue
				}
				m.put(res, kube.Object{"kind": kindOf(res), "metadata": map[string]any{"name": name, "namespace": in, "labels": labels}})
			}
			theirs := map[string]string{}
			for _, key := range m.names() {
				if o := m.objects[key]; !ours[key] && !(oursOf(o, s.Run)) {
					theirs[key] = o.UID() + " " + o.ResourceVersion()
				}
			}
			if r.IntN(2) == 0 {
				Teardown(t.Context(), m, s, Told{})
			} else if _, _, err := Clean(t.Context(), m, "aicr-validation", s.Run, false, Told{}); err != nil {
				t.Fatal(err)
			}
			for key, was := range theirs {
				o := m.objects[key]
				if o == nil || o.UID()+" "+o.ResourceVersion() != was || o.Deleting() {
					t.Errorf("seed %d: %s of somebody else was touched: %v\n%v", seed, key, o, m.writes)
				}
			}
			for key := range ours {
				if m.objects[key] != nil {
					t.Errorf("seed %d: %s of the run is left", seed, key)
				}
			}
		})
	}
}

func TestDiagnosticsBeginWithTheAnswerAndHideSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		n := NamesOf(s.Run)
		m.put(resGraphs("v1beta1"), graphObject("pending", 1, 0))
		pod := memoryPod("w-0", "worker", map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "restartCount": 3, "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}}}})
		pod["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "kubelet"}}
		pod["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "main", "image": "x", "args": []any{"--api-key=verysecret"}, "env": []any{
			map[string]any{"name": "HF_TOKEN", "value": "plainsecret"}, map[string]any{"name": "OTHER", "value": "hf_anothersecret"}, map[string]any{"name": "MODEL", "value": "qwen"}}}}
		m.put(resPods, pod)
		load := memoryPod(n.Load+"-x", "", map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{"name": "validator", "state": map[string]any{"terminated": map[string]any{"exitCode": 1}}}}})
		load["metadata"] = map[string]any{"name": n.Load + "-x", "namespace": s.Namespace, "labels": words(Labels(s.Run, PartLoad))}
		m.put(resPods, load)
		m.put(resPods, kube.Object{"metadata": map[string]any{"name": "theirs", "namespace": s.Namespace}, "status": map[string]any{"containerStatuses": []any{map[string]any{"name": "a", "state": map[string]any{"running": map[string]any{}}}}}})
		m.put(resEvents, kube.Object{"metadata": map[string]any{"name": "e", "namespace": n.Namespace}, "involvedObject": map[string]any{"kind": "Pod", "name": "w-0"}, "type": "Warning", "reason": "BackOff", "message": "Authorization: Bearer topsecret", "count": 7})
		m.logs["w-0/main/previous"] = strings.Repeat("line\n", 500) + "Authorization: Bearer logsecret\nValueError: bad model\n"
		m.logs[n.Load+"-x/validator"] = "goroutine 1\n"
		m.deny["get nodes"] = true

		files := map[string]string{}
		wrong := Diagnose(t.Context(), m, s, "FAIL: a container crashes", func(name string, data []byte) error { files[name] = string(data); return nil })
		var names []string
		for name := range files {
			names = append(names, name)
		}
		slices.Sort(names)
		want := []string{"events.txt", "graph.yaml", "index.txt", "job-load.yaml", "job-populate.yaml", "job-trial.yaml", "log-" + n.Load + "-x-validator.txt", "log-w-0-main-previous.txt", "pod-" + n.Load + "-x.yaml", "pod-w-0.yaml", "volume.yaml"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		if !strings.HasPrefix(files["index.txt"], "FAIL: a container crashes\nw-0: CrashLoopBackOff: container main ended 4 times: ValueError: bad model\n") {
			t.Error(files["index.txt"])
		}
		if len(wrong) != 1 || !strings.Contains(files["index.txt"], "What could not be read:\n  node gpu-0: ") {
			t.Errorf("%v\n%s", wrong, files["index.txt"])
		}
		if lines := strings.Count(files["log-w-0-main-previous.txt"], "\n"); lines != diagnoseLines {
			t.Errorf("%d lines of a log", lines)
		}
		if !strings.Contains(files["pod-w-0.yaml"], "qwen") {
			t.Error("what is no secret is hidden")
		}
		for name, text := range files {
			if strings.Contains(text, "secret"+"\n") || strings.Contains(text, "plainsecret") || strings.Contains(text, "anothersecret") || strings.Contains(text, "verysecret") || strings.Contains(text, "topsecret") || strings.Contains(text, "logsecret") || strings.Contains(text, "managedFields") {
				t.Errorf("%s:\n%s", name, text)
			}
		}
	})
}

func TestDiagnosticsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), memorySettings()
		for i := range 120 {
			name := fmt.Sprintf("w-%03d", i)
			m.put(resPods, memoryPod(name, "worker", podReady))
			m.logs[name+"/main"] = strings.Repeat(strings.Repeat("x ", 200)+"\n", 200)
		}
		size := 0
		wrong := Diagnose(t.Context(), m, s, "", func(_ string, data []byte) error { size += len(data); return nil })
		if size > diagnoseAll+1<<20 || len(wrong) == 0 {
			t.Errorf("%d bytes, %v", size, wrong)
		}
	})
}
