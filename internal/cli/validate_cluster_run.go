package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/load"
	"aicr/internal/redact"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

// onCluster carries the plan out on the cluster.
func (j *validateJob) onCluster(ctx context.Context) error {
	dir := j.options.run
	if dir == "" {
		dir = freshFolder("aicr-run-" + j.app.env.Now().UTC().Format("20060102-150405"))
		defer func() { _ = os.Remove(dir) }() // where nothing came of it, it is empty
	}
	j.app.warnOfReports(j.reports)
	switch {
	case len(j.refused) > 0:
		return errors.Join(j.notBegun(), refusals(j.refused))
	case !judge.Loads(j.plan):
		return j.notBegun()
	case len(j.choice.Nodes) == 0:
		_, err := j.nothingFree(ctx, dir, j.options.on.wish.Node, true)
		return err
	}
	if ended, err := j.foretell(ctx, dir); ended {
		return err
	}
	if j.options.on.wish.Nodes != 0 {
		return j.fleetOfNodes(ctx, dir)
	}
	return j.onNode(ctx, dir)
}

// foretell says, before anything is made, why a run cannot pass, and ends it there where
// that is wanted.
func (j *validateJob) foretell(ctx context.Context, dir string) (ended bool, err error) {
	why := judge.CannotPass(j.plan, judge.Known{})
	if len(why) == 0 {
		return false, nil
	}
	view := j.app.showRun(j.plan)
	defer view.close()
	if view.endsEarly = j.options.early; !view.endsEarly {
		view.CannotPass(why)
		return false, nil
	}
	begun := j.app.env.Now()
	now := func() time.Duration { return j.app.env.Now().Sub(begun) }
	return true, j.carryOut(ctx, dir, &reached{Target: notReached{now}, begun: begun, end: j.app.env.Now, close: func() {}}, view)
}

// notReached is the target of a run that ends before it asks for one.
type notReached struct{ now func() time.Duration }

// Start is never come to.
func (notReached) Start(context.Context, func(spec.Event) error) (bool, error) { return false, nil }

// Load is never come to.
func (notReached) Load(context.Context, int, spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	return nil, errors.New("the target was not reached")
}

// Now is the time since the run's start.
func (t notReached) Now() time.Duration { return t.now() }

// notBegun tells the verdict on a cluster that the plan and a look at it decide: nothing is
// deployed. There is a record where --run names a folder.
func (j *validateJob) notBegun() error {
	v, now, dir := judge.Conclude(j.plan, nil, 0), j.app.env.Now(), j.options.run
	record, err := openRun(dir, j.runDocument(j.app.newRunID(), now, ""), j.plan)
	if err != nil {
		return err
	}
	lost := errors.Join(record.Event(spec.Event{Kind: spec.EventStage, Stage: "end"}), record.close(v, now))
	r := &spec.Report{Run: record.run, Plan: j.plan, Verdict: v}
	r.Run.End = r.Run.Start
	if dir != "" && lost == nil {
		r.Kept, r.Judge, r.Page = dir, againWith("judge", []string{dir}), againWith("report", []string{dir})+pageFile
	}
	printed := errors.Join(j.app.printReport(r, j.options.format, j.reports), j.app.writeReports(r, j.reports))
	return errors.Join(printed, lost, endOf(v, j.options.failOn))
}

// nothingFree judges a cluster that has no free GPU, or the node of it that was asked for:
// who holds them is what there is to tell. Where runs of this program hold some, there is
// nothing to judge.
func (j *validateJob) nothingFree(ctx context.Context, dir, node string, alone bool) (*spec.Verdict, error) {
	if byRuns := j.choice.OfRuns(); len(byRuns) > 0 {
		return j.taken(alone, besidesNode(byRuns, "")...)
	}
	a := j.app
	begun := a.env.Now()
	book, err := a.openBook(dir, j.runDocument(a.newRunID(), begun, node), j.plan, nil)
	if err != nil {
		return nil, err
	}
	zero := 0
	for _, n := range j.choice.Full() {
		gpus := n.GPUs
		if err := book.Event(spec.Event{Kind: spec.EventGPUs, Source: n.Node, Want: &gpus, Have: &zero, Text: "held by " + graph.HeldBy(n.Held)}); err != nil {
			return nil, err
		}
	}
	if err := book.Event(spec.Event{T: a.env.Now().Sub(begun).Seconds(), Kind: spec.EventStage, Stage: "end"}); err != nil {
		return nil, err
	}
	v, _, err := book.Judge(ctx)
	if err != nil {
		return nil, err
	}
	return v, j.tellVerdict(ctx, book, &graph.End{Verdict: v}, alone)
}

