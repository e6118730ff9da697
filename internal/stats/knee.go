package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Kneedle finds where a concave, increasing curve bends (Satopää et al. 2011):
// both axes are stretched to 0..1, and the knee is the first place where the
// curve stands highest above the diagonal and from where it then comes down by
// more than sensitivity mean steps of x before it rises higher. 1 is the authors'
// choice; a greater one wants more of a flat after the knee. The points are taken
// as they are, without the spline that the authors lay through them first: a
// sweep has few, and each is a mean already. Nor does a lower bump on the way
// down take the knee over, as it does with the authors: that is noise.
//
// It is not ok, with NaN, when no such place is seen, with fewer than three
// points, when x does not increase or y is the same throughout, when a value is
// no finite number, or the sensitivity is negative.
func Kneedle(x, y []float64, sensitivity float64) (at float64, ok bool) {
	if len(x) < 3 || len(x) != len(y) || !allFinite(x) || !allFinite(y) || !notNegative(sensitivity) {
		return math.NaN(), false
	}
	if !increases(x) || slices.Min(y) == slices.Max(y) {
		return math.NaN(), false
	}
	above := stretched(y)
	for i, v := range stretched(x) {
		above[i] -= v
	}
	last := len(above) - 1
	drop := sensitivity / float64(last) // the mean step of the stretched x is 1/last
	for top := 1; top < last; top++ {
		if !(above[top] > above[top-1] && above[top] >= above[top+1]) {
			continue
		}
		for i := top + 1; i <= last && above[i] <= above[top]; i++ {
			if above[i] < above[top]-drop {
				return x[top], true
			}
		}
	}
	return math.NaN(), false
}

func increases(x []float64) bool {
	for i := 1; i < len(x); i++ {
		if x[i] <= x[i-1] {
			return false
		}
	}
	return true
}

// stretched maps values, not all equal, to 0..1.
func stretched(x []float64) []float64 {
	low, high := slices.Min(x), slices.Max(x)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = (v - low) / (high - low)
	}
	return out
}

// USL is Gunther's universal scalability law: the throughput of n users is
// λn/(1+σ(n-1)+κn(n-1)). Lambda is what one user gets, Sigma the share of work
// that queues for something, Kappa the cost of agreeing with every other.
type USL struct{ Lambda, Sigma, Kappa float64 }

// At is the throughput of n users; NaN below one.
func (u USL) At(n float64) float64 {
	if !(n >= 1) {
		return math.NaN()
	}
	return u.Lambda * n / (1 + float64(u.Sigma*(n-1)) + float64(u.Kappa*n*(n-1)))
}

// Peak is how many users get the most out of it, √((1-σ)/κ): infinitely many when
// nothing grows with their square, and never fewer than one. It is NaN when a
// parameter is negative or no number.
func (u USL) Peak() float64 {
	switch {
	case !notNegative(u.Sigma) || !notNegative(u.Kappa):
		return math.NaN()
	case u.Sigma >= 1:
		return 1 // every further user takes more than it brings
	case u.Kappa == 0:
		return math.Inf(1)
	default:
		return max(1, math.Sqrt((1-u.Sigma)/u.Kappa))
	}
}

// fewestLevels is how many loads a fit of three parameters needs: any three can
// be met exactly and say nothing.
const fewestLevels = 4

// FitUSL fits the law to the throughput x of n users by least squares, with no
// parameter negative. It is an error when the lengths differ, with fewer than
// four different n, when an n is below one, an x not above 0 or either no finite
// number, and when throughput falls so steeply that one user would have had to
// get infinitely much.
func FitUSL(n, x []float64) (USL, error) {
	if err := sweepErr(n, x); err != nil {
		return USL{}, err
	}
	// The law is n over a plane, λ⁻¹ + σ/λ·(n-1) + κ/λ·n(n-1), whose three weights
	// are found by Gauss and Newton: each round fits the plane to the tangent of
	// the law, and goes as far towards it as the squares fall.
	terms := make([][3]float64, len(n))
	most := slices.Max(n)
	scale := [3]float64{1, most - 1, most * (most - 1)} // keeps the terms of one size
	for i, v := range n {
		terms[i] = [3]float64{1, (v - 1) / scale[1], v * (v - 1) / scale[2]}
	}
	target, weight := make([]float64, len(n)), make([]float64, len(n))
	for i := range n {
		target[i] = n[i] / x[i]
		weight[i] = x[i] * x[i] / n[i]
	}
	at := fitPlane(terms, target, weight)
	for range 200 {
		for i := range n {
			p := plane(at, terms[i])
			target[i] = p + p - float64(x[i]*p*p/n[i])
			weight[i] = n[i] / (p * p)
		}
		next, better := towards(at, fitPlane(terms, target, weight), terms, n, x)
		if !better {
			break
		}
		at = next
	}
	if !(at[0] > 0) {
		return USL{}, errors.New("throughput falls more steeply than the scalability law can")
	}
	return USL{Lambda: 1 / at[0], Sigma: at[1] / scale[1] / at[0], Kappa: at[2] / scale[2] / at[0]}, nil
}

