package graph

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// lookEvery is how often it is looked while something is waited for.
const lookEvery = time.Second

// Where things are.
var (
	resNamespaces = kube.Resource{Version: "v1", Name: "namespaces"}
	resPods       = kube.Resource{Version: "v1", Name: "pods"}
	resEvents     = kube.Resource{Version: "v1", Name: "events"}
	resNodes      = kube.Resource{Version: "v1", Name: "nodes"}
	resAccounts   = kube.Resource{Version: "v1", Name: "serviceaccounts"}
	resConfigMaps = kube.Resource{Version: "v1", Name: "configmaps"}
	resVolumes    = kube.Resource{Version: "v1", Name: "persistentvolumeclaims"}
	resJobs       = kube.Resource{Group: "batch", Version: "v1", Name: "jobs"}
)

func resGraphs(version string) kube.Resource {
	return kube.Resource{Group: "nvidia.com", Version: version, Name: "dynamographdeployments"}
}

func resDRA(version, name string) kube.Resource {
	return kube.Resource{Group: "resource.k8s.io", Version: version, Name: name}
}

// watcher looks at a run's graph again and again, and knows since when it has been as it
// is.
type watcher struct {
	api   API
	s     *Settings
	names Names
	told  Told

	trial  *trial // nil: the load's image is not tried
	ledger Ledger // nil: who holds GPUs is not asked
	seen   causeLedger
	since  map[string]time.Time // in which state each pod is, and since when
	logs   map[logOf]keptLog
	had    map[string]kube.Object // by kind, what was there
	node   struct {
		at time.Time
		o  kube.Object
	}
}

// keptLog is a log that was read, and when; restarts tells whether there is a newer one.
type keptLog struct {
	at       time.Time
	restarts int64
	lines    []string
}

func newWatcher(api API, s *Settings, told Told) *watcher {
	return &watcher{api: api, s: s, names: s.Names(), told: told, seen: causeLedger{}, since: map[string]time.Time{}, logs: map[logOf]keptLog{}, had: map[string]kube.Object{}}
}

// look takes in the whole scene.
func (w *watcher) look(ctx context.Context) (*Scene, error) {
	s := &Scene{Settings: w.s, Logs: map[logOf][]string{}}
	var err error
	if s.Pods, err = podsOfRun(ctx, w.api, w.s); err != nil {
		return nil, fmt.Errorf("looking at pods: %w", err)
	}
	s.Pods = slices.DeleteFunc(s.Pods, isOfLoad)
	if s.Events, err = w.api.List(ctx, resEvents, w.names.Namespace, ""); err != nil {
		return nil, fmt.Errorf("looking at events: %w", err)
	}
	s.Events = slices.DeleteFunc(s.Events, func(e kube.Object) bool { return w.names.ofLoad(e) || !ofEvent(w.s, e) })
	if s.Graph, s.Webhook, err = w.graph(ctx); err != nil {
		return nil, err
	}
	if err := w.children(ctx, s); err != nil {
		return nil, err
	}
	if w.s.Cache != nil {
		if s.Volume, err = w.maybe(ctx, resVolumes, w.names.Volume); err != nil {
			return nil, err
		}
		if s.Populate, err = w.maybe(ctx, resJobs, w.names.Populate); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.Pods, func(a, b kube.Object) int { return strings.Compare(a.Name(), b.Name()) })
	if now := time.Now(); w.node.o == nil || now.Sub(w.node.at) > 10*time.Second {
		// What is wrong with the node is told where it is known: it is no reason to stop.
		if node, err := w.api.Read(ctx, resNodes, "", w.s.Node); err == nil {
			w.node.at, w.node.o = now, node
		}
	}
	s.Node = w.node.o
	w.readLogs(ctx, s)
	return s, nil
}

