package load_test

import (
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

// serve starts a known-truth server.
func serve(t testing.TB, s truth.Script) *truth.Server {
	t.Helper()
	srv, err := truth.NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// planFor makes a plan of one closed loop against url; the caller changes it.
func planFor(t testing.TB, url string, users int, count int64, tokens int) *load.Plan {
	t.Helper()
	target, err := load.NewTarget(load.TargetOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Lookup(t.Context()); err != nil {
		t.Fatal(err)
	}
	work, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: count,
		InputTokens: workload.Length{Mean: 32}, OutputTokens: workload.Length{Mean: tokens}, Fields: workload.AllFields()})
	if err != nil {
		t.Fatal(err)
	}
	return &load.Plan{Target: target, Work: work, Main: load.Schedule{Users: users, Count: count},
		Timeout: 30 * time.Second, Grace: 10 * time.Second, Seed: 1}
}

func mustRun(t testing.TB, p *load.Plan) *load.Result {
	t.Helper()
	res, err := load.Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestSmoke(t *testing.T) {
	srv := serve(t, truth.Script{TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond, HeadersFirst: true, Workers: 3})
	for _, w := range []load.WireKind{load.LoopWire, load.GoroutineWire} {
		p := planFor(t, srv.URL(), 64, 512, 64)
		p.Wire = w
		res := mustRun(t, p)
		classes := map[load.Class]int{}
		phases := map[load.Phase]int{}
		for r := range res.Log.All() {
			classes[r.Class]++
			phases[r.Phase]++
		}
		t.Logf("%s %v %v %+v", res.Wire, classes, phases, res.Audit)
		t.Logf("gaps %v %v %v", res.Gaps.Mean()/1e6, res.Gaps.Quantile(.5)/1e6, res.Gaps.Quantile(.99)/1e6)
		for r := range res.Log.All() {
			t.Logf("%+v", *r)
			break
		}
		t.Log(res.Log.Details)
	}
	t.Logf("%+v", srv.Truth())
}
