package graph

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// clocksDiffer is by how much the clock of a node may be ahead of ours.
const clocksDiffer = 5 * time.Second

// tellRestarts tells which workers have ended since they were ready and were started anew,
// and what the node says of why. One that is back at once, or between two episodes, leaves no other
// trace. It reports whether anything was told.
//
// A run may be attached to hours after its load: what a worker did since is no matter of
// the load. Of several ends the node knows the last one's time alone, so that where this
// is after the load, nothing is held against the worker.
func (r *Run) tellRestarts(ctx context.Context, ended time.Time) (found bool, err error) {
	if r.Kept.Targets == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	pods, err := r.API.List(ctx, resPods, NamesOf(r.Kept.Run.ID).Namespace, "")
	if err != nil {
		r.Told.Say("whether workers were started anew could not be seen: " + err.Error())
		return false, nil
	}
	for _, w := range r.Kept.Targets.Workers {
		for _, pod := range pods {
			if pod.Name() != w.Pod {
				continue
			}
			n, last := restartsOf(pod)
			if n -= w.Restarts; n <= 0 || last.at.After(ended.Add(clocksDiffer)) {
				continue
			}
			text := fmt.Sprintf("container %s ended %s since it was ready, and was started anew; the last time with exit code %d%s", last.container, times(n), last.code, inBrackets(last.reason))
			r.Told.Say(w.Pod + ": " + text)
			if err := r.event(spec.Event{Kind: spec.EventPod, Source: w.Pod, Worker: w.Name, Reason: spec.PodRestarted, Text: text, Count: int(n)}); err != nil {
				return found, err
			}
			found = true
		}
	}
	return found, nil
}

// containerEnd is how a container ended that was started anew.
type containerEnd struct {
	container, reason string
	code              int64
	at                time.Time
}

// restartsOf is how often the containers of a pod were started anew, and how the last of
// them ended.
func restartsOf(pod kube.Object) (n int64, last containerEnd) {
	for _, c := range statusesOf(pod) {
		again, _ := c.Int("restartCount")
		n += again
		for _, state := range []string{"lastState", "state"} {
			ended := c.Map(state, "terminated")
			at, err := time.Parse(time.RFC3339, ended.Text("finishedAt"))
			if again == 0 || err != nil || at.Before(last.at) {
				continue
			}
			code, _ := ended.Int("exitCode")
			last = containerEnd{c.Text("name"), ended.Text("reason"), code, at}
		}
	}
	return n, last
}

// loadEnded is when a load was over, by its record.
func (r *Run) loadEnded(events []spec.Event) time.Time {
	began, err := time.Parse(time.RFC3339Nano, r.Kept.Run.Start)
	if err != nil {
		return r.Now()
	}
	for _, e := range events {
		if e.Kind == spec.EventStage && e.Stage == "end" {
			return began.Add(time.Duration(e.T * float64(time.Second)))
		}
	}
	return r.Now()
}

// inBrackets is a word that says more than "Error", if there is one.
func inBrackets(reason string) string {
	if reason == "" || strings.EqualFold(reason, "Error") {
		return ""
	}
	return " (" + reason + ")"
}
