package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/report"
	"aicr/internal/spec"
)

func newRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "What runs in the cluster: for a Job, not for people",
		Long: `'aicr validate' runs these commands inside the cluster that it validates. They are of
no use elsewhere. What they read, write and say is in docs/cluster-job.md.`,
		Example: `  aicr run inference-perf --given /data/run --results /results
  aicr run fetch --results /results`,
	}
	cmd.AddCommand(newRunInferencePerf(a), newRunFetch(a))
	return cmd
}

// checkOptions are where a check in a Job finds its things.
type checkOptions struct {
	given   string
	results string
	message string
	account string
	inner   bool
}

func newRunInferencePerf(a *app) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "inference-perf",
		Short: "Load and judge what was deployed for a run: the load's Job",
		Long: `For the load's Job of 'aicr validate' on a cluster. It goes on with the run that it is
given: it loads what was deployed, observes it, judges it, and keeps the record. Then
it waits until the record was fetched.

How far it is stands in the termination message from its first moment on, and at its
end what it came to, also when it was ended, crashed or ran out of space. A compact
copy of the result is kept in a ConfigMap. Standard output has one JSON object a line.

Exit codes: 0 PASS, 1 FAIL, 2 SKIP, 3 anything else.`,
		Example: `  aicr run inference-perf --given /data/run --results /results`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.ownCode = true
			if o.inner {
				return a.loadGiven(cmd.Context(), &o)
			}
			return a.keepCheck(cmd.Context(), &o)
		},
	}
	section(cmd, "Input", func(f *pflag.FlagSet) {
		f.StringVar(&o.given, "given", "/data/run", "`DIR` with the run so far: run.json, plan.yaml, events.jsonl, settings.json, targets.json")
		f.StringVar(&o.account, "service-account", "/var/run/secrets/kubernetes.io/serviceaccount", "`DIR` with the token and the certificate for the node's own kubelet")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVar(&o.results, "results", "/results", "`DIR` to keep the record in")
		f.StringVar(&o.message, "termination-log", "/dev/termination-log", "`FILE` for the termination message")
		f.BoolVar(&o.inner, "inner", false, "be the process that loads, which another keeps")
	})
	withoutEnv(cmd.Flags(), "inner")
	_ = cmd.Flags().MarkHidden("inner") // it is there
	return cmd
}

// What lies beside the record, how often it is looked for, how long a load may take to
// stop, and how long a Job that was told to end still waits for somebody to fetch its
// record: Kubernetes kills it after 30 s.
const (
	recordFolder = "run"
	stopMark     = "stop"     // whoever wants the record wants it now
	finishedMark = "finished" // there is a verdict
	fetchedMark  = "fetched"  // whoever wanted the record has it
	lookForMarks = 250 * time.Millisecond
	stopWithin   = 30 * time.Second
	lastMoments  = 10 * time.Second
)

// keepCheck keeps the process that loads: whatever becomes of that one, somebody is left
// who tells it. A panic or a lack of memory ends a Go program without a last word.
func (a *app) keepCheck(ctx context.Context, o *checkOptions) error {
	k := &checkKeeper{app: a, options: o, now: a.env.Now, stage: "started"}
	k.message(graph.LoadMessage{Reason: "nothing was loaded yet"})
	loading, stop := untilStopped(ctx, o.results)
	defer stop()
	awaitGiven(loading, o.given)
	given, err := readGiven(o.given)
	if err != nil {
		return k.refused(err)
	}
	k.given = given
	if err := takenFolder(k.folder()); err != nil {
		return k.refused(err)
	}
	k.message(graph.LoadMessage{Reason: "nothing was loaded yet"})
	end := k.load(loading)
	v := k.conclude(ctx, end)
	k.publish(loading, v)
	k.wait(ctx)
	return checkCode(ofInference(v).Verdict) // the Job is of inference-perf alone
}

// untilStopped ends with ctx, or when somebody wants the load to stop.
func untilStopped(ctx context.Context, results string) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		look := time.NewTicker(lookForMarks)
		defer look.Stop()
		for !marked(results, stopMark) {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
		}
	}()
	return ctx, stop
}

