package stats

import (
	"math"
	"strconv"
)

// settled rounds to nine significant digits. Logarithms, and the quantiles of
// gonum that are built on them, may differ in their last bits from one processor
// to another; a figure of a verdict may not. Nine digits are more than any
// measurement has, and fewer than the processors disagree on.
func settled(x float64) float64 {
	if !finite(x) {
		return x
	}
	// What FormatFloat writes, ParseFloat reads: there is no error to see. A value
	// at the very edge may round up to infinity, which is what is given then.
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 8, 64), 64)
	return r
}

func finite(x float64) bool      { return !math.IsNaN(x) && !math.IsInf(x, 0) }
func positive(x float64) bool    { return x > 0 && !math.IsInf(x, 1) }
func notNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// share says whether x lies between 0 and 1 and is neither.
func share(x float64) bool { return x > 0 && x < 1 }

// allFinite is true without values.
func allFinite(x []float64) bool {
	for _, v := range x {
		if !finite(v) {
			return false
		}
	}
	return true
}
