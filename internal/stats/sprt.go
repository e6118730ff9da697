package stats

import "math"

// SPRTBounds are Wald's bounds of a sequential probability ratio test (1945): it
// is decided for bad once the log-likelihood ratio comes to high, for good once
// it comes to low, and goes on in between. Alpha is the share of good cases that
// may be called bad, beta the share of bad ones that may be called good; the
// overshoot lets one of the two be passed by a little, never their sum. The
// bounds are NaN unless both shares are above 0 and their sum is below 1, from
// where on there is no between.
func SPRTBounds(alpha, beta float64) (low, high float64) {
	if !(alpha > 0 && beta > 0 && alpha+beta < 1) {
		return math.NaN(), math.NaN()
	}
	return settled(math.Log(beta / (1 - alpha))), settled(math.Log((1 - beta) / alpha))
}

// NormalStep is what one observation adds to the log-likelihood ratio of a normal
// mean: y is the logarithm of a ratio, ln(good) and ln(bad) are its two means,
// sigma its standard deviation. It is above 0 when y speaks for bad, and 0 half
// way between the two. It is NaN when an input is infinite or no number, or a
// ratio or sigma not above 0.
func NormalStep(y, good, bad, sigma float64) float64 {
	if !finite(y) || !positive(good) || !positive(bad) || !positive(sigma) {
		return math.NaN()
	}
	slope := math.Log(good/bad) / (sigma * sigma)
	return settled(-slope * (y - float64(0.5*math.Log(good*bad))))
}

// PoissonLLR is the log-likelihood ratio of n events in that many minutes. It is
// above 0 when they speak for the rate bad rather than ok, both a minute. N need
// not be whole: events remembered from earlier runs count for less. It is NaN
// when n or minutes is negative, a rate not above 0, or any of them infinite or
// no number.
func PoissonLLR(n, minutes, ok, bad float64) float64 {
	if !notNegative(n) || !notNegative(minutes) || !positive(ok) || !positive(bad) {
		return math.NaN()
	}
	return settled(float64(n*math.Log(bad/ok)) - float64((bad-ok)*minutes))
}
