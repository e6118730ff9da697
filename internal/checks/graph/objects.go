package graph

import (
	"fmt"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// The parts that a run is made of, as LabelPart has them.
const (
	PartKept  = "kept"  // what the run is known by: made first, and deleted last
	PartModel = "model" // the cache of the model, and what fills it
	PartGraph = "graph" // what serves
	PartLoad  = "load"  // what loads
	PartTrial = "trial" // whether the load's image can be had and run
)

// Step is one object that a run makes.
type Step struct {
	Resource kube.Resource
	Object   kube.Object
	Part     string
	Why      string
	Image    string // that is pulled for it; "": none
}

// The resources that a run makes objects of. Those in more than one version are functions
// of what the cluster serves.
func resourceOf(group, version, name string) kube.Resource {
	return kube.Resource{Group: group, Version: version, Name: name}
}

// Objects are all that a run makes, in the order in which it does. The Secret among them
// has no token (see WithToken), and the ConfigMap that the run is kept in has no data:
// who makes it fills it.
func Objects(s *Settings) []Step {
	var all []Step
	add := func(when bool, part string, r kube.Resource, make func(*Settings) kube.Object, image, why string) {
		if when {
			all = append(all, Step{Resource: r, Object: make(s), Part: part, Why: why, Image: image})
		}
	}
	own := s.Engine != EngineAIPerf
	account := own && !s.Prepared
	core := func(name string) kube.Resource { return resourceOf("", "v1", name) }
	rbac := func(name string) kube.Resource { return resourceOf("rbac.authorization.k8s.io", "v1", name) }
	jobs := resourceOf("batch", "v1", "jobs")

	add(!s.Namespaced, PartKept, core("namespaces"), validationManifest, "", "made where there is none, and kept: 'aicr clean --namespace-too' removes it")
	add(true, PartKept, resLeases, leaseManifest, "", "reserves the node, so that no other run goes to it")
	add(true, PartKept, core("configmaps"), keptManifest, "", "the run as far as it has got, so that it can be attached to")

	add(!s.Namespaced, PartGraph, core("namespaces"), namespaceManifest, "", "everything that serves is in it, and goes with it")
	image, whose := s.Images.Load, "this program's"
	if !own {
		image, whose = s.Images.AIPerf, "AIPerf's"
	}
	add(true, PartTrial, jobs, trialManifest, image, "runs "+whose+" image once: whether the load can begin is known before the model is loaded")
	add(s.Token, PartModel, core("secrets"), secretManifest, "", "HF_TOKEN is set: the model is fetched with it")
	if s.Cache != nil {
		class := "the cluster's own storage class"
		if s.Cache.Class != "" {
			class = "storage class " + s.Cache.Class
		}
		add(true, PartModel, core("persistentvolumeclaims"), volumeManifest, "", s.Cache.Size+" of "+class+", so that the model is fetched once")
		add(true, PartModel, jobs, populateManifest, s.Images.Runtime, "fetches the model into it")
	}
	add(s.GPUs == ByClaim, PartGraph, resourceOf(groupDRA, s.DRA, "resourceclaimtemplates"), claimManifest, "", "one GPU of class "+deviceClass+" a worker")
	add(s.Queue && !s.Namespaced, PartGraph, resourceOf(groupKAI, "v2", "queues"), queueManifest, "", "KAI schedules here, and takes no pod without a queue")
	add(true, PartGraph, resourceOf(groupGraph, s.Graph, "dynamographdeployments"), graphManifest, s.Images.Runtime, graphWhy(s))
	add(s.Gateway, PartGraph, resourceOf(groupGateway, "v1", "httproutes"), routeManifest, "", "the gateway's way to the workers, since the recipe routes by gateway-epp")

	add(account, PartLoad, core("serviceaccounts"), accountManifest, "", "who the load is")
	add(account, PartLoad, rbac("roles"), roleManifest, "", "lets the load write its result, and nothing else")
	add(account, PartLoad, rbac("rolebindings"), roleBindingManifest, "", "gives it to the load")
	add(account, PartLoad, rbac("clusterroles"), clusterRoleManifest, "", "lets the load read the pressure on the one node")
	add(account, PartLoad, rbac("clusterrolebindings"), clusterRoleBindingManifest, "", "gives it to the load")
	add(own, PartLoad, jobs, loadManifest, s.Images.Load, "loads what serves, and is deleted")
	add(!own, PartLoad, jobs, aiperfManifest, s.Images.AIPerf, "loads what serves with AIPerf, and is deleted")
	return all
}

func graphWhy(s *Settings) string {
	first := "a frontend"
	if s.Gateway {
		first = "an endpoint picker"
	}
	workers := "a worker a free GPU of one node"
	switch {
	case s.Workers == 1:
		workers = "1 worker on one node"
	case s.Workers > 1:
		workers = fmt.Sprintf("%d workers on one node", s.Workers)
	}
	how := "every worker asks for one GPU of the device plugin"
	if s.GPUs == ByClaim {
		how = "every worker claims one GPU"
	}
	return first + " and " + workers + "; " + how
}

// Planned are Objects as a plan lists them, with what others make of them.
func Planned(s *Settings) []spec.PlannedObject {
	var all []spec.PlannedObject
	for _, t := range Objects(s) {
		all = append(all, spec.PlannedObject{Kind: t.Object.Text("kind"), Name: t.Object.Name(), Namespace: t.Object.Namespace(), Image: t.Image, Why: t.Why})
		if t.Resource.Name == "dynamographdeployments" && s.Gateway {
			all = append(all, spec.PlannedObject{Kind: "InferencePool", Name: t.Object.Name() + "-pool", Namespace: t.Object.Namespace(),
				Image: s.Images.EndpointPicker, Why: "made of the graph by Dynamo's operator, with the endpoint picker"})
		}
	}
	return all
}
