package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"aicr/internal/checks"
	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func newValidate(a *app) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate --url URL | --sim FILE|NAME | --recipe FILE|NAME [--no-cluster]",
		Short: "Say whether a deployment is healthy, and if not, why",
		Long: `Has every worker answer, looks at half the load, then loads the deployment episode
by episode until what was measured decides: PASS, FAIL, or INCONCLUSIVE when the
profile's budget is spent first. INVALID says that the measurement itself was at
fault, SKIP that there was nothing to load. Three ledgers are always told:
integrity, capability and stability.

What it was decided by is kept in a folder as it happens: 'aicr judge' comes to the
same verdict from it, on any machine. Interrupted or killed, it is judged by the
whole episodes that there are.

Without --url and --sim the cluster of your kubeconfig is validated: what the recipe
deploys is deployed on one node with free GPUs, loaded from inside the cluster, judged
and removed again. --attach goes on with a run that another command began.

--dry-run prints the plan, what it costs and where each value came from, and stops.

Every check that the recipe declares has a result, and the verdict is the worst of
them. A check that this version cannot run is NOT RUN, and the verdict then no PASS,
unless --check, --phase or --skip-check leaves it out.

--no-cluster holds a recipe against a snapshot on paper: what the recipe wants of the
cluster, the names of its checks, and of each check what can be said without asking
the cluster. Nothing is contacted.

A value comes from the flag, else the recipe, else its variable, else the --config
file, else the scenario or the catalog, else the default.

Exit codes, unless --fail-on says otherwise: 0 PASS, or SKIP with its reason; 1 FAIL;
2 bad usage, recipe, readiness or target; 3 INCONCLUSIVE or INVALID, or the run could
not be kept; 130 interrupted.`,
		Example: `  aicr validate --url http://localhost:8000 --workers 8 --worker-metrics workers.txt --recipe h100.yaml
  aicr validate --url http://localhost:8000 --workers 8 --profile smoke --dry-run
  aicr validate --no-cluster --recipe h100.yaml --snapshot cluster.yaml
  aicr validate --recipe h100-eks-ubuntu-inference-dynamo --check inference-perf --profile smoke
  aicr validate --recipe h100.yaml --nodes all --run fleet
  aicr validate --attach 20261116-015518-0123456789abcdef
  aicr validate --sim one-worker-stall
  aicr validate --sim small --real-time --profile smoke --run demo`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.validate(cmd.Context(), &o) },
	}
	o.define(cmd)
	return cmd
}

// validate is the command from its options to its exit code.
func (a *app) validate(ctx context.Context, o *validateOptions) error {
	o.on.settle()
	switch {
	case o.on.rbac && o.on.checkNamespaced(a) != nil:
		return o.on.checkNamespaced(a)
	case o.on.rbac && !namespaceName(o.on.namespace):
		return badNamespace(o.on.namespace)
	case o.on.rbac && o.on.namespaced != "":
		_, err := a.env.Stdout.Write(graph.NamespacedRoles(o.on.namespaced))
		return err
	case o.on.rbac:
		_, err := a.env.Stdout.Write(graph.UserRoles(o.on.namespace))
		return err
	case o.on.attach != "" || a.settings.of("attach").Source == FromFlag: // an empty one was meant to say something
		return a.attach(ctx, o)
	}
	job, err := o.check(ctx, a)
	if err != nil {
		return err
	}
	switch {
	case o.dryRun:
		end := error(nil)
		if !checks.Ready(job.papers.readiness) {
			end = Misused
		}
		return errors.Join(a.printPlan(job.plan, o.format, o.explain), job.printWaits(), end)
	case o.noCluster:
		return job.onPaper()
	case o.onCluster():
		return job.onCluster(ctx)
	}
	return job.run(ctx)
}

// validateJob is what the options come to.
type validateJob struct {
	app     *app
	options *validateOptions
	plan    *spec.Plan
	named   *named // the scenario, or nil
	watched *watchJob
	past    *history
	origin  spec.Target
	reports []reportFile
	papers  *papers
	fleet   int    // GPUs of the node that a run on a cluster would choose, or workers that an endpoint has; 0: unknown
	foundBy string // what the number of an endpoint's workers is known from

	// Of a run on a cluster.
	cluster *kube.Cluster
	nodes   []kube.GPUNode
	unseen  kube.Unseen // of the nodes, and of who holds their GPUs
	offers  graph.Offers
	choice  *graph.Choice
	fleetOf string          // the node that the plan is for
	refused []graph.Refusal // what a look at the cluster shows to be wrong with it
}

// reached is a target that can be loaded.
type reached struct {
	checks.Target
	begun time.Time
	end   func() time.Time
	close func()
}

// Rest lets the target rest, where its clock is everybody's.
func (r *reached) Rest(ctx context.Context) error {
	if t, ok := r.Target.(checks.Rester); ok {
		return t.Rest(ctx)
	}
	return nil
}

// Known is what the target can say before a load, where it can.
func (r *reached) Known(ctx context.Context) judge.Known {
	if t, ok := r.Target.(checks.Knower); ok {
		return t.Known(ctx)
	}
	return judge.Known{}
}

// run carries the plan out.
func (j *validateJob) run(ctx context.Context) error {
	a := j.app
	dir := j.options.run
	if dir == "" {
		dir = freshFolder("aicr-run-" + a.env.Now().UTC().Format("20060102-150405"))
		defer func() { _ = os.Remove(dir) }() // where nothing came of it, it is empty
	}
	a.warnOfReports(j.reports)
	view := a.showRun(j.plan)
	view.endsEarly = j.options.early
	defer view.close()
	target, err := j.reach(ctx, view)
	if err != nil {
		return err
	}
	defer target.close()
	return j.carryOut(ctx, dir, target, view)
}

