package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"aicr/internal/stats"

	"pgregory.net/rapid"
)

// times are so many seconds.
func times(n int) []float64 {
	t := make([]float64, n)
	for i := range t {
		t[i] = float64(i)
	}
	return t
}

// noisy is about so high everywhere.
func noisy(n int, about, by float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = about + by*(2*rng.Float64()-1)
	}
	return v
}

func TestADipOfASecondSurvivesThinning(t *testing.T) {
	const n = 3000
	for _, dip := range []int{1, 2, 777, 1500, 2222, 2997, 2998} {
		for _, most := range []int{60, 250, 1500} {
			rate := noisy(n, 8000, 400, uint64(dip))
			rate[dip] = 0
			running := noisy(n, 64, 3, 2)
			waiting := make([]float64, n)
			picked := stats.LTTB(times(n), [][]float64{running, waiting, rate}, most)
			if !slices.Contains(picked, dip) {
				t.Errorf("of %d points, the dip at %d is not one", most, dip)
			}
		}
	}
}

func TestASpikeOfOneRowSurvivesBesideOthers(t *testing.T) {
	const n = 3000
	rows := [][]float64{noisy(n, 1e6, 10, 1), noisy(n, 1e-3, 1e-5, 2), noisy(n, 50, 1, 3)}
	rows[0][100], rows[1][1000], rows[2][2000] = 1e6+200, 2e-3, 70
	picked := stats.LTTB(times(n), rows, 100)
	for _, spike := range []int{100, 1000, 2000} {
		if !slices.Contains(picked, spike) {
			t.Errorf("the spike at %d is not there", spike)
		}
	}
}

func TestThinnedPointsAreSomeOfAllInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 200).Draw(t, "n"), rapid.IntRange(-1, 250).Draw(t, "most")
		value := rapid.OneOf(rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 0}))
		rows := make([][]float64, rapid.IntRange(0, 3).Draw(t, "rows"))
		for i := range rows {
			rows[i] = rapid.SliceOfN(value, n, n).Draw(t, "row")
		}
		picked := stats.LTTB(times(n), rows, most)
		if len(picked) != max(0, min(n, most)) {
			t.Fatalf("%d of %d points; want %d", len(picked), n, most)
		}
		for i, k := range picked {
			if k < 0 || k >= n || i > 0 && k <= picked[i-1] {
				t.Fatalf("%v", picked)
			}
		}
		if len(picked) >= 2 && (picked[0] != 0 || picked[len(picked)-1] != n-1) {
			t.Fatalf("%v: the first and the last of %d must stay", picked, n)
		}
	})
}

func TestWhatIsNotKnownDoesNotHideWhatIs(t *testing.T) {
	const n = 1000
	rate := noisy(n, 100, 1, 5)
	for k := range rate {
		if k%3 == 0 || k > 300 && k < 400 {
			rate[k] = math.NaN()
		}
	}
	rate[700], rate[401] = 0, 0
	unknown := make([]float64, n)
	for k := range unknown {
		unknown[k] = math.NaN()
	}
	picked := stats.LTTB(times(n), [][]float64{unknown, rate}, 50)
	for _, dip := range []int{401, 700} {
		if !slices.Contains(picked, dip) {
			t.Errorf("the dip at %d is not there", dip)
		}
	}
}
