package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// Book is where a run is kept on this machine.
type Book interface {
	// Event appends what happened.
	Event(spec.Event) error
	// Episode keeps an episode that was measured elsewhere, once.
	Episode(*spec.EpisodeRecord) error
	// Episodes is how many there are, without the look at half the load.
	Episodes() (int, error)
	// Spool is an empty file that a record is fetched into.
	Spool() (Spool, error)
	// Adopt has a fetched record take the place of what is there; what happened is told
	// in it from the beginning. Of all that comes from the cluster it alone is packed: the
	// book itself takes the token out of it.
	Adopt(archive io.Reader) error
	// Compact keeps what is left of a record that could not be fetched, beside the run.
	Compact(files map[string][]byte) (*spec.Verdict, error)
	// Diagnostic keeps a file of diagnostics.
	Diagnostic(name string, data []byte) error
	// Judge judges what is kept.
	Judge(ctx context.Context) (*spec.Verdict, []spec.Event, error)
}

// Run is one on one node, from its first object to its last. Attach is the same, entered
// again with what was kept.
type Run struct {
	API    RunAPI
	Kept   *Kept
	Secret Secret // the token: to be sent, and to be seen in nothing that the cluster says
	Book   Book
	Told   Told
	Hear   func(LoadLine) // each line of the load's log
	Attach string         // the command that goes on with the run, with all that it takes to find it
	Now    func() time.Time

	// Judged is told what it came to, before anything is taken away; nil: nobody waits.
	Judged func(*End)

	// Begun is told once something is on the cluster: from here on it may be left there.
	Begun func()

	// Ledger says who holds which GPUs, where workers wait for some; nil: it is not asked.
	Ledger Ledger

	loadJob string     // the UID of the load's Job; "": it is not there yet
	stood   time.Time  // when all that is loaded was last seen to be there; zero: not yet
	mu      sync.Mutex // over what is kept

	reserved sync.Mutex // over the reservation of the node
	released bool       // it is not renewed any more
}

// End is what became of a run.
type End struct {
	Verdict *spec.Verdict // nil: there is none
	By      string        // ByRecord, ByConfigMap, ByMessage, ByKept; "": by what happened before any load
	Missing string        // why there is no more than that
	Left    []Left        // of what was made
	Stays   bool          // all of it, since it was asked for
	Waits   bool          // all of it, since the load's record is in its pod and is not here

	over time.Time // the load, where its record is not here; zero: not known
}

// IsCopy says that the verdict was come to elsewhere, by what is not here.
func (e *End) IsCopy() bool { return e.By == ByConfigMap || e.By == ByMessage || e.By == ByKept }

// How often a sign of life is given, and how long what went wrong is looked into.
const (
	beatEvery     = 30 * time.Second
	lookWithin    = 30 * time.Second
	diagnoseFor   = 2 * time.Minute
	diagnoseBrief = 15 * time.Second
)

// Go carries the run out: it begins, or goes on where it was left. An error is that it
// could not be carried out; what was made is taken away in any case, and End says what is
// left. When ctx ends, the verdict is that of what there is by then.
func (r *Run) Go(ctx context.Context) (*End, error) {
	r.API = masked(r.API, r.Secret)
	if r.Kept.Stage == "" {
		r.Kept.Stage = StageDeploy
		if err := r.begin(ctx); err != nil {
			return r.takeAway(ctx, &End{}, err)
		}
	} else {
		if r.Begun != nil {
			r.Begun()
		}
		r.reserve(ctx)
	}
	stop := r.stayAlive(ctx)
	defer stop()
	end, err := r.measure(ctx)
	if ctx.Err() != nil && r.Kept.Stage == StageLoad && end.By == "" && !end.Waits {
		end = r.salvage(ctx)
	}
	if ctx.Err() == nil && (err != nil || end.By == "" && end.Missing != "") {
		end, err = r.elsewhere(ctx, end, err)
	}
	if err == nil || ctx.Err() != nil || end.Verdict != nil {
		var unjudged error
		end, unjudged = r.judge(ctx, end)
		err = errors.Join(err, unjudged)
	}
	end, err = r.close(ctx, end, err)
	stop()
	if len(end.Left) > 0 { // nobody leads it any more, and whoever cleans next may have it
		_ = r.Kept.rest(context.WithoutCancel(ctx), r.API) // where that cannot be said, it is seen after AliveFor
	}
	return end, err
}

// begin keeps the run on the cluster, before anything else of it is there.
func (r *Run) begin(ctx context.Context) error {
	if r.Begun != nil {
		r.Begun()
	}
	return r.Kept.begin(ctx, r.API, r.Now(), r.Told)
}

