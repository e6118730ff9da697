package judge

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// What became known after a verdict makes of it what it would have made of the record.
func TestAVerdictIsAmendedAsItsRecordWouldHaveBeenJudged(t *testing.T) {
	ended := podEvent("2", spec.PodEnded, "container main ended once")
	unseen := podEvent("", spec.PodsUnseen, "no answer for 3m0s")
	well, slow := times(9, bout{}), times(2, bout{ends: oneIn(11, ending{class: "http-error", afterS: 2.5})})
	classic := func(p *spec.Plan) {
		p.Profile = spec.ProfileClassic
		p.Constraints = []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 1, Unit: "tokens/s"}}
	}
	for name, c := range map[string]struct {
		plan     func(*spec.Plan)
		episodes []*spec.EpisodeRecord
		events   []spec.Event
		want     spec.State
		words    string
	}{
		"nothing":                         {nil, well, nil, spec.Pass, ""},
		"a worker ended":                  {nil, well, []spec.Event{ended}, spec.Fail, "worker 2 ended during the run"},
		"nobody could see":                {nil, well, []spec.Event{unseen}, spec.Inconclusive, "whether pods that serve ended under load is not known: no answer for 3m0s"},
		"one ended, others not seen":      {nil, well, []spec.Event{ended, unseen}, spec.Fail, "worker 2 ended during the run"},
		"not decided, and a worker ended": {nil, well[:1], []spec.Event{ended, {Kind: spec.EventStage, Stage: "end"}}, spec.Fail, "worker 2 ended"},
		"a failure stays one":             {nil, slow, []spec.Event{unseen}, spec.Fail, "requests failed"},
		"the frontend was replaced":       {nil, well, []spec.Event{podEvent("", spec.PodReplaced, "it was deleted")}, spec.Fail, "it was deleted"},
		"the node was cordoned":           {nil, well, []spec.Event{nodeEvent(spec.NodeCordoned)}, spec.Pass, "of the reference"},
		"cordoned, and not seen":          {nil, well, []spec.Event{nodeEvent(spec.NodeCordoned), unseen}, spec.Inconclusive, "is not known"},
		"the graph was deleted":           {nil, slow, []spec.Event{removedEvent(0)}, spec.Inconclusive, "was deleted under load"},
		"the graph was deleted, classic":  {classic, well[:1], []spec.Event{removedEvent(0)}, spec.Inconclusive, "was deleted under load"},
		"the published gate":              {classic, well[:1], []spec.Event{ended}, spec.Pass, "in one run"},
		"the published gate, not seen":    {classic, well[:1], []spec.Event{unseen}, spec.Pass, "in one run"},
		"nothing was loaded":              {nil, nil, []spec.Event{ended, unseen}, spec.Inconclusive, "nothing was loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			p := handPlan()
			if c.plan != nil {
				c.plan(p)
			}
			at := spec.Event{Kind: spec.EventPlaced, Worker: "2", Source: "gpu-0", GPU: "GPU-2"}
			c.events = append([]spec.Event{at}, c.events...)
			want := Judge(p, c.events, c.episodes...)
			before := Judge(p, []spec.Event{at}, c.episodes...)
			was, _ := json.Marshal(before)
			got := Amend(p, before, c.events...)
			if want.Verdict != c.want || !strings.Contains(want.Reason, c.words) {
				t.Errorf("the record: %s: %s", want.Verdict, want.Reason)
			}
			if got.Verdict != want.Verdict || got.Reason != want.Reason && before.Verdict != spec.Fail {
				t.Errorf("amended: %s: %s, not %s: %s", got.Verdict, got.Reason, want.Verdict, want.Reason)
			}
			if diff := cmp.Diff(want.Findings, got.Findings); diff != "" {
				t.Errorf("findings (-judged +amended)\n%s", diff)
			}
			if before.Verdict == spec.Pass {
				if diff := cmp.Diff(want.Ledgers, got.Ledgers); diff != "" {
					t.Errorf("ledgers (-judged +amended)\n%s", diff)
				}
			}
			if is, _ := json.Marshal(before); string(is) != string(was) {
				t.Error("the verdict that was given is changed")
			}
		})
	}
}

// Of a last word nothing but the verdict is known.
func TestALastWordIsAmended(t *testing.T) {
	v := &spec.Verdict{Verdict: spec.Pass, Reason: "fast", Notes: []string{"x"}, Ledgers: []spec.Ledger{}, Findings: []spec.Finding{}}
	got := Amend(handPlan(), v, podEvent("2", spec.PodEnded, "container main ended once"))
	if got.Verdict != spec.Fail || len(got.Findings) != 1 || got.Findings[0].ID != "worker/absent" || LedgerOf(got) != spec.Integrity || v.Verdict != spec.Pass {
		t.Errorf("%+v", got)
	}
	if got := Amend(handPlan(), v, podEvent("", spec.PodsUnseen, "forbidden")); got.Verdict != spec.Inconclusive || !strings.Contains(got.Reason, "forbidden") {
		t.Errorf("%+v", got)
	}
}
