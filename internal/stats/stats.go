// Package stats holds the few numerical primitives that every figure of a run
// goes through: sums, moments and percentiles which agree with numpy to the
// last bit, because the tools that aicr is compared with compute theirs with
// numpy. Above them stand the tests that a verdict rests on: sequential ones
// (SPRTBounds), intervals, the steady part of a series (MSER5), the bootstrap,
// changes in a history and the knee of a sweep.
//
// Read Percentile first: its neighbours are the other answers that the tools in
// use give to the same question. Then WithFailures, the one that aicr adds.
//
// Input that has no answer gives NaN, false or an error, never a number that
// could be one.
//
// Products that feed an addition are converted explicitly, float64(a*b): the
// language then forbids fusing the two into one rounding, which arm64 would do
// otherwise and amd64 would not. What comes from a logarithm or a library is
// rounded to nine digits, where the processors agree.
package stats

import "math"

// pairwiseBlock is the length up to which numpy sums without splitting.
const pairwiseBlock = 128

// Sum adds as numpy does: eight partial sums within a block, halves above it.
// The error grows with log(n) rather than n.
func Sum(x []float64) float64 {
	n := len(x)
	if n < 8 {
		var s float64
		for _, v := range x {
			s += v
		}
		return s
	}
	if n <= pairwiseBlock {
		part := [8]float64(x)
		whole := n - n%8
		for i := 8; i < whole; i += 8 {
			for k := range part {
				part[k] += x[i+k]
			}
		}
		s := ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))
		for _, v := range x[whole:] {
			s += v
		}
		return s
	}
	half := n / 2
	half -= half % 8
	return Sum(x[:half]) + Sum(x[half:])
}

// Mean is the arithmetic mean, NaN without values.
func Mean(x []float64) float64 { return Sum(x) / float64(len(x)) }

// Std is the population standard deviation, NaN without values. Its last bits
// depend on the order of x.
func Std(x []float64) float64 {
	mean := Mean(x)
	squares := make([]float64, len(x))
	for i, v := range x {
		d := v - mean
		squares[i] = d * d
	}
	return math.Sqrt(Mean(squares))
}

// position says where the p-th percentile (0 <= p <= 100) of n > 0 sorted
// values lies: between values i and j, a share t of the way.
func position(n int, p float64) (i, j int, t float64) {
	at := float64(p / 100 * float64(n-1)) // not fused with what follows
	i = int(at)
	return i, min(i+1, n-1), at - float64(i)
}

// Percentile is numpy's default: linear interpolation, from whichever neighbour
// is nearer. It is NaN without values.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i, j, t := position(len(sorted), p)
	low, high := sorted[i], sorted[j]
	if i == j || t == 0 {
		return low
	}
	if t >= 0.5 {
		return high - float64((high-low)*(1-t))
	}
	return low + float64((high-low)*t)
}

// PercentileFromBelow interpolates from the lower neighbour always, as AIPerf's
// own code does. It differs from Percentile in the last bit at most.
func PercentileFromBelow(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i, j, t := position(len(sorted), p)
	return sorted[i] + float64(t*(sorted[j]-sorted[i]))
}

// PercentileNearest is numpy's method "nearest": the value at the rounded
// position, halves going to the even one. It never computes with its values,
// hence stands infinities.
func PercentileNearest(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(math.RoundToEven(p/100*float64(len(sorted)-1)))]
}

// WithFailures is Percentile over the values and as many infinities as there
// were failures: a request that was never answered took longer than any that
// was. It is +Inf as soon as a failure has a share in the answer.
func WithFailures(sorted []float64, failures int, p float64) float64 {
	n := len(sorted) + failures
	if n == 0 {
		return math.NaN()
	}
	at := func(i int) float64 {
		if i < len(sorted) {
			return sorted[i]
		}
		return math.Inf(1)
	}
	i, j, t := position(n, p)
	switch low, high := at(i), at(j); {
	case t == 0:
		return low
	case math.IsInf(high, 1):
		return high
	case t >= 0.5:
		return high - float64((high-low)*(1-t))
	default:
		return low + float64((high-low)*t)
	}
}
