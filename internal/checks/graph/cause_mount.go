package graph

import (
	"strings"
	"time"
)

// Volumes are attached in some tens of seconds, and kubelet complains meanwhile; what is
// not there at all does not come.
const (
	mountLasts   = time.Minute
	missingLasts = 15 * time.Second
)

// notMounted finds pods whose volumes cannot be mounted.
func notMounted(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		e := s.stuckOn(pod, "FailedMount", "FailedAttachVolume")
		if e == nil {
			continue
		}
		after := mountLasts
		if strings.Contains(e.Text("message"), "not found") {
			after = missingLasts
		}
		all = append(all, Cause{Reason: "FailedMount", Source: pod.Name(), Worker: workerName(pod), After: after,
			Text:   sentence(e.Text("message"), causeText),
			Advice: []string{"`kubectl describe pod " + pod.Name() + " -n " + pod.Namespace() + "`: is the volume attached to another node?"}})
	}
	return all
}
