package cli

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/spec"
)

// A knee, and then a validation of the same healthy fleet, read 1.00: what a reference is
// of is what is held against it, with short answers and with long ones, of which many of
// the sentinel's are in flight at a time, or which outlast an episode.
func TestAValidationReadsWhatItsKneeMeasured(t *testing.T) {
	for _, c := range []struct {
		workers, output, seeds int
		lasts                  float64
	}{{2, 64, 100, 50}, {2, 512, 20, 80}, {4, 128, 20, 50}, {8, 128, 10, 50}, {2, 1600, 10, 50}} {
		t.Run(fmt.Sprintf("%d workers, %d tokens", c.workers, c.output), func(t *testing.T) {
			type reading struct{ ratio, low, high float64 }
			all := make([]reading, c.seeds)
			var seeds sync.WaitGroup
			room := make(chan struct{}, 4)
			for i := range all {
				room <- struct{}{}
				seeds.Go(func() {
					defer func() { <-room }()
					all[i].ratio, all[i].low, all[i].high = kneeThenValidate(t, uint64(i+1), c.workers, c.output, c.lasts)
				})
			}
			seeds.Wait()
			sum, within := 0.0, 0
			for seed, r := range all {
				sum += math.Log(r.ratio)
				if r.low <= 1 && 1 <= r.high {
					within++
				}
				if math.Abs(r.ratio-1) > 0.05 {
					t.Errorf("seed %d: %.3f of the reference", seed+1, r.ratio)
				}
			}
			// 95 % of the intervals hold it, but for chance.
			mean := math.Exp(sum / float64(c.seeds))
			if least := int(0.85 * float64(c.seeds)); math.Abs(mean-1) > 0.005 || within < least {
				t.Errorf("%.4f of the reference on average; 1.00 is within the interval of %d of %d seeds, want %d", mean, within, c.seeds, least)
			}
			t.Logf("%.4f of the reference on average; within the interval %d of %d times", mean, within, c.seeds)
		})
	}
}

// kneeThenValidate finds a fleet's knee, and validates the fleet at the point and against
// the reference that were proposed. The interval is that of both.
func kneeThenValidate(t *testing.T, seed uint64, workers, output int, lasts float64) (ratio, low, high float64) {
	s, err := readScenario(t.Context().Done(), "small")
	if err != nil {
		t.Error(err)
		return
	}
	scenario := *s.Scenario
	scenario.Fleet.Workers = workers
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	th.BootstrapDraws = 100
	point := spec.OperatingPoint{Workers: workers, RampS: 2, InputTokens: 64, OutputTokens: output, Prompts: "unique"}
	plan := &checks.KneePlan{Point: point, Thresholds: th, First: 8, Most: 256, LevelS: 10, ReferenceS: lasts, Budget: 3 * time.Hour, From: "a test"}
	found, err := checks.FindKnee(t.Context(), plan, &virtualFleet{scenario: &scenario, seed: seed}, unseenKnee{})
	if err != nil || found.Proposal == nil || found.Proposal.Reference == nil {
		t.Errorf("seed %d: no reference: %v; %s; %s", seed, err, found.Ended, found.Denied)
		return
	}
	p := found.Proposal
	point.Concurrency, point.DurationS, point.SentinelRate = p.InFlight, found.EpisodeS, checks.SentinelFor(p.InFlight, output)
	validation := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileStandard, Stability: spec.StabilityGate, Point: point, Thresholds: th, Seed: seed,
		Reference: p.Reference, Half: halfOf(point), Constraints: []spec.Constraint{}}
	v, err := checks.Run(t.Context(), validation, &virtualFleet{scenario: &scenario, seed: seed + 1000}, unkept{}, nobody{})
	if err != nil || v.Verdict != spec.Pass {
		t.Errorf("seed %d: %v, %s: %s", seed, err, v.Verdict, v.Reason)
		return
	}
	for _, f := range v.Findings {
		if f.ID == "load/past-knee" {
			t.Errorf("seed %d: at what was proposed: %s", seed, f.Summary)
		}
	}
	for _, e := range v.Expectations {
		if e.Name == ratioExpected {
			ratio = *e.Value
			half := math.Hypot((*e.High-*e.Low)/2, (p.High-p.Low)/2/p.Reference.Throughput)
			return ratio, ratio - half, ratio + half
		}
	}
	t.Errorf("seed %d: it was held against nothing", seed)
	return
}

