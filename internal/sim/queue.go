package sim

import "time"

// event is something that will happen. Of two at the same time, the one that was
// planned first happens first, so that a seed pins the order of everything.
type event struct {
	at     time.Duration
	seq    uint64
	kind   eventKind
	worker int32  // or whom the driver wakes
	turn   uint32 // of the worker's step, or life: another makes this one void
	stream *Stream
	batch  *batch
	window *window
}

type eventKind uint8

const (
	arrival  eventKind = iota // a request reaches the frontend
	passed                    // the frontend has done its job
	kick                      // an idle worker looks at its queue
	stepped                   // a worker's step ends
	delivery                  // tokens reach their clients
	handed                    // a prompt that was read is with the worker that answers it
	refusal                   // a dead worker has answered
	answer                    // an answer without tokens reaches its client
	begins                    // a fault's window
	ends                      //
	period                    // the next stretch of windows is to be planned
	tick                      // a second has passed
	wake                      // the driver wanted to be told
)

// queue is a binary heap of events: container/heap would box each of them.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if !before(&e, &h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

func (q *queue) pop() event {
	h := q.heap
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	q.heap = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if right := down + 1; right < len(h) && before(&h[right], &h[down]) {
			down = right
		}
		if !before(&h[down], &last) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = last
	return first
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }
