package graph

import "time"

const containerErrorLasts = 20 * time.Second

// containerNotMade finds containers that the node cannot make: a Secret or a ConfigMap
// that is not there, a user that is not allowed.
func containerNotMade(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		for _, c := range statusesOf(pod) {
			waiting := c.Map("state", "waiting")
			switch reason := waiting.Text("reason"); reason {
			case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
				all = append(all, Cause{Reason: "ContainerNotMade", Source: pod.Name(), Worker: workerName(pod), After: containerErrorLasts,
					Text:   sentence(reason+": "+waiting.Text("message"), causeText),
					Advice: []string{"`kubectl describe pod " + pod.Name() + " -n " + pod.Namespace() + "`"}})
			}
		}
	}
	return all
}
