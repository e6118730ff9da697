package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

// clusterOptions are the flags of a run that deploys what it measures.
type clusterOptions struct {
	cluster     clusterFlags
	namespace   string
	namespaced  string // the one namespace that all of the run is in; "": the graph has one of its own
	node        string
	nodes       nodeCount
	selector    []string
	tolerations []string
	noCleanup   bool
	attach      string
	engine      string
	image       string
	pullSecret  string
	rbac        bool

	wish graph.Wish
}

func (o *clusterOptions) define(f *pflag.FlagSet) {
	o.cluster.define(f)
	f.StringVar(&o.namespace, "namespace", defaultNamespace, "`NAME` of the namespace for the load's Job and for what is kept of the run; the graph has one of its own")
	f.StringVar(&o.namespaced, "namespaced", "", "`NAME` of the one namespace that all of the run is made in, with rights in it alone: see --rbac")
	f.StringVar(&o.node, "node", "", "`NAME` of the node to deploy on (default: the one with the most free GPUs)")
	f.Var(&o.nodes, "nodes", "`all|N` nodes, one after the other; what they show is compared")
	f.StringArrayVar(&o.selector, "node-selector", nil, "only nodes with these `LABELS`: key=value, key!=value, key or !key, with commas; may be given again")
	f.StringArrayVar(&o.tolerations, "toleration", nil, "`KEY=VALUE:EFFECT` that what serves tolerates, or KEY:EFFECT, KEY, *; may be given again (default: the node's own taints)")
	f.BoolVar(&o.noCleanup, "no-cleanup", false, "leave what was made on the cluster, and print the command that removes it")
	f.StringVar(&o.attach, "attach", "", "go on with the run `RUN`, by its id or its folder, wherever it was begun")
	f.StringVar(&o.engine, "engine", graph.EngineOwn, "`WORD`: who loads: aicr, or aiperf")
	f.StringVar(&o.image, "image", "", "`REF` of this program's image, for the load's Job (default: that of this release)")
	f.StringVar(&o.pullSecret, "image-pull-secret", "", "`NAME` of the Secret that images are pulled with; it has to be in the namespaces of the run, and is not copied")
	f.BoolVar(&o.rbac, "rbac", false, "print the roles that a run needs, with --namespaced those of a run in one namespace, and ask no cluster")
}

// nodeCount is a number of nodes, or all of them. What it is not is told with everything
// else.
type nodeCount string

func (n *nodeCount) String() string { return string(*n) }

// Set keeps what was written.
func (n *nodeCount) Set(text string) error {
	*n = nodeCount(text)
	return nil
}

// Type says that it is a number, as elsewhere, or a word.
func (n *nodeCount) Type() string { return "int|all" }

const defaultNamespace = "aicr-validation"

// onlyCluster are the flags that mean nothing where nothing is deployed.
var onlyCluster = []string{"namespace", "namespaced", "node", "nodes", "node-selector", "toleration", "no-cleanup", "engine", "image", "image-pull-secret"}

// onCluster says whether what is validated is deployed on a cluster.
func (o *validateOptions) onCluster() bool { return o.url == "" && o.sim == "" && !o.noCluster }

// checkCluster finds what is wrong with the flags of a deployment, before any cluster is
// asked.
func (o *validateOptions) checkCluster(a *app) (wrong []error) {
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	c := &o.on
	if !o.onCluster() {
		for _, flag := range append([]string{"kubeconfig", "context"}, onlyCluster...) {
			if a.settings.of(flag).Source == FromFlag {
				bad("leave it out", "--%s is for a run that deploys on a cluster", flag)
			}
		}
		return wrong
	}
	for _, flag := range onlyURL {
		if a.settings.of(flag).Source == FromFlag && flag != "model" && !(flag == "workers" && c.namespaced != "") {
			bad("leave it out: what is deployed is found", "--%s is for --url, not for a cluster", flag)
		}
	}
	if err := c.cluster.check(); err != nil {
		wrong = append(wrong, err)
	}
	if err := chosen("engine", c.engine, []string{graph.EngineOwn, graph.EngineAIPerf}); err != nil {
		wrong = append(wrong, err)
	}
	if !namespaceName(c.namespace) {
		wrong = append(wrong, badNamespace(c.namespace))
	}
	if err := c.checkNamespaced(a); err != nil {
		wrong = append(wrong, err)
	}
	if c.namespaced != "" && c.nodes != "" {
		bad("name one with --node", "--nodes is for a run that may read every node, and --namespaced is given")
	}
	wrong = append(wrong, c.checkImages()...)
	if c.nodes != "" && len(o.reports.wanted) > 0 {
		bad("make them afterwards, of each node's folder: 'aicr report FLEET/NODE --report …'; -o json has the fleet", "--nodes comes to one verdict of several runs, and --report tells one run")
	}
	return append(wrong, c.readWish()...)
}

