package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/redact"
	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// reportFlags is --report, of every command that has something to report.
type reportFlags struct{ wanted []string }

func (o *reportFlags) define(f *pflag.FlagSet) {
	f.StringArrayVar(&o.wanted, "report", nil,
		"write a report too, as `FORMAT=FILE`: "+strings.Join(formatNames(1), ", ")+"; the file - is standard output, in place of the text; may be given again")
}

// completesReports offers the formats.
func completesReports(cmd *cobra.Command) {
	var all []cobra.Completion
	for _, f := range report.Formats() {
		all = append(all, cobra.CompletionWithDesc(f.Name+"=", f.Summary))
	}
	_ = cmd.RegisterFlagCompletionFunc("report", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoSpace))
}

// formatNames are the formats that tell so many runs.
func formatNames(runs int) (names []string) {
	for _, f := range report.Formats() {
		if runs == 1 || f.Two {
			names = append(names, f.Name)
		}
	}
	return names
}

// reportFile is a report that was asked for.
type reportFile struct {
	report.Format
	path string
}

// standardOutput is the file that is none.
const standardOutput = "-"

// check finds what is wrong with --report, beside -o.
func (o *reportFlags) check(output string, runs int) ([]reportFile, error) {
	var files []reportFile
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	taken := map[string]string{}
	for _, word := range o.wanted {
		name, path, ok := strings.Cut(word, "=")
		if !ok || path == "" {
			bad("write it as --report html=report.html", "--report: %q names no file", word)
			continue
		}
		if err := chosen("report", name, formatNames(1)); err != nil {
			wrong = append(wrong, err)
			continue
		}
		if !slices.Contains(formatNames(runs), name) {
			bad("two runs can be told as "+strings.Join(formatNames(2), ", "), "--report: %s is for one run", name)
			continue
		}
		for _, other := range formatNames(1) {
			if strings.Contains(path, ","+other+"=") {
				bad("give --report once for each, or AICR_REPORT one a line", "--report: %q names more than one report", word)
			}
		}
		place := path
		if path != standardOutput {
			path = filepath.Clean(path)
			place = realPlace(path)
		}
		if other, ok := taken[place]; ok {
			bad("name a file each", "--report: %s and %s both go to %s", other, name, path)
		}
		taken[place] = name
		for _, f := range report.Formats() {
			if f.Name == name {
				files = append(files, reportFile{f, path})
			}
		}
	}
	if name, ok := taken[standardOutput]; ok && output == outputJSON {
		bad("leave one of them out, or name a file", "--report %s=- and -o json both go to standard output", name)
	}
	return files, errors.Join(wrong...)
}

// toStandardOutput says whether one of them takes the place of the text.
func toStandardOutput(files []reportFile) bool {
	for _, f := range files {
		if f.path == standardOutput {
			return true
		}
	}
	return false
}

// printReport is the product of a command that has a verdict, unless a report takes
// its place.
func (a *app) printReport(r *spec.Report, format string, files []reportFile) error {
	switch {
	case toStandardOutput(files):
		return nil
	case format == outputJSON:
		return report.JSON(a.env.Stdout, r)
	case a.quiet:
		_, err := fmt.Fprintln(a.env.Stdout, report.Line(r))
		return err
	}
	return report.TextIn(a.stdoutPalette())(a.env.Stdout, r)
}

// warnOfReports says before a run which of its reports could not be written now. That
// is no reason not to run: a report can be made later, of a run that is kept.
func (a *app) warnOfReports(files []reportFile) {
	for _, f := range files {
		if f.path == standardOutput {
			continue
		}
		if err := rehearsed(f.path); err != nil {
			a.say("--report %s=%s cannot be written as things are: %v; it is tried again at the end", f.Name, f.path, err)
		}
	}
}

// rehearsed tries whether a file could be written, and leaves nothing behind.
func rehearsed(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	} else if err == nil && !info.Mode().IsRegular() {
		return nil
	}
	return (&artifacts{dir: filepath.Dir(path)}).rehearse()
}

// writeReports writes each report. One that cannot be written keeps no other from it,
// and says nothing of the deployment: the exit code stays as it is.
func (a *app) writeReports(r *spec.Report, files []reportFile) error {
	var wrong []error
	for _, f := range files {
		switch err := a.writeReport(r, f); {
		case err != nil && f.path == standardOutput: // it is the product
			wrong = append(wrong, unmeasured("", "writing the %s report to standard output: %w", f.Name, plainly(err)))
		case err != nil:
			wrong = append(wrong, unreported(r, fmt.Errorf("writing the %s report to %s: %w", f.Name, f.path, plainly(err))))
		case f.path != standardOutput:
			a.say("%s written to %s", f.Name, f.path)
		}
		if f.Name != "github" {
			continue
		}
		if path, ok := a.env.LookupEnv("GITHUB_STEP_SUMMARY"); ok && path != "" {
			if err := appendSummary(path, r); err != nil {
				wrong = append(wrong, unreported(r, fmt.Errorf("writing the step's summary to %s: %w", path, plainly(err))))
			}
		}
	}
	return errors.Join(wrong...)
}

