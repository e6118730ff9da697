package kube

import (
	"cmp"
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/internal/spec"
)

// component is something that is installed on a cluster, and what it is known by: the
// name that its workload has or says, or the image that it runs. Mirrors and forks keep
// one of them.
type component struct {
	subtype string
	names   []string // of the workload, app.kubernetes.io/name, or app
	images  []string // last part of the image's repository; with a slash, a part of its path
	group   string   // of the API that comes with it; without it, it is not installed
	daemon  bool
}

var (
	gpuOperator    = component{subtype: "gpu-operator", names: []string{"gpu-operator"}, images: []string{"gpu-operator"}}
	dynamoOperator = component{subtype: "dynamo-platform", names: []string{"dynamo-operator"}, images: []string{"kubernetes-operator", "dynamo-operator"}}
	kai            = component{subtype: "kai-scheduler", names: []string{"kai-operator", "kai-scheduler", "kai-scheduler-default"}, images: []string{"kai-scheduler/"}, group: groupKAI}
	grove          = component{subtype: "grove", names: []string{"grove-operator"}, images: []string{"grove-operator"}, group: groupGrove}
	dcgm           = component{subtype: "dcgm-exporter", names: []string{"dcgm-exporter", "nvidia-dcgm-exporter"}, images: []string{"dcgm-exporter"}, daemon: true}
)

var components = []component{gpuOperator, dynamoOperator, kai, grove, dcgm}

// workload is a Deployment or DaemonSet of a component.
type workload struct {
	component       string
	name, namespace string
	version         string // of the image that runs, else as its label says
	chart           string // the chart's version, or ""
	image           string
	ready           bool
}

// ifKnown is the workload, if it is one of a component.
func ifKnown(meta metav1.ObjectMeta, pod corev1.PodSpec, ready bool) []workload {
	for _, c := range components {
		image, ok := c.is(meta, pod)
		if !ok {
			continue
		}
		w := workload{component: c.subtype, name: meta.Name, namespace: meta.Namespace, image: image, ready: ready}
		w.version = cmp.Or(imageVersion(image), meta.Labels["app.kubernetes.io/version"])
		if _, version, ok := chartOf(meta.Labels["helm.sh/chart"]); ok {
			w.chart = version
			w.version = cmp.Or(w.version, version)
		}
		return []workload{w}
	}
	return nil
}

// is says whether a workload is of the component, and which image is.
func (c component) is(meta metav1.ObjectMeta, pod corev1.PodSpec) (image string, ok bool) {
	for _, container := range pod.Containers {
		repository, _ := splitImage(container.Image)
		for _, known := range c.images {
			if path.Base(repository) == known || strings.HasSuffix(known, "/") && strings.Contains("/"+repository, "/"+known) {
				return container.Image, true
			}
		}
	}
	for _, name := range []string{meta.Name, meta.Labels["app.kubernetes.io/name"], meta.Labels["app"]} {
		if slices.Contains(c.names, name) {
			if len(pod.Containers) > 0 {
				image = pod.Containers[0].Image
			}
			return image, true
		}
	}
	return "", false
}

// chartVersion is where a chart's name ends and its version begins.
var chartVersion = regexp.MustCompile(`^(.+)-(v?\d+\.\d+.*)$`)

// chartOf reads the label helm.sh/chart, in which a + of the version is written _.
func chartOf(label string) (name, version string, ok bool) {
	m := chartVersion.FindStringSubmatch(label)
	if m == nil {
		return "", "", false
	}
	return m[1], strings.ReplaceAll(m[2], "_", "+"), true
}

// splitImage takes a reference apart. A digest says no version.
func splitImage(image string) (repository, tag string) {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndexByte(image, '/')
	if colon := strings.LastIndexByte(image, ':'); colon > slash {
		return image[:colon], image[colon+1:]
	}
	return image, ""
}

func imageVersion(image string) string {
	_, tag := splitImage(image)
	return spec.TagVersion(tag)
}

