package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	beta  = "v1beta1"
	alpha = "v1alpha1"
)

// graph is a DynamoGraphDeployment, of either version.
type graph struct {
	version         string
	namespace, name string
	uid             types.UID
	generation      int64
	deleting        bool
	finalized       bool // it has our finalizer
	annotations     map[string]string
	grove           bool // its pods are Grove's, and KAI's to schedule
	env             []corev1.EnvVar
	components      []component
}

// component is one of a graph.
type component struct {
	name     string
	kind     string // frontend, worker, prefill, decode, planner, epp
	subKind  string // of a worker in the older API: prefill, decode
	replicas int32
	pod      corev1.PodTemplateSpec // with a container main
	shared   string                 // size of /dev/shm; "": as it comes
	noShared bool
	sidecar  string // name of the container that is a frontend beside the worker
	picker   map[string]any
}

// serves says whether it is one that generates tokens.
func (c *component) serves() bool {
	return c.kind == "worker" || c.kind == "prefill" || c.kind == "decode"
}

// workers is how many workers the graph is to have.
func (g *graph) workers() int {
	n := 0
	for i := range g.components {
		if g.components[i].serves() {
			n += int(g.components[i].replicas)
		}
	}
	return n
}

// child is the name of what belongs to a component.
func (g *graph) child(component string) string {
	return g.name + "-" + strings.ToLower(component)
}

// workload is the name of a component's Deployment.
func (g *graph) workload(c *component) string { return behind(g.child(c.name), g.workerHash(c)) }