func sweepErr(n, x []float64) error {
	if len(n) != len(x) {
		return fmt.Errorf("%d loads and %d throughputs", len(n), len(x))
	}
	for i := range n {
		if !(n[i] >= 1) || !positive(n[i]) || !positive(x[i]) {
			return fmt.Errorf("level %d: throughput %v of %v users: want more than 0 of at least 1", i, x[i], n[i])
		}
	}
	if levels := len(slices.Compact(slices.Sorted(slices.Values(n)))); levels < fewestLevels {
		return fmt.Errorf("%d different loads: want at least %d", levels, fewestLevels)
	}
	return nil
}

func plane(at, term [3]float64) float64 {
	return float64(at[0]*term[0]) + float64(at[1]*term[1]) + float64(at[2]*term[2])
}

// squares is the sum of squares that is made least.
func squares(at [3]float64, terms [][3]float64, n, x []float64) float64 {
	s := make([]float64, len(n))
	for i := range n {
		d := x[i] - n[i]/plane(at, terms[i])
		s[i] = float64(d * d)
	}
	return Sum(s)
}

// towards goes from at to aim, or half of it, or half of that, until the squares
// are fewer. All between two allowed points are allowed.
func towards(at, aim [3]float64, terms [][3]float64, n, x []float64) (next [3]float64, better bool) {
	now := squares(at, terms, n, x)
	for step := 1.0; step > 1e-6; step /= 2 {
		for k := range next {
			next[k] = at[k] + float64(step*(aim[k]-at[k]))
		}
		if squares(next, terms, n, x) < now {
			return next, true
		}
	}
	return at, false
}

// fitPlane is the weighted least-squares fit with no parameter negative. Which of
// them are 0 is found by trying all: there are seven ways.
func fitPlane(terms [][3]float64, target, weight []float64) (best [3]float64) {
	least := math.Inf(1)
	for _, used := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {0}, {1}, {2}} {
		at, ok := normalEquations(terms, target, weight, used)
		if !ok || at[0] < 0 || at[1] < 0 || at[2] < 0 {
			continue
		}
		s := make([]float64, len(terms))
		for i := range terms {
			d := weight[i] * (target[i] - plane(at, terms[i]))
			s[i] = float64(d * d)
		}
		if sum := Sum(s); sum < least {
			best, least = at, sum
		}
	}
	return best
}

// normalEquations fits the terms used, and leaves the others 0.
func normalEquations(terms [][3]float64, target, weight []float64, used []int) (at [3]float64, ok bool) {
	var m [3][4]float64
	for i, t := range terms {
		w := weight[i] * weight[i]
		for r, a := range used {
			for c, b := range used {
				m[r][c] += float64(w * t[a] * t[b])
			}
			m[r][3] += float64(w * t[a] * target[i])
		}
	}
	size := len(used)
	for k := range size { // the matrix is positive definite: no need to look for a pivot
		if !(m[k][k] > 0) {
			return at, false
		}
		for r := range size {
			if r == k {
				continue
			}
			f := m[r][k] / m[k][k]
			for c := range 4 {
				m[r][c] -= float64(f * m[k][c])
			}
		}
	}
	for r, a := range used {
		at[a] = m[r][3] / m[r][r]
		ok = finite(at[a])
		if !ok {
			return at, false
		}
	}
	return at, true
}
