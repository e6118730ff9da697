package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

const (
	poolBodies = 4096    // beyond this many bodies, only the nonce changes
	poolBytes  = 8 << 20 // and long bodies are fewer: hashing them is most of the start
)

// openCount is how many unique prompts a run of unknown length must be able to
// make: some weeks of the fastest load there is.
const openCount = 1 << 30

// leastCount makes room for a warm-up and a sentinel beside a very short run.
const leastCount = 1 << 10

// Synthetic builds a workload of seeded words. Its errors come all at once, as
// FieldErrors joined.
//
// Request i is the pool's body i modulo Len, opened by the nonce of i. The pool
// repeats; no prompt does, from its first words on, which is what a prefix
// cache looks at.
func Synthetic(s Spec) (*Workload, error) {
	errs := append(s.problems(), s.InputTokens.problems("input tokens")...)
	if s.Model == "" {
		errs = append(errs, &FieldError{Field: "model", Problem: "is not given", Hint: "name the model with --model"})
	}
	floor := nonceWords(s)
	if len(errs) == 0 && s.Calibration.words(s.InputTokens.Mean) < floor {
		errs = append(errs, s.tooShort(floor))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	w := &Workload{endpoint: Chat, kind: "unique", entries: s.Entries}
	if !s.chat() {
		w.endpoint = Completions
	}
	bodies := int64(poolBodies)
	if s.Count > 0 {
		bodies = min(bodies, s.Count)
	}
	if s.Entries > 0 {
		bodies = min(bodies, s.Entries)
		w.kind = fmt.Sprintf("recycled %d", s.Entries)
	}

	// Three streams, so that the words stay what they were when only a length
	// is asked differently.
	var (
		inputs  = newSampler(s.InputTokens, min(s.InputTokens.Mean, s.Calibration.tokens(floor)), s.Seed, 1)
		outputs = newSampler(s.OutputTokens, 1, s.Seed, 2)
		text    = rand.NewPCG(mix(s.Seed, 300), mix(s.Seed, 301))
	)
	t := s.template()
	fixed, isFixed := s.Extra.output()
	var prompt []byte
	shortest := math.MaxInt
	for range bodies {
		in, out := inputs.next(), outputs.next()
		if isFixed {
			out = fixed
		}
		n := max(s.Calibration.words(in), floor)
		prompt = appendWords(prompt[:0], n, text)
		before := len(w.arena)
		w.arena, w.nonceAt = t.render(w.arena, prompt, out)
		if len(w.arena) > poolBytes && before > 0 {
			w.arena = w.arena[:before]
			break
		}
		if before == 0 { // most bodies are as long as the first
			arena := make([]byte, 0, min(poolBytes, int64(len(w.arena))*bodies)+int64(len(w.arena)))
			w.arena = append(arena, w.arena...)
		}
		shortest = min(shortest, n)
		w.freeze(in, out)
	}

	w.nonce = newNonce(min(shortest, maxNonce), s.Seed)
	for k, b := range w.slots {
		w.nonce.put(w.arena[b.start+w.nonceAt:], laneMain, uint64(k))
	}
	w.seal(fmt.Sprintf("synthetic, seed %d, count %d", s.Seed, s.Count))
	return w, nil
}

// nonceWords is how many words it takes to tell the asked prompts apart.
func nonceWords(s Spec) int {
	need := max(s.Count, leastCount)
	switch {
	case s.Entries > 0:
		need = s.Entries
	case s.Count == 0:
		need = openCount
	}
	for n := 1; n < maxNonce; n++ {
		if distinct(n) >= need {
			return n
		}
	}
	return maxNonce
}

func (s Spec) tooShort(floor int) error {
	problem := fmt.Sprintf("%d leaves %d words", s.InputTokens.Mean, s.Calibration.words(s.InputTokens.Mean))
	if o := s.Calibration.Overhead; o > 0 {
		problem += fmt.Sprintf(" beside the %.0f tokens of the chat template", o)
	}
	hint := "recycle a few prompts with --num-dataset-entries"
	if s.Entries > 0 {
		hint = "recycle fewer prompts"
	}
	return &FieldError{
		Field:   "input tokens mean",
		Problem: fmt.Sprintf("%s, and it takes %d to tell the prompts apart", problem, floor),
		Hint:    fmt.Sprintf("ask for %d or more, or %s", s.Calibration.tokens(floor), hint),
	}
}

// appendWords appends n words of the vocabulary, a byte of the source each.
func appendWords(dst []byte, n int, source *rand.PCG) []byte {
	for n > 0 {
		x := source.Uint64()
		for range min(n, 8) {
			b := int(byte(x)) * stride
			dst = append(dst, words[b:b+stride]...)
			x >>= 8
		}
		n -= min(n, 8)
	}
	return dst[:len(dst)-1]
}

// A sampler draws lengths.
type sampler struct {
	length Length
	least  int
	source *rand.Rand
}

func newSampler(l Length, least int, seed, stream uint64) sampler {
	return sampler{length: l, least: least, source: rand.New(rand.NewPCG(mix(seed, 100*stream), mix(seed, 100*stream+1)))}
}

func (s sampler) next() int {
	if s.length.StdDev == 0 {
		return s.length.Mean
	}
	// The conversion forbids fusing the two operations, which would round
	// differently from one processor to the next.
	x := float64(s.source.NormFloat64()*s.length.StdDev) + float64(s.length.Mean)
	return int(min(max(math.Round(x), float64(s.least)), maxTokens))
}
