package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/spec"
)

// Options is how a snapshot is taken.
type Options struct {
	Timeout          time.Duration // of all of it
	RequestTimeout   time.Duration // of each request
	MaxNodesPerEntry int           // nodes that a label or taint names; 0 is all
	Now              time.Time
	Version          string // of the program
}

// The groups and resources that are not Kubernetes' own or come in several versions.
const (
	groupDRA    = "resource.k8s.io"
	groupNVIDIA = "nvidia.com"
	groupKAI    = "scheduling.run.ai"
	groupGrove  = "grove.io"

	resourceSlices   = "resourceslices"
	deviceClasses    = "deviceclasses"
	graphDeployments = "dynamographdeployments"
	clusterPolicies  = "clusterpolicies"
)

// UnreachableError says that the cluster itself could not be asked.
type UnreachableError struct {
	Server string
	Reason spec.Unknown
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: %s", e.Server, e.Reason.Detail)
}

// Collect takes a snapshot. What could not be read is in it as unknown, with the
// reason; the error is for a cluster that could not be asked at all.
func Collect(ctx context.Context, c *Cluster, o Options) (*spec.Snapshot, error) {
	whole, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	r := &readings{}
	if err := c.knock(whole, o.RequestTimeout, r); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	c.read(whole, o.RequestTimeout, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := r.snapshot(o)
	s.Metadata["context"] = c.Context
	return s, nil
}

// readings are all that was asked for.
type readings struct {
	server      reading[serverVersion]
	groups      reading[map[string][]string] // versions that a group is served in, as the server prefers them
	resources   map[string]reading[[]string] // plurals of a group and version of groupNVIDIA and groupDRA
	nodes       reading[[]node]
	draVersion  reading[string]
	slices      reading[[]slice]
	classes     reading[[]deviceClass]
	deployments reading[[]workload]
	daemonsets  reading[[]workload]
	graphs      reading[[]runtimeImage]
	policies    reading[[]string]
	storage     reading[[]storageClass]
}

type serverVersion struct{ version, platform string }

// knock asks for the version. A server that does not say even that, for any reason but
// that it may not, cannot be asked anything else.
func (c *Cluster) knock(ctx context.Context, each time.Duration, r *readings) error {
	asked, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var v struct{ GitVersion, Platform string }
	err := c.get(asked, "/version", metav1.ListOptions{}, &v)
	if err == nil {
		r.server = reading[serverVersion]{got: serverVersion{v.GitVersion, v.Platform}}
		return nil
	}
	why := c.why(err)
	plugin, noCredentials := errors.AsType[*PluginError](err)
	switch {
	case noCredentials:
		why.Detail = plugin.Error()
	case apierrors.IsUnauthorized(err):
		return &UnreachableError{c.Server, spec.Unknown{Reason: spec.ReasonForbidden, Detail: "the cluster does not accept the credentials: " + why.Detail}}
	case why.Reason == spec.ReasonForbidden:
		r.server = failed[serverVersion](why)
		return nil
	case why.Reason == spec.ReasonTimedOut:
		why.Detail = fmt.Sprintf("no answer in %s", each)
	}
	return &UnreachableError{c.Server, why}
}

// atOnce bounds the requests that are under way, so that a snapshot does not weigh on a
// busy API server.
const atOnce = 4

// read asks for everything else. Each reading fails alone.
func (c *Cluster) read(ctx context.Context, each time.Duration, r *readings) {
	c.discover(ctx, each, r)
	var group sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, job := range []func(){
		func() { r.nodes = c.readNodes(ctx, each) },
		func() { r.draVersion, r.slices = c.readSlices(ctx, each, r) },
		func() { r.classes = c.readClasses(ctx, each, r) },
		func() { r.deployments = c.readDeployments(ctx, each) },
		func() { r.daemonsets = c.readDaemonSets(ctx, each) },
		func() { r.graphs = c.readGraphs(ctx, each, r) },
		func() { r.policies = c.readPolicies(ctx, each, r) },
		func() { r.storage = c.readStorage(ctx, each) },
	} {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			job()
		})
	}
	group.Wait()
}

