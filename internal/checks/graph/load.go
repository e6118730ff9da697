package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// CheckEngine says why a plan cannot be carried out by an engine; "": it can. AIPerf gives
// one summary of one run, with nothing in it of any worker or second, and no more than the
// published gate can be held against that.
func CheckEngine(engine, profile string) string {
	if engine == EngineAIPerf && profile != spec.ProfileClassic {
		return fmt.Sprintf("the engine %s gives one summary, by which the profile %s cannot be judged: only %s can", engine, profile, spec.ProfileClassic)
	}
	return ""
}

// StartLoad makes the load's rights and its Job, and waits until its pod runs. What is
// there already and of this run is kept, so that it can be called again at any time. That
// it cannot start is no error: it is told as events, as in Deploy.
func StartLoad(ctx context.Context, api API, s *Settings, plan *spec.Plan, told Told) (started bool, err error) {
	if why := CheckEngine(s.Engine, plan.Profile); why != "" {
		return false, fmt.Errorf("%s", why)
	}
	for _, step := range Objects(s) {
		if step.Part != PartLoad {
			continue
		}
		if err := makeOfLoad(ctx, api, s, step); err != nil {
			return false, err
		}
	}
	defer told.waiting("")
	began, seen := time.Now(), causeLedger{}
	for {
		l, err := lookAtLoad(ctx, api, s)
		switch {
		case kube.IsAway(err) && time.Since(began) < time.Duration(s.PodWithin):
			told.waiting("the API server: " + err.Error())
		case err != nil:
			return false, err
		case l.started():
			return true, nil
		default:
			found := l.causes(ctx, api)
			settled := seen.settled(found, time.Now())
			if len(settled) == 0 && time.Since(began) >= time.Duration(s.PodWithin) {
				l.lookAtNode(ctx, api)
				settled = append(found, l.tooLate(time.Duration(s.PodWithin)))[:max(1, len(found))]
			}
			if len(settled) > 0 {
				return false, tellLoadCauses(told, settled)
			}
			told.waiting("the load's pod: " + l.doing())
		}
		if err := pauseFor(ctx, lookEvery); err != nil {
			return false, err
		}
	}
}

// makeOfLoad makes an object, unless it is there and of this run.
func makeOfLoad(ctx context.Context, api API, s *Settings, step Step) error {
	name, namespace := step.Object.Name(), step.Object.Namespace()
	_, err := api.Create(ctx, step.Resource, step.Object)
	if err == nil || !kube.IsExists(err) {
		return err
	}
	there, err := api.Read(ctx, step.Resource, namespace, name)
	if err != nil {
		return err
	}
	if l := there.Labels(); l[LabelOwner] != OwnerValue || l[LabelRun] != s.Run {
		return &ForeignError{step.Object.Text("kind"), namespace, name}
	}
	return nil
}

// loadSeen is what is to be seen of a load at one moment.
type loadSeen struct {
	settings *Settings
	job      kube.Object // nil: it is not there
	pod      kube.Object // nil: likewise; the newest, where there are several
	events   []kube.Object
	lost     string // its pod's node, and how that is, where it does not answer; "": it does, or that is not known
	late     bool   // its Job is past its deadline, and nobody ends it
}

// lookAtLoad looks at the load's Job and pod.
func lookAtLoad(ctx context.Context, api API, s *Settings) (*loadSeen, error) {
	l := &loadSeen{settings: s}
	namespace, name := LoadNamespace(s), s.Names().Load
	job, err := api.Read(ctx, resJobs, namespace, name)
	if err != nil && !kube.IsNotFound(err) {
		return nil, fmt.Errorf("looking at the load's Job: %w", err)
	}
	if err == nil {
		l.job = job
	}
	pods, err := api.List(ctx, resPods, namespace, "batch.kubernetes.io/job-name="+name)
	if err != nil {
		return nil, fmt.Errorf("looking at the load's pod: %w", err)
	}
	l.pod = newestOf(pods)
	return l, nil
}

