package checks

import (
	"context"
	"errors"
	"slices"
	"time"

	"aicr/internal/judge"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// Target is what is validated.
type Target interface {
	// Start brings the target to where it can be loaded and has each worker answer.
	// It tells what there was to see as it is seen, and whether it can be loaded: a
	// target that cannot is no error.
	Start(ctx context.Context, tell func(spec.Event) error) (ready bool, err error)

	// Load loads the target at a point and gives the record of it. The look at half
	// the load is number 0.
	Load(ctx context.Context, number int, point spec.OperatingPoint) (*spec.EpisodeRecord, error)

	// Now is the time since the run's start, on the target's clock.
	Now() time.Duration
}

// Rester is a Target whose clock is everybody's: it can be left alone for a while.
type Rester interface {
	Rest(ctx context.Context) error
}

// Keeper keeps what a verdict is made from, as it comes.
type Keeper interface {
	Event(spec.Event) error
	Episode(*spec.EpisodeRecord) error
}

// Follower is told how far a run is.
type Follower interface {
	Stage(stage string, number int)
	// Episode is told of a whole episode, with the throughputs that the judge measured
	// among its figures. Number 0 is the look at half the load.
	Episode(e *spec.Episode)
	Judged(number int, v *spec.Verdict, next *judge.Next)
}

// Replanner is a Keeper that can make the plan anew, before any load: with the number of
// workers that the target was found to have. It changes the plan in its place.
type Replanner interface {
	Found(workers int, origin string) error
}

// Forecaster is a Follower that is shown why a run cannot pass, before any load. It says
// whether the run ends there.
type Forecaster interface {
	CannotPass(why []judge.Hindrance) (end bool)
}

// Run carries out a plan and gives the verdict. What was kept by then gives the
// same one. When ctx ends before it is decided, the verdict is that of the whole
// episodes that there are, and comes with the reason that ctx ended for.
func Run(ctx context.Context, plan *spec.Plan, target Target, keep Keeper, follow Follower) (*spec.Verdict, error) {
	return Continue(ctx, plan, nil, target, keep, follow)
}

// Continue is Run for a run that somebody else has begun: what happened before counts,
// and is kept already.
func Continue(ctx context.Context, plan *spec.Plan, before []spec.Event, target Target, keep Keeper, follow Follower) (*spec.Verdict, error) {
	r := &run{plan: plan, target: target, keep: keep, follow: follow, judged: judge.NewCase(plan)}
	r.judged.Hear(before...)
	err := r.all(ctx)
	if r.lost != nil {
		return nil, r.lost
	}
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		if lost := r.tell(spec.Event{Kind: spec.EventInterrupt, Text: context.Cause(ctx).Error()}); lost != nil {
			return nil, errors.Join(err, lost)
		}
	} else if err := r.tell(spec.Event{Kind: spec.EventStage, Stage: "end"}); err != nil {
		return nil, err
	}
	v, _ := r.judged.Verdict()
	if err != nil {
		return v, context.Cause(ctx)
	}
	return v, nil
}

type run struct {
	plan   *spec.Plan
	target Target
	keep   Keeper
	follow Follower
	judged *judge.Case

	foretold []judge.Hindrance // why it cannot pass, as far as it was said

	lost error // what could not be kept: no verdict follows from a record with a hole
}

// tell keeps an event before the judge hears of it, so that the judge never knows
// more than the record does.
func (r *run) tell(e spec.Event) error {
	if e.T == 0 {
		e.T = r.target.Now().Seconds()
	}
	e.Text = redact.Masked(e.Text) // once, for the record and for the verdict: who judges again masks what is masked
	if err := r.keep.Event(e); err != nil {
		r.lost = err
		return err
	}
	r.judged.Hear(e)
	return nil
}

