package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/stats"
)

// history is n figures around level with a spread of 3 %.
func history(rng *rand.Rand, n int, level func(i int) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1000 * level(i) * (1 + 0.03*rng.NormFloat64())
	}
	return x
}

func flat(int) float64 { return 1 }

func changes(t *testing.T, x []float64, significance float64, seed uint64) []stats.Change {
	t.Helper()
	found, err := stats.ChangePoints(x, significance, seed)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestChangePointsSayWhereAndHowMuch(t *testing.T) {
	x := []float64{10, 11, 9, 10, 11, 9, 10, 10, 20, 21, 19, 20, 20, 21, 19, 20, 5, 6, 4, 5, 5, 6, 4, 5}
	got := changes(t, x, 0.01, 1)
	want := []stats.Change{
		{At: 8, Before: 10, After: 20, P: 0.001},
		{At: 16, Before: 20, After: 5, P: 0.001},
	}
	if len(got) == 2 { // P is one in a thousand or little more
		for i := range got {
			if got[i].P < 0.001 || got[i].P > 0.01 {
				t.Errorf("p = %v", got[i].P)
			}
			got[i].P = 0.001
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A fall of 4 % is one and a third times the spread of one run: no single run
// shows it.
func TestChangePointsFindAFallInsideTheNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const played = 30
	var steps, near, slides int
	for i := range played {
		fell := changes(t, history(rng, 40, func(i int) float64 { return 1 - 0.04*float64(i/20) }), 0.05, uint64(i))
		if len(fell) > 0 {
			steps++
			if math.Abs(float64(fell[0].At-20)) <= 4 && fell[0].After < fell[0].Before {
				near++
			}
		}
		if len(changes(t, history(rng, 40, func(i int) float64 { return 1 - 0.04*min(1, max(0, float64(i-10)/20)) }), 0.05, uint64(i))) > 0 {
			slides++
		}
	}
	t.Logf("of %d: %d steps of 4%% found, %d within four runs of their place; %d slides over twenty runs found", played, steps, near, slides)
	if steps < 26 || near < 18 || slides < 20 {
		t.Errorf("of %d: %d steps of 4%% found, %d within four runs of their place; %d slides over twenty runs found", played, steps, near, slides)
	}
}

func TestChangePointsRarelySeeOneInNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, n := range []int{5, 12, 40} {
		for _, significance := range []float64{0.01, 0.05} {
			const played = 120
			seen := 0
			for i := range played {
				if len(changes(t, history(rng, n, flat), significance, uint64(i))) > 0 {
					seen++
				}
			}
			t.Logf("%d values at %v: %d of %d", n, significance, seen, played)
			// Three standard errors above the promise.
			if most := played*significance + 3*math.Sqrt(played*significance); float64(seen) > most {
				t.Errorf("%d values at %v: %d of %d histories of noise have a change", n, significance, seen, played)
			}
		}
	}
}

func TestChangePointsOfHistoriesWithoutOne(t *testing.T) {
	for name, x := range map[string][]float64{
		"none":                  nil,
		"too short to split":    {1, 1, 9},
		"all equal":             {7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
		"one that stands out":   {7, 7.1, 6.9, 7, 7.1, 6.9, 70, 7, 7.1, 6.9, 7, 7.1},
		"too few to be sure of": {1, 1, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changes(t, x, 0.01, 1); got != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A shuffle puts one value at an end in 2 of 40 ways: a stretch of one would be
// rare enough here.
func TestChangePointsAreNotOneLastValue(t *testing.T) {
	x := history(rand.New(rand.NewPCG(3, 3)), 40, flat)
	x[39] = 500
	if got := changes(t, x, 0.06, 1); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestChangePointsRefuseWhatIsNoHistory(t *testing.T) {
	good := []float64{1, 2, 1, 2, 9, 8, 9, 8}
	for name, c := range map[string]struct {
		x            []float64
		significance float64
		want         string
	}{
		"a value that is none":     {[]float64{1, nan, 2, 3}, 0.05, "value 1 of the history is NaN"},
		"an infinite value":        {[]float64{1, 2, 3, -inf}, 0.05, "value 3 of the history is -Inf"},
		"more than can be shown":   {good, 1e-4, "significance 0.0001: want at least 0.001 and less than 1"},
		"no significance":          {good, 0, "significance 0: want at least 0.001 and less than 1"},
		"any significance":         {good, 1, "significance 1: want at least 0.001 and less than 1"},
		"significance that is nan": {good, nan, "significance NaN: want at least 0.001 and less than 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := stats.ChangePoints(c.x, c.significance, 1); got != nil || err == nil || err.Error() != c.want {
				t.Errorf("%+v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestChangePointsTakeTheirSeed(t *testing.T) {
	x := history(rand.New(rand.NewPCG(2, 2)), 40, func(i int) float64 { return 1 - 0.04*float64(i/20) })
	first := changes(t, x, 0.05, 1)
	if diff := cmp.Diff(first, changes(t, x, 0.05, 1)); diff != "" || len(first) == 0 {
		t.Errorf("%+v: %s", first, diff)
	}
}

func BenchmarkChangePoints500(b *testing.B) {
	x := history(rand.New(rand.NewPCG(2, 2)), 500, func(i int) float64 { return 1 - 0.04*float64(i/250) })
	for b.Loop() {
		if _, err := stats.ChangePoints(x, 0.01, 1); err != nil {
			b.Fatal(err)
		}
	}
}
