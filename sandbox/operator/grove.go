package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Where Grove is, Dynamo's operator makes a graph a PodCliqueSet. Grove makes of that a
// PodClique for each component, and the pods of it. What is played here is what a graph shows
// of that: who owns what, and where it is said why something could not be made. Gangs of pods,
// scheduling gates and what Grove does when a graph changes are not played.

const (
	groveAPI     = "grove.io/v1alpha1"
	groveManager = "grove-operator"

	labelClique = "grove.io/podclique"
	labelGang   = "grove.io/podgang"
	labelPartOf = "app.kubernetes.io/part-of"
)

var (
	cliqueSets = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "podcliquesets"}
	cliques    = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "podcliques"}
	podsOfAll  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// retryPods is how long Grove leaves a clique alone whose pods could not be made; seenWithin is
// how long a pod that was made may take to be heard of.
const (
	retryPods  = 2 * time.Second
	seenWithin = 10 * time.Second
)

// clique is what Grove calls a component of a graph.
func (g *graph) clique(c *component) string { return g.name + "-0-" + strings.ToLower(c.name) }

// cliqueSet is what Dynamo's operator makes of a graph for Grove.
func (g *graph) cliqueSet() (*unstructured.Unstructured, error) {
	var all []any
	for i := range g.components {
		c := &g.components[i]
		template := g.deployment(c).Spec.Template
		var pod, labels, annotations map[string]any
		if err := errors.Join(recode(template.Spec, &pod), recode(template.Labels, &labels), recode(template.Annotations, &annotations)); err != nil {
			return nil, err
		}
		name := strings.ToLower(c.name)
		all = append(all, fields{"name": name, "labels": labels, "annotations": annotations,
			"spec": fields{"roleName": name, "replicas": int64(c.replicas), "minAvailable": int64(1), "podSpec": pod}})
	}
	u := &unstructured.Unstructured{Object: fields{"spec": fields{"replicas": int64(1), "template": fields{"cliques": all}}}}
	u.SetName(g.name)
	u.SetLabels(map[string]string{labelGraph: g.name})
	return u, nil
}

// lookAtCliques makes what is missing of a graph's cliques and their pods, and tells of both.
// What is ready of them is given as the status of a Deployment would be.
func (op *operator) lookAtCliques(ctx context.Context, g *graph) (map[string]*appsv1.Deployment, error) {
	set, err := op.api.Resource(cliqueSets).Namespace(g.namespace).Get(ctx, g.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		delete(op.applied, string(g.uid)) // it is made again
		return nil, nil
	}
	if err != nil || set.GetDeletionTimestamp() != nil {
		return nil, err
	}
	have := map[string]*appsv1.Deployment{}
	var wrong error
	refused := ""
	for i := range g.components {
		c := &g.components[i]
		one, err := op.cliqueOf(ctx, set, g.clique(c), strings.ToLower(c.name))
		switch {
		case err != nil && away(err):
			wrong = errors.Join(wrong, err)
		case err != nil:
			op.warn(ctx, set, "PodCliqueCreateOrUpdateFailed", fmt.Sprintf("PodClique %s/%s creation or updation failed: %v", g.namespace, g.clique(c), err))
			refused = fmt.Sprintf("Error creating or updating PodClique: %s/%s for PodCliqueSet: %s/%s, cause: %v", g.namespace, g.clique(c), g.namespace, g.name, err)
		case one.GetDeletionTimestamp() == nil:
			have[c.name], err = op.lookAtClique(ctx, one)
			wrong = errors.Join(wrong, err)
		}
	}
	status := fields{"replicas": int64(1)}
	if refused != "" {
		status["lastErrors"] = lastErrors(set, "ERR_CREATE_OR_UPDATE_PODCLIQUE", "failed to sync PodClique", refused)
	}
	return have, errors.Join(wrong, op.tellGrove(ctx, set, status))
}

// cliqueOf is a clique of a set. One that is not there is made.
func (op *operator) cliqueOf(ctx context.Context, set *unstructured.Unstructured, name, role string) (*unstructured.Unstructured, error) {
	client := op.api.Resource(cliques).Namespace(set.GetNamespace())
	one, err := client.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return one, err
	}
	all, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "cliques")
	for _, template := range all {
		t := template.(map[string]any)
		if t["name"] != role {
			continue
		}
		u := &unstructured.Unstructured{Object: fields{"spec": t["spec"]}}
		u.SetAPIVersion(groveAPI)
		u.SetKind("PodClique")
		u.SetName(name)
		labels, _, _ := unstructured.NestedStringMap(t, "labels")
		annotations, _, _ := unstructured.NestedStringMap(t, "annotations")
		if labels == nil {
			labels = map[string]string{}
		}
		labels["app.kubernetes.io/managed-by"], labels[labelPartOf], labels[labelGang] = groveManager, set.GetName(), set.GetName()+"-0"
		u.SetLabels(labels)
		u.SetAnnotations(annotations)
		u.SetOwnerReferences([]metav1.OwnerReference{ownerOf(groveAPI, "PodCliqueSet", set.GetName(), set.GetUID())})
		return client.Create(ctx, u, metav1.CreateOptions{FieldManager: groveManager})
	}
	return nil, fmt.Errorf("the set has no clique %s", role)
}

