package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// BlockBootstrap is an interval for the p-th percentile (Percentile) of values
// that depend on their neighbours in time, by the moving-block bootstrap (Künsch
// 1989) with its percentile interval. The caller hands the values in blocks of
// equal, short time in their order; a block may be empty. A draw takes runs of
// width neighbouring blocks, each starting anywhere that it fits, until it has as
// many blocks as there are; the last run is cut to fit. What is correlated for
// less time than a run stays together.
//
// An infinite value is one that was never answered, as in WithFailures. Both
// bounds are NaN when the blocks do not hold two runs (one alone would always
// draw itself, and look exact), when a draw came to have no value at all, when a
// value is NaN or -Inf, and for a width or draws below 1, a p outside 0 to 100 or a
// confidence that does not lie between 0 and 1. The same seed gives the same
// bounds.
func BlockBootstrap(blocks [][]float64, width, draws int, seed uint64, p, confidence float64) (low, high float64) {
	if width < 1 || len(blocks)/2 < width || draws < 1 || !(p >= 0 && p <= 100) || !share(confidence) {
		return math.NaN(), math.NaN()
	}
	pool := poolOf(blocks)
	if len(pool) == 0 || !(pool[0].value > math.Inf(-1)) {
		return math.NaN(), math.NaN()
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	times := make([]int, len(blocks)) // how often a draw has each block
	drawn := make([]float64, draws)
	for i := range drawn {
		n := draw(rng, blocks, width, times)
		if n == 0 {
			return math.NaN(), math.NaN()
		}
		drawn[i] = percentileOfDraw(pool, times, n, p)
	}
	slices.Sort(drawn)
	tail := float64((1 - confidence) / 2 * 100) // not fused with what follows
	return percentileUpToInf(drawn, tail), percentileUpToInf(drawn, 100-tail)
}

// owned is a value and the block that it came in.
type owned struct {
	value float64
	block int
}

// poolOf is every value, sorted; NaNs first.
func poolOf(blocks [][]float64) []owned {
	var pool []owned
	for b, values := range blocks {
		for _, v := range values {
			pool = append(pool, owned{v, b})
		}
	}
	slices.SortFunc(pool, func(a, b owned) int { return cmp.Compare(a.value, b.value) })
	return pool
}

// draw fills times and gives the number of values drawn.
func draw(rng *rand.Rand, blocks [][]float64, width int, times []int) (values int) {
	clear(times)
	for left := len(blocks); left > 0; left -= width {
		start := rng.IntN(len(blocks) - width + 1)
		for b := start; b < start+min(width, left); b++ {
			times[b]++
			values += len(blocks[b])
		}
	}
	return values
}

// percentileOfDraw never builds the draw. The pool is sorted once for all of
// them, and a value of it stands for as many as its block was drawn times: the
// walk goes over the pool from whichever end is nearer, and stops where it has
// counted far enough.
func percentileOfDraw(pool []owned, times []int, n int, p float64) float64 {
	i, j, t := position(n, p)
	if p > 50 {
		at, seen := len(pool), 0
		back := func(k int) float64 { // the k-th of the draw, k not growing from call to call
			for seen < n-k {
				at--
				seen += times[pool[at].block]
			}
			return pool[at].value
		}
		high := back(j)
		return between(back(i), high, t)
	}
	at, seen := -1, 0
	forth := func(k int) float64 { // k not falling
		for seen <= k {
			at++
			seen += times[pool[at].block]
		}
		return pool[at].value
	}
	low := forth(i)
	return between(low, forth(j), t)
}

// percentileUpToInf is Percentile for values some of which may be infinite.
func percentileUpToInf(sorted []float64, p float64) float64 {
	i, j, t := position(len(sorted), p)
	return between(sorted[i], sorted[j], t)
}

// between goes a share t of the way from low to high as Percentile does, and all
// of it where high is infinite.
func between(low, high, t float64) float64 {
	switch {
	case t == 0 || low == high:
		return low
	case math.IsInf(high, 1):
		return high
	case t >= 0.5:
		return high - float64((high-low)*(1-t))
	default:
		return low + float64((high-low)*t)
	}
}
