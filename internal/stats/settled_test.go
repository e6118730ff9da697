package stats

import (
	"math"
	"testing"
)

func TestSettledHidesTheLastBits(t *testing.T) {
	for _, v := range []float64{math.Pi, -math.Pi, 1e-300 / 3, 1e300 / 3, 118.4, 2. / 3} {
		got := settled(v)
		if math.Abs(got-v) > 5.0001e-9*math.Abs(v) {
			t.Errorf("%v became %v", v, got)
		}
		for _, towards := range []float64{math.Inf(1), math.Inf(-1)} {
			if other := settled(math.Nextafter(v, towards)); other != got {
				t.Errorf("%v and its neighbour became %v and %v", v, got, other)
			}
		}
	}
	if got := settled(math.Pi); got != 3.14159265 {
		t.Errorf("π became %v", got)
	}
	for _, v := range []float64{0, math.Inf(1), math.Inf(-1)} {
		if got := settled(v); got != v {
			t.Errorf("%v became %v", v, got)
		}
	}
	if !math.IsNaN(settled(math.NaN())) {
		t.Error("no number became one")
	}
}
