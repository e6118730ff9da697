package sim

// powerOfTwo takes the less loaded of two that it draws.
type powerOfTwo struct{}

func (powerOfTwo) pick(v *view, _ *Stream) int {
	n := len(v.workers)
	if n == 1 {
		return v.workers[0]
	}
	i, j := v.rng.IntN(n), v.rng.IntN(n-1)
	if j >= i {
		j++
	}
	a, b := v.workers[i], v.workers[j]
	if v.load[b] < v.load[a] {
		return b
	}
	return a
}
