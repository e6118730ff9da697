package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// How long is waited for what is not of the plan: a namespace of this name that goes
// away, an object of ours that does, and what the cluster puts into a new namespace.
const (
	terminatingWithin = 5 * time.Minute
	leavingWithin     = time.Minute
	accountWithin     = time.Minute
)

// ForeignError says that an object of a name that a run needs is somebody else's. It is
// not adopted, not changed and not deleted.
type ForeignError struct{ Kind, Namespace, Name string }

func (e *ForeignError) Error() string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + e.Name
	}
	return fmt.Sprintf("%s %s is there already, and is not of this run", e.Kind, name)
}

// oursOf says that an object was made by a run.
func oursOf(o kube.Object, run string) bool {
	labels := o.Labels()
	return run != "" && labels[LabelOwner] == OwnerValue && labels[LabelRun] == run
}

// Deploy makes what serves, in order, and waits until every replica is ready. What is
// there already and of this run is kept, so that it can be called again at any time. That
// a start has failed is no error: it is told as events, which the judge reads, and ready
// is false. An error is that it could not be found out.
func Deploy(ctx context.Context, api API, s *Settings, secret Secret, told Told) (ready bool, err error) {
	return deploy(ctx, api, s, secret, told, nil)
}

// deploy is Deploy with who can say who holds the GPUs: that somebody else has taken them is
// an error, a *TakenError.
func deploy(ctx context.Context, api API, s *Settings, secret Secret, told Told, ledger Ledger) (ready bool, err error) {
	w := newWatcher(api, s, told)
	w.ledger = ledger
	w.trial = &trial{seen: causeLedger{}}
	for _, step := range Objects(s) {
		if step.Part == PartKept || step.Part == PartLoad {
			continue
		}
		object := step.Object
		if step.Resource.Name == "secrets" && secret == "" {
			made, err := secretMade(ctx, api, s)
			if err == nil && !made {
				err = ErrNoToken
			}
			if err != nil {
				return false, fmt.Errorf("making the Secret of the token: %w", err)
			}
			continue
		}
		if step.Resource.Name == "secrets" {
			object = WithToken(object, secret)
		}
		err := w.ensure(ctx, step, object)
		if why, refused := refusedBy(err); refused && step.Part != PartTrial {
			return false, w.tellFailure(&outcome{scene: &Scene{Settings: s}, causes: []Cause{why(step)}})
		}
		if err != nil {
			return false, fmt.Errorf("making %s %s: %w", step.Object.Text("kind"), step.Object.Name(), err)
		}
		ok := true
		switch {
		case step.Resource == resNamespaces:
			err = w.account(ctx, step.Object.Name())
		case step.Resource == resJobs && step.Object.Name() == w.names.Populate:
			ok, err = w.populated(ctx)
		}
		if err != nil || !ok {
			return false, err
		}
	}
	return w.served(ctx)
}

// ensure makes an object, unless this run has made it before.
func (w *watcher) ensure(ctx context.Context, step Step, object kube.Object) error {
	if step.Resource.Name == "secrets" { // which may be made and not read
		if _, err := w.api.Create(ctx, step.Resource, object); err != nil && !kube.IsExists(err) {
			return err
		}
		return nil // one that is there is in this run's namespace
	}
	for {
		there, err := w.api.Read(ctx, step.Resource, step.Object.Namespace(), step.Object.Name())
		if kube.IsNotFound(err) {
			if _, err = w.api.Create(ctx, step.Resource, object); kube.IsExists(err) {
				if err := pauseFor(ctx, lookEvery); err != nil {
					return err
				}
				continue // somebody was faster: who?
			}
			return err
		}
		if err != nil {
			return err
		}
		if !there.Deleting() {
			if !oursOf(there, w.s.Run) {
				return &ForeignError{step.Object.Text("kind"), step.Object.Namespace(), step.Object.Name()}
			}
			return nil
		}
		within := leavingWithin
		if step.Resource == resNamespaces {
			within = terminatingWithin
		}
		if err := w.leaves(ctx, step, there, within); err != nil {
			return err
		}
	}
}

