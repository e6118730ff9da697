package sim

import (
	"testing"

	"aicr/internal/spec"
)

// Who reads prompts makes a token of each request, which no client gets, and is named by no
// answer.
func TestAPromptIsReadByOneAndAnsweredByAnother(t *testing.T) {
	s := loaded(5)
	s.Fleet.PrefillWorkers = 2
	r := play(t, s, 1, 1, Load{})
	served := map[string]int{}
	for _, q := range r.Requests {
		if q.Class != spec.ClassOK || q.Tokens != s.Load.OutputTokens {
			t.Fatalf("%+v", q)
		}
		served[q.Worker]++
	}
	if len(served) != 3 || served["2"] == 0 || served["3"] == 0 || served["4"] == 0 || r.Point.Prefill != 2 {
		t.Errorf("served by %v, %+v", served, r.Point)
	}
	for i, w := range workersOf(r, 6) {
		reads := i < 2
		each := *w.Generated / max(1, *w.PromptTokens/float64(s.Load.InputTokens))
		if (w.Role == spec.RolePrefill) != reads || reads && each != 1 || !reads && each < 64 || *w.PrefixQueries > 0 != reads {
			t.Errorf("worker %d: role %q, %v tokens a request, %v looked up", i, w.Role, each, *w.PrefixQueries)
		}
	}
}

// GPUs that step together wait for the slowest: all are as busy, at the power of less work.
func TestASlowGPUHoldsUpItsWorker(t *testing.T) {
	s := loaded(2, spec.Fault{Kind: spec.WorkerSlow, Workers: on(1), GPU: new(2), Factor: new(2.0)},
		spec.Fault{Kind: spec.GPUThrottle, Workers: on(1), GPU: new(2), Reason: "hw_thermal", Share: new(1.0)},
		spec.Fault{Kind: spec.GPUError, Workers: on(0), GPU: new(1), XID: new(48)})
	s.Fleet.GPUsPerWorker, s.Load.ConcurrencyPerGPU = 4, 32
	r := play(t, s, 1, 1, Load{})
	if r.Point.Concurrency != 256 || r.Point.GPUsPerWorker != 4 || r.Point.GPUs() != 8 {
		t.Errorf("%+v", r.Point)
	}
	workers, gpus := workersOf(r, 5), gpusOf(r, 5)
	if len(gpus) != 8 || len(workers) != 2 || len(workers[1].GPUs) != 4 || workers[1].GPU != "" {
		t.Fatalf("%d GPUs, workers %+v", len(gpus), workers)
	}
	if slow := *workers[1].Generated / *workers[0].Generated; slow > 0.6 {
		t.Errorf("a worker with a GPU at half the speed makes %.2f of the other's tokens", slow)
	}
	for i, g := range gpus {
		clock, throttled := fullClock, 0
		if i == 6 {
			clock, throttled = fullClock*0.5, 1
		}
		if *g.SMClockMHz != clock || len(*g.Throttle) != throttled || i >= 4 && !(*g.PowerW < 0.7*(*gpus[0].PowerW) && *g.Utilization > 0.7) || (*g.XID != 0) != (i == 1) {
			t.Errorf("GPU %d: %v MHz, %v, %v W, %v busy, XID %v", i, *g.SMClockMHz, *g.Throttle, *g.PowerW, *g.Utilization, *g.XID)
		}
	}
}