// settle has everything be in the one namespace of --namespaced.
func (c *clusterOptions) settle() {
	if c.namespaced != "" {
		c.namespace = c.namespaced
	}
}

// checkNamespaced finds what is wrong with --namespaced.
func (c *clusterOptions) checkNamespaced(a *app) error {
	switch {
	case a.settings.of("namespaced").Source != FromFlag:
		return nil
	case !namespaceName(c.namespaced) || len(c.namespaced) > graph.MostNamespace:
		return misuse(fmt.Sprintf("lower-case letters, digits and dashes, %d at most: Dynamo's operator makes a label of it and the graph's name", graph.MostNamespace),
			"--namespaced: %q is no name of a namespace", c.namespaced)
	case a.settings.of("namespace").Source == FromFlag:
		return misuse("leave --namespace out", "--namespace and --namespaced are both given")
	}
	return nil
}

// checkImages finds what is wrong with the flags of images.
func (c *clusterOptions) checkImages() (wrong []error) {
	if _, err := recipes.Resolve(c.image, recipes.Rules{}); c.image != "" && err != nil {
		wrong = append(wrong, misuse("write it as registry.example.com/team/aicr:9.9.9, or with @sha256: and its digest", "--image: %w", err))
	}
	if c.pullSecret != "" && !objectName(c.pullSecret) {
		wrong = append(wrong, misuse("lower-case letters, digits, dashes and dots, 253 at most", "--image-pull-secret: %q is no name of a Secret", c.pullSecret))
	}
	return wrong
}

// checkEngine says whether the profile, which the recipe may have set, can be judged by
// what the engine gives.
func (o *validateOptions) checkEngine() error {
	if !o.onCluster() {
		return nil
	}
	if why := graph.CheckEngine(o.on.engine, o.profile); why != "" {
		return misuse("add --profile classic", "--engine: %s", why)
	}
	return nil
}

// readWish reads what is wanted of the node.
func (c *clusterOptions) readWish() (wrong []error) {
	c.wish.Node = c.node
	switch n, err := strconv.Atoi(string(c.nodes)); {
	case c.nodes == "":
	case c.node != "":
		wrong = append(wrong, misuse("leave one of them out", "--node and --nodes are both given"))
	case c.nodes == "all":
		c.wish.Nodes = graph.AllNodes
	case err != nil || n < 1:
		wrong = append(wrong, misuse("write all, or a number", "--nodes: %q is no number of nodes", c.nodes))
	default:
		c.wish.Nodes = n
	}
	for _, text := range c.selector {
		s, err := graph.ParseSelector(text)
		if err != nil {
			wrong = append(wrong, misuse("write it as kubectl does: accelerator=h100,!spot", "--node-selector: %w", err))
		}
		c.wish.Selector = append(c.wish.Selector, s...)
	}
	for _, text := range c.tolerations {
		t, err := graph.ParseToleration(text)
		if err != nil {
			wrong = append(wrong, misuse("write it as a taint: nvidia.com/gpu=present:NoSchedule", "--toleration: %w", err))
		}
		c.wish.Tolerations = append(c.wish.Tolerations, t)
	}
	return wrong
}

func namespaceName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			return false
		}
	}
	return true
}

func badNamespace(name string) error {
	return misuse("lower-case letters, digits and dashes, 63 at most", "--namespace: %q is no name of a namespace", name)
}

