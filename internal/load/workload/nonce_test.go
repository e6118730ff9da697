package workload

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWordsAreFourLettersEachAndNoneTwice(t *testing.T) {
	t.Parallel()
	if len(words) != 256*stride {
		t.Fatalf("the table has %d bytes, want %d", len(words), 256*stride)
	}
	seen := make(map[string]bool)
	for b := range 256 {
		w := words[b*stride:][:stride]
		if w[letters] != ' ' || strings.Trim(w[:letters], "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("word %d is %q", b, w)
		}
		if seen[w] {
			t.Errorf("word %d, %q, is there twice", b, w)
		}
		seen[w] = true
	}
}

// Every value is reached once: for short nonces by trying all of them, and for
// all by undoing it below.
func TestNonceIsABijection(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 1, 100, ^uint64(0)} {
		for n := 1; n <= 2; n++ {
			p := newNonce(n, seed)
			seen := make([]bool, p.mask+1)
			for x := range p.mask + 1 {
				y := p.permute(x)
				if y > p.mask {
					t.Fatalf("seed %d, %d words: %d becomes %d, outside", seed, n, x, y)
				}
				if seen[y] {
					t.Fatalf("seed %d, %d words: %d is reached twice", seed, n, y)
				}
				seen[y] = true
			}
		}
	}
}

func TestNonceCanBeUndone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := newNonce(rapid.IntRange(1, maxNonce).Draw(t, "words"), rapid.Uint64().Draw(t, "seed"))
		x := rapid.Uint64().Draw(t, "x") & n.mask
		if back := n.undo(n.permute(x)); back != x {
			t.Fatalf("%d comes back as %d", x, back)
		}
	})
}

// undo is permute backwards: that it exists is the proof that no two indices
// share a nonce.
func (n nonce) undo(x uint64) uint64 {
	inverse := uint64(1) // of the multiplier modulo 2^64, by Newton's steps
	for range 6 {
		inverse *= 2 - 0xd6e8feb86659fd93*inverse
	}
	x ^= n.key[rounds]
	for r := rounds - 1; r >= 0; r-- {
		x ^= x >> (n.bits / 2)
		x = (x * inverse & n.mask) ^ n.key[r]
	}
	return x
}

func TestNoncesOfAllLanesDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := newNonce(rapid.IntRange(1, maxNonce).Draw(t, "words"), rapid.Uint64().Draw(t, "seed"))
		draw := func(name string) (lane, uint64) {
			return lane(rapid.Uint64Range(0, 3).Draw(t, name+" lane")),
				rapid.Uint64Range(0, uint64(n.distinct())-1).Draw(t, name)
		}
		l1, k1 := draw("one")
		l2, k2 := draw("other")
		a, b := make([]byte, maxNonce*stride), make([]byte, maxNonce*stride)
		n.put(a, l1, k1)
		n.put(b, l2, k2)
		if same := l1 == l2 && k1 == k2; same != (string(a) == string(b)) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestSeedsShareNoNonce(t *testing.T) {
	t.Parallel()
	const each = 2000
	seen := make(map[uint64]uint64)
	for seed := range uint64(100) {
		n := newNonce(maxNonce, seed)
		for k := range uint64(each) {
			y := n.permute(k)
			if other, ok := seen[y]; ok {
				t.Fatalf("seeds %d and %d share nonce %x", other, seed, y)
			}
			seen[y] = seed
		}
	}
}

// A prefix cache shares what agrees from the start: consecutive requests must
// part at the first word as often as chance allows.
func TestConsecutiveNoncesPartAtTheFirstWord(t *testing.T) {
	t.Parallel()
	n := newNonce(maxNonce, 100)
	var count [256]int
	const draws = 256 * 400
	for k := range uint64(draws) {
		count[byte(n.permute(k))]++
	}
	for w, c := range count {
		if c < 300 || c > 500 { // 5 standard deviations about 400
			t.Errorf("word %d opens %d of %d prompts, want about 400", w, c, draws)
		}
	}
}

func TestHashSeesEveryByteTheOrderAndTheBounds(t *testing.T) {
	t.Parallel()
	fresh := func() *Workload {
		w := &Workload{}
		for _, b := range []string{"alpha", "beta", "gamma"} {
			w.arena = append(w.arena, b...)
			w.freeze(0, 0)
		}
		return w
	}
	base := fresh()
	base.seal("rule")
	check := func(name string, change func(*Workload) string) {
		w := fresh()
		if w.seal(change(w)); w.Hash() == base.Hash() {
			t.Errorf("%s: the hash is the same", name)
		}
	}
	for i := range base.arena {
		check("flipped byte", func(w *Workload) string { w.arena[i] ^= 1; return "rule" })
	}
	check("another rule", func(*Workload) string { return "ruler" })
	check("moved bound", func(w *Workload) string { w.slots[0].end++; w.slots[1].start++; return "rule" })
	check("other order", func(w *Workload) string { w.arena = []byte("betaalphagamma"); return "rule" })
	check("recycled", func(w *Workload) string { w.entries = 3; return "rule" })

	same := fresh()
	if same.seal("rule"); same.Hash() != base.Hash() {
		t.Error("the same bodies and rule have another hash")
	}
}
