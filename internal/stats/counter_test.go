package stats

import (
	"math"
	"testing"
)

func TestCounterGivesRates(t *testing.T) {
	const sec = int64(1e9)
	type step struct {
		t    int64
		v    float64
		rate float64 // NaN: there is none
	}
	none := math.NaN()
	for name, steps := range map[string][]step{
		"the first value has no rate":          {{sec, 100, none}},
		"growth over time":                     {{sec, 100, none}, {3 * sec, 150, 25}, {4 * sec, 150, 0}},
		"less than a second":                   {{0, 0, none}, {sec / 4, 10, 40}},
		"a reset is unknown, not slow":         {{sec, 1000, none}, {2 * sec, 5, none}, {3 * sec, 45, 40}},
		"a reset to nothing is not a stall":    {{sec, 1000, none}, {2 * sec, 0, none}, {3 * sec, 0, 0}},
		"time that stands still":               {{sec, 1, none}, {sec, 2, none}, {2 * sec, 5, 4}},
		"time that goes back":                  {{2 * sec, 10, none}, {sec, 20, none}, {3 * sec, 30, 20}},
		"a value that is no number":            {{sec, 1, none}, {2 * sec, math.NaN(), none}, {3 * sec, 5, 2}},
		"an infinite value":                    {{sec, 1, none}, {2 * sec, math.Inf(1), none}, {3 * sec, 3, 1}},
		"times before the start of the clock":  {{-2 * sec, 1, none}, {-sec, 3, 2}},
		"the zero time is a time like another": {{0, 7, none}, {sec, 8, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var c Counter
			for i, s := range steps {
				got, ok := c.Rate(s.t, s.v)
				if want := !math.IsNaN(s.rate); ok != want || ok && got != s.rate {
					t.Errorf("step %d: %v %v, want %v", i, got, ok, s.rate)
				}
			}
		})
	}
}