// objectName says whether an object may be called so.
func objectName(s string) bool {
	return len(s) <= 253 && !slices.ContainsFunc(strings.Split(s, "."), func(part string) bool { return !namespaceName(part) })
}

// prepareCluster asks the cluster what there is, chooses the node, makes the plan, and has
// the guards look at all of it. Nothing is written.
func (j *validateJob) prepareCluster(ctx context.Context, recipe *recipeFile) error {
	o := j.options
	var err error
	j.cluster, j.offers = j.papers.cluster, j.papers.offers
	wish := o.on.wish
	wish.Policy, wish.KAI = recipe.GPUPolicy, j.offers.KAI
	j.papers.options.Live = j.liveFacts()
	var refused error
	if o.on.namespaced != "" {
		if refused, err = j.chooseSeen(ctx, wish); err != nil {
			return o.on.cluster.unasked(j.cluster, fmt.Errorf("asking who holds which GPUs: %w", err))
		}
	} else {
		if j.nodes, err = j.gpus(ctx); err != nil {
			return err
		}
		j.choice, refused = graph.Choose(j.nodes, wish)
	}
	choice := j.choice
	j.fleet, j.fleetOf = roomOf(j.nodes, choice)
	if err := j.makePlan(ctx, recipe); err != nil {
		return errors.Join(worded(refused), err)
	}
	if !judge.Loads(j.plan) && !j.failsOnPaper() { // nothing is deployed: no node and no right is needed for it
		return nil
	}
	s, err := j.settings(dryRunID, j.representative())
	if err != nil {
		return errors.Join(worded(refused), err)
	}
	j.planObjects(s)
	all, err := j.guard(ctx, s)
	var others error
	if err == nil && refused == nil && o.dryRun && wish.Nodes != 0 && len(choice.Nodes) > 0 {
		others = j.planNodes(ctx)
	}
	decided := len(all) > 0 && !slices.ContainsFunc(all, func(r graph.Refusal) bool { return r.State != spec.Fail })
	if err == nil && refused == nil && decided && !o.dryRun {
		j.refused = all // that is a verdict, and not that none could be had
		var why []string
		for _, r := range all {
			why = append(why, r.Text)
		}
		j.decideInference(spec.Fail, why...)
		return nil
	}
	return errors.Join(err, refusals(all), others, worded(refused))
}

// liveFacts is what the cluster was asked beside the snapshot, which may be older, of
// another tool, or silent on it. Whether a node can be used is for graph.Choose to say.
func (j *validateJob) liveFacts() map[string]bool {
	live := map[string]bool{spec.FactGraphCRD: j.offers.Graph != "", spec.FactGPUCount: true}
	if j.offers.DRA != "" { // else it may be served in a version that is not known here
		live[spec.FactDRAAPI] = true
	}
	if j.offers.Queue { // else it may be installed without what is asked for
		live[checks.InstalledFact("kai-scheduler")] = true
	}
	return live
}

// failsOnPaper says whether inference-perf is known to fail: the guards say it too, with
// what helps and with all else that is wrong.
func (j *validateJob) failsOnPaper() bool {
	return slices.ContainsFunc(j.plan.Checks, func(c spec.PlannedCheck) bool { return c.Name == spec.InferencePerf && c.Verdict == spec.Fail })
}

// decideInference sets what inference-perf comes to where a look at the cluster decides it.
func (j *validateJob) decideInference(state spec.State, why ...string) {
	for i := range j.plan.Checks {
		if c := &j.plan.Checks[i]; c.Name == spec.InferencePerf {
			c.Decide(state, spec.Because(spec.ClusterGuard, why...))
		}
	}
}