// workerHash is what workers are known by among those that the graph had before them: by
// what they run. It is "" for others than workers, and with Grove, which changes its pods
// itself.
func (g *graph) workerHash(of *component) string {
	if !of.serves() || g.grove {
		return ""
	}
	h := sha256.New()
	for i := range g.components {
		c := &g.components[i]
		for _, run := range c.pod.Spec.Containers {
			if c.serves() {
				fmt.Fprintf(h, "%s %s %s %s %q %q\n", c.name, c.kind, run.Name, run.Image, run.Command, run.Args)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// runtimeNamespace is what Dynamo itself calls where a component's processes are.
func (g *graph) runtimeNamespace(c *component) string {
	return behind(g.dynamoNamespace(), g.workerHash(c))
}

// behind puts a hash behind a name, if there is one.
func behind(name, hash string) string { return strings.TrimSuffix(name+"-"+hash, "-") }

// dynamoNamespace is what Dynamo itself calls the graph.
func (g *graph) dynamoNamespace() string { return g.namespace + "-" + g.name }

// betaSpec is what v1beta1 has.
type betaSpec struct {
	Env        []corev1.EnvVar `json:"env"`
	Components []struct {
		Name            string                 `json:"name"`
		Type            string                 `json:"type"`
		Replicas        *int32                 `json:"replicas"`
		PodTemplate     corev1.PodTemplateSpec `json:"podTemplate"`
		SharedMemory    *resource.Quantity     `json:"sharedMemorySize"`
		FrontendSidecar string                 `json:"frontendSidecar"`
		EPPConfig       map[string]any         `json:"eppConfig"`
	} `json:"components"`
}

// alphaSpec is what v1alpha1 has.
type alphaSpec struct {
	Env      []corev1.EnvVar         `json:"envs"`
	Services map[string]alphaService `json:"services"`
}

type alphaService struct {
	Type          string            `json:"componentType"`
	SubType       string            `json:"subComponentType"`
	Replicas      *int32            `json:"replicas"`
	Env           []corev1.EnvVar   `json:"envs"`
	EnvFromSecret string            `json:"envFromSecret"`
	Labels        map[string]string `json:"labels"`
	Annotations   map[string]string `json:"annotations"`
	Resources     struct {
		Requests alphaResources         `json:"requests"`
		Limits   alphaResources         `json:"limits"`
		Claims   []corev1.ResourceClaim `json:"claims"`
	} `json:"resources"`
	SharedMemory struct {
		Size     *resource.Quantity `json:"size"`
		Disabled bool               `json:"disabled"`
	} `json:"sharedMemory"`
	LivenessProbe    *corev1.Probe        `json:"livenessProbe"`
	ReadinessProbe   *corev1.Probe        `json:"readinessProbe"`
	VolumeMounts     []corev1.VolumeMount `json:"volumeMounts"`
	EPPConfig        map[string]any       `json:"eppConfig"`
	FrontendSidecar  *corev1.Container    `json:"frontendSidecar"`
	ExtraPodMetadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"extraPodMetadata"`
	ExtraPodSpec struct {
		corev1.PodSpec `json:",inline"`
		MainContainer  *corev1.Container `json:"mainContainer"`
	} `json:"extraPodSpec"`
}

type alphaResources struct {
	CPU    string            `json:"cpu"`
	Memory string            `json:"memory"`
	GPU    string            `json:"gpu"`
	Custom map[string]string `json:"custom"`
}

// readGraph reads a graph of either version.
func readGraph(o *unstructured.Unstructured) (*graph, error) {
	g := &graph{
		namespace: o.GetNamespace(), name: o.GetName(), uid: o.GetUID(), generation: o.GetGeneration(),
		deleting: o.GetDeletionTimestamp() != nil, finalized: slices.Contains(o.GetFinalizers(), finalizer), annotations: o.GetAnnotations(),
	}
	spec, _ := o.Object["spec"].(map[string]any)
	if o.GetAPIVersion() == "nvidia.com/"+beta {
		g.version = beta
		return g, g.readBeta(spec)
	}
	g.version = alpha
	return g, g.readAlpha(spec)
}

func (g *graph) readBeta(fields map[string]any) error {
	var s betaSpec
	if err := recode(fields, &s); err != nil {
		return err
	}
	g.env = s.Env
	for _, c := range s.Components {
		one := component{name: c.Name, kind: c.Type, replicas: orOne(c.Replicas), pod: c.PodTemplate, sidecar: c.FrontendSidecar, picker: c.EPPConfig}
		if c.SharedMemory != nil {
			one.shared = c.SharedMemory.String()
		}
		g.components = append(g.components, one)
	}
	return nil
}

func (g *graph) readAlpha(fields map[string]any) error {
	var s alphaSpec
	if err := recode(fields, &s); err != nil {
		return err
	}
	g.env = s.Env
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		service := s.Services[name]
		one, err := service.component(name)
		if err != nil {
			return fmt.Errorf("service %s: %w", name, err)
		}
		g.components = append(g.components, one)
	}
	return nil
}

// component makes a service of v1alpha1 what v1beta1 calls a component.
func (s *alphaService) component(name string) (component, error) {
	c := component{name: name, kind: s.Type, subKind: s.SubType, replicas: orOne(s.Replicas), noShared: s.SharedMemory.Disabled, picker: s.EPPConfig}
	if c.kind == "" {
		c.kind = "worker"
	}
	if s.SharedMemory.Size != nil {
		c.shared = s.SharedMemory.Size.String()
	}
	if s.ExtraPodSpec.MainContainer == nil {
		return c, fmt.Errorf("it has no main container")
	}
	main := *s.ExtraPodSpec.MainContainer
	main.Name = mainContainer
	main.Env = append(slices.Clone(s.Env), main.Env...)
	if s.EnvFromSecret != "" {
		main.EnvFrom = append(main.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.EnvFromSecret}}})
	}
	main.VolumeMounts = append(main.VolumeMounts, s.VolumeMounts...)
	main.Resources.Claims = append(main.Resources.Claims, s.Resources.Claims...)
	if s.LivenessProbe != nil {
		main.LivenessProbe = s.LivenessProbe
	}
	if s.ReadinessProbe != nil {
		main.ReadinessProbe = s.ReadinessProbe
	}
	for list, said := range map[*corev1.ResourceList]alphaResources{&main.Resources.Requests: s.Resources.Requests, &main.Resources.Limits: s.Resources.Limits} {
		if err := said.into(list); err != nil {
			return c, err
		}
	}
	c.pod.Spec = s.ExtraPodSpec.PodSpec
	c.pod.Spec.Containers = append([]corev1.Container{main}, c.pod.Spec.Containers...)
	if s.FrontendSidecar != nil {
		side := *s.FrontendSidecar
		if side.Name == "" {
			side.Name = "frontend"
		}
		c.sidecar = side.Name
		c.pod.Spec.Containers = append(c.pod.Spec.Containers, side)
	}
	c.pod.Labels, c.pod.Annotations = map[string]string{}, map[string]string{}
	maps.Copy(c.pod.Labels, s.Labels)
	maps.Copy(c.pod.Labels, s.ExtraPodMetadata.Labels)
	maps.Copy(c.pod.Annotations, s.Annotations)
	maps.Copy(c.pod.Annotations, s.ExtraPodMetadata.Annotations)
	return c, nil
}

// into writes the resources under the names that Kubernetes has for them.
func (r *alphaResources) into(list *corev1.ResourceList) error {
	all := map[string]string{"cpu": r.CPU, "memory": r.Memory, "nvidia.com/gpu": r.GPU}
	maps.Copy(all, r.Custom)
	for name, text := range all {
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", name, text, err)
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceName(name)] = q
	}
	return nil
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// recode reads fields into a type.
func recode(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
