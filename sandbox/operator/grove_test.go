package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// playing is an operator before a server that refuses to take some kind, and the server.
func playing(t *testing.T, refuses string, there ...runtime.Object) (*operator, *fake.FakeDynamicClient) {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{cliqueSets: "PodCliqueSetList", cliques: "PodCliqueList", podsOfAll: "PodList", eventsResource: "EventList", componentDeployments: "DynamoComponentDeploymentList"}
	api := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, there...)
	made := 0
	api.PrependReactor("*", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		resource := a.GetResource()
		switch of := a.(type) {
		case kubetesting.CreateAction:
			if resource.Resource == refuses {
				return true, nil, apierrors.NewForbidden(resource.GroupResource(), "x", errors.New("not on a Friday"))
			}
			u := of.GetObject().(*unstructured.Unstructured)
			if u.SetUID(types.UID("uid-" + u.GetName())); u.GetName() == "" {
				u.SetName(u.GetGenerateName() + fmt.Sprint(made))
				made++
				u.SetUID(types.UID("uid-" + u.GetName()))
			}
		case kubetesting.PatchAction: // an apply, which the fake does not know
			if of.GetPatchType() != types.ApplyPatchType {
				return false, nil, nil
			}
			if resource.Resource == refuses {
				return true, nil, apierrors.NewForbidden(resource.GroupResource(), of.GetName(), errors.New("not on a Friday"))
			}
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(of.GetPatch()); err != nil {
				return true, nil, err
			}
			u.SetUID(types.UID("uid-" + u.GetName()))
			return true, u, nil
		}
		return false, nil, nil
	})
	return &operator{api: api, wake: make(chan struct{}, 1), pods: corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})),
		applied: map[string]int64{}, parts: map[string]map[string]part{}, born: map[types.UID]map[types.UID]time.Time{}, refused: map[types.UID]time.Time{},
		Options: Options{Logf: t.Logf}}, api
}

// toldOf are the events of a server: kind, name, reason and message.
func toldOf(t *testing.T, api *fake.FakeDynamicClient) (all []string) {
	t.Helper()
	events, err := api.Resource(eventsResource).Namespace("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		kind, _, _ := unstructured.NestedString(e.Object, "involvedObject", "kind")
		name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
		all = append(all, strings.Join([]string{kind, name, e.Object["type"].(string), e.Object["reason"].(string), e.Object["message"].(string)}, " "))
	}
	slices.Sort(all)
	return all
}

