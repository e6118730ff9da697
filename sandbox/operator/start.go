package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	applisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var (
	queues = schema.GroupVersionResource{Group: "scheduling.run.ai", Version: "v2", Resource: "queues"}
	routes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	pools  = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"}
)

func graphs(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nvidia.com", Version: version, Resource: "dynamographdeployments"}
}

// operator is all that was started.
type operator struct {
	Options
	origin  string // the release of Dynamo's operator that is played
	api     dynamic.Interface
	wake    chan struct{}
	applied map[string]int64           // generation of a graph, by its UID, whose children were made
	parts   map[string]map[string]part // of a graph, by its UID and the component's name

	born    map[types.UID]map[types.UID]time.Time // by clique: pods that were made, and not heard of yet
	refused map[types.UID]time.Time               // by clique: when a pod of it could not be made

	graphs      cache.GenericLister // nil: Dynamo is not installed
	queues      cache.GenericLister // nil: not served
	routes      cache.GenericLister // nil: not served
	pools       cache.GenericLister
	deployments applisters.DeploymentLister
	daemons     applisters.DaemonSetLister
	pods        corelisters.PodLister
	nodes       corelisters.NodeLister
}

// startWithin is how long the cluster may take to serve what is installed on it, and
// then for that to be ready. It is a matter of seconds, on a machine that has the time.
const startWithin = 3 * time.Minute

// Start installs everything on the cluster, and looks after it until ctx ends. It returns
// when all of it is ready: until then objects come that nobody has asked for.
func Start(ctx context.Context, o Options) error {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	pinned, err := readPins(ctx, o.AICR)
	if err != nil {
		return fmt.Errorf("what is to be installed: %w", err)
	}
	config := rest.CopyConfig(o.REST)
	config.QPS, config.Burst = 200, 400
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	hook, err := o.certify()
	if err != nil {
		return err
	}
	all, err := o.definitions(hook)
	if err != nil {
		return err
	}
	if err := define(within, api, all); err != nil {
		return fmt.Errorf("custom resources: %w", err)
	}
	if err := install(within, api, o.standIns(pinned, hook)); err != nil {
		return fmt.Errorf("stand-ins: %w", err)
	}
	op := &operator{Options: o, origin: pinned["dynamo-platform"], api: api, wake: make(chan struct{}, 1), applied: map[string]int64{}, parts: map[string]map[string]part{},
		born: map[types.UID]map[types.UID]time.Time{}, refused: map[types.UID]time.Time{}}
	if err := op.watch(ctx, within, typed); err != nil {
		return err
	}
	if err := op.tell(ctx); err != nil {
		return err
	}
	go op.work(ctx)
	ready, done := context.WithTimeout(ctx, startWithin)
	defer done()
	if waiting := op.await(ready); len(waiting) > 0 && ctx.Err() == nil {
		o.Logf("operator: not ready: %s", strings.Join(waiting, ", ")) // no node may be for it
	}
	return nil
}

// await waits until all stand-ins are ready, and says which are not when ctx ends before.
func (op *operator) await(ctx context.Context) (waiting []string) {
	ours := labels.SelectorFromSet(labels.Set{labelInstaller: installer})
	for {
		deployments, err := op.deployments.List(ours)
		daemons, other := op.daemons.List(ours)
		if err == nil && other == nil {
			if waiting = notReady(deployments, daemons); len(waiting) == 0 {
				return nil
			}
		}
		if !pause(ctx, 100*time.Millisecond) {
			return waiting
		}
	}
}

// notReady names those of which not every pod is ready.
func notReady(deployments []*appsv1.Deployment, daemons []*appsv1.DaemonSet) (names []string) {
	for _, d := range deployments {
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < *cmp.Or(d.Spec.Replicas, new(int32(1))) {
			names = append(names, d.Namespace+"/"+d.Name)
		}
	}
	for _, d := range daemons {
		if d.Status.ObservedGeneration < d.Generation || d.Status.NumberAvailable < d.Status.DesiredNumberScheduled {
			names = append(names, d.Namespace+"/"+d.Name)
		}
	}
	slices.Sort(names)
	return names
}

