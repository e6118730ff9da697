package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// lag collects how late the engine's own stamps are.
type lag struct {
	n    atomic.Int64 // how many were collected
	mu   sync.Mutex
	hist *hdrhistogram.Histogram // nanoseconds
}

func newLag() *lag {
	return &lag{hist: hdrhistogram.New(1, int64(time.Hour), 3)}
}

func (l *lag) add(d time.Duration) {
	l.mu.Lock()
	_ = l.hist.RecordValue(min(max(0, int64(d)), int64(time.Hour)))
	l.mu.Unlock()
	l.n.Add(1)
}

func (l *lag) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hist.Reset()
	l.n.Store(0)
}

// into adds what was collected to h. A wire may still be collecting.
func (l *lag) into(h *hdrhistogram.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Merge(l.hist)
}

// lagEvery is how many reads the event loop makes for each one whose lag it
// looks up in the kernel, once it has looked at lagFirst of them. A client that
// is stopped and let go in turns makes as many reads each turn, of which the
// first few are late: a stride alone can step over those in a short run.
const (
	lagEvery = 16
	lagFirst = 4096
)

// due says whether the lag of the loop's nth read is to be looked up.
func (l *lag) due(nth uint) bool {
	return nth%lagEvery == 0 || l.n.Load() < lagFirst
}

// heartbeat is the lag of wires that cannot ask the kernel: how late a timer of
// a few milliseconds wakes a goroutine is how late a read would have.
const heartbeat = 5 * time.Millisecond

func (l *lag) beat(stop <-chan struct{}) {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		now := time.Now()
		l.add(now.Sub(last) - heartbeat)
		last = now
	}
}
