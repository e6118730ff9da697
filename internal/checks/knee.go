package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/spec"
)

// KneePlan is how a knee is looked for.
type KneePlan struct {
	Point      spec.OperatingPoint // all but how much is in flight and for how long
	Thresholds spec.Thresholds
	First      int           // in flight a GPU, at which it begins
	Most       int           // in flight a GPU, at which it ends at the latest
	LevelS     float64       // of steady load a level, at least
	ReferenceS float64       // of each episode at the proposed point, its ramp included
	Budget     time.Duration // for all of it once the target can be loaded
	From       string        // what a reference is said to be of

	// OwnSentinel says that the point's sentinel was asked for; otherwise the
	// reference has the one that a run at the proposed point will have.
	OwnSentinel bool
}

// sentinel is what is sent as part of a load, as a validation at that load would. At
// levels of which one that was asked for would be most of the load, it is less.
func (p *KneePlan) sentinel(inFlight int) float64 {
	if p.OwnSentinel {
		return min(p.Point.SentinelRate, sentinelBound(inFlight, p.Point.OutputTokens))
	}
	return SentinelFor(inFlight, p.Point.OutputTokens)
}

// The stages of a search.
const (
	KneeStageLevel     = "level"
	KneeStageReference = "reference"
	KneeStageLook      = "half of the proposed load"
)

// KneeFollower is told how far the search is.
type KneeFollower interface {
	Loading(stage string, inFlight int, lasts float64)
	Measured(stage string, l judge.KneeLevel, k *judge.Knee)
}

// KneeFound is all that a search came to.
type KneeFound struct {
	NotReady  string // why the target could not be loaded
	GPUs      int    // 0: nobody told
	Levels    []judge.KneeLevel
	Ended     string // why no further level was measured
	Spent     KneeSpent
	More      KneeMore
	Knee      *judge.Knee
	Proposal  *judge.KneeProposal
	Looks     []judge.KneeLevel // at half of the proposed point
	Reference []judge.KneeLevel // the episodes at the proposed point
	EpisodeS  float64           // of each, its ramp included
	Denied    string            // why there is no reference at it, where it was not confirmed
	Took      time.Duration     // of load, on the target's clock
}

// FindKnee loads the target at one level after the other and finds its knee. When
// ctx ends before it is found, what was measured comes with the reason.
func FindKnee(ctx context.Context, plan *KneePlan, target Target, follow KneeFollower) (*KneeFound, error) {
	s := &sweep{plan: plan, target: target, follow: follow, found: &KneeFound{GPUs: plan.Point.Workers}}
	ready, err := target.Start(ctx, s.hear)
	if err != nil {
		return s.found, err
	}
	if !ready {
		if s.found.NotReady == "" {
			s.found.NotReady = "the target cannot be loaded"
		}
		return s.found, nil
	}
	s.begun = target.Now()
	err = s.levels(ctx)
	s.found.More = s.more()
	s.found.Knee.Settle() // there will be no more of them
	if err == nil && s.found.Knee.Found {
		err = s.reference(ctx)
	}
	s.found.Took = target.Now() - s.begun
	return s.found, err
}

type sweep struct {
	plan   *KneePlan
	target Target
	follow KneeFollower
	found  *KneeFound
	begun  time.Duration
	loads  int
}

// hear takes what the start told: how many workers there are, and why none served.
func (s *sweep) hear(e spec.Event) error {
	switch {
	case e.Kind == spec.EventNotServed:
		s.found.NotReady = e.Text
	case e.Kind == spec.EventGPUs && e.Have != nil && *e.Have == 0:
		s.found.NotReady = "there is no free GPU"
	case e.Kind == spec.EventWorkers && s.plan.Point.Workers == 0 &&
		e.Have != nil && *e.Have > 0 && *e.Have <= largestFleet:
		s.found.GPUs = *e.Have
	}
	return nil
}

// gpus is what a level a GPU is multiplied by.
func (s *sweep) gpus() int { return max(1, s.found.GPUs) }

