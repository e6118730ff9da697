package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	applisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"aicr/sandbox/pki"
)

func TestWhatIsInstalledIsReadyWhenAllItsPodsAre(t *testing.T) {
	two := int32(2)
	deployment := func(replicas *int32, observed int64, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: replicas},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, AvailableReplicas: available}}
	}
	daemon := func(observed int64, wanted, available int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Generation: 2},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: observed, DesiredNumberScheduled: wanted, NumberAvailable: available}}
	}
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		daemon     *appsv1.DaemonSet
		want       []string
	}{
		"all are":                     {deployment(&two, 2, 2), daemon(2, 2, 2), nil},
		"nobody has looked yet":       {deployment(&two, 0, 0), daemon(0, 0, 0), []string{"ns/d", "ns/s"}},
		"one pod is not":              {deployment(&two, 2, 1), daemon(2, 2, 1), []string{"ns/d", "ns/s"}},
		"of one, and none is":         {deployment(nil, 2, 0), daemon(2, 1, 1), []string{"ns/d"}},
		"of the generation before":    {deployment(nil, 1, 1), daemon(1, 1, 1), []string{"ns/d", "ns/s"}},
		"there is no node for a pod":  {deployment(nil, 2, 1), daemon(2, 0, 0), nil},
		"the daemons are not, it is":  {deployment(nil, 2, 1), daemon(2, 3, 2), []string{"ns/s"}},
		"more than there are to be":   {deployment(nil, 2, 2), daemon(2, 1, 1), nil},
		"none are wanted, and it has": {deployment(new(int32), 2, 0), daemon(2, 0, 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notReady([]*appsv1.Deployment{c.deployment}, []*appsv1.DaemonSet{c.daemon}); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// What others run on the cluster is not waited for.
func TestStandInsAloneAreWaitedFor(t *testing.T) {
	deployments := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	op := &operator{deployments: applisters.NewDeploymentLister(deployments),
		daemons: applisters.NewDaemonSetLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))}
	add := func(name string, labels map[string]string) {
		if err := deployments.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels, Generation: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	add("somebody's", nil)
	if waiting := op.await(ctx); len(waiting) > 0 {
		t.Errorf("it waits for %v", waiting)
	}
	add("ours", map[string]string{"app.kubernetes.io/managed-by": "Helm"})
	if waiting := op.await(ctx); !slices.Equal(waiting, []string{"ns/ours"}) {
		t.Errorf("it waits for %v", waiting)
	}
}

// The queue of a graph is made before the graph, and heard of after it.
func TestAQueueThatWasNotHeardOfIsAskedFor(t *testing.T) {
	queue := &unstructured.Unstructured{Object: fields{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": fields{"name": "late"}}}
	op := &operator{
		api:    fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{queues: "QueueList"}, queue),
		queues: cache.NewGenericLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), queues.GroupResource()),
	}
	for name, want := range map[string]bool{"late": true, "none": false} {
		if there, err := op.hasQueue(t.Context(), name); err != nil || there != want {
			t.Errorf("%s: %v, %v", name, there, err)
		}
	}
}

func TestAServerThatIsNotReadyYetIsNotTheGraphsFault(t *testing.T) {
	deployment := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no answer":         {errors.New("connection refused"), true},
		"not ready yet":     {apierrors.NewForbidden(deployment, "d", errors.New("not yet ready to handle request")), true},
		"not allowed":       {apierrors.NewForbidden(deployment, "d", errors.New("exceeded quota")), false},
		"not understood":    {apierrors.NewBadRequest("no"), false},
		"the operator's no": {&reconcileError{"no queue"}, false},
		"too busy":          {apierrors.NewTooManyRequests("later", 1), true},
	} {
		if got := away(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Without its operator nothing becomes of a graph.
func TestAGraphIsLookedAtWhileTheOperatorRuns(t *testing.T) {
	for name, ready := range map[string]int32{"it runs": 1, "none is ready": 0} {
		deployments := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if err := deployments.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "dynamo-system", Name: "dynamo-operator-controller-manager"},
			Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}); err != nil {
			t.Fatal(err)
		}
		op := &operator{deployments: applisters.NewDeploymentLister(deployments)}
		if got := op.alive(); got != (ready > 0) {
			t.Errorf("%s: alive %v", name, got)
		}
	}
}
