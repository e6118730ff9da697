package checks

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/spec"
)

// bentFleet is a target that is a formula: n in flight make n/(base+slope·n) tokens
// a second, whatever else.
type bentFleet struct {
	base, slope float64
	tokens      int // of an answer
	notReady    string
	workers     int                     // that it tells of
	holds       int                     // the most that the client can hold; 0: any
	files       int                     // the most connections that the client may open; 0: any
	fails       func(inFlight int) bool // a tenth of the requests
	admits      int                     // the most that its two engines take at once, by their pages; 0: they have none
	before      func(number int)        // told of each load
	clock       time.Duration
	points      []spec.OperatingPoint
}

func (f *bentFleet) throughput(n float64) float64 { return n / (f.base + f.slope*n) }

func (f *bentFleet) Start(_ context.Context, tell func(spec.Event) error) (bool, error) {
	if f.workers > 0 {
		if err := tell(spec.Event{Kind: spec.EventWorkers, Have: &f.workers}); err != nil {
			return false, err
		}
	}
	if f.notReady != "" {
		return false, tell(spec.Event{Kind: spec.EventNotServed, Text: f.notReady})
	}
	f.clock = time.Minute // a start is no load
	return true, nil
}

func (f *bentFleet) Now() time.Duration { return f.clock }

