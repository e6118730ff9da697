package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// MeanInterval is the mean with Student's t interval, which holds for values that
// are independent and near normal: means of batches, not requests. With fewer
// than two values, or a confidence that does not lie between 0 and 1, the bounds
// are NaN; with none, or one that is no finite number, the mean is too.
func MeanInterval(x []float64, confidence float64) (mean, low, high float64) {
	if !allFinite(x) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	mean = Mean(x)
	if len(x) < 2 || !share(confidence) {
		return mean, math.NaN(), math.NaN()
	}
	n := float64(len(x))
	t := settled(-distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1 - confidence) / 2))
	// Std divides by n, the interval wants n-1: s/√n is Std/√(n-1).
	half := float64(t * (Std(x) / math.Sqrt(n-1)))
	return mean, mean - half, mean + half
}

// PositiveMeanInterval is the mean of values that are above 0 by their nature, such as
// throughputs, with Student's t interval of their logarithms about it: it is as wide in
// proportion on either side, and no bound is below 0, however few they are. Where one of
// them is 0 there are no logarithms, and the interval is MeanInterval's, cut off at 0. All
// three are NaN where a value is below 0; otherwise they are NaN where MeanInterval's are.
func PositiveMeanInterval(x []float64, confidence float64) (mean, low, high float64) {
	logs := make([]float64, len(x))
	for i, v := range x {
		if v < 0 {
			return math.NaN(), math.NaN(), math.NaN()
		}
		logs[i] = math.Log(v)
	}
	mean, low, high = MeanInterval(x, confidence)
	if math.IsNaN(low) {
		return mean, low, high
	}
	if !allFinite(logs) {
		return mean, max(0, low), high
	}
	_, below, above := MeanInterval(logs, confidence)
	factor := math.Exp((above - below) / 2)
	return mean, settled(mean / factor), settled(mean * factor)
}

// MeanDifference is the mean of y less that of x, with Student's t interval for two
// samples of one spread: two short ones tell together how wide it is. With fewer than
// two values in either the bounds are NaN; with none, or one that is no finite number,
// the difference is too.
func MeanDifference(x, y []float64, confidence float64) (difference, low, high float64) {
	if !allFinite(x) || !allFinite(y) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	difference = Mean(y) - Mean(x)
	if len(x) < 2 || len(y) < 2 || !share(confidence) {
		return difference, math.NaN(), math.NaN()
	}
	n, m := float64(len(x)), float64(len(y))
	t := settled(-distuv.StudentsT{Sigma: 1, Nu: n + m - 2}.Quantile((1 - confidence) / 2))
	sx, sy := Std(x), Std(y)
	pooled := (float64(n*float64(sx*sx)) + float64(m*float64(sy*sy))) / (n + m - 2)
	half := float64(t * math.Sqrt(float64(pooled*(1/n+1/m))))
	return difference, difference - half, difference + half
}

// ClopperPearson is the exact interval of a share of which k were seen in n
// independent trials. It holds for every true share, at the price of being wider
// than it must be for most. Both bounds are NaN unless 0 <= k <= n, n > 0 and the
// confidence lies between 0 and 1.
func ClopperPearson(k, n int, confidence float64) (low, high float64) {
	if n < 1 || k < 0 || k > n || !share(confidence) {
		return math.NaN(), math.NaN()
	}
	tail := float64((1 - confidence) / 2)
	seen, rest := float64(k), float64(n-k)
	high = 1
	if k > 0 {
		low = settled(distuv.Beta{Alpha: seen, Beta: rest + 1}.Quantile(tail))
	}
	if k < n {
		// The upper tail of a share is the lower one of its rest, which keeps its
		// digits where 1-tail would not.
		high = settled(1 - distuv.Beta{Alpha: rest, Beta: seen + 1}.Quantile(tail))
	}
	return low, high
}

// SpreadUpper is what the standard deviation behind n normal observations with the
// sample deviation sd is not above, at a confidence. It is NaN for fewer than two
// observations, a deviation below 0, and a confidence that does not lie between 0 and 1.
func SpreadUpper(sd float64, n int, confidence float64) float64 {
	if n < 2 || !notNegative(sd) || !share(confidence) {
		return math.NaN()
	}
	free := float64(n - 1)
	chi := distuv.ChiSquared{K: free}.Quantile(1 - confidence)
	return settled(sd * math.Sqrt(free/chi))
}

// GammaRate is what n events in a time t say of a Poisson rate, when nothing was
// known before (Jeffreys' prior): mean and central interval of the posterior
// Gamma(n+½, t), whose lower end is 0 where there was no event: nothing speaks against
// a rate of 0 then. N need not be whole. All three are NaN when n is negative, t not
// above 0, either infinite or no number; the bounds also when the confidence does
// not lie between 0 and 1.
func GammaRate(n, t, confidence float64) (mean, low, high float64) {
	if !notNegative(n) || !positive(t) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	mean = (n + 0.5) / t
	if !share(confidence) {
		return mean, math.NaN(), math.NaN()
	}
	rate := distuv.Gamma{Alpha: n + 0.5, Beta: t}
	tail := float64((1 - confidence) / 2)
	if n > 0 {
		low = settled(rate.Quantile(tail))
	}
	return mean, low, settled(rate.Quantile(1 - tail))
}