// children are what Dynamo's operator makes the graph into. A cluster has one kind or the
// other of them, and an older Dynamo may have neither: then the graph and its pods tell.
func (w *watcher) children(ctx context.Context, s *Scene) (err error) {
	if s.Graph == nil {
		return nil
	}
	for _, version := range graphVersions {
		s.Components, _, err = inVersion(ctx, version, func(ctx context.Context, version string) ([]kube.Object, error) {
			return w.api.List(ctx, kube.Resource{Group: groupGraph, Version: version, Name: "dynamocomponentdeployments"}, w.names.Namespace, "")
		})
		if err == nil || !kube.IsNotFound(err) {
			break
		}
	}
	if err := unlessAbsent(err); err != nil {
		return fmt.Errorf("looking at the graph's components: %w", err)
	}
	s.Components = ownOf(w.s, s.Components)
	if !w.s.Grove {
		return nil
	}
	for name, into := range map[string]*[]kube.Object{"podcliquesets": &s.CliqueSets, "podcliques": &s.Cliques} {
		all, err := w.api.List(ctx, kube.Resource{Group: groupGrove, Version: "v1alpha1", Name: name}, w.names.Namespace, "")
		if err := unlessAbsent(err); err != nil {
			return fmt.Errorf("looking at the graph's %s: %w", name, err)
		}
		*into = ownOf(w.s, all)
	}
	return nil
}

// unlessAbsent forgets that a kind is not served, or may not be listed: the guards ask for
// the rights of those that are served.
func unlessAbsent(err error) error {
	if kube.IsNotFound(err) || kube.IsForbidden(err) || kube.WebhookOf(err) != "" {
		return nil
	}
	return err
}

// graph reads the graph; nil: it is not there. dead is the webhook of Dynamo's operator that did
// not answer.
func (w *watcher) graph(ctx context.Context) (o kube.Object, dead *deadWebhook, err error) {
	o, dead, err = readAny(ctx, w.api, resGraphs(w.s.Graph), w.names.Namespace, w.names.Graph)
	switch {
	case kube.IsNotFound(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("looking at %s %s: %w", resGraphs("").Name, w.names.Graph, err)
	}
	return o, dead, nil
}

// maybe reads an object of the run's namespace; nil: it is not there.
func (w *watcher) maybe(ctx context.Context, r kube.Resource, name string) (kube.Object, error) {
	o, err := w.api.Read(ctx, r, w.names.Namespace, name)
	switch {
	case kube.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking at %s %s: %w", r.Name, name, err)
	}
	return o, nil
}

const (
	frontendEvery = 3 * time.Second // a frontend's log is read so often
	frontendLines = 400
	endedLines    = 40 // of a container that ended
	mostLog       = 256 << 10
)

// readLogs reads what the rules want to know of logs: a frontend's, and the last words of
// containers that ended.
func (w *watcher) readLogs(ctx context.Context, s *Scene) {
	for _, pod := range s.Pods {
		fronts := frontendContainers(pod)
		for _, c := range statusesOf(pod) {
			name := c.Text("name")
			restarts, _ := c.Int("restartCount")
			code, ended := c.Int("state", "terminated", "exitCode")
			if slices.Contains(fronts, name) && c.Has("state", "running") {
				w.keep(ctx, s, logOf{pod.Name(), name, false}, restarts, frontendLines, frontendEvery)
			}
			if ended && code != 0 {
				w.keep(ctx, s, logOf{pod.Name(), name, false}, restarts, endedLines, time.Hour)
			}
			if restarts > 0 && !c.Bool("ready") {
				w.keep(ctx, s, logOf{pod.Name(), name, true}, restarts, endedLines, time.Hour)
			}
		}
	}
}

func (w *watcher) keep(ctx context.Context, s *Scene, of logOf, restarts int64, lines int, every time.Duration) {
	kept, ok := w.logs[of]
	if !ok || kept.restarts != restarts || len(kept.lines) == 0 || time.Since(kept.at) >= every {
		if text, err := tailOf(ctx, w.api, w.names.Namespace, of, lines); err == nil {
			kept = keptLog{time.Now(), restarts, text}
			w.logs[of] = kept
		}
	}
	if len(kept.lines) > 0 {
		s.Logs[of] = kept.lines
	}
}

// tailOf is the last lines of a log, without secrets, and never without end.
func tailOf(ctx context.Context, api API, namespace string, of logOf, lines int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	from, err := api.Logs(ctx, namespace, of.Pod, of.Container, kube.LogOptions{Previous: of.Previous, Tail: lines})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err != nil {
		return nil, err
	}
	if len(data) > mostLog { // the end says what happened
		data = data[len(data)-mostLog:]
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			data = data[i+1:] // without its beginning, a line's secret is not known any more
		}
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(data), "\uFFFD"), "\n")
	if text == "" {
		return nil, nil
	}
	var all []string
	for line := range strings.SplitSeq(text, "\n") {
		all = append(all, redact.Masked(redact.Plain(strings.TrimRight(line, "\r"))))
	}
	return all, nil
}