func (f *bentFleet) Load(ctx context.Context, number int, p spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	f.points = append(f.points, p)
	if f.before != nil {
		f.before(number)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	users := p.Concurrency
	if f.files > 0 && users > f.files {
		return nil, &load.DescriptorLimit{InFlight: users, Need: uint64(users) + 64, Limit: uint64(f.files) + 64}
	}
	r := &spec.EpisodeRecord{Episode: spec.Episode{Number: number, Point: p, LoadedS: p.DurationS, Client: spec.BenchClient{Valid: true}}}
	if f.holds > 0 && users > f.holds {
		users = f.holds
		r.Episode.Client = spec.BenchClient{Reasons: []spec.BenchReason{{Text: "held too few"}}}
	}
	held := float64(users)
	r.Episode.Client.InFlight = &held
	life := held * float64(f.tokens) / f.throughput(held)
	for u := range users {
		for at, n := p.RampS*float64(u)/held+life*float64(u)/held-life, 0; at < p.DurationS; at, n = at+life, n+1 {
			if at < 0 {
				continue
			}
			q := spec.Request{Lane: "closed", Sent: int64(at * 1e9), First: int64(at*1e9) + 1, Last: int64((at + life) * 1e9), End: int64((at + life) * 1e9), Tokens: f.tokens, Class: "ok"}
			if f.fails != nil && f.fails(p.Concurrency) && (u+n)%10 == 0 {
				q.Class = "http-status"
			}
			r.Requests = append(r.Requests, q)
		}
	}
	for s := 0; f.admits > 0 && s < int(p.DurationS); s++ {
		for _, name := range []string{"a", "b"} {
			running, waiting := float64(min(users, f.admits))/2, float64(max(0, users-f.admits))/2
			r.Series = append(r.Series, spec.Sample{T: int64(s) * 1e9, Source: spec.SourceWorker, Name: name, Worker: &spec.WorkerSample{Running: &running, Waiting: &waiting}})
		}
	}
	f.clock += seconds(p.DurationS + life)
	return r, nil
}

// knee is where the fleet's last doubling has an elasticity of 0.55.
func (f *bentFleet) knee() float64 {
	q := math.Pow(2, -0.45)
	return f.base / f.slope * (1 - q) / (q - 0.5)
}

// followedKnee is somebody who follows a search.
type followedKnee struct{ loading, measured []string }

func (f *followedKnee) Loading(stage string, _ int, _ float64) { f.loading = append(f.loading, stage) }
func (f *followedKnee) Measured(stage string, _ judge.KneeLevel, _ *judge.Knee) {
	f.measured = append(f.measured, stage)
}

func kneePlan(workers int) *KneePlan {
	t, _ := spec.DefaultThresholds(spec.ProfileStandard)
	return &KneePlan{Point: spec.OperatingPoint{Workers: workers, RampS: 1, InputTokens: 16, OutputTokens: 16, SentinelRate: 10}, Thresholds: t,
		First: 4, Most: 256, LevelS: 6, ReferenceS: 10, Budget: 10 * time.Minute, From: "a test", OwnSentinel: true}
}

func bent() *bentFleet { return &bentFleet{base: 1e-2, slope: 1e-4, tokens: 16} } // 1 % of its knee is 1.15 in flight

func TestASweepFindsTheKneeAndMeasuresBelowIt(t *testing.T) {
	fleet, follow := bent(), &followedKnee{}
	found, err := FindKnee(t.Context(), kneePlan(2), fleet, follow)
	if err != nil {
		t.Fatal(err)
	}
	k := found.Knee
	if !k.Found || math.Abs(k.InFlight/fleet.knee()-1) > 0.03 {
		t.Fatalf("knee %v at %.1f, want %.1f: %s", k.Found, k.InFlight, fleet.knee(), k.Reason)
	}
	highest, rising := 0, []int{}
	for i, l := range found.Levels {
		highest = max(highest, l.InFlight)
		if i < 5 {
			rising = append(rising, l.InFlight)
		}
		if l.InFlight%2 != 0 {
			t.Errorf("level %d gives two GPUs different loads", l.InFlight)
		}
		if sentinel := fleet.points[i].SentinelRate; sentinel != kneePlan(2).sentinel(l.InFlight) || sentinel <= 0 {
			t.Errorf("level %d has a sentinel of %v a second", l.InFlight, sentinel)
		}
	}
	if diff := cmp.Diff([]int{8, 16, 32, 64, 128}, rising); diff != "" {
		t.Error(diff)
	}
	if h := float64(highest); h < 1.15*k.InFlight || h > 2*k.InFlight {
		t.Errorf("the highest level is %d: not beyond the knee of %.0f, or further than it has to be", highest, k.InFlight)
	}
	p := found.Proposal
	if p == nil || p.Reference == nil || p.InFlight >= int(k.InFlight) || p.Reference.N != referenceEpisodes || len(found.Reference) != referenceEpisodes {
		t.Fatalf("proposal %+v after %d episodes", p, len(found.Reference))
	}
	if want := fleet.throughput(float64(p.InFlight)); math.Abs(p.Reference.Throughput/want-1) > 0.02 {
		t.Errorf("reference %.0f, want %.0f", p.Reference.Throughput, want)
	}
	sentinel := kneePlan(2).sentinel(p.InFlight)
	for i, point := range fleet.points[len(found.Levels):] {
		want := p.InFlight
		if i == 0 { // the look at half of it
			want = p.PerGPU / 2 * 2
		}
		if point.Concurrency != want || point.SentinelRate != sentinel {
			t.Errorf("load %d of the reference has %d in flight and a sentinel of %v", i, point.Concurrency, point.SentinelRate)
		}
	}
	if d := p.Doubling; d == nil || !d.Pays(0.55) || d.Past(0.55) {
		t.Errorf("the doubling that was measured there: %+v", d)
	}
	if n := len(found.Levels) + len(found.Looks) + len(found.Reference); len(follow.loading) != n || len(follow.measured) != n || found.Took != fleet.clock-time.Minute {
		t.Errorf("%d loads, %d begun, %d measured, %v of %v", n, len(follow.loading), len(follow.measured), found.Took, fleet.clock)
	}
}

func TestASweepEndsWhereMoreLoadWouldTellNothing(t *testing.T) {
	straight := &bentFleet{base: 1e-2, slope: 0, tokens: 16}
	limited := bent()
	limited.holds = 40
	failing := bent()
	failing.fails = func(n int) bool { return n >= 32 }
	for name, test := range map[string]struct {
		fleet   *bentFleet
		ended   string
		highest int // that may be loaded
		client  bool
	}{
		"the bound is reached":    {straight, "the most to try", 512, false},
		"the client is the limit": {limited, "the client was the limit", 64, true},
		"requests fail":           {failing, "requests failed", 32, false},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := FindKnee(t.Context(), kneePlan(2), test.fleet, &followedKnee{})
			if err != nil {
				t.Fatal(err)
			}
			if found.Knee.Found || found.Proposal != nil || found.Knee.ClientLimited != test.client || !strings.Contains(found.Ended, test.ended) {
				t.Errorf("found %v at %.0f, client %v, ended %q", found.Knee.Found, found.Knee.InFlight, found.Knee.ClientLimited, found.Ended)
			}
			if h := highest(found.Levels); h != test.highest {
				t.Errorf("loaded up to %d, want %d", h, test.highest)
			}
		})
	}
}