// checkCode is the exit code of a check, as the published ones have it.
func checkCode(s spec.State) error {
	switch s {
	case spec.Pass:
		return nil
	case spec.Fail:
		return Failed
	case spec.Skip:
		return Misused // the published number for it
	case spec.Inconclusive, spec.Invalid, spec.NotJudged, spec.NotRun:
	}
	return Unmeasured
}

// checkKeeper is who keeps.
type checkKeeper struct {
	app     *app
	options *checkOptions
	given   *givenRun
	now     func() time.Time
	stage   string

	lines linePrinter
}

func (k *checkKeeper) folder() string { return filepath.Join(k.options.results, recordFolder) }

// refused is the end of a Job that was given what it cannot use.
func (k *checkKeeper) refused(err error) error {
	k.stage = "failed"
	k.message(graph.LoadMessage{Error: err.Error()})
	k.say(graph.LoadLine{Kind: graph.LineError, Reason: "Given", Text: err.Error()})
	return err
}

// message writes the termination message. That it cannot be written is no reason not to
// measure: the log says so.
func (k *checkKeeper) message(m graph.LoadMessage) {
	m.Schema, m.Stage = graph.LoadMessageSchema, k.stage
	if k.given != nil {
		m.Run = k.given.run.ID
	}
	if err := overwrite(k.options.message, m.Encode()); err != nil {
		k.app.say("the termination message cannot be written: %v", err)
	}
}

// overwrite writes a file in its place: what Kubernetes has mounted cannot be renamed. At
// no time is the file empty, or half of what it was: blanks cover the rest of that, until
// they are cut off.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	cover := data
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		cover = append(bytes.Clone(data), bytes.Repeat([]byte(" "), int(max(0, min(info.Size(), 1<<16)-int64(len(data)))))...)
	}
	_, err = f.WriteAt(cover, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	return errors.Join(err, f.Close())
}

// say prints a line of the log.
func (k *checkKeeper) say(l graph.LoadLine) {
	if k.given != nil {
		l.T = k.given.since(k.now()).Seconds()
	}
	k.lines.write(k.app.env.Stdout, l)
}

// conclude is the verdict: that of who loaded or, where there is none, that of the whole
// episodes that there are, and of how it ended.
func (k *checkKeeper) conclude(ctx context.Context, end loadEnd) *spec.Verdict {
	if run, err := spec.ReadRun(runFiles(k.folder())); err == nil {
		if v, err := run.Verdict(); err == nil && v != nil {
			return v // it is written last: all that it follows from is there
		}
	}
	event := spec.Event{T: k.given.since(k.now()).Seconds(), Kind: spec.EventInterrupt, Reason: end.reason, Text: end.text}
	k.stage = "failed"
	k.say(graph.LoadLine{Kind: graph.LineError, Reason: end.reason, Text: end.text})
	if err := k.append(event); err != nil {
		k.app.say("the record cannot be completed: %v", err)
	}
	v, err := k.judgeKept(context.WithoutCancel(ctx), event)
	if err != nil {
		k.app.say("what was recorded cannot be judged: %v", err)
		v = judge.Judge(k.given.plan, append(k.given.events, event))
	}
	run := k.given.run
	run.End = k.now().UTC().Format(time.RFC3339Nano)
	if err := errors.Join(writeJSONFile(filepath.Join(k.folder(), runFile), run), writeJSONFile(filepath.Join(k.folder(), verdictFile), v)); err != nil {
		k.app.say("the verdict cannot be kept: %v", err)
	}
	return v
}

