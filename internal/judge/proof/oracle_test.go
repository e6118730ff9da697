package proof

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

// planOf is the plan of a scenario, as aicr sim play makes it.
func planOf(t *testing.T, s *spec.Scenario, profile string) *spec.Plan {
	t.Helper()
	th, ok := spec.DefaultThresholds(profile)
	if !ok {
		t.Fatalf("no profile %s", profile)
	}
	l := &s.Load
	th.MaxEpisodes = int(float64(th.MaxEpisodes)*th.EpisodeS/l.Episode.D().Seconds() + 0.999)
	th.EpisodeS = l.Episode.D().Seconds()
	c := l.ConcurrencyPerGPU * s.Fleet.Workers
	p := &spec.Plan{Schema: spec.PlanSchema, Profile: profile, Thresholds: th, Stability: spec.StabilityGate, Seed: 1,
		Point: spec.OperatingPoint{Workers: s.Fleet.Workers, Concurrency: c, RampS: l.Ramp.D().Seconds(), DurationS: th.EpisodeS,
			InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, Prompts: l.Prompts.String(), Router: s.Fleet.Router},
		Half: &spec.HalfLook{Concurrency: max(1, c/2), DurationS: min(20, th.EpisodeS)}}
	ref := s.Reference.Throughput
	if ref == 0 {
		r, err := sim.Play(context.Background(), sim.Healthy(s), 1, 1, sim.Load{})
		if err != nil {
			t.Fatal(err)
		}
		e := judge.Summarize(&judge.Record{Point: r.Point, Requests: r.Requests})
		ref = *e.Figures[0].Mean
	}
	p.Reference = &spec.ReferenceFigure{Throughput: ref, From: "the simulator"}
	return p
}

func recordOf(number int, r *sim.Recording) *spec.EpisodeRecord {
	e := judge.Summarize(&judge.Record{Number: number, Point: r.Point, Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"})
	return &spec.EpisodeRecord{Episode: *e, Requests: r.Requests, Series: r.Series}
}

// playCase plays a scenario until it is decided.
func playCase(t *testing.T, s *spec.Scenario, seed uint64, profile string) *spec.Verdict {
	t.Helper()
	ctx := context.Background()
	plan := planOf(t, s, profile)
	c := judge.NewCase(plan)
	events, ready := sim.Start(s, seed)
	c.Hear(events...)
	if !ready {
		v, next := c.Verdict()
		if next != nil {
			t.Fatalf("%s is not ready and not decided: %s", s.Metadata.Name, next.Why)
		}
		return v
	}
	half := *s
	half.Load.ConcurrencyPerGPU = max(1, s.Load.ConcurrencyPerGPU/2)
	half.Load.Episode = spec.Duration(plan.Half.DurationS * 1e9)
	r, err := sim.Play(ctx, &half, seed, 1, sim.Load{Sentinel: 10})
	if err != nil {
		t.Fatal(err)
	}
	c.Add(recordOf(0, r))
	for number := 1; ; number++ {
		r, err := sim.Play(ctx, s, seed, number, sim.Load{Sentinel: 10})
		if err != nil {
			t.Fatal(err)
		}
		c.Add(recordOf(number, r))
		if v, next := c.Verdict(); next == nil {
			return v
		}
	}
}

// unmet says what of an expectation a verdict does not meet.
func unmet(e *spec.Expectation, v *spec.Verdict) string {
	var all []string
	if !slices.Contains(e.Verdict, v.Verdict) {
		all = append(all, fmt.Sprintf("verdict %s, wanted %v", v.Verdict, e.Verdict))
	}
	if e.Ledger != "" && judge.LedgerOf(v) != e.Ledger {
		all = append(all, fmt.Sprintf("ledger %q, wanted %s", judge.LedgerOf(v), e.Ledger))
	}
	if e.Finding != "" {
		var want []string
		for _, w := range e.Workers {
			want = append(want, strconv.Itoa(w))
		}
		found := false
		for _, f := range v.Findings {
			if f.ID == e.Finding && (e.Workers == nil || slices.Equal(f.Workers, want)) {
				found = true
			}
		}
		if !found {
			all = append(all, fmt.Sprintf("no %s of %v", e.Finding, want))
		}
	}
	return strings.Join(all, "; ")
}

func told1(v *spec.Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%d episodes, %.0f s)", v.Verdict, v.Reason, v.Episodes, v.LoadedS)
	for _, l := range v.Ledgers {
		fmt.Fprintf(&b, "\n\t%s %s: %s", l.Name, l.State, l.Reason)
	}
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "\n\t%s %s %v: %s %v", f.Severity, f.ID, f.Workers, f.Summary, f.Evidence)
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "\n\tnote: %s", n)
	}
	return b.String()
}

// The library is the specification: what every scenario says that a judge must say
// of it is said, seed by seed.
func TestEveryScenarioIsJudgedAsItSays(t *testing.T) {
	seeds, only := 3, ""
	if v := os.Getenv("ORACLE_SEEDS"); v != "" {
		seeds, _ = strconv.Atoi(v)
	}
	only = os.Getenv("ORACLE_ONLY")
	for _, entry := range scenarios.All() {
		if only != "" && !slices.Contains(strings.Split(only, ","), entry.Name) {
			continue
		}
		t.Run(entry.Name, func(t *testing.T) {
			t.Parallel()
			s, err := spec.DecodeScenario(entry.Data)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(seeds) {
				v := playCase(t, s, seed+1, spec.ProfileStandard)
				if why := unmet(s.Expect, v); why != "" {
					t.Errorf("seed %d: %s\n%s", seed+1, why, told1(v))
				} else {
					t.Logf("seed %d: %s", seed+1, told1(v))
				}
			}
		})
	}
}
