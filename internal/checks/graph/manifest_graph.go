package graph

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// The components of a graph.
const (
	ComponentFrontend = "Frontend"
	ComponentPicker   = "Epp"
	ComponentWorker   = "VllmDecodeWorker"
)

// The versions of a DynamoGraphDeployment, the best first.
const (
	GraphBeta  = "v1beta1"
	GraphAlpha = "v1alpha1"
)

// queueAnnotation tells Dynamo's operator which queue of KAI the pods are in. Without it
// they are in one that all graphs share.
const queueAnnotation = "nvidia.com/kai-scheduler-queue"

// component is one of a graph, told once for both versions of the API.
type component struct {
	name     string
	kind     string // frontend, worker, decode, epp
	replicas int
	shared   string // memory
	gpu      bool
	asks     spec.Resources
	main     fields // the container
	sidecar  fields // a frontend beside it, or nil
	picker   fields // how an endpoint picker decides, where it has to be told; or nil
}

// components are those of the run's graph. Through a gateway the endpoint picker chooses
// the worker, and each worker has a frontend of its own that takes its word for it.
func components(s *Settings) []component {
	if s.Gateway {
		return []component{pickerComponent(s), workerComponent(s)}
	}
	return []component{frontendComponent(s), workerComponent(s)}
}

// frontendComponent has no command: the operator starts the frontend.
func frontendComponent(s *Settings) component {
	return component{name: ComponentFrontend, kind: "frontend", replicas: 1, asks: s.Resources.Frontend, main: fields{
		"image": s.Images.Runtime,
		"env":   joined([]any{env("SERVED_MODEL_NAME", s.Model), env("DYN_ROUTER_MODE", s.Router)}, cacheEnv(s), tokenEnv(s)),
	}}
}

// startWorker starts a worker with the driver's libraries behind those of the image. GKE
// mounts them without telling the loader; a variable of the pod would take the place of
// the image's own. Elsewhere the folder is not there, which does no harm.
const startWorker = `export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64"
exec python3 -m dynamo.vllm "$@"`

// kvEvents has a worker tell which blocks it has. Only router mode kv listens.
const kvEvents = `{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557"}`

// pickerBlock is how many tokens a block of the prefix cache has where a picker scores
// workers by them: both must mean the same.
const pickerBlock = "128"

func workerComponent(s *Settings) component {
	args := row("--model", s.Model)
	if s.Gateway {
		args = joined(args, row("--served-model-name", s.Model, "--enable-prefix-caching", "--block-size", pickerBlock))
	}
	c := component{name: ComponentWorker, kind: "worker", replicas: s.Workers, shared: "2Gi", gpu: true, asks: s.Resources.Worker, main: fields{
		"image":      s.Images.Runtime,
		"workingDir": "/workspace/examples/backends/vllm",
		"command":    row("/bin/bash", "-c", startWorker, "dynamo.vllm"),
		"args":       joined(args, row("--kv-events-config", kvEvents)),
	}}
	if all := joined(cacheEnv(s), tokenEnv(s)); len(all) > 0 {
		c.main["env"] = all
	}
	if s.Gateway {
		c.kind = "decode"
		c.sidecar = fields{"name": sidecarName, "image": s.Images.Runtime, "args": row("-m", "dynamo.frontend", "--router-mode", "direct")}
		if all := joined(cacheEnv(s), tokenEnv(s)); len(all) > 0 {
			c.sidecar["env"] = all
		}
		if asks := asked(spec.Resources{}, s.Resources.Frontend).fields(); len(asks) > 0 {
			c.sidecar["resources"] = asks
		}
	}
	return c
}

// sidecarName is the frontend beside a worker.
const sidecarName = "sidecar-frontend"

// pickerComponent is the endpoint picker.
func pickerComponent(s *Settings) component {
	c := component{
		name: ComponentPicker, kind: "epp", replicas: 1, asks: s.Resources.Frontend,
		main: fields{"image": s.Images.EndpointPicker, "env": joined([]any{
			env("DYN_KV_CACHE_BLOCK_SIZE", pickerBlock), env("DYN_MODEL_NAME", s.Model), env("DYN_ENFORCE_DISAGG", "false"),
		}, cacheEnv(s), tokenEnv(s))},
	}
	if !decidesItself(s) {
		c.picker = pickerConfig()
	}
	return c
}

// decidesItselfSince is the release from which the endpoint picker has its rules in it.
// Dynamo's operator wants them told to an older one, and refuses to tell them to a newer.
const decidesItselfSince = "1.5"

func decidesItself(s *Settings) bool {
	release, err := spec.ParseReleaseVersion(cmp.Or(releaseOf(s.Images.EndpointPicker), spec.TagRelease(s.Images.Release)))
	since, _ := spec.ParseReleaseVersion(decidesItselfSince)
	return err == nil && release.Compare(since) >= 0
}

// pickerConfig is how an endpoint picker decides that is told: workers that decode, scored
// by Dynamo, the best one taken.
func pickerConfig() fields {
	step := func(name string) fields { return fields{"pluginRef": name, "weight": int64(1)} }
	return fields{"config": fields{
		"plugins": []any{
			fields{"type": "disagg-profile-handler"},
			fields{"name": "decode-filter", "type": "label-filter", "parameters": fields{
				"label": "nvidia.com/dynamo-component-type", "validValues": row("decode"), "allowsNoLabel": true,
			}},
			fields{"name": "picker", "type": "max-score-picker"},
			fields{"name": "dyn-decode", "type": "dyn-decode-scorer"},
		},
		"schedulingProfiles": []any{fields{"name": "decode", "plugins": []any{step("decode-filter"), step("dyn-decode"), step("picker")}}},
	}}
}

