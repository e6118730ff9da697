package load_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim"
	simserve "aicr/internal/sim/serve"
	"aicr/internal/spec"
)

// fleet is a small one without chance, so that every time can be said ahead.
func fleet(t testing.TB, faults ...spec.Fault) *spec.Scenario {
	t.Helper()
	s, ok := spec.NewScenario("virtual", "small")
	if !ok {
		t.Fatal("no profile small")
	}
	s.Fleet.Workers = 2
	s.Fleet.Timing.HostJitter, s.Fleet.Timing.StepJitter = 0, 0
	s.Load.Episode = spec.Duration(time.Hour)
	s.Faults = faults
	return s
}

// besideFleet runs f beside a simulated fleet, in virtual time: the engine, the
// HTTP server between them and the fleet all live in one bubble.
func besideFleet(t *testing.T, s *spec.Scenario, f func(t *testing.T, target *load.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		live := sim.NewLive(s, 1, 1)
		srv := &http.Server{Handler: simserve.New(live, s, simserve.Options{}).Frontend()}
		target := serveInBubble(t, srv, load.TargetOptions{URL: "http://fleet.test"})
		defer stop()
		go live.Run(ctx)
		f(t, target)
	})
}

func fleetPlan(t testing.TB, target *load.Target, main load.Schedule, in, out int) *load.Plan {
	t.Helper()
	work, err := workload.Synthetic(workload.Spec{Model: simserve.DefaultModel, Seed: 1,
		InputTokens: workload.Length{Mean: in}, OutputTokens: workload.Length{Mean: out}, Fields: workload.AllFields()})
	if err != nil {
		t.Fatal(err)
	}
	return &load.Plan{Target: target, Work: work, Main: main, Timeout: time.Minute, Grace: 2 * time.Minute, Seed: 1, KeepTokens: true}
}

// One user's request has the worker to itself: each of its times follows from the
// fleet's numbers, and the engine's stamps must be those, to the nanosecond.
func TestStampsOfAFleetAreExact(t *testing.T) {
	const requests, in, out = 60, 64, 32
	s := fleet(t)
	p, _ := spec.ProfileNamed("small")
	step := p.Timing.Base + p.Timing.Host
	token := p.Frontend.PerToken
	const template = 2 // tokens that the chat template adds
	first := p.Frontend.PerRequest + step + (in+template)*p.Timing.PerPromptToken + p.Timing.PerAdmission + token + p.Network
	next := step + p.Timing.PerSequence
	besideFleet(t, s, func(t *testing.T, target *load.Target) {
		began := time.Now()
		res := mustRun(t, fleetPlan(t, target, load.Schedule{Users: 1, Count: requests}, in, out))
		for r := range res.Log.All() {
			if !r.OK() || r.Tokens() != out {
				t.Fatalf("request %d: %v with %d tokens", r.Seq, r.Class, r.Tokens())
			}
			stamps := res.Log.Stamps(r)
			if got := stamps[0] - r.Sent; got != int64(first) {
				t.Fatalf("request %d: first token after %v, want %v", r.Seq, time.Duration(got), first)
			}
			for i := 1; i < len(stamps); i++ {
				if got := stamps[i] - stamps[i-1]; got != int64(next) {
					t.Fatalf("request %d: token %d after %v, want %v", r.Seq, i, time.Duration(got), next)
				}
			}
		}
		whole := time.Duration(requests) * (first.D() + (out-1)*next.D())
		if got := time.Since(began); got < whole || got > whole+time.Second {
			t.Errorf("%d requests took %v of virtual time, want %v", requests, got, whole)
		}
	})
}