// outcome is how a wait ended: it is done, or causes are why not, or there is nothing to
// wait for, since the load could not begin; none of it: its time was up.
type outcome struct {
	done   bool
	causes []Cause
	tried  []Cause // why the load could not begin, had this been done
	scene  *Scene
	took   time.Duration
}

// until looks until it is done, until a cause has settled, or until its time is up. That
// somebody has deleted what is waited for is an error, and none of these.
func (w *watcher) until(ctx context.Context, within time.Duration, done func(*Scene) bool, line func(*Scene) string) (*outcome, error) {
	began := time.Now()
	defer w.told.waiting("")
	for {
		scene, err := w.look(ctx)
		switch {
		case kube.IsAway(err) && time.Since(began) < within:
			w.told.waiting("the API server: " + err.Error())
		case err != nil:
			return nil, err
		default:
			if err := w.removed(scene); err != nil {
				return nil, err
			}
			o := &outcome{scene: scene, took: time.Since(began)}
			found := scene.find()
			settled := w.seen.settled(found, time.Now())
			// A frontend that panicked is ready, and will not serve.
			panicked := slices.ContainsFunc(settled, func(c Cause) bool { return c.rule == "discovery" })
			o.done = done(scene) && !panicked
			if tried := w.trial.look(ctx, w.api, w.s); !o.done && len(found) == 0 {
				o.tried = tried
			}
			switch {
			case o.done, len(o.tried) > 0:
				return o, nil
			case len(settled) > 0:
				o.causes = settled
				return o, w.standing(ctx)
			case o.took >= within:
				o.causes = found // nothing has lasted, but that is what there is
				return o, w.standing(ctx)
			}
			w.told.waiting(line(scene))
		}
		if err := pauseFor(ctx, lookEvery); err != nil {
			return nil, err
		}
	}
}

// lineOfGraph says in a line what a graph waits for.
func (w *watcher) lineOfGraph(s *Scene) string {
	if s.Graph == nil {
		return "the graph to appear"
	}
	if s.Webhook != nil {
		return "Dynamo's operator, which does not answer"
	}
	r := readinessOf(s.Graph)
	c := r.Lacks()
	if c == nil {
		return "Dynamo's operator: the graph is " + cmp.Or(r.State, "not looked at yet")
	}
	return c.lacking() + ": " + w.lineOfPods(s, c.Role)
}

// lineOfPopulate says it of the model's cache.
func (w *watcher) lineOfPopulate(s *Scene) string {
	return "the model to be fetched: " + w.lineOfPods(s, rolePopulate)
}

