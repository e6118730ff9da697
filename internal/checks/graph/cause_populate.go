package graph

import "aicr/internal/kube"

// populateFailed finds that the model could not be fetched into its volume. The Job is
// tried once, so that a failure of it is final.
func populateFailed(s *Scene) []Cause {
	failed := conditionOf(s.Populate, "Failed")
	if failed.Text("status") != "True" {
		if failed = s.failedBeside(); failed == nil {
			return nil
		}
	}
	c := Cause{Reason: "PopulateFailed", Source: "Job " + s.Populate.Name(),
		Text:   failed.Text("reason") + ": " + failed.Text("message"),
		Advice: []string{"its log is in diagnostics/: a gated model wants HF_TOKEN, and a cluster without a way out a mirror"}}
	for _, pod := range s.Pods {
		if roleOf(pod) != rolePopulate {
			continue
		}
		for _, status := range statusesOf(pod) {
			if lines := s.Logs[logOf{pod.Name(), status.Text("name"), false}]; len(lines) > 0 {
				c.Lines = lines
				c.Text = lines[len(lines)-1] + " (" + c.Text + ")"
			}
		}
	}
	c.Text = sentence(c.Text, causeText)
	return []Cause{c}
}

// failedBeside is a fetch that has failed in a pod that a sidecar keeps running, so that its
// Job does not say so.
func (s *Scene) failedBeside() kube.Object {
	for _, pod := range s.Pods {
		if roleOf(pod) != rolePopulate {
			continue
		}
		beside := sidecarOf(pod, populateContainer)
		if beside == nil || s.fetched() != nil {
			continue
		}
		return kube.Object{"reason": "ContainerFailed", "message": "container " + beside.container + " (" + beside.image + ") keeps the pod running"}
	}
	return nil
}
