package graph

import (
	"context"
	"slices"
	"strings"

	"aicr/internal/kube"
)

// A run has a namespace of its own, and all that is in it is the run's. A namespaced run shares
// its namespace, and tells its own by the 8 hex of its id, which all of its names have, and by
// the labels that its pods carry.

// podsOfRun are the pods of a run's graph and of the Jobs beside it.
func podsOfRun(ctx context.Context, api API, s *Settings) ([]kube.Object, error) {
	n := s.Names()
	all, err := api.List(ctx, resPods, n.Namespace, "")
	if s.Namespaced {
		all = slices.DeleteFunc(all, func(o kube.Object) bool { return !n.ownPod(o, s.Run) })
	}
	return all, err
}

// ownPod says that a pod is of the run's graph, or of one of its Jobs.
func (n *Names) ownPod(pod kube.Object, run string) bool {
	labels := pod.Labels()
	job := labels["batch.kubernetes.io/job-name"]
	return oursOf(pod, run) || labels[graphLabel] == n.Graph || job != "" && slices.Contains([]string{n.Populate, n.Load, n.Trial}, job)
}

// claimsOfRun are the claims of GPUs of a run's pods, whose names begin with the pods'.
func claimsOfRun(ctx context.Context, api API, s *Settings) ([]kube.Object, error) {
	n := s.Names()
	all, err := api.List(ctx, resDRA(s.DRA, "resourceclaims"), n.Namespace, "")
	if s.Namespaced {
		all = slices.DeleteFunc(all, func(o kube.Object) bool { return !n.names(o.Name()) })
	}
	return all, err
}

// ofEvent says that an event is of something of the run.
func ofEvent(s *Settings, event kube.Object) bool {
	n := s.Names()
	return !s.Namespaced || n.names(event.Text("involvedObject", "name"))
}

// ownOf are those of some objects of the run's namespace that are the run's.
func ownOf(s *Settings, all []kube.Object) []kube.Object {
	if !s.Namespaced {
		return all
	}
	n := s.Names()
	return slices.DeleteFunc(all, func(o kube.Object) bool { return !n.names(o.Name()) })
}

// names says that an object of such a name is the run's: what is made of a graph has the
// graph's name in it.
func (n *Names) names(object string) bool { return strings.Contains(object, "-"+n.Short) }
