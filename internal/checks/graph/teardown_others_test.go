package graph

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
)

// A namespace of the run's name that is somebody else's is not looked into: nobody waits
// for pods that are not the run's.
func TestNobodyWaitsForWhatIsInANamespaceOfSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), memorySettings()
		m.put(resNamespaces, kube.Object{"kind": "Namespace", "metadata": map[string]any{"name": NamesOf(s.Run).Namespace}})
		m.put(resPods, memoryPod("theirs", "worker", podReady))
		began := time.Now()
		if left := Teardown(t.Context(), m, s, Told{}); len(left) > 0 || len(m.writes) > 0 || time.Since(began) > time.Second {
			t.Errorf("after %s: left %v, wrote %v", time.Since(began), left, m.writes)
		}
	})
}

// remade is an API on which somebody makes an object anew as soon as it was deleted.
type remade struct{ *memoryAPI }

func (r remade) Read(ctx context.Context, res kube.Resource, namespace, name string) (kube.Object, error) {
	o, err := r.memoryAPI.Read(ctx, res, namespace, name)
	if kube.IsNotFound(err) && res == resClusterRoles {
		return r.put(res, kube.Object{"kind": "ClusterRole", "metadata": map[string]any{"name": name}}), nil
	}
	return o, err
}

func TestAnotherObjectOfTheSameNameIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		began := time.Now()
		left := Teardown(t.Context(), remade{m}, s, Told{})
		if len(left) > 0 || time.Since(began) > 10*time.Second || !m.has(resClusterRoles, "", NamesOf(s.Run).Load) {
			t.Errorf("after %s: left %v, there %v", time.Since(began), left, m.names())
		}
	})
}

// A dry run says what would go, in the order in which it would, and touches nothing.
func TestADryRunOfCleanSaysWhatCleanDoes(t *testing.T) {
	const first, second = memoryRun, "another"
	podOf := func(m *memoryAPI, s *Settings, owner string) {
		pod := manifest("v1", "Pod", s.Namespace, "load-x", s, PartLoad, nil)
		pod["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "Job", "uid": owner}}
		m.put(resPods, pod)
	}
	for name, c := range map[string]struct {
		there func(m *memoryAPI)
		run   string
		last  Removed // what goes last, as far as it is of interest
		n     int     // how many
	}{
		"one run":           {func(m *memoryAPI) { whole(m, runSettings(first)) }, "", Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"one that is named": {func(m *memoryAPI) { whole(m, runSettings(first)) }, first, Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"two runs":          {func(m *memoryAPI) { whole(m, runSettings(first)); whole(m, runSettings(second)) }, "", Removed{second, "ConfigMap", "aicr-validation", NamesOf(second).Kept}, 23},
		"one of two":        {func(m *memoryAPI) { whole(m, runSettings(first)); whole(m, runSettings(second)) }, first, Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"two namespaces": {func(m *memoryAPI) {
			whole(m, runSettings(first))
			other := runSettings(second)
			other.Namespace = "mine"
			whole(m, other)
		}, "", Removed{second, "ConfigMap", "mine", NamesOf(second).Kept}, 24},
		"somebody is in it": {func(m *memoryAPI) {
			whole(m, runSettings(first))
			m.put(resPods, kube.Object{"metadata": map[string]any{"name": "theirs", "namespace": "aicr-validation"}})
		}, "", Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"somebody else's namespace": {func(m *memoryAPI) {
			whole(m, runSettings(first))
			m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": "aicr-validation"}})
		}, "", Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"a pod that goes with a Job": {func(m *memoryAPI) {
			s := runSettings(first)
			whole(m, s)
			podOf(m, s, m.objects[memoryKey(resJobs, s.Namespace, NamesOf(first).Load)].UID())
		}, "", Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"a pod that goes with none": {func(m *memoryAPI) { s := runSettings(first); whole(m, s); podOf(m, s, "gone") }, "", Removed{first, "ConfigMap", "aicr-validation", NamesOf(first).Kept}, 12},
		"the graph's alone":         {func(m *memoryAPI) { m.put(resNamespaces, namespaceManifest(runSettings(first))) }, "", Removed{first, "Namespace", "", NamesOf(first).Namespace}, 1},
		"of no namespace alone":     {func(m *memoryAPI) { m.put(resClusterRoles, clusterRoleManifest(runSettings(first))) }, "", Removed{first, "ClusterRole", "", NamesOf(first).Load}, 1},
		"an empty namespace":        {func(m *memoryAPI) { m.put(resNamespaces, validationManifest(memorySettings())) }, "", Removed{}, 0},
		"nothing":                   {func(*memoryAPI) {}, "", Removed{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				c.there(m)
				m.put(resPods, memoryPod("w-0", "worker", podReady)) // for which a dry run does not wait
				time.AfterFunc(time.Minute, func() { m.drop(resPods, NamesOf(first).Namespace, "w-0") })
				began := time.Now()
				would, left, err := Clean(t.Context(), m, "aicr-validation", c.run, true, Told{})
				if err != nil || len(left) > 0 || len(m.writes) > 0 || time.Since(began) > 0 {
					t.Fatalf("%v, left %v, wrote %v after %s", err, left, m.writes, time.Since(began))
				}
				removed, left, err := Clean(t.Context(), m, "aicr-validation", c.run, false, Told{})
				if err != nil || len(left) > 0 {
					t.Fatal(left, err)
				}
				if diff := cmp.Diff(would, removed); diff != "" {
					t.Errorf("(-dry run +done):\n%s", diff)
				}
				if len(removed) != c.n || c.n > 0 && removed[c.n-1] != c.last {
					t.Errorf("%d, the last of %v", len(removed), removed)
				}
			})
		})
	}
}

// Who may look into some namespaces alone need not look into all of them for what is in none.
func TestWhatIsInNoNamespaceIsRemovedWithoutARightToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resClusterRoles, clusterRoleManifest(runSettings(memoryRun)))
		for _, r := range []kube.Resource{resConfigMaps, resAccounts, resRoles, resRoleBindings, resJobs} {
			m.deny["list all "+r.Name] = true
		}
		if _, left, err := Clean(t.Context(), m, "aicr-validation", "", false, Told{}); err != nil || len(left) > 0 || len(m.remains()) > 0 {
			t.Error(left, err, m.names())
		}
	})
}
