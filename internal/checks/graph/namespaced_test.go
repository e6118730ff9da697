package graph

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// inTeamA is a run in a namespace that it shares.
func inTeamA(run string) *Settings {
	s := runSettings(run)
	s.Queue = false
	namespacedRun(s)
	return s
}

// Two runs in one namespace, beside things of others with the names that a run has in a
// namespace of its own: each takes away what it made and nothing else, and asks nothing outside.
func TestANamespacedRunTakesAwayItsOwnAndNothingElse(t *testing.T) {
	const second = "20261116-030000-fedcba9876543210"
	for _, by := range []string{"teardown", "clean"} {
		synctest.Test(t, func(t *testing.T) {
			m, s, other := newMemory(), inTeamA(memoryRun), inTeamA(second)
			m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": "team-a"}})
			for _, one := range []*Settings{s, other} {
				kept := m.put(resConfigMaps, keptManifest(one))
				one.KeptUID = kept.UID()
				for _, step := range Objects(one) {
					if step.Part != PartKept {
						m.put(step.Resource, step.Object)
					}
				}
				n := one.Names()
				m.put(resPods, kube.Object{"metadata": map[string]any{"name": n.Graph + "-0-worker-x", "namespace": "team-a", "labels": map[string]any{graphLabel: n.Graph}}})
				m.put(resDRA("v1", "resourceclaims"), kube.Object{"metadata": map[string]any{"name": n.Graph + "-0-worker-x-gpu", "namespace": "team-a"}})
			}
			own := NamesOf(memoryRun)
			for r, name := range map[kube.Resource]string{resGraphs("v1beta1"): own.Graph, resSecrets: own.Secret, resVolumes: own.Volume, resPods: "theirs", resJobs: "theirs",
				resConfigMaps: "theirs", resDRA("v1", "resourceclaims"): "theirs", resRoutes: "theirs"} {
				m.put(r, kube.Object{"metadata": map[string]any{"name": name, "namespace": "team-a"}})
			}
			for _, verb := range []string{"list clusterroles", "list clusterrolebindings", "list roles", "list rolebindings", "list serviceaccounts", "get namespaces", "list namespaces", "get queues",
				"list all configmaps", "list all jobs", "list all dynamographdeployments"} {
				m.deny[verb] = true
			}
			mine := slices.DeleteFunc(m.names(), func(key string) bool { return !strings.Contains(key, s.Names().Short) })
			theirs := slices.DeleteFunc(m.names(), func(key string) bool { return slices.Contains(mine, key) })
			n := s.Names()
			time.AfterFunc(20*time.Second, func() {
				m.drop(resPods, "team-a", n.Graph+"-0-worker-x")
				m.drop(resDRA("v1", "resourceclaims"), "team-a", n.Graph+"-0-worker-x-gpu")
			})
			var left []Left
			if by == "teardown" {
				left = Teardown(t.Context(), m, s, Told{})
			} else {
				removed, still, err := CleanIn(t.Context(), m, "team-a", memoryRun, false, Told{})
				if left = still; err != nil || len(removed) == 0 {
					t.Fatal(removed, err)
				}
			}
			if len(left) > 0 {
				t.Errorf("%s: left %v", by, left)
			}
			for _, key := range mine {
				if slices.Contains(m.names(), key) {
					t.Errorf("%s: %s is left", by, key)
				}
			}
			for _, key := range theirs {
				if !slices.Contains(m.names(), key) {
					t.Errorf("%s: %s of others is gone", by, key)
				}
			}
		})
	}
}

// Nothing of a namespaced run is outside of its namespace, and every name has the run's id.
func TestNothingOfANamespacedRunIsClusterWide(t *testing.T) {
	for name, s := range variants() {
		if !s.Namespaced {
			continue
		}
		s.Queue = true // KAI is there, and no queue is made
		for _, step := range Objects(s) {
			if o := step.Object; o.Namespace() != s.Namespace || step.Resource != resLeases && !strings.Contains(o.Name(), s.Names().Short) {
				t.Errorf("%s: %s", name, o)
			}
		}
	}
	longest := strings.Repeat("n", MostNamespace)
	s := &Settings{Run: memoryRun, Namespace: longest, Namespaced: true}
	if label := longest + "-" + s.Names().Graph; len(label) > 63 || len(s.Names().Graph)+len(ComponentWorker) > 45 {
		t.Errorf("%d letters of %s", len(label), label)
	}
}

