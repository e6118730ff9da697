package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"aicr/internal/stats"
)

// ranks gives samples of n values each that are k values apart and no more: a's
// lowest k come first, then both take turns.
func ranks(n, k int) (a, b []float64) {
	v := 0.0
	next := func() float64 { v++; return v }
	for range k {
		a = append(a, next())
	}
	for range n - k {
		b = append(b, next())
		a = append(a, next())
	}
	for range k {
		b = append(b, next())
	}
	return a, b
}

// equalSizes is the formula of Gnedenko and Korolyuk (1951) for the chance that
// two samples of n come k/n apart or farther: paths counted by reflection, where
// the code under test walks them.
func equalSizes(n, k int) float64 {
	choose := func(r int) float64 { // of 2n, less the log of 2n over n
		whole, _ := math.Lgamma(float64(n + 1))
		low, _ := math.Lgamma(float64(r + 1))
		high, _ := math.Lgamma(float64(2*n - r + 1))
		return math.Exp(2*whole - low - high)
	}
	var p float64
	for j, sign := 1, 2.0; j*k <= n; j, sign = j+1, -sign {
		p += sign * choose(n-j*k)
	}
	return p
}

func TestKSOfEqualSizesIsTheClosedFormula(t *testing.T) {
	for _, n := range []int{1, 2, 5, 10, 37, 100, 400} {
		for k := 1; k <= n; k += 1 + n/25 {
			d, p := stats.KolmogorovSmirnov(ranks(n, k))
			if want := float64(k) / float64(n); math.Abs(d-want) > 1e-15 {
				t.Errorf("%d values each, %d apart: d = %v, want %v", n, k, d, want)
			}
			if want := equalSizes(n, k); math.Abs(p-want) > 1e-9*want {
				t.Errorf("%d values each, %d apart: p = %v, want %v", n, k, p, want)
			}
		}
	}
}

// dealt is p by its definition: every way to deal the pool out is tried.
func dealt(a, b []float64) float64 {
	pool := slices.Concat(a, b)
	apart := func(mask int) float64 {
		var d float64
		for _, v := range pool {
			var below [2]float64
			for i, w := range pool {
				if w <= v {
					below[mask>>i&1]++
				}
			}
			d = max(d, math.Abs(below[1]/float64(len(a))-below[0]/float64(len(b))))
		}
		return d
	}
	seen := apart(1<<len(a) - 1)
	var far, all float64
	for mask := range 1 << len(pool) {
		ones := 0
		for m := mask; m > 0; m &= m - 1 {
			ones++
		}
		if ones != len(a) {
			continue
		}
		all++
		if apart(mask) >= seen-1e-9 {
			far++
		}
	}
	return far / all
}

func TestKSIsTheShareOfAllDealsThatAreAsFarApart(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct{ a, b []float64 }{
		"one value each":             {[]float64{1}, []float64{2}},
		"the same value":             {[]float64{1}, []float64{1}},
		"apart altogether":           {[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}},
		"unequal sizes":              {[]float64{3, 1, 2}, []float64{2.5, 7, 4, 8, 9, 6}},
		"one against many":           {[]float64{0}, []float64{1, 2, 3, 4, 5, 6, 7, 8}},
		"ties within a sample":       {[]float64{1, 1, 1, 2, 5}, []float64{3, 3, 4, 4, 6}},
		"ties between the samples":   {[]float64{1, 1, 2, 2, 3, 3}, []float64{2, 2, 3, 3, 4, 4}},
		"almost nothing but ties":    {[]float64{0, 0, 0, 0, 1}, []float64{0, 0, 1, 1, 1, 1}},
		"nothing but ties":           {[]float64{7, 7, 7}, []float64{7, 7, 7, 7}},
		"infinities":                 {[]float64{-inf, 1, inf, inf}, []float64{-inf, -inf, 2, 3, inf}},
		"the farther sample is last": {[]float64{9, 8, 7, 1}, []float64{2, 3, 4, 5, 6}},
	} {
		_, p := stats.KolmogorovSmirnov(c.a, c.b)
		if want := dealt(c.a, c.b); math.Abs(p-want) > 1e-12 {
			t.Errorf("%s: p = %v, all deals say %v", name, p, want)
		}
	}
}

