package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The accounts that Dynamo's operator makes: one for the pods of each graph, which is the
// graph's own, and two in each namespace with a graph, which stay there when the graph goes.
const (
	plannerAccount = "planner-serviceaccount"
	pickerAccount  = "epp-serviceaccount"

	groupRights = "rbac.authorization.k8s.io"
)

// account is the ServiceAccount of a component's pods.
func (g *graph) account(c *component) string {
	if c.kind == "epp" {
		return pickerAccount
	}
	return g.discovery()
}

// discovery is the account by which the pods of a graph find each other.
func (g *graph) discovery() string { return g.name + "-k8s-service-discovery" }

// accounts are the graph's own account and its rights.
func (g *graph) accounts() ([]*unstructured.Unstructured, error) {
	name := metav1.ObjectMeta{Name: g.discovery(), Labels: map[string]string{labelGraph: g.name}}
	verbs := []string{"get", "list", "watch"}
	return g.owned(map[string]metav1.Object{
		"v1 ServiceAccount": &corev1.ServiceAccount{ObjectMeta: name},
		groupRights + "/v1 Role": &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"endpoints", "pods"}, Verbs: verbs},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: verbs},
			{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamoworkermetadatas"}, Verbs: append([]string{"create", "update", "patch", "delete"}, verbs...)},
		}},
		groupRights + "/v1 RoleBinding": &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: groupRights, Kind: "Role", Name: g.discovery()},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: g.discovery(), Namespace: g.namespace}}},
	}, "v1 ServiceAccount", groupRights+"/v1 Role", groupRights+"/v1 RoleBinding")
}

// makeShared makes the accounts of a graph's namespace that are not there.
func (op *operator) makeShared(ctx context.Context, g *graph) error {
	names := []string{plannerAccount}
	if g.picked() {
		names = append(names, pickerAccount)
	}
	for _, name := range names {
		labels := map[string]string{"app.kubernetes.io/managed-by": manager, "app.kubernetes.io/component": "rbac", "app.kubernetes.io/name": name}
		account, err := objectOf("v1", "ServiceAccount", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		if err != nil {
			return err
		}
		binding, err := objectOf(groupRights+"/v1", "RoleBinding", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-binding", Labels: labels},
			RoleRef:  rbacv1.RoleRef{APIGroup: groupRights, Kind: "ClusterRole", Name: "dynamo-operator-" + name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: g.namespace}}})
		if err != nil {
			return err
		}
		for _, u := range []*unstructured.Unstructured{account, binding} {
			_, err := op.api.Resource(resourceOf(u)).Namespace(g.namespace).Create(ctx, u, metav1.CreateOptions{FieldManager: manager})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("failed to ensure the rights of %s: %w", name, err)
			}
		}
	}
	return nil
}

// objectOf is an object as the API server takes it.
func objectOf(apiVersion, kind string, o any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, nil
}