// stayAlive gives signs of life until it is told to stop.
func (r *Run) stayAlive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var over sync.WaitGroup
	over.Go(func() {
		for pauseFor(ctx, beatEvery) == nil {
			_ = r.Kept.beat(ctx, r.API, r.Now()) // a server that is away is told of by whoever waits for it
			r.renew(ctx)
		}
	})
	return func() { cancel(); over.Wait() }
}

// measure has the graph serve and be loaded, from whichever stage it is at.
func (r *Run) measure(ctx context.Context) (*End, error) {
	s := r.Kept.Settings
	if r.Kept.Stage == StageDeploy {
		ready, err := deploy(ctx, r.API, s, r.Secret, r.told(), r.Ledger)
		if taken, ok := errors.AsType[*TakenError](err); ok {
			return r.taken(ctx, taken)
		}
		if err != nil {
			return &End{}, fmt.Errorf("deploying: %w", err)
		}
		if !ready {
			return r.neverServed(ctx, "what serves did not become ready")
		}
		targets, err := FindTargets(ctx, r.API, s)
		if err != nil {
			return &End{}, fmt.Errorf("looking for what is loaded and observed: %w", err)
		}
		for _, missing := range targets.Missing {
			r.Told.Say("not observed: " + missing)
		}
		r.Kept.Targets = targets
		if err := r.tellPlaces(targets); err != nil {
			return &End{}, err
		}
		if err := r.stage(ctx, StageLoad); err != nil {
			return &End{}, err
		}
	}
	if r.Kept.Stage != StageLoad {
		return &End{}, nil
	}
	if Recorded(r.Kept.Events) { // it was taken in before, and the pod may be gone since
		return &End{By: ByRecord}, nil
	}
	started, err := StartLoad(ctx, r.API, s, r.Kept.Plan, r.told())
	if err != nil {
		return &End{}, fmt.Errorf("starting the load: %w", err)
	}
	if !started {
		return r.neverServed(ctx, "the load's pod did not start")
	}
	if err := r.noteLoad(ctx); err != nil {
		return &End{}, err
	}
	return r.follow(ctx)
}

// EndedElsewhere says that a run that was led here is no longer on the cluster: another
// command led it too, or removed it.
type EndedElsewhere struct{ Run string }

func (e *EndedElsewhere) Error() string {
	return fmt.Sprintf("another command has ended run %s meanwhile, or has removed it", e.Run)
}

// elsewhere finds out whether a run that goes on no further is so because another command
// has led it to its end: then that one's verdict is the run's.
func (r *Run) elsewhere(ctx context.Context, end *End, err error) (*End, error) {
	kept, lost := FindKept(ctx, r.API, r.Kept.Settings.Namespace, r.Kept.Run.ID)
	if _, ok := errors.AsType[*NothingLeft](lost); ok {
		return &End{}, &EndedElsewhere{r.Kept.Run.ID}
	}
	if lost == nil && kept.Stage == StageJudged && kept.Verdict != nil {
		return &End{Verdict: kept.Verdict, By: ByKept, Missing: "another command has led the run to this verdict meanwhile; its record is there"}, nil
	}
	return end, err
}

// neverServed closes the record of a run that came to no load: what was told says why.
func (r *Run) neverServed(ctx context.Context, why string) (*End, error) {
	told := false
	for _, e := range r.Kept.Events {
		told = told || e.Kind == spec.EventNotServed
	}
	if !told {
		if err := r.event(spec.Event{Kind: spec.EventNotServed, Source: r.Kept.Settings.Names().Namespace, Text: why}); err != nil {
			return &End{}, err
		}
	}
	if err := r.event(spec.Event{Kind: spec.EventStage, Stage: "end"}); err != nil {
		return &End{}, err
	}
	return &End{}, r.stage(ctx, StageFailed)
}

// follow waits for the load to end, and takes its record in.
func (r *Run) follow(ctx context.Context) (*End, error) {
	spool, err := r.Book.Spool()
	if err != nil {
		return &End{Waits: true}, err
	}
	beside := r.besideStart(ctx)
	out, err := FollowLoad(beside.ctx, r.API, r.Kept.Settings, r.told(), spool, beside.hear)
	beside.end()
	switch {
	case err == nil || ctx.Err() != nil:
	case beside.removed != nil:
		return r.removedUnderLoad(ctx, beside.removed)
	case beside.failed != nil:
		if err := beside.look.tellFailure(beside.failed); err != nil {
			return &End{}, err
		}
		return r.neverServed(ctx, "what serves failed while its first answers were waited for")
	}
	if err != nil {
		return &End{Waits: isUnkept(err) || isUnfetched(err)}, fmt.Errorf("following the load: %w", err)
	}
	return r.takeIn(ctx, out, spool)
}