// runDocument is run.json of a run on a node.
func (j *validateJob) runDocument(id string, begun time.Time, node string) spec.Run {
	target := j.origin
	target.Node = node
	return spec.Run{Schema: spec.RunSchema, ID: id, Version: j.app.env.Build.Version, Command: j.app.commandLine("validate"),
		Target: target, Start: begun.UTC().Format(time.RFC3339Nano)}
}

// runOn is one run on one node, which is reserved for it, from its first object to its last.
func (j *validateJob) runOn(ctx context.Context, dir string, s *graph.Settings, node graph.Chosen, alone bool) (*spec.Verdict, error) {
	a := j.app
	begun, id := a.env.Now(), s.Run
	run := j.runDocument(id, begun, node.Node)
	free := node.Workers
	events := []spec.Event{{Kind: spec.EventGPUs, Source: node.Node, Want: &node.GPUs, Have: &free, Text: heldText(node.Held)}}
	if _, chart := j.papers.versionsBehind(); chart != "" || s.Images.Release != "" {
		events = append(events, spec.Event{Kind: spec.EventVersions, Runtime: s.Images.Release, Chart: chart})
	}
	j.plan.Prior, j.plan.PriorMinutes = j.past.prior(j.toBe(run, events, node), begun)
	book, err := a.openBook(dir, run, j.plan, events)
	if err != nil {
		graph.Release(context.WithoutCancel(ctx), j.cluster, s)
		return nil, err
	}
	a.say("run %s on node %s: %s, asked for by %s", id, node.Node, layout.Plural(node.Workers, "GPU"), node.By)
	return j.lead(ctx, book, &graph.Kept{Run: run, Plan: j.plan, Settings: s, Events: events}, alone)
}

// toBe is what is known of a deployment before it is there: stalls of another runtime, and
// of GPUs that are gone or somebody else's, are not held against it.
func (j *validateJob) toBe(run spec.Run, events []spec.Event, node graph.Chosen) spec.Deployment {
	d := spec.NewDeployment(run.Target, j.plan.Point.Workers)
	judge.LearnDeployment(&d, events, nil)
	d.GPUs = freeGPUs(j.nodes, node)
	return d
}

// freeGPUs are those that a run on a node can be given, by their UUIDs; none: that is not
// known, as where the device plugin hands them out.
func freeGPUs(nodes []kube.GPUNode, on graph.Chosen) (all []string) {
	at := slices.IndexFunc(nodes, func(n kube.GPUNode) bool { return n.Name == on.Node })
	if at < 0 || on.By != graph.ByClaim {
		return nil
	}
	for _, d := range nodes[at].Devices {
		switch {
		case d.UUID == "":
			return nil // it could be any
		case !d.Held:
			all = append(all, d.UUID)
		}
	}
	slices.Sort(all)
	return all
}

func heldText(held []kube.Holder) string {
	if len(held) == 0 {
		return ""
	}
	return "held by " + graph.HeldBy(held)
}

// lead leads a run that begins, or that was begun by somebody.
func (j *validateJob) lead(ctx context.Context, book *clusterBook, kept *graph.Kept, alone bool) (*spec.Verdict, error) {
	a := j.app
	view := a.showRun(kept.Plan)
	defer func() { view.close() }()
	word, _ := a.env.LookupEnv(spec.KnobToken)
	token := graph.Secret(word)
	book.mask = redact.NewMask(string(token))
	r := &graph.Run{API: j.cluster, Kept: kept, Secret: token, Book: book, Now: a.env.Now, Hear: view.hear,
		Told:   graph.Told{Say: func(text string) { a.say("%s", text) }, Waiting: func(text string) { view.Waiting(text) }},
		Ledger: j.cluster.GPUs,
		Begun:  func() { a.leave(kept, j.cleanCommand(kept)) }, Attach: j.attachCommand(kept)}
	var verdict error
	r.Judged = func(end *graph.End) {
		view.close()
		book.goesOn = kept.Stage != graph.StageJudged
		verdict = j.tellVerdict(ctx, book, end, alone)
		if !kept.Settings.NoCleanup && !end.Waits {
			view = a.showRun(kept.Plan)
			view.Stage(stageRemoval, 0)
		}
	}
	end, err := r.Go(ctx)
	a.leave(nil, "")
	view.close()
	if end.Verdict == nil {
		verdict = book.close(end, a.env.Now())
	}
	return end.Verdict, errors.Join(verdict, j.tellEnd(ctx, book, end, err))
}