func TestKSTendsToKolmogorovsLimit(t *testing.T) {
	for _, k := range []int{50, 61, 73} {
		const n = 2000
		_, p := stats.KolmogorovSmirnov(ranks(n, k))
		x := float64(k) / n * math.Sqrt(n/2.0)
		var limit float64
		for j, sign := 1.0, 2.0; j < 10; j, sign = j+1, -sign {
			limit += sign * math.Exp(-2*j*j*x*x)
		}
		if math.Abs(p/limit-1) > 0.01 {
			t.Errorf("%d of %d apart: p = %v, the limit is %v", k, n, p, limit)
		}
	}
}

// draws are the p of so many pairs of samples, b shifted. Their sizes have no
// common factor, so that p takes many values.
func draws(times int, shift float64) []float64 {
	random := rand.New(rand.NewPCG(4, 2))
	p := make([]float64, times)
	for i := range p {
		a, b := make([]float64, 41), make([]float64, 60)
		for j := range a {
			a[j] = random.NormFloat64()
		}
		for j := range b {
			b[j] = random.NormFloat64() + shift
		}
		_, p[i] = stats.KolmogorovSmirnov(a, b)
	}
	return p
}

func share(p []float64, below float64) float64 {
	n := 0
	for _, v := range p {
		if v <= below {
			n++
		}
	}
	return float64(n) / float64(len(p))
}

func TestKSFindsAsManyDifferencesAsItSaysWhereThereAreNone(t *testing.T) {
	const times = 4000
	p := draws(times, 0)
	for _, level := range []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9} {
		deviations := 4 * math.Sqrt(level*(1-level)/times)
		if got := share(p, level); math.Abs(got-level) > deviations {
			t.Errorf("p is at most %v in %v of all cases", level, got)
		}
	}
}

func TestKSFindsTheDifferenceThatIsThere(t *testing.T) {
	if got := share(draws(400, 1), 0.05); got < 0.95 {
		t.Errorf("a shift by one standard deviation is found in %v of all cases", got)
	}
}

func TestKSDependsOnTheOrderOfTheValuesAlone(t *testing.T) {
	sample := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 30)
	rapid.Check(t, func(t *rapid.T) {
		a, b := sample.Draw(t, "a"), sample.Draw(t, "b")
		before := slices.Clone(a)
		d, p := stats.KolmogorovSmirnov(a, b)
		if !slices.Equal(a, before) {
			t.Fatal("the sample was changed")
		}
		if d < 0 || d > 1 || p <= 0 || p > 1 {
			t.Fatalf("d = %v, p = %v", d, p)
		}
		if d2, p2 := stats.KolmogorovSmirnov(b, a); d2 != d || math.Abs(p2-p) > 1e-12 {
			t.Fatalf("the other way round: d = %v, p = %v; were %v and %v", d2, p2, d, p)
		}
		doubled := func(x []float64) []float64 {
			y := slices.Clone(x)
			slices.Reverse(y)
			for i := range y {
				y[i] *= 2
			}
			return y
		}
		if d2, p2 := stats.KolmogorovSmirnov(doubled(a), doubled(b)); d2 != d || p2 != p {
			t.Fatalf("in another order and unit: d = %v, p = %v; were %v and %v", d2, p2, d, p)
		}
	})
}

func TestKSOfNothingIsNotANumber(t *testing.T) {
	one, nan := []float64{1}, []float64{1, math.NaN()}
	for name, c := range map[string][2][]float64{
		"none of the first": {nil, one}, "none of the second": {one, nil},
		"a NaN in the first": {nan, one}, "a NaN in the second": {one, nan},
	} {
		if d, p := stats.KolmogorovSmirnov(c[0], c[1]); !math.IsNaN(d) || !math.IsNaN(p) {
			t.Errorf("%s: d = %v, p = %v", name, d, p)
		}
	}
}
