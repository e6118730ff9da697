package truth

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Request is what is known of one completion request that was let in. Stamps
// count from the server's Epoch; 0 is "did not happen".
type Request struct {
	Index   int64
	Arrival time.Duration // by the kernel's receive stamp where there is one
	Read    time.Duration // when the server had read it
	Kernel  bool          // Arrival is the kernel's
	Stream  bool          // the answer was asked for as a stream

	PlannedFirst time.Duration // of the first token
	First        time.Duration // right before the first token was written
	Last         time.Duration // right before the last token was written
	End          time.Duration // right before the last bytes were written, or when it was given up

	Prompt int // tokens of the prompt
	Asked  int // output length that the request asked for; 0 is none
	Tokens int // written
	Events int // written, of every kind

	Worker  uint64 // as told to the client; 0 is not told
	Fault   Kind
	Outcome Outcome
}

// Outcome says how a request ended.
type Outcome string

// The outcomes.
const (
	Open   Outcome = "open"   // in flight
	Served Outcome = "served" // answered in full; a missing [DONE] is no harm
	Failed Outcome = "failed" // its fault was played
	Left   Outcome = "left"   // the client went away, or the server was closed
)

// Histograms of times go from a nanosecond to an hour at three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour), 3)
}

// ledger is all that a server noted since it began or was reset.
type ledger struct {
	mu       sync.Mutex
	requests []*Request
	refused  int
	events   [eventKinds]int64
	queued   int64 // steps that the socket did not take at once
	late     *hdrhistogram.Histogram
	gaps     *hdrhistogram.Histogram
	begun    bool
	first    time.Duration // arrival that the freezes count from
}

func newLedger() *ledger { return &ledger{late: newHistogram(), gaps: newHistogram()} }

// open notes the arrival of a request and gives it its index. What is known
// from the script is filled in here; the rest is only touched under the lock.
func (l *ledger) open(s Script, r request, a asked) (*Request, []window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun, l.first = true, r.arrival
	}
	index, windows := int64(len(l.requests)), s.windows(l.first, true)
	e := &Request{
		Index: index, Arrival: r.arrival, Read: r.read, Kernel: r.arrival != r.read,
		Stream: a.stream, Prompt: a.prompt, Asked: a.tokens, Outcome: Open,
		PlannedFirst: advance(windows, r.arrival, s.FirstAfter(index)), Fault: s.FaultAt(index).Kind,
	}
	if a.worker {
		e.Worker = s.WorkerAt(index)
	}
	l.requests = append(l.requests, e)
	return e, windows
}

func (l *ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

func (l *ledger) windows(s Script) []window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.windows(l.first, l.begun)
}

// note notes a step that is about to be written: before, and not after, so
// that a client that has seen the end finds it in the ledger.
func (p *play) note(stamp time.Duration, st step) {
	if p.entry == nil {
		return
	}
	l, e := p.ledger, p.entry
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, n := range st.events {
		l.events[kind] += n
		e.Events += int(n)
	}
	if st.tokens > 0 {
		if e.First == 0 {
			e.First = stamp
		} else {
			record(l.gaps, stamp-e.Last)
		}
		e.Last = stamp
		e.Tokens += st.tokens
		record(l.late, stamp-st.due)
	}
	if st.act == actGoOn || st.act == actStall {
		return
	}
	e.End = stamp
	e.Outcome = Served
	if e.Fault != "" && e.Fault != NoDone && e.Fault != Unsolicited {
		e.Outcome = Failed
	}
}

// record notes a time. Those out of range are noted as the end of it.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	d = min(max(d, 1), time.Hour)
	if err := h.RecordValue(int64(d)); err != nil {
		panic(err) // cannot be: d is in range
	}
}

// queuedStep notes that a step had to wait for the client to read.
func (p *play) queuedStep() {
	if p.entry == nil {
		return
	}
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	p.ledger.queued++
}

// leave notes that a request ended before all of its answer was sent. A
// stalled one ends no other way: that is its fault, and not the client's.
func (p *play) leave(stamp time.Duration) {
	if p.entry == nil {
		return
	}
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	p.entry.End = stamp
	p.entry.Outcome = Left
	if p.entry.Fault == Stall {
		p.entry.Outcome = Failed
	}
}

func (l *ledger) copy() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Request, len(l.requests))
	for i, e := range l.requests {
		all[i] = *e
	}
	return all
}
