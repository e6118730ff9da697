package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// wantsAll is a recipe that wants the check, and declares what it needs.
func wantsAll(change ...func(*spec.Recipe)) *spec.Recipe {
	r := &spec.Recipe{Kind: spec.RecipeResultKind, Components: []spec.Component{{Name: dynamoPlatform}},
		Phases: spec.RecipePhases{Performance: &spec.RecipePhase{Constraints: []spec.RecipeConstraint{{Name: spec.ConstraintThroughput, Value: ">= 50000"}}}}}
	for _, c := range change {
		c(r)
	}
	return r
}

// guardedCluster is what the guards may be told.
type guardedCluster struct {
	lists   map[string][]kube.Object
	refuses map[string]error // by the resource
	served  kube.Served
	missing func(kube.Right) bool
	broken  error // of reviews and discovery
}

func (c *guardedCluster) Read(_ context.Context, r kube.Resource, _, name string) (kube.Object, error) {
	if err := c.refuses[r.Name]; err != nil {
		return nil, err
	}
	for _, o := range c.lists[r.Name] {
		if o.Name() == name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: r.Group, Resource: r.Name}, name)
}

func (c *guardedCluster) List(_ context.Context, r kube.Resource, _, _ string) ([]kube.Object, error) {
	return c.lists[r.Name], c.refuses[r.Name]
}

func (c *guardedCluster) Served(context.Context, ...string) (kube.Served, error) {
	return c.served, c.broken
}

func (c *guardedCluster) Allowed(_ context.Context, rights []kube.Right) (missing []kube.Right, err error) {
	for _, r := range rights {
		if c.missing != nil && c.missing(r) {
			missing = append(missing, r)
		}
	}
	return missing, c.broken
}

func storageClass(name string, annotations fields) kube.Object {
	return kube.Object{"metadata": fields{"name": name, "annotations": annotations}}
}

// goodCluster is one that has nothing against a run.
func goodCluster() *guardedCluster {
	return &guardedCluster{lists: map[string][]kube.Object{"storageclasses": {storageClass("usual", fields{defaultClass: "true"}), storageClass("fast", nil)},
		"namespaces": {{"metadata": fields{"name": "aicr-validation"}}}}, refuses: map[string]error{}}
}

func goodInput() GuardInput {
	s := someSettings()
	return GuardInput{Recipe: wantsAll(), Settings: s, Offers: Offers{Graph: GraphBeta, DRA: "v1"},
		Node: kube.GPUNode{Name: s.Node, Devices: []kube.Device{{Pool: s.Node, Name: "gpu-0"}}}, Routers: []string{"least-loaded", "kv"}}
}

func quota(hard, used fields, spec fields) kube.Object {
	return kube.Object{"metadata": fields{"namespace": "aicr-validation", "name": "q"}, "spec": spec, "status": fields{"hard": hard, "used": used}}
}

func limits(item fields) kube.Object {
	return kube.Object{"metadata": fields{"namespace": "aicr-validation", "name": "l"}, "spec": fields{"limits": []any{item}}}
}

// operatorOf is Dynamo's, as its chart makes it.
func operatorOf(namespace string, ready int64) kube.Object {
	return kube.Object{"metadata": fields{"name": "dynamo-operator-controller-manager", "namespace": namespace},
		"spec":   fields{"replicas": int64(1), "template": fields{"spec": fields{"containers": []any{fields{"image": "registry.example/ai-dynamo/kubernetes-operator:9.9.9"}}}}},
		"status": fields{"readyReplicas": ready}}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
}