// Beyond the knee the client's limit does no harm.
func TestAKneeBelowTheClientsLimitStands(t *testing.T) {
	fleet := bent()
	fleet.holds = int(1.3 * fleet.knee())
	found, err := FindKnee(t.Context(), kneePlan(2), fleet, &followedKnee{})
	if err != nil || !found.Knee.Found || math.Abs(found.Knee.InFlight/fleet.knee()-1) > 0.05 || found.Proposal.Reference == nil {
		t.Errorf("knee %+v, proposal %+v: %v", found.Knee, found.Proposal, err)
	}
}

func TestASweepKeepsItsBudget(t *testing.T) {
	plan := kneePlan(2)
	least := KneeAtLeast(seconds(plan.Point.RampS), seconds(plan.LevelS), seconds(plan.ReferenceS))
	for _, budget := range []time.Duration{100 * time.Second, 2 * time.Minute, least, 5 * time.Minute} {
		fleet, plan := bent(), kneePlan(2)
		plan.Budget = budget
		found, err := FindKnee(t.Context(), plan, fleet, &followedKnee{})
		if err != nil {
			t.Fatal(err)
		}
		if found.Took > budget {
			t.Errorf("%v of load with a budget of %v", found.Took, budget)
		}
		if len(found.Levels) == 0 {
			t.Errorf("nothing was measured with a budget of %v", budget)
		}
		if known := found.Proposal != nil && found.Proposal.Reference != nil; budget >= least && !known {
			t.Errorf("no reference with a budget of %v, and %v is the least: %s", budget, least, found.Ended)
		}
		if budget < least && (!strings.Contains(found.Ended, "is kept for the reference (5 episodes and a look at half the load)") || found.Spent.KeptS < 78 || found.Spent.LevelsS <= 0) {
			t.Errorf("it does not say what the budget of %v went into: %q, %+v", budget, found.Ended, found.Spent)
		}
	}
}

// stepped is a fleet whose engines compute a batch as large as the next of some sizes, as
// CUDA graphs do: throughput falls by a step where a batch is one larger than a size.
type stepped struct {
	bentFleet
	sizes   []int   // of batches
	scatter float64 // ln-sd of a load
	rng     *rand.Rand
}

func (f *stepped) throughputOf(n float64) float64 {
	batch := n / float64(f.workers)
	padded := batch
	for _, size := range f.sizes {
		if padded = float64(size); padded >= batch {
			break
		}
	}
	return n / (f.base + f.slope*max(padded, batch)*float64(f.workers)) * math.Exp(f.scatter*f.rng.NormFloat64())
}

func (f *stepped) Load(ctx context.Context, number int, p spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	flat := f.bentFleet // the formula of one load
	flat.base, flat.slope = float64(p.Concurrency)/f.throughputOf(float64(p.Concurrency)), 0
	flat.points = nil
	r, err := flat.Load(ctx, number, p)
	f.clock = flat.clock
	return r, err
}

// cudaGraphs are the batches that vLLM captures: 1, 2, 4, and every eighth.
func cudaGraphs(most int) []int {
	all := []int{1, 2, 4}
	for n := 8; n <= most; n += 8 {
		all = append(all, n)
	}
	return all
}

