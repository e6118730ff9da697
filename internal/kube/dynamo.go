package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/internal/spec"
)

// graphVersions are the versions of a DynamoGraphDeployment that can be read, the best
// first.
var graphVersions = []string{"v1beta1", "v1alpha1"}

// dynamoCRDFacts says in which versions each of Dynamo's kinds is served.
func (r *readings) dynamoCRDFacts() spec.Subtype {
	f := newFacts("dynamo-crds")
	if !r.groups.ok() {
		f.unknown(*r.groups.why, graphDeployments)
		return f.done()
	}
	versions := map[string][]string{}
	for _, v := range r.groups.got[groupNVIDIA] {
		found := r.resources[groupNVIDIA+"/"+v]
		if !found.ok() {
			f.unknown(*found.why, graphDeployments)
			return f.done()
		}
		for _, plural := range found.got {
			if strings.HasPrefix(plural, "dynamo") {
				versions[plural] = append(versions[plural], v)
			}
		}
	}
	for plural, all := range versions {
		slices.Sort(all)
		f.set(plural, strings.Join(all, ","))
	}
	if versions[graphDeployments] == nil {
		f.unknown(absent("the cluster serves no %s.%s", graphDeployments, groupNVIDIA), graphDeployments)
	}
	return f.done()
}

// runtimeImage is the image of one component of a graph deployment.
type runtimeImage struct{ namespace, deployment, component, image string }

// graphFields are the fields that name images, in either version.
type graphFields struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Components []struct { // v1beta1
			Name        string `json:"name"`
			PodTemplate struct {
				Spec struct {
					Containers []struct {
						Name  string `json:"name"`
						Image string `json:"image"`
					} `json:"containers"`
				} `json:"spec"`
			} `json:"podTemplate"`
		} `json:"components"`
		Services map[string]struct { // v1alpha1
			ExtraPodSpec struct {
				MainContainer struct {
					Image string `json:"image"`
				} `json:"mainContainer"`
			} `json:"extraPodSpec"`
		} `json:"services"`
	} `json:"spec"`
}

func imagesOf(graph *graphFields) []runtimeImage {
	var all []runtimeImage
	add := func(component, image string) {
		all = append(all, runtimeImage{graph.Namespace, graph.Name, component, image})
	}
	for _, c := range graph.Spec.Components {
		image := ""
		for _, container := range c.PodTemplate.Spec.Containers {
			if container.Name == "main" {
				image = container.Image
			}
		}
		add(c.Name, image)
	}
	for _, name := range slices.Sorted(maps.Keys(graph.Spec.Services)) {
		add(name, graph.Spec.Services[name].ExtraPodSpec.MainContainer.Image)
	}
	return all
}

// readGraphs reads what the graph deployments run. The version that is not the stored one
// is read through the operator's webhook: where that is dead, the other one may do.
func (c *Cluster) readGraphs(ctx context.Context, each time.Duration, r *readings) reading[[]runtimeImage] {
	served := r.served(groupNVIDIA, graphDeployments, graphVersions...)
	if !served.ok() {
		return failed[[]runtimeImage](*served.why)
	}
	var first *spec.Unknown
	for _, version := range served.got {
		images := listed(ctx, c, each, pathOf(version), imagesOf)
		if images.ok() {
			return images
		}
		first = cmp.Or(first, images.why)
		if images.why.Reason == spec.ReasonForbidden {
			break
		}
	}
	return failed[[]runtimeImage](*first)
}

// runtimeFacts says which version of Dynamo's runtime is deployed.
func (r *readings) runtimeFacts() spec.Subtype {
	f := newFacts("dynamo-runtime")
	switch {
	case !r.graphs.ok() && r.graphs.why.Reason == spec.ReasonAbsent:
		f.set("count", 0)
		f.unknown(*r.graphs.why, "version")
		return f.done()
	case !r.graphs.ok():
		f.unknown(*r.graphs.why, "count", "version")
		return f.done()
	}
	f.set("count", len(r.graphs.got))
	count, silent := map[string]int{}, ""
	for _, g := range r.graphs.got {
		data := map[string]any{}
		if v := imageVersion(g.image); v != "" {
			data["version"] = v
			count[v]++
		} else {
			silent = cmp.Or(silent, g.namespace+"/"+g.deployment+" "+g.component+": "+cmp.Or(g.image, "no image")+" says no version")
		}
		f.item(map[string]string{"namespace": g.namespace, "deployment": g.deployment, "component": g.component, "image": g.image}, data)
	}
	values := slices.Sorted(maps.Keys(count))
	switch {
	case len(r.graphs.got) == 0:
		f.unknown(absent("no graph deployment is there"), "version")
	case len(values) > 1:
		f.unknown(spec.Unknown{Reason: spec.ReasonMixed, Detail: someOf(values, count)}, "version")
	case silent != "":
		f.unknown(unreadable("%s", silent), "version")
	default:
		f.set("version", values[0])
	}
	return f.done()
}
