package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestCannotPassIsWhatAPassIsHeldBackFor(t *testing.T) {
	asked := Known{Looked: true}
	workers := func(n int) func(*spec.Plan) { return func(p *spec.Plan) { p.Point.Workers = n } }
	profile := func(name string) func(*spec.Plan) { return func(p *spec.Plan) { p.Profile = name } }
	declares := func(state spec.State, code string, args ...string) func(*spec.Plan) {
		return func(p *spec.Plan) { p.Checks = planOf(decided("b", state, code, args...)).Checks }
	}
	for name, c := range map[string]struct {
		plan  []func(*spec.Plan)
		known Known
		want  []string
	}{
		"all is known":                         {known: Known{Looked: true, Named: true}},
		"not asked yet":                        {plan: []func(*spec.Plan){workers(0)}},
		"not asked yet, and no reference":      {plan: []func(*spec.Plan){workers(0), noReference}, want: []string{NothingToCompareWith}},
		"a floor is something":                 {plan: []func(*spec.Plan){noReference, floorOf(100)}, known: Known{Looked: true, Named: true}},
		"nothing is known":                     {plan: []func(*spec.Plan){workers(0), noReference}, known: asked, want: []string{WorkersUnknown, WorkersNotDistinguished, NothingToCompareWith}},
		"the target says how many":             {plan: []func(*spec.Plan){workers(0)}, known: Known{Looked: true, Workers: 4, Named: true}},
		"how many, and not which":              {plan: []func(*spec.Plan){workers(4)}, known: asked, want: []string{WorkersNotDistinguished}},
		"one needs no telling":                 {plan: []func(*spec.Plan){workers(1)}, known: asked},
		"smoke is no different":                {plan: []func(*spec.Plan){profile(spec.ProfileSmoke), workers(0)}, known: asked, want: []string{WorkersUnknown, WorkersNotDistinguished}},
		"the published gate asks for nothing":  {plan: []func(*spec.Plan){profile(spec.ProfileClassic), workers(0), noReference}, known: asked},
		"a ceiling for TTFT is no floor":       {plan: []func(*spec.Plan){noReference, func(p *spec.Plan) { p.Constraints = []spec.Constraint{{Name: spec.ConstraintTTFT}} }}, want: []string{NothingToCompareWith}},
		"a page of each worker":                {plan: []func(*spec.Plan){workers(4)}, known: Known{Looked: true, Pages: 4}},
		"pages of some workers":                {plan: []func(*spec.Plan){workers(4)}, known: Known{Looked: true, Pages: 2}, want: []string{PagesOfSomeWorkers}},
		"a page of one of them":                {plan: []func(*spec.Plan){workers(4)}, known: Known{Looked: true, Pages: 1}, want: []string{PagesOfSomeWorkers}},
		"pages of some, and all are named":     {plan: []func(*spec.Plan){workers(4)}, known: Known{Looked: true, Pages: 2, Named: true}},
		"pages of some of those that it lists": {plan: []func(*spec.Plan){workers(0)}, known: Known{Looked: true, Workers: 3, Pages: 2}, want: []string{PagesOfSomeWorkers}},
		"a page that does not answer":          {known: Known{Looked: true, Named: true, Pages: 4, Silent: 1}, want: []string{PagesSilent}},
		"pages of more than there should be":   {plan: []func(*spec.Plan){workers(1)}, known: Known{Looked: true, Pages: 2}, want: []string{MoreWorkersThanPlanned}},
		"too few episodes for stability":       {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Thresholds.MaxEpisodes = 2 }}, want: []string{BudgetTooShort}},
		"too few, where stalls are reported": {plan: []func(*spec.Plan){func(p *spec.Plan) {
			p.Thresholds.MaxEpisodes, p.Stability = 2, spec.StabilityReport
		}}},
		"a declared check that is not run":     {plan: []func(*spec.Plan){declares(spec.NotRun, spec.NotBuilt, spec.TargetCluster)}, want: []string{ChecksNotPassed}},
		"one that the paper fails":             {plan: []func(*spec.Plan){declares(spec.Fail, spec.AbsentWanted, "a GPU")}, want: []string{ChecksNotPassed}},
		"one that is left out":                 {plan: []func(*spec.Plan){declares(spec.NotRun, spec.NotAsked, "--check")}},
		"one that is unwanted":                 {plan: []func(*spec.Plan){declares(spec.Skip, spec.ComponentUnwanted, "x")}},
		"classic has declared checks too":      {plan: []func(*spec.Plan){profile(spec.ProfileClassic), declares(spec.NotRun, spec.NotBuilt, spec.TargetEndpoint)}, want: []string{ChecksNotPassed}},
		"a frontend that lists one is just it": {plan: []func(*spec.Plan){workers(0)}, known: Known{Looked: true, Workers: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range CannotPass(handPlan(c.plan...), c.known) {
				got = append(got, h.Code)
				if h.Mend() == "" || h.Text() == h.Code {
					t.Errorf("%s has no words", h.Code)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The budget of a profile is enough for a healthy deployment of any size.
func TestAProfilesBudgetIsEnough(t *testing.T) {
	for _, profile := range spec.Profiles() {
		th, err := spec.DefaultThresholds(profile)
		if !err {
			t.Fatal(profile)
		}
		for _, workers := range []int{0, 1, 2, 8, 64, 512} {
			p := handPlan(func(p *spec.Plan) {
				p.Profile, p.Thresholds, p.Point.Workers = profile, th, workers
				if profile == spec.ProfileSmoke {
					p.Stability = spec.StabilityReport
				}
			})
			if all := CannotPass(p, Known{}); len(all) > 0 {
				t.Errorf("%s, %d workers: %v", profile, workers, all)
			}
		}
	}
}

// Declared checks that hinder a PASS are named with their states, a few of them.
func TestDeclaredChecksThatHinderAPassAreNamed(t *testing.T) {
	p := planOf(decided("a", spec.NotRun, spec.NotAsked, "--phase"), decided("b", spec.NotRun, spec.NotBuilt, spec.TargetCluster), decided("c", spec.Fail, spec.AbsentWanted, "a GPU"))
	if got := CannotPass(p, Known{})[0].Text(); got != "the recipe declares checks that this run cannot pass: b NOT RUN, c FAIL" {
		t.Error(got)
	}
}

// Of a server that tells nothing of itself, the report says what the client's record cannot see.
func TestWhatTheClientAloneCannotSeeIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		bout bout
		want bool
	}{
		"a client alone":    {bout{workers: 1, blind: true, nameless: true}, true},
		"beside pages":      {bout{nameless: true}, false},
		"beside named ones": {bout{blind: true}, false},
		"beside both":       {bout{}, false},
	} {
		v := Judge(handPlan(func(p *spec.Plan) { p.Point.Workers = max(1, c.bout.workers) }), nil, c.bout.record())
		if got := slices.ContainsFunc(v.Notes, func(n string) bool { return strings.HasPrefix(n, "judged by the client's record alone") }); got != c.want {
			t.Errorf("%s: %q", name, v.Notes)
		}
	}
}
