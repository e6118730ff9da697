package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"aicr/sandbox/programs"
)

// The annotations by which the sandbox is told what to play.
const (
	annotationScenario = "sandbox.aicr.run/scenario"
	annotationFaults   = "sandbox.aicr.run/faults"

	defaultScenario = "small"
	faultFinalizer  = "stuck-finalizer"
)

func (op *operator) lookAtAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	wrong := []error{op.lookAtPolicy(ctx)}
	if op.graphs != nil && op.alive() {
		all, err := op.graphs.List(labels.Everything())
		wrong = append(wrong, err)
		there := map[string]bool{}
		for _, o := range all {
			u := o.(*unstructured.Unstructured)
			there[string(u.GetUID())] = true
			if err := op.lookAtGraph(ctx, u); err != nil {
				wrong = append(wrong, fmt.Errorf("graph %s/%s: %w", u.GetNamespace(), u.GetName(), err))
			}
		}
		for uid := range op.applied {
			if !there[uid] {
				delete(op.applied, uid)
				delete(op.parts, uid)
			}
		}
	}
	if op.routes != nil {
		wrong = append(wrong, op.lookAtRoutes(ctx))
	}
	return errors.Join(wrong...)
}

// alive says that Dynamo's operator runs, as its Deployment says. Without it nothing becomes of
// a graph.
func (op *operator) alive() bool {
	d, err := op.deployments.Deployments(dynamoNamespace).Get(dynamoOperator)
	return err == nil && d.Status.ReadyReplicas > 0
}

func (op *operator) lookAtGraph(ctx context.Context, u *unstructured.Unstructured) error {
	g, unreadable := readGraph(u)
	g.grove = op.KAI // which schedules what Grove makes, and nothing else of a graph
	client := op.api.Resource(graphs(g.version)).Namespace(g.namespace)
	switch {
	case g.deleting && !g.finalized:
		return nil
	case g.deleting:
		if op.stuck(g) {
			return nil
		}
		if err := os.RemoveAll(op.folder(g.namespace, g.name)); err != nil {
			return err
		}
		return op.setFinalizers(ctx, g, slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == finalizer }), nil, u.GetResourceVersion())
	case !g.finalized:
		return op.setFinalizers(ctx, g, append(u.GetFinalizers(), finalizer), op.marks(g), u.GetResourceVersion())
	}
	wrong := unreadable
	if wrong == nil {
		wrong = op.makeChildren(ctx, g)
	}
	if wrong != nil && away(wrong) {
		return wrong // the API server's fault, not the graph's
	}
	before, _ := u.Object["status"].(map[string]any)
	deployments, err := op.partsOf(ctx, g, wrong)
	if err != nil {
		return err
	}
	if !g.grove {
		if err := op.tellComponents(ctx, g, deployments); err != nil {
			return err
		}
	}
	status := g.status(deployments, wrong, before, time.Now())
	if sameJSON(before, status) {
		return nil
	}
	next := u.DeepCopy()
	next.SetAPIVersion("nvidia.com/" + g.version)
	next.Object["status"] = status
	_, err = client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: manager})
	return unlessStale(err)
}

// partsOf are what a graph's components were made into, by their names. Of a clique it is what
// a Deployment would say.
func (op *operator) partsOf(ctx context.Context, g *graph, wrong error) (map[string]*appsv1.Deployment, error) {
	if g.grove && wrong == nil {
		return op.lookAtCliques(ctx, g)
	}
	all := map[string]*appsv1.Deployment{}
	for i := range g.components {
		c := &g.components[i]
		if d, err := op.deployments.Deployments(g.namespace).Get(g.workload(c)); err == nil && op.isOf(d, g, c) {
			all[c.name] = d
		}
	}
	return all, nil
}

// isOf says that a Deployment is that of a component: of its DynamoComponentDeployment.
func (op *operator) isOf(d *appsv1.Deployment, g *graph, c *component) bool {
	owner := metav1.GetControllerOf(d)
	one, made := op.parts[string(g.uid)][c.name]
	return made && owner != nil && owner.UID == one.uid
}

// away says whether an error is of the server or of the way to it. One that has just
// come back refuses what it cannot check yet.
func away(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) && !errors.As(err, new(*reconcileError)) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not yet ready to handle request") ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}

// reconcileError is one that the operator itself finds.
type reconcileError struct{ text string }

func (e *reconcileError) Error() string { return e.text }