// Levels of a search.
const (
	fewestKneeLevels = 10              // before it is asked whether the knee is sure
	kneeSure         = 0.05            // half of its interval, relative
	enoughKneeLevels = 16              // before it is asked whether it is sure enough
	kneeSureEnough   = 0.10            // to choose an operating point by; the interval of fewer levels is itself unsure
	mostKneeLevels   = 40              // after which more of the same would not help
	kneePassed       = 1.4             // times the knee: above it nothing more is learned of it
	kneeAim          = 1.6             // times the knee, to where it is loaded: it may still turn out higher
	kneeFrom         = 8               // part of the knee, from where levels say something about it
	betweenEpisodes  = 3 * time.Second // for the last answers of one, and the start of the next

	referenceEpisodes = 5                     // the interval of three is twice as wide
	referenceLoads    = referenceEpisodes + 1 // and a look at half of it
	mostLooks         = 3                     // at half of it, where it is near whether that load pays
)

// KneeSpent is what became of the budget.
type KneeSpent struct {
	BudgetS float64 `json:"budget_s"`
	LevelsS float64 `json:"levels_s"` // went into levels
	KeptS   float64 `json:"kept_s"`   // for the reference, and the look at half of it
}

// KneeMore is what more budget would buy; zero: nothing is wanted, or more of the same
// levels would not do.
type KneeMore struct {
	Levels int     `json:"levels"`
	TakesS float64 `json:"takes_s"`
	Within float64 `json:"within"` // half of the interval that they would leave, relative
}

// more says what it takes to know the knee well enough.
func (s *sweep) more() KneeMore {
	k, n := s.found.Knee, len(s.found.Levels)
	if !k.Found || k.Half() <= kneeSureEnough {
		return KneeMore{}
	}
	levels := max(k.MoreLevels(n, kneeSureEnough), fewestKneeLevels-n)
	if n+levels > mostKneeLevels {
		return KneeMore{}
	}
	each := episodeTakes(0, seconds(s.length(int(k.InFlight))))
	return KneeMore{Levels: levels, TakesS: (time.Duration(levels) * each).Seconds(), Within: kneeSureEnough}
}