// leave notes what is on the cluster, should the program be made to end at once.
func (a *app) leave(kept *graph.Kept, command string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parting = nil
	if kept != nil {
		where := "namespace " + graph.NamesOf(kept.Run.ID).Namespace + ", and "
		if kept.Settings.Namespaced {
			where = ""
		}
		a.parting = func() {
			fmt.Fprintf(a.env.Stderr, "left on the cluster: %swhat carries run %s in namespace %s\nto remove it: %s\n",
				where, kept.Run.ID, kept.Settings.Namespace, command)
		}
	}
}

// cleanCommand removes what a run has left; attachCommand goes on with it.
func (j *validateJob) cleanCommand(kept *graph.Kept) string {
	return "aicr clean --run " + kept.Run.ID + j.whereIs(kept)
}

func (j *validateJob) attachCommand(kept *graph.Kept) string {
	command := "aicr validate --attach " + kept.Run.ID + j.whereIs(kept)
	if image := j.options.on.image; image != "" {
		command += " --image " + layout.Quoted(image)
	}
	if secret := j.options.on.pullSecret; secret != "" {
		command += " --image-pull-secret " + layout.Quoted(secret)
	}
	return command
}

// whereIs are the flags by which a run is found again from here: who attaches to it may
// call its cluster by another name than who began it.
func (j *validateJob) whereIs(kept *graph.Kept) string {
	name, namespace := kept.Run.Target.Context, ""
	if j.cluster != nil {
		name = j.cluster.Context
	}
	if kept.Settings != nil {
		namespace = kept.Settings.Namespace
	}
	if kept.Settings != nil && kept.Settings.Namespaced {
		return " --namespaced " + namespace + foundBy("", j.options.on.cluster.kubeconfig, name)
	}
	return foundBy(namespace, j.options.on.cluster.kubeconfig, name)
}

// foundBy are the flags by which a run is found: its namespace, where it is not the usual
// one, and its cluster, as it was named here.
func foundBy(namespace, kubeconfig, context string) (flags string) {
	if namespace != "" && namespace != defaultNamespace {
		flags += " --namespace " + namespace
	}
	if kubeconfig != "" {
		flags += " --kubeconfig " + layout.Quoted(kubeconfig)
	}
	if context != "" && context != kube.InCluster {
		flags += " --context " + layout.Quoted(context)
	}
	return flags
}

// tellVerdict closes the record and says what a run came to, before what was made is
// taken away: nobody waits for that to know it.
func (j *validateJob) tellVerdict(ctx context.Context, book *clusterBook, end *graph.End, alone bool) error {
	a := j.app
	lost := book.close(end, a.env.Now())
	run := book.record.run
	var also []error
	switch {
	case end.Missing == "":
	case end.By == "":
		also = append(also, unmeasured(book.knows(), "the load came to no result: %s", end.Missing))
	default:
		a.say("%s", end.Missing)
	}
	var trend *spec.Trend
	switch {
	case lost != nil || j.past == nil:
	case book.goesOn:
		a.say("the run is not over, and not in the history: --attach with --history appends it")
	default:
		trend, lost = j.past.add(judge.NewHistoryEntry(run, book.deployment(j.plan.Point.Workers), j.plan, end.Verdict))
	}
	if !alone {
		own := ofInference(end.Verdict)
		a.say("%s  %s: %s", run.Target.Node, own.Verdict, own.Reason)
		if trend != nil {
			for _, line := range trend.Lines {
				a.say("%s  history: %s", run.Target.Node, line)
			}
		}
		return errors.Join(append(also, lost)...)
	}
	report := &spec.Report{Run: run, Plan: j.plan, Verdict: end.Verdict, Trend: trend, Kept: book.dir}
	if end.IsCopy() { // the run is over, and there is no record here that could be judged again
		report.Run.End, report.Kept = a.env.Now().UTC().Format(time.RFC3339Nano), ""
	}
	told := j.tell(ctx, report)
	if knows := book.knows(); knows != "" && len(also) == 0 {
		a.say("%s", knows)
	}
	return errors.Join(append([]error{told, lost, endOf(end.Verdict, j.options.failOn)}, also...)...)
}

