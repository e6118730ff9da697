package sim

// leastLoaded takes one of the workers with the fewest requests. A worker that
// fails fast always has the fewest, and so draws everything to itself.
type leastLoaded struct{}

func (leastLoaded) pick(v *view, _ *Stream) int {
	least := v.leastLoaded()
	return least[v.rng.IntN(len(least))]
}
