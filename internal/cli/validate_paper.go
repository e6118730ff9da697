package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

// papers are the documents that a validation rests on, and what is asked of them.
type papers struct {
	recipe    *recipeFile // or nil
	library   *recipes.Library
	snapshot  *spec.Snapshot // or nil
	knobs     spec.KnobValues
	options   checks.PreflightOptions
	readiness []spec.Held
	cluster   *kube.Cluster // of a run on one, or nil
	offers    graph.Offers  // of that
	prepared  bool          // an administrator has made the account of loads in the namespace
	pinned    *spec.Versions
	images    checks.Images // of a run on a cluster
}

// readPapers reads the documents and says everything that is wrong with them. No cluster
// is asked before they, and the flags, are sound.
func (o *validateOptions) readPapers(ctx context.Context, a *app, sound bool) (*papers, []error) {
	var wrong []error
	also := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	p := &papers{options: checks.PreflightOptions{Phases: o.phases, Skip: o.skip, SkipPlaces: a.settings.of(skipCheckFlag).Places, Only: o.only,
		OnlyPlaces: a.settings.of("check").Places, FailFast: o.failFast}}
	for _, phase := range o.phases {
		also(chosen("phase", phase, append(spec.Phases(), spec.AllPhases)))
	}
	if slices.Contains(o.phases, spec.AllPhases) {
		p.options.Phases = nil
	}
	var err error
	p.library, err = a.library(o.data)
	also(err)
	if p.library == nil {
		return p, wrong
	}
	p.recipe, err = a.readRecipe(o.recipe, p.library)
	also(err)
	onCluster := strings.HasPrefix(o.snapshot, configMapScheme)
	if o.snapshot != "" && (!onCluster || o.noCluster || o.dryRun) {
		p.snapshot, err = a.readSnapshot(o.snapshot)
		also(err)
	}
	var bad []error
	p.knobs, bad = a.readKnobs(p.library.Catalog)
	wrong = append(wrong, bad...)
	asks := &spec.Recipe{}
	if p.recipe != nil {
		asks = p.recipe.Recipe
	}
	for _, m := range checks.Names(asks, p.library.Catalog, o.namedChecks(p.options)) {
		also(misuse(m.Hint, "%w", m))
	}
	if nothing := checks.Nothing(asks, p.options); nothing != nil && o.onCluster() && p.recipe != nil && len(wrong) == 0 {
		also(misuse(nothing.Hint, "%s: %w", p.recipe.path, nothing))
	}
	if p.snapshot == nil && onCluster && len(wrong) == 0 && sound {
		p.snapshot, err = a.readSnapshotOf(ctx, o.snapshot, o.on.cluster)
		also(err)
	}
	if o.onCluster() && p.recipe != nil && len(wrong) == 0 && sound {
		if err := p.meetCluster(ctx, a, o); err != nil {
			return p, append(wrong, err)
		}
		if p.snapshot == nil {
			p.snapshot, err = a.takeSnapshot(ctx, p.cluster, o.on.cluster, 0)
			also(err)
		}
	}
	if p.recipe == nil {
		if o.snapshot != "" && o.recipe == "" && !o.noCluster {
			also(misuse("name one with --recipe", "--snapshot is what a recipe is held against, and there is none"))
		}
		return p, wrong
	}
	if p.snapshot != nil {
		if !o.noCluster || o.dryRun { // on paper it is part of the product
			for _, note := range checks.OtherCluster(p.recipe.Criteria, p.snapshot) {
				a.say("%s", note)
			}
		}
		p.readiness = spec.HoldAll(p.recipe.Recipe, p.snapshot)
		pinned, err := recipes.Versions()
		also(err)
		if err == nil {
			p.options.Skew = recipes.Broken(recipes.Skew(pinned, p.snapshot))
		}
		p.pinned = pinned
		if err == nil && (o.noCluster && o.dryRun || o.onCluster()) && len(bad) == 0 {
			p.images, err = a.clusterImages(pinned, p.knobs)
			also(err)
		}
	}
	if len(wrong) > 0 || !o.noCluster {
		wrong = append(wrong, unready(p.readiness)...)
	}
	return p, wrong
}