// newestOf is the pod that was made last; nil: there is none.
func newestOf(pods []kube.Object) (last kube.Object) {
	for _, pod := range pods {
		if last == nil || pod.Text("metadata", "creationTimestamp") > last.Text("metadata", "creationTimestamp") {
			last = pod
		}
	}
	return last
}

// container is the status of the load's container; nil: it has none yet.
func (l *loadSeen) container() kube.Object {
	for _, c := range l.pod.List("status", "containerStatuses") {
		if c.Text("name") == loadContainerOf(l.settings) {
			return c
		}
	}
	return nil
}

func loadContainerOf(s *Settings) string {
	if s.Engine == EngineAIPerf {
		return AIPerfContainer
	}
	return LoadContainer
}

// started says that the load has run, whatever became of it.
func (l *loadSeen) started() bool {
	c := l.container()
	return c.Has("state", "running") || c.Has("state", "terminated") || slices.Contains([]string{"Succeeded", "Failed"}, phaseOf(l.pod)) ||
		holds(l.job, "Failed") || holds(l.job, "Complete")
}

// ended says that it will not run any more.
func (l *loadSeen) ended() bool {
	return l.job == nil && l.pod == nil || l.container().Has("state", "terminated") || slices.Contains([]string{"Succeeded", "Failed"}, phaseOf(l.pod)) ||
		l.pod == nil && (holds(l.job, "Failed") || holds(l.job, "Complete"))
}

func (l *loadSeen) doing() string {
	if l.pod == nil {
		return "none yet"
	}
	state, detail := (&Scene{Settings: l.settings, Events: l.events}).stateOf(l.pod)
	if detail != "" {
		state += " (" + detail + ")"
	}
	return l.pod.Name() + " " + state
}

// loadRules are the rules that look at any pod.
func loadRules() []string {
	return []string{"image", "container", "mount", "evicted", "unschedulable", "create"}
}

// causes are why the load's pod does not start. Events are read only here: a pod that
// starts has none that anybody waits for.
func (l *loadSeen) causes(ctx context.Context, api API) []Cause {
	events, err := api.List(ctx, resEvents, LoadNamespace(l.settings), "")
	if err != nil {
		events = nil // they say more, and are not needed
	}
	l.events = nil
	for _, e := range events {
		if l.pod != nil && about(e, l.pod, "Pod") || l.job != nil && about(e, l.job, "Job") {
			l.events = append(l.events, e)
		}
	}
	scene := &Scene{Settings: l.settings, Events: l.events}
	if l.pod != nil {
		scene.Pods = []kube.Object{l.pod}
	}
	return slices.DeleteFunc(scene.find(), func(c Cause) bool { return !slices.Contains(loadRules(), c.rule) })
}

// tooLate is the cause of a pod that did not start, where no other is known.
func (l *loadSeen) tooLate(within time.Duration) Cause {
	if l.pod == nil {
		return Cause{Reason: "NotStarted", Source: "Job " + l.settings.Names().Load, Text: fmt.Sprintf("the load's pod did not appear in %s", within),
			Advice: []string{"`kubectl describe job " + l.settings.Names().Load + " -n " + LoadNamespace(l.settings) + "`"}}
	}
	text := fmt.Sprintf("the load's pod did not start in %s: %s", within, l.doing())
	if node := l.pod.Text("spec", "nodeName"); l.lost != "" {
		text += "; it is on node " + l.lost
	} else if node != "" {
		text += "; it is on node " + node
	}
	return Cause{Reason: "NotStarted", Source: l.pod.Name(), Text: text,
		Advice: []string{"`kubectl describe pod " + l.pod.Name() + " -n " + LoadNamespace(l.settings) + "`"}}
}

// tellLoadCauses tells why the load's pod does not start.
func tellLoadCauses(told Told, all []Cause) error {
	for _, c := range all {
		told.say("%s: %s: %s", c.Source, c.Reason, c.Text)
		if len(c.Advice) > 0 {
			told.say("  try: %s", strings.Join(c.Advice, "; "))
		}
		if err := told.event(spec.Event{Kind: spec.EventPod, Source: c.Source, Reason: c.Reason, Text: c.Text, Advice: c.Advice}); err != nil {
			return err
		}
	}
	return nil
}
