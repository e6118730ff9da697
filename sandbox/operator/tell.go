package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"aicr/sandbox/programs"
)

// tell serves what the programs in pods ask for.
func (op *operator) tell(ctx context.Context) error {
	l, err := net.Listen("tcp", programs.Address)
	if err != nil {
		return err
	}
	m := http.NewServeMux()
	page := func(path string, what func(pod *corev1.Pod, r *http.Request) (any, error)) {
		m.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			pod, err := op.podAt(r.FormValue("ip"))
			var answer any
			if err == nil {
				answer, err = what(pod, r)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			_ = json.NewEncoder(w).Encode(answer) // who asked is gone otherwise
		})
	}
	page("/pod", func(pod *corev1.Pod, _ *http.Request) (any, error) { return op.tellPod(pod) })
	page("/node", func(pod *corev1.Pod, _ *http.Request) (any, error) { return op.tellNode(pod.Spec.NodeName) })
	page("/backends", func(_ *corev1.Pod, r *http.Request) (any, error) {
		return op.backends(r.FormValue("host"), r.FormValue("path"), r.Header)
	})
	m.HandleFunc("POST "+programs.ConvertPath, convertReview)
	s := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return nil
}

// podAt is the pod that has an address.
func (op *operator) podAt(ip string) (*corev1.Pod, error) {
	all, err := op.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var found *corev1.Pod
	for _, pod := range all {
		if ip != "" && pod.Status.PodIP == ip && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
			(found == nil || found.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			found = pod
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no pod has the address %q", ip)
	}
	return found, nil
}

func (op *operator) tellPod(pod *corev1.Pod) (*programs.Pod, error) {
	node, err := op.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	p := &programs.Pod{
		Namespace: pod.Namespace, Name: pod.Name, Node: node.Name, AICR: op.AICR,
		Scenario: cmp.Or(node.Annotations[annotationScenario], defaultScenario),
		Faults:   append(programs.SplitFaults(pod.Annotations[annotationFaults]), programs.SplitFaults(node.Annotations[annotationFaults])...),
	}
	name := pod.Labels[labelGraph]
	if name == "" || op.graphs == nil {
		return p, nil
	}
	o, err := op.graphs.ByNamespace(pod.Namespace).Get(name)
	if err != nil {
		return nil, err
	}
	g, err := readGraph(o.(*unstructured.Unstructured))
	if err != nil {
		return nil, err
	}
	p.Graph = &programs.Graph{Name: name, Workers: g.workers(), Fleet: op.fleet(pod.Namespace, name)}
	if op.Real {
		p.Venv, p.Dir = op.Venv, op.folder(pod.Namespace, name)
	}
	return p, nil
}

// fleet is the address of the pod that plays the workers of a graph: its frontend or,
// behind a gateway, its endpoint picker.
func (op *operator) fleet(namespace, name string) string {
	all, err := op.pods.Pods(namespace).List(labels.SelectorFromSet(labels.Set{labelGraph: name}))
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p *corev1.Pod) bool {
		kind := p.Labels[labelType]
		return kind != "frontend" && kind != "epp" || p.DeletionTimestamp != nil || p.Status.PodIP == "" || p.Status.Phase != corev1.PodRunning
	})
	if len(all) == 0 {
		return ""
	}
	return slices.MaxFunc(all, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }).Status.PodIP
}

func (op *operator) tellNode(name string) (*programs.Node, error) {
	n := &programs.Node{GPUs: op.GPUs[name], Fleets: []string{}}
	serves, err := labels.Parse(labelType + " in (worker,prefill,decode)")
	if err != nil {
		return nil, err
	}
	all, err := op.pods.List(serves)
	if err != nil {
		return nil, err
	}
	for _, pod := range all {
		if pod.Spec.NodeName != name {
			continue
		}
		if ip := op.fleet(pod.Namespace, pod.Labels[labelGraph]); ip != "" && !slices.Contains(n.Fleets, ip) {
			n.Fleets = append(n.Fleets, ip)
		}
	}
	slices.Sort(n.Fleets)
	return n, nil
}

// backends are where the gateway sends a request: the ready pods of the pool that its
// route names; nil: no route is for it.
func (op *operator) backends(host, path string, header http.Header) ([]string, error) {
	if op.routes == nil {
		return nil, nil
	}
	all, err := op.readRoutes()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		name, ok := r.pool(host, path, header)
		if !ok {
			continue
		}
		some := []string{}
		o, err := op.pools.ByNamespace(r.Namespace).Get(name)
		if err != nil {
			return some, nil // as a gateway: the route is there, and nobody behind it
		}
		var pool struct {
			Spec struct {
				Selector    struct{ MatchLabels map[string]string }
				TargetPorts []struct{ Number int }
			}
		}
		if err := recode(o.(*unstructured.Unstructured).Object, &pool); err != nil {
			return nil, err
		}
		pods, err := op.pods.Pods(r.Namespace).List(labels.SelectorFromSet(pool.Spec.Selector.MatchLabels))
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if isReady(pod) && len(pool.Spec.TargetPorts) > 0 {
				some = append(some, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(pool.Spec.TargetPorts[0].Number)))
			}
		}
		slices.Sort(some)
		return some, nil
	}
	return nil, nil
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
