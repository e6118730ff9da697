package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// clocksDiffer is by how much the clock of a node may be ahead of ours.
const clocksDiffer = 5 * time.Second

// tellEnded tells which workers have ended since they were ready, and what the node says of
// why. One that is back at once, or between two episodes, leaves no other trace: where it
// cannot be seen, that is told. It reports whether anything was told.
//
// A run may be attached to hours after its load: what befell a worker since is no matter of
// the load. Of several ends the node knows the last one's time alone, so that where this
// is after the load, nothing is held against the worker. Of a pod that is gone nobody knows
// when it went: who loaded it does. A zero loadOver is not known.
func (r *Run) tellEnded(ctx context.Context, loadOver time.Time) (told bool, err error) {
	if r.Kept.Targets == nil {
		return true, r.tellUnseen("which workers there were is not kept")
	}
	pods, err := r.podsNow(ctx)
	if err != nil {
		return true, r.tellUnseen(err.Error())
	}
	for _, w := range r.Kept.Targets.Workers {
		for _, pod := range pods {
			if pod.Name() != w.Pod {
				continue
			}
			n, last := endsOf(pod)
			n -= w.Restarts
			switch {
			case n <= 0:
				continue
			case loadOver.IsZero():
				err = r.tellUnseen(w.Pod + " has ended, and when the load was over is not known")
			case last.at.After(loadOver.Add(clocksDiffer)):
				continue
			default:
				text := last.words(n)
				r.Told.Say(w.Pod + ": " + text)
				err = r.event(spec.Event{Kind: spec.EventPod, Source: w.Pod, Worker: w.Name, Reason: spec.PodEnded, Text: text, Count: int(n)})
			}
			if told = true; err != nil {
				return told, err
			}
		}
	}
	return told, nil
}

// podsNow are the pods of what serves. A server that is away is waited for as ever, since a
// verdict hangs on it; who interrupts does not want to wait.
func (r *Run) podsNow(ctx context.Context) ([]kube.Object, error) {
	if pods, err := podsOfRun(ctx, r.API, r.Kept.Settings); err == nil || ctx.Err() == nil {
		return pods, err
	}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	return podsOfRun(brief, r.API, r.Kept.Settings)
}

// tellUnseen tells that it is not known whether workers have ended: a PASS takes that none
// did.
func (r *Run) tellUnseen(why string) error {
	r.Told.Say("whether workers have ended under load could not be seen: " + why)
	return r.event(spec.Event{Kind: spec.EventPod, Source: r.Kept.Settings.Names().Namespace, Reason: spec.PodsUnseen, Text: why})
}

// amend holds what became of the workers against a verdict whose record is not here.
func (r *Run) amend(ctx context.Context, end *End) error {
	_, err := r.tellEnded(ctx, end.over)
	r.mu.Lock()
	defer r.mu.Unlock()
	end.Verdict = judge.Amend(r.Kept.Plan, end.Verdict, r.Kept.Events...)
	return err
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
	if at := r.after(overAt(events)); !at.IsZero() {
		return at
	}
	return r.Now()
}

// overBy is when a load had ended whose record is not here: by the events of its copy, or
// by its last line; zero: nobody knows.
func (r *Run) overBy(out *Outcome) time.Time {
	var events []spec.Event
	for line := range bytes.Lines(out.Files["events.jsonl"]) {
		var e spec.Event
		if json.Unmarshal(line, &e) == nil {
			events = append(events, e)
		}
	}
	return r.after(cmp.Or(overAt(events), out.Over))
}

// overAt is when a load ended, or broke off, in seconds since the run's start; 0: not told.
func overAt(events []spec.Event) float64 {
	for _, e := range events {
		if e.Kind == spec.EventStage && e.Stage == "end" || e.Kind == spec.EventInterrupt {
			return e.T
		}
	}
	return 0
}

// after is so many seconds after the run's start; zero for none.
func (r *Run) after(seconds float64) time.Time {
	began, err := time.Parse(time.RFC3339Nano, r.Kept.Run.Start)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return began.Add(time.Duration(seconds * float64(time.Second)))
}
