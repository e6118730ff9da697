package operator

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"aicr/sandbox/programs"
)

// What Dynamo's operator calls things.
const (
	manager       = "dynamo-operator"
	finalizer     = "nvidia.com/finalizer"
	mainContainer = "main"

	labelGraph     = "nvidia.com/dynamo-graph-deployment-name"
	labelComponent = "nvidia.com/dynamo-component"
	labelType      = "nvidia.com/dynamo-component-type"
	labelClass     = "nvidia.com/dynamo-component-class"
	labelNamespace = "nvidia.com/dynamo-namespace"
	labelSelector  = "nvidia.com/selector"
	labelMetrics   = "nvidia.com/metrics-enabled"
	labelHash      = "nvidia.com/dynamo-worker-hash"

	labelSubType = "nvidia.com/dynamo-sub-component-type"

	annotationOrigin = "nvidia.com/dynamo-operator-origin-version"
	annotationHash   = "nvidia.com/current-worker-hash-v2"

	labelDiscovery  = "nvidia.com/dynamo-discovery-backend"
	labelDiscovered = "nvidia.com/dynamo-discovery-enabled"

	labelQueue = "kai.scheduler/queue"

	annotationQueue = "nvidia.com/kai-scheduler-queue"
	defaultQueue    = "dynamo"

	httpPort     = 8000
	systemPort   = 9090
	pickerPort   = 9002
	healthPort   = 9003
	graceSeconds = 60
	pickerGrace  = 130
	volumeGroup  = 1000
	sharedMemory = "8Gi"

	pickerConfigName = "epp-config"
	pickerConfigKey  = "epp-config-dynamo.yaml"
	pickerConfigPath = "/etc/epp"
)

// children are the objects that a graph is made into, in the order in which they are. What
// Grove makes of them is not here.
func (g *graph) children() ([]*unstructured.Unstructured, error) {
	if g.grove {
		return g.ofGraph()
	}
	var all []*unstructured.Unstructured
	for i := range g.components {
		some, err := g.poolOf(&g.components[i])
		if err == nil {
			all = append(all, some...)
			some, err = g.childrenOf(&g.components[i])
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// poolOf are the objects that an endpoint picker is found by, and reads. They are the
// graph's own.
func (g *graph) poolOf(c *component) ([]*unstructured.Unstructured, error) {
	if c.kind != "epp" {
		return nil, nil
	}
	return g.owned(map[string]metav1.Object{"v1 ConfigMap": g.pickerConfig(c), "inference.networking.k8s.io/v1 InferencePool": g.pool(c)}, "v1 ConfigMap", "inference.networking.k8s.io/v1 InferencePool")
}

// childrenOf are the objects that a component is made of.
func (g *graph) childrenOf(c *component) ([]*unstructured.Unstructured, error) {
	return g.owned(map[string]metav1.Object{"v1 Service": g.service(c), "apps/v1 Deployment": g.deployment(c)}, "apps/v1 Deployment", "v1 Service")
}

// owned are objects of the graph, in an order.
func (g *graph) owned(of map[string]metav1.Object, order ...string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, what := range order {
		apiVersion, kind, _ := strings.Cut(what, " ")
		o := of[what]
		o.SetNamespace(g.namespace)
		o.SetOwnerReferences([]metav1.OwnerReference{ownerOf("nvidia.com/"+g.version, "DynamoGraphDeployment", g.name, g.uid)})
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return nil, err
			}
			delete(fields, "status")
			u = &unstructured.Unstructured{Object: fields}
		}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		all = append(all, u)
	}
	return all, nil
}

// labels are those of a component's pods.
func (g *graph) labels(c *component) map[string]string {
	all := map[string]string{
		labelGraph: g.name, labelComponent: c.name, labelType: c.kind, labelNamespace: g.dynamoNamespace(),
		labelSelector: g.workload(c), labelMetrics: "true",
	}
	all[labelDiscovery], all[labelDiscovered] = "kubernetes", "true"
	if c.serves() && g.picked() {
		all[labelClass] = "worker"
	}
	if hash := g.workerHash(c); hash != "" {
		all[labelHash] = hash
	}
	if c.subKind != "" {
		all[labelSubType] = c.subKind
	}
	return all
}

// picked says that an endpoint picker chooses among the workers.
func (g *graph) picked() bool {
	return slices.ContainsFunc(g.components, func(c component) bool { return c.kind == "epp" })
}

// ownLabels are those of a component's Deployment and Service, which have fewer than its
// pods.
func (g *graph) ownLabels(c *component) map[string]string {
	all := g.labels(c)
	for _, of := range []string{labelType, labelMetrics, labelSelector} {
		delete(all, of)
	}
	return all
}

func (g *graph) service(c *component) *corev1.Service {
	port := corev1.ServicePort{Name: "system", Port: systemPort, TargetPort: intstr.FromString("system"), Protocol: corev1.ProtocolTCP}
	switch c.kind {
	case "frontend":
		port = corev1.ServicePort{Name: "http", Port: httpPort, TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP}
	case "epp":
		port = corev1.ServicePort{Name: "grpc", Port: pickerPort, TargetPort: intstr.FromInt32(pickerPort), Protocol: corev1.ProtocolTCP, AppProtocol: new("http2")}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: g.workload(c), Labels: g.ownLabels(c)}}
	s.Spec = corev1.ServiceSpec{
		Selector: map[string]string{labelType: c.kind, labelNamespace: g.dynamoNamespace(), labelComponent: c.name},
		Ports:    []corev1.ServicePort{port},
	}
	return s
}

