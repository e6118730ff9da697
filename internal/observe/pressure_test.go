package observe

import (
	"math"
	"testing"
	"time"
)

func TestShareOfTheTime(t *testing.T) {
	const s = time.Second
	type reading struct {
		at, total time.Duration
		want      float64
		why       string
	}
	unknown := math.NaN()
	for _, tc := range []struct {
		rule     string
		readings []reading
	}{
		{"a rate needs two pages", []reading{{0, 100 * s, unknown, firstPage}, {s, 100*s + s/4, 0.25, ""}}},
		{"the time between is the pages' own", []reading{{0, 0, unknown, firstPage}, {4 * s, s, 0.25, ""}, {4*s + s/2, 3 * s / 2, 1, ""}}},
		{"no wait is none", []reading{{0, s, unknown, firstPage}, {s, s, 0, ""}}},
		{"more than all of the time is all of it", []reading{{0, 0, unknown, firstPage}, {s, s + s/50, 1, ""}}},
		{"a counter that began anew says nothing once", []reading{{0, 9 * s, unknown, firstPage}, {s, 0, unknown, begunAnew}, {2 * s, s / 2, 0.5, ""}}},
		{"the same reading again says nothing, and the next counts from the first", []reading{{0, 0, unknown, firstPage}, {0, 0, unknown, notNewer}, {10 * s, 5 * s, 0.5, ""}}},
		{"a clock that went back says nothing", []reading{{10 * s, 0, unknown, firstPage}, {9 * s, s, unknown, notNewer}, {12 * s, s, 0.5, ""}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var p pressure
			start := newTicking().at
			for i, r := range tc.readings {
				got, why := p.since("cpu_pressure", r.total, start.Add(r.at))
				if why != r.why || (got == nil) != math.IsNaN(r.want) || got != nil && *got != r.want {
					t.Errorf("reading %d gives %v, %q", i+1, got, why)
				}
			}
		})
	}
}

func TestACounterThatWasAwayIsFirstAgain(t *testing.T) {
	var p pressure
	start := newTicking().at
	p.since("cpu_pressure", time.Second, start)
	p.forget("cpu_pressure")
	if got, why := p.since("cpu_pressure", 2*time.Second, start.Add(time.Minute)); got != nil || why != firstPage {
		t.Errorf("got %v, %q", got, why)
	}
}
