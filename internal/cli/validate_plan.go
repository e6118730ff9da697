package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/spec"
)

// planner makes a plan of the flags, the recipe, the variables, the scenario, the
// catalog and the defaults, in this order, and notes where each value came from.
type planner struct {
	app    *app
	recipe *recipeFile // or nil
	named  *named      // the scenario, or nil
	knobs  spec.KnobValues
	fleet  offer[int] // workers, by a snapshot
	inputs map[string]spec.Input
}

func (a *app) newPlanner(recipe *recipeFile, s *named) *planner {
	return &planner{app: a, recipe: recipe, named: s, inputs: map[string]spec.Input{}}
}

// Where an input came from, beside the sources of a setting.
const (
	fromRecipe   = "recipe"
	fromScenario = "scenario"
	fromProfile  = "profile"
	fromArgument = "argument"
	fromSnapshot = "snapshot"
	fromCluster  = "cluster"
	fromTarget   = "found at start,"

	thresholdInput = "threshold " // before the name of one that a recipe sets
)

// note keeps where the value of a flag came from.
func (p *planner) note(name, value, from, place string) {
	p.inputs[name] = spec.Input{Value: value, From: from, Place: place}
}

// said says whether the user gave a flag a value, and notes it if so.
func (p *planner) said(flag string) bool {
	set := p.app.settings.of(flag)
	if set.Source == "" || set.Source == FromDefault {
		return false
	}
	p.note(flag, shownValue(flag, set.Value), string(set.Source), set.Place)
	return true
}

// flagged says whether a flag was on the command line, and notes it if so. Nothing
// prevails over that.
func (p *planner) flagged(flag string) bool {
	return p.app.settings.of(flag).Source == FromFlag && p.said(flag)
}

// prevails notes that the recipe says what a flag would, and tells of a variable or a
// file that gives way to it.
func (p *planner) prevails(flag, value, place string, knobs ...string) {
	p.note(flag, value, fromRecipe, place)
	set := p.app.settings.of(flag)
	if (set.Source == FromEnv || set.Source == FromFile) && set.Value != value {
		p.app.say("%s says %s for --%s and gives way to the recipe, which says %s; the flag itself would not", set.Place, set.Value, flag, value)
	}
	for _, name := range knobs {
		if said, from, ok := p.knobs.Said(name); ok && from == spec.KnobFromEnv && said != value {
			p.app.say("%s says %s and gives way to the recipe, which says %s; --%s would not", name, said, value, flag)
		}
	}
}

// chose says whether anybody chose a word of the verdict, and notes who.
func (p *planner) chose(flag, byRecipe string) bool {
	switch {
	case p.flagged(flag):
	case byRecipe != "":
		p.prevails(flag, byRecipe, p.recipe.verdictPlace(flag))
	default:
		return p.said(flag)
	}
	return true
}

// offer is a value that somebody else than the user has for a flag.
type offer[T any] struct {
	value *T
	from  string
	place string
}

// settleInput gives a flag's value: what was on the command line, else what the recipe
// says, else what its variable, the published one or the file says, else the first that
// is offered, else the usual.
func settleInput[T any](p *planner, flag string, said, usual T, offers ...offer[T]) T {
	if p.flagged(flag) {
		return said
	}
	for _, o := range offers {
		if o.value != nil && o.from == fromRecipe {
			p.prevails(flag, written(*o.value), o.place, knobOf(flag)...)
			return *o.value
		}
	}
	shell := slices.IndexFunc(offers, func(o offer[T]) bool { return o.value != nil && o.from == spec.KnobFromEnv })
	if (shell < 0 || p.app.settings.of(flag).Source == FromEnv) && p.said(flag) { // a file gives way to any variable
		return said
	}
	if shell >= 0 {
		offers = offers[shell:]
	}
	for _, o := range offers {
		if o.value != nil {
			p.note(flag, written(*o.value), o.from, o.place)
			return *o.value
		}
	}
	p.note(flag, written(usual), string(FromDefault), "")
	return usual
}