func (g *graph) deployment(c *component) *appsv1.Deployment {
	pod := *c.pod.DeepCopy()
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, g.labels(c))
	if g.grove {
		pod.Labels[labelQueue] = g.queue()
	}
	grace := int64(graceSeconds)
	if c.kind == "epp" {
		grace = pickerGrace
	}
	pod.Spec.TerminationGracePeriodSeconds = cmp.Or(pod.Spec.TerminationGracePeriodSeconds, &grace)
	pod.Spec.ServiceAccountName = cmp.Or(pod.Spec.ServiceAccountName, g.account(c))
	pod.Spec.SecurityContext = cmp.Or(pod.Spec.SecurityContext, &corev1.PodSecurityContext{FSGroup: new(int64(volumeGroup))})
	if i := slices.IndexFunc(pod.Spec.Containers, func(one corev1.Container) bool { return one.Name == mainContainer }); i >= 0 {
		g.dress(c, &pod.Spec, &pod.Spec.Containers[i])
	}
	if i := slices.IndexFunc(pod.Spec.Containers, func(one corev1.Container) bool { return one.Name == c.sidecar }); i >= 0 && c.sidecar != "" {
		g.dressFrontend(&pod.Spec.Containers[i])
		pod.Spec.Containers[i].Env = inOrder(environment(pod.Spec.Containers[i].Env, g.env, g.identity(c), g.frontendEnv()))
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: g.workload(c), Labels: g.ownLabels(c)}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &c.replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelSelector: g.workload(c)}}, Template: pod,
	}
	return d
}

