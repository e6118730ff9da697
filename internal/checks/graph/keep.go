package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// RunAPI is what a run asks of a cluster: an API that can change a part of an object too.
type RunAPI interface {
	API
	Patch(ctx context.Context, r kube.Resource, namespace, name string, change kube.Object) (kube.Object, error)
}

// Kept is all that is known of a run, in the ConfigMap that is made first and deleted
// last: whoever can read it can go on with the run.
type Kept struct {
	Run      spec.Run
	Plan     *spec.Plan
	Settings *Settings
	Events   []spec.Event
	Targets  *Targets      // once they are found
	Verdict  *spec.Verdict // once it is given
	Stage    string
	Alive    time.Time // when a command last led it; zero: not told
}

// The stages of a run, as they are kept.
const (
	StageDeploy = "deploy" // what serves is made and waited for
	StageLoad   = "load"   // the load's Job is made and followed
	StageFailed = "failed" // it could not start: the events say why
	StageJudged = "judged" // there is a verdict; what was made goes away
)

// The files in the ConfigMap, which the load's Job finds in its folder.
const (
	fileRun      = "run.json"
	filePlan     = "plan.yaml"
	fileSettings = "settings.json"
	fileEvents   = "events.jsonl"
	fileTargets  = "targets.json"
	fileVerdict  = "verdict.json"
	fileStage    = "stage"
)

// What a ConfigMap holds at most, less what its own names and labels take; and how many
// events of pods and logs are worth keeping: more of them say nothing new.
const (
	mostKept   = 900 << 10
	mostEvents = 400
)

// AnnotationTouched is on the namespace of the validations: the run that began last. Who
// deletes the namespace does so as it was when no run was in it.
const AnnotationTouched = "aicr.run/touched"

var (
	keptResource      = kube.Resource{Version: "v1", Name: "configmaps"}
	namespaceResource = kube.Resource{Version: "v1", Name: "namespaces"}
)

// NothingLeft says that nothing of a run is on the cluster.
type NothingLeft struct{ Run string }

func (e *NothingLeft) Error() string {
	return fmt.Sprintf("nothing of run %s is on this cluster", e.Run)
}

// FindKept reads what is kept of a run. What is there is somebody's word: it is a
// *DistrustError unless it is about this run, in this namespace, and sound.
func FindKept(ctx context.Context, api API, namespace, run string) (*Kept, error) {
	o, err := api.Read(ctx, keptResource, namespace, NamesOf(run).Kept)
	if kube.IsNotFound(err) {
		return nil, &NothingLeft{run}
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is kept of run %s: %w", run, err)
	}
	if o.Text("metadata", "labels", LabelOwner) != OwnerValue || o.Text("metadata", "labels", LabelRun) != run {
		return nil, &ForeignError{Kind: "ConfigMap", Namespace: namespace, Name: NamesOf(run).Kept}
	}
	k, err := readKept(o)
	if err != nil {
		return nil, err
	}
	if err := k.distrust(namespace, run); err != nil {
		return nil, err
	}
	k.Settings.KeptUID = o.UID()
	return k, nil
}

// readKept reads a ConfigMap. It was written by a program of ours, maybe another version.
func readKept(o kube.Object) (*Kept, error) {
	data := func(name string) []byte { return []byte(o.Text("data", name)) }
	k := &Kept{Stage: o.Text("data", fileStage)}
	k.Alive, _ = time.Parse(time.RFC3339, o.Text("metadata", "annotations", AnnotationAlive))
	var wrong []error
	must := func(name string, into any) {
		if err := json.Unmarshal(data(name), into); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	must(fileRun, &k.Run)
	k.Settings = &Settings{}
	must(fileSettings, k.Settings)
	var err error
	if k.Plan, err = spec.DecodePlan(data(filePlan)); err != nil {
		wrong = append(wrong, fmt.Errorf("%s: %w", filePlan, err))
	}
	for line := range bytes.Lines(data(fileEvents)) {
		var e spec.Event
		if err := json.Unmarshal(line, &e); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", fileEvents, err))
			break
		}
		k.Events = append(k.Events, e)
	}
	if len(data(fileTargets)) > 0 {
		k.Targets = &Targets{}
		must(fileTargets, k.Targets)
	}
	if len(data(fileVerdict)) > 0 {
		k.Verdict = &spec.Verdict{}
		must(fileVerdict, k.Verdict)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("what is kept of the run cannot be read: %w", errors.Join(wrong...))
	}
	return k, nil
}

