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

// tellEnded tells which workers have ended since they were ready, and what the node says of
// why. One that is back at once, or between two episodes, leaves no other trace. It reports
// whether anything was told.
//
// A run may be attached to hours after its load: what befell a worker since is no matter of
// the load. Of several ends the node knows the last one's time alone, so that where this
// is after the load, nothing is held against the worker. Of a pod that is gone nobody knows
// when it went: who loaded it does.
func (r *Run) tellEnded(ctx context.Context, loadOver time.Time) (found bool, err error) {
	if r.Kept.Targets == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	pods, err := r.API.List(ctx, resPods, NamesOf(r.Kept.Run.ID).Namespace, "")
	if err != nil {
		r.Told.Say("whether workers have ended under load could not be seen: " + err.Error())
		return false, nil
	}
	for _, w := range r.Kept.Targets.Workers {
		for _, pod := range pods {
			if pod.Name() != w.Pod {
				continue
			}
			n, last := endsOf(pod)
			if n -= w.Restarts; n <= 0 || last.at.After(loadOver.Add(clocksDiffer)) {
				continue
			}
			text := last.words(n)
			r.Told.Say(w.Pod + ": " + text)
			if err := r.event(spec.Event{Kind: spec.EventPod, Source: w.Pod, Worker: w.Name, Reason: spec.PodEnded, Text: text, Count: int(n)}); err != nil {
				return found, err
			}
			found = true
		}
	}
	return found, nil
}

// podEnd is how a container of a pod ended, or the pod itself.
type podEnd struct {
	container string // "": the pod, which is not started anew
	reason    string
	text      string
	code      int64
	at        time.Time
}

func (e podEnd) words(n int64) string {
	if e.container == "" {
		return sentence(strings.TrimSuffix("its pod was ended: "+e.reason+": "+e.text, ": "), 300)
	}
	text := fmt.Sprintf("container %s ended %s since it was ready, and was started anew; the last time with exit code %d", e.container, times(n), e.code)
	if e.reason != "" && e.reason != "Error" {
		text += " (" + e.reason + ")"
	}
	return text
}

// endsOf is how often a pod or its containers have ended, and the last time how.
func endsOf(pod kube.Object) (n int64, last podEnd) {
	for _, c := range statusesOf(pod) {
		restarts, _ := c.Int("restartCount")
		n += restarts
		for _, state := range []string{"lastState", "state"} {
			ended := c.Map(state, "terminated")
			at, err := time.Parse(time.RFC3339, ended.Text("finishedAt"))
			if err != nil || at.Before(last.at) {
				continue
			}
			code, _ := ended.Int("exitCode")
			last = podEnd{container: c.Text("name"), reason: ended.Text("reason"), code: code, at: at}
		}
	}
	if phaseOf(pod) == "Failed" {
		n++
		last.container, last.reason, last.text = "", pod.Text("status", "reason"), pod.Text("status", "message")
		if at, err := time.Parse(time.RFC3339, conditionOf(pod, "DisruptionTarget").Text("lastTransitionTime")); err == nil {
			last.at = at
		}
	}
	return n, last
}

// loadOver is when a load had ended, by its record.
func (r *Run) loadOver(events []spec.Event) time.Time {
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
