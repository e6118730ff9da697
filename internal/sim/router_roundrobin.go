package sim

// roundRobin takes the workers in turn, whatever they are busy with.
type roundRobin struct{ turn int }

func (r *roundRobin) pick(v *view, _ *Stream) int {
	r.turn++
	return v.workers[r.turn%len(v.workers)]
}
