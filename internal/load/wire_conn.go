package load

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// connWire carries HTTP/1.1 with a goroutine for each connection. It speaks TLS
// and runs over any net.Conn, in virtual time too, at about twice the event
// loop's cost.
type connWire struct {
	*sender
	crew crew
	stop func()
}

func newConnWire(r *run) *connWire {
	w := &connWire{sender: r.sender()}
	w.crew.sender = w.sender
	w.crew.newLine = func() line { return &connLine{wire: w, buf: make([]byte, 16<<10)} }
	w.stop = w.startBeat()
	return w
}

func (w *connWire) name() string {
	if w.run.plan.Target.base.Scheme == "https" {
		return "HTTP/1.1 over TLS, a goroutine a connection"
	}
	return "HTTP/1.1, a goroutine a connection"
}

func (w *connWire) carry(st *stage)             { w.crew.carry(st) }
func (w *connWire) settle(within time.Duration) { w.crew.settle(within) }

func (w *connWire) close() {
	w.stop()
	w.crew.close()
}

// startBeat measures the scheduler's lateness until the returned function is
// called.
func (s *sender) startBeat() (stop func()) {
	over := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { s.lag.beat(over) })
	return func() {
		close(over)
		beating.Wait()
	}
}

// line carries one request after the other.
type line interface {
	// exchange sends one request and reads its answer into the stream, and says
	// how the exchange itself failed.
	exchange(ctx context.Context, body []byte, str *stream) error
	// settle ends an idle connection, and notes what still comes on it.
	settle(within time.Duration)
	hangUp()
}

// crew drives a stage over lines, one goroutine for each: the part that the two
// wires without an event loop have in common.
type crew struct {
	*sender
	newLine func() line

	mu   sync.Mutex
	all  []*hand
	free []*hand
}

// hand is one of the crew: a line and what it needs.
type hand struct {
	line
	stream
	body    []byte
	id      int32
	backoff backoff
}

func (c *crew) hand() *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		h := c.free[n-1]
		c.free = c.free[:n-1]
		return h
	}
	h := &hand{line: c.newLine(), id: int32(len(c.all))}
	c.all = append(c.all, h)
	return h
}

func (c *crew) rest(h *hand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, h)
}

func (c *crew) settle(within time.Duration) {
	var lines sync.WaitGroup
	for _, h := range c.all {
		lines.Go(func() { h.line.settle(within) })
	}
	lines.Wait()
}

func (c *crew) close() {
	for _, h := range c.all {
		h.hangUp()
	}
}

func (c *crew) carry(st *stage) {
	// One context for all exchanges: it ends them when the grace is over.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	over := make(chan struct{})
	var killer, users sync.WaitGroup
	killer.Go(func() {
		select {
		case <-st.kill:
			cancel(errInterrupted)
		case <-over:
		}
	})
	g := &gate{slots: newSlots(st.schedule.Users, st.sentinel)}
	if !st.schedule.open() {
		for u := range st.schedule.Users {
			h := c.hand()
			h.id = int32(u)
			users.Go(func() {
				c.user(ctx, st, g, h, u)
				c.rest(h)
			})
		}
	}
	if s, lane, ok := st.sendsOpen(); ok {
		users.Go(func() { c.dispatch(ctx, st, g, s, lane) })
	}
	users.Wait()
	close(over)
	killer.Wait()
}

// sleep waits until a stamp, or until sending is to stop.
func (st *stage) sleep(until int64) {
	wait := time.Duration(until - st.run.clock.now())
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-st.halt:
	}
}

// user is one user of the closed loop.
func (c *crew) user(ctx context.Context, st *stage, g *gate, h *hand, u int) {
	intended := st.start + st.schedule.userStart(u)
	st.sleep(intended)
	for {
		if waited := g.enter(st); waited {
			intended = c.run.clock.now() // it is the sentinel's doing, not a late send
		}
		seq, ok := st.ticket(c.run.clock.now())
		if !ok {
			g.leave(st, nil)
			return
		}
		c.request(ctx, st, h, Closed, seq, intended)
		g.leave(st, h.rec)
		intended = h.rec.End
		if wait := h.backoff.after(h.rec, c.run.plan.Seed); wait > 0 {
			intended += int64(wait)
			st.sleep(intended)
		}
	}
}

// dispatch starts a goroutine for each arrival.
func (c *crew) dispatch(ctx context.Context, st *stage, g *gate, s Schedule, lane Lane) {
	var running sync.WaitGroup
	defer running.Wait()
	defer g.expect(st, never)
	var slots chan struct{}
	if s.Users > 0 {
		slots = make(chan struct{}, s.Users)
	}
	table := newArrivals(s, c.run.plan.Seed)
	for seq := int64(0); s.Count == 0 || seq < s.Count; seq++ {
		intended := st.start + table.next()
		g.expect(st, intended)
		st.sleep(intended)
		if st.early(lane, intended) && !st.halted() && intended < st.stop {
			continue
		}
		if slots != nil {
			select {
			case slots <- struct{}{}:
			case <-st.halt:
			}
		}
		if st.halted() || intended >= st.stop || (lane == Sentinel && st.dry.Load() != never) {
			break
		}
		h := c.hand()
		g.force(st)
		running.Go(func() {
			c.request(ctx, st, h, lane, seq, intended)
			g.leave(st, h.rec)
			c.rest(h)
			if slots != nil {
				<-slots
			}
		})
	}
	st.ranDry(c.run.clock.now())
}

