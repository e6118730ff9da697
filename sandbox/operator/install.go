package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"go.yaml.in/yaml/v3"
)

// Where things are installed, and what they are called there.
const (
	dynamoNamespace  = "dynamo-system"
	gpuNamespace     = "gpu-operator"
	draNamespace     = "nvidia-dra-driver-gpu"
	kaiNamespace     = "kai-scheduler"
	metricsNamespace = "monitoring"
	gatewayNamespace = "agentgateway-system"

	dynamoOperator  = "dynamo-operator-controller-manager"
	gpuExporterName = "nvidia-dcgm-exporter"
	policyName      = "cluster-policy"
	gatewayName     = "inference-gateway"
	gatewayClass    = "agentgateway"

	labelInstaller = "app.kubernetes.io/managed-by"
	installer      = "Helm"
)

// pins are the versions of charts that aicr pins. A sandbox has those installed, so that
// it is what a recipe asks for, and no version is written here.
type pins map[string]string

func readPins(ctx context.Context, aicr string) (pins, error) {
	out, err := exec.CommandContext(ctx, aicr, "versions", "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("%s versions: %w", aicr, err)
	}
	var said struct {
		Pins []struct{ Kind, Name, Version string }
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, fmt.Errorf("%s versions: %w", aicr, err)
	}
	all := pins{}
	for _, p := range said.Pins {
		if p.Kind == "chart" {
			all[p.Name] = p.Version
		}
	}
	return all, nil
}

type fields = map[string]any

// standIn is a program of a component that is installed by a chart.
type standIn struct {
	namespace, name string
	app             string // app.kubernetes.io/name
	chart, version  string
	image           string // repository
	port            int64  // that its probe asks
	path            string
	daemon          fields // node selector of a DaemonSet; nil: it is a Deployment
}

func (s *standIn) object() fields {
	labels := fields{"app.kubernetes.io/name": s.app, "app.kubernetes.io/instance": s.chart, "app.kubernetes.io/version": s.version,
		labelInstaller: installer, "helm.sh/chart": s.chart + "-" + s.version, "app": s.name}
	pod := fields{
		"containers": []any{fields{
			"name": s.app, "image": s.image + ":" + s.version,
			"ports":          []any{fields{"name": "http", "containerPort": s.port}},
			"readinessProbe": fields{"httpGet": fields{"path": s.path, "port": s.port}, "periodSeconds": int64(1)},
		}},
		"terminationGracePeriodSeconds": int64(5),
	}
	selector := fields{"app": s.name}
	spec := fields{"selector": fields{"matchLabels": selector}, "template": fields{"metadata": fields{"labels": labels}, "spec": pod}}
	kind := "Deployment"
	if s.daemon != nil {
		kind = "DaemonSet"
		pod["nodeSelector"] = s.daemon
		pod["tolerations"] = []any{fields{"operator": "Exists"}}
	} else {
		spec["replicas"] = int64(1)
	}
	return fields{"apiVersion": "apps/v1", "kind": kind, "metadata": fields{"name": s.name, "namespace": s.namespace, "labels": labels}, "spec": spec}
}

// standIns are the objects of everything that is installed besides Kubernetes, in order.
func (o *Options) standIns(pinned pins, hook *webhook) []fields {
	withGPU := fields{"nvidia.com/gpu.present": "true"}
	some := []standIn{
		{gpuNamespace, "gpu-operator", "gpu-operator", "gpu-operator", pinned["gpu-operator"], "nvcr.io/nvidia/gpu-operator", 8081, "/healthz", nil},
		{gpuNamespace, gpuExporterName, "nvidia-dcgm-exporter", "gpu-operator", pinned["gpu-operator"], "nvcr.io/nvidia/k8s/dcgm-exporter", 9400, "/health", withGPU},
		{draNamespace, "nvidia-dra-driver-gpu-kubelet-plugin", "nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu", pinned["dra-driver-nvidia-gpu"], "registry.k8s.io/dra-driver-nvidia/driver", 8081, "/healthz", withGPU},
		{metricsNamespace, "node-exporter", "prometheus-node-exporter", "kube-prometheus-stack", pinned["kube-prometheus-stack"], "quay.io/prometheus/node-exporter", 9100, "/health", fields{}},
	}
	if len(o.GraphAPIs) > 0 {
		some = append(some, standIn{dynamoNamespace, dynamoOperator, "dynamo-operator", "dynamo-operator", pinned["dynamo-platform"], "nvcr.io/nvidia/ai-dynamo/kubernetes-operator", 8081, "/healthz", nil})
	}
	if o.KAI {
		some = append(some, standIn{kaiNamespace, "kai-operator", "kai-operator", "kai-scheduler", pinned["kai-scheduler"], "ghcr.io/kai-scheduler/kai-scheduler/operator", 8081, "/healthz", nil},
			standIn{dynamoNamespace, "grove-operator", "grove-operator", "grove-charts", pinned["grove-charts"], "ghcr.io/ai-dynamo/grove/grove-operator", 8081, "/healthz", nil})
	}
	if o.Gateway {
		some = append(some, standIn{gatewayNamespace, gatewayName, "agentgateway", "agentgateway", pinned["agentgateway"], "cr.agentgateway.dev/agentgateway", 8080, "/healthz", nil})
	}
	var all []fields
	made := map[string]bool{}
	for i := range some {
		if s := &some[i]; !made[s.namespace] {
			made[s.namespace] = true
			all = append(all, fields{"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"name": s.namespace}})
		}
		one := some[i].object()
		if some[i].name == dynamoOperator {
			hook.mount(one)
		}
		all = append(all, one)
	}
	all = append(all, hook.objects()...)
	all = append(all, fields{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": fields{"name": policyName}, "spec": fields{}})
	if o.KAI {
		all = append(all, queueObject("default-parent-queue", ""), queueObject("default-queue", "default-parent-queue"))
	}
	if o.Gateway {
		all = append(all, gatewayObjects()...)
	}
	return all
}

// queueObject is one of the two queues that KAI makes when it is installed.
func queueObject(name, parent string) fields {
	share := fields{"quota": int64(0), "limit": int64(-1), "overQuotaWeight": int64(1)}
	spec := fields{"resources": fields{"cpu": share, "gpu": share, "memory": share}}
	if parent != "" {
		spec["parentQueue"] = parent
	}
	return fields{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": fields{"name": name}, "spec": spec}
}

// resourceOf is where objects of the kind are.
func resourceOf(u *unstructured.Unstructured) schema.GroupVersionResource {
	r, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	if u.GetKind() == "Gateway" { // what is guessed is another word
		r.Resource = "gateways"
	}
	return r
}

// install makes objects that are not there, and makes those that are what they should be.
func install(ctx context.Context, api dynamic.Interface, all []fields) error {
	for _, one := range all {
		u := &unstructured.Unstructured{Object: one}
		r := resourceOf(u)
		var client dynamic.ResourceInterface = api.Resource(r)
		if u.GetNamespace() != "" {
			client = api.Resource(r).Namespace(u.GetNamespace())
		}
		status := one["status"]
		delete(one, "status")
		made, err := client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "sandbox", Force: true})
		if err == nil && status != nil {
			made.Object["status"] = status
			_, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{FieldManager: "sandbox"})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// asYAML writes something as a file.
func asYAML(what any) string {
	text, err := yaml.Marshal(what)
	if err != nil {
		return ""
	}
	return string(text)
}
