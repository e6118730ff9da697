package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// clocksDiffer is by how much the clock of a node may be ahead of ours.
const clocksDiffer = 5 * time.Second

// tellEnded tells which pods that serve have ended since they were ready, or were replaced,
// and what the node says of why; and what befell the node. One that is back at once, or
// between two episodes, leaves no other trace: where it cannot be seen, that is told. It
// reports whether anything was told.
//
// A run may be attached to hours after its load: what befell a pod since is no matter of
// the load. Of several ends the node keeps the times of the last two at most: where those are
// after the load and there were more, it is unknown whether one was under load, and that is
// told. A zero loadOver is not known.
func (r *Run) tellEnded(ctx context.Context, loadOver time.Time) (told bool, err error) {
	t := r.Kept.Targets
	if t == nil {
		return true, r.tellUnseen("which pods there were is not kept")
	}
	pods, err := r.podsNow(ctx)
	if err != nil {
		return true, r.tellUnseen(err.Error())
	}
	var before []podWas
	for _, w := range t.Workers {
		before = append(before, podWas{w.Pod, w.UID, roleWorker, w.Name, w.Restarts})
	}
	for _, p := range t.Serving {
		before = append(before, podWas{p.Pod, p.UID, p.Role, "", p.Restarts})
	}
	if len(t.Serving) == 0 && len(t.Made) > 0 {
		return true, r.tellUnseen("no pod of a frontend or an endpoint picker was known before the load")
	}
	is := func(p kube.Object) bool {
		return slices.ContainsFunc(before, func(was podWas) bool { return was.is(p) })
	}
	made := slices.DeleteFunc(slices.Clone(pods), is)
	var all []spec.Event
	for _, was := range before {
		all = append(all, was.endIn(pods, made, loadOver)...)
	}
	all = append(all, r.nodeChanged(ctx)...)
	for _, e := range all {
		if e.Reason == spec.PodsUnseen {
			err = r.tellUnseen(e.Text)
		} else {
			r.Told.Say(e.Source + ": " + cmp.Or(e.Text, e.Reason))
			err = r.event(e)
		}
		if err != nil {
			return true, err
		}
	}
	return len(all) > 0, nil
}

// podWas is a pod that serves, as it was before the load.
type podWas struct {
	name, uid, role, worker string
	restarts                int64
}

func (was podWas) is(p kube.Object) bool {
	return p.Name() == was.name && (was.uid == "" || p.UID() == was.uid)
}

// endIn tells how a pod ended since it was ready; none: it did not, or after the load. Made
// are the pods that are there now and were not before.
func (was podWas) endIn(pods, made []kube.Object, loadOver time.Time) []spec.Event {
	at := slices.IndexFunc(pods, was.is)
	if at < 0 {
		return was.replacedBy(made, loadOver)
	}
	pod := pods[at]
	if stamp, err := time.Parse(time.RFC3339, pod.Text("metadata", "deletionTimestamp")); err == nil {
		if since := deletedAt(pod, stamp); !loadOver.IsZero() && !since.After(loadOver.Add(clocksDiffer)) {
			return was.event(spec.PodReplaced, "the pod ("+was.role+") is being deleted since "+since.UTC().Format(time.RFC3339), 0)
		}
	}
	n, known := endsOf(pod)
	if n -= was.restarts; n <= 0 {
		return nil
	}
	if loadOver.IsZero() {
		return unseenOf(was.name + " has ended, and when the load was over is not known")
	}
	after := int64(0)
	for _, end := range known[:min(n, int64(len(known)))] { // those before them were before the pod was ready
		if !end.at.After(loadOver.Add(clocksDiffer)) {
			return was.event(spec.PodEnded, end.words(n-after), int(n-after))
		}
		after++
	}
	if after >= n {
		return nil
	}
	return unseenOf(fmt.Sprintf("%s has ended %s, the last time after the load, and when it did before is not known", was.name, times(n)))
}

// replacedBy tells what became of a pod that is not there any more. Nothing says when it
// went but the first pod of its role that was made since. Of a worker without one the
// load's own record tells.
func (was podWas) replacedBy(made []kube.Object, loadOver time.Time) []spec.Event {
	var first time.Time
	by := ""
	for _, p := range made {
		at, err := time.Parse(time.RFC3339, p.Text("metadata", "creationTimestamp"))
		if roleOf(p) == was.role && err == nil && (by == "" || at.Before(first)) {
			first, by = at, p.Name()
		}
	}
	switch {
	case by == "" && was.worker != "":
		return nil
	case by == "":
		return unseenOf("pod " + was.name + " (" + was.role + ") is gone, and nothing says since when")
	case loadOver.IsZero():
		return unseenOf(was.name + " was replaced by " + by + ", and when the load was over is not known")
	case first.After(loadOver.Add(clocksDiffer)):
		return nil
	}
	return was.event(spec.PodReplaced, fmt.Sprintf("the pod (%s) was deleted after it was ready; %s took its place at %s", was.role, by, first.UTC().Format(time.RFC3339)), 0)
}

