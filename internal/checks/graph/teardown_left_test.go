package graph

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
)

// holding puts an object whose finalizer nobody does.
func (m *memoryAPI) holding(res kube.Resource, o kube.Object) {
	o = copied(o)
	o["metadata"].(map[string]any)["finalizers"] = []any{"example.com/held"}
	m.put(res, o)
}

// What cannot be removed, or not be known to be gone, is told: each thing, why, and how it
// is removed by hand. What went after all is not.
func TestWhatIsLeftIsTold(t *testing.T) {
	const held = "finalizer example.com/held is not done: is its controller running?"
	n := NamesOf(memoryRun)
	kept := "ConfigMap aicr-validation/" + n.Kept + ": kept as long as something else of the run is left"
	deny := func(what ...string) func(*memoryAPI, *Settings) {
		return func(m *memoryAPI, _ *Settings) {
			for _, w := range what {
				m.deny[w] = true
			}
		}
	}
	for name, c := range map[string]struct {
		with func(m *memoryAPI, s *Settings)
		want []string // how each line begins
		most time.Duration
	}{
		"one that may not be deleted": {deny("delete clusterroles"), []string{"ClusterRole " + n.Load + ": it could not be deleted: ", kept}, time.Second},
		"one that may not be read":    {deny("get clusterroles"), []string{"ClusterRole " + n.Load + ": it is not known whether it is gone: ", kept}, time.Second},
		"some that may not be listed": {deny("list jobs"), []string{"Job " + n.Namespace + "/-l ", "Namespace " + n.Namespace + ": what else is in it could not be listed: ", "Job aicr-validation/-l ", kept}, time.Second},
		"a namespace not to be read":  {deny("get namespaces"), []string{"Namespace " + n.Namespace + ": it could not be read: ", kept}, time.Second},
		"a queue that was made":       {deny("get queues"), []string{"Queue " + n.Queue + ": it could not be read: ", kept}, time.Second},
		"a queue that was not": {func(m *memoryAPI, s *Settings) {
			m.drop(resQueues, "", n.Queue)
			s.Queue = false
			m.deny["get queues"] = true
		}, nil, time.Second},
		"a queue that stays":  {func(m *memoryAPI, s *Settings) { m.holding(resQueues, queueManifest(s)) }, []string{"Queue " + n.Queue + ": still there after 30s: " + held, kept}, 40 * time.Second},
		"what was kept stays": {func(m *memoryAPI, s *Settings) { m.holding(resConfigMaps, keptManifest(s)) }, []string{"ConfigMap aicr-validation/" + n.Kept + ": still there after 30s: " + held}, 40 * time.Second},
		"the shared namespace goes": {func(m *memoryAPI, s *Settings) {
			m.holdNS = true
			m.drop(resNamespaces, "", n.Namespace)
			m.put(resNamespaces, objectOf(t, `{"metadata":{"name":"aicr-validation","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"aicr.run/owner":"aicr"}}}`))
		}, nil, time.Second},
		"graphs that may not be listed": {func(m *memoryAPI, _ *Settings) { m.holdNS, m.deny["list dynamographdeployments"] = true, true }, []string{"DynamoGraphDeployment " + n.Namespace + "/--all: it could not be looked for: ", "Namespace " + n.Namespace + ": what else is in it could not be listed: ", kept}, 40 * time.Second},
		"pods that may not be listed":   {func(m *memoryAPI, _ *Settings) { m.holdNS, m.deny["list pods"] = true, true }, []string{"Pod " + n.Namespace + "/--all: it is not known whether it is gone: ", "Namespace " + n.Namespace, kept}, 40 * time.Second},
		"Jobs that may not be listed":   {func(m *memoryAPI, _ *Settings) { m.holdNS, m.deny["list jobs"] = true, true }, []string{"Job " + n.Namespace + "/-l ", "Namespace " + n.Namespace, "Job aicr-validation/-l ", kept}, 40 * time.Second},
		"a pod that stays":              {func(m *memoryAPI, _ *Settings) { m.holding(resPods, memoryPod("w-0", "worker", podReady)) }, []string{"Pod " + n.Namespace + "/w-0: still there after " + podsGoneWithin.String() + ": " + held + ", on node gpu-0", "Namespace " + n.Namespace, kept}, podsGoneWithin + 40*time.Second},
		"a graph that goes at last": {func(m *memoryAPI, s *Settings) {
			m.holding(resGraphs("v1beta1"), graphManifest(s))
			m.holding(resVolumes, volumeManifest(s))
			time.AfterFunc(100*time.Second, func() { m.drop(resGraphs("v1beta1"), n.Namespace, n.Graph) })
		}, []string{"Namespace " + n.Namespace + ": still there after 30s: it is being deleted", kept}, 150 * time.Second},
		"a graph that may not be read": {func(m *memoryAPI, s *Settings) {
			m.holding(resGraphs("v1beta1"), graphManifest(s))
			m.deny["get dynamographdeployments"] = true
		}, []string{"DynamoGraphDeployment " + n.Namespace + "/" + n.Graph + ": it is not known whether it is gone: ", "Namespace " + n.Namespace, kept}, 40 * time.Second},
		"a graph of the older version": {func(m *memoryAPI, _ *Settings) { m.absent["v1beta1/dynamographdeployments"] = true }, nil, time.Second},
		"claims that nobody may list, and a namespace that takes its time": {func(m *memoryAPI, _ *Settings) {
			m.holdNS, m.deny["list resourceclaims"] = true, true
			time.AfterFunc(time.Minute, func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.holdNS = false
				m.sweep(n.Namespace)
			})
		}, nil, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				whole(m, s)
				c.with(m, s)
				began := time.Now()
				left := Teardown(t.Context(), m, s, Told{})
				same := len(left) == len(c.want)
				for i := 0; same && i < len(left); i++ {
					same = strings.HasPrefix(left[i].String(), c.want[i]) && strings.HasPrefix(left[i].Command, "kubectl ")
				}
				if !same {
					t.Errorf("left %v\nwant %q", left, c.want)
				}
				if took := time.Since(began); took > c.most {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// Without its operator a graph is read and deleted in the version that is stored. Its finalizer
// stays then, and it is said what that waits for, and how kubectl gets at the graph.
func TestAGraphGoesWithoutItsOperator(t *testing.T) {
	n := NamesOf(memoryRun)
	t.Run("in a namespace that others use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, s := newMemory(), memorySettings()
			s.Namespaced = true
			whole(m, s)
			m.holding(resGraphs("v1beta1"), graphManifest(s))
			m.noHook = true
			left := Teardown(t.Context(), m, s, Told{})
			if len(left) == 0 || !strings.HasSuffix(left[0].Why, "; its pods run until then, and hold their GPUs") {
				t.Errorf("left %v", left)
			}
		})
	})
	for name, held := range map[string]bool{"its finalizer is done": false, "it has a finalizer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				whole(m, s)
				m.noHook = true
				if held {
					m.holding(resGraphs("v1beta1"), graphManifest(s))
				}
				left := Teardown(t.Context(), m, s, Told{})
				if !held {
					if len(left) > 0 || len(m.remains()) > 0 {
						t.Errorf("left %v, there %v", left, m.names())
					}
					return
				}
				if len(left) != 3 || left[0].Kind != "DynamoGraphDeployment" || left[1].Kind != "Namespace" {
					t.Fatalf("left %v", left)
				}
				graph := left[0]
				for _, words := range []string{"finalizer example.com/held is not done", "Dynamo's operator does not answer", "'aicr clean --run " + memoryRun + "'"} {
					if !strings.Contains(graph.Why, words) {
						t.Errorf("%q is not in %q", words, graph.Why)
					}
				}
				const named = " dynamographdeployments.v1alpha1.nvidia.com "
				if !strings.HasPrefix(graph.Command, "kubectl patch"+named) || !strings.HasPrefix(graph.Show, "kubectl get"+named) || strings.Contains(left[1].Why, "operator") {
					t.Errorf("%+v", left)
				}
				m.noHook = false // it is back, and does what it has to
				m.drop(resGraphs("v1beta1"), n.Namespace, n.Graph)
				m.sweep(n.Namespace)
				if left := Teardown(t.Context(), m, s, Told{}); len(left) > 0 || len(m.remains()) > 0 {
					t.Errorf("at last: left %v, there %v", left, m.names())
				}
			})
		})
	}
}

