package serve

import (
	"unicode"

	"aicr/internal/spec"
)

// One word is one token, on both sides. What is said follows from what was
// asked and from nothing else: the same prompt has the same answer in every
// fleet.

// prompt is what a request makes a model read.
type prompt struct {
	tokens int
	sum    uint64   // of all tokens
	blocks []uint64 // of the tokens up to the end of each whole KV block
}

// add takes in one token.
func (p *prompt) add(token uint64) {
	p.sum = mix(p.sum ^ token)
	p.tokens++
	if p.tokens%spec.KVBlockTokens == 0 {
		p.blocks = append(p.blocks, p.sum)
	}
}

// addWords takes in the words of s.
func (p *prompt) addWords(s string) {
	for word := range words(s) {
		p.add(sumOf(word))
	}
}

// words yields the words of s.
func words(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1
		for i, r := range s {
			if space := unicode.IsSpace(r); space && start >= 0 {
				if !yield(s[start:i]) {
					return
				}
				start = -1
			} else if !space && start < 0 {
				start = i
			}
		}
		if start >= 0 {
			yield(s[start:])
		}
	}
}

// sumOf is FNV-1a.
func sumOf(s string) uint64 {
	sum := uint64(14695981039346656037)
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	return sum
}

// mix spreads every bit of x over all others (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// wordLength is how many bytes each token of an answer has: a space, a letter
// and four digits, none of which JSON would escape.
const wordLength = 6

// appendWord appends token i of the answer to a prompt with that sum.
func appendWord(dst []byte, sum uint64, i int) []byte {
	n := mix(sum+uint64(i)*0xd1342543de82ef95) % 10000
	return append(dst, ' ', 'w', '0'+byte(n/1000), '0'+byte(n/100%10), '0'+byte(n/10%10), '0'+byte(n%10))
}

// stopper looks for stop strings in a text that comes byte by byte, all of them
// at once and without ever looking back (Knuth, Morris and Pratt).
type stopper struct {
	stops   []string
	borders [][]int // of each stop, by length: the longest proper prefix that ends it too
	matched []int   // of each stop: how much of it the text ends with
}

func newStopper(stops []string) *stopper {
	s := &stopper{stops: stops, matched: make([]int, len(stops))}
	for _, stop := range stops {
		border := make([]int, len(stop)+1)
		for i, k := 1, 0; i < len(stop); i++ {
			for k > 0 && stop[i] != stop[k] {
				k = border[k]
			}
			if stop[i] == stop[k] {
				k++
			}
			border[i+1] = k
		}
		s.borders = append(s.borders, border)
	}
	return s
}

// feed takes the next byte. It returns the length of the longest stop string
// that this byte completes, or else 0.
func (s *stopper) feed(b byte) (completed int) {
	for i, stop := range s.stops {
		k := s.matched[i]
		for k > 0 && (k == len(stop) || stop[k] != b) {
			k = s.borders[i][k]
		}
		if stop[k] == b {
			k++
		}
		s.matched[i] = k
		if k == len(stop) {
			completed = max(completed, k)
		}
	}
	return completed
}

// held is how much of the text's end could be the beginning of a stop string.
func (s *stopper) held() int {
	held := 0
	for _, k := range s.matched {
		held = max(held, k)
	}
	return held
}
