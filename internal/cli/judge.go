package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/judge"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

type judgeOptions struct {
	profile   string
	recipe    string
	stability string
	failOn    string
	format    string
	reports   reportFlags
}

func newJudge(a *app) *cobra.Command {
	var o judgeOptions
	cmd := &cobra.Command{
		Use:   "judge RUN [RUN2]",
		Short: "Judge a recorded run again, or compare two",
		Long: `Reads the folder of a run and says what it means: the same verdict, to the byte, as
the run itself came to. Of a run that was killed the whole episodes that there are
count, and its verdict.json is written; one that is there is never changed.

With --profile, --recipe or --stability the same record is judged by other
thresholds; the verdict says so and is only printed.

With two runs it says whether the second is better, worse, or cannot be told from
the first, by throughput, first tokens and stalls, each with its interval.

Exit codes of one run, unless --fail-on says otherwise: 0 PASS or SKIP; 1 FAIL; 2 bad
usage or recipe; 3 INCONCLUSIVE, INVALID, or a record that cannot be read. Of two: 0
better; 1 worse; 3 cannot tell.`,
		Example: `  aicr judge aicr-run-20260604-120000
  aicr judge RUN --profile certify -o json
  aicr judge before after`,
		Args: oneOrTwoRuns("name one run to judge it, or two to compare them", "one run is judged, or two are compared"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.judge(cmd.Context(), args, &o) },
	}
	section(cmd, "Judgement", func(f *pflag.FlagSet) {
		f.StringVar(&o.profile, "profile", "", "judge by the profile `NAME` instead of the run's: smoke, quick, standard, certify or classic")
		f.StringVar(&o.recipe, "recipe", "", "judge by the reference, constraints and thresholds of `FILE` instead of the run's")
		f.StringVar(&o.stability, "stability", "", "`WORD`: gate or report, instead of the run's")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		failOnFlag(f, &o.failOn)
		o.reports.define(f)
		outputFlag(f, &o.format)
	})
	completesReports(cmd)
	completes(cmd, "profile", spec.Profiles()...)
	completes(cmd, "stability", spec.StabilityGate, spec.StabilityReport)
	completes(cmd, "fail-on", failOnWords()...)
	return cmd
}

// judge judges one run, or compares two.
func (a *app) judge(ctx context.Context, dirs []string, o *judgeOptions) error {
	change, err := o.check(a)
	files, badReports := o.reports.check(o.format, len(dirs))
	if err := errors.Join(err, badReports); err != nil {
		return err
	}
	var runs []*recorded
	var lost error
	for _, dir := range dirs {
		r, err := a.judged(ctx, dir, change)
		if err != nil {
			return err
		}
		if r.verdict.Plan == "" && len(dirs) == 1 {
			lost = a.settleVerdict(dir, r.verdict)
		}
		runs = append(runs, r)
	}
	end := endOf(runs[0].verdict, o.failOn)
	var c *spec.Comparison
	if len(runs) == 2 {
		if c, err = compareRuns(runs[0], runs[1]); err != nil {
			return err
		}
		end = comparisonCode(c.Says)
	}
	asked := o.asked()
	how := telling{judge: againWith("judge", slices.Concat(dirs, asked)), page: againWith("report", dirs)}
	if len(asked) > 0 { // which is not what the run itself came to
		how.page = how.judge
	}
	return errors.Join(a.tellRecorded(ctx, runs, c, how, o.format, files), lost, end)
}

// judged reads a run and judges it anew.
func (a *app) judged(ctx context.Context, dir string, change func(*spec.Plan) (*spec.Plan, string, error)) (*recorded, error) {
	run, err := a.readRun(dir)
	if err != nil {
		return nil, err
	}
	plan, how, err := change(run.Plan)
	if err != nil {
		return nil, err
	}
	v, err := rejudge(ctx, dir, run, plan)
	if err != nil {
		return nil, err
	}
	v.Plan = how
	return &recorded{dir, run, v}, nil
}

// readRun reads the folder of a run.
func (a *app) readRun(dir string) (*spec.RecordedRun, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, misuse("name the folder that --run named", "reading the run: %w", err)
	} else if !info.IsDir() {
		return nil, misuse("name the folder that --run named", "reading the run: %s is no folder", dir)
	}
	run, err := spec.ReadRun(runFiles(dir))
	if err != nil {
		return nil, badRecord(dir, err)
	}
	hideSecrets(run)
	for _, note := range run.Notes {
		a.say("%s", note)
	}
	return run, nil
}

// badRecord makes a Problem of everything that is wrong with a record: what it was
// made from cannot be judged.
func badRecord(dir string, err error) error {
	var wrong []error
	for _, p := range problems(err, Unmeasured, "") {
		file, ok := errors.AsType[*spec.BadFile](p.Cause)
		if !ok {
			wrong = append(wrong, unmeasured("", "reading the run: %w", p.Cause))
			continue
		}
		for _, m := range file.Mistakes {
			place := filepath.Join(dir, file.File)
			if m.Line > 0 {
				place += ":" + strconv.Itoa(m.Line)
			}
			if m.Path != "" && m.Line > 0 {
				place += ": " + m.Path
			}
			wrong = append(wrong, unmeasured(m.Hint, "%s: %s", place, m.Text))
		}
	}
	return errors.Join(wrong...)
}

