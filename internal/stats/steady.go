package stats

import "math"

// MSER looks at the means of so many observations, and wants so many means.
const (
	mserBatch   = 5
	fewestBatch = 5
)

// MSER5 says how many observations to drop from the start of a series so that the
// rest is steady (White 1997): the cut after which the mean of the rest is known
// best, the marginal standard error over means of five observations being least.
// Cuts of whole batches up to most observations are tried, and never of more than
// half the series, as the rule chases noise where little is left. Of equal cuts
// the first is taken.
//
// It is not ok, with a cut of 0, when the least lies at the last cut that may be
// tried: the series had not come to rest by then. Nor is it with fewer than five
// batches, a most below five, or an observation that is no finite number.
func MSER5(x []float64, most int) (cut int, ok bool) {
	batches := len(x) / mserBatch
	if batches < fewestBatch || !allFinite(x) {
		return 0, false
	}
	means := make([]float64, batches)
	for i := range means {
		means[i] = Mean(x[i*mserBatch : (i+1)*mserBatch])
	}
	last := min(most/mserBatch, batches/2)
	best, least := 0, math.Inf(1)
	for drop := 0; drop <= last; drop++ {
		rest := means[drop:]
		// Var/n is the square of the standard error.
		spread := Std(rest)
		if e := spread * spread / float64(len(rest)); e < least {
			best, least = drop, e
		}
	}
	if best >= last {
		return 0, false
	}
	return best * mserBatch, true
}

// Lag1 is the correlation of each value with the next, by the usual estimate that
// sets both against the mean of all. It is NaN with fewer than three values, when
// all are equal, and when one is no finite number.
func Lag1(x []float64) float64 {
	if len(x) < 3 || !allFinite(x) {
		return math.NaN()
	}
	mean := Mean(x)
	squares := make([]float64, len(x))
	products := make([]float64, len(x)-1)
	for i, v := range x {
		squares[i] = float64((v - mean) * (v - mean))
		if i > 0 {
			products[i-1] = float64((x[i-1] - mean) * (v - mean))
		}
	}
	if s := Sum(squares); s > 0 {
		return Sum(products) / s
	}
	return math.NaN()
}