// A point that is proposed is not past the knee by the validation that follows, whatever
// the shape of the fleet: both use one criterion, and the proposal is held to it.
func TestWhatIsProposedIsNeverCalledPastTheKnee(t *testing.T) {
	proposed := 0
	for name, fleet := range map[string]stepped{
		"smooth":                {bentFleet: bentFleet{base: 1e-2, slope: 1e-4}, sizes: []int{}},
		"CUDA graphs":           {bentFleet: bentFleet{base: 1e-2, slope: 1e-4}, sizes: cudaGraphs(512)},
		"CUDA graphs, steep":    {bentFleet: bentFleet{base: 4e-3, slope: 1e-4}, sizes: cudaGraphs(512)},
		"few sizes":             {bentFleet: bentFleet{base: 1e-2, slope: 1e-4}, sizes: []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}},
		"few sizes, and steep":  {bentFleet: bentFleet{base: 4e-3, slope: 1e-4}, sizes: []int{1, 2, 4, 8, 16, 24, 48, 96, 192, 384}},
		"very few, and scatter": {bentFleet: bentFleet{base: 1e-2, slope: 1e-4}, sizes: []int{4, 16, 40, 100, 250}},
	} {
		for seed := range uint64(12) {
			for _, scatter := range []float64{0, 0.01, 0.03} {
				fleet := fleet
				fleet.workers, fleet.tokens, fleet.scatter, fleet.rng = 4, 16, scatter, rand.New(rand.NewPCG(seed, 1))
				plan := kneePlan(4)
				plan.OwnSentinel, plan.Budget = false, 15*time.Minute
				found, err := FindKnee(t.Context(), plan, &fleet, &followedKnee{})
				if err != nil {
					t.Fatal(err)
				}
				if found.Proposal == nil || found.Proposal.Reference == nil {
					continue
				}
				proposed++
				if note := pastKneeAt(t, &fleet, plan, found.Proposal); note != "" {
					t.Errorf("%s, seed %d, scatter %.2f: proposed %d a GPU (%+v), and a validation says %s", name, seed, scatter, found.Proposal.PerGPU, found.Proposal.Doubling, note)
				}
			}
		}
	}
	if proposed < 160 {
		t.Errorf("%d of 216 searches ended in a proposal", proposed)
	}
}

// pastKneeAt is what a validation at the proposed point, against its reference, says of
// the knee: a look at half of it, and two episodes.
func pastKneeAt(t *testing.T, fleet *stepped, k *KneePlan, p *judge.KneeProposal) string {
	t.Helper()
	th := k.Thresholds
	th.BootstrapDraws = 100
	plan := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileStandard, Thresholds: th, Point: k.Point, Reference: p.Reference, Constraints: []spec.Constraint{}}
	plan.Point.Concurrency, plan.Point.DurationS = p.InFlight, 22
	half := plan.Point
	half.Concurrency, half.DurationS = p.PerGPU/2*fleet.workers, 20
	var episodes []*spec.EpisodeRecord
	for number, point := range []spec.OperatingPoint{half, plan.Point, plan.Point} {
		r, err := fleet.Load(t.Context(), number, point)
		if err != nil {
			t.Fatal(err)
		}
		episodes = append(episodes, r)
	}
	for _, f := range judge.Judge(plan, nil, episodes...).Findings {
		if f.ID == "load/past-knee" {
			return f.Summary
		}
	}
	return ""
}

// Three GPUs that carry the same leave no level between some that were measured: such a
// gap is not looked into again and again.
func TestAGapWithoutALevelIsLeftAlone(t *testing.T) {
	fleet, plan := &bentFleet{base: 1e-2, slope: 4e-4, tokens: 16}, kneePlan(3)
	plan.First = 2
	found, err := FindKnee(t.Context(), plan, fleet, &followedKnee{})
	if err != nil {
		t.Fatal(err)
	}
	times := map[int]int{}
	for _, l := range found.Levels {
		if times[l.InFlight]++; times[l.InFlight] > 2 && math.Abs(float64(l.InFlight)/found.Knee.InFlight-1) > 0.2 {
			t.Errorf("%d in flight was measured %d times, and the knee is at %.0f", l.InFlight, times[l.InFlight], found.Knee.InFlight)
		}
	}
}

func TestAnInterruptedSweepKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("somebody went")
	fleet := bent()
	fleet.before = func(number int) {
		if number == 4 {
			cancel(gone)
		}
	}
	found, err := FindKnee(ctx, kneePlan(2), fleet, &followedKnee{})
	if !errors.Is(err, gone) || len(found.Levels) != 3 || found.Knee == nil || found.Proposal != nil {
		t.Errorf("%d levels, proposal %v: %v", len(found.Levels), found.Proposal, err)
	}
}

// What was measured stands where the next level takes more files than the process may open.
func TestASweepEndsBelowTheLimitOfOpenFiles(t *testing.T) {
	for files, want := range map[int]struct {
		levels int // at least
		knee   bool
		ended  string
	}{
		4:   {0, false, "ulimit -n 72"},
		40:  {3, false, "ulimit -n 128"},
		200: {6, true, ""},
	} {
		fleet := bent()
		fleet.files = files
		found, err := FindKnee(t.Context(), kneePlan(2), fleet, &followedKnee{})
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Levels) < want.levels || found.Knee.Found != want.knee || !strings.Contains(found.Ended, want.ended) {
			t.Errorf("%d files: %d levels, knee %v: %s", files, len(found.Levels), found.Knee.Found, found.Ended)
		}
	}
}

func TestATargetThatCannotBeLoadedIsNot(t *testing.T) {
	fleet := bent()
	fleet.notReady = "no worker answered"
	found, err := FindKnee(t.Context(), kneePlan(2), fleet, &followedKnee{})
	if err != nil || found.NotReady != "no worker answered" || len(fleet.points) != 0 || found.Knee != nil {
		t.Errorf("not ready: %q after %d loads: %v", found.NotReady, len(fleet.points), err)
	}
}

func TestALevelThatWasTooShortIsRepeatedLonger(t *testing.T) {
	fleet := &bentFleet{base: 2e-2, slope: 2e-4, tokens: 400} // a request takes 8 s and more
	plan := kneePlan(2)
	plan.Point.OutputTokens = fleet.tokens
	found, err := FindKnee(t.Context(), plan, fleet, &followedKnee{})
	if err != nil || len(found.Levels) < 2 {
		t.Fatalf("%d levels: %v", len(found.Levels), err)
	}
	if first, again := found.Levels[0], found.Levels[1]; first.NotUsed == "" || again.NotUsed != "" || again.InFlight != first.InFlight {
		t.Errorf("first %d in flight (%q), then %d (%q)", first.InFlight, first.NotUsed, again.InFlight, again.NotUsed)
	}
}

func TestWorkersThatNobodyNamedAreCounted(t *testing.T) {
	for said, want := range map[int]int{0: 3, 2: 2} {
		fleet := bent()
		fleet.workers = 3
		found, err := FindKnee(t.Context(), kneePlan(said), fleet, &followedKnee{})
		if err != nil || found.GPUs != want || found.Levels[0].InFlight != 4*want {
			t.Errorf("%d workers were said and 3 answered: %d GPUs, first level %d: %v", said, found.GPUs, found.Levels[0].InFlight, err)
		}
	}
}

func TestTheCostOfASweepIsWithinItsBudget(t *testing.T) {
	plan := kneePlan(2)
	c := plan.Cost()
	want := KneeCost{Rising: []int{4, 8, 16, 32, 64, 128, 256}, ExpectedLevels: 16, ReferenceEpisodes: 5,
		KeptS:     6 * 13,
		ExpectedS: 16*10 + 6*13, WorstS: 600 + 2*13, ExpectedGPUMinutes: 238.0 / 60 * 2, WorstGPUMinutes: 626.0 / 60 * 2}
	if diff := cmp.Diff(want, c, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
		t.Error(diff)
	}
}

// A reference of tokens that were never sent would make every honest fleet look slow.
func TestALevelOfImpossibleTokensIsNotUsed(t *testing.T) {
	fleet := bent()
	fleet.tokens = 160 // where 16 are asked for
	found, err := FindKnee(t.Context(), kneePlan(2), fleet, &followedKnee{})
	if err != nil || found.Proposal != nil || len(found.Levels) == 0 {
		t.Fatalf("%d levels, proposal %v: %v", len(found.Levels), found.Proposal, err)
	}
	for _, l := range found.Levels {
		if !strings.Contains(l.NotUsed, "counts tokens that it did not send") || l.Client {
			t.Errorf("%d in flight: %q, by the client's doing: %t", l.InFlight, l.NotUsed, l.Client)
		}
	}
}