// lookAtClique makes the pods that a clique lacks, and tells how many there are.
func (op *operator) lookAtClique(ctx context.Context, clique *unstructured.Unstructured) (*appsv1.Deployment, error) {
	all, err := op.pods.Pods(clique.GetNamespace()).List(labels.SelectorFromSet(labels.Set{labelClique: clique.GetName()}))
	if err != nil {
		return nil, err
	}
	born := op.born[clique.GetUID()]
	s := appsv1.DeploymentStatus{}
	scheduled := int64(0)
	for _, pod := range all {
		delete(born, pod.UID)
		if !metav1.IsControlledBy(pod, clique) || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		s.Replicas++
		if pod.Spec.NodeName != "" {
			scheduled++
		}
		if isReady(pod) {
			s.ReadyReplicas++
		}
	}
	for uid, at := range born {
		if time.Since(at) > seenWithin {
			delete(born, uid)
		}
		s.Replicas++
	}
	wanted, _, _ := unstructured.NestedInt64(clique.Object, "spec", "replicas")
	status := fields{}
	if errs, ok, _ := unstructured.NestedSlice(clique.Object, "status", "lastErrors"); ok {
		status["lastErrors"] = errs // until the next try
	}
	var wrong error
	if int64(s.Replicas) < wanted && time.Since(op.refused[clique.GetUID()]) >= retryPods {
		made, err := op.makePods(ctx, clique, wanted-int64(s.Replicas))
		s.Replicas += made
		delete(status, "lastErrors")
		if err != nil && away(err) {
			wrong = err
		} else if err != nil {
			status["lastErrors"] = lastErrors(clique, "ERR_CREATE_POD", "failed to sync Pod", err.Error())
		}
	}
	s.UpdatedReplicas = s.Replicas
	status["replicas"], status["readyReplicas"], status["scheduledReplicas"] = int64(s.Replicas), int64(s.ReadyReplicas), scheduled
	status["updatedReplicas"], status["scheduleGatedReplicas"], status["observedGeneration"] = int64(s.UpdatedReplicas), int64(0), clique.GetGeneration()
	return &appsv1.Deployment{Status: s}, errors.Join(wrong, op.tellGrove(ctx, clique, status))
}

// makePods makes pods of a clique, until one is refused.
func (op *operator) makePods(ctx context.Context, clique *unstructured.Unstructured, n int64) (made int32, err error) {
	podSpec, _, err := unstructured.NestedMap(clique.Object, "spec", "podSpec")
	if err != nil {
		return 0, err
	}
	for range n {
		u := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Pod", "spec": podSpec}}
		u.SetGenerateName(clique.GetName() + "-")
		all := clique.GetLabels()
		all[labelClique] = clique.GetName()
		u.SetLabels(all)
		u.SetAnnotations(clique.GetAnnotations())
		u.SetOwnerReferences([]metav1.OwnerReference{ownerOf(groveAPI, "PodClique", clique.GetName(), clique.GetUID())})
		pod, err := op.api.Resource(podsOfAll).Namespace(clique.GetNamespace()).Create(ctx, u, metav1.CreateOptions{FieldManager: groveManager})
		if err != nil {
			op.refused[clique.GetUID()] = time.Now()
			time.AfterFunc(retryPods, op.look)
			op.warn(ctx, clique, "PodCreateFailed", fmt.Sprintf("Error creating pod : %v", err)) // it has no name yet
			return made, fmt.Errorf("failed to create Pod:  for PodClique %s/%s, cause: %w", clique.GetNamespace(), clique.GetName(), err)
		}
		made++
		if op.born[clique.GetUID()] == nil {
			op.born[clique.GetUID()] = map[types.UID]time.Time{}
		}
		op.born[clique.GetUID()][pod.GetUID()] = time.Now()
		op.record(ctx, clique, corev1.EventTypeNormal, "PodCreateSuccessful", "Created Pod: "+pod.GetName())
	}
	return made, nil
}

// lastErrors are those of an object of Grove's, of which the last try had one. Its time is that
// of the first such: a status that says the same is not written again.
func lastErrors(of *unstructured.Unstructured, code, what, message string) []any {
	text := fmt.Sprintf("%s: [Operation: Sync, Code: %s] message: %s", what, code, message)
	at := time.Now().UTC().Format(time.RFC3339)
	before, _, _ := unstructured.NestedSlice(of.Object, "status", "lastErrors")
	for _, one := range before {
		if was, ok := one.(map[string]any); ok && was["code"] == code && was["description"] == text {
			return before
		}
	}
	return []any{fields{"code": code, "description": text, "observedAt": at}}
}

// tellGrove writes the status of an object of Grove's, where it has changed.
func (op *operator) tellGrove(ctx context.Context, u *unstructured.Unstructured, status map[string]any) error {
	if before, _ := u.Object["status"].(map[string]any); sameJSON(before, status) {
		return nil
	}
	next := u.DeepCopy()
	next.Object["status"] = status
	_, err := op.api.Resource(resourceOf(next)).Namespace(next.GetNamespace()).UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: groveManager})
	return unlessStale(err)
}
