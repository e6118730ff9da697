package judge

import (
	"strings"
	"testing"

	"aicr/internal/spec"
)

// planOf is a plan of inference-perf, which runs, and of other checks.
func planOf(others ...spec.PlannedCheck) *spec.Plan {
	p := &spec.Plan{Profile: spec.ProfileSmoke}
	for i := range others {
		others[i].Declared, others[i].Phase = true, spec.PhaseConformance
		p.Checks = append(p.Checks, others[i])
	}
	perf := spec.PlannedCheck{Name: spec.InferencePerf, Phase: spec.PhasePerformance, Declared: true}
	perf.Run(spec.Because(spec.CheckDeclared))
	p.Checks = append(p.Checks, perf)
	return p
}

func decided(name string, state spec.State, code string, args ...string) spec.PlannedCheck {
	c := spec.PlannedCheck{Name: name}
	c.Decide(state, spec.Because(code, args...))
	return c
}

// The verdict on several checks is the worst of them. Only what the user left out, and a
// SKIP, go with a PASS.
func TestTheVerdictIsTheWorstOfTheChecks(t *testing.T) {
	own := func(s spec.State) *spec.Verdict {
		return &spec.Verdict{Verdict: s, Reason: "as measured", Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: "8 of 8"}}}
	}
	left := decided("a", spec.NotRun, spec.NotAsked, "--phase")
	unbuilt := decided("b", spec.NotRun, spec.NotBuilt, spec.TargetCluster)
	stopped := decided("c", spec.NotRun, spec.FailFast, "deployment")
	failed := decided("d", spec.Fail, spec.AbsentWanted, "a GPU")
	skipped := decided("e", spec.Skip, spec.ComponentUnwanted, "x")
	open := decided("f", spec.Inconclusive, spec.PresenceUnknown, "a GPU", "forbidden")
	unrecorded := spec.PlannedCheck{Name: "g", Why: "this program has it on paper alone"}
	impossible := spec.PlannedCheck{Name: "h", Runs: true}
	for name, c := range map[string]struct {
		plan   *spec.Plan
		v      *spec.Verdict
		want   spec.State
		reason string
	}{
		"alone":                         {planOf(), own(spec.Pass), spec.Pass, "as measured"},
		"beside one that was left out":  {planOf(left), own(spec.Pass), spec.Pass, "as measured"},
		"beside one that is unwanted":   {planOf(skipped), own(spec.Pass), spec.Pass, "as measured"},
		"beside one that is not built":  {planOf(left, unbuilt), own(spec.Pass), spec.Inconclusive, "1 of 3 declared checks NOT RUN (this version of aicr cannot run it on a cluster): b; inference-perf is PASS: as measured"},
		"beside one after a failure":    {planOf(stopped), own(spec.Pass), spec.Inconclusive, "1 of 2 declared checks NOT RUN (--fail-fast: the phase deployment did not hold): c; inference-perf is PASS: as measured"},
		"beside one that failed":        {planOf(unbuilt, failed), own(spec.Pass), spec.Fail, "d: a GPU is not there, and the recipe wants it"},
		"both fail":                     {planOf(failed), own(spec.Fail), spec.Fail, "as measured; d: a GPU is not there, and the recipe wants it"},
		"one is unknown":                {planOf(open), own(spec.Pass), spec.Inconclusive, "f: whether there is a GPU is not known: forbidden; inference-perf is PASS: as measured"},
		"invalid beside not built":      {planOf(unbuilt), own(spec.Invalid), spec.Invalid, "as measured"},
		"skipped, all else left out":    {planOf(left), own(spec.Skip), spec.Skip, "as measured"},
		"it should have run":            {planOf(left), nil, spec.Inconclusive, "inference-perf: nothing was loaded"},
		"a state that is unknown":       {planOf(), own("FINE"), spec.Inconclusive, "as measured"},
		"of an older plan":              {planOf(unrecorded), own(spec.Pass), spec.Inconclusive, "1 of 2 declared checks NOT RUN (this program has it on paper alone): g; inference-perf is PASS: as measured"},
		"one that no program could run": {planOf(impossible), own(spec.Pass), spec.Inconclusive, "1 of 2 declared checks NOT RUN (this version of aicr cannot run it on a cluster): h; inference-perf is PASS: as measured"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Conclude(c.plan, c.v, 1.5)
			if got.Verdict != c.want || got.Reason != c.reason || len(got.Checks) != len(c.plan.Checks) {
				t.Errorf("%s: %q, want %s: %q; %+v", got.Verdict, got.Reason, c.want, c.reason, got.Checks)
			}
			if again := Conclude(c.plan, got, 0); again.Verdict != got.Verdict || again.Reason != got.Reason || (c.v != nil && again.Inference().Verdict != c.v.Verdict) {
				t.Errorf("concluded anew it is %s: %q", again.Verdict, again.Reason)
			}
		})
	}
}

// Where the recipe declares no check there is nothing to sum up.
func TestAVerdictWithoutDeclaredChecksStaysAsItIs(t *testing.T) {
	v := &spec.Verdict{Verdict: spec.Pass}
	target := spec.PlannedCheck{Name: spec.InferencePerf, Runs: true}
	for _, p := range []*spec.Plan{{}, {Checks: []spec.PlannedCheck{target}}} {
		if got := Conclude(p, v, 1); got != v || len(got.Checks) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// What became known of the workers after the load changes the verdict of inference-perf,
// whatever the other checks came to.
func TestAnAmendedVerdictKeepsTheOtherChecks(t *testing.T) {
	th, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	p := planOf(decided("b", spec.NotRun, spec.NotBuilt, spec.TargetCluster))
	p.Thresholds, p.Point.Workers = th, 2
	v := Conclude(p, &spec.Verdict{Verdict: spec.Pass, Reason: "fine", Episodes: 2, Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Pass}}}, 60)
	got := Amend(p, v, spec.Event{Kind: spec.EventPod, Source: "ns", Reason: spec.PodsUnseen, Text: "forbidden"})
	if own := got.Inference(); own == nil || own.Verdict != spec.Inconclusive || len(got.Checks) != 2 || got.Checks[1].Seconds != 60 || !strings.Contains(got.Reason, "forbidden") {
		t.Errorf("%s: %s, %+v", got.Verdict, got.Reason, got.Checks)
	}
}

// A fleet of which every node passes is no PASS of a recipe that declares more.
func TestAFleetHasAResultOfEachCheck(t *testing.T) {
	f := &spec.FleetVerdict{Verdict: spec.Pass, Reason: "2 of 2 nodes PASS"}
	ConcludeFleet(planOf(decided("b", spec.NotRun, spec.NotBuilt, spec.TargetCluster)), f)
	if f.Verdict != spec.Inconclusive || len(f.Checks) != 2 || !strings.Contains(f.Reason, "inference-perf is PASS: 2 of 2 nodes PASS") {
		t.Errorf("%s: %s, %+v", f.Verdict, f.Reason, f.Checks)
	}
	alone := &spec.FleetVerdict{Verdict: spec.NotJudged, Reason: "interrupted"}
	ConcludeFleet(planOf(decided("a", spec.NotRun, spec.NotAsked, "--check")), alone)
	if alone.Verdict != spec.NotJudged || alone.Reason != "interrupted" {
		t.Errorf("%s: %s", alone.Verdict, alone.Reason)
	}
}
