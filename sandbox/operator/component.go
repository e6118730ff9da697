package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	componentDeployments = schema.GroupVersionResource{Group: "nvidia.com", Version: alpha, Resource: "dynamocomponentdeployments"}
	eventsResource       = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// part is a DynamoComponentDeployment that was made for a component of a graph.
type part struct {
	uid   types.UID
	wrong error // why its children could not be made; nil: they were
}

// object is the DynamoComponentDeployment of a component. It owns what the component is
// made of, as the real operator's does: the graph owns no Deployment.
func (g *graph) object(c *component) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "nvidia.com/" + alpha, "kind": "DynamoComponentDeployment",
		"spec": map[string]any{"backendFramework": "vllm", "serviceName": c.name, "componentType": c.kind, "dynamoNamespace": g.dynamoNamespace(), "replicas": int64(c.replicas)},
	}}
	u.SetName(g.workload(c))
	u.SetNamespace(g.namespace)
	u.SetLabels(map[string]string{labelGraph: g.name, labelComponent: c.name, labelNamespace: g.dynamoNamespace()})
	u.SetOwnerReferences([]metav1.OwnerReference{ownerOf("nvidia.com/"+g.version, "DynamoGraphDeployment", g.name, g.uid)})
	return u
}

func ownerOf(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes}
}

// makeComponents makes the DynamoComponentDeployment of each component and, owned by it,
// what the component is made of. A child that is refused is told on the component and in
// events: the graph itself stays pending, as under the real operator.
func (op *operator) makeComponents(ctx context.Context, g *graph) error {
	parts := map[string]part{}
	for i := range g.components {
		c := &g.components[i]
		made, err := op.api.Resource(componentDeployments).Namespace(g.namespace).Apply(ctx, g.workload(c), g.object(c), metav1.ApplyOptions{FieldManager: manager, Force: true})
		if err != nil {
			return fmt.Errorf("DynamoComponentDeployment %s: %w", g.workload(c), err)
		}
		one := part{uid: made.GetUID()}
		children, err := g.childrenOf(c)
		if err != nil {
			return &reconcileError{err.Error()}
		}
		for _, child := range children {
			kind := child.GetKind()
			child.SetOwnerReferences([]metav1.OwnerReference{ownerOf(made.GetAPIVersion(), made.GetKind(), made.GetName(), made.GetUID())})
			_, err := op.api.Resource(resourceOf(child)).Namespace(g.namespace).Apply(ctx, child.GetName(), child, metav1.ApplyOptions{FieldManager: manager, Force: true})
			if err != nil && away(err) {
				return fmt.Errorf("%s %s: %w", child.GetKind(), child.GetName(), err)
			}
			if err != nil {
				one.wrong = fmt.Errorf("failed to create or update the %s: %w", strings.ToLower(kind), err)
				if kind == "Deployment" {
					one.wrong = fmt.Errorf("failed to reconcile the resources: %w", one.wrong)
				}
				op.warn(ctx, child, "Create"+kind, fmt.Sprintf("Failed to create %s %s: %v", kind, g.namespace, err))
				op.warn(ctx, made, "ReconcileError", "Failed to reconcile DynamoComponentDeployment: "+one.wrong.Error())
				break
			}
		}
		parts[c.name] = one
	}
	op.parts[string(g.uid)] = parts
	return op.dropOldComponents(ctx, g)
}

// dropOldComponents deletes the components that a graph had before it was changed, with
// what they own.
func (op *operator) dropOldComponents(ctx context.Context, g *graph) error {
	client := op.api.Resource(componentDeployments).Namespace(g.namespace)
	all, err := client.List(ctx, metav1.ListOptions{LabelSelector: labelGraph + "=" + g.name})
	if err != nil {
		return err
	}
	for _, u := range all.Items {
		if !slices.ContainsFunc(g.components, func(c component) bool { return g.workload(&c) == u.GetName() }) {
			err = errors.Join(err, unlessStale(client.Delete(ctx, u.GetName(), metav1.DeleteOptions{})))
		}
	}
	return err
}

