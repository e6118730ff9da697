package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
)

var resSecrets = kube.Resource{Version: "v1", Name: "secrets"}

// The namespace that runs share is removed on demand alone, and only if a run made it, all that
// is in it can be listed, and that is nothing.
func TestTheSharedNamespaceIsRemovedWhenNothingIsInIt(t *testing.T) {
	const space = "aicr-validation"
	theirs := func(group, resource string) func(*memoryAPI) {
		return func(m *memoryAPI) {
			m.put(kube.Resource{Group: group, Version: "v1", Name: resource}, kube.Object{"metadata": map[string]any{"name": "theirs", "namespace": space}})
		}
	}
	in := func(kind, name, run string) []Inside { return []Inside{{kind, name, run}} }
	for name, c := range map[string]struct {
		with   func(m *memoryAPI)
		stays  SpaceReason
		inside []Inside
		listed int // kinds that could not be
	}{
		"nothing":              {with: func(*memoryAPI) {}},
		"a Secret":             {with: theirs("", "secrets"), stays: SpaceInUse, inside: in("Secret", "theirs", "")},
		"a Service":            {with: theirs("", "services"), stays: SpaceInUse, inside: in("services", "theirs", "")},
		"a NetworkPolicy":      {with: theirs("networking.k8s.io", "networkpolicies"), stays: SpaceInUse, inside: in("networkpolicies.networking.k8s.io", "theirs", "")},
		"a CronJob":            {with: theirs("batch", "cronjobs"), stays: SpaceInUse, inside: in("cronjobs.batch", "theirs", "")},
		"a kind of somebody's": {with: theirs("example.com", "widgets"), stays: SpaceInUse, inside: in("widgets.example.com", "theirs", "")},
		"an account":           {with: theirs("", "serviceaccounts"), stays: SpaceInUse, inside: in("ServiceAccount", "theirs", "")},
		"a pod called default": {with: func(m *memoryAPI) {
			m.put(resPods, kube.Object{"metadata": map[string]any{"name": "default", "namespace": space}})
		}, stays: SpaceInUse, inside: in("Pod", "default", "")},
		"a run that is not cleaned": {with: func(m *memoryAPI) { m.put(resConfigMaps, keptManifest(memorySettings())) }, stays: SpaceInUse, inside: in("ConfigMap", NamesOf(memoryRun).Kept, memoryRun)},
		"Secrets that may not be listed": {with: func(m *memoryAPI) { theirs("", "secrets")(m); m.deny["list secrets"] = true },
			stays: SpaceUnlisted, listed: 1},
		"a part of the API that is down": {with: func(m *memoryAPI) { m.undiscovered = []error{errors.New("metrics.k8s.io/v1beta1: down")} }, stays: SpaceUnlisted, listed: 1},
		"one that an administrator made": {with: func(m *memoryAPI) { m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": space}}) }, stays: SpaceForeign},
		"the graph's of a run": {with: func(m *memoryAPI) {
			o := validationManifest(memorySettings())
			o["metadata"].(fields)["labels"].(fields)[LabelRun] = memoryRun
			m.put(resNamespaces, o)
		}, stays: SpaceForeign},
		"one that is gone": {with: func(m *memoryAPI) { m.drop(resNamespaces, "", space) }, stays: SpaceAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.put(resNamespaces, validationManifest(memorySettings()))
				m.put(resAccounts, kube.Object{"metadata": map[string]any{"name": "default", "namespace": space}})
				m.put(resConfigMaps, kube.Object{"metadata": map[string]any{"name": "kube-root-ca.crt", "namespace": space}})
				m.put(resEvents, kube.Object{"metadata": map[string]any{"name": "e", "namespace": space}})
				c.with(m)
				for _, dry := range []bool{true, false} {
					s, err := RemoveSpace(t.Context(), m, space, nil, dry, Told{})
					if err != nil {
						t.Fatal(err)
					}
					if s.Stays != c.stays || s.Removed != (c.stays == "") || len(s.Unlisted) != c.listed {
						t.Errorf("dry %v: %+v", dry, s)
					}
					if diff := cmp.Diff(append([]Inside{}, c.inside...), s.Objects); diff != "" {
						t.Error(diff)
					}
					if (s.Why() == "") != (c.stays == "") {
						t.Errorf("why %q", s.Why())
					}
					if gone := !m.has(resNamespaces, "", space); gone != (!dry && c.stays == "" || c.stays == SpaceAbsent) {
						t.Errorf("dry %v: gone %v", dry, gone)
					}
				}
			})
		})
	}
}

