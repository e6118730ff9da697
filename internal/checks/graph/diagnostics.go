package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"aicr/internal/kube"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// What diagnostics may take, so that a sick cluster does not keep its own from being
// cleaned up.
const (
	diagnoseWithin  = time.Minute
	diagnoseLines   = 200
	diagnoseFile    = mostLog + 1<<10
	diagnoseAll     = 8 << 20
	diagnoseMaxPods = 100
)

var errNoRoom = errors.New("left out: diagnostics have become too large")

// Diagnose keeps what can be known of a run's objects before they are deleted: pods,
// events, logs, the graph, claims, nodes, the load's Job. Names are stable, and index.txt
// begins with the answer, as far as there is one, and with what is seen to be wrong, or was
// when the events were told: what decided may have passed since. What could not be read is
// an error each, and in the index.
func Diagnose(ctx context.Context, api API, s *Settings, answer string, write func(name string, data []byte) error, told ...spec.Event) []error {
	ctx, cancel := context.WithTimeout(ctx, diagnoseWithin)
	defer cancel()
	d := &diagnosis{api: api, s: s, names: s.Names(), write: write, answer: answer, told: told, room: diagnoseAll}
	w := newWatcher(api, s, Told{})
	scene, err := w.look(ctx)
	if err != nil {
		d.missed("what serves", err)
		scene = &Scene{Settings: s}
	}
	d.graph(ctx, scene)
	d.loads(ctx)
	d.index(w, scene)
	return d.wrong
}

// diagnosis is what was kept so far.
type diagnosis struct {
	api   API
	s     *Settings
	names Names
	write func(name string, data []byte) error

	answer string
	told   []spec.Event
	load   []Cause // what is wrong with the load's pod
	room   int
	files  []string
	wrong  []error
}

func (d *diagnosis) missed(what string, err error) {
	d.wrong = append(d.wrong, fmt.Errorf("%s: %w", what, err))
}

// keep writes a file. What is too long loses its beginning: the end says what happened.
func (d *diagnosis) keep(name string, data []byte) {
	if most := min(diagnoseFile, d.room); len(data) > most {
		cut := len(data) - most
		data = append([]byte(fmt.Sprintf("… %d bytes left out …\n", cut)), data[cut:]...)
		if most == 0 {
			d.missed(name, errNoRoom)
			return
		}
	}
	d.room -= min(d.room, len(data))
	if err := d.write(name, data); err != nil {
		d.missed(name, err)
		return
	}
	d.files = append(d.files, name)
}

// text keeps lines of others: a log that is shown on a terminal, or in a workflow's log, does
// nothing there but be read.
func (d *diagnosis) text(name, text string) { d.keep(name, []byte(redact.Lines(text))) }

// object keeps an object as YAML, without secrets.
func (d *diagnosis) object(name string, o kube.Object) {
	data, err := yaml.Marshal(shownObject(o))
	if err != nil {
		d.missed(name, err)
		return
	}
	d.keep(name, data)
}

// graph keeps what is in the graph's namespace.
func (d *diagnosis) graph(ctx context.Context, s *Scene) {
	if s.Graph != nil {
		d.object("graph.yaml", s.Graph)
	}
	for _, c := range s.Components {
		d.object("component-"+c.Name()+".yaml", c)
	}
	for _, c := range s.CliqueSets {
		d.object("cliqueset-"+c.Name()+".yaml", c)
	}
	for _, c := range s.Cliques {
		d.object("clique-"+c.Name()+".yaml", c)
	}
	if s.Volume != nil {
		d.object("volume.yaml", s.Volume)
	}
	if s.Populate != nil {
		d.object("job-populate.yaml", s.Populate)
	}
	node, err := d.api.Read(ctx, resNodes, "", d.s.Node)
	if err != nil {
		d.missed("node "+d.s.Node, err)
	} else {
		d.text("node.txt", nodeText(node))
	}
	if d.s.GPUs == ByClaim {
		claims, err := claimsOfRun(ctx, d.api, d.s)
		if err != nil {
			d.missed("claims", err)
		}
		for _, c := range claims {
			d.object("claim-"+c.Name()+".yaml", c)
		}
	}
	if len(s.Events) > 0 {
		d.text("events.txt", eventsText(s.Events))
	}
	d.pods(ctx, d.names.Namespace, s.Pods)
}

