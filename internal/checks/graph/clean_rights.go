package graph

import (
	"context"
	"slices"

	"aicr/internal/kube"
)

// lookout is where it was looked for what runs have left, and where it could not be.
type lookout struct {
	api    API
	usual  string          // the namespace of the validations
	known  []string        // namespaces that runs are kept in, by what was found of them
	graphs []string        // those of graphs, where AIPerf loads
	partly bool            // it was not looked into all namespaces
	closed map[string]bool // those of known that may not be looked into
}

// ofOurs lists what carries our label in all namespaces. Who may not, as with the rights
// of UserRoles alone, looks where runs can be: in the namespaces that are known, and in the
// usual one. Some of them may be of another team, and are closed. Where none is open, that
// is the error.
func (l *lookout) ofOurs(ctx context.Context, res kube.Resource, selector string) ([]kube.Object, error) {
	all, err := l.api.List(ctx, res, "", selector)
	if !kube.IsForbidden(err) || slices.Contains([]kube.Resource{resNamespaces, resQueues, resClusterRoles, resClusterBinds}, res) {
		return all, err // what is in no namespace is nowhere else
	}
	l.partly = true
	known := slices.Clone(l.known)
	if res == resJobs {
		known = append(known, l.graphs...)
	}
	open := false
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(known), l.usual)))) {
		some, refused := l.api.List(ctx, res, namespace, selector)
		switch {
		case kube.IsForbidden(refused) && isRights(res): // who may not has made none
		case kube.IsForbidden(refused) && slices.Contains(known, namespace):
			gone, err := l.gone(ctx, namespace)
			if err != nil {
				return nil, err
			}
			open = open || gone
			l.closed[namespace] = l.closed[namespace] || !gone
		case kube.IsForbidden(refused): // whoever was given another namespace has no run in the usual one
		case refused != nil:
			return nil, refused
		default:
			open = true
			all = append(all, some...)
		}
	}
	if !open {
		return nil, err
	}
	return all, nil
}

// isRights says that a kind is one of rights, of which a run makes some only where an
// administrator has not prepared any.
func isRights(res kube.Resource) bool {
	return slices.Contains([]kube.Resource{resAccounts, resRoles, resRoleBindings, resClusterRoles, resClusterBinds}, res)
}

// gone says that a namespace is no longer there. Who may look into some alone is told that
// this one is forbidden, and not that it is not there.
func (l *lookout) gone(ctx context.Context, namespace string) (bool, error) {
	_, err := l.api.Read(ctx, resNamespaces, "", namespace)
	if kube.IsNotFound(err) {
		return true, nil
	}
	if kube.IsForbidden(err) {
		return false, nil
	}
	return false, err
}

// homesOf are the namespaces that runs are kept in, by an object of theirs: what it says of
// it, where it is, and whom a binding is for; its own name where it is one that runs share.
func homesOf(o kube.Object) (all []string) {
	if o.Namespace() == "" && sharedSpace(o) {
		all = append(all, o.Name())
	}
	if home := o.Annotations()[AnnotationHome]; isLabel(home) { // anybody may have written it
		all = append(all, home)
	}
	if in := o.Namespace(); in != "" && in != NamesOf(o.Labels()[LabelRun]).Namespace {
		all = append(all, in)
	}
	for _, who := range o.List("subjects") {
		if namespace := who.Text("namespace"); isLabel(namespace) {
			all = append(all, namespace)
		}
	}
	return all
}