// written is a value as it would stand on the command line.
func written(v any) string {
	if s, ok := v.(seconds); ok {
		return s.String()
	}
	return fmt.Sprint(v)
}

// pointFlags are the flags of the operating point.
type pointFlags struct {
	perGPU        int
	workers       int
	gpus          int // of a worker
	prefill       int // of the workers
	ramp, episode seconds
	input, output int
	entries       int64
	sentinel      float64
	timeout       seconds
}

// The usual operating point, and that of the published gate.
const (
	usualPerGPU = 128
	usualTokens = 128
	usualRamp   = 2 * time.Second

	classicPerGPU      = 256
	classicPrompts     = 100
	classicRequests    = 1000 // at least
	classicPerSlot     = 8    // requests for each one in flight
	classicFloor       = 50000.0 / 8
	classicCeilingMS   = 2000.0
	classicTolerance   = 0.1
	classicHealthyRate = 118000.0 / 8 // published: tokens/s a GPU of the healthy EKS runs
)

// point settles the operating point.
func (p *planner) point(profile string, f pointFlags) spec.OperatingPoint {
	classic := profile == spec.ProfileClassic
	t, _ := spec.DefaultThresholds(profile)
	usual := pointFlags{perGPU: usualPerGPU, ramp: seconds(usualRamp), episode: seconds(t.EpisodeS * float64(time.Second)),
		input: usualTokens, output: usualTokens}
	if classic {
		usual.perGPU, usual.ramp, usual.entries = classicPerGPU, 0, classicPrompts
	}
	r := p.recipe.offers(classic)
	var s pointOffers // of the scenario
	var workers, prefill, gpus int
	switch {
	case p.named == nil:
		workers = settleInput(p, "workers", f.workers, f.workers, p.fleet)
		prefill, gpus = f.prefill, f.gpus
	case !classic: // whose operating point is a part of the gate
		s = scenarioOffers(p.named)
		fallthrough
	default:
		workers = p.named.Fleet.Workers
		p.note("workers", strconv.Itoa(workers), fromScenario, p.named.asked)
	}
	perGPU := settleInput(p, "concurrency-per-gpu", f.perGPU, usual.perGPU, r.perGPU, p.shell(spec.KnobConcurrency), s.perGPU, p.catalog(spec.KnobConcurrency))
	ramp := settleInput(p, "ramp", f.ramp, usual.ramp, r.ramp, s.ramp)
	input := settleInput(p, "prompt-input-tokens-mean", f.input, usual.input, r.input, p.shell(spec.KnobInputTokens), s.input, p.catalog(spec.KnobInputTokens))
	output := settleInput(p, "prompt-output-tokens-mean", f.output, usual.output, r.output, p.shell(spec.KnobOutputTokens), s.output, p.catalog(spec.KnobOutputTokens))
	entries := settleInput(p, "num-dataset-entries", f.entries, usual.entries, r.entries, s.entries)
	point := spec.OperatingPoint{Workers: workers, Prefill: prefill}
	if gpus > 1 {
		point.GPUsPerWorker = gpus
	}
	if p.named != nil {
		point.Shape(&p.named.Fleet)
	}
	users := perGPU * point.GPUs()
	if !classic {
		usual.sentinel = checks.SentinelFor(users, output)
	}
	point.Concurrency, point.RampS = users, time.Duration(ramp).Seconds()
	point.InputTokens, point.OutputTokens, point.Prompts = input, output, spec.Prompts(entries).String()
	point.SentinelRate = settleInput(p, "sentinel-rate", f.sentinel, usual.sentinel)
	point.RequestTimeout = time.Duration(f.timeout).Seconds()
	if p.named != nil {
		point.Router = p.named.Fleet.Router
	}
	if classic {
		point.Requests, point.Wave = p.classicRequests(point.Concurrency), true
		if each := p.classicWave(); each > 1 {
			point.WavePerUser = each
		}
		return point
	}
	episode := settleInput(p, "episode-duration", f.episode, usual.episode, r.episode, s.episode)
	point.DurationS = time.Duration(episode).Seconds()
	return point
}

