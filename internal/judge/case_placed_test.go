package judge

import (
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// On a cluster a worker's page does not say which GPU it has: who gave it does. Pods have
// other names in every run, and stalls of earlier runs are the GPU's.
func TestAWorkerIsKnownByTheGPUThatItWasGiven(t *testing.T) {
	stalls := bout{pace: only(3, 10, 12, 0), page: func(_, _ int, p *spec.Sample) { p.Worker.GPU, p.Worker.Pod = "", "" }}
	placed := []spec.Event{{Kind: spec.EventPlaced, Worker: "2", Source: "node-a", GPU: "GPU-b"}, {Kind: spec.EventPlaced, Worker: "3", Source: "node-a", GPU: "GPU-c"}}
	prior := func(gpu string) func(*spec.Plan) {
		return func(p *spec.Plan) {
			p.Prior = []spec.PriorStall{{GPU: gpu, Worker: "decode-old", Count: 2, Last: "2026-11-15T08:00:00Z"}}
			p.PriorMinutes, p.Thresholds.MinStalls = 600, 9 // the rate decides nothing
		}
	}
	for name, c := range map[string]struct {
		events  []spec.Event
		prior   string
		verdict spec.State
		summary string
		said    string
		gpus    []string
	}{
		"its own":                          {placed, "GPU-c", spec.Fail, "worker 3 (node node-a, GPU GPU-c) stalled once", "with those of earlier runs it is 3.0 stalls of GPU GPU-c: 3 of the same are no chance", []string{"GPU-c"}},
		"another's":                        {placed, "GPU-b", spec.Inconclusive, "worker 3 (node node-a, GPU GPU-c) stalled once", "earlier runs: 2.0 stalls of GPU GPU-b", []string{"GPU-c"}},
		"not told":                         {nil, "GPU-c", spec.Inconclusive, "worker 3 stalled once", "", nil},
		"a node, and nobody knows the GPU": {[]spec.Event{{Kind: spec.EventPlaced, Worker: "3", Source: "node-a"}}, "GPU-c", spec.Inconclusive, "worker 3 (node node-a) stalled once", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := NewCase(handPlan(prior(c.prior)))
			k.Hear(c.events...)
			for _, e := range sequel(times(1, stalls), times(1, bout{page: stalls.page})) {
				k.Add(e)
			}
			v, _ := k.Verdict()
			if v.Verdict != c.verdict || c.verdict == spec.Fail && LedgerOf(v) != spec.Stability {
				t.Errorf("%s by %s, want %s: %s", v.Verdict, LedgerOf(v), c.verdict, v.Reason)
			}
			at := slices.IndexFunc(v.Findings, func(f spec.Finding) bool { return f.ID == "worker/stall" })
			if at < 0 {
				t.Fatalf("found %+v", v.Findings)
			}
			f := v.Findings[at]
			if !strings.HasPrefix(f.Summary, c.summary) {
				t.Errorf("%q does not begin with %q", f.Summary, c.summary)
			}
			if all := strings.Join(f.Evidence, "\n"); !strings.Contains(all, c.said) || c.verdict != spec.Fail && strings.Contains(all, "no chance") {
				t.Errorf("want %q in:\n%s", c.said, all)
			}
			if !slices.Equal(f.GPUs, c.gpus) || len(v.Stalls) != 1 || v.Stalls[0].GPU != strings.Join(c.gpus, "") {
				t.Errorf("GPUs %q, stalls %+v, want %q", f.GPUs, v.Stalls, c.gpus)
			}
		})
	}
}

// Several workers are named with all their GPUs, and a node once.
func TestWorkersAreNamedWithWhereTheyAre(t *testing.T) {
	ev := &Evidence{start: startOf([]spec.Event{
		{Kind: spec.EventPlaced, Worker: "a", Source: "n1", GPU: "GPU-a"}, {Kind: spec.EventPlaced, Worker: "b", Source: "n1", GPU: "GPU-b"}, {Kind: spec.EventPlaced, Worker: "c", Source: "n2"}})}
	for want, workers := range map[string][]string{
		"workers a and b (node n1, GPUs GPU-a and GPU-b)": {"a", "b"},
		"workers a and c (nodes n1 and n2, GPU GPU-a)":    {"a", "c"},
		"worker d": {"d"},
	} {
		if got := ev.placed(workers); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