// sagging is a fleet that makes less at one load, in the episodes of a reference, than its
// levels showed.
type sagging struct {
	bentFleet
	at    int
	lasts float64
}

func (f *sagging) Load(ctx context.Context, number int, p spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	flat := f.bentFleet // the formula of one load
	if p.Concurrency == f.at && p.DurationS == f.lasts {
		const sag = 0.95
		flat.base, flat.slope = float64(p.Concurrency)/(sag*f.throughput(float64(p.Concurrency))), 0
	}
	r, err := flat.Load(ctx, number, p)
	f.clock = flat.clock
	return r, err
}

// A proposal is held to what was measured there: where the doubling does not pay, a lower
// one is measured, though a validation would not call the load past the knee yet.
func TestAProposalThatDoesNotPayIsGivenUpForALowerOne(t *testing.T) {
	plan := kneePlan(2)
	plan.ReferenceS, plan.Budget = 33, time.Hour
	first, err := FindKnee(t.Context(), plan, bent(), &followedKnee{})
	if err != nil || first.Proposal == nil || first.Proposal.Reference == nil {
		t.Fatalf("no proposal: %v", err)
	}
	at := first.Proposal.InFlight
	found, err := FindKnee(t.Context(), plan, &sagging{bentFleet: *bent(), at: at, lasts: plan.ReferenceS}, &followedKnee{})
	if err != nil || found.Proposal == nil || found.Proposal.Reference == nil {
		t.Fatalf("no proposal: %v, %+v", err, found)
	}
	if p := found.Proposal; p.InFlight >= at || !p.Doubling.Pays(plan.Thresholds.Elasticity) || p.Doubling.Elasticity < plan.Thresholds.Elasticity {
		t.Errorf("proposed %d of %d, where a doubling brings 2^%.2f", p.InFlight, at, p.Doubling.Elasticity)
	}
}

// What the engines take at once bounds what is proposed, wherever the curve bends: by the
// levels, or by what was measured at the point itself.
func TestNothingIsProposedWhereRequestsAlwaysWait(t *testing.T) {
	free, err := FindKnee(t.Context(), kneePlan(2), bent(), &followedKnee{})
	if err != nil || free.Proposal == nil || free.Levels[0].Waiting != nil {
		t.Fatalf("%v: %+v", err, free)
	}
	for name, c := range map[string]struct {
		admits, then int // by the pages of the levels, and of what comes after them
		why          string
	}{
		"far below the knee":      {20, 20, "requests always wait in the engines' queues: the engines take no more at once"},
		"just below the proposal": {free.Proposal.InFlight * 9 / 10, free.Proposal.InFlight * 9 / 10, "requests always wait"},
		"at the proposal alone":   {0, free.Proposal.InFlight * 9 / 10, "a GPU requests always waited in the engines' queues"},
		"far above":               {500, 500, free.Proposal.Why},
		"at every level":          {1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fleet, plan := bent(), kneePlan(2)
			fleet.admits, plan.Budget = c.admits, 30*time.Minute
			fleet.before = func(number int) {
				if number > len(free.Levels) {
					fleet.admits = c.then
				}
			}
			found, err := FindKnee(t.Context(), plan, fleet, &followedKnee{})
			if err != nil {
				t.Fatal(err)
			}
			p := found.Proposal
			if c.why == "" {
				if p != nil {
					t.Errorf("proposes %d: %s", p.InFlight, p.Why)
				}
				return
			}
			if p == nil || p.Reference == nil || !strings.Contains(p.Why, c.why) {
				t.Fatalf("proposal %+v, denied %q", p, found.Denied)
			}
			if waiting := p.InFlight - c.then; float64(waiting) >= 0.05*float64(p.InFlight) {
				t.Errorf("proposes %d, of which %d wait: %s", p.InFlight, waiting, p.Why)
			}
		})
	}
}
