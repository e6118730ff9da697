package graph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// standing are the objects without which there is nothing to load, in the order in which
// they are looked at: a namespace that goes takes the graph with it.
func standing(s *Settings) []Step {
	n := s.Names()
	object := func(kind, namespace, name string) kube.Object {
		meta := fields{"name": name}
		if namespace != "" {
			meta["namespace"] = namespace
		}
		return kube.Object{"kind": kind, "metadata": meta}
	}
	return []Step{
		{Resource: resNamespaces, Object: object("Namespace", "", n.Namespace)},
		{Resource: resGraphs(s.Graph), Object: object("DynamoGraphDeployment", n.Namespace, n.Graph)},
	}
}

func nameOf(o kube.Object) string {
	return strings.TrimSpace(o.Text("kind") + " " + strings.TrimPrefix(o.Namespace()+"/"+o.Name(), "/"))
}

// madeOf are the UIDs of what stands before the load.
func madeOf(ctx context.Context, api API, s *Settings) (map[string]string, error) {
	all := map[string]string{}
	for _, step := range standing(s) {
		o, _, err := readAny(ctx, api, step.Resource, step.Object.Namespace(), step.Object.Name())
		if kube.IsNotFound(err) || err == nil && o.Deleting() {
			return nil, &RemovedError{step.Object.Text("kind"), step.Object.Namespace(), step.Object.Name()}
		}
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", nameOf(step.Object), err)
		}
		all[nameOf(step.Object)] = o.UID()
	}
	return all, nil
}

// noteLoad keeps which Job loads, once it is there: from then on it is not to go.
func (r *Run) noteLoad(ctx context.Context) error {
	s := r.Kept.Settings
	o, err := r.API.Read(ctx, resJobs, LoadNamespace(s), s.Names().Load)
	if kube.IsNotFound(err) {
		return nil // whoever follows it will see
	}
	if err != nil {
		return fmt.Errorf("looking at the load's Job: %w", err)
	}
	r.loadJob = o.UID()
	return nil
}

// tellRemoved tells what somebody else has deleted of what is loaded, before the load was
// over: the namespace, the graph, the load's Job. Then nothing is known of the deployment,
// whatever the load has measured. It reports whether anything was told. Where another
// command has led the run to its end meanwhile, that one has deleted it.
func (r *Run) tellRemoved(ctx context.Context, loadOver time.Time) (told bool, err error) {
	if r.wasRemoved() {
		return false, nil
	}
	if ctx.Err() != nil { // who interrupts does not want to wait
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
		defer cancel()
		ctx = brief
	}
	gone, err := r.firstRemoved(ctx, loadOver)
	if err != nil {
		return true, r.tellUnseen("whether what is loaded was deleted: " + err.Error())
	}
	if gone == nil {
		return false, nil
	}
	if kept, err := FindKept(ctx, r.API, r.Kept.Settings.Namespace, r.Kept.Run.ID); err == nil && kept.Stage == StageJudged {
		return false, nil
	}
	return true, r.sayRemoved(gone)
}

func (r *Run) sayRemoved(gone *spec.Event) error {
	r.Told.Say(gone.Source + " was deleted under load, and not by this command: " + gone.Text)
	return r.event(*gone)
}

// wasRemoved says that it was told before.
func (r *Run) wasRemoved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.Kept.Events, func(e spec.Event) bool { return e.Kind == spec.EventRemoved })
}

// firstRemoved is the first of what stood before the load that is gone, or goes, since
// before the load was over; nil: all of it is there. A zero loadOver is not known.
func (r *Run) firstRemoved(ctx context.Context, loadOver time.Time) (*spec.Event, error) {
	if r.Kept.Targets == nil || len(r.Kept.Targets.Made) == 0 {
		return nil, nil // nothing stood before, or another version of this program kept nothing of it
	}
	s := r.Kept.Settings
	all := standing(s)
	made := maps.Clone(r.Kept.Targets.Made)
	if r.loadJob != "" {
		job := Step{Resource: resJobs, Object: kube.Object{"kind": "Job", "metadata": fields{"namespace": LoadNamespace(s), "name": s.Names().Load}}}
		all, made[nameOf(job.Object)] = append(all, job), r.loadJob
	}
	for _, step := range all {
		was := made[nameOf(step.Object)]
		o, _, err := readAny(ctx, r.API, step.Resource, step.Object.Namespace(), step.Object.Name())
		switch {
		case was == "":
		case kube.IsNotFound(err):
			return r.removalUnseen(ctx, step, "it is gone"), nil
		case err != nil:
			return nil, err
		case o.UID() != was:
			return r.removalUnseen(ctx, step, "it is gone, and another of its name is there"), nil
		case o.Deleting():
			if e := r.removalOf(ctx, step, o, loadOver); e != nil {
				return e, nil
			}
		}
	}
	r.stood = r.Now()
	return nil, nil
}