// rejudge comes to the verdict of a record, an episode at a time.
func rejudge(ctx context.Context, dir string, run *spec.RecordedRun, plan *spec.Plan) (*spec.Verdict, error) {
	c := judge.NewCase(plan)
	c.Hear(run.Events...)
	for _, number := range run.Numbers() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := run.Episode(number)
		if err != nil {
			return nil, badRecord(dir, err)
		}
		for i := range e.Requests {
			e.Requests[i].Detail = redact.Masked(e.Requests[i].Detail)
		}
		c.Add(e)
	}
	v, _ := c.Verdict()
	return v, nil
}

// settleVerdict writes the verdict of a run that was killed before it had one. One
// that is there stays, and is told of when it says something else.
func (a *app) settleVerdict(dir string, v *spec.Verdict) error {
	path := filepath.Join(dir, verdictFile)
	text, err := indentedJSON(v)
	if err != nil {
		return err
	}
	there, err := readWithin(a.ended, path, spec.MaxSnapshot)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := writeJSONFile(path, v); err != nil {
			return unwritten(err)
		}
		a.say("%s was not there and is written", path)
	case err != nil:
		return unmeasured("", "reading the verdict: %w", err)
	case !bytes.Equal(there, text):
		a.say("%s says something else: another version of aicr wrote it, or the record was changed since; it is left as it is", path)
	}
	return nil
}

// asked is how the judgement was asked for.
func (o *judgeOptions) asked() (words []string) {
	for flag, value := range map[string]string{"--profile": o.profile, "--recipe": o.recipe, "--stability": o.stability} {
		if value != "" {
			words = append(words, flag+"="+value)
		}
	}
	slices.Sort(words)
	return words
}

// check finds what is wrong with the options, and gives what they make of a plan.
func (o *judgeOptions) check(a *app) (func(*spec.Plan) (*spec.Plan, string, error), error) {
	wrong := []error{chosen("fail-on", o.failOn, failOnWords())}
	if o.profile != "" {
		wrong = append(wrong, chosen("profile", o.profile, spec.Profiles()))
	}
	if o.stability != "" {
		wrong = append(wrong, chosen("stability", o.stability, []string{spec.StabilityGate, spec.StabilityReport}))
	}
	library, err := a.library("")
	if err != nil {
		return nil, errors.Join(append(wrong, err)...)
	}
	recipe, err := a.readRecipe(o.recipe, library)
	wrong = append(wrong, err)
	return func(p *spec.Plan) (*spec.Plan, string, error) { return o.change(a, p, recipe) }, errors.Join(wrong...)
}

// change gives the plan that a run is judged by otherwise, and says how it differs.
func (o *judgeOptions) change(a *app, was *spec.Plan, recipe *recipeFile) (*spec.Plan, string, error) {
	p := *was
	p.Inputs = maps.Clone(was.Inputs)
	var how []string
	if o.profile != "" && o.profile != was.Profile {
		how = append(how, fmt.Sprintf("profile %s instead of %s", o.profile, was.Profile))
		p.Profile, p.Stability = o.profile, defaultStability(o.profile)
	}
	if recipe != nil {
		how = append(how, "recipe "+recipe.path)
		if name := recipe.Verdict().Profile; name != "" && o.profile == "" && name != was.Profile {
			how = append(how, fmt.Sprintf("profile %s instead of %s", name, was.Profile))
			p.Profile, p.Stability = name, defaultStability(name)
		}
		if recipe.Verdict().Stability != "" {
			p.Stability = recipe.Verdict().Stability
		}
	}
	if o.stability != "" && o.stability != p.Stability {
		how = append(how, fmt.Sprintf("stability %s instead of %s", o.stability, p.Stability))
		p.Stability = o.stability
	}
	if len(how) == 0 {
		return was, "", nil
	}
	by := &planner{app: a, recipe: recipe, inputs: p.Inputs}
	if recipe == nil {
		by.recipe = ownThresholds(was)
	}
	if recipe != nil || p.Profile != was.Profile {
		p.Thresholds = by.thresholds(p.Profile, was.Point)
		if err := p.Thresholds.Check(); err != nil {
			return nil, "", mistakes(cmp.Or(o.recipe, "thresholds"), err)
		}
	}
	if recipe != nil {
		p.Constraints = recipe.Figures(was.Point.GPUs())
		if recipe.Verdict().Reference != nil {
			var why string
			if p.Reference, why = recipe.reference(was.Point); why != "" {
				how = append(how, "its reference left out: "+why)
			}
		}
	}
	if p.Profile == spec.ProfileClassic {
		p.Constraints = classicConstraints(p.Constraints, was.Point.GPUs())
	}
	return &p, strings.Join(how, "; "), nil
}

// ownThresholds are those that the recipe of a run set itself, by the plan's own
// word: another profile does not take them away.
func ownThresholds(p *spec.Plan) *recipeFile {
	values := spec.ThresholdValues{}
	own := &recipeFile{&spec.Recipe{Phases: spec.RecipePhases{Performance: &spec.RecipePhase{Verdict: spec.RecipeVerdict{Thresholds: values}}}}, ""}
	for name, in := range p.Inputs {
		threshold, ok := strings.CutPrefix(name, thresholdInput)
		value, err := strconv.ParseFloat(in.Value, 64)
		if ok && err == nil {
			values[threshold], own.path = value, in.Place
		}
	}
	return own
}