// meetCluster connects to the cluster, and asks what it offers and whether all may be done
// that a run does. It is the first that is asked of it.
func (p *papers) meetCluster(ctx context.Context, a *app, o *validateOptions) error {
	var err error
	if p.cluster, err = a.connect(o.on.cluster); err != nil {
		return err
	}
	p.cluster.Trouble = func(text string) { a.say("%s", text) }
	if p.offers, err = graph.Look(ctx, p.cluster); err != nil {
		return o.on.cluster.unasked(p.cluster, fmt.Errorf("asking what the cluster offers: %w", err))
	}
	if !checks.Asked(p.recipe.Recipe, p.options, spec.InferencePerf) {
		return nil // nothing is made
	}
	if p.prepared, err = graph.IsPrepared(ctx, p.cluster, o.on.namespace); err != nil {
		return o.on.cluster.unasked(p.cluster, fmt.Errorf("asking whether an account is prepared for the load: %w", err))
	}
	s := &graph.Settings{Run: dryRunID, Namespace: o.on.namespace, Namespaced: o.on.namespaced != "", Prepared: p.prepared,
		DRA: p.offers.DRA, Queue: p.offers.Queue, Grove: p.offers.Grove, Engine: o.on.engine, Live: p.snapshot == nil}
	p.uses(s)
	refused, err := graph.AskRights(ctx, p.cluster, p.recipe.Recipe, s)
	if err != nil {
		return o.on.cluster.unasked(p.cluster, fmt.Errorf("asking what you may do: %w", err))
	}
	if s.Namespaced && !p.prepared && len(refused) == 0 && s.Engine != graph.EngineAIPerf {
		return unmeasured("'aicr validate --rbac --namespaced "+s.Namespace+"' prints it with its roles, for an administrator to apply", "%w", &graph.NoAccountError{Namespace: s.Namespace})
	}
	return refusals(refused)
}

// refusals are those of the guards as the command line tells them.
func refusals(all []graph.Refusal) error {
	var wrong []error
	for _, r := range all {
		code := Unmeasured
		if r.State == spec.Fail {
			code = Failed
		}
		wrong = append(wrong, &Problem{Code: code, Cause: errors.New(r.Text), Hint: r.Hint})
	}
	return errors.Join(wrong...)
}

const rightsHint = "'aicr validate --rbac' prints the roles that a run needs, for an administrator to apply and to bind to you"

// worded makes a Problem of what cannot be had.
func worded(err error) error {
	c, ok := errors.AsType[*graph.ChoiceError](err)
	if ok && c.Runs {
		return unmeasured(c.Hint+"; or wait until those runs have ended", "%s", c.Text)
	}
	if ok {
		return misuse(c.Hint, "%s", c.Text)
	}
	return err
}

// roomOf is how many workers the plan is for: the free GPUs of the first node, or, where
// nothing is free, what the largest could have had.
func roomOf(nodes []kube.GPUNode, c *graph.Choice) (workers int, node string) {
	if c != nil && len(c.Nodes) > 0 {
		return c.Nodes[0].Workers, "node " + c.Nodes[0].Node
	}
	for _, n := range nodes {
		if gpus := max(n.Plugin, len(n.Devices)); gpus > workers {
			workers, node = gpus, "node "+n.Name+", were its GPUs free"
		}
	}
	return workers, node
}

// representative is the node that the plan is printed for.
func (j *validateJob) representative() graph.Chosen {
	if j.choice != nil && len(j.choice.Nodes) > 0 {
		return j.choice.Nodes[0]
	}
	c := graph.Chosen{Workers: j.fleet, By: graph.ByDevicePlugin}
	if j.offers.DRA != "" {
		c.By = graph.ByClaim
	}
	return c
}

// guard has everything looked at that can be known to be wrong, and says all of it.
func (j *validateJob) guard(ctx context.Context, s *graph.Settings) ([]graph.Refusal, error) {
	in := graph.GuardInput{Recipe: j.papers.recipe.Recipe, Settings: s, Offers: j.offers, Skew: j.papers.options.Skew, Asked: true, Unseen: j.unseen.Nodes || j.unseen.Devices}
	for _, n := range j.nodes {
		// Where none was chosen that is told already: any that could have been will do.
		if n.Name == s.Node || s.Node == "" && max(n.Plugin, len(n.Devices)) > max(in.Node.Plugin, len(in.Node.Devices)) {
			in.Node = n
		}
	}
	if release, ok := recipes.ReleaseOf(j.papers.pinned, s.Images.Release); ok {
		in.Routers = release.RouterModes
	}
	all, err := graph.Guard(ctx, j.cluster, in)
	if err != nil {
		return nil, j.options.on.cluster.unasked(j.cluster, fmt.Errorf("looking before anything is written: %w", err))
	}
	if len(all) == 1 && all[0].State == spec.Skip { // then there is no other
		j.decideInference(spec.Skip, all[0].Text)
		return nil, nil
	}
	return all, nil
}