// pointOffers are what somebody has to say of an operating point.
type pointOffers struct {
	perGPU, input, output offer[int]
	ramp, episode         offer[seconds]
	entries               offer[int64]
}

func scenarioOffers(s *named) pointOffers {
	l := &s.Load
	from := func(v int) offer[int] { return offer[int]{&v, fromScenario, s.asked} }
	lasts := func(d spec.Duration) offer[seconds] {
		v := seconds(d)
		return offer[seconds]{&v, fromScenario, s.asked}
	}
	entries := int64(l.Prompts)
	return pointOffers{perGPU: from(l.ConcurrencyPerGPU), input: from(l.InputTokens), output: from(l.OutputTokens),
		ramp: lasts(l.Ramp), episode: lasts(l.Episode), entries: offer[int64]{&entries, fromScenario, s.asked}}
}

// thresholds are the profile's, then the recipe's, with as many episodes as fit the
// profile's budget of loaded time where the recipe does not count them.
func (p *planner) thresholds(profile string, point spec.OperatingPoint) spec.Thresholds {
	t, _ := spec.DefaultThresholds(profile)
	budget, counted := float64(t.MaxEpisodes)*t.EpisodeS, false
	if p.recipe != nil {
		p.recipe.Overlay(&t)
		_, counted = p.recipe.Verdict().Thresholds["maxEpisodes"]
		for name, v := range p.recipe.Verdict().Thresholds {
			p.note(thresholdInput+name, fmt.Sprint(v), fromRecipe, p.recipe.verdictPlace(name))
		}
	}
	p.answerWithin(&t)
	if point.DurationS > 0 {
		t.EpisodeS = point.DurationS
		if !counted {
			t.MaxEpisodes = max(t.MinEpisodes, int(math.Ceil(budget/t.EpisodeS-1e-9)))
		}
	}
	return t
}

// plan is all but the reference, which may have to be measured first.
func (p *planner) plan(profile, stability string, point spec.OperatingPoint, seed uint64) (*spec.Plan, error) {
	plan := &spec.Plan{Schema: spec.PlanSchema, Profile: profile, Point: point, Stability: stability, Seed: seed,
		Thresholds: p.thresholds(profile, point), Inputs: p.inputs, Constraints: []spec.Constraint{}}
	if p.named != nil { // a simulated fleet is nobody's cluster: its GPUs may be taken
		plan.Scenario, plan.NoFreeGPUs = p.named.Scenario, spec.NoFreeGPUsSkip
	}
	if p.recipe != nil {
		plan.NoFreeGPUs = cmp.Or(p.recipe.Verdict().NoFreeGPUs, spec.NoFreeGPUsFail)
		plan.Constraints = append(plan.Constraints, p.recipe.Figures(point.GPUs())...)
	}
	if profile == spec.ProfileClassic {
		plan.Constraints = classicConstraints(plan.Constraints, point.GPUs())
	} else if half := halfOf(point); half != nil {
		plan.Half = half
	}
	plan.Cost = costOf(plan)
	if err := plan.Thresholds.Check(); err != nil {
		return nil, p.unsound(err)
	}
	return plan, nil
}

// unsound says what is wrong with the thresholds of a plan: a recipe's, or episodes
// that are too short.
func (p *planner) unsound(err error) error {
	var wrong []error
	all, _ := errors.AsType[spec.Mistakes](err)
	for _, m := range all {
		wrong = append(wrong, misuse(m.Hint, "the plan makes no sense: %s: %s", m.Path, m.Text))
	}
	return errors.Join(wrong...)
}

