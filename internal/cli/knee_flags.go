package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// kneeOptions are the flags of aicr knee. What validate has too has its names.
type kneeOptions struct {
	target validateOptions

	first, most      int
	level, reference seconds
	budget           seconds

	write  string
	force  bool
	dryRun bool
	format string
}

func (o *kneeOptions) define(cmd *cobra.Command) {
	t := &o.target
	section(cmd, "Target", func(f *pflag.FlagSet) {
		f.StringVarP(&t.url, "url", "u", "", "base `URL` of an OpenAI-compatible endpoint, with or without /v1")
		f.StringVar(&t.sim, "sim", "", "load a simulated fleet instead: a scenario's `FILE|NAME`, in virtual time")
		f.BoolVar(&t.realTime, "real-time", false, "serve the fleet of --sim over HTTP, and load it as a real one")
		f.Uint64Var(&t.seed, "seed", 0, "`N` that pins prompts and faults (default: 1 with --sim, drawn anew with --url)")
		alias(f, "seed", "random-seed")
		f.StringVarP(&t.model, "model", "m", "", "`NAME` of the model; the only one that the server has, when not given")
		f.IntVar(&t.point.workers, "workers", 0, "`N` engines, of a GPU each, behind the URL; 0: not known, and levels are of all of them")
		t.defineAccess(f)
	})
	section(cmd, "Observation", t.defineObservation)
	section(cmd, "Requests", func(f *pflag.FlagSet) {
		f.IntVar(&t.point.input, "prompt-input-tokens-mean", usualTokens, "`TOKENS` of each prompt as the server counts them, chat template included")
		alias(f, "prompt-input-tokens-mean", "isl", "synthetic-input-tokens-mean")
		f.IntVar(&t.point.output, "prompt-output-tokens-mean", usualTokens, "`TOKENS` of each answer")
		alias(f, "prompt-output-tokens-mean", "osl", "output-tokens-mean")
		f.Int64Var(&t.point.entries, "num-dataset-entries", 0, "recycle `N` prompts, which a prefix cache will know; 0: every prompt is unique")
		alias(f, "num-dataset-entries", "num-prompts", "conversation-num")
		f.Float64Var(&t.point.sentinel, "sentinel-rate", 0, "of each load, send `N` requests a second on a fixed schedule, and fewer at the lowest levels (default: as validate does, a hundredth of what is in flight, at least 0.5 and at most 10, and no more than keeps about a tenth of the load in flight)")
	})
	section(cmd, "Search", func(f *pflag.FlagSet) {
		f.IntVar(&o.first, "first-per-gpu", 8, "begin with `N` requests in flight for each GPU")
		f.IntVar(&o.most, "max-per-gpu", 1024, "never hold more than `N` requests in flight for each GPU")
		t.point.ramp = seconds(usualRamp)
		f.Var(&t.point.ramp, "ramp", "start the users of each level evenly over this `TIME`")
		alias(f, "ramp", "concurrency-ramp-duration")
		o.level = seconds(10 * time.Second)
		f.Var(&o.level, "level-duration", "load each level steadily for this `TIME`, and longer where requests take long")
		o.reference = seconds(50 * time.Second)
		f.Var(&o.reference, "reference-duration", "load the proposed point for this `TIME` an episode, its ramp included: best as long as the episodes of a validation")
		o.budget = seconds(15 * time.Minute)
		f.Var(&o.budget, "budget", "end within about this `TIME` of load, the reference included")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.write, "write", "", "write what is proposed to `FILE`, a recipe for validate --recipe")
		f.BoolVar(&o.force, "force", false, "overwrite the file of --write")
		f.BoolVar(&o.dryRun, "dry-run", false, "print the levels and what they cost, and stop")
		outputFlag(f, &o.format)
	})
	alsoReads(cmd, "AICR_API_KEY", "bearer token for the endpoint")
}

// The bounds of a search.
const (
	leastLevel   = time.Second
	mostInFlight = 100_000 // a GPU
)