// carryOut has the target loaded and judged, and the run kept.
func (j *validateJob) carryOut(ctx context.Context, dir string, target *reached, view *runView) error {
	a := j.app
	deployment := spec.NewDeployment(j.origin, j.plan.Point.Workers)
	j.plan.Prior, j.plan.PriorMinutes = j.past.prior(deployment, target.begun)

	record, err := openRun(dir, spec.Run{Schema: spec.RunSchema, ID: folderName(dir), Version: a.env.Build.Version, Command: a.commandLine("validate"),
		Target: j.origin, Start: target.begun.UTC().Format(time.RFC3339Nano)}, j.plan)
	if err != nil {
		return err
	}
	defer func() { _ = record.events.Close() }() // what was written is on the disk
	kept := &followed{recorder: record, view: view, deployment: &deployment, found: func(workers int, origin string) error {
		if err := j.foundWorkers(ctx, workers, origin); err != nil {
			return err
		}
		deployment.Workers = workers
		j.plan.Prior, j.plan.PriorMinutes = j.past.prior(deployment, target.begun)
		return record.replan(j.plan)
	}}
	v, err := checks.Run(ctx, j.plan, target, kept, view)
	view.close()
	switch {
	case record.lost != nil:
		return errors.Join(j.printKept(context.WithoutCancel(ctx), dir), record.lost)
	case v == nil && !a.interrupted(ctx):
		return unmeasured("", "validating: %w", err)
	case v == nil:
		return err
	}
	err = record.close(v, target.end())
	var trend *spec.Trend
	if err == nil {
		trend, err = j.past.add(judge.NewHistoryEntry(record.run, deployment, j.plan, v))
	}
	return errors.Join(j.tell(ctx, &spec.Report{Run: record.run, Plan: j.plan, Verdict: v, Trend: trend, Kept: dir}), err, endOf(v, j.options.failOn))
}

// tell prints what the run came to, and then writes its reports, of the record: what
// it says does not depend on who tells it, and when.
func (j *validateJob) tell(ctx context.Context, brief *spec.Report) error {
	a := j.app
	brief.Judge, brief.Page = againWith("judge", []string{brief.Kept}), againWith("report", []string{brief.Kept})+pageFile
	printed := a.printReport(brief, j.options.format, j.reports)
	if len(j.reports) == 0 {
		return printed
	}
	full := brief
	run, err := a.readRun(brief.Kept)
	if err == nil {
		full, err = a.gather(context.WithoutCancel(ctx), brief.Kept, run, brief.Verdict)
	}
	if err != nil {
		full = brief
		full.Notes = append(full.Notes, "the record could not be read again, so that there are no pictures")
		err = &Problem{Code: Passed, Cause: fmt.Errorf("reading the record again for the reports: %w", err)}
	}
	full.Trend, full.Judge, full.Page = brief.Trend, brief.Judge, brief.Page
	return errors.Join(printed, err, a.writeReports(full, j.reports))
}

// printKept says what can still be said of a run whose record cannot be kept any
// more: what the whole episodes in it mean.
func (j *validateJob) printKept(ctx context.Context, dir string) error {
	run, err := j.app.readRun(dir)
	if err != nil {
		return err
	}
	v, err := rejudge(ctx, dir, run, run.Plan)
	if err != nil {
		return err
	}
	return j.tell(ctx, &spec.Report{Run: run.Run, Plan: run.Plan, Verdict: v, Kept: dir})
}

// followed keeps a run and has somebody follow it.
type followed struct {
	*recorder
	view       *runView
	deployment *spec.Deployment
	found      func(workers int, origin string) error
}

// Found makes the plan anew with the number of workers that the target has.
func (f *followed) Found(workers int, origin string) error { return f.found(workers, origin) }

// foundWorkers makes the plan anew with the number of workers that the target has. The
// plan keeps its place: who follows the run has it.
func (j *validateJob) foundWorkers(ctx context.Context, workers int, origin string) error {
	plan := j.plan
	j.fleet, j.foundBy = workers, origin
	if err := j.makePlan(ctx, j.papers.recipe); err != nil {
		j.plan = plan
		return err
	}
	*plan = *j.plan
	j.plan = plan
	j.app.say("%s, by %s; %s in flight", layout.Plural(workers, "worker"), origin, layout.Number(float64(plan.Point.Concurrency)))
	return nil
}

// Event keeps what happened.
func (f *followed) Event(e spec.Event) error {
	judge.LearnDeployment(f.deployment, []spec.Event{e}, nil)
	return f.recorder.Event(e)
}

// Episode keeps a whole episode.
func (f *followed) Episode(e *spec.EpisodeRecord) error {
	judge.LearnDeployment(f.deployment, nil, e.Series)
	return f.recorder.Episode(e)
}

// interrupted says whether it was the user who ended it.
func (a *app) interrupted(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), errInterrupted)
}

// freshFolder makes a folder that nobody else has, of two programs that begin in the same
// second too. What cannot be made is told by who writes into it.
func freshFolder(name string) string {
	dir := name
	for n := 2; ; n++ {
		if err := os.Mkdir(dir, 0o777); !errors.Is(err, os.ErrExist) || n > 1000 {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
}