// levels measures one level after the other until the knee is known well enough.
func (s *sweep) levels(ctx context.Context) error {
	s.found.Knee = judge.FindKnee(nil, &s.plan.Thresholds)
	next := s.plan.First * s.gpus()
	stuck, refused := "", false
	for {
		lasts := s.length(next)
		kept := referenceLoads * episodeTakes(0, seconds(s.referenceLasts(next)))
		spent := s.target.Now() - s.begun
		s.found.Spent = KneeSpent{BudgetS: s.plan.Budget.Seconds(), LevelsS: spent.Seconds(), KeptS: kept.Seconds()}
		if spent+episodeTakes(0, seconds(lasts)) > s.plan.Budget-kept {
			s.found.Ended = fmt.Sprintf("the budget of %v is spent: levels took %v, %v is kept for the reference (%d episodes and a look at half the load), and the next level takes %v",
				s.plan.Budget, spent.Round(time.Second), kept.Round(time.Second), referenceEpisodes, episodeTakes(0, seconds(lasts)).Round(time.Second))
			return nil
		}
		l, err := s.load(ctx, KneeStageLevel, next, lasts)
		if limit, ok := errors.AsType[*load.DescriptorLimit](err); ok {
			// What was measured below it stands, and may have the knee in it.
			if stuck = fmt.Sprintf("%v: %s", limit, limit.Hint()); refused || len(s.found.Levels) == 0 {
				s.found.Ended = stuck
				return nil
			}
			refused = true
			if next, s.found.Ended = s.next(stuck); s.found.Ended != "" {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		s.found.Levels = append(s.found.Levels, l)
		s.found.Knee = judge.FindKnee(s.found.Levels, &s.plan.Thresholds)
		s.follow.Measured(KneeStageLevel, s.found.Levels[len(s.found.Levels)-1], s.found.Knee)
		if stuck == "" {
			stuck = s.stuck()
		}
		if next, s.found.Ended = s.next(stuck); s.found.Ended != "" {
			return nil
		}
	}
}

// length is how long a level is loaded: its ramp, a lifetime of a request to
// settle, and then as long as was asked for or a few lifetimes. A lifetime at most
// doubles when the load does.
func (s *sweep) length(inFlight int) float64 {
	life := 0.0
	for i := range s.found.Levels {
		if l := &s.found.Levels[i]; l.LifetimeS != nil {
			life = max(life, *l.LifetimeS*min(1, float64(inFlight)/float64(l.InFlight)))
			if l.InFlight < inFlight && i == len(s.found.Levels)-1 {
				life = max(life, *l.LifetimeS*float64(inFlight)/float64(l.InFlight))
			}
		}
	}
	const lifetimes = 3
	return s.plan.Point.RampS + life + max(s.plan.LevelS, lifetimes*life)
}

// stuck says why no higher level is worth its cost, "" if one is.
func (s *sweep) stuck() string {
	all := s.found.Levels
	l := &all[len(all)-1]
	best := 0.0
	for i := range all {
		if x := all[i].Throughput.Value; x != nil && all[i].NotUsed == "" {
			best = max(best, *x)
		}
	}
	const (
		fell     = 0.85 // of the best, that is no scatter
		bearable = 15_000.0
	)
	switch {
	case l.Client:
		same := 0
		for i := range all {
			if all[i].InFlight == l.InFlight && all[i].Client {
				same++
			}
		}
		if same > 1 {
			return fmt.Sprintf("at %d in flight %s", l.InFlight, l.NotUsed)
		}
	case l.Sent > 0 && float64(l.Failed) > s.plan.Thresholds.ErrorShare*float64(l.Sent):
		return fmt.Sprintf("at %d in flight %s", l.InFlight,
			cmp.Or(l.NotUsed, fmt.Sprintf("%d of %d requests failed", l.Failed, l.Sent)))
	case l.TTFT99 != nil && *l.TTFT99 > bearable:
		return fmt.Sprintf("at %d in flight the p99 of the time to first token was %.0f s", l.InFlight, *l.TTFT99/1000)
	case l.Throughput.Value != nil && *l.Throughput.Value < fell*best && l.InFlight == highest(all):
		return fmt.Sprintf("at %d in flight throughput fell", l.InFlight)
	}
	return ""
}

func highest(all []judge.KneeLevel) int {
	n := 0
	for i := range all {
		n = max(n, all[i].InFlight)
	}
	return n
}

// next is the level to measure next, or why there is none.
func (s *sweep) next(stuck string) (inFlight int, ended string) {
	all, k, gpus := s.found.Levels, s.found.Knee, s.gpus()
	last := &all[len(all)-1]
	if last.NotUsed != "" && stuck == "" { // once more: it was too short, or somebody disturbed the client
		if same(all, last.InFlight) < 3 {
			return last.InFlight, ""
		}
		return 0, fmt.Sprintf("at %d in flight %s", last.InFlight, last.NotUsed)
	}
	top := highest(all)
	if !k.Found || kneePassed*k.InFlight > float64(top) {
		switch {
		case stuck != "" && !k.Found:
			if n := s.nearer(); n > 0 {
				return n, ""
			}
			return 0, stuck
		case stuck == "" && top >= s.plan.Most*gpus && !k.Found:
			return 0, fmt.Sprintf("%d in flight a GPU was the most to try", s.plan.Most)
		case stuck == "" && top < s.plan.Most*gpus:
			aim := 2 * top
			if k.Ahead > 0 {
				aim = max(top+top/4, min(aim, int(math.Ceil(kneeAim*k.Ahead))))
			}
			return wholeGPUs(min(aim, s.plan.Most*gpus), gpus), ""
		}
	}
	half := k.Half()
	switch {
	case len(all) >= mostKneeLevels:
		return 0, fmt.Sprintf("%d levels are enough", len(all))
	case len(all) >= fewestKneeLevels && half <= kneeSure || len(all) >= enoughKneeLevels && half <= kneeSureEnough:
		return 0, fmt.Sprintf("the knee is known within %.0f %%", 100*half)
	}
	return wholeGPUs(s.between(k), gpus), ""
}

// nearer is half way, as the levels go, from the highest that counts to the lowest
// above it that does not; 0 when they are near.
func (s *sweep) nearer() int {
	const near = 1.15
	counts, fails := 0, math.MaxInt
	for i := range s.found.Levels {
		if l := &s.found.Levels[i]; l.NotUsed == "" {
			counts = max(counts, l.InFlight)
		}
	}
	for i := range s.found.Levels {
		if l := &s.found.Levels[i]; l.NotUsed != "" && l.InFlight > counts {
			fails = min(fails, l.InFlight)
		}
	}
	if counts == 0 || fails == math.MaxInt || float64(fails) < near*float64(counts) {
		return 0
	}
	n := wholeGPUs(int(math.Sqrt(float64(counts)*float64(fails))), s.gpus())
	if n <= counts || n >= fails {
		return 0
	}
	return n
}

func same(all []judge.KneeLevel, inFlight int) int {
	n := 0
	for i := range all {
		if all[i].InFlight == inFlight {
			n++
		}
	}
	return n
}

// between is where the next level is put once the knee is somewhere: into the gap
// that holds it while that is wide, then into the widest that has room for a level.
func (s *sweep) between(k *judge.Knee) int {
	const wide = 1.2
	from := max(float64(s.gpus()), k.InFlight/kneeFrom)
	at := []float64{from}
	for i := range s.found.Levels {
		// One that was tried twice in vain is left alone.
		if l := &s.found.Levels[i]; float64(l.InFlight) > from && (l.NotUsed == "" || same(s.found.Levels, l.InFlight) > 1) {
			at = append(at, float64(l.InFlight))
		}
	}
	slices.Sort(at)
	best, width := 0, 0.0
	for i := 1; i < len(at); i++ {
		a, b := at[i-1], at[i]
		mid := wholeGPUs(int(math.Round(math.Sqrt(a*b))), s.gpus())
		if float64(mid) <= a || float64(mid) >= b { // GPUs carry the same: there is no level between the two
			continue
		}
		if a < k.InFlight && k.InFlight <= b && b > a*wide {
			return mid
		}
		if b/a > width {
			best, width = mid, b/a
		}
	}
	if best == 0 { // all that there are were measured: once more where it matters
		best = wholeGPUs(int(math.Round(k.InFlight)), s.gpus())
	}
	return best
}

// wholeGPUs has every GPU carry the same.
func wholeGPUs(n, gpus int) int { return max(1, (n+gpus/2)/gpus) * gpus }

// referenceLasts is how long an episode at a load is, its ramp included: as long as was
// asked for, or a lifetime to settle and three to measure. A fleet is a little faster
// while requests that began together end together, so that a reference is best of
// episodes as long as those that are held against it.
func (s *sweep) referenceLasts(inFlight int) float64 {
	life := 0.0
	for i := range s.found.Levels {
		if l := &s.found.Levels[i]; l.LifetimeS != nil && l.InFlight <= inFlight {
			life = max(life, *l.LifetimeS)
		}
	}
	return max(s.plan.ReferenceS, s.plan.Point.RampS+max(1, 4*life))
}

// affords says whether so many loads of a length still fit into the budget.
func (s *sweep) affords(loads int, lasts float64) bool {
	return s.target.Now()-s.begun+time.Duration(loads)*episodeTakes(0, seconds(lasts)) <= s.plan.Budget
}

// reference proposes a point and measures it. One at which a validation would find the
// load past the knee is given up for a lower one, as often as the budget allows.
func (s *sweep) reference(ctx context.Context) error {
	f := s.found
	f.Proposal = judge.ProposeBelow(f.Knee, f.Levels, s.gpus(), &s.plan.Thresholds)
	for f.Proposal != nil {
		lasts := s.referenceLasts(f.Proposal.InFlight)
		f.EpisodeS = lasts
		pays, err := s.measure(ctx, f.Proposal, lasts)
		if err != nil {
			return err
		}
		if pays {
			f.Proposal.Refer(f.Reference, s.plan.From, &s.plan.Thresholds)
			return nil
		}
		lower := f.Proposal.Lower(s.gpus())
		if lower == nil || !s.affords(referenceLoads, lasts) {
			f.Denied = f.Proposal.Denial(s.plan.Thresholds.Elasticity)
			if lower != nil {
				f.Denied += fmt.Sprintf("; to measure a lower point takes %v more than the budget", (referenceLoads * episodeTakes(0, seconds(lasts))).Round(time.Second))
			}
			return nil
		}
		f.Proposal = lower
	}
	return nil
}

// measure measures a point as often as a dispersion needs, and half of it as a
// validation does, until it is clear whether that load pays.
func (s *sweep) measure(ctx context.Context, p *judge.KneeProposal, lasts float64) (pays bool, err error) {
	f, least := s.found, s.plan.Thresholds.Elasticity
	f.Looks, f.Reference = nil, nil
	half := p.InFlight / s.gpus() / 2 * s.gpus()
	look := func() error {
		if half == 0 || len(f.Looks) == mostLooks || len(f.Looks) > 0 && !s.affords(1, lasts) {
			return nil
		}
		l, err := s.load(ctx, KneeStageLook, half, lasts)
		if err == nil {
			f.Looks = append(f.Looks, l)
			s.follow.Measured(KneeStageLook, l, f.Knee)
		}
		return err
	}
	if err := look(); err != nil {
		return false, err
	}
	for good, bad := 0, 0; good < referenceEpisodes && bad <= s.plan.Thresholds.MaxRetries; {
		l, err := s.load(ctx, KneeStageReference, p.InFlight, lasts)
		if err != nil {
			return false, err
		}
		f.Reference = append(f.Reference, l)
		if l.NotUsed == "" {
			good++
		} else {
			bad++
		}
		s.follow.Measured(KneeStageReference, l, f.Knee)
		if l.Full(f.Levels) {
			p.Waiting = l.Waiting
			return false, nil
		}
		if d := p.Measure(f.Looks, f.Reference, &s.plan.Thresholds); d.Past(least) {
			p.Doubling = &d
			return false, nil
		}
	}
	for {
		d := p.Measure(f.Looks, f.Reference, &s.plan.Thresholds)
		if math.IsNaN(d.Elasticity) {
			return true, nil // there is no half of it, or nothing counts, which is told elsewhere
		}
		p.Doubling = &d
		before := len(f.Looks)
		if d.Near(least) {
			if err := look(); err != nil {
				return false, err
			}
		}
		if len(f.Looks) == before {
			return d.Pays(least), nil
		}
	}
}

// load loads the target once, with the sentinel that a validation at that load has: the
// one at half of a load has that of the whole.
func (s *sweep) load(ctx context.Context, stage string, inFlight int, lasts float64) (judge.KneeLevel, error) {
	point := s.plan.Point
	point.Workers, point.Concurrency, point.DurationS = s.found.GPUs, inFlight, lasts
	point.SentinelRate = s.plan.sentinel(inFlight)
	if stage == KneeStageLook {
		point.SentinelRate = s.plan.sentinel(s.found.Proposal.InFlight)
	}
	s.follow.Loading(stage, inFlight, lasts)
	s.loads++
	r, err := s.target.Load(ctx, s.loads, point)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return judge.KneeLevel{}, err
	}
	return judge.KneeLevelOf(r, &s.plan.Thresholds), nil
}