// check finds everything that is wrong with the options at once, before anything is
// touched, and makes the plan.
func (o *kneeOptions) check(a *app) (*kneeJob, error) {
	t := &o.target
	t.point.perGPU = usualPerGPU // validate's flag that there is none of here
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	also := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	said := func(flag string) bool {
		s := a.settings.of(flag).Source
		return s != "" && s != FromDefault
	}
	j := &kneeJob{validateJob: &validateJob{app: a, options: t}, knee: o}
	switch {
	case t.url == "" && t.sim == "":
		bad("name an endpoint with --url http://host:port, or try --sim healthy", "there is nothing to load")
	case t.url != "" && t.sim != "":
		bad("leave one of them out", "--url and --sim are both given")
	}
	if t.realTime && t.sim == "" {
		bad("name a scenario with --sim", "--real-time is for a simulated fleet")
	}
	if t.sim != "" {
		for _, flag := range onlyURL {
			if said(flag) && t.url == "" {
				bad("leave it out: the scenario says what the fleet is", "--%s is for --url, not for --sim", flag)
			}
		}
		s, err := readScenario(a.ended, t.sim)
		also(err)
		if err == nil {
			j.named = &s
		}
	}
	wrong = append(wrong, t.point.check()...)
	if t.url != "" && t.sim == "" {
		wrong = append(wrong, t.checkURL(a)...)
		var err error
		j.watched, err = t.watched(a)
		also(err)
	}
	ramp := time.Duration(t.point.ramp)
	if j.named != nil && !said("ramp") {
		ramp = j.named.Load.Ramp.D()
	}
	wrong = append(wrong, o.checkSearch(ramp)...)
	if o.write != "" {
		also(filePlace(o.write, o.force))
		if t.url != "" && t.point.workers == 0 {
			bad("say how many engines there are with --workers", "--write: a reference is of so many GPUs, and nobody says how many")
		}
	} else if o.force {
		bad("name a file with --write", "--force is for --write")
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	j.makePlan(said("seed"))
	return j, nil
}

// checkSearch finds what is wrong with how it is looked for.
func (o *kneeOptions) checkSearch(ramp time.Duration) (wrong []error) {
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	if o.first < 1 || o.first > mostInFlight {
		bad("8 is usual", "--first-per-gpu: %d is not between 1 and %d", o.first, mostInFlight)
	}
	if o.most < 1 || o.most > mostInFlight {
		bad("1024 is usual", "--max-per-gpu: %d is not between 1 and %d", o.most, mostInFlight)
	} else if o.most < 8*o.first {
		bad("a bend is seen by what is below it and above it", "--max-per-gpu: %d is less than three doublings above the first level of %d", o.most, o.first)
	}
	for _, d := range []struct {
		flag string
		time seconds
	}{{"level-duration", o.level}, {"reference-duration", o.reference}} {
		if time.Duration(d.time) < leastLevel {
			bad("10s is usual", "--%s: %s is below %s, in which nothing is steady", d.flag, time.Duration(d.time), leastLevel)
		}
	}
	if least := checks.KneeAtLeast(ramp, time.Duration(o.level), time.Duration(o.reference)); time.Duration(o.budget) < least {
		bad(fmt.Sprintf("--budget %s is the least, and requests that take long make it more; or shorten --level-duration and --reference-duration", least), "--budget: %s cannot end in a knee: the fewest levels, the reference and a look at half of it take %s", time.Duration(o.budget), least)
	}
	return wrong
}

// makePlan resolves what is sound.
func (j *kneeJob) makePlan(seeded bool) {
	o, t := j.knee, j.options
	if !seeded {
		t.seed = 1
		if j.named == nil {
			t.seed = rand.Uint64N(1 << 31)
		}
	}
	p := j.app.newPlanner(nil, j.named)
	point := p.point(spec.ProfileStandard, t.point)
	if j.named != nil && !t.realTime {
		point.RequestTimeout = 0 // the modelled client gives up when its grace is over
	}
	point.Concurrency, point.DurationS = o.first*max(1, point.Workers), time.Duration(o.level).Seconds()
	thresholds, _ := spec.DefaultThresholds(spec.ProfileStandard)
	j.origin = spec.Target{URL: redact.URL(t.url), Model: t.model}
	from := redact.URL(t.url)
	if j.named != nil {
		j.origin = spec.Target{Scenario: j.named.Metadata.Name, Seed: t.seed, Simulated: true}
		from = "the simulator, " + j.named.Metadata.Name
	}
	j.validateJob.plan = &spec.Plan{Point: point, Seed: t.seed, Thresholds: thresholds}
	j.plan = &checks.KneePlan{Point: point, OwnSentinel: j.app.settings.of("sentinel-rate").Source != FromDefault, Thresholds: thresholds, First: o.first, Most: o.most,
		LevelS: time.Duration(o.level).Seconds(), ReferenceS: time.Duration(o.reference).Seconds(), Budget: time.Duration(o.budget), From: from}
}