// found are a component's workloads, or why they are not known.
func (r *readings) found(c component) reading[[]workload] {
	where := r.deployments
	if c.daemon {
		where = r.daemonsets
	}
	if !where.ok() {
		// What comes with an API of its own is not there when that is not.
		if c.group != "" && r.groups.ok() && r.groups.got[c.group] == nil {
			return reading[[]workload]{}
		}
		return where
	}
	some := slices.DeleteFunc(slices.Clone(where.got), func(w workload) bool { return w.component != c.subtype })
	return reading[[]workload]{got: some}
}

// component writes what every component has: installed, its versions, namespace, ready.
func (r *readings) component(c component, versions map[string]func(workload) string) *facts {
	f := newFacts(c.subtype)
	keys := append(slices.Sorted(maps.Keys(versions)), "namespace", "ready")
	found := r.found(c)
	switch {
	case !found.ok():
		f.unknown(*found.why, append(keys, "installed")...)
		return f
	case len(found.got) == 0:
		f.set("installed", false)
		f.unknown(absent("%s is not installed", c.subtype), keys...)
		return f
	}
	f.set("installed", true)
	ready := true
	for _, w := range found.got {
		ready = ready && w.ready
	}
	f.set("ready", ready)
	for key, version := range versions {
		f.same(key, found.got, version)
	}
	f.same("namespace", found.got, func(w workload) string { return w.namespace })
	return f
}

// same sets what all workloads that say it agree on.
func (f *facts) same(key string, all []workload, value func(workload) string) {
	count := map[string]int{}
	for _, w := range all {
		if v := value(w); v != "" {
			count[v]++
		}
	}
	values := slices.Sorted(maps.Keys(count))
	switch len(values) {
	case 0:
		f.unknown(unreadable("%s/%s has no %s in its labels or image", all[0].namespace, all[0].name, key), key)
	case 1:
		f.set(key, values[0])
	default:
		f.unknown(spec.Unknown{Reason: spec.ReasonMixed, Detail: someOf(values, count)}, key)
	}
}

func version(w workload) string { return w.version }
func chart(w workload) string   { return w.chart }

func (r *readings) componentFacts(c component) spec.Subtype {
	return r.component(c, map[string]func(workload) string{"version": version}).done()
}

func (r *readings) dynamoFacts() spec.Subtype {
	return r.component(dynamoOperator, map[string]func(workload) string{"operator": version, "chart": chart}).done()
}

// gpuOperatorFacts knows of the operator what its own policy says too: the operator can
// be well while what it installs is not.
func (r *readings) gpuOperatorFacts() spec.Subtype {
	f := r.component(gpuOperator, map[string]func(workload) string{"version": version, "chart": chart})
	ready, known := f.Data["ready"].Bool()
	switch {
	case !known || !ready:
	case r.policies.ok():
		f.set("ready", !slices.ContainsFunc(r.policies.got, func(state string) bool { return state != "ready" }))
	case r.policies.why.Reason != spec.ReasonAbsent:
		delete(f.Data, "ready")
		f.unknown(*r.policies.why, "ready")
	}
	return f.done()
}

// readPolicies reads the state of each ClusterPolicy.
func (c *Cluster) readPolicies(ctx context.Context, each time.Duration, r *readings) reading[[]string] {
	served := r.served(groupNVIDIA, clusterPolicies)
	if !served.ok() {
		return failed[[]string](*served.why)
	}
	type policy struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	return listed(ctx, c, each, pathOf(served.got[0]), one(func(p *policy) string { return p.Status.State }))
}

// IsDynamoOperator says that a Deployment is Dynamo's operator, by what it is known by.
func IsDynamoOperator(d Object) bool { return dynamoOperator.isDeployment(d) }

// IsGroveOperator says the same of Grove's.
func IsGroveOperator(d Object) bool { return grove.isDeployment(d) }

func (c component) isDeployment(d Object) bool {
	meta := metav1.ObjectMeta{Name: d.Name(), Labels: d.Labels()}
	var pod corev1.PodSpec
	for _, one := range d.List("spec", "template", "spec", "containers") {
		pod.Containers = append(pod.Containers, corev1.Container{Image: one.Text("image")})
	}
	_, is := c.is(meta, pod)
	return is
}
