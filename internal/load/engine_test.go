package load_test

import (
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

// hang is a time limit that only ends a hang: no machine is so slow.
const hang = 2 * time.Minute

// eventually waits for a condition that nothing but a hang keeps from coming.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(ms) {
		if time.Since(begun) > hang {
			t.Fatalf("after %v still not: %s", hang, what)
		}
	}
}

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
		Timeout: hang, Grace: hang, Seed: 1}
}

func mustRun(t testing.TB, p *load.Plan) *load.Result {
	t.Helper()
	res, err := load.Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
