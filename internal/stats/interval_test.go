package stats_test

import (
	"math"
	"testing"

	"aicr/internal/stats"
)

// ten is what ten batches of an episode may look like.
var ten = []float64{117.2, 121.9, 114.4, 118.8, 120.1, 116.3, 119.5, 122.7, 115.0, 118.1}

// The bounds are scipy 1.17.1's: stats.t.interval over sem(x), and t.ppf for two
// values, whose half width is t times half their distance.
func TestMeanIntervalIsStudents(t *testing.T) {
	for name, c := range map[string]struct {
		x               []float64
		confidence      float64
		mean, low, high float64
	}{
		"ten batches":             {ten, 0.95, 118.4, 116.42645603742308, 120.37354396257693},
		"ten, surer":              {ten, 0.99, 118.4, 115.56478880514935, 121.23521119485066},
		"two":                     {[]float64{10, 12}, 0.95, 11, 11 - 12.706204736174694, 11 + 12.706204736174694},
		"two, very sure":          {[]float64{10, 12}, 0.999, 11, 11 - 636.6192487687897, 11 + 636.6192487687897},
		"no spread":               {[]float64{3, 3, 3}, 0.95, 3, 3, 3},
		"one has no interval":     {[]float64{7}, 0.95, 7, nan, nan},
		"none":                    {nil, 0.95, nan, nan, nan},
		"one that is no number":   {[]float64{1, nan, 2}, 0.95, nan, nan, nan},
		"an infinite one":         {[]float64{1, inf, 2}, 0.95, nan, nan, nan},
		"certainty":               {ten, 1, 118.4, nan, nan},
		"confidence that is none": {ten, nan, 118.4, nan, nan},
	} {
		t.Run(name, func(t *testing.T) {
			mean, low, high := stats.MeanInterval(c.x, c.confidence)
			if !near(mean, c.mean) || !near(low, c.low) || !near(high, c.high) {
				t.Errorf("%v in %v to %v, want %v in %v to %v", mean, low, high, c.mean, c.low, c.high)
			}
		})
	}
}

// The bounds of two are by hand: the mean over and times exp(t·d/2), where d is the distance of their
// logarithms and t scipy 1.17.1's t.ppf(0.975, 1).
func TestAnIntervalOfPositiveValuesHasNoBoundBelow0(t *testing.T) {
	of948 := math.Exp(12.706204736174694 * math.Log(1254.0/948) / 2)
	for name, c := range map[string]struct {
		x               []float64
		mean, low, high float64
	}{
		"two that differ":          {[]float64{948, 1254}, 1101, 1101 / of948, 1101 * of948},
		"no spread":                {[]float64{3, 3, 3}, 3, 3, 3},
		"one has no interval":      {[]float64{7}, 7, nan, nan},
		"none":                     {nil, nan, nan, nan},
		"nothing in one of two":    {[]float64{0, 12}, 6, 0, 6 + 6*12.706204736174694},
		"nothing in both":          {[]float64{0, 0}, 0, 0, 0},
		"one below 0":              {[]float64{-1, 12}, nan, nan, nan},
		"one that is no number":    {[]float64{1, nan, 2}, nan, nan, nan},
		"one that has no end":      {[]float64{1, inf, 2}, nan, nan, nan},
		"more than can be written": {[]float64{1e-300, 1e300}, 5e299, 0, inf},
	} {
		t.Run(name, func(t *testing.T) {
			mean, low, high := stats.PositiveMeanInterval(c.x, 0.95)
			if !near(mean, c.mean) || !near(low, c.low) || !near(high, c.high) {
				t.Errorf("%v in %v to %v, want %v in %v to %v", mean, low, high, c.mean, c.low, c.high)
			}
		})
	}
}

// The bounds are those of scipy 1.17.1's binomtest(k, n).proportion_ci(method="exact").
func TestClopperPearsonIsExact(t *testing.T) {
	for name, c := range map[string]struct {
		k, n                  int
		confidence, low, high float64
	}{
		"the stalls of EKS":       {6, 24, 0.95, 0.0977304094745333, 0.46711280242266945},
		"none of four":            {0, 4, 0.95, 0, 0.6023646356164858},
		"all of twelve":           {12, 12, 0.95, 0.7353515306029488, 1},
		"none of 59":              {0, 59, 0.95, 0, 0.060608900950339835},
		"all but one of twenty":   {19, 20, 0.95, 0.7512672372279723, 0.998734910502044},
		"one of many, surer":      {1, 380, 0.99, 1.3190812536107532e-05, 0.019388373129947182},
		"half of many":            {190, 380, 0.95, 0.4485819720732516, 0.5514180279267483},
		"one trial":               {0, 1, 0.9, 0, 0.95},
		"no trial":                {0, 0, 0.95, nan, nan},
		"more than were tried":    {5, 4, 0.95, nan, nan},
		"fewer than none":         {-1, 4, 0.95, nan, nan},
		"no confidence":           {1, 4, 0, nan, nan},
		"confidence that is none": {1, 4, nan, nan, nan},
	} {
		t.Run(name, func(t *testing.T) {
			if low, high := stats.ClopperPearson(c.k, c.n, c.confidence); !near(low, c.low) || !near(high, c.high) {
				t.Errorf("%v to %v, want %v to %v", low, high, c.low, c.high)
			}
		})
	}
}

