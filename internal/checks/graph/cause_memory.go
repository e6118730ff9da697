package graph

import (
	"fmt"
	"time"
)

const memoryLasts = 3 * time.Second

// outOfMemory finds containers that were killed for their memory and are not back.
func outOfMemory(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		for _, c := range statusesOf(pod) {
			if c.Bool("ready") {
				continue
			}
			for i, state := range []string{"state", "lastState"} {
				ended := c.Map(state, "terminated")
				if ended.Text("reason") != "OOMKilled" {
					continue
				}
				name, previous := c.Text("name"), i == 1
				logs := "kubectl logs " + pod.Name() + " -n " + pod.Namespace() + " -c " + name
				if previous {
					logs += " --previous"
				}
				all = append(all, Cause{Reason: "OOMKilled", Source: pod.Name(), Worker: workerName(pod), After: memoryLasts,
					Text:   fmt.Sprintf("container %s was killed for its memory, %s", name, limitOf(pod, name)),
					Lines:  s.lastWords(pod, name, previous),
					Advice: []string{"it is the host's memory: give the container more", "`" + logs + "`"}})
				break
			}
		}
	}
	return all
}