// leaves waits until an object that is being deleted is gone.
func (w *watcher) leaves(ctx context.Context, step Step, there kube.Object, within time.Duration) error {
	defer w.told.waiting("")
	for began := time.Now(); ; {
		w.told.waiting(fmt.Sprintf("%s %s, which is being deleted, to be gone%s", strings.ToLower(step.Object.Text("kind")), step.Object.Name(), after(time.Since(began))))
		now, err := w.api.Read(ctx, step.Resource, step.Object.Namespace(), step.Object.Name())
		if kube.IsNotFound(err) || err == nil && now.UID() != there.UID() {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Since(began) >= within {
			return fmt.Errorf("it has been going away for more than %s: %s", within, holdsBack(now))
		}
		if err := pauseFor(ctx, lookEvery); err != nil {
			return err
		}
	}
}

func after(d time.Duration) string {
	if text := roughly(d); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// account waits for the account that the cluster gives to a new namespace: before that,
// no pod can be made in it.
func (w *watcher) account(ctx context.Context, namespace string) error {
	defer w.told.waiting("")
	space, err := w.api.Read(ctx, resNamespaces, "", namespace)
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if w.s.SpaceUID != "" && w.s.SpaceUID != space.UID() {
		return &RemovedError{Kind: "Namespace", Name: namespace}
	}
	w.s.SpaceUID = space.UID()
	for began := time.Now(); ; {
		_, err := w.api.Read(ctx, resAccounts, namespace, "default")
		if err == nil {
			return nil
		}
		if !kube.IsNotFound(err) {
			return fmt.Errorf("waiting for the account of namespace %s: %w", namespace, err)
		}
		if time.Since(began) >= accountWithin {
			return fmt.Errorf("namespace %s has no default account after %s: is the cluster's controller manager running?", namespace, accountWithin)
		}
		w.told.waiting("the default account of namespace " + namespace)
		if err := pauseFor(ctx, lookEvery/4); err != nil {
			return err
		}
	}
}

// populated waits for the model to be in its volume.
func (w *watcher) populated(ctx context.Context) (bool, error) {
	within := time.Duration(w.s.Cache.Populate)
	o, err := w.until(ctx, within, func(s *Scene) bool { return holds(s.Populate, "Complete") || s.fetched() != nil }, w.lineOfPopulate)
	if err != nil {
		return false, err
	}
	if !o.done && len(o.causes) == 0 {
		o.causes = []Cause{{Reason: "PopulateFailed", Source: "Job " + w.names.Populate,
			Text: fmt.Sprintf("the model was not fetched within %s: %s", within, w.lineOfPods(o.scene, rolePopulate))}}
	}
	if o.done {
		w.told.say("the model is in its volume, fetched in %s", o.took.Round(time.Second))
		if beside := o.scene.fetched(); beside != nil && !holds(o.scene.Populate, "Complete") {
			w.told.say("%s is done, and container %s (%s) keeps its Job running: something injects it into pods; it goes with the Job",
				beside.pod, beside.container, beside.image)
		}
		return true, nil
	}
	return false, w.tellFailure(o)
}

// served waits for every replica of the graph.
func (w *watcher) served(ctx context.Context) (bool, error) {
	o, err := w.until(ctx, time.Duration(w.s.ReadyWithin), func(s *Scene) bool { r := readinessOf(s.Graph); return r.Ready }, w.lineOfGraph)
	if err != nil {
		return false, err
	}
	if !o.done {
		if err := w.takenMeanwhile(ctx, o); err != nil {
			return false, err
		}
		return false, w.tellFailure(o)
	}
	r := readinessOf(o.scene.Graph)
	want, have := r.Workers()
	all := fmt.Sprintf("all %d workers are", have)
	if have == 1 {
		all = "the worker is"
	}
	w.told.say("%s ready after %s", all, o.took.Round(time.Second))
	return true, w.told.event(spec.Event{Kind: spec.EventWorkers, Source: w.s.Node, Want: &want, Have: &have})
}

// tellFailure tells why what serves did not start.
func (w *watcher) tellFailure(o *outcome) error {
	if len(o.tried) > 0 {
		return w.tellTrial(o)
	}
	if at := slices.IndexFunc(o.causes, func(c Cause) bool { return c.rule == "unschedulable" }); at >= 0 && w.s.Unseen {
		return &UnseenError{Namespace: w.s.Namespace, Pod: o.causes[at].Source, Why: o.causes[at].Text}
	}
	r := readinessOf(o.scene.Graph)
	want, have := r.Workers()
	want = max(want, w.s.Workers)
	all := []spec.Event{{Kind: spec.EventWorkers, Source: w.s.Node, Want: &want, Have: &have}}
	end := spec.Event{Kind: spec.EventNotServed, Source: w.names.Namespace + "/" + w.names.Graph, Reason: "timeout"}
	if len(o.causes) > 0 {
		c := o.causes[0]
		end.Reason, end.Text = c.Reason, c.Source+": "+c.Text
	} else {
		end.Text = fmt.Sprintf("not ready within %s: waited for %s", o.took.Round(time.Second), w.lineOfGraph(o.scene))
		all = append(all, o.scene.notReady()...)
	}
	if o.took > 0 {
		seconds := o.took.Seconds()
		end.Seconds = &seconds
	}
	all = append(all, w.eventsOf(o.causes)...)
	for _, e := range append(all, end) {
		if err := w.told.event(e); err != nil {
			return err
		}
	}
	return nil
}

// tellTrial tells why the load could not begin. How far what serves has come is not told:
// nobody waits for it any longer, and it is not at fault.
func (w *watcher) tellTrial(o *outcome) error {
	if err := tellLoadCauses(w.told, o.tried); err != nil {
		return err
	}
	seconds := o.took.Seconds()
	return w.told.event(spec.Event{Kind: spec.EventNotServed, Source: o.tried[0].Source, Text: "the load could not begin, and what serves was not waited for", Seconds: &seconds})
}

// UnseenError says that a pod finds no place, and that it is unknown whether that is for want of
// GPUs which others hold: that says nothing of the deployment.
type UnseenError struct{ Namespace, Pod, Why string }

func (e *UnseenError) Error() string {
	return fmt.Sprintf("%s is not scheduled, and who holds GPUs outside of namespace %s cannot be seen: %s", e.Pod, e.Namespace, e.Why)
}

// notReadyReason is that of a worker which is not ready, and nobody knows why.
const notReadyReason = "NotReady"

// notReady tells which workers are not, where nothing is known of why.
func (s *Scene) notReady() (all []spec.Event) {
	for _, pod := range s.Pods {
		if name := workerName(pod); name != "" && !holds(pod, "Ready") {
			state, detail := s.stateOf(pod)
			all = append(all, spec.Event{Kind: spec.EventPod, Source: name, Worker: name, Reason: notReadyReason, Text: strings.TrimSpace(state + " " + detail)})
		}
	}
	return all
}

const linesTold = 10 // of a container's last words

// eventsOf tells causes, to the person and to the record.
func (w *watcher) eventsOf(found []Cause) (all []spec.Event) {
	said, quoted := map[string]bool{}, 0
	for _, c := range found {
		if line := c.Reason + ": " + c.Text; !said[line] {
			said[line] = true
			w.told.say("%s: %s", c.Source, line)
		}
		if len(c.Logged) > 0 {
			all = append(all, c.Logged...)
			continue
		}
		all = append(all, spec.Event{Kind: spec.EventPod, Source: c.Source, Worker: c.Worker, Reason: c.Reason, Text: c.Text, Advice: c.Advice})
		if quoted == 3 || len(c.Lines) == 0 {
			continue // of eight workers with the same trouble, some are enough
		}
		quoted++
		for _, line := range c.Lines[max(0, len(c.Lines)-linesTold):] {
			all = append(all, spec.Event{Kind: spec.EventLog, Source: c.Source, Worker: c.Worker, Reason: "last-words", Text: sentence(line, 300)})
		}
	}
	return all
}

// refusedBy says that a cluster does not take an object as it is, which is a finding and
// no error: a quota, a webhook, a rule of the API.
func refusedBy(err error) (cause func(Step) Cause, refused bool) {
	var foreign *ForeignError
	if err == nil || errors.As(err, &foreign) {
		return nil, false
	}
	text := err.Error()
	quota := strings.Contains(text, "exceeded quota")
	if !quota && !kube.IsInvalid(err) && refusalAdvice(text, "") == nil {
		return nil, false
	}
	return func(t Step) Cause {
		c := Cause{Reason: "GraphRefused", Source: t.Object.Text("kind") + " " + t.Object.Name(), Text: sentence("the cluster does not take it: "+text, causeText),
			Advice: refusalAdvice(text, cmp.Or(t.Object.Namespace(), t.Object.Name()))}
		switch {
		case quota:
			c.Text = sentence("quota exceeded: "+text, causeText)
		case t.Object.Text("kind") == "Queue":
			c.Reason = "QueueMissing"
		case t.Object.Text("kind") == "PersistentVolumeClaim":
			c.Reason = "VolumeUnbound"
		case t.Object.Name() == NamesOf(t.Object.Labels()[LabelRun]).Populate:
			c.Reason = "PopulateFailed"
		}
		return c
	}, true
}

// LookAgain looks at what serves once more, and tells what is wrong with it: a frontend
// that is ready and never serves says why in its log alone. It reports whether anything
// was told.
func LookAgain(ctx context.Context, api API, s *Settings, told Told) (found bool, err error) {
	w := newWatcher(api, s, told)
	scene, err := w.look(ctx)
	if err != nil {
		return false, err
	}
	all := w.eventsOf(scene.find())
	for _, pod := range scene.Pods {
		for _, container := range frontendContainers(pod) {
			all = append(all, meaningOf(pod.Name(), scene.Logs[logOf{pod.Name(), container, false}])...)
		}
	}
	once := map[string]bool{}
	for _, e := range all {
		key := e.Kind + e.Source + e.Reason + e.Text
		if once[key] {
			continue
		}
		once[key] = true
		if err := told.event(e); err != nil {
			return found, err
		}
		found = true
	}
	return found, nil
}