// Bounds by their definition: with the low one as the true share, k or more come
// with the chance of a tail; with the high one, k or fewer.
func TestClopperPearsonLeavesATailOnEitherSide(t *testing.T) {
	const tail = 0.025
	chance := func(n, from, to int, p float64) (sum float64) {
		for k := from; k <= to; k++ {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(k + 1))
			c, _ := math.Lgamma(float64(n - k + 1))
			sum += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		}
		return sum
	}
	for n := 1; n <= 120; n += 7 {
		for k := range n + 1 {
			low, high := stats.ClopperPearson(k, n, 1-2*tail)
			if k > 0 && math.Abs(chance(n, k, n, low)-tail) > 1e-6 || k < n && math.Abs(chance(n, 0, k, high)-tail) > 1e-6 {
				t.Errorf("%d of %d: %v to %v", k, n, low, high)
			}
		}
	}
}

// The figures are scipy 1.17.1's gamma(n+0.5, scale=1/t): mean, ppf and isf.
func TestGammaRateIsThePosterior(t *testing.T) {
	for name, c := range map[string]struct{ n, t, confidence, mean, low, high float64 }{
		"no stall in five episodes":  {0, 4.1, 0.95, 0.12195121951219513, 0, 0.612669047233523},
		"one in eleven":              {1, 8.5, 0.95, 0.1764705882352941, 0.01269384015434694, 0.5499060943821263},
		"two":                        {2, 4.6, 0.95, 0.5434782608695653, 0.09034908842246338, 1.3948371732641336},
		"some remembered":            {2.5, 10, 0.9, 0.30000000000000004, 0.08176914471639533, 0.629579362187199},
		"half a minute, surer":       {0, 0.5, 0.99, 1, 0, 7.879438576622417},
		"many":                       {40, 30, 0.95, 1.35, 0.9666402754566573, 1.7963901610889084},
		"very many":                  {500, 3, 0.95, 166.83333333333331, 152.5355552034069, 181.76245598312715},
		"a quarter, very sure":       {0.25, 7, 0.999, 0.10714285714285714, 5.065988249212465e-06, 0.9833726022956506},
		"a negative count":           {-1, 4, 0.95, nan, nan, nan},
		"a count that is none":       {nan, 4, 0.95, nan, nan, nan},
		"no time":                    {0, 0, 0.95, nan, nan, nan},
		"an infinite time":           {0, inf, 0.95, nan, nan, nan},
		"certainty has no interval":  {1, 2, 1, 0.75, nan, nan},
		"negative confidence":        {1, 2, -0.95, 0.75, nan, nan},
		"confidence that is no such": {1, 2, nan, 0.75, nan, nan},
	} {
		t.Run(name, func(t *testing.T) {
			mean, low, high := stats.GammaRate(c.n, c.t, c.confidence)
			if !near(mean, c.mean) || !near(low, c.low) || !near(high, c.high) {
				t.Errorf("%v in %v to %v, want %v in %v to %v", mean, low, high, c.mean, c.low, c.high)
			}
		})
	}
}

// A figure with more than nine digits would show the last bits of a processor.
func TestFiguresFromALogarithmHaveNineDigits(t *testing.T) {
	low, high := stats.ClopperPearson(6, 24, 0.95)
	_, rateLow, rateHigh := stats.GammaRate(1, 8.5, 0.95)
	boundLow, boundHigh := stats.SPRTBounds(0.05, 0.05)
	for _, v := range []float64{low, high, rateLow, rateHigh, boundLow, boundHigh,
		stats.NormalStep(0.01, 0.92, 0.8, 0.05), stats.PoissonLLR(1, 3.3, 1./30, 0.75)} {
		digits := math.Pow(10, 8-math.Floor(math.Log10(math.Abs(v))))
		if whole := v * digits; math.Abs(whole-math.Round(whole)) > 1e-5 {
			t.Errorf("%v has more than nine digits", v)
		}
	}
}

// By hand: the squares about both means sum to 12 over 5 degrees of freedom, and the
// 97.5 % point of t with 5 is 2.5705818 (any table).
func TestMeanDifferencePoolsTheSpread(t *testing.T) {
	x, y := []float64{10, 12, 11}, []float64{14, 13, 17, 16}
	for name, c := range map[string]struct {
		x, y                  []float64
		difference, low, high float64
	}{
		"three and four":        {x, y, 4, 4 - 3.0415534, 4 + 3.0415534},
		"none":                  {nil, y, nan, nan, nan},
		"one has no spread":     {x, y[:1], 3, nan, nan},
		"one that is no number": {[]float64{1, nan}, y, nan, nan, nan},
	} {
		t.Run(name, func(t *testing.T) {
			d, low, high := stats.MeanDifference(c.x, c.y, 0.95)
			if !near(d, c.difference) || math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 || math.IsNaN(low) != math.IsNaN(c.low) {
				t.Errorf("%v in %v to %v, want %v in %v to %v", d, low, high, c.difference, c.low, c.high)
			}
		})
	}
}