// tellEnd says what is left of a run, and that it could not be carried out.
func (j *validateJob) tellEnd(ctx context.Context, book *clusterBook, end *graph.End, failed error) error {
	a := j.app
	run := book.record.run
	kept := &graph.Kept{Run: run, Settings: &graph.Settings{Namespace: j.options.on.namespace}}
	var also []error
	if end.Stays {
		a.say("left on the cluster, as asked: run %s; to remove it: %s", run.ID, j.cleanCommand(kept))
	}
	if end.Waits {
		why := "could not be kept here, and is still in its pod: make room, then"
		if _, ok := errors.AsType[*graph.UnfetchedError](failed); ok {
			why = "is still in its pod: mend what is between, or attach from elsewhere"
		}
		a.say("the load's record %s: %s; to give it up: %s", why, j.attachCommand(kept), j.cleanCommand(kept))
	}
	for _, l := range end.Left {
		also = append(also, &Problem{Code: Passed, Cause: fmt.Errorf("%s %s is left on the cluster: %s", l.Kind, strings.TrimPrefix(l.Namespace+"/"+l.Name, "/"), l.Why), Hint: l.Command})
	}
	if failed != nil && !a.interrupted(ctx) {
		hint := book.knows()
		if p, ok := errors.AsType[*Problem](failed); ok && p.Hint != "" {
			hint = p.Hint
		}
		if foreign, ok := errors.AsType[*graph.ForeignError](failed); ok {
			hint = "rename or remove it: nothing of " + foreign.Name + " was touched"
		}
		if _, ok := errors.AsType[*graph.RemovedError](failed); ok {
			hint = "somebody else has, by hand or with 'aicr clean --run': nothing is known of the deployment, so validate again"
		}
		if _, ok := errors.AsType[*graph.EndedElsewhere](failed); ok {
			hint = "its verdict is where that command was"
		}
		also = append(also, unmeasured(hint, "validating: %w", failed))
	}
	return errors.Join(also...)
}

// hear follows the load by the lines of its log.
func (v *runView) hear(l graph.LoadLine) {
	switch l.Kind {
	case graph.LineStage:
		v.Stage(l.Stage, l.Number)
	case graph.LineProgress:
		if p := l.Progress; p != nil {
			point := v.plan.Point
			point.Concurrency = p.Concurrency
			v.Progress(checks.Progress{Episode: l.Number, Point: point, TokensPerS: p.TokensPerS,
				Moment: load.Moment{Elapsed: time.Duration(p.Elapsed), Sent: p.Sent, Done: p.Done, Failed: p.Failed, InFlight: p.InFlight, Tokens: p.Tokens,
					TTFT50: time.Duration(p.TTFT50), TTFT99: time.Duration(p.TTFT99)}})
		}
	case graph.LineEpisode:
		if l.Episode != nil {
			v.Episode(l.Episode)
		}
	case graph.LineJudged:
		if l.Verdict != nil {
			var next *judge.Next
			if l.Next != nil {
				next = &judge.Next{Why: l.Next.Why, Retry: l.Next.Retry}
			}
			v.Judged(l.Number, l.Verdict, next)
		}
	case graph.LineDone, graph.LineAlive:
	default:
		v.app.say("load: %s", layout.Shown(l.Text, 400))
	}
}

// Waiting shows what is waited for. Where there is no terminal it is a line when it is
// another than before, and not too often; and once in a while when it is not, so that
// nobody takes a log for dead.
func (v *runView) Waiting(text string) {
	if text != "" {
		text = waitingFor(text)
	}
	v.mu.Lock()
	now := v.app.env.Now()
	if text != v.waiting {
		v.waits = now
	}
	v.waiting = text
	pause := now.Sub(v.toldAt)
	due := text != "" && (text != v.toldWait && pause >= lineEvery || pause >= lifeEvery)
	line := text
	if text == v.toldWait {
		line = v.waitingLine(now)
	}
	if due {
		v.toldWait, v.toldAt = text, now
	}
	v.mu.Unlock()
	if due && !v.shown.term.IsTerminal {
		v.app.say("%s", line)
	}
}

