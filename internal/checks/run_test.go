package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

// story is what happened in a run, in order.
type story struct{ lines []string }

func (s *story) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// puppet is a target that does as it is told.
type puppet struct {
	story *story
	ready bool
	start error
	load  func(number int) error
	now   time.Duration
	point []spec.OperatingPoint
}

func (p *puppet) Start(_ context.Context, tell func(spec.Event) error) (bool, error) {
	p.story.say("start")
	if err := tell(spec.Event{Kind: spec.EventNotServed, Text: "seen"}); err != nil {
		return false, err
	}
	return p.ready, p.start
}

func (p *puppet) Load(_ context.Context, number int, point spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	p.story.say("load %d", number)
	p.point = append(p.point, point)
	if p.load != nil {
		if err := p.load(number); err != nil {
			return nil, err
		}
	}
	return &spec.EpisodeRecord{Episode: spec.Episode{Schema: spec.EpisodeSchema, Number: number, Point: point}}, nil
}

func (p *puppet) Now() time.Duration {
	p.now += time.Second
	return p.now
}

// shelf keeps what it is given until it is told to fail.
type shelf struct {
	story    *story
	events   []spec.Event
	episodes []*spec.EpisodeRecord
	fails    func(line string) bool
}

var errFull = errors.New("the disk is full")

func (s *shelf) keep(line string) error {
	if s.fails != nil && s.fails(line) {
		return errFull
	}
	s.story.say("%s", line)
	return nil
}

func (s *shelf) Event(e spec.Event) error {
	words := []string{"keep", e.Kind}
	if e.Stage != "" {
		words = append(words, e.Stage)
	}
	if e.Stage == "episode" {
		words = append(words, fmt.Sprint(e.Episode))
	}
	if err := s.keep(strings.Join(words, " ")); err != nil {
		return err
	}
	s.events = append(s.events, e)
	return nil
}

func (s *shelf) Episode(e *spec.EpisodeRecord) error {
	if err := s.keep(fmt.Sprintf("keep episode %d", e.Episode.Number)); err != nil {
		return err
	}
	s.episodes = append(s.episodes, e)
	return nil
}

// onlooker ends a run by its context after so many episodes: a judge who is given
// nothing may want more of it for ever.
type onlooker struct {
	story *story
	most  int
	end   func()
}

func (o *onlooker) Stage(string, int)     {}
func (o *onlooker) Episode(*spec.Episode) {}
func (o *onlooker) Judged(number int, v *spec.Verdict, next *judge.Next) {
	o.story.say("judged %d", number)
	if next != nil && number >= o.most {
		o.end()
	}
}

func planned() *spec.Plan {
	limits, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	return &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Thresholds: limits, Stability: spec.StabilityReport,
		Point: spec.OperatingPoint{Workers: 2, Concurrency: 8, DurationS: 10, InputTokens: 32, OutputTokens: 32, Prompts: "unique"},
		Half:  &spec.HalfLook{Concurrency: 4, DurationS: 3}}
}

// played runs a plan with puppets and gives the verdict, and what happened.
func played(t *testing.T, change func(p *puppet, s *shelf, cancel context.CancelCauseFunc)) (*spec.Verdict, *shelf, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	told := &story{}
	target, keep := &puppet{story: told, ready: true}, &shelf{story: told}
	change(target, keep, cancel)
	v, err := Run(ctx, planned(), target, keep, &onlooker{story: told, most: 1, end: func() { cancel(errEnough) }})
	return v, keep, err
}

var (
	errEnough  = errors.New("enough")
	errStopped = errors.New("stopped by hand")
)

// followsFrom checks that what was kept gives the verdict.
func followsFrom(t *testing.T, v *spec.Verdict, kept *shelf) {
	t.Helper()
	if diff := cmp.Diff(judge.Judge(planned(), kept.events, kept.episodes...), v); diff != "" {
		t.Errorf("what was kept does not give the verdict:\n%s", diff)
	}
}

func TestWhatIsJudgedWasKeptBefore(t *testing.T) {
	var target *puppet
	v, kept, err := played(t, func(p *puppet, _ *shelf, _ context.CancelCauseFunc) { target = p })
	if err != nil && !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	want := []string{
		"start", "keep not-served",
		"keep stage episode 0", "load 0", "keep episode 0",
		"keep stage episode 1", "load 1", "keep episode 1", "judged 1",
	}
	if got := kept.story.lines; len(got) < len(want) || cmp.Diff(want, got[:len(want)]) != "" {
		t.Errorf("the run went\n%s", strings.Join(got, "\n"))
	}
	if last := kept.events[len(kept.events)-1]; last.Stage != "end" && last.Kind != spec.EventInterrupt {
		t.Errorf("the last that was kept is %+v", last)
	}
	for _, e := range kept.events {
		if e.T <= 0 {
			t.Errorf("event %+v has no time", e)
		}
	}
	if half := target.point[0]; half.Concurrency != 4 || half.DurationS != 3 || half.InputTokens != 32 {
		t.Errorf("the look at half the load was at %+v", half)
	}
	if whole := target.point[1]; whole.Concurrency != 8 || whole.DurationS != 10 {
		t.Errorf("the first episode was at %+v", whole)
	}
	followsFrom(t, v, kept)
}