// loads keeps what is of the load. AIPerf's is in the namespace of the graph, beside what
// was kept of that.
func (d *diagnosis) loads(ctx context.Context) {
	selector := LabelOwner + "=" + OwnerValue + "," + LabelRun + "=" + d.s.Run
	notOfLoad := func(o kube.Object) bool { return !isOfLoad(o) }
	namespace := LoadNamespace(d.s)
	jobs, err := d.api.List(ctx, resJobs, namespace, selector)
	if err != nil {
		d.missed("the load's Job", err)
	}
	for _, j := range slices.DeleteFunc(jobs, notOfLoad) {
		name := "job-load.yaml"
		if j.Name() == d.names.Trial {
			name = "job-trial.yaml"
		}
		d.object(name, j)
	}
	pods, err := d.api.List(ctx, resPods, namespace, selector)
	if err != nil {
		d.missed("the load's pods", err)
	}
	if pods = slices.DeleteFunc(pods, notOfLoad); len(pods) == 0 {
		return
	}
	d.pods(ctx, namespace, pods)
	events, err := d.api.List(ctx, resEvents, namespace, "")
	if err != nil {
		d.missed("the load's events", err)
	}
	events = slices.DeleteFunc(events, func(e kube.Object) bool { return !d.names.ofLoad(e) }) // those of others are not ours to keep
	d.load = slices.DeleteFunc((&Scene{Settings: d.s, Pods: pods, Events: events}).find(), func(c Cause) bool {
		return !slices.Contains(append(loadRules(), "memory"), c.rule)
	})
	if len(events) > 0 {
		d.text("events-load.txt", eventsText(events))
	}
}

// pods keeps pods, and the logs of their containers.
func (d *diagnosis) pods(ctx context.Context, namespace string, pods []kube.Object) {
	if len(pods) > diagnoseMaxPods {
		d.missed("pods", fmt.Errorf("%d of %d were left out", len(pods)-diagnoseMaxPods, len(pods)))
		pods = pods[:diagnoseMaxPods]
	}
	for _, pod := range pods {
		d.object("pod-"+pod.Name()+".yaml", pod)
		for _, c := range statusesOf(pod) {
			name := c.Text("name")
			restarts, _ := c.Int("restartCount")
			if c.Has("state", "running") || c.Has("state", "terminated") {
				d.log(ctx, namespace, logOf{pod.Name(), name, false})
			}
			if restarts > 0 {
				d.log(ctx, namespace, logOf{pod.Name(), name, true})
			}
		}
	}
}

func (d *diagnosis) log(ctx context.Context, namespace string, of logOf) {
	name := "log-" + of.Pod + "-" + of.Container
	if of.Previous {
		name += "-previous"
	}
	if d.room == 0 {
		d.missed(name, errNoRoom)
		return
	}
	lines, err := tailOf(ctx, d.api, namespace, of, diagnoseLines)
	if err != nil {
		d.missed(name, err)
		return
	}
	if len(lines) > 0 {
		d.text(name+".txt", strings.Join(lines, "\n")+"\n")
	}
}