// Where it is unknown who holds GPUs, a pod without a place says nothing of the deployment.
func TestAPodWithoutAPlaceIsNoFailureWhereHoldersAreNotSeen(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		w := newWatcher(newMemory(), &Settings{Run: memoryRun, Namespace: "team-a", Namespaced: true, Unseen: unseen, Workers: 1}, (&heard{}).told())
		err := w.tellFailure(&outcome{scene: &Scene{Settings: w.s}, causes: []Cause{{Reason: "Unschedulable", Source: "w-0", Text: "0/3 nodes are available", rule: "unschedulable"}}})
		if _, ok := errors.AsType[*UnseenError](err); ok != unseen || !unseen && err != nil {
			t.Errorf("unseen %v: %v", unseen, err)
		}
	}
}

// All that a namespaced run must have is in its namespace: nothing else is asked about, unless
// it takes a snapshot itself.
func TestANamespacedRunNeedsRightsInItsNamespaceAlone(t *testing.T) {
	for name, s := range variants() {
		if !s.Namespaced {
			continue
		}
		for _, n := range needed(s) {
			if n.right.Namespace != s.Namespace {
				t.Errorf("%s: %s", name, n)
			}
		}
	}
	for _, r := range NamespacedRights() {
		reads := !slices.ContainsFunc(r.Verbs, func(v string) bool { return v != "get" && v != "list" })
		if r.Where == InNamespace || reads && (r.Where == InReading || r.Need.Words == forSnapshot.Words) {
			continue
		}
		t.Errorf("%+v", r)
	}
	for _, o := range rulesIn(t, NamespacedRoles("team-a")) {
		if o.kind == "ClusterRole" && o.verb != "get" && o.verb != "list" {
			t.Errorf("%+v", o)
		}
	}
}

// No role that is printed can make, change, bind or delete roles, or changes a namespace.
func TestNoPrintedRoleIsOverRights(t *testing.T) {
	for _, text := range [][]byte{UserRoles("aicr-validation"), NamespacedRoles("team-a")} {
		for _, r := range rulesIn(t, text) {
			if r.group == "rbac.authorization.k8s.io" || r.resource == "namespaces" && r.verb == "patch" || r.resource == "secrets" && r.verb != "create" || r.resource == "serviceaccounts" && r.verb != "get" {
				t.Errorf("%+v", r)
			}
		}
	}
}

func TestAnAccountIsPreparedByAnAdministratorAlone(t *testing.T) {
	m := newMemory()
	look := func() bool {
		yes, err := IsPrepared(t.Context(), guarded{m}, "team-a")
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	if look() {
		t.Error("there is none")
	}
	account := kube.Object{"metadata": map[string]any{"name": LoadAccount, "namespace": "team-a", "labels": map[string]any{LabelOwner: OwnerValue}}}
	m.put(resAccounts, account)
	if look() {
		t.Error("a run's own is taken for one")
	}
	m.put(resAccounts, kube.Object{"metadata": map[string]any{"name": LoadAccount, "namespace": "team-a"}})
	if !look() {
		t.Error("it is not seen")
	}
}

// An administrator's account that is missing is one thing to say, and not fourteen.
func TestWhoMayNotMakeAnAccountIsToldOnce(t *testing.T) {
	s := someSettings()
	missing := slices.DeleteFunc(needed(s), func(n neededRight) bool { return !n.ofRights() })
	if len(missing) < 10 {
		t.Fatal(missing)
	}
	m := newMemory()
	m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": s.Namespace}})
	all, err := refusedRights(t.Context(), guarded{m}, s, missing)
	if err != nil || len(all) != 1 || all[0].State != spec.Inconclusive || !strings.Contains(all[0].Text, "no account aicr-load is prepared") {
		t.Errorf("%v %v", all, err)
	}
}

// guarded is a cluster in memory as the guards ask it.
type guarded struct{ *memoryAPI }

func (guarded) Served(context.Context, ...string) (kube.Served, error) { return kube.Served{}, nil }
func (guarded) Allowed(context.Context, []kube.Right) ([]kube.Right, error) {
	return nil, nil
}