// The sentinel is part of a load, and of half of it: a load of four in flight is not
// past the knee for the tokens that the sentinel adds to both.
func TestTheSentinelPutsNoSmallLoadPastTheKnee(t *testing.T) {
	s, err := readScenario(t.Context().Done(), "small")
	if err != nil {
		t.Fatal(err)
	}
	th, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	for _, inFlight := range []int{4, 8} { // at 2 both workers have one, and there is no half
		for seed := range uint64(10) {
			point := spec.OperatingPoint{Workers: 2, Concurrency: inFlight, RampS: 2, DurationS: th.EpisodeS, InputTokens: 64, OutputTokens: 128,
				Prompts: "unique", SentinelRate: checks.SentinelFor(inFlight, 128)}
			plan := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Stability: spec.StabilityReport, Point: point, Thresholds: th, Seed: seed + 1, Half: halfOf(point),
				Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 1, Unit: "tokens/s"}}}
			v, err := checks.Run(t.Context(), plan, &virtualFleet{scenario: s.Scenario, seed: seed + 1}, unkept{}, nobody{})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(v.Figures, func(f spec.Figure) bool { return f.Name == "elasticity" })
			if at < 0 || *v.Figures[at].Value < 0.8 {
				t.Errorf("%d in flight, seed %d: %s: %+v", inFlight, seed+1, v.Reason, v.Notes)
			}
		}
	}
}

type unseenKnee struct{}

func (unseenKnee) Loading(string, int, float64)                  {}
func (unseenKnee) Measured(string, judge.KneeLevel, *judge.Knee) {}

type unkept struct{}

func (unkept) Event(spec.Event) error            { return nil }
func (unkept) Episode(*spec.EpisodeRecord) error { return nil }

// What is printed of an episode while a run goes on is what the verdict rests on, under
// the same name.
func TestProgressPrintsTheFigureThatIsJudged(t *testing.T) {
	s, err := readScenario(t.Context().Done(), "small")
	if err != nil {
		t.Fatal(err)
	}
	seen := &seenEpisodes{}
	th, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	point := spec.OperatingPoint{Workers: 2, Concurrency: 8, RampS: 1, DurationS: 15, InputTokens: 64, OutputTokens: 64, Prompts: "unique", SentinelRate: 0.5}
	plan := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Stability: spec.StabilityReport, Point: point, Thresholds: th, Constraints: []spec.Constraint{}, Half: halfOf(point)}
	v, err := checks.Run(t.Context(), plan, &virtualFleet{scenario: s.Scenario, seed: 1}, unkept{}, seen)
	if err != nil || len(v.Parts) == 0 || len(seen.all) != len(v.Parts)+1 {
		t.Fatalf("%d episodes were seen, %d are in the verdict: %v", len(seen.all), len(v.Parts), err)
	}
	mean := 0.0
	for i, p := range v.Parts {
		e := seen.all[i+1]
		if e.Figures[0].Name != judge.Throughput || *e.Figures[0].Mean != *p.Throughput || e.Figures[1].Name != judge.GrossThroughput || *e.Figures[1].Mean != *p.Gross {
			t.Errorf("episode %d: %+v was told, and the verdict has %v, gross %v", e.Number, e.Figures[:2], *p.Throughput, *p.Gross)
		}
		mean += *p.Throughput / float64(len(v.Parts))
	}
	for _, f := range v.Figures {
		if f.Name == judge.Throughput && math.Abs(*f.Value/mean-1) > 1e-9 {
			t.Errorf("the verdict's throughput is %v, and its episodes' mean %v", *f.Value, mean)
		}
	}
}

type seenEpisodes struct {
	nobody
	all []*spec.Episode
}

func (s *seenEpisodes) Episode(e *spec.Episode) { s.all = append(s.all, e) }
