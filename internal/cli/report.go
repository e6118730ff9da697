package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/judge"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func newReport(a *app) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report RUN [RUN2]",
		Short: "Make any report of a recorded run, or of two beside each other",
		Long: `Reads the folder of a run and tells what it came to, in every form that --report
asks for: a page for a browser, test reports for CI, metrics, a table. The verdict is
the run's own; one that was killed before it had any is judged by its whole episodes.
Nothing in the folder is changed.

With two runs it tells the second beside the first, on the same axes, with each
difference and its interval.

Exit codes: 0 the reports were made, whatever they say; 2 bad usage; 3 the record
cannot be read, or a report not be written.`,
		Example: `  aicr report aicr-run-20260604-120000 --report html=report.html
  aicr report RUN --report junit=junit.xml --report ctrf=ctrf.json
  aicr report RUN --report openmetrics=-
  aicr report before after --report html=change.html`,
		Args: oneOrTwoRuns("name one run to tell of it, or two to compare them", "one run is told, or two are compared"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.report(cmd.Context(), args, &o) },
	}
	section(cmd, "Output", func(f *pflag.FlagSet) {
		o.define(f)
		outputFlag(f, &o.format)
	})
	completesReports(cmd)
	return cmd
}

type reportOptions struct {
	reportFlags
	format string
}

// report is the command from its options to its exit code.
func (a *app) report(ctx context.Context, dirs []string, o *reportOptions) error {
	files, err := o.check(o.format, len(dirs))
	wrong := []error{err}
	var all []*recorded
	for _, dir := range dirs {
		run, err := a.readRun(dir)
		wrong = append(wrong, err)
		all = append(all, &recorded{dir: dir, run: run})
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	for _, r := range all {
		if err := r.conclude(ctx, a); err != nil {
			return err
		}
	}
	var c *spec.Comparison
	if len(all) == 2 {
		if c, err = compareRuns(all[0], all[1]); err != nil {
			return err
		}
	}
	if err := a.tellRecorded(ctx, all, c, telling{judge: againWith("judge", dirs), page: againWith("report", dirs), unread: true}, o.format, files); err != nil {
		return errors.Join(err, Unmeasured)
	}
	return nil
}

// recorded is a run and what it came to.
type recorded struct {
	dir     string
	run     *spec.RecordedRun
	verdict *spec.Verdict
}

// conclude finds the run's own verdict, or judges it where it has none.
func (r *recorded) conclude(ctx context.Context, a *app) error {
	var err error
	if r.verdict, err = r.run.Verdict(); err != nil {
		return badRecord(r.dir, err)
	}
	if r.verdict == nil {
		a.say("%s has no verdict: it is judged by its whole episodes", r.dir)
		r.verdict, err = rejudge(ctx, r.dir, r.run, r.run.Plan)
	}
	return err
}

// telling is how something recorded is told.
type telling struct {
	judge, page string // the commands that judge it and tell it so again
	unread      bool   // nobody has read the whole record yet
}

// againWith is a command that somebody can paste into a shell.
func againWith(command string, words []string) string {
	line := []string{"aicr", command}
	for _, w := range words {
		line = append(line, layout.Quoted(w))
	}
	return strings.Join(line, " ")
}

// pageFile is where a page goes that somebody is told to make.
const pageFile = " --report html=report.html"

// tellRecorded prints what one run came to, or two beside each other, and writes the
// reports of it. A record that nobody has read yet is read first: a verdict on one that
// cannot be read is not told.
func (a *app) tellRecorded(ctx context.Context, runs []*recorded, c *spec.Comparison, how telling, format string, files []reportFile) error {
	last := runs[len(runs)-1]
	r := &spec.Report{Run: last.run.Run, Plan: last.run.Plan, Verdict: last.verdict, Kept: last.dir, Notes: last.run.Notes}
	if len(files) > 0 || how.unread {
		var err error
		if r, err = a.gather(ctx, last.dir, last.run, last.verdict); err != nil {
			return err
		}
		if c != nil {
			if r.Against, err = a.gather(ctx, runs[0].dir, runs[0].run, runs[0].verdict); err != nil {
				return err
			}
		}
	}
	r.Comparison, r.Judge, r.Page = c, how.judge, how.page+pageFile
	return errors.Join(a.printReport(r, format, files), a.writeReports(r, files))
}

// compareRuns says what two runs say of each other.
func compareRuns(first, second *recorded) (*spec.Comparison, error) {
	var sides []*judge.Side
	for _, r := range []*recorded{first, second} {
		s := &judge.Side{Side: spec.Side{Run: r.dir, Verdict: r.verdict.Verdict, LoadedS: r.verdict.LoadedS, Stalls: len(r.verdict.Stalls)},
			Point: r.run.Plan.Point, Target: r.run.Run.Target}
		for _, number := range r.run.Numbers() {
			e, err := r.run.Summary(number)
			if err != nil {
				return nil, badRecord(r.dir, err)
			}
			s.Take(e, r.verdict.Parts)
		}
		sides = append(sides, s)
	}
	return judge.Compare(sides[0], sides[1]), nil
}

// oneOrTwoRuns are the arguments of a command that tells one run or compares two.
func oneOrTwoRuns(hint, rule string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < 1 || len(args) > 2 {
			return misuse(hint, "%s; %d were named", rule, len(args))
		}
		return nil
	}
}

// comparisonCode is how a command ends that judged two runs against each other.
func comparisonCode(says string) error {
	switch says {
	case spec.IsBetter:
		return nil
	case spec.IsWorse:
		return Failed
	}
	return Unmeasured
}