// clusterImages are what a run on a cluster pulls, by this build and the overrides in
// force.
func (a *app) clusterImages(pinned *spec.Versions, knobs spec.KnobValues) (checks.Images, error) {
	var o recipes.Overrides
	o.Registry, _, _ = knobs.Said(spec.KnobRegistry)
	o.Tag, _, _ = knobs.Said(spec.KnobTag)
	all, err := recipes.Images(pinned, recipes.Build(a.env.Build), o)
	if err != nil {
		return checks.Images{}, misuse("", "%w", err)
	}
	of := func(name string) string {
		for _, image := range all {
			if image.Name == name {
				return image.Ref
			}
		}
		return ""
	}
	return checks.Images{Runtime: of(recipes.RuntimeImage), EndpointPicker: of("dynamo-epp"), Load: of("aicr")}, nil
}

// versionsBehind are those of the deployment that a snapshot saw.
func (p *papers) versionsBehind() (runtime, chart string) {
	if p == nil || p.snapshot == nil {
		return "", ""
	}
	text := func(path string) string {
		f, err := p.snapshot.Fact(path)
		if err != nil || !f.Known {
			return ""
		}
		return f.Value.String()
	}
	return text(spec.FactDynamoRuntime), text(spec.FactDynamoChart)
}

// unready words what is wanted of the cluster and is not there.
func unready(all []spec.Held) (wrong []error) {
	for _, h := range all {
		switch h.State {
		case spec.HeldMet:
		case spec.HeldNotMet:
			wrong = append(wrong, misuse(h.Remediation, "the cluster is not ready: %s is %s, wanted %s", h.Name, h.Value, h.Want))
		default:
			wrong = append(wrong, misuse(h.Remediation, "the cluster is not ready: %s, wanted %s, cannot be held: %s", h.Name, h.Want, h.Reason))
		}
	}
	return wrong
}

// namedChecks are the options whose names are looked up in the recipe. An endpoint is
// loaded for inference-perf, whether the recipe declares it or not.
func (o *validateOptions) namedChecks(all checks.PreflightOptions) checks.PreflightOptions {
	if o.noCluster || o.onCluster() {
		return all
	}
	only, places := all.Only, all.OnlyPlaces
	all.Only, all.OnlyPlaces = nil, nil
	for i, name := range only {
		if name == spec.InferencePerf {
			continue
		}
		all.Only = append(all.Only, name)
		if i < len(places) {
			all.OnlyPlaces = append(all.OnlyPlaces, places[i])
		}
	}
	return all
}

// forEndpoint says what is asked of the documents that a run which loads an endpoint
// cannot do.
func (p *papers) forEndpoint(o *validateOptions) (wrong []error) {
	if o.onCluster() {
		return nil
	}
	if n := len(p.options.Phases); n > 0 && !slices.Contains(p.options.Phases, spec.PhasePerformance) {
		wrong = append(wrong, misuse("ask for --phase performance, or look at --recipe and --snapshot with --no-cluster",
			"--phase: an endpoint is loaded, which is of the phase %s alone", spec.PhasePerformance))
	}
	if slices.Contains(o.skip, spec.InferencePerf) {
		wrong = append(wrong, misuse("leave it out", "--skip-check: %s is what the target is loaded for", spec.InferencePerf))
	}
	if len(o.only) > 0 && !slices.Contains(o.only, spec.InferencePerf) {
		wrong = append(wrong, misuse("add --check "+spec.InferencePerf, "--check: %s is what the target is loaded for", spec.InferencePerf))
	}
	return wrong
}

// onlyPaper finds the flags that mean nothing where nothing is contacted, and what is
// missing.
func (o *validateOptions) onlyPaper(a *app) (wrong []error) {
	for _, flag := range []string{"url", "sim", "real-time", "run", "history"} {
		if a.settings.of(flag).Source != FromDefault {
			wrong = append(wrong, misuse("leave one of them out", "--no-cluster and --%s are both given", flag))
		}
	}
	if o.recipe == "" {
		wrong = append(wrong, misuse("name one with --recipe FILE|NAME", "--no-cluster holds a recipe against a snapshot, and there is no recipe"))
	}
	if o.snapshot == "" {
		wrong = append(wrong, misuse("name one with --snapshot FILE; 'aicr snapshot' makes it", "--no-cluster holds a recipe against a snapshot, and there is no snapshot"))
	}
	for _, word := range o.reports.wanted {
		if name, _, _ := strings.Cut(word, "="); slices.Contains(formatNames(1), name) && !slices.Contains(paperFormats(), name) {
			wrong = append(wrong, misuse("want "+strings.Join(paperFormats(), ", "), "--report: nothing was measured on paper that %s could tell", name))
		}
	}
	return wrong
}