// lineOfPods is the first pod of a role that is not ready, and how it is.
func (w *watcher) lineOfPods(s *Scene, role string) string {
	var others int
	first := ""
	now := time.Now()
	there := map[string]bool{}
	for _, pod := range s.Pods {
		if holds(pod, "Ready") || phaseOf(pod) == "Succeeded" {
			continue
		}
		state, detail := s.stateOf(pod)
		key := pod.UID() + " " + state
		there[key] = true
		if _, ok := w.since[key]; !ok {
			w.since[key] = now
		}
		if roleOf(pod) != role {
			continue // its turn comes
		}
		if first != "" {
			others++
			continue
		}
		if waited := roughly(now.Sub(w.since[key])); waited != "" && detail != "" {
			detail += ", " + waited
		} else if waited != "" {
			detail = waited
		}
		first = pod.Name() + " " + state
		if detail != "" {
			first += " (" + detail + ")"
		}
	}
	for key := range w.since {
		if !there[key] {
			delete(w.since, key)
		}
	}
	switch {
	case first == "" && s.allReady(role):
		return "its pods are Ready, and Dynamo's operator has not counted them yet"
	case first == "":
		return "no pod yet"
	case others > 0:
		return fmt.Sprintf("%s and %d more", first, others)
	}
	return first
}

// allReady says that there are pods of a role, and that all of them are ready.
func (s *Scene) allReady(role string) bool {
	n := 0
	for _, pod := range s.Pods {
		if roleOf(pod) == role && !pod.Deleting() {
			n++
			if !holds(pod, "Ready") {
				return false
			}
		}
	}
	return n > 0
}

// roughly is a time as it is told while it passes: a line that changes every second says
// nothing new.
func roughly(d time.Duration) string {
	switch {
	case d < 5*time.Second:
		return ""
	case d < time.Minute:
		return d.Truncate(5 * time.Second).String()
	}
	return d.Truncate(10 * time.Second).String()
}

// stateOf is how a pod is, in kubectl's words, and what it is at.
func (s *Scene) stateOf(pod kube.Object) (state, detail string) {
	if pod.Deleting() {
		return "Terminating", ""
	}
	if c := conditionOf(pod, "PodScheduled"); c.Text("status") == "False" {
		return "Pending", strings.TrimSuffix("not scheduled: "+sentence(s.perNode(c.Text("message")), 120), ": ")
	}
	for _, c := range statusesOf(pod) {
		if reason := c.Text("state", "waiting", "reason"); reason != "" && reason != "PodInitializing" {
			return reason, s.doing(pod, c)
		}
		if c.Has("state", "running") && !c.Bool("ready") {
			if e := s.lastEvent(pod, "Pod", "Unhealthy"); e != nil && !c.Bool("started") {
				return "Running", "starting"
			}
			return "Running", "not ready"
		}
		if code, ok := c.Int("state", "terminated", "exitCode"); ok && code != 0 {
			return "Error", fmt.Sprintf("exit code %d", code)
		}
	}
	return cmp.Or(phaseOf(pod), "Pending"), ""
}

// doing is what a pod is at, by its newest event.
func (s *Scene) doing(pod, container kube.Object) string {
	e := s.lastEvent(pod, "Pod", "Pulling", "Pulled", "FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources", "FailedCreatePodSandBox")
	switch e.Text("reason") {
	case "":
		return ""
	case "Pulling":
		return "pulling image"
	case "Pulled":
		return "image pulled"
	}
	return sentence(e.Text("reason")+": "+e.Text("message"), 120)
}

// The ways to tell, for who may have nobody to tell.
func (t Told) say(format string, args ...any) {
	if t.Say != nil {
		t.Say(fmt.Sprintf(format, args...))
	}
}

func (t Told) spares(s Spared) {
	if t.Spared != nil {
		t.Spared(s)
		return
	}
	t.say("run %s is left alone: %s", s.Run, s.Why)
}

func (t Told) waiting(text string) {
	if t.Waiting != nil {
		t.Waiting(text)
	}
}

func (t Told) event(e spec.Event) error {
	if t.Event == nil {
		return nil
	}
	return t.Event(e)
}
