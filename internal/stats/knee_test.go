package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"aicr/internal/stats"
)

// The first rows are kneed 0.9's answers for the same points (Python, the
// reference that the paper's readers use; its curves are the paper's).
func TestKneedleFindsTheBend(t *testing.T) {
	var paperX, paperY, lineY, levels []float64
	for i := range 10 {
		x := float64(i) / 9
		paperX, paperY, lineY = append(paperX, x), append(paperY, 5-1/(x+0.1)), append(lineY, 3*x+1)
	}
	for n := 8.0; n <= 1024; n *= 2 {
		levels = append(levels, n)
	}
	scaled := func(sigma, kappa float64) (y []float64) {
		for _, n := range levels {
			y = append(y, stats.USL{Lambda: 230, Sigma: sigma, Kappa: kappa}.At(n))
		}
		return y
	}
	bumps := []float64{0, 10, 19, 27, 20, 34, 40, 44, 46, 47, 47.5, 47.2}
	count := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for name, c := range map[string]struct {
		x, y        []float64
		sensitivity float64
		at          float64 // NaN: none
	}{
		"the paper's second figure":     {paperX, paperY, 1, 2. / 9},
		"a late knee":                   {levels, scaled(0.001, 1e-6), 1, 512},
		"a late knee, more flat wanted": {levels, scaled(0.001, 1e-6), 3, nan},
		"an early knee":                 {levels, scaled(0.01, 1e-6), 1, 256},
		"an early knee, more flat":      {levels, scaled(0.01, 1e-6), 3, 256},
		"a curve that never falls":      {levels, scaled(0.02, 0), 1, 256},
		"a dip is a bend":               {count, bumps, 2, 4},
		"a dip too small":               {count, bumps, 5, nan},

		"a dip that the curve outgrows":  {[]float64{0, 1, 2, 3, 4, 5, 6}, []float64{0, 26.7, 53.3, 60, 96.7, 98.3, 100}, 1, 4},
		"a lower bump on the way down":   {[]float64{0, 1, 2, 3, 4, 5, 6}, []float64{0, 60, 75, 92, 95, 98, 100}, 1, 1},
		"a straight line":                {paperX, lineY, 1, nan},
		"a curve that bends up":          {[]float64{0, 1, 2, 3}, []float64{0, 1, 4, 9}, 1, nan},
		"two points":                     {[]float64{0, 1}, []float64{0, 1}, 1, nan},
		"no points":                      {nil, nil, 1, nan},
		"a y too few":                    {[]float64{0, 1, 2}, []float64{0, 1}, 1, nan},
		"x that stands":                  {[]float64{0, 1, 1, 2}, []float64{0, 8, 9, 10}, 1, nan},
		"y that stands":                  {[]float64{0, 1, 2}, []float64{5, 5, 5}, 1, nan},
		"a y that is no number":          {[]float64{0, 1, 2, 3}, []float64{0, 9, nan, 10}, 1, nan},
		"an infinite x":                  {[]float64{0, 1, 2, inf}, []float64{0, 9, 9.5, 10}, 1, nan},
		"a negative sensitivity":         {paperX, paperY, -1, nan},
		"a sensitivity that is none":     {paperX, paperY, nan, nan},
		"a curve that falls after a top": {[]float64{1, 2, 4, 8, 16}, []float64{10, 19, 30, 28, 20}, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			at, ok := stats.Kneedle(c.x, c.y, c.sensitivity)
			if !near(at, c.at) || ok == math.IsNaN(c.at) {
				t.Errorf("%v %v, want %v", at, ok, c.at)
			}
		})
	}
}