// lifeEvery is how often a log says that the same is still waited for.
const lifeEvery = time.Minute

// waitingLine is what is waited for, and for how long.
func (v *runView) waitingLine(now time.Time) string {
	return fmt.Sprintf("%s (%s)", v.waiting, now.Sub(v.waits).Round(time.Second))
}

// passing is how a time that passes is told: it is no other thing that is waited for.
var passing = regexp.MustCompile(`(, | \()([0-9]+h)?([0-9]+m)?[0-9]+s(\)|$)`)

// waitingFor is a sentence of what is waited for, without how long.
func waitingFor(text string) string {
	return "waiting for " + passing.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, ", ") && strings.HasSuffix(found, ")") {
			return ")"
		}
		return ""
	})
}

// ofAttach are the flags of a deployment that go with --attach: where the run is, and what a
// run's own word is not taken for.
var ofAttach = []string{"namespace", "namespaced", "no-cleanup", "image", "image-pull-secret"}

// attach goes on with a run that was begun before, by whomever.
func (a *app) attach(ctx context.Context, o *validateOptions) error {
	j := &validateJob{app: a, options: o, papers: &papers{}}
	var wrong []error
	for _, flag := range append([]string{"url", "sim", "recipe", "snapshot", "no-cluster", "profile", "dry-run", "phase", "check", skipCheckFlag, "fail-fast"}, onlyCluster...) {
		if !slices.Contains(ofAttach, flag) && a.settings.of(flag).Source == FromFlag {
			wrong = append(wrong, misuse("leave it out", "--attach goes on with a run as it was begun, and --%s is given", flag))
		}
	}
	dir, id, err := attachedTo(o.on.attach)
	wrong = append(wrong, err, o.on.cluster.check(), chosen("fail-on", o.failOn, failOnWords()))
	if !namespaceName(o.on.namespace) {
		wrong = append(wrong, badNamespace(o.on.namespace))
	}
	wrong = append(wrong, o.on.checkNamespaced(a))
	images, unresolved := a.attachedImages(o)
	wrong = append(wrong, unresolved...)
	if dir != "" && o.run != "" {
		wrong = append(wrong, misuse("leave one of them out", "--attach names a folder, and --run another"))
	}
	j.reports, err = o.reports.check(o.format, 1)
	wrong = append(wrong, err)
	if j.past, err = a.openHistory(o.history); err != nil {
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	if j.cluster, err = a.connect(o.on.cluster); err != nil {
		return err
	}
	j.cluster.Trouble = func(text string) { a.say("%s", text) }
	kept, err := graph.FindKept(ctx, j.cluster, o.on.namespace, id)
	if _, ok := errors.AsType[*graph.NothingLeft](err); ok {
		return a.nothingToAttach(dir, id, err)
	}
	if _, ok := errors.AsType[*graph.DistrustError](err); ok {
		return unmeasured("nothing of it was touched; 'aicr clean --run "+id+foundBy(o.on.namespace, o.on.cluster.kubeconfig, j.cluster.Context)+
			"' removes what carries the run's labels", "--attach: %w", err)
	}
	if err != nil {
		return o.on.cluster.unasked(j.cluster, err)
	}
	if kept.Settings.Namespaced != (o.on.namespaced != "") {
		return misuse("attach with: "+j.attachCommand(kept), "--attach: run %s is kept as one %s, and was asked for as the other", id, modeOf(kept.Settings))
	}
	if err := j.useImages(ctx, kept, images); err != nil {
		return err
	}
	if age := a.env.Now().Sub(kept.Alive); age >= 0 && age < graph.AliveFor {
		a.say("a command led this run %s ago; if it still does, end one of the two", age.Round(time.Second))
	}
	if err := a.tokenOf(ctx, j, kept); err != nil {
		return err
	}
	kept.Settings.NoCleanup = kept.Settings.NoCleanup || o.on.noCleanup
	j.plan, j.origin = kept.Plan, kept.Run.Target
	book, err := a.attachedBook(dir, o.run, kept)
	if err != nil {
		return err
	}
	a.say("run %s, begun %s on node %s, at stage %s", id, kept.Run.Start, kept.Settings.Node, kept.Stage)
	_, err = j.lead(ctx, book, kept, true)
	return err
}

func modeOf(s *graph.Settings) string {
	if s.Namespaced {
		return "in one namespace (--namespaced)"
	}
	return "with a namespace for its graph (--namespace)"
}

// attachedImages are what this program and its flags resolve the images of a run to.
func (a *app) attachedImages(o *validateOptions) (graph.Images, []error) {
	p := &papers{}
	library, err := a.library(o.data)
	if err != nil {
		return graph.Images{}, []error{err}
	}
	var wrong []error
	p.library = library
	p.knobs, wrong = a.readKnobs(library.Catalog)
	wrong = append(wrong, o.on.checkImages()...)
	if p.pinned, err = recipes.Versions(); err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return graph.Images{}, wrong
	}
	if p.images, err = a.clusterImages(p.pinned, p.knobs); err != nil {
		return graph.Images{}, []error{err}
	}
	return (&validateJob{app: a, options: o, papers: p}).images(), nil
}