func (was podWas) event(reason, text string, count int) []spec.Event {
	return []spec.Event{{Kind: spec.EventPod, Source: was.name, Worker: was.worker, Reason: reason, Text: text, Count: count}}
}

func unseenOf(why string) []spec.Event {
	return []spec.Event{{Reason: spec.PodsUnseen, Text: why}}
}

// nodeChanged tells what befell the node since before the load. What cannot be read of it
// now decides nothing.
func (r *Run) nodeChanged(ctx context.Context) []spec.Event {
	was, name := r.Kept.Targets.NodeWas, r.Kept.Targets.Node
	if was == nil || ctx.Err() != nil {
		return nil
	}
	node, err := r.API.Read(ctx, resNodes, "", name)
	e := spec.Event{Kind: spec.EventNode, Source: name}
	switch {
	case kube.IsNotFound(err):
		e.Reason = spec.NodeDeleted
	case err != nil:
		return nil
	case node.UID() != was.UID:
		e.Reason = spec.NodeRegistered
	case node.Bool("spec", "unschedulable") && !was.Cordoned:
		e.Reason = spec.NodeCordoned
	default:
		return nil
	}
	return []spec.Event{e}
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

// tellUnseen tells that it is not known whether pods that serve have ended: a PASS takes
// that none did.
func (r *Run) tellUnseen(why string) error {
	r.Told.Say("whether pods that serve have ended under load could not be seen: " + why)
	return r.event(spec.Event{Kind: spec.EventPod, Source: r.Kept.Settings.Names().Namespace, Reason: spec.PodsUnseen, Text: why})
}

// amend holds what became of the deployment against a verdict whose record is not here.
func (r *Run) amend(ctx context.Context, end *End) error {
	told, err := r.tellRemoved(ctx, end.over)
	if err == nil && !told && !r.wasRemoved() {
		_, err = r.tellEnded(ctx, end.over)
	}
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
	anew      bool // the container runs again
}

func (e podEnd) words(n int64) string {
	if e.container == "" {
		return sentence(strings.TrimSuffix("its pod was ended: "+e.reason+": "+e.text, ": "), 300)
	}
	then := "was started anew"
	if !e.anew {
		then = "does not run again"
	}
	text := fmt.Sprintf("container %s ended %s since it was ready, and %s; the last time with exit code %d", e.container, times(n), then, e.code)
	if e.reason != "" && e.reason != "Error" {
		text += " (" + e.reason + ")"
	}
	return text
}

// endsOf is how often a pod or its containers have ended, and those ends of which the node
// still knows the time and the reason, the last one first. A container that has ended and is
// not started anew yet is not in the node's count of restarts.
func endsOf(pod kube.Object) (n int64, known []podEnd) {
	for _, c := range statusesOf(pod) {
		restarts, _ := c.Int("restartCount")
		n += restarts
		for _, state := range []string{"lastState", "state"} {
			ended := c.Map(state, "terminated")
			at, err := time.Parse(time.RFC3339, ended.Text("finishedAt"))
			if err != nil {
				continue
			}
			code, _ := ended.Int("exitCode")
			known = append(known, podEnd{container: c.Text("name"), reason: ended.Text("reason"), code: code, at: at, anew: c.Has("state", "running")})
		}
	}
	if phaseOf(pod) == "Failed" {
		failed := podEnd{reason: pod.Text("status", "reason"), text: pod.Text("status", "message"), at: lastOf(known)}
		if at, err := time.Parse(time.RFC3339, conditionOf(pod, "DisruptionTarget").Text("lastTransitionTime")); err == nil {
			failed.at = at
		}
		return n + 1, append([]podEnd{failed}, known...)
	}
	for _, c := range pod.List("status", "containerStatuses") {
		if c.Has("state", "terminated") || c.Has("state", "waiting") && c.Has("lastState", "terminated") {
			n++
		}
	}
	slices.SortStableFunc(known, func(a, b podEnd) int { return b.at.Compare(a.at) })
	return n, known
}

// lastOf is when the last of some ends was; zero: it is not known.
func lastOf(known []podEnd) (last time.Time) {
	for _, end := range known {
		if end.at.After(last) {
			last = end.at
		}
	}
	return last
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