// data is what the ConfigMap has of a run.
func (k *Kept) data() (fields, error) {
	plan, err := spec.EncodePlan(k.Plan)
	if err != nil {
		return nil, err
	}
	var events bytes.Buffer
	lines := json.NewEncoder(&events)
	lines.SetEscapeHTML(false)
	for i := range k.Events {
		if err := lines.Encode(&k.Events[i]); err != nil {
			return nil, err
		}
	}
	all := fields{filePlan: string(plan), fileEvents: events.String(), fileStage: k.Stage}
	documents := fields{fileRun: k.Run, fileSettings: k.Settings, fileTargets: k.Targets, fileVerdict: k.Verdict}
	for name, doc := range documents {
		if name == fileTargets && k.Targets == nil || name == fileVerdict && k.Verdict == nil {
			continue
		}
		b, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		all[name] = string(b)
	}
	size := 0
	for name, value := range all {
		size += len(name) + len(value.(string))
	}
	if size > mostKept {
		return nil, fmt.Errorf("what there is to keep of the run takes %d KiB, and a ConfigMap holds %d", size>>10, mostKept>>10)
	}
	return all, nil
}

// add takes an event in, unless it was told before, as it is when a run is picked up again,
// or is another of what was told often enough.
func (k *Kept) add(e spec.Event) (isNew bool) {
	is, err := json.Marshal(e)
	n := 0
	for _, was := range k.Events {
		if was.Kind != e.Kind {
			continue
		}
		n++
		if was.Source != e.Source { // most are told apart without encoding them
			continue
		}
		was.T = e.T
		if text, wrong := json.Marshal(was); err == nil && wrong == nil && bytes.Equal(text, is) {
			return false
		}
	}
	bounded := e.Kind == spec.EventPod || e.Kind == spec.EventLog
	if bounded && n >= mostEvents && e.Reason != spec.PodEnded && e.Reason != spec.PodReplaced && e.Reason != spec.PodsUnseen { // those decide
		return false
	}
	k.Events = append(k.Events, e)
	return true
}

// begin keeps the run in the namespace of the validations.
func (k *Kept) begin(ctx context.Context, api RunAPI, now time.Time, told Told) error {
	return inValidation(ctx, api, k.Settings, told, func() error { return k.make(ctx, api, now) })
}

// make makes the ConfigMap that the run is kept in.
func (k *Kept) make(ctx context.Context, api RunAPI, now time.Time) error {
	data, err := k.data()
	if err != nil {
		return err
	}
	kept := keptManifest(k.Settings)
	kept["data"] = data
	kept["metadata"].(fields)["annotations"] = fields{AnnotationAlive: now.UTC().Format(time.RFC3339)}
	made, err := api.Create(ctx, keptResource, kept)
	if kube.IsExists(err) { // of the try before this one, unless it is somebody else's
		if made, err = api.Read(ctx, keptResource, kept.Namespace(), kept.Name()); err == nil && !oursOf(made, k.Run.ID) {
			return &ForeignError{Kind: "ConfigMap", Namespace: kept.Namespace(), Name: kept.Name()}
		}
	}
	if err != nil {
		return fmt.Errorf("keeping the run: %w", err)
	}
	k.Settings.KeptUID = made.UID()
	return nil
}

