package load

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"aicr/internal/load/sse"
	"aicr/internal/load/workload"
)

// Plan is a whole run: what is sent, where to and when.
type Plan struct {
	Target *Target
	Work   *workload.Workload

	Warmup   Schedule // done, and all its answers awaited, before Main begins
	Main     Schedule
	Sentinel float64 // requests a second beside a closed Main; 0: none

	Timeout    time.Duration // for one request, its connection included
	Grace      time.Duration // for what is in flight when sending has stopped
	Seed       uint64        // of the arrivals
	KeepTokens bool          // keep the stamp of every event with a choice
	Choices    bool          // pool the gaps between events with a choice too
	NoReuse    bool          // a connection for every request
	Wire       WireKind
	Senders    int   // event loops; 0: as many as the load asks for
	Host       fs.FS // the machine's file tree, for the audit; nil: not audited
}

// Result is what a run left: every request's record, and how the engine itself
// did.
type Result struct {
	Epoch time.Time // the wall clock at stamp 0
	Log   *Log
	Gaps  *Gaps
	// Choices are the gaps between events with a choice, those without text included; nil:
	// the plan did not ask for them.
	Choices *Gaps
	Audit   Audit
	Wire    string // what carried the requests

	// Unsolicited counts how often bytes came that no request asked for: as often was an
	// answer, or a part of one, in danger of being taken for that of another request.
	Unsolicited int64

	Warmup, Main Window
	Interrupted  bool // stopped by the caller before the schedule's end
}

// Window is when a stage ran.
type Window struct {
	Start, End int64 // first send wanted, last answer whole
	// Full and Dry bound the steady part: every user had started, and the engine
	// had nothing more to send. Zero when the stage never got so far.
	Full, Dry int64
	// Unsent counts the arrivals of an open loop that were due when sending
	// stopped and had been held back by its cap on requests in flight.
	Unsent int64
}

// clock gives stamps. Stamp 0 means "never", so the epoch itself is stamp 1.
type clock struct{ epoch time.Time }

func (c clock) now() int64 { return int64(time.Since(c.epoch)) + 1 }

const never = int64(math.MaxInt64)

// Run carries out the plan. A cancelled ctx stops the sending; what is in flight
// is still awaited, for the plan's grace, so that nothing already paid for is
// lost. It returns an error only when nothing could be run at all: failed
// requests are records.
func Run(ctx context.Context, p *Plan, live *Live) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.fitDescriptors(); err != nil {
		return nil, err
	}
	if live == nil {
		live = &Live{}
	}
	// A collection in the middle of a run costs stamps. The hot path makes no
	// garbage, so the collector may as well wait; records hold no pointers.
	defer debug.SetGCPercent(debug.SetGCPercent(400))

	r := &run{plan: p, clock: clock{time.Now()}, live: live, log: &Log{}}
	live.start(r)
	w, err := openWire(r)
	if err != nil {
		return nil, err
	}
	defer w.close()

	res := &Result{Epoch: r.clock.epoch, Log: r.log, Wire: w.name()}
	audit := beginAudit(p.Host)
	if !p.Warmup.empty() {
		res.Warmup = r.stage(ctx, w, stagePlan{schedule: p.Warmup, warm: true})
	}
	if ctx.Err() == nil {
		for _, s := range r.senders {
			s.lag.reset() // what was late in the warm-up is in none of the figures
		}
		audit.begin()
		res.Main = r.stage(ctx, w, stagePlan{schedule: p.Main, sentinel: p.Sentinel})
		audit.stop()
	}
	res.Interrupted = ctx.Err() != nil
	live.stop()
	w.settle(r.settleWithin(res.Interrupted))

	r.log.seal()
	res.Gaps = NewGaps()
	if p.Choices {
		res.Choices = NewGaps()
	}
	for _, s := range r.senders {
		res.Gaps.Merge(s.gaps)
		if p.Choices {
			res.Choices.Merge(s.choices)
		}
		res.Unsolicited += s.unsolicited
	}
	res.Main.assignPhases(r.log)
	res.Audit = audit.conclude(p, res, r.senders)
	return res, nil
}

// The largest event that is accepted: no more than mostPending bytes of events that are
// not whole yet lie in memory, however many answers are in flight, but each may have
// leastEvent.
const (
	mostPending = 128 << 20
	leastEvent  = 64 << 10
)

