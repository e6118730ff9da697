package sim

// leastLoaded takes one of the workers with the fewest requests. A worker that
// fails fast always has the fewest, and so draws everything to itself.
type leastLoaded struct{ least []int }

func (r *leastLoaded) pick(v *view, _ *Stream) int {
	r.least = r.least[:0]
	low := v.load[v.workers[0]]
	for _, w := range v.workers {
		switch l := v.load[w]; {
		case l < low:
			low = l
			r.least = append(r.least[:0], w)
		case l == low:
			r.least = append(r.least, w)
		}
	}
	return r.least[v.rng.IntN(len(r.least))]
}
