package cli

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// validateOptions are the flags of aicr validate. What bench and watch have too has
// their names.
type validateOptions struct {
	url, sim string
	realTime bool
	seed     uint64
	model    string
	access   benchOptions // key, headers, certificates, proxy
	pages    watchOptions

	point pointFlags

	recipe    string
	data      string // a folder with more recipes
	snapshot  string
	noCluster bool
	phases    []string
	skip      []string
	only      []string
	failFast  bool
	profile   string
	stability string
	history   string

	run     string
	dryRun  bool
	early   bool // end before the load where no PASS is possible
	explain bool
	failOn  string
	format  string
	reports reportFlags

	on clusterOptions // where and how it is deployed

	target  load.TargetOptions
	unsound bool // something is wrong with it
}

// defineAccess offers how the endpoint is reached, to every command that loads one.
func (o *validateOptions) defineAccess(f *pflag.FlagSet) {
	f.StringVar(&o.access.keyFile, "api-key-file", "", "`FILE` with the bearer token; AICR_API_KEY is the other way to give it")
	f.StringArrayVarP(&o.access.headers, "header", "H", nil, "`NAME:VALUE` of a header to send with each request; may be given again")
	secret(f, "header")
	f.StringVar(&o.access.caFile, "ca-cert", "", "`FILE` with the PEM certificates to trust instead of the system's")
	f.BoolVar(&o.access.insecure, "insecure-skip-tls-verify", false, "do not check the servers' certificates")
	f.StringVar(&o.access.proxy, "proxy", "", "`URL` of an HTTP proxy; the proxy variables of the environment are not read")
	secret(f, "proxy")
	o.access.defineReuse(f)
	o.point.timeout = seconds(5 * time.Minute)
	f.Var(&o.point.timeout, "request-timeout-seconds", "give up a request after this `TIME`")
	alias(f, "request-timeout-seconds", "request-timeout")
}

// defineObservation offers what is observed beside the load, to every command that loads an
// endpoint in order to judge it.
func (o *validateOptions) defineObservation(f *pflag.FlagSet) {
	f.StringArrayVar(&o.pages.workers, "worker-metrics", nil, "`URL` of a worker's metrics page, or a file that lists them; may be given again")
	f.StringArrayVar(&o.pages.frontends, "frontend-metrics", nil, "`URL` of a frontend's metrics page; the endpoint's own when not given; may be given again")
	f.StringArrayVar(&o.pages.gpus, "gpu-metrics", nil, "`URL` of a DCGM exporter, or a file as above; may be given again")
	f.StringArrayVar(&o.pages.nodes, "node-metrics", nil, "`URL` of a node exporter or of a kubelet's /stats/summary, a file as above, or local for this machine; may be given again")
	f.Var(newChoice(&o.pages.gpu, "none", local), "gpu", "local asks this machine's nvidia-smi, where there is no DCGM exporter")
	f.StringVar(&o.pages.tokenFile, "metrics-token-file", "", "`FILE` with the bearer token for the https pages of --node-metrics, which a kubelet wants")
}