// dress gives the main container what the operator adds to it. What the graph says itself
// is left as it is.
func (g *graph) dress(c *component, pod *corev1.PodSpec, main *corev1.Container) {
	var own []corev1.EnvVar
	switch {
	case c.kind == "frontend":
		g.dressFrontend(main)
		own = g.frontendEnv()
	case c.kind == "epp":
		g.dressPicker(pod, main)
		own = []corev1.EnvVar{{Name: "USE_STREAMING", Value: "true"}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}}
	default:
		main.Ports = ports(main.Ports, corev1.ContainerPort{Name: "system", ContainerPort: systemPort, Protocol: corev1.ProtocolTCP},
			corev1.ContainerPort{Name: "nixl", ContainerPort: 19090, Protocol: corev1.ProtocolTCP})
		main.LivenessProbe = cmp.Or(main.LivenessProbe, probe("/live", "system", 0, 5, 4, 1))
		main.ReadinessProbe = cmp.Or(main.ReadinessProbe, probe("/health", "system", 0, 10, 4, 3))
		main.StartupProbe = cmp.Or(main.StartupProbe, probe("/live", "system", 0, 10, 5, 720))
		own = []corev1.EnvVar{
			{Name: "DYN_SYSTEM_ENABLED", Value: "true"}, {Name: "DYN_SYSTEM_PORT", Value: "9090"},
			{Name: "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", Value: `["generate"]`}, {Name: "DYN_HEALTH_CHECK_ENABLED", Value: "false"},
			{Name: "DYN_FORWARDPASS_METRIC_PORT", Value: "20380"},
			{Name: "NIXL_TELEMETRY_ENABLE", Value: "n"}, {Name: "NIXL_TELEMETRY_EXPORTER", Value: "prometheus"}, {Name: "NIXL_TELEMETRY_PROMETHEUS_PORT", Value: "19090"},
		}
		if hash := g.workerHash(c); hash != "" {
			own = append(own, corev1.EnvVar{Name: "DYN_NAMESPACE_WORKER_SUFFIX", Value: hash})
		}
	}
	main.Env = inOrder(environment(main.Env, g.env, g.identity(c), own))
	if c.noShared || slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/dev/shm" }) {
		return
	}
	size := resource.MustParse(cmp.Or(c.shared, sharedMemory))
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "shared-memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}})
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "shared-memory", MountPath: "/dev/shm"})
}

// dressPicker starts an endpoint picker with what it is told.
func (g *graph) dressPicker(pod *corev1.PodSpec, main *corev1.Container) {
	for name, number := range map[string]int32{"grpc": pickerPort, "grpc-health": healthPort, "metrics": 9090} {
		main.Ports = ports(main.Ports, corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
	slices.SortFunc(main.Ports, func(a, b corev1.ContainerPort) int { return cmp.Compare(a.ContainerPort, b.ContainerPort) })
	asked := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: healthPort, Service: new(programs.PickerService)}}
	serves := &corev1.Probe{ProbeHandler: asked, InitialDelaySeconds: 5, PeriodSeconds: 10}
	main.LivenessProbe = cmp.Or(main.LivenessProbe, serves)
	main.ReadinessProbe = cmp.Or(main.ReadinessProbe, serves.DeepCopy())
	main.StartupProbe = cmp.Or(main.StartupProbe, &corev1.Probe{ProbeHandler: asked, PeriodSeconds: 10, FailureThreshold: 180})
	if len(main.Args) == 0 {
		main.Args = []string{"-pool-name", g.name + "-pool", "-pool-namespace", g.namespace, "-pool-group", "inference.networking.k8s.io", "-v", "4", "--zap-encoder", "json",
			"-grpc-port", "9002", "-grpc-health-port", "9003", "-config-file", pickerConfigPath + "/" + pickerConfigKey}
	}
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: pickerConfigName, MountPath: pickerConfigPath, ReadOnly: true})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: pickerConfigName, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: g.name + "-" + pickerConfigName}, Items: []corev1.KeyToPath{{Key: pickerConfigKey, Path: pickerConfigKey}},
	}}})
}

// frontendEnv is what a frontend is told: its port, and whose workers are its own.
func (g *graph) frontendEnv() []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "DYN_HTTP_PORT", Value: "8000"}, {Name: "DYNAMO_PORT", Value: "8000"}, {Name: "DYN_NAMESPACE_PREFIX", Value: g.dynamoNamespace()}}
}

