package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Live is what can be seen of a run while it goes on. Its zero value is ready
// to be given to Run; Now may be called from any goroutine.
type Live struct {
	sent, done, failed, tokens atomic.Int64

	mu    sync.Mutex
	run   *run
	ended time.Time
	ttft  *hdrhistogram.Histogram
}

// Moment is the state of a run at one moment.
type Moment struct {
	Elapsed        time.Duration
	Sent           int64
	Done           int64 // of Sent, failed ones included
	Failed         int64
	InFlight       int64
	Tokens         int64 // content events so far
	TTFT50, TTFT99 time.Duration
}

func (l *Live) start(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = r
	l.ttft = hdrhistogram.New(1, int64(time.Hour), 3)
}

func (l *Live) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = time.Now()
}

func (l *Live) finished(r *Record) {
	if !r.OK() {
		l.failed.Add(1)
	}
	if r.FirstContent != 0 {
		l.mu.Lock()
		_ = l.ttft.RecordValue(min(r.FirstContent-r.Sent, int64(time.Hour)))
		l.mu.Unlock()
	}
	l.done.Add(1)
}

// slowestFirst is the longest that an answer's first content took.
func (l *Live) slowestFirst() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.ttft.Max())
}

// Now tells the state of the run.
func (l *Live) Now() Moment {
	m := Moment{Done: l.done.Load(), Failed: l.failed.Load(), Tokens: l.tokens.Load()}
	m.Sent = l.sent.Load() // after Done, so that InFlight is never negative
	m.InFlight = m.Sent - m.Done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		return m
	}
	end := l.ended
	if end.IsZero() {
		end = time.Now()
	}
	m.Elapsed = end.Sub(l.run.clock.epoch)
	m.TTFT50 = time.Duration(l.ttft.ValueAtQuantile(50))
	m.TTFT99 = time.Duration(l.ttft.ValueAtQuantile(99))
	return m
}