func TestAGraphGoesFirstInWhicheverVersionItIs(t *testing.T) {
	for _, version := range graphVersions {
		synctest.Test(t, func(t *testing.T) {
			m, s := newMemory(), runSettings(memoryRun)
			s.Graph = version
			whole(m, s)
			for _, other := range graphVersions {
				m.absent[other+"/dynamographdeployments"] = other != version
			}
			n := NamesOf(s.Run)
			if left := Teardown(t.Context(), m, s, Told{}); len(left) > 0 || m.writes[0] != "delete DynamoGraphDeployment "+n.Namespace+"/"+n.Graph {
				t.Errorf("%s: left %v, wrote %v", version, left, m.writes)
			}
		})
	}
}

func TestTeardownAsksForWhatIsTheRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		asked := map[string]bool{}
		Teardown(t.Context(), fenced{memoryAPI: m, may: []string{s.Namespace, NamesOf(s.Run).Namespace}, asked: func(selector string) { asked[selector] = true }}, s, Told{})
		// All there is, where it is to be seen that a namespace is empty.
		n, ofJob := NamesOf(s.Run), "batch.kubernetes.io/job-name="
		want := map[string]bool{"": true, ofJob + n.Load: true, ofJob + n.Trial: true, ofJob + n.Populate: true, LabelOwner + "=" + OwnerValue + "," + LabelRun + "=" + s.Run: true}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhyAnObjectIsStillThere(t *testing.T) {
	const going = `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	for text, want := range map[string]string{
		`{"metadata":{}}`:                                     "it was not deleted",
		`{"metadata":{` + going + `}}`:                        "it is being deleted",
		`{"metadata":{` + going + `,"finalizers":["a","b"]}}`: "finalizer a, b is not done: is its controller running?",
		`{"metadata":{` + going + `},"status":{"conditions":[{"type":"NamespaceContentRemaining","status":"True","message":"2 pods"}]}}`:       "2 pods",
		`{"metadata":{` + going + `},"status":{"conditions":[{"type":"NamespaceContentRemaining","status":"False","message":"all is gone"}]}}`: "it is being deleted",
	} {
		if got := holdsBack(objectOf(t, text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestHowWhatIsLeftIsRemovedByHand(t *testing.T) {
	going := kube.Object{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}}
	for _, c := range []struct {
		res           kube.Resource
		namespace     string
		o             kube.Object
		command, show string
	}{
		{resJobs, "n", nil, "kubectl delete job x -n n", ""},
		{resClusterRoles, "", nil, "kubectl delete clusterrole x", ""},
		{resQueues, "", nil, "kubectl delete queues.scheduling.run.ai x", ""},
		{resPods, "n", going, "kubectl delete pod x -n n", "kubectl get pod x -n n -o yaml"},
	} {
		r := &remover{}
		r.stays(c.res, c.namespace, "x", "so", c.o)
		r.stays(c.res, c.namespace, "x", "or so", c.o) // which is no other
		if len(r.left) != 1 || r.left[0].Why != "or so" || r.left[0].Command != c.command || r.left[0].Show != c.show {
			t.Errorf("%+v", r.left)
		}
	}
}

// elsewhere is an API on which somebody deletes, or makes anew, before this run does.
type elsewhere struct {
	*memoryAPI
	err error
}

func (e elsewhere) Delete(_ context.Context, r kube.Resource, namespace, name string, _ kube.DeleteOptions) error {
	e.drop(r, namespace, name)
	return e.err
}

func TestWhatSomebodyElseHasDeletedIsNotLeft(t *testing.T) {
	roles := schema.GroupResource{Resource: "clusterroles"}
	for name, err := range map[string]error{"gone": apierrors.NewNotFound(roles, "x"), "made anew": apierrors.NewConflict(roles, "x", errors.New("another"))} {
		synctest.Test(t, func(t *testing.T) {
			m, s := newMemory(), runSettings(memoryRun)
			o := m.put(resClusterRoles, clusterRoleManifest(s))
			r := &remover{api: elsewhere{m, err}, run: s.Run, names: NamesOf(s.Run)}
			if !r.remove(t.Context(), resClusterRoles, o, false, smallGoneWithin) || len(r.left) > 0 {
				t.Errorf("%s: left %v", name, r.left)
			}
		})
	}
}

func TestWhatIsNotDeleted(t *testing.T) {
	for name, change := range map[string]func(meta map[string]any){
		"one without a UID, which could be another by now": func(meta map[string]any) { delete(meta, "uid") },
		"one that goes already":                            func(meta map[string]any) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" },
		"one of another run":                               func(meta map[string]any) { meta["labels"] = words(Labels("another", PartLoad)) },
		"one of nobody":                                    func(meta map[string]any) { delete(meta, "labels") },
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := newMemory(), runSettings(memoryRun)
			o := m.put(resClusterRoles, clusterRoleManifest(s))
			change(o["metadata"].(map[string]any))
			r := &remover{api: m, run: s.Run, names: NamesOf(s.Run)}
			r.remove(t.Context(), resClusterRoles, o, false, smallGoneWithin)
			if len(m.writes) > 0 {
				t.Errorf("%s: %v", name, m.writes)
			}
		})
	}
}

// absentFor is an API that does not answer from 5 to 25 seconds after it began.
type absentFor struct {
	*memoryAPI
	began time.Time
}

func (a absentFor) away() error {
	if since := time.Since(a.began); since > 5*time.Second && since < 25*time.Second {
		return &kube.AwayError{For: time.Second}
	}
	return nil
}

func (a absentFor) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	if err := a.away(); err != nil {
		return nil, err
	}
	return a.memoryAPI.Read(ctx, r, namespace, name)
}

func (a absentFor) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if err := a.away(); err != nil {
		return nil, err
	}
	return a.memoryAPI.List(ctx, r, namespace, selector)
}

func TestAServerThatIsAwayIsWaitedForWhileThingsGo(t *testing.T) {
	n := NamesOf(memoryRun)
	for name, with := range map[string]func(m *memoryAPI, s *Settings){
		"a graph": func(m *memoryAPI, s *Settings) {
			m.holding(resGraphs("v1beta1"), graphManifest(s))
			time.AfterFunc(40*time.Second, func() { m.drop(resGraphs("v1beta1"), n.Namespace, n.Graph) })
		},
		"pods": func(m *memoryAPI, _ *Settings) {
			m.put(resPods, memoryPod("w-0", "worker", podReady))
			time.AfterFunc(40*time.Second, func() { m.drop(resPods, n.Namespace, "w-0") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				whole(m, s)
				with(m, s)
				began := time.Now()
				left := Teardown(t.Context(), absentFor{m, began}, s, Told{})
				if took := time.Since(began); len(left) > 0 || len(m.remains()) > 0 || took < 40*time.Second || took > time.Minute {
					t.Errorf("after %s: left %v, there %v", took, left, m.names())
				}
			})
		})
	}
}

func TestACancelledWaitForPodsSaysThatTheyAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		m.put(resPods, memoryPod("w-0", "worker", podReady))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := &remover{api: m, run: s.Run, names: NamesOf(s.Run)}
		r.inside(ctx, namespaceManifest(s))
		if len(r.left) != 1 || !strings.HasPrefix(r.left[0].String(), "Pod "+r.names.Namespace+"/w-0: it is not known") {
			t.Errorf("left %v", r.left)
		}
	})
}