// tellComponents writes the status of each component of a graph, where it has changed.
func (op *operator) tellComponents(ctx context.Context, g *graph, deployments map[string]*appsv1.Deployment) error {
	client := op.api.Resource(componentDeployments).Namespace(g.namespace)
	var wrong error
	for i := range g.components {
		c := &g.components[i]
		one, made := op.parts[string(g.uid)][c.name]
		if !made {
			continue
		}
		u, err := client.Get(ctx, g.workload(c), metav1.GetOptions{})
		if err != nil {
			wrong = errors.Join(wrong, unlessStale(err))
			continue
		}
		before, _ := u.Object["status"].(map[string]any)
		status := map[string]any{"conditions": conditions(before, one.wrong, deployments[c.name], c.replicas, time.Now())}
		if sameJSON(before, status) {
			continue
		}
		u.Object["status"] = status
		_, err = client.UpdateStatus(ctx, u, metav1.UpdateOptions{FieldManager: manager})
		wrong = errors.Join(wrong, unlessStale(err))
	}
	return wrong
}

// conditions are the two of a component. After a reconcile that failed the second stays as it
// was. Their times change with their status alone.
func conditions(before map[string]any, wrong error, d *appsv1.Deployment, replicas int32, now time.Time) []any {
	available := map[string]any{"type": "Available", "status": "False", "reason": "DeploymentNotReady", "message": "Deployment is not ready"}
	ready := map[string]any{"type": "DynamoComponentReady", "status": "False", "reason": "ComponentNotReady", "message": "DynamoComponent is not ready"}
	switch {
	case wrong != nil:
		available["reason"], available["message"] = "Reconciling", "Failed to reconcile DynamoComponentDeployment: "+wrong.Error()
		ready["status"], ready["reason"], ready["message"] = "Unknown", "Reconciling", "Starting to reconcile DynamoComponentDeployment"
	case d != nil && d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= replicas:
		available["status"], available["reason"], available["message"] = "True", "DeploymentReady", "Deployment is ready"
		ready["status"], ready["reason"], ready["message"] = "True", "ComponentReady", "DynamoComponent is ready"
	}
	old, _ := before["conditions"].([]any)
	for _, c := range []map[string]any{available, ready} {
		c["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
		for _, one := range old {
			if was, ok := one.(map[string]any); ok && was["type"] == c["type"] && was["status"] == c["status"] {
				c["lastTransitionTime"] = was["lastTransitionTime"]
			}
		}
	}
	return []any{available, ready}
}

// warn records that something of an object went wrong.
func (op *operator) warn(ctx context.Context, of *unstructured.Unstructured, reason, message string) {
	op.record(ctx, of, corev1.EventTypeWarning, reason, message)
}

// record records an event of an object. What was told before is counted.
func (op *operator) record(ctx context.Context, of *unstructured.Unstructured, kind, reason, message string) {
	sum := sha256.Sum256([]byte(string(of.GetUID()) + reason + message))
	name := of.GetName() + "." + hex.EncodeToString(sum[:8])
	client := op.api.Resource(eventsResource).Namespace(of.GetNamespace())
	now, count := time.Now().UTC().Format(time.RFC3339), int64(1)
	first := any(now)
	if was, err := client.Get(ctx, name, metav1.GetOptions{}); err == nil {
		n, _, _ := unstructured.NestedInt64(was.Object, "count")
		count, first = n+1, was.Object["firstTimestamp"]
		was.Object["count"], was.Object["lastTimestamp"] = count, now
		if _, err := client.Update(ctx, was, metav1.UpdateOptions{FieldManager: manager}); err == nil {
			return
		}
	}
	e := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": of.GetNamespace()},
		"involvedObject": map[string]any{"apiVersion": of.GetAPIVersion(), "kind": of.GetKind(), "name": of.GetName(), "namespace": of.GetNamespace(), "uid": string(of.GetUID())},
		"reason":         reason, "message": message, "type": kind, "count": count, "firstTimestamp": first, "lastTimestamp": now,
		"source": map[string]any{"component": strings.ToLower(of.GetKind())},
	}}
	if _, err := client.Create(ctx, e, metav1.CreateOptions{FieldManager: manager}); err != nil && !apierrors.IsAlreadyExists(err) {
		op.Logf("operator: event %s of %s: %v", reason, of.GetName(), err)
	}
}