// append adds an event to the record of a process that is gone.
func (k *checkKeeper) append(e spec.Event) error {
	if _, err := os.Stat(filepath.Join(k.folder(), runFile)); err != nil {
		// It was gone before it had begun.
		r, err := openRun(k.folder(), k.given.run, k.given.plan)
		for _, before := range k.given.events {
			if err == nil {
				err = r.Event(before)
			}
		}
		if err == nil {
			err = errors.Join(r.Event(e), r.events.Close())
		}
		return err
	}
	f, err := os.OpenFile(filepath.Join(k.folder(), eventsFile), os.O_APPEND|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(endLine(f), writeLines(f, []spec.Event{e}), f.Sync(), f.Close())
}

// endLine takes away the half of a line that a full disk has left, so that what follows
// is not lost with it.
func endLine(f *os.File) error {
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	for at := size; at > 0; at-- {
		var b [1]byte
		if _, err := f.ReadAt(b[:], at-1); err != nil {
			return err
		}
		if b[0] == '\n' {
			return f.Truncate(at)
		}
	}
	return f.Truncate(0)
}

// judgeKept judges what is in the folder. The event counts, whether it could be kept or
// not.
func (k *checkKeeper) judgeKept(ctx context.Context, end spec.Event) (*spec.Verdict, error) {
	run, err := spec.ReadRun(runFiles(k.folder()))
	if err != nil {
		return nil, err
	}
	if n := len(run.Events); n == 0 || run.Events[n-1].Kind != spec.EventInterrupt {
		run.Events = append(run.Events, end)
	}
	return rejudge(ctx, k.folder(), run, k.given.plan)
}

// publish says what came of it, everywhere where it is looked for.
func (k *checkKeeper) publish(ctx context.Context, v *spec.Verdict) {
	if k.stage != "failed" {
		k.stage = "done"
	}
	own := ofInference(v)
	m := graph.LoadMessage{Verdict: string(own.Verdict), Reason: own.Reason, Record: k.folder()}
	for _, f := range v.Findings {
		m.Findings = append(m.Findings, f.ID)
	}
	k.message(m) // first: nothing can keep it from being written
	where, err := k.copyResult(ctx, v)
	if err != nil {
		k.say(graph.LoadLine{Kind: graph.LineNote, Text: fmt.Sprintf("the compact copy of the result cannot be kept on the cluster: %v", err)})
	}
	m.Copy = where
	k.message(m)
	if err := os.WriteFile(filepath.Join(k.options.results, finishedMark), nil, 0o644); err != nil {
		k.app.say("nobody will be told that the record can be fetched: %v", err)
	}
	k.say(graph.LoadLine{Kind: graph.LineDone, Text: fmt.Sprintf("%s: %s", own.Verdict, own.Reason), Verdict: briefVerdict(own)})
}

// wait stays until the record was fetched, or nobody came for it.
func (k *checkKeeper) wait(ctx context.Context) {
	left := time.NewTimer(time.Duration(k.given.settings.KeepFor))
	defer left.Stop()
	look := time.NewTicker(lookForMarks)
	defer look.Stop()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	told := ctx.Done()
	for {
		select {
		case <-look.C:
			if marked(k.options.results, fetchedMark) {
				return
			}
		case <-alive.C:
			k.say(graph.LoadLine{Kind: graph.LineAlive, Text: "waiting until the record is fetched"})
		case <-left.C:
			k.say(graph.LoadLine{Kind: graph.LineNote, Text: "nobody fetched the record in " + time.Duration(k.given.settings.KeepFor).String()})
			return
		case <-told:
			told = nil
			left.Reset(lastMoments)
			k.say(graph.LoadLine{Kind: graph.LineNote, Text: "told to end: the record can be fetched for " + lastMoments.String() + " more"})
		}
	}
}

// reportOf is what there is to report.
func (k *checkKeeper) reportOf(ctx context.Context, v *spec.Verdict) *spec.Report {
	brief := &spec.Report{Run: k.given.run, Plan: k.given.plan, Verdict: v}
	run, err := spec.ReadRun(runFiles(k.folder()))
	if err != nil {
		return brief
	}
	b := report.NewBuilder(run.Run, run.Plan, run.Events)
	for _, number := range run.Numbers() {
		e, err := run.Summary(number)
		if err != nil {
			return brief
		}
		b.Begin(e)
		for q, err := range run.Requests(number) {
			if err != nil || ctx.Err() != nil {
				return brief
			}
			b.Request(q)
		}
		for s, err := range run.Samples(number) {
			if err != nil || ctx.Err() != nil {
				return brief
			}
			b.Sample(s)
		}
	}
	return b.Report(v)
}
