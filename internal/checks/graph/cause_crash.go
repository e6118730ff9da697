package graph

import (
	"fmt"
	"time"

	"aicr/internal/kube"
)

const (
	crashLasts = 10 * time.Second
	wordsCome  = 5 * time.Second
)

// crashLoop finds containers that end again and again. One that ended once may have come
// too early.
func crashLoop(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		for _, c := range statusesOf(pod) {
			restarts, _ := c.Int("restartCount")
			backOff := c.Text("state", "waiting", "reason") == "CrashLoopBackOff"
			ended := c.Map("lastState", "terminated")
			if c.Bool("ready") || ended.Text("reason") == "OOMKilled" || !backOff && restarts < 2 {
				continue
			}
			if c.Text("state", "terminated", "reason") == "Completed" {
				continue // an init container that got through at last
			}
			name, ends := c.Text("name"), restarts
			if !c.Has("state", "running") {
				ends++ // the last one has ended too
			}
			text := fmt.Sprintf("container %s ended %s", name, times(ends))
			if code, ok := ended.Int("exitCode"); ok {
				text += fmt.Sprintf(", last with code %d", code)
			}
			if why := ended.Text("message"); why != "" {
				text += ": " + why
			}
			lines := s.lastWords(pod, name, true)
			if len(lines) > 0 && ended.Text("message") == "" {
				text += ": " + lines[len(lines)-1]
			}
			after := crashLasts
			switch {
			case backOff && len(lines) > 0:
				after = 0
			case backOff: // its log may be had a moment later, and says more than its code
				after = wordsCome
			}
			all = append(all, Cause{Reason: "CrashLoopBackOff", Source: pod.Name(), Worker: workerName(pod), After: after,
				Text: sentence(text, causeText), Lines: lines,
				Advice: []string{"`kubectl logs " + pod.Name() + " -n " + pod.Namespace() + " -c " + name + " --previous`"}})
		}
	}
	return all
}

// times is how often something happened.
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// lastWords are the last lines of a container that ended: of the one before, or of what
// is there where that cannot be had.
func (s *Scene) lastWords(pod kube.Object, container string, previous bool) []string {
	if lines := s.Logs[logOf{pod.Name(), container, previous}]; len(lines) > 0 {
		return lines
	}
	return s.Logs[logOf{pod.Name(), container, !previous}]
}

// limitOf is a container's memory limit, in its own words.
func limitOf(pod kube.Object, container string) string {
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range pod.List("spec", list) {
			if c.Text("name") == container {
				if limit := c.Text("resources", "limits", "memory"); limit != "" {
					return "limit " + limit
				}
			}
		}
	}
	return "without a limit of its own"
}