// takeIn keeps what a load came to.
func (r *Run) takeIn(ctx context.Context, out *Outcome, spool Spool) (*End, error) {
	end, err := &End{By: out.By}, error(nil)
	switch out.By {
	case ByRecord:
		_, err := spool.Seek(0, io.SeekStart)
		if err == nil {
			err = r.Book.Adopt(spool)
		}
		if err != nil {
			return &End{Waits: true}, err
		}
		letLoadGo(ctx, r.API, r.Kept.Settings, out.Pod)
		return end, nil
	case ByConfigMap:
		end.Missing = out.without() + "; this is the copy that the load left in the cluster"
		end.over = r.overBy(out)
		end.Verdict, err = r.Book.Compact(out.Files)
		return end, err
	case ByAIPerf:
		return end, r.takeInAIPerf(out)
	case ByMessage:
		end.Missing = out.without() + "; this is what it said last"
		end.over = r.overBy(out)
		end.Verdict = out.Message.verdict(r.Kept.Plan.Profile)
		return end, nil
	}
	if err := r.tellAnswer(out); err != nil {
		return end, err
	}
	end.Missing = out.Why
	for _, line := range out.Tail {
		r.Told.Say("load: " + line)
	}
	return end, r.event(out.Event())
}

// verdict is what a termination message says of a verdict.
func (m *LoadMessage) verdict(profile string) *spec.Verdict {
	v := &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.State(m.Verdict), Reason: m.Reason, Profile: profile,
		Ledgers: []spec.Ledger{}, Expectations: []spec.Expected{}, Findings: []spec.Finding{}}
	for _, id := range m.Findings {
		v.Notes = append(v.Notes, "found: "+id)
	}
	return v
}

// judge comes to the verdict, where the load has not given one that cannot be come to
// again.
func (r *Run) judge(ctx context.Context, end *End) (*End, error) {
	switch {
	case end.Verdict == nil:
	case end.By == ByConfigMap || end.By == ByMessage:
		return end, r.amend(ctx, end)
	default:
		return end, nil
	}
	less, err := r.hasLess()
	if err != nil {
		return end, fmt.Errorf("judging: %w", err)
	}
	if less {
		end.Verdict, end.By = r.Kept.Verdict, ByKept
		end.Missing = "the run was judged before; its record is where it was led from"
		return end, nil
	}
	if ctx.Err() != nil && end.By == "" { // a record tells by itself how it ended
		if err := r.event(spec.Event{Kind: spec.EventInterrupt, Text: context.Cause(ctx).Error()}); err != nil {
			return end, err
		}
	}
	v, events, err := r.Book.Judge(context.WithoutCancel(ctx))
	if err != nil {
		return end, fmt.Errorf("judging: %w", err)
	}
	told, err := r.lookAfter(ctx, events)
	if err == nil && told {
		v, _, err = r.Book.Judge(context.WithoutCancel(ctx))
	}
	if err != nil {
		return end, fmt.Errorf("judging: %w", err)
	}
	end.Verdict = v
	return end, nil
}

// lookAfter looks at what is there after a load, or after none, and tells what the record
// does not have: that it was deleted, why it never served, what became of its pods. It
// reports whether anything was told.
func (r *Run) lookAfter(ctx context.Context, events []spec.Event) (told bool, err error) {
	if r.Kept.Stage != StageLoad && r.Kept.Stage != StageFailed {
		return false, nil
	}
	over := time.Time{}
	if Recorded(events) {
		over = r.loadOver(events)
	}
	if told, err := r.tellRemoved(ctx, over); err != nil || told || r.wasRemoved() {
		return told, err // what befell the pods was done to them
	}
	if r.Kept.Stage != StageLoad {
		return false, nil
	}
	if ctx.Err() == nil && neverAnswered(events) {
		// What serves is still there, and may say why it does not.
		brief, cancel := context.WithTimeout(ctx, lookWithin)
		found, err := LookAgain(brief, r.API, r.Kept.Settings, r.told())
		cancel()
		if err != nil {
			r.Told.Say("what serves could not be looked at again: " + err.Error())
		}
		told = found
	}
	if Recorded(events) {
		ended, err := r.tellEnded(ctx, over)
		return told || ended, err
	}
	return told, nil
}

// hasLess says that the run was judged before, by more than is here: what happened may be
// told here without the episodes, as where another folder has them.
func (r *Run) hasLess() (bool, error) {
	kept := r.Kept.Verdict
	if r.Kept.Stage != StageJudged || kept == nil {
		return false, nil
	}
	n, err := r.Book.Episodes()
	return !Recorded(r.Kept.Events) || n < max(kept.Episodes, len(kept.Parts)), err
}

// Recorded says that what happened is told up to the load: its record was taken in.
func Recorded(events []spec.Event) bool {
	return slices.ContainsFunc(events, func(e spec.Event) bool { return e.Kind == spec.EventStage && e.Stage != "end" })
}

