package graph

import (
	"strings"

	"aicr/internal/kube"
)

// cliqueFailed finds that Grove cannot make the cliques of a graph or the pods of a clique,
// where the graph stays pending. It says so in the last errors of the set or of the clique, and
// takes them back when it can.
func cliqueFailed(s *Scene) (all []Cause) {
	for _, set := range s.CliqueSets {
		if cause := s.groveFailed("PodCliqueSet", set, "availableReplicas"); cause != nil {
			all = append(all, *cause)
		}
	}
	for _, clique := range s.Cliques {
		if cause := s.groveFailed("PodClique", clique, "readyReplicas"); cause != nil {
			all = append(all, *cause)
		}
	}
	for _, e := range s.Events { // of sets that cannot be read
		of := e.Map("involvedObject")
		if e.Text("reason") == groveRefused && of.Text("kind") == "PodCliqueSet" && len(s.CliqueSets) == 0 {
			last := s.newest(func(e kube.Object) bool { return e.Text("reason") == groveRefused && isOf(e, of) })
			if cause := groveCause("PodCliqueSet", of.Text("name"), last.Namespace(), last.Text("message")); !s.servesSince(last) {
				return append(all, cause)
			}
		}
	}
	return all
}

// groveRefused is the reason of Grove's event that a clique could not be made.
const groveRefused = "PodCliqueCreateOrUpdateFailed"

// groveFailed is the cause of an object of Grove's that has a last error and is not complete,
// by the field that counts what is; nil: there is none.
func (s *Scene) groveFailed(kind string, o kube.Object, complete string) *Cause {
	errs := o.List("status", "lastErrors")
	want, _ := o.Int("spec", "replicas")
	have, _ := o.Int("status", complete)
	if len(errs) == 0 || want > 0 && have >= want {
		return nil
	}
	last := errs[len(errs)-1]
	code, text := last.Text("code"), last.Text("description")
	if _, why, ok := strings.Cut(text, "cause: "); ok { // the server's own words come last
		text = why
	}
	cause := groveCause(kind, o.Name(), o.Namespace(), code+": "+text)
	if kind == "PodClique" && strings.HasPrefix(code, "ERR_CREATE_POD") {
		cause = s.refused(kind, o.Name(), o.Namespace(), code+": "+text)
	}
	return &cause
}

func groveCause(kind, name, namespace, text string) Cause {
	return Cause{Reason: "GroveFailed", Source: kind + " " + name, After: createLasts,
		Text:   sentence("Grove cannot make what "+kind+" "+name+" asks for: "+text, causeText),
		Advice: append(refusalAdvice(text, namespace), "`"+kubectlDescribe(kind, name, namespace)+"`, and the log of Grove's operator")}
}