// removalUnseen is the deletion of an object that is not there any more. Its time is that of
// the last look at which it was: nothing that was measured before then is touched by it.
func (r *Run) removalUnseen(ctx context.Context, step Step, how string) *spec.Event {
	now := r.Now()
	if r.stood.IsZero() {
		how += ", seen at " + now.UTC().Format(time.RFC3339)
	} else {
		how += fmt.Sprintf(" since a time between %s and %s", r.stood.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if who := r.deletedBy(ctx, step); who != "" {
		how += "; " + who
	}
	e := removal(step, how)
	if seconds := r.sinceStart(r.stood); !r.stood.IsZero() && seconds > 0 {
		e.Seconds = &seconds
	}
	return e
}

// tellsOfDeletion are words in the reasons of events by which those who delete say so: a
// controller that prunes, a garbage collector, a policy that cleans up.
var tellsOfDeletion = regexp.MustCompile(`(?i)delet|prun|remov|clean|expire`)

// deletedBy is what events say of who deleted an object; "": they say nothing, or cannot be
// read.
func (r *Run) deletedBy(ctx context.Context, step Step) string {
	in := step.Object.Namespace()
	if in == "" {
		return ""
	}
	all, err := r.API.List(ctx, resEvents, in, "")
	if err != nil {
		return ""
	}
	began, _ := time.Parse(time.RFC3339Nano, r.Kept.Run.Start)
	s := &Scene{Events: all}
	e := s.newest(func(e kube.Object) bool {
		of := e.Map("involvedObject")
		return of.Text("kind") == step.Object.Text("kind") && of.Text("name") == step.Object.Name() && tellsOfDeletion.MatchString(e.Text("reason")) && eventTime(e).After(began)
	})
	if e == nil {
		return ""
	}
	who := cmp.Or(e.Text("source", "component"), e.Text("reportingComponent"), "somebody")
	return sentence(fmt.Sprintf("event %s by %s: %s", e.Text("reason"), who, e.Text("message")), 300)
}

// removalOf is the deletion of an object that is still there; nil: it was deleted after the
// load.
func (r *Run) removalOf(ctx context.Context, step Step, o kube.Object, loadOver time.Time) *spec.Event {
	stamp, err := time.Parse(time.RFC3339, o.Text("metadata", "deletionTimestamp"))
	if err != nil {
		return removal(step, "it is being deleted")
	}
	at := deletedAt(o, stamp)
	if !loadOver.IsZero() && at.After(loadOver.Add(clocksDiffer)) {
		return nil
	}
	how := []string{"it is being deleted since " + at.UTC().Format(time.RFC3339), writersAt(o, at), r.deletedBy(ctx, step)}
	e := removal(step, strings.Join(slices.DeleteFunc(how, func(part string) bool { return part == "" }), "; "))
	if seconds := r.sinceStart(at); seconds > 0 {
		e.Seconds = &seconds
	}
	return e
}

// deletedAt is when an object was deleted: its deletion timestamp has the time in it that it
// is given to end.
func deletedAt(o kube.Object, stamp time.Time) time.Time {
	grace, _ := o.Int("metadata", "deletionGracePeriodSeconds")
	return stamp.Add(-time.Duration(grace) * time.Second)
}

// sinceStart is a time of the cluster's clock, in seconds since the run's start.
func (r *Run) sinceStart(at time.Time) float64 {
	began, err := time.Parse(time.RFC3339Nano, r.Kept.Run.Start)
	if err != nil {
		return 0
	}
	return at.Sub(began).Seconds()
}

func removal(step Step, how string) *spec.Event {
	return &spec.Event{Kind: spec.EventRemoved, Source: nameOf(step.Object), Reason: "Deleted", Text: how}
}

// written is how long before a deletion a write still belongs to it.
const written = time.Minute

// writersAt says who wrote to an object as it was deleted, by its managed fields.
// Kubernetes keeps no word of who deletes.
func writersAt(o kube.Object, deleted time.Time) string {
	var all []string
	for _, f := range o.List("metadata", "managedFields") {
		who := f.Text("manager")
		at, err := time.Parse(time.RFC3339, f.Text("time"))
		if err == nil && who != "" && who != OwnerValue && f.Text("subresource") == "" && at.After(deleted.Add(-written)) && !slices.Contains(all, who) {
			all = append(all, who)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "written to then by " + strings.Join(all, ", ")
}

// removalEvery is how often it is looked under load whether what is loaded is there.
const removalEvery = 10 * time.Second

// watchRemoval looks until ctx ends, and gives what somebody else has deleted; nil: nothing.
// A run that is not kept any more was ended by another command: who follows the load finds
// out.
func (r *Run) watchRemoval(ctx context.Context) *spec.Event {
	for pauseFor(ctx, removalEvery) == nil {
		gone, err := r.firstRemoved(ctx, time.Time{})
		if err != nil || gone == nil {
			continue // a server that is away is told of by who follows the load
		}
		kept, err := FindKept(ctx, r.API, r.Kept.Settings.Namespace, r.Kept.Run.ID)
		if err == nil && kept.Stage != StageJudged {
			return gone
		}
	}
	return nil
}

// removedUnderLoad ends a load whose deployment somebody else has deleted, and takes in what
// it had measured until then.
func (r *Run) removedUnderLoad(ctx context.Context, gone *spec.Event) (*End, error) {
	if r.Kept.Settings.Engine != EngineOwn {
		return &End{}, r.sayRemoved(gone)
	}
	brief, cancel := context.WithTimeoutCause(ctx, salvageWithin, fmt.Errorf("not had in %s", salvageWithin))
	defer cancel()
	end, err := r.lastOf(brief)
	if err != nil {
		r.Told.Say("the load's record could not be fetched: " + err.Error())
	}
	return end, r.sayRemoved(gone)
}