// cacheEnv points a container at the model that is in the cache, and nowhere else.
func cacheEnv(s *Settings) []any {
	if s.Cache == nil {
		return nil
	}
	return []any{env("HF_HOME", cacheMount), env("HF_HUB_OFFLINE", "1")}
}

// graphManifest is the graph, in the version that the cluster serves.
func graphManifest(s *Settings) kube.Object {
	n := s.Names()
	graph := fields{"backendFramework": "vllm"}
	if s.Graph == GraphAlpha {
		services := fields{}
		for _, c := range components(s) {
			services[c.name] = c.alpha(s)
		}
		graph["services"] = services
	} else {
		var all []any
		for _, c := range components(s) {
			all = append(all, c.beta(s))
		}
		graph["components"] = all
	}
	o := manifest("nvidia.com/"+s.Graph, "DynamoGraphDeployment", n.Namespace, n.Graph, s, PartGraph, fields{"spec": graph})
	if s.Queue && !s.Namespaced {
		o["metadata"].(fields)["annotations"] = fields{queueAnnotation: n.Queue}
	}
	return o
}

// pod is all of a component's pod but its containers.
func (c component) pod(s *Settings) fields {
	pod := pinned(s, fields{})
	if s.Cache != nil {
		pod["volumes"] = []any{fields{"name": "model-cache", "persistentVolumeClaim": fields{"claimName": s.Names().Volume}}}
	}
	if c.gpu && s.GPUs == ByClaim {
		pod["resourceClaims"] = []any{fields{"name": gpuRequest, "resourceClaimTemplateName": s.Names().Claim}}
	}
	return pod
}

// mounted is a container with the cache in it, to be read alone.
func mounted(s *Settings, container fields) fields {
	container = maps.Clone(container)
	if s.Cache != nil {
		container["volumeMounts"] = []any{fields{"name": "model-cache", "mountPath": cacheMount, "readOnly": true}}
	}
	return container
}

// resources are those of a component's own container: what was asked for, and its GPU by the
// name that the version of the API has for one of the device plugin.
func (c component) resources(s *Settings, gpu string) fields {
	all := asked(spec.Resources{}, c.asks).fields()
	switch {
	case c.gpu && s.GPUs == ByClaim:
		all["claims"] = []any{fields{"name": gpuRequest}}
	case c.gpu:
		limits, _ := all["limits"].(fields)
		limits = maps.Clone(limits)
		if limits == nil {
			limits = fields{}
		}
		limits[gpu] = "1"
		all["limits"] = limits
	}
	return all
}

// alphaAmounts are amounts as v1alpha1 has them: what it has no name for is custom.
func alphaAmounts(amounts fields) fields {
	all, custom := fields{}, fields{}
	for name, amount := range amounts {
		if slices.Contains([]string{"cpu", "memory", "gpu"}, name) {
			all[name] = amount
		} else {
			custom[name] = amount
		}
	}
	if len(custom) > 0 {
		all["custom"] = custom
	}
	return all
}

// beta is a component of v1beta1.
func (c component) beta(s *Settings) fields {
	main := mounted(s, c.main)
	main["name"] = "main"
	if all := c.resources(s, "nvidia.com/gpu"); len(all) > 0 {
		main["resources"] = all
	}
	pod := c.pod(s)
	pod["containers"] = []any{main}
	one := fields{"name": c.name, "type": c.kind, "replicas": int64(c.replicas)}
	if c.sidecar != nil {
		pod["containers"] = []any{main, mounted(s, c.sidecar)}
		one["frontendSidecar"] = sidecarName
	}
	if c.picker != nil {
		one["eppConfig"] = c.picker
	}
	if c.shared != "" {
		one["sharedMemorySize"] = c.shared
	}
	if image, _ := c.main["image"].(string); releaseOf(image) == "" && spec.TagRelease(s.Images.Release) != "" {
		one["runtimeVersionOverride"] = spec.TagRelease(s.Images.Release)
	}
	one["podTemplate"] = fields{"spec": pod}
	return one
}

// alpha is a component of v1alpha1, which is told by the name of its service. Clusters
// that have no other version know no endpoint picker's sidecar: Guard refuses a gateway
// there.
func (c component) alpha(s *Settings) fields {
	pod := c.pod(s)
	pod["mainContainer"] = mounted(s, c.main)
	one := fields{"componentType": c.kind, "replicas": int64(c.replicas), "extraPodSpec": pod}
	if all := c.resources(s, "gpu"); len(all) > 0 {
		for _, side := range []string{"requests", "limits"} {
			if one, ok := all[side].(fields); ok {
				all[side] = alphaAmounts(one)
			}
		}
		one["resources"] = all
	}
	if c.shared != "" {
		one["sharedMemory"] = fields{"size": c.shared}
	}
	return one
}

// releaseOf is the release of Dynamo that its operator reads from an image's tag, or "".
// From 1.4 it takes no image that does not say it, unless it is told beside it. A digest
// behind the tag does not matter.
func releaseOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return spec.TagRelease(tag)
}