// discover finds which APIs are served. That needs no rights of its own, is small where
// the definitions are megabytes, and is what a client can really use.
func (c *Cluster) discover(ctx context.Context, each time.Duration, r *readings) {
	asked, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var list metav1.APIGroupList
	if err := c.get(asked, "/apis", metav1.ListOptions{}, &list); err != nil {
		r.groups = failed[map[string][]string](c.why(err))
		return
	}
	if list.Groups == nil {
		r.groups = failed[map[string][]string](unreadable("the server's list of APIs is none"))
		return
	}
	r.groups.got = map[string][]string{}
	r.resources = map[string]reading[[]string]{}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			r.groups.got[g.Name] = append(r.groups.got[g.Name], v.Version)
			if g.Name == groupDRA || g.Name == groupNVIDIA {
				r.resources[v.GroupVersion] = c.plurals(ctx, each, v.GroupVersion)
			}
		}
	}
}

func (c *Cluster) plurals(ctx context.Context, each time.Duration, groupVersion string) reading[[]string] {
	asked, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var list metav1.APIResourceList
	if err := c.get(asked, "/apis/"+groupVersion, metav1.ListOptions{}, &list); err != nil {
		return failed[[]string](c.why(err))
	}
	if list.APIResources == nil {
		return failed[[]string](unreadable("the server's list of what %s has is none", groupVersion))
	}
	var names []string
	for _, one := range list.APIResources {
		if !strings.Contains(one.Name, "/") {
			names = append(names, one.Name)
		}
	}
	return reading[[]string]{got: names}
}