// unlessStale forgets that an object has changed meanwhile, or is gone: it is looked at
// again then.
func unlessStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// marks are the annotations that the operator writes on a graph: which release it saw the graph
// first, and which workers it has.
func (op *operator) marks(g *graph) map[string]any {
	all := map[string]any{annotationOrigin: op.origin}
	for i := range g.components {
		if hash := g.workerHash(&g.components[i]); hash != "" {
			all[annotationHash] = hash
		}
	}
	return all
}

func (op *operator) setFinalizers(ctx context.Context, g *graph, all []string, annotations map[string]any, resourceVersion string) error {
	metadata := map[string]any{"finalizers": all, "resourceVersion": resourceVersion}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = op.api.Resource(graphs(g.version)).Namespace(g.namespace).Patch(ctx, g.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return unlessStale(err)
}

// makeChildren makes what the graph is made of, once a generation, and again when some of
// it is gone.
func (op *operator) makeChildren(ctx context.Context, g *graph) error {
	if op.KAI {
		if there, err := op.hasQueue(ctx, g.queue()); err != nil {
			return err
		} else if !there {
			delete(op.applied, string(g.uid))
			return &reconcileError{fmt.Sprintf("kai-scheduler queue validation failed: queue '%s' not found in cluster. Ensure the queue exists before using kai-scheduler", g.queue())}
		}
	}
	if op.applied[string(g.uid)] == g.generation && op.allThere(g) {
		return nil
	}
	if err := op.makeShared(ctx, g); err != nil {
		return err
	}
	all, err := g.ofGraph()
	if err != nil {
		return &reconcileError{err.Error()}
	}
	for _, child := range all {
		if _, err := op.api.Resource(resourceOf(child)).Namespace(g.namespace).Apply(ctx, child.GetName(), child, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", child.GetKind(), child.GetName(), err)
		}
	}
	if !g.grove {
		if err := op.makeComponents(ctx, g); err != nil {
			return err
		}
	}
	op.applied[string(g.uid)] = g.generation
	op.Logf("operator: graph %s/%s: made %d objects of generation %d", g.namespace, g.name, len(all), g.generation)
	return nil
}

// hasQueue says whether a queue is there. What is heard of queues may come later than what
// is heard of a graph that was made after its queue, so one that seems to be missing is
// asked for.
func (op *operator) hasQueue(ctx context.Context, name string) (bool, error) {
	if _, err := op.queues.Get(name); err == nil {
		return true, nil
	}
	_, err := op.api.Resource(queues).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// ofGraph are the children that the graph itself owns: its account and, with Grove, its Services
// and the PodCliqueSet.
func (g *graph) ofGraph() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	add := func(some []*unstructured.Unstructured, err error) error {
		all = append(all, some...)
		return err
	}
	if err := add(g.accounts()); err != nil {
		return nil, err
	}
	for i := range g.components {
		c := &g.components[i]
		if err := add(g.poolOf(c)); err != nil {
			return nil, err
		}
		if !g.grove {
			continue
		}
		if err := add(g.owned(map[string]metav1.Object{"v1 Service": g.service(c)}, "v1 Service")); err != nil {
			return nil, err
		}
	}
	if !g.grove {
		return all, nil
	}
	set, err := g.cliqueSet()
	if err != nil {
		return nil, err
	}
	err = add(g.owned(map[string]metav1.Object{groveAPI + " PodCliqueSet": set}, groveAPI+" PodCliqueSet"))
	return all, err
}

func (op *operator) allThere(g *graph) bool {
	if g.grove {
		return true // lookAtCliques finds what is gone
	}
	for i := range g.components {
		if _, err := op.deployments.Deployments(g.namespace).Get(g.workload(&g.components[i])); err != nil {
			return false
		}
	}
	return true
}

// stuck says whether the finalizer is to stay: the graph says so, or the node that its
// pods are on.
func (op *operator) stuck(g *graph) bool {
	if slices.Contains(programs.SplitFaults(g.annotations[annotationFaults]), faultFinalizer) {
		return true
	}
	for i := range g.components {
		if n, err := op.nodes.Get(g.components[i].pod.Spec.NodeSelector["kubernetes.io/hostname"]); err == nil && slices.Contains(programs.SplitFaults(n.Annotations[annotationFaults]), faultFinalizer) {
			return true
		}
	}
	return false
}

// folder is what the pods of a graph share.
func (op *operator) folder(namespace, name string) string {
	return filepath.Join(op.Dir, "graphs", namespace+"."+name)
}

// sameJSON says whether two are the same when written.
func sameJSON(a, b any) bool {
	var x, y any
	return recode(a, &x) == nil && recode(b, &y) == nil && reflect.DeepEqual(x, y)
}
