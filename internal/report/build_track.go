package report

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// The points that a page has room for.
const (
	mostLanePoints  = 32_000 // of all lanes together
	mostPowerPoints = 16_000 // of all their GPUs together
	mostFleetPoints = 1_500
	fewestPoints    = 4 // of a track in an episode, where there is room for so many
)

// track is rows of values that share their times, an episode after the other.
type track []stretch

// stretch is the part of a track that is of one episode.
type stretch struct {
	t    []float64
	rows [][]float64
}

// thinned is the track in about so many points, with a point that is none between two
// episodes.
func (all track) thinned(rows, most int) (t spec.Values, values []spec.Values) {
	n := 0
	for _, s := range all {
		n += len(s.t)
	}
	values = make([]spec.Values, rows)
	fewest := max(1, min(fewestPoints, most/max(1, len(all))-1))
	for _, s := range all {
		if len(s.t) == 0 {
			continue
		}
		if len(t) > 0 {
			t = append(t, (t[len(t)-1]+s.t[0])/2)
			for i := range values {
				values[i] = append(values[i], math.NaN())
			}
		}
		for _, k := range stats.LTTB(s.t, s.rows, max(fewest, most*len(s.t)/n)) {
			t = append(t, s.t[k])
			for i := range values {
				values[i] = append(values[i], s.rows[i][k])
			}
		}
	}
	sortByTime(t, values)
	return t, values
}

// sortByTime puts points in order. A clock that was set back is no reason for a line
// that runs back.
func sortByTime[V ~[]float64](t V, rows []V) {
	if slices.IsSorted(t) {
		return
	}
	order := make([]int, len(t))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t[a], t[b]) })
	for _, row := range append([]V{t}, rows...) {
		was := slices.Clone(row)
		for i, k := range order {
			row[i] = was[k]
		}
	}
}

// bins are amounts by the second of an episode.
type bins []float64

// reach makes room up to a stamp.
func (v *bins) reach(ns int64) { *v = reach(*v, int(ns/second)) }

// spread adds a rate a nanosecond over a stretch.
func (v *bins) spread(from, until int64, rate float64) {
	from = max(from, 0)
	if until <= from {
		return
	}
	v.reach(until - 1)
	for k := from / second; k*second < until; k++ {
		(*v)[k] += float64(rate * float64(min(until, (k+1)*second)-max(from, k*second)))
	}
}

// count adds one at a stamp.
func (v *bins) count(at int64) {
	at = max(at, 0)
	v.reach(at)
	(*v)[at/second]++
}

// reach makes room for an element.
func reach[T any](all []T, place int) []T {
	if place >= len(all) {
		all = append(all, make([]T, place+1-len(all))...)
	}
	return all
}

// at is the amount of a second; nothing is known beyond the last, which is none.
func (v bins) at(k int) float64 {
	if k < len(v) {
		return v[k]
	}
	return 0
}

// tokens spreads a request's tokens. Only its first and last token and its longest wait
// are known, so that they lie evenly on both sides of that wait, as the judge has them.
func (v *bins) tokens(q *spec.Request) {
	if q.Tokens == 0 || q.First == 0 {
		return
	}
	from, until, gap := q.First, max(q.Last, q.First+1), q.Gap
	if gap < longGap || q.GapEnd-gap < from || q.GapEnd > until {
		v.spread(from, until, float64(q.Tokens)/float64(until-from))
		return
	}
	rate := float64(q.Tokens) / float64(max(1, until-from-gap))
	v.spread(from, q.GapEnd-gap, rate)
	v.spread(q.GapEnd, max(until, q.GapEnd+1), rate)
}

// longGap is a wait that is told apart from the usual ones.
const longGap = second / 2
