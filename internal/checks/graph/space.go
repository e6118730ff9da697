package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
)

// SpaceAPI is what is asked of a cluster to see all that is in a namespace.
type SpaceAPI interface {
	API
	NamespacedKinds(ctx context.Context) (kinds []kube.Kind, unread []error, err error)
	ListMetadata(ctx context.Context, k kube.Kind, namespace string) ([]kube.Object, error)
}

// Space is the namespace that runs share, with all that is in it but what Kubernetes itself
// puts into every namespace, and what became of it.
type Space struct {
	Namespace string      `json:"namespace"`
	Objects   []Inside    `json:"objects"`
	Unlisted  []string    `json:"unlisted"`        // kinds that could not be listed, and why
	Removed   bool        `json:"removed"`         // or would be
	Stays     SpaceReason `json:"stays,omitempty"` // "": it does not
}

// Inside is an object in a namespace.
type Inside struct {
	Kind string `json:"kind"` // as kubectl takes it: Pod, Queue.scheduling.run.ai
	Name string `json:"name"`
	Run  string `json:"run,omitempty"` // that made it, by its label; "": it is not of a run
}

// SpaceReason is why a namespace is not removed.
type SpaceReason string

// The reasons.
const (
	SpaceAbsent   SpaceReason = "absent"
	SpaceForeign  SpaceReason = "not-made-by-a-run"
	SpaceInUse    SpaceReason = "not-empty"
	SpaceUnlisted SpaceReason = "not-listed"
	SpaceLeaving  SpaceReason = "being-deleted"
	SpaceChanged  SpaceReason = "changed"
	SpaceStuck    SpaceReason = "still-there"
)

// Why words the reason.
func (s *Space) Why() string {
	switch s.Stays {
	case SpaceAbsent:
		return "there is no namespace " + s.Namespace
	case SpaceForeign:
		return "no run made namespace " + s.Namespace + ": it does not carry the label " + LabelOwner + "=" + OwnerValue
	case SpaceInUse:
		return fmt.Sprintf("namespace %s has %s in it that would be deleted with it", s.Namespace, count(len(s.Objects), "object"))
	case SpaceUnlisted:
		return fmt.Sprintf("%s could not be listed in namespace %s, so what would be deleted with it is unknown", count(len(s.Unlisted), "kind"), s.Namespace)
	case SpaceLeaving:
		return "namespace " + s.Namespace + " is being deleted already"
	case SpaceChanged:
		return "namespace " + s.Namespace + " was changed while it was looked into: a run may have begun in it"
	case SpaceStuck:
		return "namespace " + s.Namespace + " was deleted, and is still there"
	}
	return ""
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// RemoveSpace lists all that is in the namespace that runs share, of every kind that the server
// has, and deletes the namespace if a run made it and nothing is in it. What could not be
// listed counts as something. gone is what a dry run takes for removed; with dryRun nothing is
// deleted. The list is of metadata alone, so that no Secret is read.
func RemoveSpace(ctx context.Context, api SpaceAPI, namespace string, gone []Removed, dryRun bool, told Told) (*Space, error) {
	s := &Space{Namespace: namespace, Objects: []Inside{}, Unlisted: []string{}}
	object, err := api.Read(ctx, resNamespaces, "", namespace)
	if kube.IsNotFound(err) {
		s.Stays = SpaceAbsent
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.look(ctx, api, gone, told); err != nil {
		return nil, err
	}
	switch {
	case object.Deleting():
		s.Stays = SpaceLeaving
	case !sharedSpace(object):
		s.Stays = SpaceForeign
	case len(s.Unlisted) > 0:
		s.Stays = SpaceUnlisted
	case len(s.Objects) > 0:
		s.Stays = SpaceInUse
	case dryRun:
		s.Removed = true
	default:
		return s, s.remove(ctx, api, object, told)
	}
	return s, nil
}

// look lists what is in the namespace.
func (s *Space) look(ctx context.Context, api SpaceAPI, gone []Removed, told Told) error {
	defer told.waiting("")
	kinds, unread, err := api.NamespacedKinds(ctx)
	if err != nil {
		return err
	}
	for _, err := range unread {
		s.Unlisted = append(s.Unlisted, err.Error())
	}
	seen := map[string]bool{} // by UID: some kinds are served by two groups
	for _, kind := range kinds {
		told.waiting("a list of " + kind.Name + " in namespace " + s.Namespace)
		all, err := api.ListMetadata(ctx, kind, s.Namespace)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.Unlisted = append(s.Unlisted, err.Error())
			continue
		}
		for _, o := range all {
			if o.UID() == "" || seen[o.UID()] || standard(kind, o) || isGone(kind, o, gone) {
				continue // one without a UID is computed, as metrics are, and goes with what it is of
			}
			seen[o.UID()] = true
			s.Objects = append(s.Objects, Inside{Kind: kind.String(), Name: o.Name(), Run: runOf(o)})
		}
	}
	slices.SortFunc(s.Objects, func(a, b Inside) int {
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})
	slices.Sort(s.Unlisted)
	return nil
}

// standard says that Kubernetes puts such an object into every namespace, or that it tells of
// another and ends by itself.
func standard(kind kube.Kind, o kube.Object) bool {
	switch kind.Group + "/" + kind.Kind {
	case "/ConfigMap":
		return o.Name() == "kube-root-ca.crt"
	case "/ServiceAccount":
		return o.Name() == "default"
	case "/Event", "events.k8s.io/Event":
		return true
	}
	return false
}

// isGone says that an object is taken for removed, or what owns it is.
func isGone(kind kube.Kind, o kube.Object, gone []Removed) bool {
	has := func(kind, name string) bool {
		return slices.ContainsFunc(gone, func(r Removed) bool {
			return r.Namespace == o.Namespace() && r.Kind == kind && r.Name == name
		})
	}
	return has(kind.Kind, o.Name()) || slices.ContainsFunc(o.List("metadata", "ownerReferences"), func(owner kube.Object) bool {
		return has(owner.Text("kind"), owner.Text("name"))
	})
}

// runOf is the run that an object says that it is of; "": it is of none.
func runOf(o kube.Object) string {
	if o.Labels()[LabelOwner] != OwnerValue {
		return ""
	}
	return o.Labels()[LabelRun]
}

// remove deletes the namespace as it was when it was looked into.
func (s *Space) remove(ctx context.Context, api API, object kube.Object, told Told) error {
	err := api.Delete(ctx, resNamespaces, "", s.Namespace, kube.DeleteOptions{UID: object.UID(), ResourceVersion: object.ResourceVersion()})
	switch {
	case kube.IsConflict(err):
		s.Stays = SpaceChanged
		return nil
	case err != nil && !kube.IsNotFound(err):
		return err
	}
	r := &remover{api: api, told: told}
	s.Removed = r.gone(ctx, resNamespaces, object, namespaceGoneWithin)
	if !s.Removed {
		s.Stays = SpaceStuck
	}
	told.waiting("")
	return nil
}
