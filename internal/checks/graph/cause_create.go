package graph

import (
	"time"

	"aicr/internal/kube"
)

// A new namespace has its account and its quota some seconds after it.
const createLasts = 20 * time.Second

// notCreated finds that pods are not even made: a quota, or a policy of the namespace.
// Whose pods they are is said: those of this program's own Jobs are no matter of Dynamo's
// operator.
func notCreated(s *Scene) (all []Cause) {
	seen := map[string]bool{}
	for _, c := range s.Cliques { // which say it themselves
		if len(c.List("status", "lastErrors")) > 0 {
			seen["PodClique "+c.Name()] = true
		}
	}
	for _, e := range s.Events {
		of := e.Map("involvedObject")
		key := of.Text("kind") + " " + of.Text("name")
		if !isRefusal(e) || seen[key] {
			continue
		}
		seen[key] = true
		last := s.newest(func(e kube.Object) bool { return isRefusal(e) && isOf(e, of) })
		made := s.newest(func(e kube.Object) bool { return isMade(e) && isOf(e, of) })
		if made != nil && eventTime(made).After(eventTime(last)) {
			continue
		}
		all = append(all, s.refused(of.Text("kind"), of.Text("name"), last.Namespace(), last.Text("message")))
	}
	return all
}

func isOf(e, of kube.Object) bool {
	o := e.Map("involvedObject")
	return o.Text("kind") == of.Text("kind") && o.Text("name") == of.Text("name")
}