// The expected parameters are those of scipy 1.17.1's least_squares (method "lm")
// with parameters scaled to near one; without sigma or kappa where it is negative
// when free.
func TestFitUSLIsLeastSquares(t *testing.T) {
	for name, c := range map[string]struct {
		n, x []float64
		want stats.USL
	}{
		"a curve that falls at the end": {
			[]float64{1, 18, 36, 72, 108, 144, 216}, []float64{20, 350, 560, 850, 970, 1030, 1010},
			stats.USL{Lambda: 22.00309267364354, Sigma: 0.009759079728103318, Kappa: 3.424709456288286e-05},
		},
		"a sweep that starts at eight": {
			[]float64{8, 16, 32, 64, 128, 256, 512, 1024}, []float64{1900, 3700, 7100, 13200, 22900, 36100, 50400, 58900},
			stats.USL{Lambda: 236.92853648515427, Sigma: 0.002487966952124658, Kappa: 5.455600489230458e-07},
		},
		"nearly straight: no kappa": {
			[]float64{1, 2, 4, 8, 16, 32}, []float64{10, 20.5, 40.2, 80.9, 160.3, 321},
			stats.USL{Lambda: 10.06062306019738, Sigma: 0.00010208512685144461, Kappa: 0},
		},
		"points that obey no law": { // a whole step of Newton's goes too far here
			[]float64{1, 2, 4, 8, 16, 32, 64}, []float64{64, 223, 205, 715, 3137, 442, 333},
			stats.USL{Lambda: 194.01289131311202, Sigma: 0, Kappa: 0.004023092583464257},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stats.FitUSL(c.n, c.x)
			if err != nil {
				t.Fatal(err)
			}
			off := func(a, b float64) bool { return math.Abs(a-b) > 1e-6*b }
			if off(got.Lambda, c.want.Lambda) || off(got.Sigma, c.want.Sigma) || off(got.Kappa, c.want.Kappa) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFitUSLFindsTheLawThatMadeThePoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, law := range []stats.USL{
		{Lambda: 230, Sigma: 0.002, Kappa: 5e-7},
		{Lambda: 230, Sigma: 0, Kappa: 1e-5},
		{Lambda: 0.01, Sigma: 0.3, Kappa: 0},
		{Lambda: 1e6, Sigma: 0, Kappa: 0},
		{Lambda: 50, Sigma: 0.9, Kappa: 1e-3},
	} {
		var n, exact, noisy []float64
		for v := 1.0; v <= 2048; v *= 2 {
			n, exact = append(n, v), append(exact, law.At(v))
			noisy = append(noisy, law.At(v)*math.Exp(0.01*rng.NormFloat64()))
		}
		if got, err := stats.FitUSL(n, exact); err != nil || math.Abs(got.At(700)/law.At(700)-1) > 1e-9 || math.Abs(got.At(1)/law.At(1)-1) > 1e-9 {
			t.Errorf("%+v was fitted as %+v %v", law, got, err)
		}
		got, err := stats.FitUSL(n, noisy)
		if err != nil || got.Lambda <= 0 || got.Sigma < 0 || got.Kappa < 0 {
			t.Fatalf("%+v was fitted as %+v %v", law, got, err)
		}
		if math.Abs(got.At(700)/law.At(700)-1) > 0.03 {
			t.Errorf("with noise %+v was fitted as %+v", law, got)
		}
		// Least: no neighbour does better.
		sum := func(u stats.USL) (s float64) {
			for i := range n {
				s += (noisy[i] - u.At(n[i])) * (noisy[i] - u.At(n[i]))
			}
			return s
		}
		for _, f := range []float64{0.999, 1.001} {
			for _, other := range []stats.USL{
				{got.Lambda * f, got.Sigma, got.Kappa},
				{got.Lambda, got.Sigma * f, got.Kappa},
				{got.Lambda, got.Sigma, got.Kappa * f},
				{got.Lambda, got.Sigma + 1e-6, got.Kappa},
				{got.Lambda, got.Sigma, got.Kappa + 1e-9},
			} {
				if sum(other) < sum(got)*(1-1e-9) {
					t.Errorf("%+v fits better than %+v: %v, %v", other, got, sum(other), sum(got))
				}
			}
		}
	}
}

func TestFitUSLRefusesWhatIsNoSweep(t *testing.T) {
	four := []float64{1, 2, 4, 8}
	for name, c := range map[string]struct {
		n, x []float64
		want string
	}{
		"none":                     {nil, nil, "0 different loads: want at least 4"},
		"three":                    {four[:3], four[:3], "3 different loads: want at least 4"},
		"one load over again":      {[]float64{1, 2, 4, 4}, four, "3 different loads: want at least 4"},
		"a throughput too few":     {four, four[:3], "4 loads and 3 throughputs"},
		"less than one user":       {[]float64{0.5, 2, 4, 8}, four, "level 0: throughput 1 of 0.5 users: want more than 0 of at least 1"},
		"a level that gave none":   {four, []float64{1, 2, 0, 8}, "level 2: throughput 0 of 4 users: want more than 0 of at least 1"},
		"a throughput of no value": {four, []float64{1, nan, 4, 8}, "level 1: throughput NaN of 2 users: want more than 0 of at least 1"},
		"infinitely many users":    {[]float64{1, 2, 4, inf}, four, "level 3: throughput 8 of +Inf users: want more than 0 of at least 1"},
		"a fall past the law":      {[]float64{8, 16, 32, 64}, []float64{900, 200, 40, 8}, "throughput falls more steeply than the scalability law can"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := stats.FitUSL(c.n, c.x); err == nil || err.Error() != c.want || got != (stats.USL{}) {
				t.Errorf("%+v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestUSLPeaks(t *testing.T) {
	for name, c := range map[string]struct {
		law  stats.USL
		want float64
	}{
		"by its formula":        {stats.USL{Lambda: 1, Sigma: 0.19, Kappa: 1e-4}, 90},
		"never without kappa":   {stats.USL{Lambda: 1, Sigma: 0.19}, inf},
		"at one where σ is one": {stats.USL{Lambda: 1, Sigma: 1}, 1},
		"at one with great κ":   {stats.USL{Lambda: 1, Kappa: 4}, 1},
		"a negative σ":          {stats.USL{Lambda: 1, Sigma: -0.1, Kappa: 1e-4}, nan},
		"a κ that is none":      {stats.USL{Lambda: 1, Sigma: 0.1, Kappa: nan}, nan},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.law.Peak()
			if !near(got, c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			if got > 1 && !math.IsInf(got, 1) && (c.law.At(got*1.01) >= c.law.At(got) || c.law.At(got/1.01) >= c.law.At(got)) {
				t.Errorf("%v is no peak", got)
			}
		})
	}
	if got := (stats.USL{Lambda: 1}).At(0.5); !math.IsNaN(got) {
		t.Errorf("half a user gets %v", got)
	}
}
