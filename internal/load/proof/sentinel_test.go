package proof

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
	"aicr/test/busy"
)

// Over every wire the sentinel is part of the load: with it on top, 45 would be in flight.
func TestTheSentinelIsPartOfTheLoad(t *testing.T) {
	const users = 40
	h, err := truth.NewHandler(truth.Script{TTFT: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	for _, wire := range []struct {
		kind    load.WireKind
		senders int
	}{{load.LoopWire, 1}, {load.LoopWire, 3}, {load.GoroutineWire, 1}} {
		t.Run(fmt.Sprintf("wire %d, %d senders", wire.kind, wire.senders), func(t *testing.T) {
			target, err := load.NewTarget(load.TargetOptions{URL: srv.URL})
			if err == nil {
				err = target.Lookup(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			work, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: 4000, Fields: workload.AllFields(),
				InputTokens: workload.Length{Mean: 32}, OutputTokens: workload.Length{Mean: 2}})
			if err != nil {
				t.Fatal(err)
			}
			busy.Measure(t, func() (tooBusy string) {
				res, err := load.Run(t.Context(), &load.Plan{Target: target, Work: work, Timeout: time.Minute, Grace: time.Minute, Sentinel: 100,
					Wire: wire.kind, Senders: wire.senders, Main: load.Schedule{Users: users, Ramp: 50 * time.Millisecond, Duration: 3 * time.Second}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				sentinels := 0
				for r := range res.Log.All() {
					if r.Lane == load.Sentinel {
						sentinels++
					}
				}
				if sentinels < 250 {
					t.Errorf("%d requests of the sentinel in 3 s, at 100 a second", sentinels)
				}
				if a := res.Audit.InFlight; a < 0.95*users || a > 1.03*users {
					return fmt.Sprintf("%.1f in flight, and %d were asked for", a, users)
				}
				return ""
			})
		})
	}
}