// dressFrontend starts a frontend where the graph does not say how.
func (g *graph) dressFrontend(main *corev1.Container) {
	switch {
	case len(main.Command) == 0 && len(main.Args) == 0:
		main.Command, main.Args = []string{"python3"}, []string{"-m", "dynamo.frontend"}
	case len(main.Command) == 0:
		main.Command = []string{"python3"}
	}
	main.Ports = ports(main.Ports, corev1.ContainerPort{Name: "http", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP})
	main.LivenessProbe = cmp.Or(main.LivenessProbe, probe("/live", "http", 15, 10, 1, 3))
	main.ReadinessProbe = cmp.Or(main.ReadinessProbe, probe("/health", "http", 10, 10, 3, 3))
}

// probe is one over HTTP, with the seconds after which it begins, between its tries and for
// an answer.
func probe(path, port string, delay, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port), Scheme: corev1.URISchemeHTTP}},
		InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures, SuccessThreshold: 1,
	}
}

// ports adds those that are not there.
func ports(have []corev1.ContainerPort, want ...corev1.ContainerPort) []corev1.ContainerPort {
	for _, p := range want {
		if !slices.ContainsFunc(have, func(one corev1.ContainerPort) bool {
			return one.Name == p.Name || one.ContainerPort == p.ContainerPort
		}) {
			have = append(have, p)
		}
	}
	return have
}

// identity is what tells a process of Dynamo who it is.
func (g *graph) identity(c *component) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	return []corev1.EnvVar{
		{Name: "DYN_NAMESPACE", Value: g.dynamoNamespace()}, {Name: "DYN_COMPONENT", Value: c.kind},
		{Name: "DYN_PARENT_DGD_K8S_NAME", Value: g.name}, {Name: "DYN_PARENT_DGD_K8S_NAMESPACE", Value: g.namespace},
		{Name: "DYN_DISCOVERY_BACKEND", Value: "kubernetes"},
		field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_UID", "metadata.uid"),
	}
}

// environment joins variables: of two with a name, the one that comes first is taken, and
// what a container says itself comes first.
func environment(lists ...[]corev1.EnvVar) []corev1.EnvVar {
	var all []corev1.EnvVar
	slices.Reverse(lists) // the container's own last, since it may refer to the others
	for _, list := range lists {
		for _, v := range list {
			if i := slices.IndexFunc(all, func(one corev1.EnvVar) bool { return one.Name == v.Name }); i >= 0 {
				all[i] = v
			} else {
				all = append(all, v)
			}
		}
	}
	return all
}

// inOrder are variables by their names, as the operator writes them.
func inOrder(all []corev1.EnvVar) []corev1.EnvVar {
	slices.SortStableFunc(all, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// queue is the queue of KAI that the pods are in.
func (g *graph) queue() string { return cmp.Or(g.annotations[annotationQueue], defaultQueue) }

// pickerConfig is what the endpoint picker reads.
func (g *graph) pickerConfig(c *component) *corev1.ConfigMap {
	config := map[string]any{"apiVersion": "inference.networking.x-k8s.io/v1alpha1", "kind": "EndpointPickerConfig"}
	if own, ok := c.picker["config"].(map[string]any); ok {
		maps.Copy(config, own)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: g.name + "-" + pickerConfigName, Labels: g.labels(c)},
		Data:       map[string]string{pickerConfigKey: asYAML(config)},
	}
}

// pool is where a gateway finds the workers.
func (g *graph) pool(c *component) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector":    map[string]any{"matchLabels": map[string]any{labelClass: "worker", labelNamespace: g.dynamoNamespace()}},
		"targetPorts": []any{map[string]any{"number": int64(httpPort)}},
		"endpointPickerRef": map[string]any{
			"kind": "Service", "name": g.child(c.name), "port": map[string]any{"number": int64(pickerPort)}, "failureMode": "FailClose",
		},
	}}}
	u.SetName(g.name + "-pool")
	return u
}