// cliquesOf has the cliques of testdata's graph looked at once.
func cliquesOf(t *testing.T, refuses string) (op *operator, api *fake.FakeDynamicClient, have map[string]int32) {
	t.Helper()
	g := parse(t, betaGraph)
	g.grove = true
	set, err := g.cliqueSet()
	if err != nil {
		t.Fatal(err)
	}
	set.SetAPIVersion(groveAPI)
	set.SetKind("PodCliqueSet")
	set.SetNamespace(g.namespace)
	set.SetUID("set")
	text, err := json.Marshal(set.Object) // as the server gives it
	if err != nil {
		t.Fatal(err)
	}
	clean := &unstructured.Unstructured{}
	if err := clean.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	op, api = playing(t, refuses, clean)
	deployments, err := op.lookAtCliques(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	have = map[string]int32{}
	for name, d := range deployments {
		have[name] = d.Status.Replicas
	}
	return op, api, have
}

func lastErrorOf(t *testing.T, api *fake.FakeDynamicClient, resource schema.GroupVersionResource, name string) string {
	t.Helper()
	u, err := api.Resource(resource).Namespace("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "lastErrors")
	if len(all) == 0 {
		return ""
	}
	e := all[0].(map[string]any)
	return e["code"].(string) + " " + e["description"].(string)
}

func TestGroveMakesThePodsOfEachClique(t *testing.T) {
	op, api, have := cliquesOf(t, "")
	if have["Frontend"] != 1 || have["Worker"] != 2 {
		t.Errorf("%v", have)
	}
	pods, err := api.Resource(podsOfAll).Namespace("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, pod := range pods.Items {
		owners := pod.GetOwnerReferences()
		if len(owners) != 1 || owners[0].Kind != "PodClique" || owners[0].Name != pod.GetLabels()[labelClique] || pod.GetLabels()[labelGraph] != "g" {
			t.Errorf("%s: %v, %v", pod.GetName(), owners, pod.GetLabels())
		}
		of[pod.GetLabels()[labelClique]]++
	}
	if of["g-0-frontend"] != 1 || of["g-0-worker"] != 2 {
		t.Errorf("%v", of)
	}
	// Pods that were made and are not heard of yet are not made again.
	g := parse(t, betaGraph)
	g.grove = true
	if _, err := op.lookAtCliques(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if again, err := api.Resource(podsOfAll).Namespace("ns").List(t.Context(), metav1.ListOptions{}); err != nil || len(again.Items) != 3 {
		t.Errorf("%d pods: %v", len(again.Items), err)
	}
}

// The graph stays pending: why is said where Grove says it.
func TestWhatGroveCannotMakeIsToldWhereItWasToBeMade(t *testing.T) {
	t.Run("pods", func(t *testing.T) {
		_, api, have := cliquesOf(t, "pods")
		if have["Frontend"] != 0 || have["Worker"] != 0 {
			t.Errorf("%v", have)
		}
		said := lastErrorOf(t, api, cliques, "g-0-worker")
		for _, word := range []string{"ERR_CREATE_POD failed to sync Pod: [Operation: Sync, Code: ERR_CREATE_POD] message: failed to create Pod:  for PodClique ns/g-0-worker, cause: ", "not on a Friday"} {
			if !strings.Contains(said, word) {
				t.Errorf("%q is not in %q", word, said)
			}
		}
		told := toldOf(t, api)
		if len(told) != 2 || !strings.HasPrefix(told[1], "PodClique g-0-worker Warning PodCreateFailed Error creating pod : ") {
			t.Errorf("%q", told)
		}
	})
	t.Run("cliques", func(t *testing.T) {
		_, api, have := cliquesOf(t, "podcliques")
		if len(have) != 0 {
			t.Errorf("%v", have)
		}
		if said := lastErrorOf(t, api, cliqueSets, "g"); !strings.HasPrefix(said, "ERR_CREATE_OR_UPDATE_PODCLIQUE ") || !strings.Contains(said, "not on a Friday") {
			t.Errorf("%q", said)
		}
		if told := toldOf(t, api); len(told) != 2 || !strings.HasPrefix(told[0], "PodCliqueSet g Warning PodCliqueCreateOrUpdateFailed PodClique ns/g-0-frontend creation or updation failed: ") {
			t.Errorf("%q", told)
		}
	})
}

// Without Grove it is said on the component, and in an event of what was to be made.
func TestAChildThatIsRefusedIsToldOnItsComponent(t *testing.T) {
	op, api := playing(t, "deployments")
	g := parse(t, betaGraph)
	if err := op.makeComponents(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	worker := workersOf(t)
	told := toldOf(t, api)
	for _, want := range []string{
		"Deployment " + worker + " Warning CreateDeployment Failed to create Deployment ns: ",
		"DynamoComponentDeployment " + worker + " Warning ReconcileError Failed to reconcile DynamoComponentDeployment: failed to reconcile the resources: failed to create or update the deployment: ",
	} {
		if !slices.ContainsFunc(told, func(e string) bool {
			return strings.HasPrefix(e, want) && strings.HasSuffix(e, "not on a Friday")
		}) {
			t.Errorf("%q is not told: %q", want, told)
		}
	}
	said := conditions(nil, op.parts[string(g.uid)]["Worker"].wrong, nil, 2, time.Unix(0, 0))
	available := said[0].(map[string]any)
	if available["type"] != "Available" || available["status"] != "False" || available["reason"] != "Reconciling" || !strings.HasPrefix(available["message"].(string), "Failed to reconcile DynamoComponentDeployment: ") {
		t.Errorf("%v", available)
	}
}
