package sim

// kvAware takes the worker with the least load after a credit for what it has of
// the prompt in its cache. One shared prefix and a large credit send everything
// to one worker until its queue outweighs the credit.
type kvAware struct{}

func (kvAware) pick(v *view, s *Stream) int {
	best, least := -1, 0.0
	for _, w := range v.workers {
		cost := float64(v.load[w])
		if n := len(s.Blocks); n > 0 {
			cost -= v.credit * float64(v.known[w].match(s.Blocks)) / float64(n)
		}
		if best < 0 || cost < least {
			best, least = w, cost
		}
	}
	return best
}