// useImages has a run go on with these images. Where its pods would be made of others than it
// was begun with, by whoever wrote that, it is not gone on with.
func (j *validateJob) useImages(ctx context.Context, kept *graph.Kept, images graph.Images) error {
	other, err := kept.UseImages(ctx, j.cluster, images)
	if err != nil {
		return j.options.on.cluster.unasked(j.cluster, err)
	}
	var wrong []error
	for _, o := range other {
		wrong = append(wrong, misuse("attach with the program that began the run, and with its --image, --image-pull-secret, "+spec.KnobRegistry+" and "+spec.KnobTag+
			"; or remove the run: "+j.cleanCommand(kept), "--attach: for %s the run was begun with %q, and this command resolves %q", o.Of, o.Kept, o.Asked))
	}
	return errors.Join(wrong...)
}

// tokenOf finds out whether a run can be gone on with without a token, before anything of
// it is touched: it can be attached to again, with one.
func (a *app) tokenOf(ctx context.Context, j *validateJob, kept *graph.Kept) error {
	if token, _ := a.env.LookupEnv(spec.KnobToken); token != "" {
		return nil
	}
	needs, err := kept.NeedsToken(ctx, j.cluster)
	if err != nil {
		return j.options.on.cluster.unasked(j.cluster, err)
	}
	if needs {
		return misuse("set it and attach again, or remove the run: "+j.cleanCommand(kept), "run %s: %w", kept.Run.ID, graph.ErrNoToken)
	}
	return nil
}

// attachedTo finds out which run is meant: its folder, or its id.
func attachedTo(word string) (dir, id string, err error) {
	if graph.ValidRun(word) {
		return "", word, nil
	}
	run, err := spec.ReadRun(runFiles(word))
	if err == nil && graph.ValidRun(run.Run.ID) {
		return word, run.Run.ID, nil
	}
	if err == nil {
		return "", "", misuse("judge it with 'aicr judge'", "--attach: %s is the folder of a run that was on no cluster", word)
	}
	return "", "", misuse("an id is written as 20261116-015518-0123456789abcdef; 'aicr clean --dry-run' lists the runs that are on the cluster", "--attach: %q is neither the id nor the folder of a run", word)
}

// attachedBook is where a run is gone on with.
func (a *app) attachedBook(dir, asked string, kept *graph.Kept) (*clusterBook, error) {
	if dir == "" {
		if dir = asked; dir == "" {
			dir = freshFolder("aicr-run-" + strings.Join(strings.SplitN(kept.Run.ID, "-", 3)[:2], "-"))
			defer func() { _ = os.Remove(dir) }() // it is empty where the book could not be begun
		}
		return a.openBook(dir, kept.Run, kept.Plan, kept.Events)
	}
	return a.reopenBook(dir, kept)
}

// nothingToAttach says what can be said of a run that is on no cluster any more.
func (a *app) nothingToAttach(dir, id string, nothing error) error {
	hint := "it was removed, or is on another cluster or in another namespace: see --context and --namespace"
	if dir != "" {
		if _, err := os.Stat(filepath.Join(dir, verdictFile)); err == nil {
			hint = "it is over; its verdict is in its folder: " + againWith("judge", []string{dir})
		}
	}
	return unmeasured(hint, "%w", nothing)
}