// The engine against the handler and the modelled client against the same fleet
// are two ways to the same figures.
func TestTheEngineMeasuresWhatTheModelPlays(t *testing.T) {
	s := fleet(t)
	s.Load = spec.Load{ConcurrencyPerGPU: 8, Ramp: spec.Duration(time.Second), Episode: spec.Duration(3 * time.Minute), InputTokens: 64, OutputTokens: 64}
	played, err := sim.Play(t.Context(), s, 1, 1, sim.Load{})
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for _, r := range played.Requests {
		want = append(want, float64(r.First-r.Sent))
	}
	besideFleet(t, s, func(t *testing.T, target *load.Target) {
		res := mustRun(t, fleetPlan(t, target, load.Schedule{Users: 16, Ramp: time.Second, Duration: 3 * time.Minute}, 64, 64))
		var got []float64
		for r := range res.Log.All() {
			if !r.OK() {
				t.Fatalf("request %d: %v", r.Seq, r.Class)
			}
			got = append(got, float64(r.FirstContent-r.Sent))
		}
		near(t, "requests", float64(len(got)), float64(len(want)), 0.01)
		slices.Sort(got)
		slices.Sort(want)
		near(t, "median ttft", got[len(got)/2], want[len(want)/2], 0.01)
	})
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if got < want*(1-within) || got > want*(1+within) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// always is a fault without a window, on a share of the requests where it has one.
func always(kind spec.FaultKind, change func(*spec.Fault)) spec.Fault {
	f := spec.Fault{Kind: kind, Share: new(1.0)}
	if change != nil {
		change(&f)
	}
	return f
}

// What goes wrong in a fleet has a class in the engine.
func TestFaultsOfAFleetHaveTheirClass(t *testing.T) {
	workers := &spec.Workers{All: true}
	for name, c := range map[string]struct {
		fault spec.Fault
		want  load.Class
	}{
		"nothing":        {always(spec.HostSlow, func(f *spec.Fault) { f.Factor = new(1.0) }), load.OK},
		"an error":       {always(spec.HTTPError, func(f *spec.Fault) { f.Status = new(503) }), load.HTTPStatus},
		"dead workers":   {always(spec.WorkerDead, func(f *spec.Fault) { f.Workers = workers }), load.HTTPStatus},
		"no workers":     {always(spec.WorkerMissing, func(f *spec.Fault) { f.Workers = workers }), load.HTTPStatus},
		"a broken pipe":  {always(spec.StreamBreak, func(f *spec.Fault) { f.How = "reset" }), load.Truncated}, // a pipe has no RST
		"a short stream": {always(spec.StreamBreak, func(f *spec.Fault) { f.How = "truncated" }), load.Truncated},
		"an error event": {always(spec.StreamBreak, func(f *spec.Fault) { f.How = "error-event" }), load.ErrorEvent},
		"no content":     {always(spec.ZeroTokens, nil), load.NoTokens},
		"a wedge":        {always(spec.WorkerWedge, func(f *spec.Fault) { f.Workers, f.Running = workers, "zero" }), load.Timeout},
		"a panic":        {always(spec.DiscoveryPanic, nil), load.HTTPStatus},
	} {
		t.Run(name, func(t *testing.T) {
			besideFleet(t, fleet(t, c.fault), func(t *testing.T, target *load.Target) {
				res := mustRun(t, fleetPlan(t, target, load.Schedule{Users: 4, Count: 12}, 32, 16))
				if diff := cmp.Diff(map[load.Class]int{c.want: 12}, countClasses(res.Log)); diff != "" {
					t.Errorf("%v\n%s", res.Log.Details, diff)
				}
			})
		})
	}
}

// An open loop goes on sending while the frontend is frozen, and its latencies
// from the intended send show all of it; a closed loop sends nothing.
func TestAFreezeIsSeenByTheOpenLoopAlone(t *testing.T) {
	const at, lasts = 20 * time.Second, 5 * time.Second
	freeze := spec.Fault{Kind: spec.FrontendFreeze, At: new(spec.Duration(at)), Lasts: new(spec.Duration(lasts))}
	slow := func(t *testing.T, main load.Schedule) (n int) {
		besideFleet(t, fleet(t, freeze), func(t *testing.T, target *load.Target) {
			res := mustRun(t, fleetPlan(t, target, main, 32, 8))
			for r := range res.Log.All() {
				if !r.OK() {
					t.Fatalf("request %d: %v", r.Seq, r.Class)
				}
				if r.FirstContent-r.Intended > int64(time.Second) {
					n++
				}
			}
		})
		return n
	}
	// Ten a second: fifty fall due in the freeze, and the last ten wait less than a
	// second.
	if open := slow(t, load.Schedule{Rate: 10, Count: 600}); open < 38 || open > 42 {
		t.Errorf("%d requests of the open loop were more than a second late, want 40", open)
	}
	if closed := slow(t, load.Schedule{Users: 2, Duration: time.Minute}); closed > 2 {
		t.Errorf("%d requests of the closed loop were more than a second late, want at most its 2 users'", closed)
	}
}
