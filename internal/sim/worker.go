package sim

import (
	"math"
	"slices"
	"time"

	"aicr/internal/spec"
)

// worker is one engine, on one GPU or on several that step together. It repeats steps: each lets in what fits of
// its queue, and gives every sequence of its batch one token.
type worker struct {
	index int
	id    uint64
	gpus  []gpu
	reads bool // prompts, for others to answer

	queue   []*Stream // waiting, in order; those that were given up are skipped
	waiting int
	batch   []*Stream // running, in the order of their admission; the others in it have left
	running int
	peak    int                     // most that ran at once
	blocks  int                     // of KV that the batch holds
	grows   [spec.KVBlockTokens]int // how many of the batch need one more block, by step modulo the block's tokens
	due     map[int][]*Stream       // who gets the last token in which step
	cache   *prefixes

	step  int // the number of the step that is under way, or was last
	busy  bool
	turn  uint32        // of its step: another plan voids the one before
	life  uint32        // of its process: a kill voids what had been begun
	left  float64       // nanoseconds of undisturbed work that the step still takes
	since time.Duration // when left was right
	duty  float64       // the GPU's share of the step
	fresh []*Stream     // admitted in this step

	// What the faults make of it.
	present  bool
	dead     bool
	slow     float64 // how much longer its GPU takes
	stall    float64 // how much longer its host does, the GPU idling
	wedged   bool
	gaugeOff bool // its running gauge reads 0
	lost     bool // its sample of this second is
	cold     time.Duration
	started  time.Duration // its process
	ghosts

	counters

	deliveries []time.Duration // of step 1, 2, …, where tokens are not told one by one
}

// ghosts are requests whose clients have gone away from a worker that hangs: it
// does not hear of that, and its gauges count them still.
type ghosts struct{ ghostsRunning, ghostsWaiting, ghostBlocks int }

// counters are what a worker's process has counted since it started.
type counters struct {
	generated, prompted, queries, hits, preemptions, finished int64
}

func newWorker(index, gpus int, seed uint64) *worker {
	w := &worker{
		index: index, id: workerID(seed, index),
		due: map[int][]*Stream{}, cache: newPrefixes(),
		present: true, slow: 1, stall: 1,
	}
	for i := range gpus {
		w.gpus = append(w.gpus, newGPU(seed, index*gpus+i))
	}
	return w
}

// factor is how much longer a step takes than it should; infinite when none
// ever ends.
func (w *worker) factor() float64 {
	if w.wedged {
		return math.Inf(1)
	}
	return w.slow * w.stall
}

// batch is the outcome of a step, on its way through the frontend.
type batch struct {
	worker *worker
	step   int
	tokens int
	fresh  []*Stream // had their first token of this admission
	done   []*Stream // had their last
	each   []*Stream // had any, where each token is told
}

func (f *Fleet) newBatch() *batch {
	if n := len(f.idle); n > 0 {
		b := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return b
	}
	return &batch{}
}

func (f *Fleet) release(b *batch) {
	clear(b.fresh)
	clear(b.done)
	clear(b.each)
	*b = batch{fresh: b.fresh[:0], done: b.done[:0], each: b.each[:0]}
	f.idle = append(f.idle, b)
}

// queueAt puts a request at the end of a worker's queue.
func (f *Fleet) queueAt(w *worker, s *Stream) {
	s.state = waiting
	s.size = s.Prompt
	s.Queued = f.now
	w.queue = append(w.queue, s)
	w.waiting++
	if !w.busy {
		f.accrue(w)
		w.busy = true
		f.queue.push(event{at: f.now, kind: kick, worker: int32(w.index), turn: w.life})
	}
}

// startStep lets in what fits and begins a step, or leaves the worker idle.
func (f *Fleet) startStep(w *worker) {
	w.step++
	f.growBatch(w)
	admitted, computed := f.admit(w)
	if w.running == 0 && computed == 0 {
		w.step--
		w.busy = false
		clear(w.due) // of those who were given up
		return
	}
	w.busy = true
	w.peak = max(w.peak, w.running)
	t := &f.scenario.Fleet.Timing
	onGPU := float64(t.Base + spec.Duration(w.running-admitted)*t.PerSequence +
		spec.Duration(computed)*t.PerPromptToken + spec.Duration(admitted)*t.PerAdmission)
	work := (onGPU + float64(t.Host)) * f.pace
	w.duty = onGPU / (onGPU + float64(t.Host))
	work += float64(w.cold)
	w.cold = 0
	if p := f.profile; t.HostJitter > 0 && p.HiccupsPerSecond > 0 && f.hiccups.Float64() < p.HiccupsPerSecond*work/float64(time.Second) {
		work += lognormal(f.hiccups, float64(p.Hiccup), p.HiccupSpread)
	}
	w.left, w.since = work, f.now
	f.planStep(w)
}

