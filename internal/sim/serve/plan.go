package serve

import "fmt"

// The finish reasons.
const (
	finishLength = "length"
	finishStop   = "stop"
)

// plan is an answer before any of it is given: its text follows from the
// prompt, so where it ends is known from the start.
type plan struct {
	sum    uint64
	output int    // tokens
	finish string // why it ends there

	// shown is how many bytes of the text may be seen after each token; nil where
	// there is no stop string: all of them.
	shown []int
}

// planOf makes the answer to a. Left alone, the model says natural tokens; it
// cannot go beyond its context.
func planOf(a *ask, natural, context int) (plan, *refusal) {
	room := context - a.prompt.tokens
	if room <= 0 {
		return plan{}, &refusal{400, fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.",
			context, a.prompt.tokens)}
	}
	p := plan{sum: a.prompt.sum, output: max(1, natural, a.atLeast), finish: finishStop}
	switch limit := a.atMost; {
	case limit == 0:
	case a.ignoreEOS, p.output > limit, a.atLeast >= limit:
		p.output, p.finish = limit, finishLength
	}
	if p.output > room {
		p.output, p.finish = room, finishLength
	}
	if len(a.stops) > 0 {
		p.heed(a.stops)
	}
	return p, nil
}

// heed ends the answer with the first token that completes a stop string, and
// hides that string: all of it in the end, and until then what might be it.
func (p *plan) heed(stops []string) {
	s := newStopper(stops)
	var word [wordLength]byte
	p.shown = make([]int, 0, p.output)
	for i := range p.output {
		end := -1 // of the text, when a stop string is complete
		for j, b := range appendWord(word[:0], p.sum, i) {
			if n := s.feed(b); n > 0 {
				if start := i*wordLength + j + 1 - n; end < 0 || start < end {
					end = start
				}
			}
		}
		if end >= 0 {
			p.output, p.finish = i+1, finishStop
			p.shown = append(p.shown, end)
			return
		}
		p.shown = append(p.shown, (i+1)*wordLength-s.held())
	}
	// What was held back was no stop string after all.
	p.shown[p.output-1] = p.output * wordLength
}

// visible is how many bytes of the text may be seen after n tokens.
func (p *plan) visible(n int) int {
	switch {
	case n == 0:
		return 0
	case p.shown == nil:
		return n * wordLength
	default:
		return p.shown[n-1]
	}
}

// appendText appends bytes from up to to of the text.
func (p *plan) appendText(dst []byte, from, to int) []byte {
	var word [wordLength]byte
	for from < to {
		i := from / wordLength
		w := appendWord(word[:0], p.sum, i)
		next := min(to, (i+1)*wordLength)
		dst = append(dst, w[from-i*wordLength:next-i*wordLength]...)
		from = next
	}
	return dst
}
