package stats

import "math"

// LTTB picks at most so many of the points of several rows that share their times, so
// that the lines through them look as those through all do, and gives their places in
// order. The points are dealt into buckets, and of each that one stays which spans the
// largest triangle with the one before and the middle of the bucket after ("largest
// triangle three buckets"): what sticks out stays. The triangles of the rows are added,
// each by the height of its row. The first and the last point always stay.
//
// A value that is NaN spans nothing.
func LTTB(t []float64, rows [][]float64, most int) []int {
	n := len(t)
	if n <= most {
		return every(n)
	}
	if most <= 2 {
		return []int{0, n - 1}[:max(0, most)]
	}
	heights := make([]float64, len(rows))
	for i, row := range rows {
		heights[i] = height(row)
	}
	picked := make([]int, 1, most)
	middle := make([]float64, len(rows))
	for bucket := range most - 2 {
		from, until := bucketStart(bucket, n, most), bucketStart(bucket+1, n, most)
		after := min(bucketStart(bucket+2, n, most), n)
		for i, row := range rows {
			middle[i] = meanKnown(row[until:after])
		}
		before, middleT := picked[bucket], Mean(t[until:after])
		best, largest := from, -1.0
		for k := from; k < until; k++ {
			area := 0.0
			for i, row := range rows {
				area += triangle(t[before]-middleT, t[before]-t[k], row[before], row[k], middle[i]) / heights[i]
			}
			if area > largest {
				best, largest = k, area
			}
		}
		picked = append(picked, best)
	}
	return append(picked, n-1)
}

func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// bucketStart is where a bucket begins of those between the first point and the last.
func bucketStart(bucket, n, most int) int {
	return 1 + int(int64(bucket)*int64(n-2)/int64(most-2))
}

// triangle is twice the area of the triangle of a, b and c, or 0 where there is none.
// Where one of a and c is not known, the other stands for it.
func triangle(acT, abT, a, b, c float64) float64 {
	if math.IsNaN(a) {
		a = c
	}
	if math.IsNaN(c) {
		c = a
	}
	area := math.Abs(float64(acT*(b-a)) - float64(abT*(c-a)))
	if math.IsNaN(area) {
		return 0
	}
	return area
}

// height is how far the known values of a row lie apart; that of a flat one is 1.
func height(row []float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range row {
		if finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if !positive(high - low) {
		return 1
	}
	return high - low
}

func meanKnown(row []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range row {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}
