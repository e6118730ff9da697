// Package workload builds the requests of a run, as bytes, before anything is
// timed: synthetic prompts of an asked length, AIPerf's inputs.json replayed,
// or a dataset of prompts or whole bodies.
//
// Read Workload first (workload.go): a small pool of frozen bodies and the rule
// by which request i is made from it, so that ten million requests cost no more
// memory than four thousand. Then Spec (spec.go), which says what to ask for,
// and the three that make a Workload: Synthetic (synthetic.go), ReadInputs
// (inputs.go) and ReadDataset (dataset.go). The uniqueness of prompts is proven
// in nonce.go.
//
// The package holds no clock, no tokenizer and no I/O but the readers it is
// given.
package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
)

// A Workload is the request sequence of a run. It never changes once built, so
// any number of goroutines may use it.
type Workload struct {
	arena []byte // the frozen bodies, end to end
	slots []slot

	nonce   nonce
	nonceAt int   // where the prompt's text begins in a body; the same in all
	entries int64 // > 0: index k means k modulo this

	endpoint Endpoint
	kind     string
	notes    []string
	hash     string
	longest  int
}

// A slot is one frozen body.
type slot struct {
	start, end    int
	input, output int32 // tokens asked; 0: unknown
}

// A lane keeps the prompts of one use apart from those of the others. An index
// carries its lane above laneShift.
type lane uint64

const (
	laneMain lane = iota
	laneWarmup
	laneSentinel
	laneProbe
)

const laneShift = 60

// Warmup is the index of the k-th warm-up request. Unique prompts of the
// warm-up never meet those of the run: a prefix they left in a cache would be
// measured as the server's speed. Recycled, replayed and dataset prompts are
// shared with the run, as AIPerf shares them.
func Warmup(k int64) int64 { return index(laneWarmup, k) }

// Sentinel is the index of the k-th request of the open-loop sentinel that runs
// beside a closed loop.
func Sentinel(k int64) int64 { return index(laneSentinel, k) }

// Probe is the index of the k-th request of the probe that comes before a run.
func Probe(k int64) int64 { return index(laneProbe, k) }

func index(l lane, k int64) int64 { return int64(l)<<laneShift | k&(1<<laneShift-1) }

// locate tells which body index i is made from, and with which nonce.
func (w *Workload) locate(i int64) (slot, lane, uint64) {
	l, k := lane(uint64(i)>>laneShift&(1<<laneBits-1)), uint64(i)&(1<<laneShift-1)
	if w.entries > 0 {
		l, k = laneMain, k%uint64(w.entries)
	}
	return w.slots[k%uint64(len(w.slots))], l, k
}

// Body appends the body of request i to dst. It allocates nothing when dst has
// room for it, and gives the same bytes for the same i always.
func (w *Workload) Body(dst []byte, i int64) []byte {
	s, l, k := w.locate(i)
	at := len(dst)
	dst = append(dst, w.arena[s.start:s.end]...)
	if w.nonce.words > 0 {
		w.nonce.put(dst[at+w.nonceAt:], l, k)
	}
	return dst
}

// BodyLen is the length of request i's body, for a Content-Length that is
// written before it.
func (w *Workload) BodyLen(i int64) int {
	s, _, _ := w.locate(i)
	return s.end - s.start
}

// MaxBodyLen is the length of the longest body: a buffer of that capacity takes
// any request.
func (w *Workload) MaxBodyLen() int { return w.longest }

// Asked is how many tokens request i asks to be read and to be written, in all of its
// choices together, the
// chat template's included where the calibration knows it; 0 where it is
// unknown, as the input of anything replayed is.
func (w *Workload) Asked(i int64) (input, output int) {
	s, _, _ := w.locate(i)
	return int(s.input), int(s.output)
}

// Len is the number of frozen bodies in the pool, not of the requests they can
// make.
func (w *Workload) Len() int { return len(w.slots) }

// Distinct is how many requests of one use (the run, its warm-up, …) can be
// made before a prompt comes again.
func (w *Workload) Distinct() int64 {
	if w.entries > 0 {
		return w.entries
	}
	return min(w.nonce.distinct(), 1<<laneShift)
}

// Recycled tells whether prompts come again by intention, and how many there
// are.
func (w *Workload) Recycled() (n int, ok bool) { return int(w.entries), w.entries > 0 }

// Endpoint is where the bodies belong.
func (w *Workload) Endpoint() Endpoint { return w.endpoint }

// Kind says in a few words, for the result, where the requests come from.
func (w *Workload) Kind() string { return w.kind }

// Notes are things the reader of a result should know about the workload:
// lines left out, sessions flattened, bodies that do not stream.
func (w *Workload) Notes() []string { return append([]string(nil), w.notes...) }

// Hash is the SHA-256, in hex, of the request sequence: of every body in the
// pool, and of the rule, the seed and the count by which the others are made.
func (w *Workload) Hash() string { return w.hash }

// seal computes what is derived from the pool. The rule stands for the requests
// beyond the pool; bodies is preceded by its own shape so that no byte can move
// from one body to the next unseen.
func (w *Workload) seal(rule string) {
	h := sha256.New()
	fmt.Fprintf(h, "aicr workload 1\n%s\nentries %d, nonce of %d words at %d\n", rule, w.entries, w.nonce.words, w.nonceAt)
	shape := make([]byte, 0, 8*len(w.slots)+8)
	shape = binary.BigEndian.AppendUint64(shape, uint64(len(w.slots)))
	for _, s := range w.slots {
		shape = binary.BigEndian.AppendUint64(shape, uint64(s.end-s.start))
		w.longest = max(w.longest, s.end-s.start)
	}
	h.Write(shape)
	h.Write(w.arena)
	w.hash = hex.EncodeToString(h.Sum(nil))
}

// freeze closes the body that was appended to the arena since the last one.
func (w *Workload) freeze(input, output int) {
	start := 0
	if n := len(w.slots); n > 0 {
		start = w.slots[n-1].end
	}
	output = int(min(int64(output)*choices(w.arena[start:]), math.MaxInt32))
	w.slots = append(w.slots, slot{start: start, end: len(w.arena), input: int32(input), output: int32(output)})
}

// choices is how many answers a body asks for: its member "n", or 1.
func choices(body []byte) int64 {
	if !bytes.HasPrefix(body, []byte("{")) || !bytes.Contains(body, []byte(`"n"`)) {
		return 1
	}
	fields, err := object(body)
	if err != nil {
		return 1
	}
	n := int64(1)
	for _, f := range fields {
		if v, err := strconv.ParseInt(string(f.Value), 10, 32); f.Key == "n" && err == nil {
			n = max(1, v)
		}
	}
	return n
}
