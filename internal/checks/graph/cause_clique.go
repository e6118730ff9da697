package graph

import "strings"

// cliqueFailed finds that Grove cannot make the pods of a clique, where the graph stays
// pending. It says so in the clique's last errors, and takes them back when it can.
func cliqueFailed(s *Scene) (all []Cause) {
	for _, c := range s.Cliques {
		errs := c.List("status", "lastErrors")
		want, _ := c.Int("spec", "replicas")
		have, _ := c.Int("status", "readyReplicas")
		if len(errs) == 0 || want > 0 && have >= want {
			continue
		}
		last := errs[len(errs)-1]
		text := last.Text("description")
		if _, why, ok := strings.Cut(text, "cause: "); ok { // the server's own words come last
			text = why
		}
		cause := s.refused("PodClique", c.Name(), c.Namespace(), last.Text("code")+": "+text)
		if !strings.HasPrefix(last.Text("code"), "ERR_CREATE_POD") {
			cause.Reason = "GraphFailed"
			cause.Text = sentence("Grove cannot make PodClique "+c.Name()+": "+last.Text("code")+": "+text, causeText)
		}
		all = append(all, cause)
	}
	return all
}
