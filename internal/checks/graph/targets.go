package graph

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/kube"
)

// Targets are where the load goes and what is observed beside it: found by the command,
// read by the load's Job, which so needs no right to list anything.
type Targets struct {
	URL      string            `json:"url"`                // that completions are asked of
	Headers  map[string]string `json:"headers,omitempty"`  // that a request has to have, behind a gateway
	Frontend string            `json:"frontend,omitempty"` // its metrics page; "": there is none, as behind a gateway

	Workers []WorkerTarget `json:"workers"`
	Serving []ServingPod   `json:"serving,omitempty"` // frontends and endpoint pickers
	GPUs    []string       `json:"gpus,omitempty"`    // pages of DCGM exporters on the node
	Nodes   []string       `json:"nodes,omitempty"`   // pages of node exporters on the node
	Kubelet string         `json:"kubelet,omitempty"` // its /stats/summary
	Node    string         `json:"node"`
	NodeWas *NodeWas       `json:"nodeWas,omitempty"` // before the load; nil: it could not be read
	Missing []string       `json:"missing,omitempty"` // what could not be found, and why

	// Made are the UIDs of what is loaded: its namespace, the graph; by "Kind namespace/name".
	Made map[string]string `json:"made,omitempty"`
}

// WorkerTarget is one worker's page.
type WorkerTarget struct {
	Name string `json:"name"`          // of the worker in findings: the pod's
	Pod  string `json:"pod"`           // that has it
	URL  string `json:"url"`           // http://10.0.0.1:9090/metrics
	GPU  string `json:"gpu,omitempty"` // its UUID; "": not known

	UID      string `json:"uid,omitempty"`      // of that pod
	Restarts int64  `json:"restarts,omitempty"` // of its containers before the load
}

// ServingPod is a pod through which requests go, and which is no worker.
type ServingPod struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Role     string `json:"role"`
	Restarts int64  `json:"restarts,omitempty"` // of its containers before the load
}

// NodeWas is how the node was before the load.
type NodeWas struct {
	UID      string `json:"uid"`
	Cordoned bool   `json:"cordoned,omitempty"`
}

// The ports, as published.
const (
	frontendPort = 8000
	workerPort   = 9090
	dcgmPort     = 9400
	exporterPort = 9100
	kubeletPort  = 10250
)

const gpuDriver = "gpu.nvidia.com"

// Labels by which exporters are found, in whatever namespace they are.
var (
	dcgmSelectors = []string{"app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter"}
	nodeSelectors = []string{"app.kubernetes.io/name in (node-exporter,prometheus-node-exporter)", "app in (node-exporter,prometheus-node-exporter)"}
)

// FindTargets finds them, once all replicas are ready.
func FindTargets(ctx context.Context, api API, s *Settings) (*Targets, error) {
	n := s.Names()
	pods, err := podsOfRun(ctx, api, s)
	if err != nil {
		return nil, fmt.Errorf("looking at pods: %w", err)
	}
	t := entrance(s)
	uuids, missing := gpuOfPods(ctx, api, s, pods)
	t.miss(missing)
	for _, pod := range pods {
		ip := pod.Text("status", "podIP")
		if role := roleOf(pod); (role == roleFrontend || role == rolePicker) && !pod.Deleting() && holds(pod, "Ready") {
			restarts, _ := endsOf(pod)
			t.Serving = append(t.Serving, ServingPod{pod.Name(), pod.UID(), role, restarts})
		}
		if roleOf(pod) != roleWorker || pod.Deleting() || !holds(pod, "Ready") || ip == "" {
			continue
		}
		restarts, _ := endsOf(pod)
		t.Workers = append(t.Workers, WorkerTarget{Name: pod.Name(), Pod: pod.Name(), URL: pageAt(ip, workerPort), GPU: uuids[pod.Name()], UID: pod.UID(), Restarts: restarts})
	}
	if len(t.Workers) == 0 {
		return nil, fmt.Errorf("no worker's pod is ready in namespace %s", n.Namespace)
	}
	slices.SortFunc(t.Workers, func(a, b WorkerTarget) int { return strings.Compare(a.Name, b.Name) })
	t.GPUs, missing = exporters(ctx, api, s.Node, "DCGM exporter", dcgmSelectors, dcgmPort)
	t.miss(missing)
	t.Nodes, missing = exporters(ctx, api, s.Node, "node exporter", nodeSelectors, exporterPort)
	t.miss(missing)
	node, err := api.Read(ctx, resNodes, "", s.Node)
	if err != nil {
		t.miss("kubelet: " + err.Error())
	} else {
		t.NodeWas = &NodeWas{node.UID(), node.Bool("spec", "unschedulable")}
		t.Kubelet, missing = kubeletOf(node)
		t.miss(missing)
	}
	t.Made, err = madeOf(ctx, api, s)
	return t, err
}

