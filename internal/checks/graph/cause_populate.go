package graph

// populateFailed finds that the model could not be fetched into its volume. The Job is
// tried once, so that a failure of it is final.
func populateFailed(s *Scene) []Cause {
	if !holds(s.Populate, "Failed") {
		return nil
	}
	failed := conditionOf(s.Populate, "Failed")
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
	c.Text = sentence(c.Text, 400)
	return []Cause{c}
}
