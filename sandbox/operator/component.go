package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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
			child.SetOwnerReferences([]metav1.OwnerReference{ownerOf(made.GetAPIVersion(), made.GetKind(), made.GetName(), made.GetUID())})
			_, err := op.api.Resource(resourceOf(child)).Namespace(g.namespace).Apply(ctx, child.GetName(), child, metav1.ApplyOptions{FieldManager: manager, Force: true})
			if err != nil && away(err) {
				return fmt.Errorf("%s %s: %w", child.GetKind(), child.GetName(), err)
			}
			if err != nil {
				one.wrong = fmt.Errorf("failed to create %s %s/%s: %w", child.GetKind(), g.namespace, child.GetName(), err)
				op.warn(ctx, made, "Create"+child.GetKind(), fmt.Sprintf("Failed to create %s %s/%s: %v", child.GetKind(), g.namespace, child.GetName(), err))
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
		status := map[string]any{"conditions": []any{available(before, one.wrong, deployments[c.name], c.replicas, time.Now())}}
		if sameJSON(before, status) {
			continue
		}
		u.Object["status"] = status
		_, err = client.UpdateStatus(ctx, u, metav1.UpdateOptions{FieldManager: manager})
		wrong = errors.Join(wrong, unlessStale(err))
	}
	return wrong
}

// available is the one condition of a component. Its time changes with its status alone.
func available(before map[string]any, wrong error, d *appsv1.Deployment, replicas int32, now time.Time) map[string]any {
	is, reason, message := "False", "DeploymentNotReady", "Deployment is not ready"
	switch {
	case wrong != nil:
		reason, message = "Reconciling", "Failed to reconcile DynamoComponentDeployment: "+wrong.Error()
	case d != nil && d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= replicas:
		is, reason, message = "True", "DeploymentReady", "Deployment is ready"
	}
	at := now.UTC().Format(time.RFC3339)
	if all, ok := before["conditions"].([]any); ok && len(all) == 1 {
		if c, ok := all[0].(map[string]any); ok && c["status"] == is {
			if then, ok := c["lastTransitionTime"].(string); ok {
				at = then
			}
		}
	}
	return map[string]any{"type": "Available", "status": is, "reason": reason, "message": message, "lastTransitionTime": at}
}

// warn records an event of an object. What was told before is counted.
func (op *operator) warn(ctx context.Context, of *unstructured.Unstructured, reason, message string) {
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
		"reason":         reason, "message": message, "type": corev1.EventTypeWarning, "count": count, "firstTimestamp": first, "lastTimestamp": now,
		"source": map[string]any{"component": "dynamocomponentdeployment"},
	}}
	if _, err := client.Create(ctx, e, metav1.CreateOptions{FieldManager: manager}); err != nil && !apierrors.IsAlreadyExists(err) {
		op.Logf("operator: event %s of %s: %v", reason, of.GetName(), err)
	}
}