// planStep says when the step that is under way will end, as things are.
func (f *Fleet) planStep(w *worker) {
	w.turn++
	if w.wedged { // even at its very end
		return
	}
	if at, ever := after(f.now, w.left*w.factor()); ever {
		f.queue.push(event{at: at, kind: stepped, worker: int32(w.index), turn: w.turn})
	}
}

// settle counts the work done so far, before the worker's pace changes. The
// caller changes it and plans the step anew.
func (f *Fleet) settle(w *worker) {
	f.accrue(w)
	if w.busy {
		w.left = max(0, w.left-float64(f.now-w.since)/w.factor())
		w.since = f.now
	}
}

// cachedShare is how much of a prompt that was seen before is found in the
// prefix cache, at most: the hit rate of the published runs, whose prompts were
// recycled. The rest is the chat template's end and the last block, which is
// never whole.
const cachedShare = 0.94

// admit lets waiting requests into the batch: while there is room for one more
// sequence, for its tokens in this step, and for its KV.
func (f *Fleet) admit(w *worker) (admitted, computed int) {
	fleet := &f.scenario.Fleet
	budget := fleet.MaxBatchedTokens - w.running
	n := 0
	for ; n < len(w.queue) && w.running < fleet.MaxSequences; n++ {
		s := w.queue[n]
		if s.state != waiting {
			continue
		}
		blocks := 0
		if s.blocks == 0 {
			blocks = blocksFor(s.size)
			if w.blocks+blocks > fleet.KVBlocks {
				break
			}
			known := min(w.cache.match(s.Blocks)*spec.KVBlockTokens, int(float64(s.Prompt)*cachedShare))
			if s.read && s.before == 0 {
				known = s.Prompt // another has read it
			}
			s.need = max(1, s.size-known)
			if s.before == 0 && !s.read {
				s.Cached = s.Prompt - max(1, s.Prompt-known)
			}
		}
		if computed+s.need > budget {
			if computed > 0 || budget < 1 {
				break
			}
			// A prompt that no step has room for is computed a part a step.
			s.need -= budget
			computed = budget
			f.hold(w, s, blocks)
			break
		}
		computed += s.need
		f.hold(w, s, blocks)
		f.enter(w, s)
		admitted++
	}
	w.queue = forget(w.queue, n)
	return admitted, computed
}

// hold gives a request the KV blocks of its prompt, which the cache knows from
// then on.
func (f *Fleet) hold(w *worker, s *Stream, blocks int) {
	if blocks == 0 {
		return // it was begun in an earlier step
	}
	s.blocks = blocks
	w.blocks += blocks
	if s.Blocks != nil {
		w.cache.use(s.Blocks)
	}
	w.cache.keep(f.scenario.Fleet.KVBlocks - w.blocks)
}

// enter makes a request one of the batch.
func (f *Fleet) enter(w *worker, s *Stream) {
	s.state = running
	if s.before == 0 {
		s.Admitted = f.now
		w.prompted += int64(s.Prompt)
	}
	if s.before == 0 && !s.read {
		w.queries += int64(s.Prompt)
		w.hits += int64(s.Cached)
	}
	s.need = 0
	s.enter = w.step
	s.leave = w.step + s.fate.tokens(s.Output) - s.before - 1
	if s.fate.empty || w.reads {
		s.leave = w.step
	}
	w.waiting--
	w.running++
	w.batch = append(w.batch, s)
	w.fresh = append(w.fresh, s)
	w.due[s.leave] = append(w.due[s.leave], s)
	w.grows[phase(s)]++
}

// phase is the step, modulo a block's tokens, at which a sequence needs one more
// block: the one that computes the first token beyond its last block.
func phase(s *Stream) int {
	return ((s.enter+1-s.size)%spec.KVBlockTokens + spec.KVBlockTokens) % spec.KVBlockTokens
}

func blocksFor(tokens int) int { return (tokens + spec.KVBlockTokens - 1) / spec.KVBlockTokens }

// growBatch gives a block to each sequence that needs one more in this step.
// When there are none left, the sequence that was admitted last gives up its own
// and has to be computed again. It is then the first in the queue and needs more
// than it left, so that nobody is let in.
func (f *Fleet) growBatch(w *worker) {
	now := w.step % spec.KVBlockTokens
	for w.blocks+w.grows[now] > f.scenario.Fleet.KVBlocks && (f.unbegin(w) || w.running > 1 && f.preempt(w)) {
		w.preemptions++
	}
	if w.grows[now] > 0 {
		w.blocks += w.grows[now]
		w.cache.keep(f.scenario.Fleet.KVBlocks - w.blocks)
	}
}

// held is how many blocks a running sequence holds when the step that is given
// has grown its batch.
func held(s *Stream, step int) int { return blocksFor(s.size + max(0, step-s.enter)) }