// entrance is where a run's graph answers: the part of its targets that its settings say.
func entrance(s *Settings) *Targets {
	n := s.Names()
	t := &Targets{Node: s.Node}
	if s.Gateway {
		t.URL = fmt.Sprintf("http://%s.%s.svc:80", GatewayName, GatewayNamespace)
		name, value := RouteHeader(s)
		t.Headers = map[string]string{name: value}
		return t
	}
	t.URL = fmt.Sprintf("http://%s-frontend.%s.svc:%d", n.Graph, n.Namespace, frontendPort)
	t.Frontend = t.URL + "/metrics"
	return t
}

func (t *Targets) miss(why string) {
	if why != "" {
		t.Missing = append(t.Missing, why)
	}
}

func pageAt(ip string, port int) string {
	return "http://" + net.JoinHostPort(ip, strconv.Itoa(port)) + "/metrics"
}

// exporters are the pages of an exporter's pods on a node.
func exporters(ctx context.Context, api API, node, what string, selectors []string, port int) (pages []string, missing string) {
	for _, selector := range selectors {
		pods, err := api.List(ctx, resPods, "", selector)
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", what, err)
		}
		for _, pod := range pods {
			ip := pod.Text("status", "podIP")
			if pod.Text("spec", "nodeName") != node || ip == "" || pod.Deleting() || phaseOf(pod) != "Running" {
				continue
			}
			at := port
			for _, c := range pod.List("spec", "containers") {
				for _, p := range c.List("ports") {
					if number, ok := p.Int("containerPort"); ok && strings.Contains(p.Text("name"), "metrics") {
						at = int(number)
					}
				}
			}
			if page := pageAt(ip, at); !slices.Contains(pages, page) {
				pages = append(pages, page)
			}
		}
	}
	if len(pages) == 0 {
		return nil, fmt.Sprintf("%s: none runs on node %s", what, node)
	}
	slices.Sort(pages)
	return pages, ""
}

// kubeletOf is where a node's kubelet tells of the node.
func kubeletOf(node kube.Object) (url, missing string) {
	port := int64(kubeletPort)
	if p, ok := node.Int("status", "daemonEndpoints", "kubeletEndpoint", "Port"); ok && p > 0 {
		port = p
	}
	for _, a := range node.List("status", "addresses") {
		if a.Text("type") == "InternalIP" {
			return "https://" + net.JoinHostPort(a.Text("address"), strconv.FormatInt(port, 10)) + "/stats/summary", ""
		}
	}
	return "", "kubelet: node " + node.Name() + " has no address of its own"
}

// gpuOfPods are the GPUs that workers were given: the pod names its claim, that a device,
// and a slice has the device's UUID.
func gpuOfPods(ctx context.Context, api API, s *Settings, pods []kube.Object) (uuids map[string]string, missing string) {
	if s.GPUs != ByClaim {
		return nil, "" // only telemetry knows whose GPU is whose
	}
	claims, err := claimsOfRun(ctx, api, s)
	if err != nil {
		return nil, "which GPU each worker has: " + err.Error()
	}
	slicesOf, err := api.List(ctx, resDRA(s.DRA, "resourceslices"), "", "")
	if err != nil {
		return nil, "which GPU each worker has: " + err.Error()
	}
	type device struct{ pool, name string }
	known := map[device]string{}
	newest := map[device]int64{}
	for _, slice := range slicesOf {
		if slice.Text("spec", "driver") != gpuDriver {
			continue
		}
		generation, _ := slice.Int("spec", "pool", "generation")
		for _, d := range slice.List("spec", "devices") {
			at := device{slice.Text("spec", "pool", "name"), d.Text("name")}
			if was, ok := newest[at]; ok && was > generation {
				continue
			}
			if uuid := uuidOf(d); uuid != "" {
				known[at], newest[at] = uuid, generation
			}
		}
	}
	given := map[string]string{}
	for _, claim := range claims {
		for _, result := range claim.List("status", "allocation", "devices", "results") {
			if uuid := known[device{result.Text("pool"), result.Text("device")}]; result.Text("driver") == gpuDriver && uuid != "" {
				given[claim.Name()] = uuid
			}
		}
	}
	uuids = map[string]string{}
	unknown := 0
	for _, pod := range pods {
		if roleOf(pod) != roleWorker {
			continue
		}
		for _, c := range pod.List("status", "resourceClaimStatuses") {
			if uuid := given[c.Text("resourceClaimName")]; uuid != "" {
				uuids[pod.Name()] = uuid
			}
		}
		if uuids[pod.Name()] == "" {
			unknown++
		}
	}
	if unknown > 0 {
		missing = fmt.Sprintf("which GPU %d of the workers have: their claims do not say", unknown)
	}
	return uuids, missing
}

// uuidOf is a device's, in any of the versions: v1beta1 has a level more, and the name may
// be written with the driver's before it.
func uuidOf(device kube.Object) string {
	for _, path := range [][]string{{"attributes"}, {"basic", "attributes"}} {
		attributes := device.Map(path...)
		for _, name := range []string{"uuid", gpuDriver + "/uuid"} {
			if uuid := attributes.Text(name, "string"); uuid != "" {
				return uuid
			}
		}
	}
	return ""
}