func TestATargetThatIsNotReadyIsNotLoaded(t *testing.T) {
	v, kept, err := played(t, func(p *puppet, _ *shelf, _ context.CancelCauseFunc) { p.ready = false })
	if err != nil || v == nil {
		t.Fatalf("verdict %v, %v", v, err)
	}
	if v.Verdict == spec.Pass {
		t.Error("it passed")
	}
	if diff := cmp.Diff([]string{"start", "keep not-served", "keep stage end"}, kept.story.lines); diff != "" {
		t.Error(diff)
	}
	followsFrom(t, v, kept)
}

// What cannot be kept ends the run without a verdict, whatever it is, also when
// somebody ends it at the same moment.
func TestWhatCannotBeKeptEndsTheRun(t *testing.T) {
	for _, line := range []string{"keep not-served", "keep stage episode 0", "keep episode 0", "keep episode 1"} {
		for _, interrupted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, interrupted %v", line, interrupted), func(t *testing.T) {
				v, kept, err := played(t, func(_ *puppet, s *shelf, cancel context.CancelCauseFunc) {
					s.fails = func(now string) bool {
						if now == line && interrupted {
							cancel(errStopped)
						}
						return now == line
					}
				})
				if v != nil || !errors.Is(err, errFull) {
					t.Errorf("verdict %v, error %v", v, err)
				}
				for _, l := range kept.story.lines {
					if strings.HasPrefix(l, "keep stage end") || strings.HasPrefix(l, "keep interrupt") {
						t.Errorf("the record says %q of a run that was lost", l)
					}
				}
			})
		}
	}
}

func TestAnErrorOfTheTargetIsNoVerdict(t *testing.T) {
	broken := errors.New("broken")
	v, _, err := played(t, func(p *puppet, _ *shelf, _ context.CancelCauseFunc) {
		p.load = func(number int) error {
			if number == 1 {
				return broken
			}
			return nil
		}
	})
	if v != nil || !errors.Is(err, broken) {
		t.Errorf("verdict %v, error %v", v, err)
	}
}

// An episode that was cut short is not kept, whether its target gives it up or
// hands over what there is of it.
func TestAnInterruptedRunIsJudgedByItsWholeEpisodes(t *testing.T) {
	for _, given := range []bool{false, true} {
		t.Run(fmt.Sprintf("the target hands it over: %v", given), func(t *testing.T) {
			v, kept, err := played(t, func(p *puppet, _ *shelf, cancel context.CancelCauseFunc) {
				p.load = func(number int) error {
					if number == 0 {
						return nil
					}
					cancel(errStopped)
					if given {
						return nil
					}
					return errStopped
				}
			})
			if !errors.Is(err, errStopped) || v == nil {
				t.Fatalf("verdict %v, error %v", v, err)
			}
			if v.Verdict == spec.Pass {
				t.Error("it passed")
			}
			if len(kept.episodes) != 1 || kept.episodes[0].Episode.Number != 0 {
				t.Errorf("kept %d episodes", len(kept.episodes))
			}
			last := kept.events[len(kept.events)-1]
			if last.Kind != spec.EventInterrupt || last.Text != errStopped.Error() {
				t.Errorf("the last that was kept is %+v", last)
			}
			followsFrom(t, v, kept)
		})
	}
}

// An episode in which the client failed is repeated after a rest that is told, and
// no more often than the plan allows.
func TestAnInvalidEpisodeIsRepeatedAfterARest(t *testing.T) {
	thresholds, _ := spec.DefaultThresholds(spec.ProfileStandard)
	target := &restedTarget{}
	kept := &keptEvents{}
	v, err := Run(t.Context(), &spec.Plan{Profile: spec.ProfileStandard, Thresholds: thresholds}, target, kept, noFollower{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Verdict != spec.Invalid || target.loads != 1+thresholds.MaxRetries || target.rests != thresholds.MaxRetries || kept.retries != thresholds.MaxRetries {
		t.Errorf("%s after %d loads, %d rests and %d retries that were told", v.Verdict, target.loads, target.rests, kept.retries)
	}
}

// restedTarget has a client that never holds its load.
type restedTarget struct{ loads, rests int }

func (*restedTarget) Start(context.Context, func(spec.Event) error) (bool, error) { return true, nil }
func (*restedTarget) Now() time.Duration                                          { return time.Second }
func (r *restedTarget) Rest(context.Context) error                                { r.rests++; return nil }
func (r *restedTarget) Load(_ context.Context, number int, _ spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	r.loads++
	return &spec.EpisodeRecord{Episode: spec.Episode{Number: number, LoadedS: 20, Client: spec.BenchClient{
		Reasons: []spec.BenchReason{{ID: "client/under-driven", Text: "held 1 of 8 in flight"}}}}}, nil
}

// keptEvents counts the retries that were told.
type keptEvents struct{ retries int }

func (k *keptEvents) Event(e spec.Event) error {
	if e.Stage == "retry" && e.Text != "" {
		k.retries++
	}
	return nil
}
func (*keptEvents) Episode(*spec.EpisodeRecord) error { return nil }

type noFollower struct{}

func (noFollower) Stage(string, int)                      {}
func (noFollower) Episode(*spec.Episode)                  {}
func (noFollower) Judged(int, *spec.Verdict, *judge.Next) {}
