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

	mostKeptPoints = 4_000   // of a track in an episode that is over, until it is known how many tracks there are
	mostKeptOfAll  = 128_000 // of all tracks of a kind in such an episode
	fewestKept     = 64      // of one of them: no page has room for more where there are so many
)

// kept is how many points are kept of each of so many tracks in an episode that is over.
func kept(tracks int) int {
	return min(mostKeptPoints, max(fewestKept, mostKeptOfAll/max(1, tracks)))
}

// track is rows of values that share their times, an episode after the other.
type track []stretch

// stretch is the part of a track that is of one episode.
type stretch struct {
	t    []float64
	rows [][]float64
}

// add adds a point to an episode.
func (all *track) add(episode int, at float64, values ...float64) {
	*all = reach(*all, episode)
	s := &(*all)[episode]
	s.t = append(s.t, at)
	s.rows = reach(s.rows, len(values)-1)
	for i, v := range values {
		s.rows[i] = append(s.rows[i], v)
	}
}

// settle ends an episode: its points are put in order, and thinned where they are many.
func (all track) settle(episode, most int) {
	if episode >= len(all) {
		return
	}
	s := &all[episode]
	sortByTime(s.t, s.rows)
	*s = s.thinned(most)
}

// thinned is the stretch in at most so many points.
func (s stretch) thinned(most int) stretch {
	if len(s.t) <= most {
		return s
	}
	few := stretch{rows: make([][]float64, len(s.rows))}
	for _, k := range stats.LTTB(s.t, s.rows, most) {
		few.t = append(few.t, s.t[k])
		for i, row := range s.rows {
			few.rows[i] = append(few.rows[i], row[k])
		}
	}
	return few
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
		few := s.thinned(max(fewest, most*len(s.t)/n))
		t = append(t, few.t...)
		for i := range values {
			values[i] = append(values[i], few.rows[i]...)
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

// The bins of an episode are a second wide, or as many as keep them few.
const (
	mostBins      = 8192    // of an episode: more than two hours by the second
	mostBinsOfAll = 1 << 21 // of all workers in an episode
)

// bins are amounts by the stretch of an episode; all stretches are of one width, which
// whoever has the bins knows. What a long request adds to each bin between its first and
// its last is in rises, where it takes two numbers however long it is.
type bins struct{ amounts, rises []float64 }

// farApart is over how many bins an amount is spread one by one.
const farApart = 128

// spread adds a rate a nanosecond over a stretch.
func (v *bins) spread(width, from, until int64, rate float64) {
	from = max(from, 0)
	if until <= from {
		return
	}
	first, last := from/width, (until-1)/width
	v.amounts = reach(v.amounts, int(last))
	if last-first <= farApart {
		for k := first; k <= last; k++ {
			v.amounts[k] += float64(rate * float64(min(until, (k+1)*width)-max(from, k*width)))
		}
		return
	}
	v.amounts[first] += float64(rate * float64((first+1)*width-from))
	v.amounts[last] += float64(rate * float64(until-last*width))
	v.rises = reach(v.rises, int(last))
	each := float64(rate * float64(width))
	v.rises[first+1] += each
	v.rises[last] -= each
}

// count adds one at a stamp.
func (v *bins) count(width, at int64) {
	k := int(max(at, 0) / width)
	v.amounts = reach(v.amounts, k)
	v.amounts[k]++
}

// settle adds what rose to the amounts.
func (v *bins) settle() {
	level := 0.0
	for k, rise := range v.rises {
		level += rise
		v.amounts[k] += max(0, level) // what is left of a sum of fractions is nothing
	}
	v.rises = nil
}

// widen makes one bin of two.
func (v *bins) widen() {
	v.settle()
	n := len(v.amounts)
	for k := range n {
		if k%2 == 0 {
			v.amounts[k/2] = v.amounts[k]
		} else {
			v.amounts[k/2] += v.amounts[k]
		}
	}
	v.amounts = v.amounts[:(n+1)/2]
}

// rate is the amount a second in a bin; beyond the last there is none.
func (v *bins) rate(k int, width int64) float64 {
	if k < len(v.amounts) {
		return v.amounts[k] / seconds(width)
	}
	return 0
}

// reach makes room for an element.
func reach[T any](all []T, place int) []T {
	if place >= len(all) {
		all = append(all, make([]T, place+1-len(all))...)
	}
	return all
}
