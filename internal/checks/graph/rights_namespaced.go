package graph

import (
	"slices"
	"strings"
)

// NamespacedRights are all that it takes to run, to attach to and to clean up after a run that
// is in one namespace. They follow from Rights: what is used in a namespace is used in that
// one, what is made in the cluster is not made, and what is read there may be missing.
func NamespacedRights() []Right {
	var all, reading, snapshot []Right
	for _, r := range Rights() {
		switch {
		case r.Need.Words == unprepared.Words || r.Need.Words == unpreparedL.Words || r.Need.Words == withKAI.Words:
		case r.Need.Words == forSnapshot.Words:
			snapshot = append(snapshot, r)
		case r.Where == InRun || r.Where == InValidation:
			all = merged(all, r)
		case !slices.ContainsFunc(r.Verbs, func(v string) bool { return v != "get" && v != "list" }):
			r.Where = InReading
			reading = append(reading, r)
		}
	}
	for _, r := range []Right{
		{"", "namespaces", []string{"get"}, InNamespace, "whether it is there, and stays", always},
		{"", "persistentvolumeclaims", []string{"delete"}, InNamespace, "takes it away again", withCache},
		{"resource.k8s.io", "resourceclaimtemplates", []string{"delete"}, InNamespace, "takes it away again", withClaims},
		{"resource.k8s.io", "resourceclaims", []string{"list"}, InNamespace, "which GPU each worker has; whether its own are given back", withClaims},
	} {
		all = merged(all, r)
	}
	return slices.Concat(all, reading, snapshot)
}

// merged adds a right to those in the namespace: one row for a kind, with every verb. What one
// of two rows needs always is needed always.
func merged(all []Right, r Right) []Right {
	r.Where, r.Verbs = InNamespace, slices.Clone(r.Verbs)
	i := slices.IndexFunc(all, func(o Right) bool { return o.Group == r.Group && o.Resource == r.Resource })
	if i < 0 {
		return append(all, r)
	}
	was := &all[i]
	for _, verb := range r.Verbs {
		if !slices.Contains(was.Verbs, verb) {
			was.Verbs = append(was.Verbs, verb)
		}
	}
	if !strings.Contains(was.For, r.For) {
		was.For += "; " + r.For
	}
	if r.Need.Words == "" {
		was.Need = always
	}
	return all
}

// rightsOf is the table that a run goes by.
func rightsOf(s *Settings) []Right {
	if s.Namespaced {
		return NamespacedRights()
	}
	return Rights()
}