// inValidation has something made in the namespace of the validations, which it makes where
// there is none. Another run may be deleting the namespace at the same time: it does so only
// as it was before this run touched it, and where it was faster, this one waits and begins
// again.
func inValidation(ctx context.Context, api RunAPI, s *Settings, told Told, make func() error) error {
	for began := time.Now(); ; {
		terminating, err := tryInValidation(ctx, api, s, make)
		if err != nil || !terminating {
			told.waiting("")
			return err
		}
		if time.Since(began) >= terminatingWithin {
			return fmt.Errorf("namespace %s has been terminating for more than %s: it is stuck on a finalizer whose controller is not running, see kubectl get namespace %s -o yaml", s.Namespace, terminatingWithin, s.Namespace)
		}
		told.waiting("the namespace " + s.Namespace + " of an earlier run to be gone")
		if err := pauseFor(ctx, time.Second); err != nil {
			return err
		}
	}
}

func tryInValidation(ctx context.Context, api RunAPI, s *Settings, make func() error) (terminating bool, err error) {
	name := s.Namespace
	if s.Namespaced { // it is an administrator's, and stays
		return false, make()
	}
	space, err := api.Read(ctx, namespaceResource, "", name)
	if kube.IsNotFound(err) {
		space, err = api.Create(ctx, namespaceResource, validationManifest(s))
		if kube.IsExists(err) { // somebody else was faster
			space, err = api.Read(ctx, namespaceResource, "", name)
		}
	}
	if err != nil {
		return kube.IsNotFound(err), unlessNotFound(fmt.Errorf("making the namespace %s: %w", name, err), err)
	}
	if space.Text("metadata", "deletionTimestamp") != "" {
		return true, nil
	}
	if err := make(); err != nil {
		gone := kube.IsGone(err) || kube.IsNotFound(err)
		if gone {
			err = nil
		}
		return gone, err
	}
	if space.Text("metadata", "labels", LabelOwner) != OwnerValue {
		return false, nil // somebody else's: nobody of us deletes it
	}
	marks := fields{AnnotationTouched: s.Run}
	space, err = api.Patch(ctx, namespaceResource, "", name, kube.Object{"metadata": fields{"annotations": marks}})
	if kube.IsNotFound(err) {
		return true, nil
	}
	if kube.IsForbidden(err) && s.Prepared {
		return false, nil // an administrator has taken it over: only they may delete it
	}
	if err != nil {
		return false, fmt.Errorf("saying in the namespace %s that a run has begun: %w", name, err)
	}
	return space.Text("metadata", "deletionTimestamp") != "", nil
}

func unlessNotFound(worded, err error) error {
	if kube.IsNotFound(err) {
		return nil
	}
	return worded
}

// save brings what is known of the run to the cluster, with a sign of life.
func (k *Kept) save(ctx context.Context, api RunAPI, now time.Time) error {
	data, err := k.data()
	if err == nil {
		_, err = api.Patch(ctx, keptResource, k.Settings.Namespace, NamesOf(k.Run.ID).Kept, kube.Object{
			"metadata": fields{"annotations": fields{AnnotationAlive: now.UTC().Format(time.RFC3339)}}, "data": data})
	}
	if err != nil {
		return fmt.Errorf("keeping the run: %w", err)
	}
	return nil
}

// beat gives a sign of life.
func (k *Kept) beat(ctx context.Context, api RunAPI, now time.Time) error {
	_, err := api.Patch(ctx, keptResource, k.Settings.Namespace, NamesOf(k.Run.ID).Kept,
		kube.Object{"metadata": fields{"annotations": fields{AnnotationAlive: now.UTC().Format(time.RFC3339)}}})
	return err
}

// rest takes the sign of life back.
func (k *Kept) rest(ctx context.Context, api RunAPI) error {
	_, err := api.Patch(ctx, keptResource, k.Settings.Namespace, NamesOf(k.Run.ID).Kept,
		kube.Object{"metadata": fields{"annotations": fields{AnnotationAlive: nil}}})
	return err
}

// pauseFor waits, or says why it was not to.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
