package graph

import "time"

// A new pod may take the place of one that was put out.
const evictedLasts = 10 * time.Second

// evicted finds pods that the node put out, or did not let in.
func evicted(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		reason := pod.Text("status", "reason")
		if phaseOf(pod) != "Failed" || reason == "" {
			continue
		}
		text := pod.Text("status", "message")
		if reason != "Evicted" || text == "" { // it is said once
			text = reason + ": " + text
		}
		all = append(all, Cause{Reason: "Evicted", Source: pod.Name(), Worker: workerName(pod), After: evictedLasts,
			Text:   sentence(text, causeText),
			Advice: []string{"`kubectl describe node " + pod.Text("spec", "nodeName") + "`: is it short of memory or of disk?"}})
	}
	return all
}