// mostEvent is the largest event, in bytes, that is accepted in an answer.
func (p *Plan) mostEvent() int {
	inFlight := max(p.Main.Users, p.Warmup.Users)
	if inFlight == 0 { // an open loop without a cap
		inFlight = 1000
	}
	return max(leastEvent, min(mostPending/inFlight, sse.MaxEvent))
}

func (p *Plan) check() error {
	var errs []error
	if p.Target == nil || p.Work == nil {
		errs = append(errs, errors.New("a plan needs a target and a workload"))
	}
	if p.Main.empty() {
		errs = append(errs, errors.New("a schedule needs users or a rate"))
	}
	if p.Timeout <= 0 {
		errs = append(errs, errors.New("a plan needs a request time limit"))
	}
	return errors.Join(errs...)
}

// run is what all senders of a run share.
type run struct {
	plan    *Plan
	clock   clock
	live    *Live
	log     *Log
	senders []*sender
}

func (r *run) sender() *sender {
	s := &sender{run: r, log: &shardLog{id: int32(len(r.log.shards))}, gaps: NewGaps(), lag: newLag()}
	if r.plan.Choices {
		s.choices = NewGaps()
	}
	r.log.shards = append(r.log.shards, s.log)
	r.senders = append(r.senders, s)
	return s
}

// stagePlan is one stage's part of the plan.
type stagePlan struct {
	schedule Schedule
	sentinel float64
	warm     bool
}

// stage is a stage as the wires see it: who may send what, and until when.
type stage struct {
	stagePlan
	run   *run
	start int64
	stop  int64 // nothing is sent at or after this stamp

	ended  atomic.Int64  // when the first request ended; 0: none has
	issued atomic.Int64  // of the closed loop
	opened atomic.Int64  // requests of the open loop that were begun
	dry    atomic.Int64  // when a sender first had nothing more to send
	halt   chan struct{} // closed: stop sending
	kill   chan struct{} // closed: give up what is in flight
}

// stage runs one stage to its end.
func (r *run) stage(ctx context.Context, w wire, p stagePlan) Window {
	st := &stage{stagePlan: p, run: r, start: r.clock.now(), stop: never,
		halt: make(chan struct{}), kill: make(chan struct{})}
	if p.schedule.Duration > 0 {
		st.stop = st.start + int64(p.schedule.Duration)
	}
	st.dry.Store(never)

	over := make(chan struct{})
	var watch sync.WaitGroup
	var halted int64 // when sending was stopped; 0: it ended by itself
	watch.Go(func() { halted = st.watch(ctx, over) })
	w.carry(st)
	close(over)
	watch.Wait()

	end := Window{Start: st.start, End: r.clock.now()}
	if st.schedule.open() && st.schedule.Users > 0 && halted != 0 {
		end.Unsent = st.schedule.dueBy(min(halted, st.stop)-st.start, r.plan.Seed) - st.opened.Load()
	}
	if dry := st.dry.Load(); dry != never {
		end.Dry = min(dry, end.End)
	}
	return end
}

// watch turns the end of the time or of the context into halt, and the end of
// the grace after it into kill. It tells when it halted the stage, or 0.
func (st *stage) watch(ctx context.Context, over <-chan struct{}) (halted int64) {
	var timeUp <-chan time.Time
	if st.stop != never {
		t := time.NewTimer(time.Duration(st.stop - st.run.clock.now()))
		defer t.Stop()
		timeUp = t.C
	}
	select {
	case <-over:
		return 0
	case <-ctx.Done():
	case <-timeUp:
	}
	halted = st.run.clock.now()
	close(st.halt)
	t := time.NewTimer(st.run.plan.Grace)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		close(st.kill)
	}
	return halted
}

func (st *stage) halted() bool {
	select {
	case <-st.halt:
		return true
	default:
		return false
	}
}

func (st *stage) killed() bool {
	select {
	case <-st.kill:
		return true
	default:
		return false
	}
}

// ticket lets its holder send one request, the seq-th, now.
func (st *stage) ticket(now int64) (seq int64, ok bool) {
	if now >= st.stop || st.halted() {
		st.ranDry(now)
		return 0, false
	}
	n := st.issued.Add(1)
	if limit := st.schedule.Count; limit > 0 && n > limit {
		st.ranDry(now)
		return 0, false
	}
	return n - 1, true
}

func (st *stage) ranDry(now int64) {
	for {
		was := st.dry.Load()
		if was <= now || st.dry.CompareAndSwap(was, now) {
			return
		}
	}
}