// index is the first thing to read.
func (d *diagnosis) index(w *watcher, s *Scene) {
	var b strings.Builder
	found := append(s.find(), d.load...)
	if d.answer != "" {
		b.WriteString(redact.Masked(d.answer) + "\n")
	}
	passed := d.passed(found)
	switch {
	case len(passed) > 0:
	case len(found) == 0 && s.Graph == nil:
		b.WriteString("There is no graph, and nothing is seen to be wrong.\n")
	case len(found) == 0:
		b.WriteString("Nothing is seen to be wrong with the pods of the graph.\n")
	}
	said := map[string]bool{}
	for _, c := range found {
		fmt.Fprintf(&b, "%s: %s: %s\n", c.Source, c.Reason, redact.Masked(c.Text))
		for _, advice := range c.Advice {
			if !said[advice] {
				said[advice] = true
				fmt.Fprintf(&b, "  %s\n", advice)
			}
		}
	}
	for _, e := range passed {
		fmt.Fprintf(&b, "%s: %s: %s (seen before, and not any more)\n", e.Source, e.Reason, redact.Masked(e.Text))
	}
	r := readinessOf(s.Graph)
	fmt.Fprintf(&b, "\nrun %s on node %s, namespaces %s and %s\n", d.s.Run, d.s.Node, d.names.Namespace, d.s.Namespace)
	if s.Graph != nil {
		want, have := r.Workers()
		fmt.Fprintf(&b, "graph %s: %d of %d workers ready\n", stateWords(r.State), have, want)
		if c := r.Lacks(); c != nil {
			fmt.Fprintf(&b, "lacks %s: %s\n", c.lacking(), w.lineOfPods(s, c.Role))
		}
	}
	for _, pod := range s.Pods {
		state, detail := s.stateOf(pod)
		if holds(pod, "Ready") {
			state, detail = "Ready", ""
		}
		fmt.Fprintf(&b, "pod %s: %s %s\n", pod.Name(), state, detail)
	}
	if len(d.wrong) > 0 {
		b.WriteString("\nWhat could not be read:\n")
		for _, err := range d.wrong {
			fmt.Fprintf(&b, "  %s\n", sentence(redact.Masked(err.Error()), 300))
		}
	}
	b.WriteString("\nFiles:\n")
	slices.Sort(d.files)
	for _, f := range d.files {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	if err := d.write("index.txt", []byte(redact.Lines(b.String()))); err != nil {
		d.missed("index.txt", err)
	}
}

// passed are the causes that were told of, and are not found now.
func (d *diagnosis) passed(found []Cause) (all []spec.Event) {
	for _, e := range d.told {
		if e.Kind == spec.EventPod && e.Reason != notReadyReason &&
			!slices.ContainsFunc(found, func(c Cause) bool { return c.Source == e.Source && c.Reason == e.Reason }) {
			all = append(all, e)
		}
	}
	return all
}

func stateWords(state string) string {
	if state == "" {
		return "without a state"
	}
	return state
}

// eventsText is events in the order of time, a line each.
func eventsText(events []kube.Object) string {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b kube.Object) int { return eventTime(a).Compare(eventTime(b)) })
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %s %s/%s x%d: %s\n", eventTime(e).UTC().Format(time.RFC3339), e.Text("type"), e.Text("reason"),
			e.Text("involvedObject", "kind"), e.Text("involvedObject", "name"), eventCount(e), sentence(redact.Masked(e.Text("message")), 2000))
	}
	return b.String()
}

// nodeText is what matters of a node.
func nodeText(node kube.Object) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s\n", node.Name())
	for _, line := range nodeTrouble(node) {
		fmt.Fprintf(&b, "wrong: %s\n", line)
	}
	for _, t := range node.List("spec", "taints") {
		fmt.Fprintf(&b, "taint: %s=%s:%s\n", t.Text("key"), t.Text("value"), t.Text("effect"))
	}
	for _, what := range []string{"capacity", "allocatable"} {
		if data, err := json.Marshal(node.Map("status", what)); err == nil {
			fmt.Fprintf(&b, "%s: %s\n", what, data)
		}
	}
	for _, c := range node.List("status", "conditions") {
		fmt.Fprintf(&b, "condition %s: %s %s: %s (since %s)\n", c.Text("type"), c.Text("status"), c.Text("reason"), sentence(c.Text("message"), 300), c.Text("lastTransitionTime"))
	}
	return b.String()
}

// secretVariable is how variables are called that hold what nobody should read.
var secretVariable = regexp.MustCompile(`(?i)token|secret|passw|api[_-]?key|access[_-]?key|credential|auth`)

// shownObject is a copy of an object that may be kept: no field of who wrote what, no
// copy of what was applied, and nothing that opens anything.
func shownObject(o kube.Object) kube.Object {
	copied, _ := shownValue(map[string]any(o)).(map[string]any)
	return copied
}

func shownValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		name, _ := v["name"].(string)
		for key, value := range v {
			switch _, isText := value.(string); {
			case key == "managedFields" || key == "kubectl.kubernetes.io/last-applied-configuration":
			case isText && key == "value" && secretVariable.MatchString(name):
				all[key] = hidden
			default:
				all[key] = shownValue(value)
			}
		}
		return all
	case kube.Object:
		return shownValue(map[string]any(v))
	case []any:
		all := make([]any, len(v))
		for i, value := range v {
			all[i] = shownValue(value)
		}
		return all
	case string:
		return redact.Lines(redact.Masked(v))
	}
	return v
}
