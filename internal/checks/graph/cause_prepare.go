package graph

import (
	"regexp"
	"time"
)

// A plugin that restarts is away for some seconds; one that answers wrongly stays so.
const (
	prepareLasts = 10 * time.Second
	pluginAway   = 45 * time.Second
)

var pluginNotThere = regexp.MustCompile(`not registered|DeadlineExceeded|Unavailable|connection refused|no such file`)

// notPrepared finds pods whose GPU the DRA plugin cannot prepare.
func notPrepared(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		e := s.stuckOn(pod, "FailedPrepareDynamicResources")
		if e == nil {
			continue
		}
		after := prepareLasts
		if pluginNotThere.MatchString(e.Text("message")) {
			after = pluginAway
		}
		all = append(all, Cause{Reason: "FailedPrepareDynamicResources", Source: pod.Name(), Worker: workerName(pod), After: after,
			Text: sentence(e.Text("message"), 2000), // the judge looks for words in it
			Advice: []string{"restart the driver, then the DRA kubelet plugin on " + s.Settings.Node + ", then check that its GPUs are allocatable",
				"`kubectl get resourceslices -o wide`"}})
	}
	return all
}