// onPaper is the product of --no-cluster.
func (j *validateJob) onPaper() error {
	a, p := j.app, j.papers
	if nothing := checks.Nothing(p.recipe.Recipe, p.options); nothing != nil && checks.Ready(p.readiness) {
		return misuse(nothing.Hint, "%s: %w", p.recipe.path, nothing)
	}
	result := checks.Preflight(p.recipe.Recipe, p.snapshot, p.library.Catalog, p.options)
	result.Recipe, result.Snapshot = j.options.recipe, j.options.snapshot
	if j.options.explain {
		result.Unused = p.unused(a)
	}
	end := endIn(result.Verdict, len(result.Notes) > 0, j.options.failOn)
	if !checks.Ready(result.Readiness) {
		end = Misused
	}
	var printed error
	if !toStandardOutput(j.reports) {
		printed = a.printPreflight(result, j.options.format)
	}
	return errors.Join(printed, a.writeReports(&spec.Report{}, a.paperReports(result, j.reports)), end)
}

// paperFormats are the reports of what is said on paper.
func paperFormats() []string {
	names := []string{"text"}
	for _, f := range report.PreflightFormats() {
		names = append(names, f.Name)
	}
	return names
}

// paperReports are the reports that were asked for, of what is said on paper.
func (a *app) paperReports(p *spec.Preflight, asked []reportFile) (files []reportFile) {
	for _, file := range asked {
		file.Write = func(w io.Writer, _ *spec.Report) error {
			_, err := w.Write(preflightText(p, layout.Palette{}))
			return err
		}
		for _, f := range report.PreflightFormats() {
			if f.Name == file.Name {
				file.Write = func(w io.Writer, _ *spec.Report) error { return f.Write(w, p, a.env.Build.Version) }
			}
		}
		files = append(files, file)
	}
	return files
}

// unused are the fields that are known and that nothing is done with, of the recipe and
// of the configuration.
func (p *papers) unused(a *app) []spec.Unused {
	all := []spec.Unused{}
	add := func(file string, fields []spec.Unused) {
		for _, u := range fields {
			all = append(all, spec.Unused{Path: file + ": " + u.Path, Line: u.Line})
		}
	}
	if p.recipe != nil {
		add(p.recipe.path, p.recipe.Unused)
	}
	add(a.config, a.settings.unused)
	return all
}

// onlyPlanned says of the checks of a plan for a cluster that --no-cluster runs none.
func onlyPlanned(all []spec.PlannedCheck) {
	for i := range all {
		if all[i].Runs {
			all[i].Run(spec.Because(spec.CheckOnCluster))
		}
	}
}

// complete adds to a plan what the documents say of it.
func (p *papers) complete(plan *spec.Plan, o *validateOptions, by *planner) {
	plan.Readiness = p.readiness
	if o.explain {
		plan.Unused = p.unused(by.app)
	}
	switch {
	case p.recipe == nil:
	case o.noCluster || o.onCluster():
		plan.Checks = checks.PlannedChecks(p.recipe.Recipe, p.snapshot, p.library.Catalog, p.options)
		if o.noCluster {
			onlyPlanned(plan.Checks)
		}
		by.noteKnobs()
		if !judge.Loads(plan) {
			plan.Half, plan.Cost = nil, spec.Cost{}
			return
		}
		plan.Creates = checks.ClusterCreates(p.recipe.Recipe, p.snapshot, p.knobs, p.images)
		for _, w := range checks.ClusterWaits(p.knobs) {
			plan.Cost.WorstS += w.Most.Seconds()
			if w.GPUs {
				plan.Cost.WorstGPUMinutes += w.Most.Minutes() * float64(plan.Point.GPUs())
			}
		}
	default:
		plan.Checks = checks.EndpointChecks(p.recipe.Recipe, p.library.Catalog, p.options)
	}
}
