package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Change is a place in a history where its values became others.
type Change struct {
	At            int     // the first value after the change
	Before, After float64 // means of the stretches on either side, up to the next change
	P             float64 // share of shuffled histories that split as well
}

const (
	// shuffles is how often the test deals the values out anew. The smallest p is
	// one in a thousand.
	shuffles = 999
	// shortest is the fewest values that make a stretch: one alone has no spread
	// to hold against its neighbours', and is an outlier and no change.
	shortest = 2
)

// ChangePoints finds where a history changed, whatever its distribution, by
// E-divisive (Matteson and James 2014) with distances to the power 1: split where
// the two sides differ most in energy distance, keep the split if shuffling the
// values within their stretches rarely does as well, and go on in the stretches.
// The right side of a split reaches to the next one, as in Hunter (2023). It is
// meant for the figures of 5 to 500 runs, oldest first; fewer than four give no
// change. A slide shows as one step or more.
//
// It is an error when a value is no finite number, or when the significance is
// below what 999 shuffles can show or not below 1. The changes are in order of
// time. The same seed gives the same answer.
func ChangePoints(x []float64, significance float64, seed uint64) ([]Change, error) {
	if !(significance*(shuffles+1) >= 1 && significance < 1) {
		return nil, fmt.Errorf("significance %v: want at least %v and less than 1", significance, 1.0/(shuffles+1))
	}
	for i, v := range x {
		// Half the greatest number, so that no difference of two is infinite.
		if !(math.Abs(v) <= math.MaxFloat64/2) {
			return nil, fmt.Errorf("value %d of the history is %v", i, v)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	ends := []int{0, len(x)} // of the stretches
	p := map[int]float64{}   // of the changes, by place
	for {
		gain, at := bestSplit(x, ends)
		if gain <= 0 {
			break
		}
		asGood, rare := shuffle(rng, x, ends, gain, significance)
		if !rare {
			break
		}
		p[at] = asGood
		where, _ := slices.BinarySearch(ends, at)
		ends = slices.Insert(ends, where, at)
	}
	var found []Change
	for i := 1; i < len(ends)-1; i++ {
		found = append(found, Change{
			At:     ends[i],
			Before: Mean(x[ends[i-1]:ends[i]]),
			After:  Mean(x[ends[i]:ends[i+1]]),
			P:      p[ends[i]],
		})
	}
	return found, nil
}

// shuffle deals the values out anew within their stretches, and says for what
// share of the shuffles the best split is as good as gain, and whether that is as
// rare as it must be. The history itself counts as one. It stops once too many
// are as good.
func shuffle(rng *rand.Rand, x []float64, ends []int, gain, significance float64) (asGood float64, rare bool) {
	shuffled := slices.Clone(x)
	// A shuffle that only changes the order of a sum is as good, whatever its last
	// bits say.
	gain -= float64(gain * 1e-12)
	count := 1.0
	for range shuffles {
		for i := range len(ends) - 1 {
			s := shuffled[ends[i]:ends[i+1]]
			rng.Shuffle(len(s), func(a, b int) { s[a], s[b] = s[b], s[a] })
		}
		if g, _ := bestSplit(shuffled, ends); g >= gain {
			count++
		}
		if count/(shuffles+1) > significance {
			return math.NaN(), false
		}
	}
	return count / (shuffles + 1), true
}

// bestSplit is the place where splitting one of the stretches gains most.
func bestSplit(x []float64, ends []int) (gain float64, at int) {
	for i := range len(ends) - 1 {
		if g, a := splitStretch(x[ends[i]:ends[i+1]]); g > gain {
			gain, at = g, ends[i]+a
		}
	}
	return gain, at
}

// splitStretch finds the split that sets its two sides farthest apart: their
// energy distance, times the product of the sizes over their sum. Distances
// within a side are averaged over all pairs, each value with itself among them,
// so that the figure is never negative and small sides are not noisier than
// large ones.
func splitStretch(x []float64) (gain float64, at int) {
	n := len(x)
	if n < 2*shortest {
		return 0, 0
	}
	earlier := make([]float64, n) // distances to the values before, summed
	later := make([]float64, n)   // and after
	var all float64
	for i, v := range x {
		for j, w := range x[:i] {
			d := math.Abs(v - w)
			earlier[i] += d
			later[j] += d
		}
		all += earlier[i]
	}
	left, right := 0.0, all // pairs within each side
	for k := 1; k <= n-shortest; k++ {
		left += earlier[k-1]
		right -= later[k-1]
		if k < shortest {
			continue
		}
		a, b := float64(k), float64(n-k)
		across := all - left - right
		apart := 2*across/(a*b) - 2*left/(a*a) - 2*right/(b*b)
		if g := a * b / (a + b) * apart; g > gain {
			gain, at = g, k
		}
	}
	return gain, at
}