func (o *validateOptions) define(cmd *cobra.Command) {
	section(cmd, "Target", func(f *pflag.FlagSet) {
		f.StringVarP(&o.url, "url", "u", "", "base `URL` of an OpenAI-compatible endpoint, with or without /v1")
		f.StringVar(&o.sim, "sim", "", "validate a simulated fleet instead: a scenario's `FILE|NAME`, in virtual time")
		f.BoolVar(&o.realTime, "real-time", false, "serve the fleet of --sim over HTTP, and load and observe it as a real one")
		f.Uint64Var(&o.seed, "seed", 0, "`N` that pins prompts, faults and the bootstrap (default: 1 with --sim, drawn anew and kept with --url)")
		alias(f, "seed", "random-seed")
		f.StringVarP(&o.model, "model", "m", "", "`NAME` of the model; the only one that the server has, when not given")
		f.IntVar(&o.point.workers, "workers", 0, "`N` engines behind the URL; 0: as many as --worker-metrics names pages, or not known")
		f.IntVar(&o.point.gpus, "gpus-per-worker", 1, "`N` GPUs that each engine holds, as with tensor parallelism")
		f.IntVar(&o.point.prefill, "prefill-workers", 0, "`N` of --workers that read prompts for the others; 0: each does both, or not known")
		o.defineAccess(f)
	})
	section(cmd, "Observation", o.defineObservation)
	section(cmd, "Operating point", func(f *pflag.FlagSet) {
		f.IntVar(&o.point.perGPU, "concurrency-per-gpu", usualPerGPU, "`N` requests to hold in flight for each GPU")
		o.point.ramp = seconds(usualRamp)
		f.Var(&o.point.ramp, "ramp", "start the users evenly over this `TIME`")
		alias(f, "ramp", "concurrency-ramp-duration")
		f.Var(&o.point.episode, "episode-duration", "load for this `TIME` an episode (default: the profile's)")
		f.IntVar(&o.point.input, "prompt-input-tokens-mean", usualTokens, "`TOKENS` of each prompt as the server counts them, chat template included")
		alias(f, "prompt-input-tokens-mean", "isl", "synthetic-input-tokens-mean")
		f.IntVar(&o.point.output, "prompt-output-tokens-mean", usualTokens, "`TOKENS` of each answer")
		alias(f, "prompt-output-tokens-mean", "osl", "output-tokens-mean")
		f.Int64Var(&o.point.entries, "num-dataset-entries", 0, "recycle `N` prompts, which a prefix cache will know; 0: every prompt is unique")
		alias(f, "num-dataset-entries", "num-prompts", "conversation-num")
		f.Float64Var(&o.point.sentinel, "sentinel-rate", 0, "send `N` requests a second of the load on a fixed schedule; 0: none (default: a hundredth of what is in flight, at least 0.5 and at most 10, and no more than keeps about a tenth of the load in flight)")
	})
	section(cmd, "Judgement", func(f *pflag.FlagSet) {
		f.StringVarP(&o.recipe, "recipe", "r", "", "what is wanted of this hardware, a `FILE|NAME`: a file, or an overlay of the library (see 'aicr recipe --list')")
		dataFlag(f, &o.data)
		f.StringVar(&o.profile, "profile", spec.ProfileStandard, "`NAME`: smoke, quick, standard, certify, or classic, the published gate")
		f.StringVar(&o.stability, "stability", spec.StabilityGate, "`WORD`: gate, or report, with which stalls are told and decide nothing; smoke reports when not said")
		f.StringVar(&o.history, "history", "", "`FILE` with the runs before: stalls of the last weeks count, a slide is told, and this run is appended")
	})
	section(cmd, "Cluster", func(f *pflag.FlagSet) {
		f.StringVarP(&o.snapshot, "snapshot", "s", "", "`FILE` with what was found on the cluster; what the recipe wants of it is held against that first (default on a cluster: taken now)")
		f.BoolVar(&o.noCluster, "no-cluster", false, "say what can be said of --recipe and --snapshot on paper, and contact nothing")
		f.StringArrayVar(&o.phases, "phase", nil, "`PHASE` to look at: deployment, conformance, performance, or all; may be given again (default: all)")
		f.StringArrayVar(&o.only, "check", nil, "run only the check `NAME`, of those that the recipe declares; may be given again (default: all of them)")
		f.StringArrayVar(&o.skip, "skip-check", nil, "leave the check `NAME` out; may be given again")
		f.BoolVar(&o.failFast, "fail-fast", false, "skip the phases after one that did not hold")
	})
	section(cmd, "Deployment on a cluster", o.on.define)
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.run, "run", "", "keep the run in the new folder `DIR` (default: aicr-run- and the time, here)")
		f.BoolVar(&o.dryRun, "dry-run", false, "print the plan, what it costs and where each value came from, and stop")
		f.BoolVar(&o.early, "fail-early", false, "end before the load where it is known that no PASS is possible: INCONCLUSIVE, exit code 3, or FAIL where a declared check has failed")
		f.BoolVar(&o.explain, "explain", false, "with --dry-run or --no-cluster: list the fields too that are known and that nothing is done with")
		failOnFlag(f, &o.failOn)
		o.reports.define(f)
		outputFlag(f, &o.format)
	})
	completesReports(cmd)
	alsoReads(cmd, "AICR_API_KEY", "bearer token for the endpoint")
	alsoReads(cmd, metricsTokenVariable, "the bearer token itself, instead of --metrics-token-file")
	completes(cmd, "profile", spec.Profiles()...)
	completes(cmd, "stability", spec.StabilityGate, spec.StabilityReport)
	_ = cmd.RegisterFlagCompletionFunc("recipe", overlayNames)
	completes(cmd, "phase", append(spec.Phases(), spec.AllPhases)...)
	completes(cmd, "fail-on", failOnWords()...)
	alsoReads(cmd, "KUBECONFIG", "the files that say how to reach the cluster, as for kubectl")
	completes(cmd, "engine", graph.EngineOwn, graph.EngineAIPerf)
	for _, k := range spec.Knobs() {
		alsoReads(cmd, k.Name, k.Meaning)
	}
}

