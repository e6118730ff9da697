package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

// nodeChanged finds that the node which serves was cordoned or deleted during the run. What
// runs there goes on; what is to be drained next does not.
func nodeChanged(ev *Evidence) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"`kubectl describe node NODE`: is it about to be drained, or replaced by its autoscaler?"}}
	var words []string
	for _, e := range ev.start.nodes {
		word := fmt.Sprintf("node %s %s", e.Source, nodeWords(e.Reason))
		words = append(words, word)
		if e.Text != "" {
			word += ": " + shorten(e.Text)
		}
		f.Evidence = append(f.Evidence, word)
	}
	if len(words) == 0 {
		return nil
	}
	f.Summary = strings.Join(words, ", ")
	return []spec.Finding{f}
}

func nodeWords(reason string) string {
	switch reason {
	case spec.NodeCordoned:
		return "was cordoned during the run"
	case spec.NodeDeleted:
		return "was deleted from the cluster during the run"
	case spec.NodeRegistered:
		return "was deleted from the cluster during the run, and registered again"
	}
	return "changed during the run (" + reason + ")"
}