func TestGuards(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*GuardInput, *guardedCluster)
		state  spec.State
		want   []string // what each refusal has in it, in order; none: there is none
	}{
		"nothing is wrong": {func(*GuardInput, *guardedCluster) {}, "", nil},

		"A: nothing to hold against": {func(in *GuardInput, _ *guardedCluster) { in.Recipe.Phases.Performance.Constraints = nil }, spec.Skip, []string{"neither inference-throughput nor inference-ttft-p99"}},
		"A: a reference does": {func(in *GuardInput, _ *guardedCluster) {
			in.Recipe.Phases.Performance.Constraints, in.Recipe.Phases.Performance.Verdict.Reference = nil, &spec.RecipeReference{}
		}, "", nil},
		"A comes before B": {func(in *GuardInput, _ *guardedCluster) {
			in.Recipe.Phases.Performance.Constraints, in.Recipe.Components = nil, nil
		}, spec.Skip, []string{"neither inference-throughput"}},
		"B: not declared": {func(in *GuardInput, _ *guardedCluster) { in.Recipe.Components = nil }, spec.Skip, []string{"dynamo-platform is not among"}},
		"a skip is told alone": {func(in *GuardInput, c *guardedCluster) {
			in.Recipe.Components, in.Offers.Graph, c.lists = nil, "", nil
		}, spec.Skip, []string{"dynamo-platform is not among"}},
		"C: not installed":     {func(in *GuardInput, _ *guardedCluster) { in.Offers.Graph = "" }, spec.Fail, []string{"serves no dynamographdeployments.nvidia.com"}},
		"the old version does": {func(in *GuardInput, _ *guardedCluster) { in.Offers.Graph, in.Settings.Graph = GraphAlpha, GraphAlpha }, "", nil},
		"skew":                 {func(in *GuardInput, _ *guardedCluster) { in.Skew = "runtime and chart differ" }, spec.Fail, []string{"runtime and chart differ"}},
		"a tag without a release": {func(in *GuardInput, _ *guardedCluster) { in.Settings.Images.Runtime = "registry.example/runtime:mine" }, spec.Inconclusive,
			[]string{"says no version"}},
		"a tag without a release, for an old version": {func(in *GuardInput, _ *guardedCluster) {
			in.Settings.Images.Runtime, in.Offers.Graph, in.Settings.Graph = "registry.example/runtime:mine", GraphAlpha, GraphAlpha
		}, "", nil},
		"a release beside it": {func(in *GuardInput, _ *guardedCluster) {
			in.Settings.Images.Runtime, in.Settings.Images.Release = "registry.example/runtime:mine", "1.2.3"
		}, "", nil},
		"a router that the release lacks": {func(in *GuardInput, _ *guardedCluster) { in.Settings.Router = "power-of-two" }, spec.Inconclusive, []string{"no router mode power-of-two"}},
		"a release that nobody knows":     {func(in *GuardInput, _ *guardedCluster) { in.Routers, in.Settings.Router = nil, "power-of-two" }, "", nil},
		"claims wanted, a plugin there": {func(in *GuardInput, _ *guardedCluster) {
			in.Recipe.GPUPolicy, in.Node.Devices, in.Node.Plugin = spec.PolicyDRAClaim, nil, 8
		}, spec.Fail, []string{"claimed through DRA, and node gpu-0 offers none"}},
		"claims wanted, the pool is odd": {func(in *GuardInput, _ *guardedCluster) {
			in.Recipe.GPUPolicy, in.Node.Odd = spec.PolicyDRAClaim, "half a pool"
		}, spec.Fail, []string{"half a pool"}},
		"a plugin wanted, claims there":  {func(in *GuardInput, _ *guardedCluster) { in.Recipe.GPUPolicy = spec.PolicyDevicePlugin }, spec.Fail, []string{"device plugin, which offers none on node gpu-0"}},
		"a policy that is not done":      {func(in *GuardInput, _ *guardedCluster) { in.Recipe.GPUPolicy = spec.PolicyDRAExtended }, spec.Inconclusive, []string{"does not do"}},
		"claims without the API":         {func(in *GuardInput, _ *guardedCluster) { in.Offers.DRA = "" }, spec.Fail, []string{"resource.k8s.io in no version"}},
		"a plugin needs no API":          {func(in *GuardInput, _ *guardedCluster) { in.Offers.DRA, in.Settings.GPUs = "", ByDevicePlugin }, "", nil},
		"KAI without a queue at the top": {func(in *GuardInput, _ *guardedCluster) { in.Settings.Queue = true }, spec.Fail, []string{"no queue at the top"}},
		"KAI with a queue at the top":    {func(in *GuardInput, _ *guardedCluster) { in.Settings.Queue, in.Settings.Parent = true, "top" }, "", nil},
		"a gateway, and no Dynamo": {func(in *GuardInput, _ *guardedCluster) {
			in.Settings.Gateway, in.Offers.Gateway, in.Offers.Graph = true, true, ""
		}, spec.Fail, []string{"serves no dynamographdeployments"}},
		"a gateway that is not there": {func(in *GuardInput, _ *guardedCluster) { in.Settings.Gateway = true }, spec.Fail, []string{"HTTPRoute"}},
		"a gateway and an old Dynamo": {func(in *GuardInput, _ *guardedCluster) {
			in.Settings.Gateway, in.Offers = true, Offers{Graph: GraphAlpha, DRA: "v1", Gateway: true}
		}, spec.Fail, []string{"v1alpha1 alone"}},
		"a gateway does not use a router": {func(in *GuardInput, _ *guardedCluster) {
			in.Settings.Gateway, in.Offers.Gateway, in.Settings.Router = true, true, "x"
		}, "", nil},
		"a storage class that is not": {func(in *GuardInput, _ *guardedCluster) { in.Settings.Cache.Class = "quick" }, spec.Fail, []string{"no storage class quick"}},
		"a storage class that is":     {func(in *GuardInput, _ *guardedCluster) { in.Settings.Cache.Class = "fast" }, "", nil},
		"no storage class":            {func(_ *GuardInput, c *guardedCluster) { c.lists["storageclasses"] = nil }, spec.Fail, []string{"no storage class for"}},
		"no default storage class":    {func(_ *GuardInput, c *guardedCluster) { c.lists["storageclasses"] = c.lists["storageclasses"][1:] }, spec.Fail, []string{"none is named for the model cache: there are fast"}},
		"no default among several": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"] = []kube.Object{storageClass("slow", nil), storageClass("fast", nil)}
		}, spec.Fail, []string{"there are fast, slow"}},
		"one that is the default no more": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"] = append(c.lists["storageclasses"], storageClass("once", fields{defaultClass: "false"}))
		}, "", nil},
		"an old annotation does": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"] = []kube.Object{storageClass("old", fields{oldDefaultClass: "true"})}
		}, "", nil},
		"two default storage classes": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"] = append(c.lists["storageclasses"], storageClass("also", fields{defaultClass: "true"}))
		}, spec.Inconclusive, []string{"2 storage classes are the default: also, usual"}},
		"the default class keeps its volumes": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"][0]["reclaimPolicy"] = "Retain"
		}, spec.Inconclusive, []string{"storage class usual has reclaimPolicy Retain: the volume of the model cache would stay when the run is gone"}},
		"the named class keeps its volumes": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Cache.Class, c.lists["storageclasses"][1]["reclaimPolicy"] = "fast", "Retain"
		}, spec.Inconclusive, []string{"storage class fast has reclaimPolicy Retain"}},
		"a class that nobody takes keeps its volumes": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["storageclasses"][0]["reclaimPolicy"], c.lists["storageclasses"][1]["reclaimPolicy"] = "Delete", "Retain"
		}, "", nil},
		"no cache needs no storage":    {func(in *GuardInput, c *guardedCluster) { in.Settings.Cache, c.lists = nil, nil }, "", nil},
		"storage that may not be read": {func(_ *GuardInput, c *guardedCluster) { c.refuses["storageclasses"] = forbidden("storageclasses") }, "", nil},
		"the named storage may not be read": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Cache.Class, c.refuses["storageclasses"] = "fast", forbidden("storageclasses")
		}, "", nil},
		"a quota that is used up": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"requests.cpu": "4", "pods": "10"}, fields{"requests.cpu": "2500m", "pods": "10"}, nil)}
		}, spec.Inconclusive, []string{"pods", "2500m of 4 are used of requests.cpu, and the load takes 2"}},
		"a quota that just does": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"requests.cpu": "4"}, fields{"requests.cpu": "2"}, nil)}
		}, "", nil},
		"quotas that have a little less than the load takes": {func(_ *GuardInput, c *guardedCluster) {
			hard, used := fields{"configmaps": "1", "count/configmaps": "1", "count/jobs.batch": "0", "count/pods": "0", "count/rolebindings.rbac.authorization.k8s.io": "0", "count/roles.rbac.authorization.k8s.io": "0",
				"count/serviceaccounts": "0", "cpu": "1999m", "limits.memory": "4095Mi", "memory": "2047Mi", "pods": "0", "requests.cpu": "1999m", "requests.memory": "2047Mi"}, fields{}
			for name := range hard {
				used[name] = "0"
			}
			c.lists["resourcequotas"] = []kube.Object{quota(hard, used, nil)}
		}, spec.Inconclusive, []string{"of configmaps, and the load takes 2", "of count/configmaps, and the load takes 2", "of count/jobs.batch,", "of count/pods,", "of count/rolebindings.rbac.authorization.k8s.io,",
			"of count/roles.rbac.authorization.k8s.io,", "of count/serviceaccounts,", "of cpu,", "of limits.memory, and the load takes 4Gi", "of memory, and the load takes 2Gi", "of pods,", "of requests.cpu,", "of requests.memory,"}},
		"two quotas, by their names": {func(_ *GuardInput, c *guardedCluster) {
			one := quota(fields{"pods": "0"}, fields{"pods": "0"}, nil)
			one["metadata"] = fields{"namespace": "aicr-validation", "name": "r"}
			c.lists["resourcequotas"] = []kube.Object{one, quota(fields{"pods": "0"}, fields{"pods": "0"}, nil)}
		}, spec.Inconclusive, []string{"quota aicr-validation/q", "quota aicr-validation/r"}},
		"quotas and limits that may not be read": {func(_ *GuardInput, c *guardedCluster) {
			c.refuses["resourcequotas"], c.refuses["limitranges"] = forbidden("resourcequotas"), forbidden("limitranges")
		}, "", nil},
		"a quota of limits of CPU": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"limits.cpu": "400"}, fields{"limits.cpu": "0"}, nil)}
		}, spec.Inconclusive, []string{"limits.cpu"}},
		"a quota of other pods": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "0"}, fields{"pods": "0"}, fields{"scopes": row("BestEffort")})}
		}, "", nil},
		"a quota of pods of another class": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "0"}, fields{"pods": "0"}, fields{"scopeSelector": fields{"matchExpressions": []any{fields{"scopeName": "PriorityClass", "operator": "Exists"}}}})}
		}, "", nil},
		"a quota of pods without an end": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "0"}, fields{"pods": "0"}, fields{"scopeSelector": fields{"matchExpressions": []any{fields{"scopeName": "NotTerminating", "operator": "Exists"}}}})}
		}, spec.Inconclusive, []string{"pods"}},
		"a quota of pods like ours": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "0"}, fields{"pods": "0"}, fields{"scopes": row("NotBestEffort")})}
		}, spec.Inconclusive, []string{"pods"}},
		"a quota that cannot be read": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "many"}, fields{"pods": "0"}, nil)}
		}, spec.Inconclusive, []string{"cannot be read"}},
		"a quota of which nobody knows what is used": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "10"}, nil, nil)}
		}, spec.Inconclusive, []string{"cannot be read"}},
		"a quota of something else": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"services": "0"}, fields{"services": "0"}, nil)}
		}, "", nil},
		"containers that are too small": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "max": fields{"cpu": "1", "memory": "4Gi"}})}
		}, spec.Inconclusive, []string{"max cpu of a container is 1, and the load takes 2"}},
		"a default below what is asked": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "default": fields{"cpu": "500m"}})}
		}, spec.Inconclusive, []string{"default cpu"}},
		"pods that are too small": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "max": fields{"memory": "3Gi"}})}
		}, spec.Inconclusive, []string{"max memory of a pod is 3Gi, and the load takes 4Gi"}},
		"a limit that cannot be read": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "max": fields{"cpu": "many"}})}
		}, spec.Inconclusive, []string{"max cpu of a container is many"}},
		"a ratio that the load exceeds": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "maxLimitRequestRatio": fields{"memory": "1"}})}
		}, spec.Inconclusive, []string{"maxLimitRequestRatio memory of a container is 1"}},
		"a ratio that it keeps to": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "maxLimitRequestRatio": fields{"memory": "2"}})}
		}, "", nil},
		"a ratio of CPU, and no limit of it": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "maxLimitRequestRatio": fields{"cpu": "4"}})}
		}, spec.Inconclusive, []string{"maxLimitRequestRatio cpu of a container is 4, and the load has no limit of CPU"}},
		"a ratio of CPU, and a limit by default": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "maxLimitRequestRatio": fields{"cpu": "4"}, "default": fields{"cpu": "8"}})}
		}, "", nil},
		"a smallest pod that is larger": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "min": fields{"cpu": "3", "memory": "1Gi"}})}
		}, spec.Inconclusive, []string{"min cpu of a pod is 3, and the load asks for 2"}},
		"a largest pod, and no limit of CPU": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "max": fields{"cpu": "16"}})}
		}, spec.Inconclusive, []string{"max cpu of a pod is 16"}},
		"an operator that is not ready": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["deployments"] = []kube.Object{operatorOf("a", 0), {"metadata": fields{"name": "other", "namespace": "b"}}}
		}, spec.Fail, []string{"Dynamo's operator is not ready: Deployment a/dynamo-operator-controller-manager has 0 of 1 replicas ready"}},
		"Grove's operator that is not ready": {func(in *GuardInput, c *guardedCluster) {
			in.Offers.Grove = true
			down := operatorOf("g", 0)
			down["metadata"], down["spec"] = fields{"name": "grove-operator", "namespace": "g"}, fields{"replicas": int64(2)}
			c.lists["deployments"] = []kube.Object{operatorOf("a", 1), down}
		}, spec.Fail, []string{"Grove's operator is not ready: Deployment g/grove-operator has 0 of 2 replicas ready"}},
		"Grove's operator that is not asked for": {func(_ *GuardInput, c *guardedCluster) {
			down := operatorOf("g", 0)
			down["metadata"], down["spec"] = fields{"name": "grove-operator", "namespace": "g"}, fields{"replicas": int64(2)}
			c.lists["deployments"] = []kube.Object{operatorOf("a", 1), down}
		}, "", nil},
		"an operator of several that is": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["deployments"] = []kube.Object{operatorOf("a", 0), operatorOf("b", 1)}
		}, "", nil},
		"an operator that may not be looked at": {func(_ *GuardInput, c *guardedCluster) {
			c.refuses["deployments"] = forbidden("deployments")
		}, "", nil},
		"pods that are too large, and asked to be smaller": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Resources = someResources()
			in.Settings.Resources.Load = spec.Resources{Limits: map[string]string{"cpu": "1", "memory": "1Gi"}}
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "max": fields{"cpu": "1", "memory": "1Gi"}})}
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"limits.cpu": "1", "limits.memory": "1Gi", "requests.cpu": "1"}, fields{"limits.cpu": "0", "limits.memory": "0", "requests.cpu": "0"}, nil)}
		}, "", nil},
		"a load that is asked to be larger": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Resources = someResources()
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "max": fields{"cpu": "4", "memory": "4Gi"}})}
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"limits.cpu": "7", "limits.memory": "7Gi"}, fields{"limits.cpu": "0", "limits.memory": "0"}, nil)}
		}, spec.Inconclusive, []string{"of limits.cpu, and the load takes 8", "of limits.memory, and the load takes 8Gi", "max cpu of a container is 4, and the load takes 8", "max memory of a container is 4Gi, and the load takes 8Gi"}},
		"a Job that is asked to be larger than the load": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Resources.Jobs = spec.Resources{Requests: map[string]string{"memory": "16Gi"}, Limits: map[string]string{"memory": "16Gi"}}
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"requests.memory": "8Gi"}, fields{"requests.memory": "0"}, nil)}
		}, spec.Inconclusive, []string{"of requests.memory, and the load takes 16Gi"}},
		"a quota of reservations": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"count/leases.coordination.k8s.io": "0"}, fields{"count/leases.coordination.k8s.io": "0"}, nil)}
		}, spec.Inconclusive, []string{"of count/leases.coordination.k8s.io, and the load takes 1"}},
		"a limit that is more often the request than may be": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "maxLimitRequestRatio": fields{"memory": "1", "cpu": "1"}})}
		}, spec.Inconclusive, []string{"maxLimitRequestRatio cpu of a container is 1, and the load has no limit of CPU", "maxLimitRequestRatio memory of a container is 1, and the load asks for 2Gi with a limit of 4Gi"}},
		"a ratio that is kept": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Resources.Load = spec.Resources{Requests: map[string]string{"memory": "4Gi", "cpu": "2"}, Limits: map[string]string{"memory": "4Gi", "cpu": "4"}}
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Container", "maxLimitRequestRatio": fields{"memory": "1", "cpu": "2"}})}
		}, "", nil},
		"pods that have to have a limit": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "max": fields{"cpu": "8"}})}
		}, spec.Inconclusive, []string{"max cpu of a pod is 8, and the load has no limit of CPU"}},
		"pods that are given a limit": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "Pod", "max": fields{"cpu": "8"}}), limits(fields{"type": "Container", "default": fields{"cpu": "4"}})}
		}, "", nil},
		"limits of volumes": {func(_ *GuardInput, c *guardedCluster) {
			c.lists["limitranges"] = []kube.Object{limits(fields{"type": "PersistentVolumeClaim", "max": fields{"storage": "1Gi"}})}
		}, "", nil},
		"AIPerf is in a namespace of its own": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Engine = EngineAIPerf
			c.lists["resourcequotas"] = []kube.Object{quota(fields{"pods": "0"}, fields{"pods": "0"}, nil)}
		}, "", nil},
		"rights, all at once": {func(_ *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool {
				return r.Verb == "create" && (r.Resource == "secrets" || r.Subresource == "exec")
			}
		}, spec.Inconclusive, []string{"you may not create secrets in all namespaces (the token", "you may not create pods/exec in aicr-validation"}},
		"a right that is missing in all namespaces, which is told once": {func(_ *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool { return r.Verb == "delete" && r.Resource == "jobs" }
		}, spec.Inconclusive, []string{"you may not delete jobs.batch in all namespaces"}},
		"a namespace that is not there, with all roles in it": {func(in *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool { return r.Namespace == in.Settings.Namespace }
			delete(c.lists, "namespaces")
		}, spec.Inconclusive, []string{"there is no namespace aicr-validation"}},
		"a namespace that is not there, and a right beside it": {func(in *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool { return r.Namespace == in.Settings.Namespace || r.Resource == "secrets" }
			delete(c.lists, "namespaces")
		}, spec.Inconclusive, []string{"there is no namespace aicr-validation", "you may not create secrets in all namespaces"}},
		"a namespace that may not be read": {func(_ *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool { return r.Verb == "create" && r.Subresource == "exec" }
			c.refuses["namespaces"] = forbidden("namespaces")
		}, spec.Inconclusive, []string{"you may not create pods/exec in aicr-validation"}},
		"rights of a snapshot": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Live = true
			c.missing = func(r kube.Right) bool { return r.Resource == "daemonsets" }
		}, spec.Inconclusive, []string{"you may not list daemonsets.apps"}},
		"rights of a snapshot that is not taken": {func(_ *GuardInput, c *guardedCluster) {
			c.missing = func(r kube.Right) bool { return r.Resource == "daemonsets" }
		}, "", nil},
		"rights that were asked about": {func(in *GuardInput, c *guardedCluster) {
			in.Asked = true
			c.missing = func(r kube.Right) bool {
				return r.Resource == "secrets" || r.Resource == "resourceclaimtemplates" && r.Verb == "get"
			}
		}, spec.Inconclusive, []string{"you may not get resourceclaimtemplates.resource.k8s.io in all namespaces"}},
		"a right that is not needed": {func(in *GuardInput, c *guardedCluster) {
			in.Settings.Token = false
			c.missing = func(r kube.Right) bool { return r.Resource == "secrets" || r.Resource == "queues" }
		}, "", nil},
		"everything at once": {func(in *GuardInput, c *guardedCluster) {
			in.Skew, in.Offers.Graph, c.lists["storageclasses"], c.missing = "skewed", "", nil, func(r kube.Right) bool { return r.Resource == "secrets" }
		}, "", []string{"serves no", "skewed", "no storage class", "you may not create secrets"}},
	} {
		t.Run(name, func(t *testing.T) {
			in, cluster := goodInput(), goodCluster()
			c.change(&in, cluster)
			got, err := Guard(t.Context(), cluster, in)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d refusals, want %d: %+v", len(got), len(c.want), got)
			}
			for i, r := range got {
				if !strings.Contains(r.Text, c.want[i]) || c.state != "" && r.State != c.state {
					t.Errorf("%+v, want %s %q", r, c.state, c.want[i])
				}
				if r.State != spec.Skip && r.Hint == "" {
					t.Errorf("%s: no hint", r.Text)
				}
				if strings.Contains(r.Hint, "--rbac") && !strings.Contains(r.Hint, "bind to you") {
					t.Errorf("%s: who follows %q has bound nothing", r.Text, r.Hint)
				}
				if strings.Contains(r.Hint, "--snapshot FILE") != (strings.Contains(r.Text, "daemonsets") || r.Text == in.Skew) {
					t.Errorf("%s: %s", r.Text, r.Hint)
				}
			}
		})
	}
}

