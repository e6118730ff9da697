package judge

import (
	"strings"
	"testing"

	"aicr/internal/spec"
)

// Nothing is advised that the target cannot have: kubectl is for what is known to run on
// Kubernetes, nvidia-smi for where a GPU is known.
func TestAdviceFitsTheTarget(t *testing.T) {
	faults := map[string]func() ([]spec.Event, []*spec.EpisodeRecord){
		"slow":     func() ([]spec.Event, []*spec.EpisodeRecord) { return nil, times(2, bout{pace: only(3, 0, 99, 0.5)}) },
		"all slow": func() ([]spec.Event, []*spec.EpisodeRecord) { return nil, times(2, bout{pace: allAt(0, 99, 0.5)}) },
		"absent":   func() ([]spec.Event, []*spec.EpisodeRecord) { return nil, times(2, bout{route: awayFrom(3, 0)}) },
		"stalls":   func() ([]spec.Event, []*spec.EpisodeRecord) { return nil, times(2, bout{pace: allAt(10, 16, 0)}) },
		"errors": func() ([]spec.Event, []*spec.EpisodeRecord) {
			return nil, times(2, bout{ends: oneIn(11, ending{class: "http-error", afterS: 3})})
		},
		"never served": func() ([]spec.Event, []*spec.EpisodeRecord) { return []spec.Event{neverServes(300)}, nil },
	}
	for target, c := range map[string]struct {
		plan         func(*spec.Plan)
		page         func(s, w int, p *spec.Sample)
		kubectl, smi bool
	}{
		"a URL":              {page: func(_, _ int, p *spec.Sample) { p.Worker.GPU, p.Worker.Pod = "", "" }},
		"a URL, with GPUs":   {page: func(_, _ int, p *spec.Sample) { p.Worker.Pod = "" }, smi: true},
		"pods on a cluster":  {page: func(_, w int, p *spec.Sample) { p.Worker.Pod = "worker-0" }, kubectl: true, smi: true},
		"deployed by itself": {plan: func(p *spec.Plan) { p.Creates = []spec.PlannedObject{{}} }, kubectl: true, smi: true},
		"simulated":          {plan: func(p *spec.Plan) { p.Scenario = &spec.Scenario{} }, kubectl: true, smi: true},
	} {
		t.Run(target, func(t *testing.T) {
			kubectl, smi := false, false
			for name, fault := range faults {
				events, episodes := fault()
				for _, e := range episodes {
					for i := range e.Series {
						if p := &e.Series[i]; p.Worker != nil && c.page != nil {
							c.page(0, 0, p)
						}
					}
				}
				p := handPlan()
				if c.plan != nil {
					c.plan(p)
				}
				v := Judge(p, events, episodes...)
				if len(v.Findings) == 0 {
					t.Errorf("%s: nothing was found", name)
				}
				for _, f := range v.Findings {
					said := strings.Join(f.Advice, "\n")
					if said == "" {
						t.Errorf("%s: no advice", f.ID)
					}
					if strings.Contains(said, "kubectl") && !c.kubectl || strings.Contains(said, "nvidia-smi") && !c.smi {
						t.Errorf("%s: %s", f.ID, said)
					}
					kubectl, smi = kubectl || strings.Contains(said, "kubectl"), smi || strings.Contains(said, "nvidia-smi")
				}
			}
			if kubectl != c.kubectl || smi != c.smi {
				t.Errorf("kubectl is advised: %v, nvidia-smi: %v", kubectl, smi)
			}
		})
	}
}