// classicConstraints are what the published gate wants where the recipe wants
// nothing.
func classicConstraints(said []spec.Constraint, workers int) []spec.Constraint {
	const from = "the published gate"
	for _, c := range []spec.Constraint{
		{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: classicFloor * float64(max(1, workers)), Unit: "tokens/s", Tolerance: classicTolerance, From: from},
		{Name: spec.ConstraintTTFT, Comparator: "<=", Threshold: classicCeilingMS, Unit: "ms", Tolerance: classicTolerance, From: from},
	} {
		if !slices.ContainsFunc(said, func(s spec.Constraint) bool { return s.Name == c.Name }) {
			said = append(said, c)
		}
	}
	return said
}

// shortLook is how long half the load is looked at.
const shortLook = 20.0

// halfOf is the look at half the load. Each worker of a fleet has the same number
// of users, before and after.
func halfOf(point spec.OperatingPoint) *spec.HalfLook {
	n := point.GPUs()
	c := point.Concurrency / n / 2 * n
	if c == 0 {
		return nil
	}
	return &spec.HalfLook{Concurrency: c, DurationS: min(shortLook, point.DurationS)}
}

// gap is about how long the last answers of an episode, and the start of the next,
// take.
const gap = 5.0

// costOf is what the plan takes once every worker is warm: of a healthy fleet until
// no stall in so many minutes decides, and at worst with every episode there is.
func costOf(p *spec.Plan) spec.Cost {
	t := &p.Thresholds
	expected := t.MinEpisodes
	if p.Stability == spec.StabilityGate && p.Profile != spec.ProfileClassic {
		expected = max(expected, int(math.Ceil(min(judge.HealthyMinutes(p)*60/t.EpisodeS-1e-9, float64(t.MaxEpisodes)))))
	}
	c := spec.Cost{ExpectedEpisodes: min(expected, t.MaxEpisodes), WorstEpisodes: t.MaxEpisodes + t.MaxRetries}
	long, longest := p.Point.DurationS+gap, p.Point.DurationS+gap
	if n := p.Point.Requests; n > 0 {
		c.WorstEpisodes = t.MaxEpisodes // the published gate is not repeated
		tokens := float64(n+p.Point.WaveRequests()) * float64(p.Point.OutputTokens)
		gpus := float64(p.Point.GPUs())
		long, longest = tokens/(classicHealthyRate*gpus)+gap, tokens/(classicFloor*gpus)+gap
	}
	c.ExpectedS, c.WorstS = float64(c.ExpectedEpisodes)*long, float64(c.WorstEpisodes)*longest
	if p.Half != nil {
		c.ExpectedS += p.Half.DurationS + gap
		c.WorstS += p.Half.DurationS + gap
	}
	gpus := float64(p.Point.GPUs())
	c.ExpectedGPUMinutes, c.WorstGPUMinutes = c.ExpectedS/60*gpus, c.WorstS/60*gpus
	return c
}

// refer finds what capability is held against: the recipe's, the scenario's, or the
// same fleet with nothing wrong.
func (p *planner) refer(ctx context.Context, plan *spec.Plan) error {
	if plan.Profile == spec.ProfileClassic { // the published gate knows a floor and a ceiling
		return nil
	}
	if p.recipe != nil && p.recipe.Verdict().Reference != nil {
		var why string
		if plan.Reference, why = p.recipe.reference(plan.Point); why != "" {
			p.note("reference", "left out: "+why, fromRecipe, p.recipe.verdictPlace("reference"))
			p.app.say("the recipe's reference is left out: %s", why)
		}
		return nil
	}
	if p.named == nil {
		return nil
	}
	x, err := p.named.reference(ctx, plan.Point)
	if err != nil {
		return err
	}
	plan.Reference = x
	return nil
}

// chosen checks a flag that takes one of a few words.
func chosen(flag, value string, options []string) error {
	if slices.Contains(options, value) {
		return nil
	}
	hint := "want " + strings.Join(options, ", ")
	if near, ok := spec.Nearest(value, options); ok {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return misuse(hint, "--%s: %q is none that there is", flag, value)
}