// sendsOpen reports whether the stage has arrivals, and by which schedule.
func (st *stage) sendsOpen() (Schedule, Lane, bool) {
	switch {
	case st.schedule.open():
		return st.schedule, Open, true
	case st.sentinel > 0:
		return Schedule{Rate: st.sentinel}, Sentinel, true
	}
	return Schedule{}, Closed, false
}

// answered notes the end of a request.
func (st *stage) answered(now int64) {
	if st.ended.Load() == 0 {
		st.ended.CompareAndSwap(0, now)
	}
}

// early reports whether a sentinel's arrival is due before any request has ended. It is
// not sent: every user is still in flight, none could yield a slot, and the load would
// be more than was asked for.
func (st *stage) early(lane Lane, intended int64) bool {
	first := st.ended.Load()
	return lane == Sentinel && (first == 0 || intended < first)
}

// index is where in the workload a request is found. A warm-up or a sentinel
// must not bring the main requests' prompts into the server's cache.
func (st *stage) index(lane Lane, seq int64) int64 {
	switch {
	case st.warm:
		return workload.Warmup(seq)
	case lane == Sentinel:
		return workload.Sentinel(seq)
	}
	return seq
}

// sender is one writer of records: an event loop, or all goroutines of the
// connection wire together.
type sender struct {
	run  *run
	mu   sync.Mutex // taken once a request; the event loop never waits for it
	log  *shardLog
	gaps *Gaps
	lag  *lag

	choices *Gaps   // nil: not asked for
	ordered []int64 // scratch

	unsolicited int64 // times that bytes came which no request asked for
}

// begin opens the record of a request.
func (s *sender) begin(st *stage, str *stream, lane Lane, seq, intended int64, user int32) {
	s.mu.Lock()
	rec := s.log.add()
	s.mu.Unlock()
	rec.Seq, rec.Intended, rec.Lane, rec.User = seq, intended, lane, user
	_, asked := s.run.plan.Work.Asked(st.index(lane, seq))
	rec.Asked = clamp(int64(asked))
	if lane == Open {
		st.opened.Add(1)
	}
	if st.warm {
		rec.Phase = Warmup
	} else {
		rec.Phase = Steady // assigned when the run's windows are known
	}
	str.mask = s.run.plan.Target.mask
	str.events.Most = s.run.plan.mostEvent()
	str.begin(rec)
}

// finish closes the record of a request.
func (s *sender) finish(str *stream, at int64, cause error) {
	message := str.finish(at, cause)
	rec := str.rec
	s.mu.Lock()
	if message != "" {
		rec.Detail = s.log.detail(message)
	}
	if rec.Class == Unsolicited {
		s.unsolicited++
	}
	if rec.OK() && rec.Phase != Warmup && rec.Lane != Sentinel {
		s.gaps.Add(str.stamps)
		if s.choices != nil {
			s.ordered = inOrder(s.ordered[:0], str.stamps, str.blanks)
			s.choices.Add(s.ordered)
		}
	}
	if s.run.plan.KeepTokens && len(str.stamps) > 0 {
		s.log.keep(rec, str.stamps, str.blanks)
	}
	s.mu.Unlock()
	s.run.live.finished(rec)
}

// surplus notes bytes that came when no request was under way. The answer before them, of
// rec, is not served: it may have been that of another request.
func (s *sender) surplus(rec *Record, b []byte) {
	mask := s.run.plan.Target.mask
	cause := &surplusError{excerpt(mask, b, 80)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsolicited++
	if rec == nil || rec.Class == Unsolicited {
		return
	}
	if rec.OK() {
		s.run.live.failed.Add(1)
	}
	rec.Class, rec.Detail = Unsolicited, s.log.detail(excerpt(mask, []byte(cause.Error()), maxMessage))
}

// assignPhases tells ramp and drain from the steady part, once all is known.
func (w *Window) assignPhases(l *Log) {
	first := map[int32]int64{}
	for r := range l.All() {
		if r.Phase == Warmup || r.Lane != Closed || r.Sent == 0 {
			continue
		}
		if at, seen := first[r.User]; !seen || r.Sent < at {
			first[r.User] = r.Sent
		}
	}
	w.Full = w.Start
	for _, at := range first {
		w.Full = max(w.Full, at)
	}
	if w.Dry == 0 {
		w.Dry = w.End
	}
	for r := range l.All() {
		switch {
		case r.Phase == Warmup:
		case r.Lane == Closed && r.Intended < w.Full && r.Sent < w.Full:
			r.Phase = Ramp
		case r.End > w.Dry:
			r.Phase = Drain
		default:
			r.Phase = Steady
		}
	}
}