// Rights are asked about before anything is read. What hangs on the node is told then with
// others, and alone stops nobody: the node may be one that hands its GPUs out otherwise.
func TestRightsAreAskedAboutFirst(t *testing.T) {
	for name, c := range map[string]struct {
		missing []string // resources
		want    int
		change  func(*spec.Recipe)
	}{
		"nothing is missing":                  {nil, 0, nil},
		"what the ledger reads":               {[]string{"resourceslices"}, 1, nil},
		"what a snapshot reads":               {[]string{"daemonsets"}, 1, nil},
		"what claims take alone":              {[]string{"resourceclaimtemplates"}, 0, nil},
		"what the load reads of a node alone": {[]string{"nodes/stats"}, 0, nil},
		"all of these":                        {[]string{"resourceslices", "resourceclaimtemplates", "nodes/stats", "daemonsets"}, 5, nil},
		"a recipe that wants no figure":       {[]string{"resourceslices"}, 0, func(r *spec.Recipe) { r.Phases.Performance.Constraints = nil }},
		"a recipe that does not want it":      {[]string{"resourceslices"}, 0, func(r *spec.Recipe) { r.Components = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := someSettings(func(s *Settings) { s.GPUs, s.Node, s.Live = "", "", true })
			cluster, recipe := goodCluster(), wantsAll()
			if c.change != nil {
				c.change(recipe)
			}
			cluster.missing = func(r kube.Right) bool {
				return slices.Contains(c.missing, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"))
			}
			got, err := AskRights(t.Context(), cluster, recipe, s)
			if err != nil || len(got) != c.want {
				t.Errorf("%v %+v, want %d", err, got, c.want)
			}
		})
	}
	if got, err := AskRights(t.Context(), &guardedCluster{broken: errors.New("away")}, wantsAll(), someSettings()); err == nil || got != nil {
		t.Errorf("what could not be asked: %v, %v", got, err)
	}
}

// What could not be asked is neither there nor absent.
func TestAGuardThatCannotAskIsAnError(t *testing.T) {
	away := errors.New("away")
	for name, change := range map[string]func(*guardedCluster){
		"reviews":  func(c *guardedCluster) { c.broken = away },
		"storage":  func(c *guardedCluster) { c.refuses["storageclasses"] = away },
		"quotas":   func(c *guardedCluster) { c.refuses["resourcequotas"] = away },
		"limits":   func(c *guardedCluster) { c.refuses["limitranges"] = away },
		"operator": func(c *guardedCluster) { c.refuses["deployments"] = away },
		"the namespace": func(c *guardedCluster) {
			c.refuses["namespaces"], c.missing = away, func(r kube.Right) bool { return r.Subresource == "exec" }
		},
	} {
		cluster := goodCluster()
		change(cluster)
		for _, class := range []string{"", "fast"} {
			in := goodInput()
			in.Settings.Cache.Class = class
			if got, err := Guard(t.Context(), cluster, in); !errors.Is(err, away) || got != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
	if _, err := Look(t.Context(), &guardedCluster{broken: away}); !errors.Is(err, away) {
		t.Error(err)
	}
	kai := &guardedCluster{served: kube.Served{resourceOf(groupKAI, "v2", "queues"): true}, refuses: map[string]error{"queues": away}}
	if _, err := Look(t.Context(), kai); !errors.Is(err, away) {
		t.Error(err)
	}
}

func TestWhatAClusterOffers(t *testing.T) {
	serves := func(all ...kube.Resource) kube.Served {
		s := kube.Served{}
		for _, r := range all {
			s[r] = true
		}
		return s
	}
	graphs := func(version string) kube.Resource { return resourceOf(groupGraph, version, "dynamographdeployments") }
	claims := func(version string) kube.Resource { return resourceOf(groupDRA, version, "resourceclaimtemplates") }
	queues := resourceOf(groupKAI, "v2", "queues")
	queue := func(name, parent string, labels fields) kube.Object {
		return kube.Object{"metadata": fields{"name": name, "labels": labels}, "spec": fields{"parentQueue": parent}}
	}
	for name, c := range map[string]struct {
		served  kube.Served
		queues  []kube.Object
		refuses error
		want    Offers
	}{
		"nothing":               {serves(), nil, nil, Offers{}},
		"both versions":         {serves(graphs("v1alpha1"), graphs("v1beta1"), claims("v1beta1"), claims("v1")), nil, nil, Offers{Graph: "v1beta1", DRA: "v1"}},
		"the old versions":      {serves(graphs("v1alpha1"), claims("v1beta1")), nil, nil, Offers{Graph: "v1alpha1", DRA: "v1beta1"}},
		"the one between":       {serves(claims("v1beta1"), claims("v1beta2")), nil, nil, Offers{DRA: "v1beta2"}},
		"a version of tomorrow": {serves(graphs("v1")), nil, nil, Offers{}},
		"nothing that is asked": {serves(), nil, errors.New("away"), Offers{}},
		"the other half of one": {serves(resourceOf(groupPool, "v1", "inferencepools")), nil, nil, Offers{}},
		"half a gateway":        {serves(resourceOf(groupGateway, "v1", "httproutes")), nil, nil, Offers{}},
		"a gateway":             {serves(resourceOf(groupGateway, "v1", "httproutes"), resourceOf(groupPool, "v1", "inferencepools")), nil, nil, Offers{Gateway: true}},
		"KAI without Grove":     {serves(queues), nil, nil, Offers{Queue: true}},
		"Grove without KAI":     {serves(resourceOf(groupGrove, "v1alpha1", "podcliquesets")), nil, nil, Offers{Grove: true}},
		"KAI and Grove":         {serves(queues, resourceOf(groupGrove, "v1alpha1", "podcliquesets")), nil, nil, Offers{Queue: true, KAI: true, Grove: true}},
		"KAI's own queue":       {serves(queues), []kube.Object{queue("a", "", nil), queue("default-parent-queue", "", nil), queue("b", "a", nil)}, nil, Offers{Queue: true, Parent: "default-parent-queue"}},
		"another at the top":    {serves(queues), []kube.Object{queue("z", "", nil), queue("b", "", nil), queue("a", "b", nil)}, nil, Offers{Queue: true, Parent: "b"}},
		"one that goes":         {serves(queues), []kube.Object{{"metadata": fields{"name": "a", "deletionTimestamp": "now"}}, queue("b", "", nil)}, nil, Offers{Queue: true, Parent: "b"}},
		"none but ours":         {serves(queues), []kube.Object{queue("a", "", fields{LabelOwner: OwnerValue})}, nil, Offers{Queue: true}},
		"that may not be read":  {serves(queues), nil, forbidden("queues"), Offers{Queue: true, Parent: "default-parent-queue"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Look(t.Context(), &guardedCluster{served: c.served, lists: map[string][]kube.Object{"queues": c.queues}, refuses: map[string]error{"queues": c.refuses}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResourcesThatNoContainerCanHaveAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"cpu=4,memory=16Gi": "", "requests.cpu=4,limits.cpu=4000m": "", "limits.cpu=1": "",
		"requests.cpu=4,limits.cpu=2":            "requests.cpu is 4, above limits.cpu of 2",
		"requests.memory=16Gi,limits.memory=16G": "requests.memory is 16Gi, above limits.memory of 16G",
		"memory=16":                              "requests.memory is 16 bytes, in which no container starts",
		"limits.memory=100m":                     "limits.memory is 0.100 bytes, in which no container starts",
		"ephemeral-storage=1k":                   "requests.ephemeral-storage is 1000 bytes",
	} {
		r, wrong, _ := spec.ParseResources(text)
		if wrong != "" {
			t.Fatal(wrong)
		}
		got, hint := CheckResources(r)
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") || (got == "") != (hint == "") {
			t.Errorf("%s: %q (%s), want %q", text, got, hint, want)
		}
	}
}

func TestWhatIsAskedForPrevailsOverWhatIsUsual(t *testing.T) {
	usual := spec.Resources{Requests: map[string]string{"memory": "2Gi"}, Limits: map[string]string{"memory": "4Gi"}}
	for want, own := range map[string]spec.Resources{
		"map[limits:map[memory:4Gi] requests:map[memory:2Gi]]": {},
		"map[limits:map[memory:1Gi] requests:map[memory:1Gi]]": {Limits: map[string]string{"memory": "1Gi"}},
		"map[limits:map[memory:8Gi] requests:map[memory:8Gi]]": {Requests: map[string]string{"memory": "8Gi"}},
		"map[limits:map[memory:4Gi] requests:map[memory:3Gi]]": {Requests: map[string]string{"memory": "3Gi"}},
	} {
		if got := fmt.Sprint(asked(usual, own).fields()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