// gate has the users of a stage wait for a slot, in the order in which they came.
type gate struct {
	mu sync.Mutex
	*slots
	waiting []chan struct{}
}

// enter takes a slot for a user, when there is one. It gives up the wait when sending
// is to stop.
func (g *gate) enter(st *stage) (waited bool) {
	g.mu.Lock()
	now := st.run.clock.now()
	if len(g.waiting) == 0 && (st.sentinel == 0 || g.room(now)) {
		g.take(now)
		g.mu.Unlock()
		return false
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-st.halt:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, turn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.take(now)
	}
	return true
}

// force takes a slot for an arrival, which never waits.
func (g *gate) force(st *stage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.take(st.run.clock.now())
}

// leave gives a slot back after a request; nil: none was sent.
func (g *gate) leave(st *stage, rec *Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec == nil {
		g.yield(0)
	} else {
		g.yield(rec.served())
		st.answered(rec.End)
	}
	g.admit(st)
}

// expect notes when the sentinel is due next.
func (g *gate) expect(st *stage, due int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = due
	g.admit(st)
}

// admit lets those send that there is room for.
func (g *gate) admit(st *stage) {
	now := st.run.clock.now()
	for len(g.waiting) > 0 && g.room(now) {
		g.take(now)
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
	}
}

func (c *crew) request(ctx context.Context, st *stage, h *hand, lane Lane, seq, intended int64) {
	c.begin(st, &h.stream, lane, seq, intended, h.id)
	c.run.live.sent.Add(1)
	h.body = c.run.plan.Work.Body(h.body[:0], st.index(lane, seq))
	limited, cancel := context.WithTimeoutCause(ctx, c.run.plan.Timeout, errTimeout)
	err := h.exchange(limited, h.body, &h.stream)
	err = endedBy(limited, err)
	cancel()
	c.finish(&h.stream, c.run.clock.now(), err)
}

// endedBy is why an exchange failed: the time limit or the interrupt, rather
// than the broken read that it caused. One that ran out of time before it had a
// connection failed to connect.
func endedBy(limited context.Context, err error) error {
	if err == nil || limited.Err() == nil {
		return err
	}
	cause := context.Cause(limited)
	if _, connecting := errors.AsType[*connectError](err); connecting && errors.Is(cause, errTimeout) {
		return &connectError{cause: cause}
	}
	return cause
}

// connLine is a connection that is opened when it is needed.
type connLine struct {
	wire *connWire
	conn *opened
	last *Record // of the request that the connection carried last
	out  []byte
	buf  []byte
}

func (l *connLine) settle(within time.Duration) {
	if l.conn == nil {
		return
	}
	if surplus := l.conn.settle(l.buf, within); surplus != nil {
		l.wire.surplus(l.last, surplus)
	}
	l.hangUp()
}

func (l *connLine) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

func (l *connLine) exchange(ctx context.Context, body []byte, str *stream) error {
	run, rec := l.wire.run, str.rec
	if l.conn != nil {
		state, surplus := l.conn.idle(l.buf)
		if state == idleSurplus {
			l.wire.surplus(l.last, surplus)
		}
		if state != idleSilent {
			l.hangUp()
		}
	}
	l.last = rec
	l.out = run.plan.Target.request(l.out[:0], body)
	err := l.send(ctx, str)
	if err != nil && ctx.Err() == nil && str.unheard(err, run.clock.now()) {
		rec.Flags |= Resent
		err = l.send(ctx, str)
	}
	return err
}

// send writes the request and reads its answer. It opens a connection where there is none.
func (l *connLine) send(ctx context.Context, str *stream) (err error) {
	run, rec := l.wire.run, str.rec
	resent := rec.Has(Resent)
	if l.conn != nil {
		rec.Flags |= Reused
	} else {
		if l.conn, err = run.plan.Target.open(ctx); err != nil {
			l.conn = nil
			return err
		}
		if !resent { // else it is a part of the latency
			rec.Connect, rec.TLS = int64(l.conn.connect), int64(l.conn.handshake)
		}
	}
	keep := false
	defer func() {
		if !keep {
			l.hangUp()
		}
	}()
	// A deadline in the past ends any read or write that is under way. It may come
	// when the line has just hung up for another reason, so it has its own hold on
	// the connection.
	conn := l.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	rec.BytesOut = int32(len(l.out))
	if !resent {
		rec.Sent = run.clock.now()
	}
	if _, err := l.conn.Write(l.out); err != nil {
		state, _ := l.conn.idle(l.buf)
		return &resetError{unwrapDial(err), state == idleSurplus}
	}
	for {
		if run.plan.Target.quickAck {
			l.conn.acknowledge(ackAtOnce)
		}
		n, err := l.conn.Read(l.buf)
		at := run.clock.now()
		if n > 0 {
			before := rec.Chunks
			whole := str.feed(l.buf[:n], at)
			if d := rec.Chunks - before; d > 0 {
				run.live.tokens.Add(int64(d))
			}
			if whole {
				keep = str.broken == nil && !str.over && str.answer.Reusable() && !run.plan.NoReuse && stop()
				return nil
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // TLS says the latter of a bare FIN
			return str.answer.End()
		default:
			return &resetError{cause: unwrapDial(err)}
		}
	}
}
