package stats_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"aicr/internal/stats"
)

type bits string

func (b bits) float(t *testing.T) float64 {
	t.Helper()
	u, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return math.Float64frombits(u)
}

// series is the Go twin of series in testdata/golden.py.
func series(n int) []float64 {
	state, out := uint64(n), make([]float64, n)
	for i := range out {
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
		z = (z ^ (z >> 27)) * 0x94D049BB133111EB
		u := float64((z^(z>>31))>>11) * 0x1p-53
		out[i] = u * u * u * 1e6
	}
	return out
}

func TestAgreesWithNumpyToTheLastBit(t *testing.T) {
	data, err := os.ReadFile("testdata/numpy.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Percentiles []float64
		Moments     []struct {
			N              int
			Sum, Mean, Std bits
		}
		Ranks []struct {
			N         int
			Linear    []bits
			FromBelow []bits `json:"from_below"`
			Nearest   []bits
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	check := func(what string, n int, got float64, want bits) {
		t.Helper()
		if w := want.float(t); got != w {
			t.Errorf("%s of %d values: %v, numpy says %v", what, n, got, w)
		}
	}
	for _, m := range golden.Moments {
		x := series(m.N)
		check("sum", m.N, stats.Sum(x), m.Sum)
		check("mean", m.N, stats.Mean(x), m.Mean)
		check("std", m.N, stats.Std(x), m.Std)
	}
	for _, r := range golden.Ranks {
		x := series(r.N)
		slices.Sort(x)
		for i, p := range golden.Percentiles {
			check("percentile", r.N, stats.Percentile(x, p), r.Linear[i])
			check("percentile from below", r.N, stats.PercentileFromBelow(x, p), r.FromBelow[i])
			check("nearest percentile", r.N, stats.PercentileNearest(x, p), r.Nearest[i])
		}
	}
	if len(golden.Moments) == 0 || len(golden.Ranks) == 0 {
		t.Error("the golden file is empty")
	}
}

func TestNothingMeasuredIsNotANumber(t *testing.T) {
	for name, got := range map[string]float64{
		"mean": stats.Mean(nil), "std": stats.Std(nil), "percentile": stats.Percentile(nil, 50),
		"from below": stats.PercentileFromBelow(nil, 50), "nearest": stats.PercentileNearest(nil, 50),
		"with failures": stats.WithFailures(nil, 0, 50),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s of nothing is %v", name, got)
		}
	}
}

func TestEachFailureCountsAsInfinity(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		x        []float64
		failures int
		p, want  float64
	}{
		{"none failed", []float64{1, 2, 3}, 0, 50, 2},
		{"the failure is above the median", []float64{1, 2, 3}, 2, 50, 3},
		{"the median leans on a failure", []float64{1, 2, 3}, 3, 50, inf},
		{"the tail is the failure", []float64{1, 2, 3}, 1, 99, inf},
		{"nothing but failures", nil, 4, 1, inf},
		{"one in a hundred and one leaves p99 alone", make([]float64, 100), 1, 99, 0},
	} {
		if got := stats.WithFailures(c.x, c.failures, c.p); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFailuresNeverImproveAPercentile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 50).Draw(t, "x")
		slices.Sort(x)
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		failures := rapid.IntRange(0, 50).Draw(t, "failures")
		plain, with := stats.WithFailures(x, 0, p), stats.WithFailures(x, failures, p)
		if plain != stats.Percentile(x, p) {
			t.Fatalf("without failures %v, Percentile says %v", plain, stats.Percentile(x, p))
		}
		if more := stats.WithFailures(x, failures+1, p); more < with {
			t.Fatalf("one more failure improved p%v from %v to %v", p, with, more)
		}
	})
}