// A dry run of clean with the namespace says what the two do one after the other.
func TestADryRunKnowsThatTheNamespaceWillBeEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		pod := manifest("v1", "Pod", s.Namespace, "load-x", s, PartLoad, nil)
		pod["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "Job", "name": NamesOf(s.Run).Load, "uid": m.objects[memoryKey(resJobs, s.Namespace, NamesOf(s.Run).Load)].UID()}}
		m.put(resPods, pod)
		removed, _, err := Clean(t.Context(), m, s.Namespace, "", true, Told{})
		if err != nil {
			t.Fatal(err)
		}
		space, err := RemoveSpace(t.Context(), m, s.Namespace, removed, true, Told{})
		if err != nil || !space.Removed || len(space.Objects) > 0 || len(m.writes) > 0 {
			t.Errorf("%+v %v, wrote %v", space, err, m.writes)
		}
		m.put(resSecrets, kube.Object{"metadata": map[string]any{"name": NamesOf(s.Run).Load, "namespace": s.Namespace}}) // a name alone says nothing
		if space, err := RemoveSpace(t.Context(), m, s.Namespace, removed, true, Told{}); err != nil || space.Stays != SpaceInUse {
			t.Errorf("%+v %v", space, err)
		}
	})
}

// beginning begins a run in the moment in which the shared namespace is to be deleted.
type beginning struct{ *memoryAPI }

func (b beginning) Delete(ctx context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	if r == resNamespaces {
		b.put(resNamespaces, validationManifest(memorySettings())) // touched: another resourceVersion
	}
	return b.memoryAPI.Delete(ctx, r, namespace, name, o)
}

func TestARunThatBeginsMeanwhileKeepsTheNamespace(t *testing.T) {
	m := newMemory()
	m.put(resNamespaces, validationManifest(memorySettings()))
	s, err := RemoveSpace(t.Context(), beginning{m}, "aicr-validation", nil, false, Told{})
	if err != nil || s.Stays != SpaceChanged || s.Removed || !m.has(resNamespaces, "", "aicr-validation") {
		t.Errorf("%+v %v", s, err)
	}
}

// Somebody's workload in the namespace of a graph keeps that namespace: it is told, by name,
// and all of the run but the namespace goes.
func TestAWorkloadOfSomebodyElseKeepsTheGraphsNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		res  kube.Resource
		more map[string]any
		held bool
	}{
		"a pod":                {resPods, nil, true},
		"a Job":                {resJobs, nil, true},
		"a graph":              {resGraphs("v1beta1"), nil, true},
		"a pod of the graph's": {resPods, map[string]any{"labels": map[string]any{graphLabel: graphName}, "ownerReferences": []any{map[string]any{"kind": "PodClique", "uid": "gone"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s, h := newMemory(), runSettings(memoryRun), &heard{}
				whole(m, s)
				n := NamesOf(s.Run)
				meta := map[string]any{"name": "theirs", "namespace": n.Namespace}
				maps.Copy(meta, c.more)
				m.put(c.res, kube.Object{"metadata": meta})
				left := Teardown(t.Context(), m, s, h.told())
				if held := m.has(resNamespaces, "", n.Namespace); held != c.held {
					t.Fatalf("held %v: left %v", held, left)
				}
				if !c.held {
					return
				}
				want := fmt.Sprintf("Namespace %s: it holds what the run did not make, which would go with it: %s theirs", n.Namespace, kindOf(c.res))
				if !slices.ContainsFunc(left, func(l Left) bool { return l.String() == want }) {
					t.Errorf("left %v, want %s", left, want)
				}
				if !m.has(c.res, n.Namespace, "theirs") || m.has(resGraphs("v1beta1"), n.Namespace, n.Graph) {
					t.Errorf("there: %v", m.names())
				}
			})
		})
	}
}

// A namespace of the run's name and labels that has another UID than the one that was made is
// not the run's.
func TestANamespaceThatWasMadeAnewIsNotTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		whole(m, s)
		s.SpaceUID = "the-first"
		if left := Teardown(t.Context(), m, s, Told{}); len(left) > 0 || !m.has(resNamespaces, "", NamesOf(s.Run).Namespace) {
			t.Errorf("left %v: %v", left, m.names())
		}
	})
}

// What could not be listed may be somebody's: the namespace of a graph is kept then.
func TestAGraphsNamespaceIsKeptWhereItCannotBeLookedInto(t *testing.T) {
	for _, what := range []string{"list pods", "list jobs", "list dynamographdeployments"} {
		synctest.Test(t, func(t *testing.T) {
			m, s, h := newMemory(), runSettings(memoryRun), &heard{}
			whole(m, s)
			m.deny[what] = true
			left := Teardown(t.Context(), m, s, h.told())
			if !m.has(resNamespaces, "", NamesOf(s.Run).Namespace) ||
				!slices.ContainsFunc(left, func(l Left) bool { return l.Kind == "Namespace" && strings.Contains(l.Why, "could not be listed") }) {
				t.Errorf("%s: %v", what, left)
			}
		})
	}
}
