package workload

// A nonce is the few words that open a unique prompt. It is a bijection of the
// request's index, so no two indices share one: uniqueness is arithmetic here,
// not luck. It is keyed by the seed, so that two runs with different seeds do
// not meet in a prefix cache either.
type nonce struct {
	words int    // 0: the bodies carry none
	bits  uint   // 8 a word
	mask  uint64 // the low bits set
	key   [rounds + 1]uint64
}

const (
	maxNonce = 8 // words: 64 bits
	laneBits = 2 // of a nonce, telling main, warm-up, sentinel and probe apart
	rounds   = 3
)

func newNonce(words int, seed uint64) nonce {
	n := nonce{words: words, bits: uint(8 * words)}
	n.mask = ^uint64(0) >> (64 - n.bits)
	for r := range n.key {
		n.key[r] = mix(seed, uint64(r)) & n.mask
	}
	return n
}

// mix derives an independent number from a seed: SplitMix64's output function
// at the given step of its sequence.
func mix(seed, step uint64) uint64 {
	x := seed + (step+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// permute maps the numbers below 2^bits onto themselves, one to one: adding a
// key, multiplying by an odd number and folding the high half onto the low one
// can each be undone within those bits.
func (n nonce) permute(x uint64) uint64 {
	for r := range rounds {
		x = (x ^ n.key[r]) * 0xd6e8feb86659fd93 & n.mask
		x ^= x >> (n.bits / 2)
	}
	return x ^ n.key[rounds]
}

// distinct is how many indices of one lane have a nonce of their own.
func (n nonce) distinct() int64 { return distinct(n.words) }

func distinct(words int) int64 { return 1 << (8*words - laneBits) }

// put writes the nonce of a lane's request k over the first words of text.
func (n nonce) put(text []byte, l lane, k uint64) {
	top := n.bits - laneBits
	x := n.permute(uint64(l)<<top | k&(1<<top-1))
	for w := range n.words {
		b := int(byte(x >> (8 * w)))
		copy(text[w*stride:][:letters], words[b*stride:][:letters])
	}
}
