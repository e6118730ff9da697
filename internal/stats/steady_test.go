package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"aicr/internal/stats"
)

// steps gives runs of values: a count, then a value, then a count.
func steps(runs ...float64) (x []float64) {
	for i := 0; i < len(runs); i += 2 {
		x = append(x, slices.Repeat([]float64{runs[i+1]}, int(runs[i]))...)
	}
	return x
}

// wave is a steady series that never quite repeats.
func wave(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 100 + 3*math.Sin(float64(i*i))
	}
	return x
}

func TestMSERCutsTheTransient(t *testing.T) {
	ramp := wave(60)
	for i := range 10 {
		ramp[i] -= 80 * float64(10-i) / 10
	}
	for name, c := range map[string]struct {
		x    []float64
		most int
		cut  int
		ok   bool
	}{
		"a step after a batch":              {steps(5, 10, 45, 100), 20, 5, true},
		"a step within a batch":             {steps(7, 10, 43, 100), 20, 10, true},
		"a ramp":                            {ramp, 20, 10, true},
		"nothing to cut":                    {steps(50, 100), 10, 0, true},
		"a leftover that fills no batch":    {append(steps(5, 10, 45, 100), 1, 1), 20, 5, true},
		"a transient longer than may be":    {steps(30, 10, 70, 100), 20, 0, false},
		"still rising at the end":           {steps(10, 1, 10, 2, 10, 3, 10, 4, 10, 5), 10, 0, false},
		"a least at the very last place":    {steps(10, 10, 40, 100), 10, 0, false},
		"half the series is the most":       {steps(25, 10, 25, 100), 50, 0, false},
		"nowhere to look":                   {steps(50, 100), 4, 0, false},
		"a negative most":                   {steps(50, 100), -5, 0, false},
		"four batches are too few":          {steps(5, 10, 19, 100), 10, 0, false},
		"none":                              {nil, 10, 0, false},
		"a value that is no number":         {append(steps(5, 10, 45, 100), nan), 20, 0, false},
		"an infinite value":                 {append(steps(5, 10, 44, 100), inf), 20, 0, false},
		"a late dip is not for MSER to cut": {steps(40, 100, 5, 10, 55, 100), 20, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			if cut, ok := stats.MSER5(c.x, c.most); cut != c.cut || ok != c.ok {
				t.Errorf("%d %v, want %d %v", cut, ok, c.cut, c.ok)
			}
		})
	}
}

// The rule by its formula, in one sum over the batch means.
func TestMSERIsLeastWhereItCuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	steady := 0
	for range 300 {
		x := make([]float64, 100)
		for i := range x {
			x[i] = 100 + 5*rng.NormFloat64() - 60*math.Exp(-float64(i)/5)
		}
		best, least := 0, math.Inf(1)
		for d := 0; d <= 8; d++ {
			var sum, squares float64
			for b := d; b < 20; b++ {
				m := (x[5*b] + x[5*b+1] + x[5*b+2] + x[5*b+3] + x[5*b+4]) / 5
				sum += m
				squares += m * m
			}
			n := float64(20 - d)
			if e := (squares - sum*sum/n) / (n * n); e < least {
				best, least = d, e
			}
		}
		cut, ok := stats.MSER5(x, 40)
		if ok != (best < 8) || ok && cut != 5*best {
			t.Fatalf("%d %v, want %d of 8 batches", cut, ok, best)
		}
		if ok {
			steady++
		}
	}
	if steady < 200 {
		t.Errorf("only %d of 300 series came to rest", steady)
	}
}

// The expected values are sums done by hand.
func TestLag1IsTheAutocorrelation(t *testing.T) {
	for name, c := range map[string]struct {
		x    []float64
		want float64
	}{
		"a slope":                 {[]float64{1, 2, 3, 4, 5}, 0.4},               // (2+0+0+2)/10
		"to and fro":              {[]float64{1, -1, 1, -1}, -0.75},              // -3/4
		"pairs":                   {[]float64{1, 1, -1, -1, 1, 1, -1, -1}, .125}, // (4-3)/8
		"the mean is taken off":   {[]float64{101, 102, 103, 104, 105}, 0.4},
		"two are too few":         {[]float64{1, 2}, nan},
		"all equal":               {[]float64{7, 7, 7, 7}, nan},
		"one that is no number":   {[]float64{1, nan, 2, 3}, nan},
		"one that is infinite":    {[]float64{1, inf, 2, 3}, nan},
		"none":                    {nil, nan},
		"one far from the others": {[]float64{0, 0, 0, 4}, 1. / 12 * (1 + 1 - 3)}, // mean 1
	} {
		t.Run(name, func(t *testing.T) {
			if got := stats.Lag1(c.x); !near(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