// dryRunID stands for a run's id where there is none yet.
const dryRunID = "run"

// newRunID draws the id of a run.
func (a *app) newRunID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return a.env.Now().UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// How long the load's pod may take to start, and how long it keeps its record for whoever
// fetches it: a laptop sleeps overnight.
const (
	podWithin = 5 * time.Minute
	keepFor   = 12 * time.Hour
)

// settings are what a run on a node is made of.
func (j *validateJob) settings(run string, node graph.Chosen) (*graph.Settings, error) {
	a, o, p := j.app, j.options, j.papers
	knobs := p.knobs
	s := &graph.Settings{Run: run, Namespace: o.on.namespace, Namespaced: o.on.namespaced != "", Prepared: p.prepared, Unseen: j.unseen.Holders, Node: node.Node, Workers: node.Workers, GPUs: node.By,
		Graph: j.offers.Graph, DRA: j.offers.DRA, Queue: j.offers.Queue && o.on.namespaced == "", Grove: j.offers.Grove, Parent: j.offers.Parent,
		Router: p.pinned.Uses.RouterMode, Model: o.model, Engine: o.on.engine, Tolerations: node.Tolerations, Held: node.Held,
		Images:      j.images(),
		ReadyWithin: graph.Duration(knobs.Duration(spec.KnobReadyTimeout)), AnswerWithin: graph.Duration(inSeconds(j.plan.Thresholds.AnswerWithinS)),
		PodWithin: graph.Duration(podWithin), KeepFor: graph.Duration(keepFor), NoCleanup: j.keepsAll(), Version: a.env.Build.Version}
	if node.Host != node.Node {
		s.Host = node.Host
	}
	if mode, _, ok := knobs.Said(spec.KnobRouter); ok {
		s.Router = mode
	}
	p.uses(s)
	s.LoadWithin = graph.Duration(inSeconds(costOf(j.plan).WorstS)) + s.AnswerWithin + graph.Duration(loadMargin)
	if s.Engine == graph.EngineAIPerf {
		point := &j.plan.Point
		s.AIPerf = &graph.AIPerfLoad{Concurrency: point.Concurrency, Requests: point.Requests, Warmup: point.WaveRequests(), InputTokens: point.InputTokens, OutputTokens: point.OutputTokens}
		if s.Images.AIPerf == "" {
			return nil, misuse("load with --engine aicr", "--engine aiperf: no image with AIPerf is pinned by this release")
		}
	}
	s.Resources = p.resources()
	for _, n := range j.nodes {
		if n.FreeCPU < graph.LoadMilliCPU(s) && n.Name != "" {
			s.LoadOff = append(s.LoadOff, n.Name)
		}
	}
	return s, nil
}

// images are what the pods of a run pull, by this program's pins, the knobs and the flags.
func (j *validateJob) images() graph.Images {
	p, on := j.papers, &j.options.on
	all := graph.Images{Runtime: p.images.Runtime, EndpointPicker: p.images.EndpointPicker, Load: p.images.Load, AIPerf: j.aiperfImage(), PullSecret: on.pullSecret}
	if on.image != "" {
		all.Load = on.image
	}
	if pinned, ok := p.pinned.Image(recipes.RuntimeImage); ok {
		all.Release = pinned.Tag
	}
	return all
}

// uses says what a run makes use of, by the recipe and the knobs.
func (p *papers) uses(s *graph.Settings) {
	if mode, ok := p.recipe.Input(spec.InputRouting); ok {
		s.Gateway = mode == "gateway-epp"
	}
	if size := p.knobs.CacheSize(); size != "" {
		s.Cache = &graph.Cache{Size: size, Populate: graph.Duration(p.knobs.Duration(spec.KnobPopulateTimeout))}
		s.Cache.Class, _, _ = p.knobs.Said(spec.KnobCacheClass)
		if class, ok := p.recipe.Input(spec.InputStorageClass); ok {
			s.Cache.Class = class
		}
	}
	_, _, s.Token = p.knobs.Said(spec.KnobToken)
}

