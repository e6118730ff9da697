package exporter

import (
	"sync"
	"time"

	"aicr/internal/sim"
)

// What the Tag of a sim.Stream says of its answer: why it will end, which its
// worker counts when it does.
const (
	EndsByLength = iota
	EndsByStop
)

// observed is what a worker has seen of its requests. Times are seconds.
type observed struct {
	ttft, gap                               tally // of each token
	queue, prefill, decode, whole, perToken tally // of each answer that it ended well
	handled                                 tally // of each request

	stopped, lengthy, aborted, failed uint64

	from time.Duration // when the first of it was seen; 0: nothing was yet
}

func newObserved() observed {
	return observed{
		ttft: tally{bounds: workerTTFTBounds}, gap: tally{bounds: workerGapBounds},
		queue: tally{bounds: workerRequestBounds}, prefill: tally{bounds: workerRequestBounds},
		decode: tally{bounds: workerRequestBounds}, whole: tally{bounds: workerRequestBounds},
		perToken: tally{bounds: workerGapBounds}, handled: tally{bounds: handlerBounds},
	}
}

// tokens is how many were made. Each was the first of its request, or came after
// another.
func (o *observed) tokens() uint64 { return o.ttft.count + o.gap.count }

// worker is one worker under observation.
type worker struct {
	mu      sync.Mutex // held for no longer than a copy takes: the fleet waits
	started time.Duration
	spoke   map[*sim.Stream]time.Duration // when those that it has were given their first token
	seen    observed
}

func newWorker(started time.Duration) *worker {
	return &worker{started: started, spoke: map[*sim.Stream]time.Duration{}, seen: newObserved()}
}

// runsSince forgets what a process before the one that started then has seen.
// When both have seen something since the last scrape, that cannot be told apart
// and is forgotten as well.
func (w *worker) runsSince(started time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if started > w.started && w.seen.from <= started {
		w.seen = newObserved()
	}
	w.started = max(w.started, started)
}

// sees is what there is to add to, now.
func (w *worker) sees(now time.Duration) *observed {
	if w.seen.from == 0 {
		w.seen.from = now
	}
	return &w.seen
}

func (w *worker) all() observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// Made implements sim.Observer.
func (e *Exporter) Made(now time.Duration, s *sim.Stream) {
	w := e.workers[s.Worker]
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.sees(now)
	if s.Made != 0 {
		o.gap.observe((now - s.Made).Seconds())
		return
	}
	w.spoke[s] = now
	o.ttft.observe((now - s.Queued).Seconds())
}

// Left implements sim.Observer.
func (e *Exporter) Left(now time.Duration, s *sim.Stream, whole bool) {
	w := e.workers[s.Worker]
	w.mu.Lock()
	defer w.mu.Unlock()
	first, spoke := w.spoke[s]
	delete(w.spoke, s)
	o := w.sees(now)
	o.handled.observe((now - s.Queued).Seconds())

	// The worker lets go of a request in a step of the request's own; in between,
	// a request is taken from it.
	switch own := s.Made == now; {
	case !whole && !own:
		o.aborted++
		return
	case !whole && spoke:
		o.failed++
		return
	case !whole: // an engine that says nothing knows of no error
		first = now
		o.stopped++
	case s.Tag == EndsByStop:
		o.stopped++
	default:
		o.lengthy++
	}
	decode := (s.Made - first).Seconds()
	o.queue.observe((s.Admitted - s.Queued).Seconds())
	o.prefill.observe((first - s.Admitted).Seconds())
	o.decode.observe(decode)
	o.whole.observe((s.Made - s.Queued).Seconds())
	if spoke && s.Output > 1 {
		o.perToken.observe(decode / float64(s.Output-1))
	}
}
