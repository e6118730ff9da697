package judge

import (
	"testing"
	"time"

	"aicr/internal/spec"
)

// On a real H200, power and clocks move with load: from 345 MHz and some 80 W with
// nobody on it to 1980 MHz and over 300 W, and the tally keeps the bounds.
func TestARealGPUMovesWithItsLoad(t *testing.T) {
	for file, want := range map[string]struct{ powerMin, powerMax, clockMin, clockMax float64 }{
		"testdata/h200-start.series.jsonl.gz":   {81.55, 351.88, 345, 1980},
		"testdata/h200-healthy.series.jsonl.gz": {121.29, 361.12, 1980, 1980},
	} {
		tally := NewTally()
		for _, s := range readSeries(t, file) {
			tally.Add(s)
		}
		found := false
		for _, r := range tally.Rows() {
			if r.Source != spec.SourceGPU {
				continue
			}
			found = true
			power, clock := r.Values["power_w"], r.Values["sm_clock_mhz"]
			if power.Min != want.powerMin || power.Max != want.powerMax || clock.Min != want.clockMin || clock.Max != want.clockMax {
				t.Errorf("%s: %+v W, %+v MHz", file, power, clock)
			}
			if r.Throttle == nil || r.NotMeasured["xid"] == "" {
				t.Errorf("%s: throttle %v, not measured %v", file, r.Throttle, r.NotMeasured)
			}
		}
		if !found {
			t.Errorf("%s has no GPU", file)
		}
	}
}

// A worker that was really stopped, from 16.0 s to 21.0 s of the recording, is named
// within four seconds, alone, and no longer than it takes to see that it is back.
func TestARealStopIsNamed(t *testing.T) {
	const (
		stopped = 16 * time.Second
		goesOn  = 21 * time.Second
		victim  = "11655315835634843649"
	)
	live := NewLive(time.Second)
	var first, last time.Duration
	next := time.Second
	for _, s := range readSeries(t, "testdata/h200-stopped.series.jsonl.gz") {
		for ; time.Duration(s.T) > next; next += time.Second {
			for _, symptom := range live.Picture(int64(next)).Symptoms {
				if symptom.Severity != Fail {
					continue
				}
				if len(symptom.Workers) != 1 || symptom.Workers[0] != victim {
					t.Errorf("at %s: %s", next, symptom.Words)
				}
				if first == 0 {
					first = next
				}
				last = next
			}
		}
		live.Add(s)
	}
	if first <= stopped || first > stopped+4*time.Second {
		t.Errorf("named at %s, it was stopped at %s", first, stopped)
	}
	if last > goesOn+4*time.Second {
		t.Errorf("still named at %s, it went on at %s", last, goesOn)
	}
}
