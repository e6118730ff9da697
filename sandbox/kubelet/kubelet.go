package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"aicr/sandbox/config"
	"aicr/sandbox/pki"
)

// Options are what the nodes of a sandbox need.
type Options struct {
	Client    *rest.Config // of an administrator
	Authority *pki.Authority
	Nodes     []config.Node
	Dir       string // everything is kept below: nodes/ and volumes/
	Shim      string // the program sandbox-pod
	Images    []Image
	Default   bool // the StorageClass is the cluster's default
	Quick     bool // probes are shortened: see quickened

	// Logf is told what nobody else would hear of; nil: nobody is.
	Logf func(format string, values ...any)
}

// Start registers the nodes, waits until pods can be scheduled to them, and runs pods
// until stop is called, which ends them all and returns when they have ended. The nodes
// outlive absences of the API server.
func Start(ctx context.Context, o Options) (stop func(), err error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Shim, err = filepath.Abs(o.Shim); err != nil {
		return nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.Shim); err != nil {
		return nil, fmt.Errorf("the program of the pods: %w", err)
	}
	for _, folder := range []string{"nodes", "volumes"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	for i, spec := range o.Nodes {
		n, err := c.newNode(i, spec)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("node %s: %w", spec.Name, err)
		}
		c.byName[spec.Name] = n
	}
	c.watch()
	c.informers.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.starter.run(ctx) })
	running.Go(func() { c.provision(ctx) })
	stop = func() {
		var ending sync.WaitGroup
		for _, n := range c.byName {
			ending.Go(n.stopPods)
		}
		ending.Wait()
		cancel()
		running.Wait()
		c.events.Shutdown()
	}
	if err := c.begin(ctx, &running); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// cluster is what all nodes share.
type cluster struct {
	Options
	api       kubernetes.Interface
	informers informers.SharedInformerFactory
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	configs   corelisters.ConfigMapLister
	secrets   corelisters.SecretLister
	services  corelisters.ServiceLister
	claims    corelisters.PersistentVolumeClaimLister
	volumes   corelisters.PersistentVolumeLister
	devices   resourcelisters.ResourceClaimLister
	events    record.EventBroadcaster
	starter   *starter
	byName    map[string]*node
}

func newCluster(o Options) (*cluster, error) {
	config := rest.CopyConfig(o.Client)
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "kubelet"
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactory(api, 0)
	c := &cluster{
		Options: o, api: api, informers: f,
		pods: f.Core().V1().Pods().Lister(), nodes: f.Core().V1().Nodes().Lister(), configs: f.Core().V1().ConfigMaps().Lister(),
		secrets: f.Core().V1().Secrets().Lister(), services: f.Core().V1().Services().Lister(),
		claims: f.Core().V1().PersistentVolumeClaims().Lister(), volumes: f.Core().V1().PersistentVolumes().Lister(),
		devices: f.Resource().V1().ResourceClaims().Lister(),
		events:  record.NewBroadcaster(), starter: newStarter(), byName: map[string]*node{},
	}
	c.events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: api.CoreV1().Events("")})
	return c, nil
}

func (c *cluster) recorder(component, host string) record.EventRecorder {
	return c.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: component, Host: host})
}

// watch tells the nodes about their pods, and pods about what their volumes show.
func (c *cluster) watch() {
	pods := c.informers.Core().V1().Pods().Informer()
	must(pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.podIs(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { c.podIs(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if pod, ok := o.(*v1.Pod); ok {
				if n := c.byName[pod.Spec.NodeName]; n != nil {
					n.podGone(pod.UID)
				}
			}
		},
	}))
	is := func(o any) {
		if object, ok := o.(interface{ GetNamespace() string }); ok {
			for _, n := range c.byName {
				n.refresh(object.GetNamespace())
			}
		}
	}
	// One that a pod shows already may be new here: a pod's volumes are read past the
	// informer, which may hear of an object only after it was changed.
	changed := cache.ResourceEventHandlerFuncs{AddFunc: is, UpdateFunc: func(_, o any) { is(o) }}
	must(c.informers.Core().V1().ConfigMaps().Informer().AddEventHandler(changed))
	must(c.informers.Core().V1().Secrets().Informer().AddEventHandler(changed))
}

// must is for handlers, which are refused only by an informer that has been stopped.
func must(_ cache.ResourceEventHandlerRegistration, err error) {
	if err != nil {
		panic(err)
	}
}

func (c *cluster) podIs(pod *v1.Pod) {
	if n := c.byName[pod.Spec.NodeName]; n != nil {
		n.podIs(pod)
	}
}

// The scheduler wants some time to see that a node is ready, and a busy machine more.
const readyWithin = 3 * time.Minute

// begin registers everything and waits until the nodes are ready, and their devices known.
func (c *cluster) begin(ctx context.Context, running *sync.WaitGroup) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for kind, synced := range c.informers.WaitForCacheSync(within.Done()) {
		if !synced {
			return fmt.Errorf("the API server did not list %s", kind)
		}
	}
	if err := c.classes(within); err != nil {
		return err
	}
	for _, n := range c.byName {
		if err := n.serve(ctx); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		running.Go(func() { n.heartbeat(ctx) })
		running.Go(func() { n.keepTokens(ctx) })
	}
	for {
		ready := 0
		for _, n := range c.byName {
			if here, err := c.nodes.Get(n.Name); err == nil && isReady(here) && !tainted(here) && n.published.Load() {
				ready++
			}
		}
		if ready == len(c.byName) {
			return nil
		}
		select {
		case <-within.Done():
			return errors.New("the nodes did not become ready")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func isReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func tainted(n *v1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable {
			return true
		}
	}
	return false
}

// podKey is how a node knows a pod: one of the same name is another pod.
type podKey = types.UID