func (r *run) all(ctx context.Context) error {
	if ended, err := r.forecast(judge.Known{}); ended || err != nil {
		return err
	}
	r.follow.Stage("start", 0)
	ready, err := r.target.Start(ctx, r.tell)
	if err != nil || !ready {
		return err
	}
	if ended, err := r.look(ctx); ended || err != nil {
		return err
	}
	if half := r.plan.Half; half != nil {
		point := r.plan.Point
		point.Concurrency, point.DurationS = half.Concurrency, half.DurationS
		if err := r.episode(ctx, 0, point); err != nil {
			return err
		}
	}
	for number := 1; ; number++ {
		if err := r.episode(ctx, number, r.plan.Point); err != nil {
			return err
		}
		v, next := r.judged.Verdict()
		r.follow.Judged(number, v, next)
		if next == nil {
			return nil
		}
		if next.Retry != "" {
			if err := r.rest(ctx, number, next.Retry); err != nil {
				return err
			}
		}
	}
}

// look asks the target what was open before it started.
func (r *run) look(ctx context.Context) (ended bool, err error) {
	t, ok := r.target.(Knower)
	if !ok {
		return false, nil
	}
	known := t.Known(ctx)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if k, ok := r.keep.(Replanner); ok && r.plan.Point.Workers == 0 && known.Workers > 0 {
		if err := k.Found(known.Workers, known.Origin); err != nil {
			return false, err
		}
	}
	return r.forecast(known)
}

// forecast says why the run cannot pass, and ends it where that is wanted. What was said
// before is not said again.
func (r *run) forecast(known judge.Known) (ended bool, err error) {
	f, ok := r.follow.(Forecaster)
	if !ok {
		return false, nil
	}
	why := slices.DeleteFunc(judge.CannotPass(r.plan, known), func(h judge.Hindrance) bool {
		return slices.ContainsFunc(r.foretold, func(before judge.Hindrance) bool { return before.Code == h.Code })
	})
	r.foretold = append(r.foretold, why...)
	if len(why) == 0 || !f.CannotPass(why) {
		return false, nil
	}
	for _, h := range r.foretold {
		if err := r.tell(spec.Event{Kind: spec.EventCannotPass, Reason: h.Code, Text: h.Words()}); err != nil {
			return true, err
		}
	}
	return true, nil
}

// rest waits before an episode is repeated: what kept the client from its work may
// be over then.
func (r *run) rest(ctx context.Context, number int, why string) error {
	if err := r.tell(spec.Event{Kind: spec.EventStage, Stage: "retry", Episode: number, Text: why}); err != nil {
		return err
	}
	if t, ok := r.target.(Rester); ok {
		return t.Rest(ctx)
	}
	return nil
}

func (r *run) episode(ctx context.Context, number int, point spec.OperatingPoint) error {
	r.follow.Stage("episode", number)
	if err := r.tell(spec.Event{Kind: spec.EventStage, Stage: "episode", Episode: number}); err != nil {
		return err
	}
	e, err := r.target.Load(ctx, number, point)
	if err == nil {
		err = ctx.Err() // what was cut short is no episode
	}
	if err != nil {
		return err
	}
	if err := r.keep.Episode(e); err != nil {
		r.lost = err
		return err
	}
	r.judged.Add(e)
	measured := e.Episode
	measured.Figures = slices.Concat(r.judged.Throughputs(), measured.Figures)
	r.follow.Episode(&measured)
	return nil
}

// The sentinel is a hundredth of what is in flight, a second, and about a tenth of it in
// flight at most, on an engine that takes so long for a token: it is a part of the load,
// and must not be the load itself.
const (
	mostSentinel   = 10.0
	leastSentinel  = 0.5
	sentinelShare  = 0.01
	sentinelFlight = 0.1
	slowTokenS     = 0.03
)

// SentinelFor is how many requests a second an open loop sends among so many in flight,
// where nothing else is asked for.
func SentinelFor(inFlight, outputTokens int) float64 {
	return min(mostSentinel, max(leastSentinel, sentinelShare*float64(inFlight)), sentinelBound(inFlight, outputTokens))
}

// sentinelBound is how many a second are no more than its part of what is in flight.
func sentinelBound(inFlight, outputTokens int) float64 {
	return sentinelFlight * float64(inFlight) / (slowTokenS * float64(max(1, outputTokens)))
}
