package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// The published gate: one run, at least 0.9 of the floor, at most 1.1 of the ceiling.
func TestClassicIsThePublishedGateExactly(t *testing.T) {
	figures := func(throughput, ttft *float64) *spec.EpisodeRecord {
		r := bout{}.record()
		r.Episode.Figures = []spec.BenchFigure{{Name: OutputThroughput, Mean: throughput}, {Name: FirstToken, P99: ttft}}
		return r
	}
	both := func(p *spec.Plan) {
		p.Constraints = []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 50000, Unit: "tokens/s", Tolerance: 0.1},
			{Name: spec.ConstraintTTFT, Comparator: "<=", Threshold: 1000, Unit: "ms", Tolerance: 0.1}}
	}
	neither := func(p *spec.Plan) { p.Constraints = nil }
	cases := map[string]struct {
		plan     func(*spec.Plan)
		events   []spec.Event
		episodes []*spec.EpisodeRecord
		verdict  spec.State
		told     []string // each expectation and what it came to
	}{
		"at both bounds":           {both, nil, []*spec.EpisodeRecord{figures(new(45000.0), new(1100.0))}, spec.Pass, []string{"inference-throughput PASS", "inference-ttft-p99 PASS"}},
		"a token below the floor":  {both, nil, []*spec.EpisodeRecord{figures(new(44999.0), new(1100.0))}, spec.Fail, []string{"inference-throughput FAIL", "inference-ttft-p99 PASS"}},
		"a millisecond too late":   {both, nil, []*spec.EpisodeRecord{figures(new(45000.0), new(1101.0))}, spec.Fail, []string{"inference-throughput PASS", "inference-ttft-p99 FAIL"}},
		"both fail, both are told": {both, nil, []*spec.EpisodeRecord{figures(new(1.0), new(9999.0))}, spec.Fail, []string{"inference-throughput FAIL", "inference-ttft-p99 FAIL"}},
		"no figure is no pass":     {both, nil, []*spec.EpisodeRecord{figures(nil, nil)}, spec.Fail, []string{"inference-throughput NOT JUDGED", "inference-ttft-p99 NOT JUDGED"}},
		"the first run decides":    {both, nil, []*spec.EpisodeRecord{figures(new(1.0), new(1.0)), figures(new(5e4), new(1.0))}, spec.Fail, []string{"inference-throughput FAIL", "inference-ttft-p99 PASS"}},
		"nothing wanted":           {neither, nil, []*spec.EpisodeRecord{figures(new(5e4), new(1.0))}, spec.Inconclusive, nil},
		"nothing loaded":           {both, nil, nil, spec.Inconclusive, nil},
		"never served":             {both, []spec.Event{neverServes(300)}, nil, spec.Fail, nil},
		"no free GPU":              {both, []spec.Event{gpusFree(8, 0)}, nil, spec.Fail, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := handPlan(c.plan, func(p *spec.Plan) { p.Profile = spec.ProfileClassic })
			for i, r := range c.episodes {
				r.Episode.Number = i + 1
			}
			v := Judge(p, c.events, c.episodes...)
			if v.Verdict != c.verdict {
				t.Errorf("%s, want %s: %s", v.Verdict, c.verdict, v.Reason)
			}
			var told []string
			for _, e := range v.Expectations {
				told = append(told, e.Name+" "+string(e.State))
			}
			if diff := cmp.Diff(c.told, told); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			integrity := spec.NotJudged
			if len(c.episodes) == 0 && c.verdict == spec.Fail { // a FAIL has a ledger that failed
				integrity = spec.Fail
			}
			if len(v.Ledgers) != 3 || v.Ledgers[0].State != integrity || v.Ledgers[2].State != spec.NotJudged {
				t.Errorf("ledgers %+v", v.Ledgers)
			}
			if !slices.Contains(v.Notes, ClassicWrong()) || !strings.Contains(ClassicWrong(), " % of deployments") {
				t.Errorf("how often it is wrong is not told: %q", v.Notes)
			}
		})
	}
}

// It looks at two figures and at nothing else: that is what is wrong with it.
func TestClassicPassesWhatTheJudgeFails(t *testing.T) {
	plan := func(profile string) *spec.Plan {
		return handPlan(floorOf(800), func(p *spec.Plan) { p.Profile = profile })
	}
	for name, b := range map[string]bout{"a worker half as fast": {pace: only(3, 0, 99, 0.5)}, "three of four workers": {route: awayFrom(3, 0)}, "a stall of 6 s": {pace: only(3, 10, 16, 0)}} {
		if v := Judge(plan(spec.ProfileClassic), nil, times(3, b)...); v.Verdict != spec.Pass {
			t.Errorf("%s: classic says %s", name, v.Verdict)
		}
		if v := Judge(plan(spec.ProfileStandard), nil, times(3, b)...); v.Verdict != spec.Fail {
			t.Errorf("%s: the judge says %s: %s", name, v.Verdict, v.Reason)
		}
	}
}
