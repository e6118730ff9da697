package graph

import (
	"time"

	"aicr/internal/spec"
)

// takeInAIPerf keeps what AIPerf came to, or that nothing answered before it. The event of
// a stage comes after what it is of: by it is known that all was taken in.
func (r *Run) takeInAIPerf(out *Outcome) error {
	if err := r.tellAnswer(out); err != nil {
		return err
	}
	stage := spec.Event{Kind: spec.EventStage, Stage: "start", Text: "AIPerf"}
	if out.Episode != nil {
		if err := r.Book.Episode(out.Episode); err != nil {
			return err
		}
		stage.Stage, stage.Episode = "episode", out.Episode.Episode.Number
	}
	if err := r.event(stage); err != nil {
		return err
	}
	return r.event(spec.Event{Kind: spec.EventStage, Stage: "end"})
}

// tellAnswer tells of a first answer, at the time when it came. That is by the clock of a
// node, which may be another than ours: it is neither before what was told nor yet to come.
func (r *Run) tellAnswer(out *Outcome) error {
	for _, e := range out.Answer {
		came := out.Began.Add(time.Duration(e.T * float64(time.Second)))
		now := r.since().Seconds()
		e.T = min(max(now-r.Now().Sub(came).Seconds(), r.lastTold()), now)
		if err := r.event(e); err != nil {
			return err
		}
	}
	return nil
}

// lastTold is when something was told last, in seconds since the run's start.
func (r *Run) lastTold() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.Kept.Events); n > 0 {
		return r.Kept.Events[n-1].T
	}
	return 0
}