// unreported is the Problem of a report that is not there.
func unreported(r *spec.Report, err error) error {
	var hints []string
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		hints = append(hints, "free some space, or name another place")
	}
	if r.Kept != "" {
		hints = append(hints, "aicr report "+layout.Quoted(r.Kept)+" makes any report of the run later")
	}
	return &Problem{Code: Passed, Cause: err, Hint: strings.Join(hints, "; ")}
}

// plainly is what went wrong without the name of the file beside its place, which
// nobody has asked for.
func plainly(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

func (a *app) writeReport(r *spec.Report, f reportFile) error {
	if f.path == standardOutput {
		return f.Write(a.env.Stdout, r)
	}
	if r.Kept != "" && ofTheRecord(r.Kept, f.path) || r.Against != nil && ofTheRecord(r.Against.Kept, f.path) {
		return errors.New("it is part of the run's record")
	}
	return writeFile(f.path, func(w io.Writer) error { return f.Write(w, r) })
}

// writeFile writes a file whole, in a folder that is made where it is not there. What
// is there and no plain file, a pipe or a device, is written to as it is.
func writeFile(path string, content func(io.Writer) error) error {
	path = realPlace(path) // a link goes on pointing to what it points to
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(content(f), f.Close())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return writeWhole(path, content)
}

// realPlace is where a path leads, as far as it is there.
func realPlace(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if to, err := os.Readlink(path); err == nil { // to what is not there yet
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// ofTheRecord says whether a path is one of those that a run's folder is made of.
func ofTheRecord(dir, path string) bool {
	within, err := filepath.Rel(realPlace(dir), realPlace(path))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(filepath.ToSlash(within), "/")
	return slices.Contains([]string{runFile, planFile, eventsFile, verdictFile, episodesDir, "diagnostics"}, first)
}

// stepSummaryLimit is how much GitHub takes of a step.
const stepSummaryLimit = 1 << 20

// appendSummary adds the report to what the step has said before.
func appendSummary(path string, r *spec.Report) error {
	said := int64(0)
	if info, err := os.Stat(path); err == nil {
		said = info.Size()
	}
	var b bytes.Buffer
	if err := report.GitHubSummary(&b, r, int(max(0, stepSummaryLimit-said))); err != nil {
		return err
	}
	if b.Len() == 0 {
		return errors.New("the step has said as much as GitHub takes of it")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return cmp.Or(err, f.Close())
}

// gather reads all that a report tells of a recorded run.
func (a *app) gather(ctx context.Context, dir string, run *spec.RecordedRun, v *spec.Verdict) (*spec.Report, error) {
	shown := a.watch()
	defer shown.Done()
	seen := reading{dir: dir, episodes: len(run.Numbers())}
	b := report.NewBuilder(run.Run, run.Plan, run.Events)
	for _, number := range run.Numbers() {
		e, err := run.Summary(number)
		if err != nil {
			return nil, badRecord(dir, err)
		}
		b.Begin(e)
		for q, err := range run.Requests(number) {
			switch {
			case err != nil:
				return nil, badRecord(dir, err)
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			}
			q.Detail = redact.Masked(q.Detail)
			b.Request(q)
			if seen.requests++; seen.requests%lookEvery == 0 {
				shown.Update(seen)
			}
		}
		for s, err := range run.Samples(number) {
			switch {
			case err != nil:
				return nil, badRecord(dir, err)
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			}
			b.Sample(s)
		}
		seen.done++
	}
	r := b.Report(v)
	r.Kept = dir
	r.Notes = append(r.Notes, run.Notes...)
	r.Requests = requestsOf(ctx, dir, run)
	return r, nil
}

// lookEvery is after how many requests it is asked whether to show something.
const lookEvery = 4096

// reading is shown while a long record is read.
type reading struct {
	dir            string
	done, episodes int
	requests       int
}

func (r reading) Block(int) []string { return []string{r.Line()} }

func (r reading) Line() string {
	return fmt.Sprintf("reading %s: %d of %s, %s requests", r.dir, r.done, layout.Plural(r.episodes, "episode"), layout.Number(float64(r.requests)))
}

// requestsOf gives the requests of a run, episode after episode.
func requestsOf(ctx context.Context, dir string, run *spec.RecordedRun) func(func(spec.RequestOf, error) bool) {
	return func(yield func(spec.RequestOf, error) bool) {
		for _, number := range run.Numbers() {
			for q, err := range run.Requests(number) {
				switch {
				case err != nil:
					yield(spec.RequestOf{Episode: number}, badRecord(dir, err))
					return
				case ctx.Err() != nil:
					yield(spec.RequestOf{Episode: number}, context.Cause(ctx))
					return
				}
				q.Detail = redact.Masked(q.Detail)
				if !yield(spec.RequestOf{Episode: number, Request: q}, nil) {
					return
				}
			}
		}
	}
}