// resources are what the containers of a run request, by the knobs.
func (p *papers) resources() graph.PodResources {
	of := p.knobs.Resources
	return graph.PodResources{Worker: of(spec.KnobWorkerResources), Frontend: of(spec.KnobFrontendResources), Jobs: of(spec.KnobJobResources), Load: of(spec.KnobLoadResources)}
}

// loadMargin is what the load may take beside its episodes and first answers: rests,
// examinations, judging.
const loadMargin = 10 * time.Minute

// keepsAll says whether what is made is left.
func (j *validateJob) keepsAll() bool {
	said, _, _ := j.papers.knobs.Said(spec.KnobNoCleanup)
	on, _ := strconv.ParseBool(said)
	return on || j.options.on.noCleanup
}

// planObjects puts into the plan what is made, on which node, and what is waited for. The
// plan does not hang on the run's id.
func (j *validateJob) planObjects(s *graph.Settings) {
	short := graph.NamesOf(s.Run).Short
	general := func(name string) string {
		return strings.ReplaceAll(strings.ReplaceAll(name, "aicr-ctrf-"+s.Run+"-", "aicr-ctrf-<run>-"), short, "<8 hex>")
	}
	j.plan.Creates = nil
	for _, o := range graph.Planned(s) {
		o.Name, o.Namespace = general(o.Name), general(o.Namespace)
		j.plan.Creates = append(j.plan.Creates, o)
	}
	switch {
	case j.choice == nil:
	case len(j.choice.Nodes) == 0 && len(j.choice.OfRuns()) > 0:
		j.plan.Inputs["node"] = spec.Input{Value: noNodeByRuns, From: fromCluster, Place: "as if " + j.fleetOf}
	case len(j.choice.Nodes) == 0:
		j.plan.Inputs["node"] = spec.Input{Value: noNode, From: fromCluster, Place: "as if " + j.fleetOf}
	default:
		c := j.choice.Nodes[0]
		j.plan.Inputs["node"] = spec.Input{Value: c.Node, From: fromCluster, Place: fmt.Sprintf("%d of %s free, asked for by %s", c.Workers, layout.Plural(c.GPUs, "GPU"), c.By)}
	}
}

// noNode stands for a node's name where all GPUs are held, noNodeByRuns where runs of this
// program have some of them.
const (
	noNode       = "none: no GPU is free"
	noNodeByRuns = "none: other runs have the GPUs"
)

// aiperfImage is the image that has AIPerf in it; "": none is pinned.
func (j *validateJob) aiperfImage() string {
	var o recipes.Overrides
	o.Registry, _, _ = j.papers.knobs.Said(spec.KnobRegistry)
	all, err := recipes.Images(j.papers.pinned, recipes.Build(j.app.env.Build), o)
	if err != nil {
		return ""
	}
	for _, image := range all {
		if image.Name == "aiperf" {
			return image.Ref
		}
	}
	return ""
}

// printWaits says what a run on the cluster waits for, and which nodes it does not go to.
func (j *validateJob) printWaits() error {
	if !j.options.onCluster() || j.options.format == outputJSON || !judge.Loads(j.plan) {
		return nil
	}
	t := &layout.Page{Palette: j.app.stdoutPalette()}
	t.Title("Waited for, at most")
	var rows []layout.Row
	for _, w := range checks.ClusterWaits(j.papers.knobs) {
		rows = append(rows, layout.Row{Cells: []string{w.What, w.Most.String()}})
	}
	t.Table(make([]layout.Column, 2), rows)
	if len(j.choice.Rejected) > 0 {
		t.Title("Nodes that are not used")
		rows = nil
		for _, r := range j.choice.Rejected {
			rows = append(rows, layout.Row{Cells: []string{r.Node, r.Reason}, Below: graph.HeldBy(r.Held)})
		}
		t.Table(make([]layout.Column, 2), rows)
	}
	if missing := j.missing(); missing != "" && j.options.on.wish.Nodes != 0 {
		t.Blank()
		t.Line(2, "", missing)
	}
	_, err := j.app.env.Stdout.Write(t.Bytes())
	return err
}