// unbegin takes the KV back from the prompt that is being computed in parts, if
// there is one: it came after all who run, and is the first to yield.
func (f *Fleet) unbegin(w *worker) bool {
	for _, s := range w.queue {
		if s.state == waiting {
			begun := s.blocks > 0
			w.blocks -= s.blocks
			s.blocks = 0
			return begun
		}
	}
	return false
}

func (f *Fleet) preempt(w *worker) bool {
	i := len(w.batch) - 1
	for w.batch[i].state != running {
		i--
	}
	s := w.batch[i]
	clear(w.batch[i:])
	w.batch = w.batch[:i]
	f.takeOut(w, s, w.step-1)
	s.state = waiting
	s.past = append(s.past, span{s.enter, w.step - 1})
	s.before += w.step - s.enter
	s.enter, s.leave = 1, 0 // in no step
	s.size = s.Prompt + s.before
	w.waiting++
	w.queue = append(w.queue, nil)
	copy(w.queue[1:], w.queue)
	w.queue[0] = s
	return true
}

// takeOut removes a running sequence from its worker's counts; step is the last
// whose growth it was part of.
func (f *Fleet) takeOut(w *worker, s *Stream, step int) {
	w.running--
	w.blocks -= held(s, step)
	s.blocks = 0
	w.grows[phase(s)]--
}

// drop removes a request from a worker that has not ended it.
func (f *Fleet) drop(w *worker, s *Stream) {
	switch {
	case !w.wedged:
		f.left(s, false)
	case s.state == running:
		w.ghostsRunning++
		w.ghostBlocks += held(s, w.step)
	default:
		w.ghostsWaiting++
		w.ghostBlocks += s.blocks
	}
	if s.state == running {
		f.takeOut(w, s, w.step)
	} else {
		w.waiting--
		w.blocks -= s.blocks
		s.blocks = 0
	}
	s.state = failing
	if len(w.queue) > 2*w.waiting+16 { // most of it has given up
		w.queue = slices.DeleteFunc(w.queue, func(q *Stream) bool { return q.state != waiting })
	}
}

// endStep gives every sequence of the batch its token and begins the next step.
func (f *Fleet) endStep(w *worker) {
	f.accrue(w)
	b := f.newBatch()
	b.worker, b.step = w, w.step
	for _, s := range w.fresh {
		if s.state == running && s.enter == w.step {
			b.fresh = append(b.fresh, s)
		}
	}
	clear(w.fresh)
	w.fresh = w.fresh[:0]
	b.tokens = w.running
	if f.eachToken && !w.reads {
		for _, s := range w.batch {
			if s.state == running {
				b.each = append(b.each, s)
				f.made(s)
			}
		}
	}
	for _, s := range w.due[w.step] {
		if s.state != running || s.leave != w.step {
			continue // given up, or preempted since
		}
		b.done = append(b.done, s)
		f.takeOut(w, s, w.step)
		w.finished++
		if w.reads {
			f.made(s)
			f.left(s, true)
			f.handOver(w, s)
			continue
		}
		s.state = finishing
		f.left(s, s.fate.outcome() == Served)
		if s.fate.empty {
			b.tokens--
		}
	}
	delete(w.due, w.step)
	w.generated += int64(b.tokens)
	w.tidy()
	if w.reads { // its tokens reach no client, and all that it ran is with others
		clear(w.batch)
		w.batch = w.batch[:0]
		f.release(b)
	} else {
		f.enqueue(job{batch: b})
	}
	f.startStep(w)
}

// made tells who observes the workers of a token.
func (f *Fleet) made(s *Stream) {
	if f.observer != nil && !s.fate.empty {
		f.observer.Made(f.now, s)
	}
	s.Made = f.now
}

// left tells who observes the workers that one has a request less.
func (f *Fleet) left(s *Stream, whole bool) {
	if f.observer != nil {
		f.observer.Left(f.now, s, whole)
	}
}

// tidy takes out of the batch those who have left, when they are the most.
func (w *worker) tidy() {
	if len(w.batch) < 2*w.running+16 {
		return
	}
	kept := w.batch[:0]
	for _, s := range w.batch {
		if s.state == running {
			kept = append(kept, s)
		}
	}
	clear(w.batch[len(kept):])
	w.batch = kept
}

// forget drops the first n of a queue.
func forget(q []*Stream, n int) []*Stream {
	if n == 0 {
		return q
	}
	kept := copy(q, q[n:])
	clear(q[kept:])
	return q[:kept]
}

// noteDelivery keeps when a step's tokens reached the clients.
func (w *worker) noteDelivery(step int, now time.Duration, each bool) {
	if each {
		return
	}
	for len(w.deliveries) < step {
		w.deliveries = append(w.deliveries, now)
	}
	w.deliveries[step-1] = now
}

// delivered are the times at which those of some steps' tokens that have
// reached the clients did so.
func (w *worker) delivered(in span) []time.Duration {
	last := min(in.leave, len(w.deliveries))
	if last < in.enter {
		return nil
	}
	return w.deliveries[in.enter-1 : last]
}
