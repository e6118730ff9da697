package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestCannotPassIsWhatAPassIsHeldBackFor(t *testing.T) {
	asked := Known{Looked: true}
	workers := func(n int) func(*spec.Plan) { return func(p *spec.Plan) { p.Point.Workers = n } }
	profile := func(name string) func(*spec.Plan) { return func(p *spec.Plan) { p.Profile = name } }
	for name, c := range map[string]struct {
		plan  []func(*spec.Plan)
		known Known
		want  []string
	}{
		"all is known":                         {known: Known{Looked: true, Apart: true}},
		"not asked yet":                        {plan: []func(*spec.Plan){workers(0)}},
		"not asked yet, and no reference":      {plan: []func(*spec.Plan){workers(0), noReference}, want: []string{NothingToCompareWith}},
		"a floor is something":                 {plan: []func(*spec.Plan){noReference, floorOf(100)}, known: Known{Looked: true, Apart: true}},
		"nothing is known":                     {plan: []func(*spec.Plan){workers(0), noReference}, known: asked, want: []string{WorkersUnknown, WorkersNotDistinguished, NothingToCompareWith}},
		"the target says how many":             {plan: []func(*spec.Plan){workers(0)}, known: Known{Looked: true, Workers: 4, Apart: true}},
		"how many, and not which":              {plan: []func(*spec.Plan){workers(4)}, known: asked, want: []string{WorkersNotDistinguished}},
		"one needs no telling":                 {plan: []func(*spec.Plan){workers(1)}, known: asked},
		"smoke is no different":                {plan: []func(*spec.Plan){profile(spec.ProfileSmoke), workers(0)}, known: asked, want: []string{WorkersUnknown, WorkersNotDistinguished}},
		"the published gate asks for nothing":  {plan: []func(*spec.Plan){profile(spec.ProfileClassic), workers(0), noReference}, known: asked},
		"a ceiling for TTFT is no floor":       {plan: []func(*spec.Plan){noReference, func(p *spec.Plan) { p.Constraints = []spec.Constraint{{Name: spec.ConstraintTTFT}} }}, want: []string{NothingToCompareWith}},
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