// served is the versions, of those wanted and in their order, in which a resource can be
// read; without any wanted, all of them.
func (r *readings) served(group, plural string, wanted ...string) reading[[]schema.GroupVersionResource] {
	if !r.groups.ok() {
		return failed[[]schema.GroupVersionResource](*r.groups.why)
	}
	if len(wanted) == 0 {
		wanted = r.groups.got[group]
	}
	var all []schema.GroupVersionResource
	for _, version := range wanted {
		if !slices.Contains(r.groups.got[group], version) {
			continue
		}
		found := r.resources[group+"/"+version]
		if !found.ok() {
			return failed[[]schema.GroupVersionResource](*found.why)
		}
		if slices.Contains(found.got, plural) {
			all = append(all, schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
		}
	}
	if len(all) == 0 {
		return failed[[]schema.GroupVersionResource](absent("the cluster serves no %s.%s", plural, group))
	}
	return reading[[]schema.GroupVersionResource]{got: all}
}

func (c *Cluster) readNodes(ctx context.Context, each time.Duration) reading[[]node] {
	return listed(ctx, c, each, "/api/v1/nodes", one(nodeOf))
}

func (c *Cluster) readDeployments(ctx context.Context, each time.Duration) reading[[]workload] {
	return listed(ctx, c, each, "/apis/apps/v1/deployments", func(d *appsv1.Deployment) []workload {
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		ready := d.Status.ObservedGeneration >= d.Generation && want > 0 && d.Status.AvailableReplicas >= want
		return ifKnown(d.ObjectMeta, d.Spec.Template.Spec, ready)
	})
}

func (c *Cluster) readDaemonSets(ctx context.Context, each time.Duration) reading[[]workload] {
	return listed(ctx, c, each, "/apis/apps/v1/daemonsets", func(d *appsv1.DaemonSet) []workload {
		want := d.Status.DesiredNumberScheduled
		return ifKnown(d.ObjectMeta, d.Spec.Template.Spec, d.Status.ObservedGeneration >= d.Generation && want > 0 && d.Status.NumberReady >= want)
	})
}

func (c *Cluster) readStorage(ctx context.Context, each time.Duration) reading[[]storageClass] {
	return listed(ctx, c, each, "/apis/storage.k8s.io/v1/storageclasses", one(func(s *storageClassFields) storageClass {
		return storageClass{s.Name, s.Provisioner, s.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"}
	}))
}

type storageClassFields struct {
	metav1.ObjectMeta `json:"metadata"`
	Provisioner       string `json:"provisioner"`
}

// snapshot makes the document of what was read. It asks nothing and knows no clock.
func (r *readings) snapshot(o Options) *spec.Snapshot {
	gpus := r.gpuNodes()
	s := &spec.Snapshot{
		APIVersion: spec.SnapshotVersion, Kind: spec.SnapshotKind,
		Metadata: map[string]string{"timestamp": o.Now.UTC().Format(time.RFC3339), "version": o.Version},
		Measurements: []spec.Measurement{
			{Type: spec.TypeK8s, Subtypes: []spec.Subtype{
				r.serverFacts(),
				r.nodeFacts(gpus),
				r.gpuOperatorFacts(),
				r.dynamoFacts(),
				r.dynamoCRDFacts(),
				r.runtimeFacts(),
				r.componentFacts(kai),
				r.componentFacts(grove),
				r.componentFacts(dcgm),
				r.draFacts(),
				r.classFacts(),
				r.storageFacts(),
			}},
			{Type: spec.TypeGPU, Subtypes: []spec.Subtype{r.hardwareFacts(gpus)}},
			{Type: spec.TypeOS, Subtypes: []spec.Subtype{r.releaseFacts(gpus), r.sysctlFacts(gpus)}},
			{Type: spec.TypeNodeTopology, Subtypes: r.topologyFacts(gpus, o.MaxNodesPerEntry)},
		},
	}
	fingerprint := spec.FingerprintOf(s)
	s.Fingerprint = &fingerprint
	return s
}

// facts is a subtype while it is written. Every key that it announces ends as a value or
// as unknown.
type facts struct{ spec.Subtype }

func newFacts(name string) *facts {
	return &facts{spec.Subtype{Name: name, Data: map[string]spec.Scalar{}, Unknown: map[string]spec.Unknown{}}}
}

func (f *facts) set(key string, value any) { f.Data[key] = spec.NewScalar(value) }

func (f *facts) unknown(why spec.Unknown, keys ...string) {
	for _, key := range keys {
		f.Unknown[key] = why
	}
}

// text sets a word that may be missing.
func (f *facts) text(key, value, whose string) {
	if value == "" {
		f.unknown(absent("%s does not tell", whose), key)
		return
	}
	f.set(key, value)
}

func (f *facts) item(context map[string]string, data map[string]any) {
	one := spec.FactItem{Context: map[string]string{}, Data: map[string]spec.Scalar{}}
	for k, v := range context {
		if v != "" {
			one.Context[k] = v
		}
	}
	for k, v := range data {
		one.Data[k] = spec.NewScalar(v)
	}
	f.Items = append(f.Items, one)
}

func (f *facts) done() spec.Subtype {
	if len(f.Unknown) == 0 {
		f.Unknown = nil
	}
	if len(f.Data) == 0 {
		f.Data = nil
	}
	return f.Subtype
}

func (r *readings) serverFacts() spec.Subtype {
	f := newFacts("server")
	if !r.server.ok() {
		f.unknown(*r.server.why, "version", "platform")
		return f.done()
	}
	f.text("version", r.server.got.version, "the server")
	f.text("platform", r.server.got.platform, "the server")
	return f.done()
}

type storageClass struct {
	name, provisioner string
	isDefault         bool
}

func (r *readings) storageFacts() spec.Subtype {
	f := newFacts("storage-classes")
	if !r.storage.ok() {
		f.unknown(*r.storage.why, "count", "default")
		return f.done()
	}
	f.set("count", len(r.storage.got))
	var defaults []string
	for _, s := range r.storage.got {
		f.item(map[string]string{"name": s.name, "provisioner": s.provisioner}, map[string]any{"default": s.isDefault})
		if s.isDefault {
			defaults = append(defaults, s.name)
		}
	}
	switch len(defaults) {
	case 0:
		f.unknown(absent("no storage class is the default"), "default")
	case 1:
		f.set("default", defaults[0])
	default:
		f.unknown(spec.Unknown{Reason: spec.ReasonMixed, Detail: "several are the default: " + strings.Join(defaults, ", ")}, "default")
	}
	return f.done()
}
