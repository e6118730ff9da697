package graph

import (
	"context"
	"slices"

	"aicr/internal/kube"
)

// ofOurs lists what carries our label in all namespaces. Who may not, as with the rights
// of UserRoles alone, looks where runs can be: in the namespaces of known, and in the
// usual one. Where they may not look there either, that is the error.
func ofOurs(ctx context.Context, api API, res kube.Resource, selector, usual string, known []string) ([]kube.Object, error) {
	all, err := api.List(ctx, res, "", selector)
	if !kube.IsForbidden(err) || slices.Contains([]kube.Resource{resNamespaces, resQueues, resClusterRoles, resClusterBinds}, res) {
		return all, err // what is in no namespace is nowhere else
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(known), usual)))) {
		some, err := api.List(ctx, res, namespace, selector)
		if kube.IsForbidden(err) && !slices.Contains(known, namespace) && len(known) > 0 {
			continue // whoever was given another namespace has no run in the usual one
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// placesOf are the namespaces that an object of ours speaks of: its own name where it is
// one that runs share, and whom a binding is for.
func placesOf(o kube.Object) (all []string) {
	if o.Namespace() == "" && sharedSpace(o) {
		all = append(all, o.Name())
	}
	for _, who := range o.List("subjects") {
		if namespace := who.Text("namespace"); namespace != "" {
			all = append(all, namespace)
		}
	}
	return all
}