// definitions are the custom resources that the options ask for.
func (o *Options) definitions(hook *webhook) ([]*apiextensions.CustomResourceDefinition, error) {
	files := []string{"clusterpolicies"}
	if o.KAI {
		files = append(files, "queues", "grove")
	}
	if o.Gateway {
		files = append(files, "gateway")
	}
	var all []*apiextensions.CustomResourceDefinition
	for _, file := range files {
		some, err := readDefinitions(file)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(o.GraphAPIs) > 0 {
		d, err := graphDefinition(o.GraphAPIs)
		if err != nil {
			return nil, err
		}
		some, err := readDefinitions("dynamocomponentdeployments")
		if err != nil {
			return nil, err
		}
		if hook != nil {
			d.Spec.Conversion = hook.conversion()
			for _, one := range some {
				one.Spec.Conversion = hook.conversion()
			}
		}
		all = append(append(all, d), some...)
	}
	return all, nil
}

// watch begins to follow what matters, and waits until it is known.
func (op *operator) watch(ctx, within context.Context, typed kubernetes.Interface) error {
	known := informers.NewSharedInformerFactory(typed, 0)
	custom := dynamicinformer.NewDynamicSharedInformerFactory(op.api, 0)
	follow := func(i cache.SharedIndexInformer) error {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { op.look() }, UpdateFunc: func(any, any) { op.look() }, DeleteFunc: func(any) { op.look() },
		})
		return err
	}
	op.deployments, op.daemons = known.Apps().V1().Deployments().Lister(), known.Apps().V1().DaemonSets().Lister()
	op.pods, op.nodes = known.Core().V1().Pods().Lister(), known.Core().V1().Nodes().Lister()
	some := []cache.SharedIndexInformer{known.Apps().V1().Deployments().Informer(), known.Apps().V1().DaemonSets().Informer()}
	dynamically := func(r schema.GroupVersionResource) cache.GenericLister {
		i := custom.ForResource(r)
		some = append(some, i.Informer())
		return i.Lister()
	}
	if len(op.GraphAPIs) > 0 {
		op.graphs = dynamically(graphs(stored(op.GraphAPIs))) // which are read without their webhook
	}
	if op.KAI {
		op.queues = dynamically(queues)
	}
	if op.Gateway {
		op.routes, op.pools = dynamically(routes), dynamically(pools)
	}
	for _, i := range some {
		if err := follow(i); err != nil {
			return err
		}
	}
	ofPods := known.Core().V1().Pods().Informer()
	if op.KAI { // what Grove makes are pods
		if err := follow(ofPods); err != nil {
			return err
		}
	}
	known.Core().V1().Nodes().Informer()
	known.Start(ctx.Done())
	custom.Start(ctx.Done())
	for kind, ok := range known.WaitForCacheSync(within.Done()) {
		if !ok {
			return fmt.Errorf("the API server did not list %s", kind)
		}
	}
	for kind, ok := range custom.WaitForCacheSync(within.Done()) {
		if !ok {
			return fmt.Errorf("the API server did not list %s", kind)
		}
	}
	return nil
}

// pause waits; false: ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look has everything looked at again.
func (op *operator) look() {
	select {
	case op.wake <- struct{}{}:
	default:
	}
}

// lookAgain is how long nothing may happen before everything is looked at all the same.
const lookAgain = 5 * time.Second

// work looks at everything whenever something has changed, in one place and one after
// the other: a sandbox is small.
func (op *operator) work(ctx context.Context) {
	for {
		if err := op.lookAtAll(ctx); err != nil && ctx.Err() == nil {
			op.Logf("operator: %v", err)
			time.AfterFunc(time.Second, op.look)
		}
		select {
		case <-ctx.Done():
			return
		case <-op.wake:
		case <-time.After(lookAgain):
		}
	}
}
