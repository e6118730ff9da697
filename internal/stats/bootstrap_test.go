package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"aicr/internal/stats"
)

// seconds are fine blocks of n values each with a level that wanders slowly, so
// that neighbours resemble each other.
func seconds(rng *rand.Rand, blocks, n int) [][]float64 {
	out := make([][]float64, blocks)
	level := rng.NormFloat64()
	for b := range out {
		level = 0.5*level + 0.866*rng.NormFloat64()
		for range n {
			out[b] = append(out[b], 100+10*level+rng.NormFloat64())
		}
	}
	return out
}

// plainBootstrap is the definition: join the blocks drawn, sort, take the
// percentile.
func plainBootstrap(blocks [][]float64, width, draws int, seed uint64, p, confidence float64) (low, high float64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var all []float64
	for range draws {
		var took [][]float64
		for len(took) < len(blocks) {
			start := rng.IntN(len(blocks) - width + 1)
			took = append(took, blocks[start:start+width]...)
		}
		joined := slices.Concat(took[:len(blocks)]...)
		slices.Sort(joined)
		all = append(all, stats.Percentile(joined, p))
	}
	slices.Sort(all)
	return stats.Percentile(all, 50*(1-confidence)), stats.Percentile(all, 50*(1+confidence))
}

func TestBootstrapIsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, p := range []float64{0, 1, 37.5, 50, 51, 90, 99, 100} {
		for _, width := range []int{1, 3, 5, 10} {
			blocks := seconds(rng, 20, 13)
			blocks[4], blocks[19] = nil, nil // silent seconds
			blocks[7] = blocks[7][:1]
			for i := range blocks[9] {
				blocks[9][i] = math.Round(blocks[9][i]) // equal values
			}
			low, high := stats.BlockBootstrap(blocks, width, 200, 9, p, 0.95)
			wantLow, wantHigh := plainBootstrap(blocks, width, 200, 9, p, 0.95)
			if !near(low, wantLow) || !near(high, wantHigh) {
				t.Errorf("p%v, width %d: %v to %v, want %v to %v", p, width, low, high, wantLow, wantHigh)
			}
		}
	}
}

// What the bootstrap is for: values that come in lumps. Blocks of one value time
// would say that the many values know the median far better than they do.
func TestBootstrapOfRunsCoversWhatSingleValuesMiss(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const played = 60
	var runs, single int
	for i := range played {
		blocks := seconds(rng, 100, 10)
		if low, high := stats.BlockBootstrap(blocks, 10, 100, uint64(i), 50, 0.95); low <= 100 && 100 <= high {
			runs++
		}
		var ones [][]float64
		for _, b := range blocks {
			for _, v := range b {
				ones = append(ones, []float64{v})
			}
		}
		if low, high := stats.BlockBootstrap(ones, 1, 100, uint64(i), 50, 0.95); low <= 100 && 100 <= high {
			single++
		}
	}
	t.Logf("%d of %d intervals cover the median with runs of blocks, %d with single values", runs, played, single)
	if runs < played*75/100 || single > played*50/100 {
		t.Errorf("%d of %d intervals cover the median with runs of blocks, %d with single values", runs, played, single)
	}
}

func TestBootstrapTakesItsSeed(t *testing.T) {
	blocks := seconds(rand.New(rand.NewPCG(1, 1)), 20, 5)
	low, high := stats.BlockBootstrap(blocks, 2, 100, 1, 99, 0.95)
	againLow, againHigh := stats.BlockBootstrap(blocks, 2, 100, 1, 99, 0.95)
	if low != againLow || high != againHigh {
		t.Error("the same seed gave other bounds")
	}
	if otherLow, otherHigh := stats.BlockBootstrap(blocks, 2, 100, 2, 99, 0.95); low == otherLow && high == otherHigh {
		t.Error("another seed gave the same bounds")
	}
}

func TestBootstrapCountsWhatWasNeverAnswered(t *testing.T) {
	blocks := make([][]float64, 20)
	for i := range blocks {
		blocks[i] = []float64{1, 2, 3, 4}
	}
	blocks[3] = []float64{1, 2, inf, inf}
	if low, high := stats.BlockBootstrap(blocks, 2, 200, 1, 99, 0.9); low != 4 || high != inf {
		t.Errorf("%v to %v, want 4 to infinity", low, high)
	}
	if low, high := stats.BlockBootstrap(blocks, 2, 200, 1, 50, 0.9); !(low >= 2 && high <= 3) {
		t.Errorf("%v to %v for the median, want it within 2 to 3", low, high)
	}
	for i := range blocks {
		blocks[i] = []float64{1, inf}
	}
	if low, high := stats.BlockBootstrap(blocks, 2, 200, 1, 50, 0.9); low != inf || high != inf {
		t.Errorf("%v to %v half way to what was never answered, want infinity", low, high)
	}
}

func TestBootstrapRefusesWhatHasNoInterval(t *testing.T) {
	full := seconds(rand.New(rand.NewPCG(1, 1)), 10, 3)
	broken := func(v float64) [][]float64 {
		b := slices.Clone(full)
		b[2] = []float64{1, v}
		return b
	}
	silent := make([][]float64, 10)
	silent[0] = []float64{1, 2, 3}
	for name, c := range map[string]struct {
		blocks        [][]float64
		width, draws  int
		p, confidence float64
	}{
		"no blocks":                   {nil, 1, 10, 99, 0.95},
		"no values":                   {make([][]float64, 10), 1, 10, 99, 0.95},
		"one run would draw itself":   {full, 6, 10, 99, 0.95},
		"no width":                    {full, 0, 10, 99, 0.95},
		"no draws":                    {full, 1, 0, 99, 0.95},
		"a value that is no number":   {broken(nan), 1, 10, 99, 0.95},
		"a value of minus infinity":   {broken(-inf), 1, 10, 99, 0.95},
		"a percentile past the last":  {full, 1, 10, 101, 0.95},
		"a percentile that is none":   {full, 1, 10, nan, 0.95},
		"certainty":                   {full, 1, 10, 99, 1},
		"draws that have no value":    {silent, 5, 100, 99, 0.95},
		"a confidence that is none":   {full, 1, 10, 99, nan},
		"a negative percentile":       {full, 1, 10, -1, 0.95},
		"a negative width":            {full, -1, 10, 99, 0.95},
		"more blocks than may be run": {full[:1], 1, 10, 99, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			if low, high := stats.BlockBootstrap(c.blocks, c.width, c.draws, 1, c.p, c.confidence); !math.IsNaN(low) || !math.IsNaN(high) {
				t.Errorf("%v to %v", low, high)
			}
		})
	}
}

func BenchmarkBlockBootstrap(b *testing.B) {
	blocks := seconds(rand.New(rand.NewPCG(1, 1)), 50, 540)
	for name, p := range map[string]float64{"p50": 50, "p99": 99} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				stats.BlockBootstrap(blocks, 5, 1000, 1, p, 0.95)
			}
		})
	}
}
