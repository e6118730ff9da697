package sim

// random takes any worker.
type random struct{}

func (random) pick(v *view, _ *Stream) int { return v.workers[v.rng.IntN(len(v.workers))] }