// completes offers the words that a flag takes, where what it takes is checked with
// everything else instead of at once.
func completes(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that is not there, and then so would its test.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// onlyURL are the flags that mean nothing of a simulated fleet.
var onlyURL = []string{"model", "workers", "gpus-per-worker", "prefill-workers", "api-key-file", "header", "ca-cert", "insecure-skip-tls-verify",
	"proxy", "connection-reuse-strategy",
	"worker-metrics", "frontend-metrics", "gpu-metrics", "node-metrics", "gpu", "metrics-token-file"}

// check finds everything that is wrong with the options at once, before anything
// is touched, and makes the plan.
func (o *validateOptions) check(ctx context.Context, a *app) (*validateJob, error) {
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	also := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	j := &validateJob{app: a, options: o}
	wrong = append(wrong, j.checkTarget()...)
	wrong = append(wrong, o.checkCluster(a)...)
	wrong = append(wrong, o.point.check()...)
	if o.run != "" {
		also(takenFolder(o.run))
	}
	also(chosen("profile", o.profile, spec.Profiles()))
	also(chosen("stability", o.stability, []string{spec.StabilityGate, spec.StabilityReport}))
	also(chosen("fail-on", o.failOn, failOnWords()))
	var err error
	j.past, err = a.openHistory(o.history)
	also(err)
	j.reports, err = o.reports.check(o.format, 1)
	also(err)
	if o.dryRun && len(j.reports) > 0 {
		bad("leave one of them out", "--dry-run comes to nothing that --report could tell")
	}
	if o.explain && !o.dryRun && !o.noCluster {
		bad("ask for the plan with --dry-run", "--explain is for --dry-run and --no-cluster")
	}
	papers, bads := o.readPapers(ctx, a, len(wrong) == 0)
	wrong = append(wrong, bads...)
	recipe := papers.recipe
	if recipe != nil {
		o.adopt(a, recipe.Verdict())
	}
	if j.papers = papers; !o.noCluster {
		wrong = append(wrong, papers.forEndpoint(o)...)
	}
	also(o.checkEngine())
	if o.url != "" && o.sim == "" {
		wrong = append(wrong, o.checkURL(a)...)
		j.watched, err = o.watched(a)
		also(err)
		if err == nil && o.point.workers == 0 && o.dryRun { // a run asks the pages: one may have several engines
			o.point.workers = j.watched.pagesOfWorkers()
		}
	}
	if o.noCluster && papers.snapshot != nil {
		j.fleet = checks.NodeGPUs(papers.snapshot)
	}
	counts := o.dryRun && (o.url != "" && o.sim == "" || o.noCluster && papers.snapshot != nil) // a run finds it out
	if counts && max(o.point.workers, j.fleet) == 0 && recipe.perGPU() {
		bad("say it with --workers N", "the recipe wants a figure for each GPU, and how many there are is not known")
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if o.noCluster && !o.dryRun {
		return j, nil
	}
	if o.onCluster() {
		return j, j.prepareCluster(ctx, recipe)
	}
	return j, j.makePlan(ctx, recipe)
}

// adopt takes what a recipe says of the verdict and no flag does.
func (o *validateOptions) adopt(a *app, v spec.RecipeVerdict) {
	flagged := func(flag string) bool { return a.settings.of(flag).Source == FromFlag }
	if v.Profile != "" && !flagged("profile") {
		o.profile = v.Profile
	}
	if v.Stability != "" && !flagged("stability") {
		o.stability = v.Stability
	}
}

// checkTarget finds what is wrong with what is to be validated, and reads the scenario.
func (j *validateJob) checkTarget() (wrong []error) {
	a, o := j.app, j.options
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	switch {
	case o.noCluster:
		wrong = append(wrong, o.onlyPaper(a)...)
	case o.onCluster() && o.recipe == "":
		bad("name an endpoint with --url http://host:port, a recipe for the cluster of your kubeconfig with --recipe FILE|NAME, or try --sim healthy", "there is nothing to validate")
	case o.url != "" && o.sim != "":
		bad("leave one of them out", "--url and --sim are both given")
	}
	if o.realTime && o.sim == "" {
		bad("name a scenario with --sim", "--real-time is for a simulated fleet")
	}
	if o.sim == "" {
		return wrong
	}
	for _, flag := range onlyURL {
		if a.settings.of(flag).Source != FromDefault && o.url == "" {
			bad("leave it out: the scenario says what the fleet is", "--%s is for --url, not for --sim", flag)
		}
	}
	s, err := readScenario(a.ended, o.sim)
	if err != nil {
		return append(wrong, err)
	}
	j.named = &s
	return wrong
}

// makePlan resolves what is sound.
func (j *validateJob) makePlan(ctx context.Context, recipe *recipeFile) error {
	a, o := j.app, j.options
	p := a.newPlanner(recipe, j.named)
	p.knobs = j.papers.knobs
	switch {
	case j.fleet == 0:
	case j.foundBy != "":
		p.fleet = offer[int]{&j.fleet, fromTarget, j.foundBy}
	case o.noCluster:
		p.fleet = offer[int]{&j.fleet, fromSnapshot, o.snapshot}
	case o.onCluster():
		p.fleet = offer[int]{&j.fleet, fromCluster, j.fleetOf}
	}
	flags := []string{"url", "recipe", "data", "snapshot", "history", "request-timeout-seconds"}
	if j.named != nil {
		flags = []string{"sim", "real-time", "recipe", "data", "snapshot", "history"}
	}
	for _, flag := range flags {
		if !p.said(flag) && a.settings.of(flag).Value != "" {
			p.note(flag, a.settings.of(flag).Value, string(FromDefault), "")
		}
	}
	var verdict spec.RecipeVerdict
	if recipe != nil {
		verdict = recipe.Verdict()
	}
	if !p.chose("profile", verdict.Profile) {
		p.note("profile", o.profile, string(FromDefault), "")
	}
	if j.named == nil {
		o.model = p.model(o.model, o.noCluster || o.onCluster())
	}
	stability := o.stability
	if !p.chose("stability", verdict.Stability) {
		stability = defaultStability(o.profile)
		p.note("stability", stability, fromProfile, "")
	}
	switch {
	case p.said("seed"):
	case j.plan != nil: // it is made anew, of the same run
		p.inputs["seed"] = j.plan.Inputs["seed"]
	default:
		o.seed = 1
		from := string(FromDefault)
		if j.named == nil && !o.noCluster {
			o.seed, from = rand.Uint64N(1<<31), "drawn"
		}
		p.note("seed", strconv.FormatUint(o.seed, 10), from, "")
	}
	point := p.point(o.profile, o.point)
	if j.named != nil {
		point.RequestTimeout = 0 // the modelled client gives up when its grace is over
		if o.realTime {
			point.RequestTimeout = time.Duration(o.point.timeout).Seconds()
		}
	}
	var err error
	if j.plan, err = p.plan(o.profile, stability, point, o.seed); err != nil {
		return err
	}
	j.origin = spec.Target{URL: redact.URL(o.url), Model: o.model}
	if j.named != nil {
		j.origin = spec.Target{Scenario: j.named.Metadata.Name, Seed: o.seed, Simulated: true}
	}
	if j.cluster != nil {
		j.origin = spec.Target{Model: o.model, Context: j.cluster.Context}
	}
	j.papers.complete(j.plan, o, p)
	return p.refer(ctx, j.plan)
}

// mostGPUs is how many GPUs an engine can hold.
const mostGPUs = 64

// check finds what is wrong with the flags of the operating point.
func (f *pointFlags) check() (wrong []error) {
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	if f.perGPU < 1 {
		bad("ask for at least 1 request in flight", "--concurrency-per-gpu: %d is below 1", f.perGPU)
	}
	if f.workers < 0 {
		bad("0 is not known", "--workers: %d is below 0", f.workers)
	}
	if f.gpus < 0 || f.gpus > mostGPUs {
		bad("1 is usual", "--gpus-per-worker: %d is not between 1 and %d", f.gpus, mostGPUs)
	}
	if f.prefill < 0 || f.workers > 0 && f.prefill >= f.workers || f.workers == 0 && f.prefill > 0 {
		bad("at least one of --workers must be left to answer", "--prefill-workers: %d of %d workers", f.prefill, f.workers)
	}
	if f.ramp < 0 {
		bad("give a number of seconds, or a duration such as 90s", "--ramp: %s is below 0", time.Duration(f.ramp))
	}
	if f.episode != 0 && time.Duration(f.episode) < leastEpisode {
		bad("50s is usual", "--episode-duration: %s is below %s, in which nothing is steady", time.Duration(f.episode), leastEpisode)
	}
	if f.episode != 0 && f.ramp >= f.episode {
		bad("load for longer than it takes to start", "--episode-duration: %s is not longer than the ramp of %s", time.Duration(f.episode), time.Duration(f.ramp))
	}
	if f.input < 1 || f.output < 1 {
		bad("128 is usual", "--prompt-input-tokens-mean and --prompt-output-tokens-mean want at least 1 token")
	}
	if f.entries < 0 {
		bad("0 is unique", "--num-dataset-entries: %d is below 0", f.entries)
	}
	if f.sentinel < 0 || math.IsNaN(f.sentinel) || f.sentinel > 1000 {
		bad("0 is no sentinel", "--sentinel-rate: %v is not between 0 and 1000", f.sentinel)
	}
	if f.timeout <= 0 {
		bad("give a number of seconds, or a duration such as 90s", "--request-timeout-seconds: %s is not above 0", time.Duration(f.timeout))
	}
	return wrong
}

// defaultStability is whether stalls decide when nobody says: two short episodes
// are no sample of them, and the published gate knows of none.
func defaultStability(profile string) string {
	if profile == spec.ProfileSmoke || profile == spec.ProfileClassic {
		return spec.StabilityReport
	}
	return spec.StabilityGate
}

// leastEpisode is the shortest episode that has a steady part.
const leastEpisode = 10 * time.Second

// checkURL finds what is wrong with an endpoint's address and what it wants to know.
func (o *validateOptions) checkURL(a *app) (wrong []error) {
	o.target = load.TargetOptions{URL: o.url, Endpoint: workload.Chat, Proxy: o.access.proxy, UserAgent: "aicr/" + a.env.Build.Version}
	o.target.Dial = a.env.Network.dialer(o.target)
	wrong = o.access.checkSecrets(a, &o.target)
	if _, err := load.NewTarget(o.target); err != nil {
		wrong = append(wrong, misuse(targetHint(err), "%w", err))
	} else if port := portOf(o.url); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			wrong = append(wrong, misuse("ports go from 1 to 65535", "reading the URL: %q is not a port", port))
		}
	}
	o.unsound = len(wrong) > 0
	return wrong
}

// watched is what is observed beside the load, as aicr watch does it. What is wrong
// with the endpoint is not told again.
func (o *validateOptions) watched(a *app) (*watchJob, error) {
	p := &o.pages
	p.interval = seconds(time.Second)
	if !o.unsound {
		p.url, p.caFile, p.insecure = o.url, o.access.caFile, o.access.insecure
	} else if len(p.workers)+len(p.frontends)+len(p.gpus)+len(p.nodes) == 0 {
		return &watchJob{options: p}, nil
	}
	return a.prepareWatch(p)
}

// pagesOfWorkers is how many workers have a page of their own.
func (j *watchJob) pagesOfWorkers() int { return len(j.workerPages()) }

// folderName is the last part of a folder's path, which a run has as its id.
func folderName(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return filepath.Base(dir)
}