func neverAnswered(events []spec.Event) bool {
	for _, e := range events {
		if e.Kind == spec.EventNotServed {
			return true
		}
	}
	return false
}

// close keeps what can still be known, and takes away what was made.
func (r *Run) close(ctx context.Context, end *End, err error) (*End, error) {
	interrupted := ctx.Err() != nil
	free := context.WithoutCancel(ctx)
	// A load that is left on the cluster goes on, or keeps its record: who attaches to it
	// later gets that, and not what was known when somebody stopped looking.
	goesOn := interrupted && (r.Kept.Settings.NoCleanup || end.Waits) && r.Kept.Stage == StageLoad
	if end.Verdict != nil { // a copy of a load of another version may lack the other checks
		end.Verdict = judge.Conclude(r.Kept.Plan, end.Verdict, 0)
	}
	if end.Verdict != nil && !goesOn {
		r.Kept.Verdict = end.Verdict
		if lost := r.stage(free, StageJudged); lost != nil && !kube.IsNotFound(lost) {
			r.Told.Say("the verdict could not be kept on the cluster: " + lost.Error())
		}
	}
	// The other checks are not about what was made here.
	if own := end.Verdict.Inference(); own == nil || own.Verdict != spec.Pass {
		r.diagnose(free, own, interrupted)
	}
	if end.Verdict != nil && r.Judged != nil {
		r.Judged(end)
	}
	return r.takeAway(ctx, end, err)
}

// takeAway removes what was made, unless it is to stay.
func (r *Run) takeAway(ctx context.Context, end *End, err error) (*End, error) {
	goesOn := end.Waits || r.Kept.Stage == StageLoad // the load may, and its node stays reserved for as long as it may take
	r.release()
	if r.Kept.Settings.NoCleanup || end.Waits {
		if !goesOn {
			Release(context.WithoutCancel(ctx), r.API, r.Kept.Settings)
		}
		end.Stays = r.Kept.Settings.NoCleanup
		return end, settled(ctx, err)
	}
	r.Told.Waiting("what was made to be gone")
	end.Left = Teardown(context.WithoutCancel(ctx), r.API, r.Kept.Settings, r.Told)
	r.Told.Waiting("")
	if len(end.Left) == 0 {
		r.Told.Say("all objects of the run are gone from the cluster")
	}
	return end, settled(ctx, err)
}

// settled is the error of a run: that it was interrupted is the only one then.
func settled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// diagnose keeps what can be known of what was made, before it is gone.
func (r *Run) diagnose(ctx context.Context, v *spec.Verdict, interrupted bool) {
	within := diagnoseFor
	if interrupted {
		within = diagnoseBrief
		r.Told.Say("interrupted: diagnostics are gathered for " + within.String() + " at most, then what was made is removed")
	}
	brief, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r.Told.Waiting("diagnostics to be gathered")
	answer := ""
	if v != nil {
		answer = fmt.Sprintf("%s: %s", v.Verdict, v.Reason)
	}
	r.mu.Lock()
	told := slices.Clone(r.Kept.Events)
	r.mu.Unlock()
	wrong := Diagnose(brief, r.API, r.Kept.Settings, answer, r.Book.Diagnostic, told...)
	r.Told.Waiting("")
	if n := len(wrong); n > 1 { // a full disk has one cause, and fails every file
		r.Told.Say(fmt.Sprintf("diagnostics are not whole: %v; and %d more", wrong[0], n-1))
	} else if n == 1 {
		r.Told.Say(fmt.Sprintf("diagnostics are not whole: %v", wrong[0]))
	}
}

// told is who hears of the run: the record too.
func (r *Run) told() Told {
	t := r.Told
	t.Event = r.event
	return t
}

// event keeps what happened, once.
func (r *Run) event(e spec.Event) error {
	if e.T == 0 {
		e.T = r.since().Seconds()
	}
	r.mu.Lock()
	isNew := r.Kept.add(e)
	r.mu.Unlock()
	if !isNew {
		return nil
	}
	return r.Book.Event(e)
}

// since is the time since the run's start.
func (r *Run) since() time.Duration {
	began, err := time.Parse(time.RFC3339Nano, r.Kept.Run.Start)
	if err != nil {
		return 0
	}
	return r.Now().Sub(began)
}

// stage notes how far the run is, on the cluster too.
func (r *Run) stage(ctx context.Context, stage string) error {
	r.mu.Lock()
	r.Kept.Stage = stage
	err := r.Kept.save(ctx, r.API, r.Now())
	r.mu.Unlock()
	if stage == StageLoad { // which the command may not live to see the end of
		r.renew(ctx)
	}
	return err
}
