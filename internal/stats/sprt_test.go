package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"aicr/internal/stats"
)

// near is true when two figures agree to a relative 1e-7, or both are NaN.
func near(got, want float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) || want == 0 {
		return got == want || math.IsNaN(got) && math.IsNaN(want)
	}
	return math.Abs(got-want) <= 1e-7*math.Abs(want)
}

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestSPRTBoundsAreWalds(t *testing.T) {
	for name, c := range map[string]struct{ alpha, beta, low, high float64 }{
		"one in a hundred each way": {0.01, 0.01, -math.Log(99), math.Log(99)},
		"one in twenty each way":    {0.05, 0.05, -math.Log(19), math.Log(19)},
		"the two errors differ":     {0.01, 0.1, math.Log(10. / 99), math.Log(90)},
		"no error is allowed":       {0, 0.05, nan, nan},
		"errors that leave nothing": {0.5, 0.5, nan, nan},
		"an error that is none":     {nan, 0.05, nan, nan},
		"a negative error":          {0.05, -0.05, nan, nan},
	} {
		t.Run(name, func(t *testing.T) {
			if low, high := stats.SPRTBounds(c.alpha, c.beta); !near(low, c.low) || !near(high, c.high) {
				t.Errorf("%v, %v; want %v, %v", low, high, c.low, c.high)
			}
		})
	}
}

// The step is checked against the two densities that it is the ratio of.
func TestNormalStepIsTheRatioOfTwoDensities(t *testing.T) {
	const sigma = 0.05
	logDensity := func(y, mean float64) float64 { return -(y - mean) * (y - mean) / (2 * sigma * sigma) }
	for _, ratio := range []float64{0.5, 0.8, 0.86, 0.92, 1, 1.18} {
		y := math.Log(ratio)
		want := logDensity(y, math.Log(0.8)) - logDensity(y, math.Log(0.92))
		if got := stats.NormalStep(y, 0.92, 0.8, sigma); !near(got, want) {
			t.Errorf("ratio %v: %v, want %v", ratio, got, want)
		}
	}
}

// The expected figures are the published ones of shared/verdict.md 2.5, to the
// digits given there.
func TestSequentialTestsTakeTheStepsOfTheDesign(t *testing.T) {
	const ok, bad = 1. / 30, 0.75
	for name, c := range map[string]struct{ got, want, within float64 }{
		"a healthy episode":                   {stats.NormalStep(0, 0.92, 0.80, 0.05), -8.6, 0.05},
		"a stall":                             {stats.PoissonLLR(1, 0, ok, bad), 3.11, 0.005},
		"a minute without":                    {stats.PoissonLLR(0, 1, ok, bad), -0.717, 0.0005},
		"two stalls in 4.6 minutes are a bad": {stats.PoissonLLR(2, 4.6, ok, bad), 2.94, 0.02},
		"half a stall from before":            {stats.PoissonLLR(0.5, 0, ok, bad), 3.11 / 2, 0.005},
	} {
		t.Run(name, func(t *testing.T) {
			if !(math.Abs(c.got-c.want) <= c.within) {
				t.Errorf("%v, want %v", c.got, c.want)
			}
		})
	}
}

func TestSequentialTestsRefuseWhatIsNoInput(t *testing.T) {
	for name, got := range map[string]float64{
		"an observation that is none": stats.NormalStep(nan, 0.92, 0.8, 0.05),
		"an infinite observation":     stats.NormalStep(-inf, 0.92, 0.8, 0.05),
		"a good ratio of 0":           stats.NormalStep(0, 0, 0.8, 0.05),
		"a negative bad ratio":        stats.NormalStep(0, 0.92, -0.8, 0.05),
		"no spread":                   stats.NormalStep(0, 0.92, 0.8, 0),
		"a negative count":            stats.PoissonLLR(-1, 1, 0.1, 1),
		"a negative time":             stats.PoissonLLR(1, -1, 0.1, 1),
		"a time that is none":         stats.PoissonLLR(1, nan, 0.1, 1),
		"no rate that is ok":          stats.PoissonLLR(1, 1, 0, 1),
		"an infinite bad rate":        stats.PoissonLLR(1, 1, 0.1, inf),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Wald's promise: together the two errors are at most what was allowed for.
func TestSPRTKeepsItsErrors(t *testing.T) {
	const alpha, beta, sigma, played = 0.05, 0.05, 0.05, 4000
	low, high := stats.SPRTBounds(alpha, beta)
	rng := rand.New(rand.NewPCG(1, 2))
	wrong := func(truth float64, isWrong func(s float64) bool) float64 {
		n := 0
		for range played {
			s := 0.0
			for s > low && s < high {
				s += stats.NormalStep(math.Log(truth)+sigma*rng.NormFloat64(), 0.92, 0.80, sigma)
			}
			if isWrong(s) {
				n++
			}
		}
		return float64(n) / played
	}
	good := wrong(0.92, func(s float64) bool { return s >= high })
	bad := wrong(0.80, func(s float64) bool { return s <= low })
	if good+bad > alpha+beta || good == 0 || bad == 0 {
		t.Errorf("%v of the good and %v of the bad decided wrongly", good, bad)
	}
}
