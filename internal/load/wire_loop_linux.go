package load

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const haveLoop = true

// loopWire carries plain HTTP/1.1 on a few threads that each watch many
// connections with epoll.
type loopWire struct {
	loops []*loop
	procs int
}

func newLoopWire(r *run) (wire, error) {
	w := &loopWire{}
	for range loopsFor(r.plan) {
		l, err := newLoop(r)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("opening an event loop: %w", err)
		}
		l.number, l.of = len(w.loops), loopsFor(r.plan)
		w.loops = append(w.loops, l)
	}
	// A loop waits in the kernel without telling Go's scheduler, because telling
	// it costs more than reading a token. So each loop keeps a processor to
	// itself, and everything else needs one more.
	w.procs = runtime.GOMAXPROCS(0)
	if need := len(w.loops) + 1; w.procs < need {
		runtime.GOMAXPROCS(need)
	}
	return w, nil
}

func (w *loopWire) name() string {
	if len(w.loops) == 1 {
		return "HTTP/1.1, one event loop"
	}
	return fmt.Sprintf("HTTP/1.1, %d event loops", len(w.loops))
}

func (w *loopWire) close() {
	for _, l := range w.loops {
		l.close()
	}
	if w.procs > 0 {
		runtime.GOMAXPROCS(w.procs)
	}
}

func (w *loopWire) settle(within time.Duration) {
	var loops sync.WaitGroup
	for _, l := range w.loops {
		loops.Go(func() { l.settle(within) })
	}
	loops.Wait()
}

func (w *loopWire) carry(st *stage) {
	over := make(chan struct{})
	var signals, loops sync.WaitGroup
	signals.Go(func() {
		for _, c := range []<-chan struct{}{st.halt, st.kill} {
			select {
			case <-over:
				return
			case <-c:
				for _, l := range w.loops {
					l.wake()
				}
			}
		}
	})
	for _, l := range w.loops {
		loops.Go(func() { l.carry(st) })
	}
	loops.Wait()
	close(over)
	signals.Wait()
}

// loop is one thread's part of a loopWire.
type loop struct {
	*sender
	number, of int

	epoll, timer, bell int
	family             int
	addr               unix.Sockaddr
	armed              int64 // when the timer is set to ring; never: not set

	st       *stage
	conns    []*loopConn // every one, by its slot
	users    []*loopConn // of the closed loop's users, this loop's share
	free     []*loopConn // of the open lane: without a request, the warmest last
	resting  restingUsers
	slots    *slots      // of this loop's users and its share of the sentinel
	waiting  []*loopConn // users without a slot, in the order in which they came
	oldest   *loopConn   // the waiting ones, by when their time is up
	newest   *loopConn
	inFlight int

	nextUser  int // the next user of this loop to start
	active    int // users that have started and not retired
	openLane  Lane
	openCap   int
	openCount int64 // arrivals of all loops so far
	arrivals  *arrivals
	due       int64 // the next arrival of this loop; never: none

	now    int64
	buf    []byte
	body   []byte
	out    []byte
	events [256]unix.EpollEvent
	reads  uint
	probe  lagProbe
}

type connState uint8

const (
	connClosed connState = iota
	connOpening
	connBusy
	connIdle
)

// loopConn is one connection, and the request on it.
type loopConn struct {
	stream
	fd       int
	slot     int32 // in the loop's table
	user     int32
	turn     int32 // tells an event of this connection from one of its predecessor's
	state    connState
	lane     Lane
	watching bool   // for room to write
	rest     []byte // what the kernel did not take yet
	begun    int64  // when the connection's opening began
	seq      int64
	backoff  backoff

	older, newer *loopConn
	waiting      bool
	expires      int64
}

const (
	timerEvent = -1
	bellEvent  = -2
)

func newLoop(r *run) (*loop, error) {
	l := &loop{sender: r.sender(), epoll: -1, timer: -1, bell: -1, armed: never,
		buf: make([]byte, 256<<10)}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		l.close()
		return nil, err
	}
	if l.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		l.close()
		return nil, err
	}
	for fd, event := range map[int]int32{l.timer: timerEvent, l.bell: bellEvent} {
		if err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: event}); err != nil {
			l.close()
			return nil, err
		}
	}
	l.family, l.addr = sockaddr(r.plan.Target.addr)
	l.probe.prepare()
	return l, nil
}

func sockaddr(a *net.TCPAddr) (int, unix.Sockaddr) {
	if ip := a.IP.To4(); ip != nil {
		return unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip)}
	}
	sa := &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
	if ifi, err := net.InterfaceByName(a.Zone); err == nil {
		sa.ZoneId = uint32(ifi.Index)
	}
	return unix.AF_INET6, sa
}

func (l *loop) close() {
	for _, c := range l.conns {
		if c.state != connClosed {
			_ = unix.Close(c.fd)
			c.state = connClosed
		}
	}
	for _, fd := range []int{l.epoll, l.timer, l.bell} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func (l *loop) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(l.bell, one[:])
}

// carry runs the loop for one stage.
func (l *loop) carry(st *stage) {
	l.st = st
	l.nextUser, l.active = l.number, 0
	l.due, l.openCount = never, 0
	l.waiting, l.slots = l.waiting[:0], newSlots((l.crowd()+l.of-1-l.number)/l.of, st.sentinel/float64(l.of))
	if s, lane, ok := st.sendsOpen(); ok {
		l.openLane = lane
		l.openCap = (s.Users + l.of - 1 - l.number) / l.of // the shares add up to Users, and none is 0: see loopsFor
		l.arrivals = newArrivals(s, l.run.plan.Seed)
		l.nextArrival()
	}
	l.now = l.run.clock.now()
	for {
		l.start()
		if l.over() {
			return
		}
		l.arm()
		n := l.wait()
		l.now = l.run.clock.now()
		for i := range n {
			l.handle(&l.events[i])
		}
		l.expire()
	}
}

// crowd is how many users the stage has.
func (l *loop) crowd() int {
	if l.st.schedule.open() {
		return 0
	}
	return l.st.schedule.Users
}

func (l *loop) over() bool {
	if l.st.killed() {
		for l.oldest != nil {
			l.fail(l.oldest, errInterrupted)
		}
		l.nextUser, l.due = l.crowd(), never
		l.admit()
	}
	return l.inFlight == 0 && l.active == 0 && l.nextUser >= l.crowd() && l.due == never
}

// start sends what is due: users that begin, and arrivals.
func (l *loop) start() {
	st := l.st
	for l.nextUser < l.crowd() {
		at := st.start + st.schedule.userStart(l.nextUser)
		if at > l.now && !st.halted() {
			break
		}
		c := l.userConn(l.nextUser)
		l.nextUser += l.of
		l.active++
		l.next(c, at)
	}
	l.sendArrivals()
	l.slots.due = never
	if l.openLane == Sentinel {
		l.slots.due = l.due
	}
	l.admit()
}

// sendArrivals sends the open loop's requests that are due.
func (l *loop) sendArrivals() {
	st := l.st
	for l.due != never {
		if st.halted() || l.due >= st.stop || (l.openLane == Sentinel && st.dry.Load() != never) {
			l.lastArrival()
			break
		}
		if l.due > l.now || (l.openCap > 0 && l.inFlight >= l.openCap) {
			break // one held back by the cap is sent, late, when another has ended
		}
		if st.early(l.openLane, l.due) {
			l.nextArrival()
			continue
		}
		l.arrive()
	}
}

// lastArrival ends this loop's arrivals. A sentinel's end is not the stage's:
// the closed loop beside it goes on.
func (l *loop) lastArrival() {
	if l.openLane == Open {
		at := l.now
		if l.due >= l.st.stop {
			at = l.st.stop // known before its time
		}
		l.st.ranDry(at)
	}
	l.due = never
}

func (l *loop) userConn(user int) *loopConn {
	for len(l.users) <= user/l.of {
		l.users = append(l.users, l.newConn())
	}
	c := l.users[user/l.of]
	c.lane, c.user = Closed, int32(user)
	return c
}

func (l *loop) newConn() *loopConn {
	c := &loopConn{fd: -1, slot: int32(len(l.conns)), user: int32(len(l.conns))}
	l.conns = append(l.conns, c)
	return c
}

// nextArrival finds the next arrival that is this loop's: they are dealt out in
// turn, each loop following the same seeded time table.
func (l *loop) nextArrival() {
	limit := l.st.schedule.Count
	if l.openLane == Sentinel {
		limit = 0
	}
	for {
		at := l.arrivals.next()
		n := l.openCount
		l.openCount++
		if limit > 0 && n >= limit {
			l.st.ranDry(l.run.clock.now())
			l.due = never
			return
		}
		if n%int64(l.of) == int64(l.number) {
			l.due = l.st.start + at
			return
		}
	}
}

func (l *loop) arrive() {
	var c *loopConn
	if n := len(l.free); n > 0 {
		c = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		c = l.newConn()
	}
	c.lane = l.openLane
	seq, intended := l.openCount-1, l.due
	l.nextArrival()
	l.send(c, seq, intended)
}

// next lets a user of the closed loop send again when there is a slot for it.
func (l *loop) next(c *loopConn, intended int64) {
	if l.st.sentinel > 0 && !l.st.halted() && (len(l.waiting) > 0 || !l.slots.room(l.now)) {
		l.waiting = append(l.waiting, c)
		return
	}
	l.sendNext(c, intended)
}

// admit lets those users send that there is a slot for, and those that would be sent
// away in any case.
func (l *loop) admit() {
	for len(l.waiting) > 0 && (l.st.halted() || l.slots.room(l.now)) {
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.sendNext(c, l.now)
	}
}

// sendNext has a user of the closed loop send again, or retires it.
func (l *loop) sendNext(c *loopConn, intended int64) {
	seq, ok := l.st.ticket(l.now)
	if !ok {
		l.active--
		return
	}
	l.send(c, seq, intended)
}

// send opens the record and, where the connection is open, writes the request.
func (l *loop) send(c *loopConn, seq, intended int64) {
	if c.state == connIdle {
		l.lookAtIdle(c)
	}
	l.begin(l.st, &c.stream, c.lane, seq, intended, c.user)
	c.seq = seq
	l.inFlight++
	l.slots.take(l.now)
	l.run.live.sent.Add(1)
	l.await(c)
	if c.state == connIdle {
		c.rec.Flags |= Reused
		l.write(c)
		return
	}
	l.connect(c)
}

func (l *loop) connect(c *loopConn) {
	c.begun = l.run.clock.now()
	fd, err := unix.Socket(l.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.fail(c, &connectError{cause: err})
		return
	}
	c.fd, c.state = fd, connOpening
	c.turn++
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	err = unix.Connect(fd, l.addr)
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		l.fail(c, &connectError{cause: err})
		return
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP, Fd: c.slot, Pad: c.turn}
	c.watching = true
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		l.fail(c, &connectError{cause: err})
	}
}

func (l *loop) write(c *loopConn) {
	l.body = l.run.plan.Work.Body(l.body[:0], l.st.index(c.lane, c.seq))
	l.out = l.run.plan.Target.request(l.out[:0], l.body)
	c.state = connBusy
	rec := c.rec
	rec.BytesOut = int32(len(l.out))
	if !rec.Has(Resent) {
		rec.Sent = l.run.clock.now()
	}
	n, err := rawWrite(c.fd, l.out)
	if err != 0 && err != unix.EAGAIN {
		l.fail(c, l.refused(c, err))
		return
	}
	c.rest = append(c.rest[:0], l.out[max(n, 0):]...)
	l.watch(c, len(c.rest) > 0)
	if l.run.plan.Target.quickAck {
		quickAck(c.fd)
	}
}

// refused is the failure of a write. An answer may have come before it.
func (l *loop) refused(c *loopConn, err error) error {
	n, _ := l.peek(c)
	return &resetError{err, idleStateOf(l.buf[:max(0, n)]) == idleSurplus}
}

// watch changes whether the connection's room to write is of interest.
func (l *loop) watch(c *loopConn, room bool) {
	if c.watching == room {
		return
	}
	c.watching = room
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: c.slot, Pad: c.turn}
	if room {
		event.Events |= unix.EPOLLOUT
	}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, c.fd, &event)
}

func (l *loop) handle(e *unix.EpollEvent) {
	switch e.Fd {
	case timerEvent:
		l.armed = never
		var ticks [8]byte
		_, _ = unix.Read(l.timer, ticks[:])
		return
	case bellEvent:
		var rings [8]byte
		_, _ = unix.Read(l.bell, rings[:])
		return
	}
	c := l.conns[e.Fd]
	if c.turn != e.Pad || c.state == connClosed {
		return
	}
	if c.state == connOpening {
		l.opened(c)
		return
	}
	if e.Events&unix.EPOLLOUT != 0 && len(c.rest) > 0 {
		n, err := rawWrite(c.fd, c.rest)
		if err != 0 && err != unix.EAGAIN {
			l.fail(c, l.refused(c, err))
			return
		}
		c.rest = c.rest[max(n, 0):]
		l.watch(c, len(c.rest) > 0)
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.read(c)
	}
}

func (l *loop) opened(c *loopConn) {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	if err != nil {
		l.fail(c, &connectError{cause: err})
		return
	}
	if !c.rec.Has(Resent) { // else it is a part of the latency
		c.rec.Connect = l.run.clock.now() - c.begun
	}
	l.write(c)
}

func (l *loop) read(c *loopConn) {
	var n int
	var err syscall.Errno
	l.reads++
	sample := l.lag.due(l.reads)
	if sample {
		n, err = l.probe.read(c.fd, l.buf)
	} else {
		n, err = rawRead(c.fd, l.buf)
	}
	at := l.run.clock.now()
	l.now = at
	if sample && n > 0 {
		if late := l.probe.lag(); late >= 0 {
			l.lag.add(late)
		}
	}
	switch {
	case n > 0:
		if c.state == connIdle {
			l.endIdle(c, l.buf[:n])
			return
		}
		before := c.rec.Chunks
		whole := c.feed(l.buf[:n], at)
		if d := c.rec.Chunks - before; d > 0 {
			l.run.live.tokens.Add(int64(d))
		}
		if whole {
			l.end(c, at, nil)
		} else if l.run.plan.Target.quickAck {
			quickAck(c.fd)
		}
	case err == unix.EAGAIN || err == unix.EINTR:
	case c.state == connIdle:
		l.drop(c)
	case err != 0:
		l.end(c, at, &resetError{cause: err})
	default:
		l.end(c, at, c.answer.End())
	}
}

// end closes the record of a request that was answered or whose connection
// failed, and lets its user go on. One that the server cannot have heard is sent again.
func (l *loop) end(c *loopConn, at int64, cause error) {
	if cause != nil && c.unheard(cause, at) {
		l.drop(c)
		c.rec.Flags |= Resent
		l.connect(c)
		return
	}
	keep := cause == nil && c.broken == nil && !c.over && c.answer.Reusable() && !l.run.plan.NoReuse && len(c.rest) == 0
	l.forget(c)
	l.inFlight--
	l.finish(&c.stream, at, cause)
	l.slots.yield(c.rec.served())
	l.st.answered(at)
	if keep {
		c.state = connIdle
		l.watch(c, false)
	} else {
		l.drop(c)
	}
	if c.lane != Closed {
		l.free = append(l.free, c)
		return
	}
	if wait := c.backoff.after(c.rec, l.run.plan.Seed); wait > 0 && !l.st.halted() {
		l.resting.push(resting{c, at + int64(wait)})
		return
	}
	l.next(c, at)
}

func (l *loop) fail(c *loopConn, cause error) { l.end(c, l.run.clock.now(), cause) }

// drop closes the connection.
func (l *loop) drop(c *loopConn) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
	c.fd, c.state, c.watching = -1, connClosed, false
	c.turn++
}

// resting is a user of an event loop that waits before it connects again.
type resting struct {
	c     *loopConn
	until int64
}

// restingUsers is a heap of them, the soonest first.
type restingUsers []resting

func (h *restingUsers) push(r resting) {
	*h = append(*h, r)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up].until <= a[i].until {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *restingUsers) pop() resting {
	a := *h
	top, n := a[0], len(a)-1
	a[0], a[n] = a[n], resting{}
	a = a[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && a[down+1].until < a[down].until {
			down++
		}
		if a[i].until <= a[down].until {
			break
		}
		a[i], a[down] = a[down], a[i]
		i = down
	}
	*h = a
	return top
}

func (l *loop) wakeRested() {
	for len(l.resting) > 0 && (l.resting[0].until <= l.now || l.st.halted()) {
		l.next(l.resting.pop().c, l.now)
	}
}

// await puts a connection at the end of the queue of those whose request may
// time out. All have the same time, so the queue is in order.
func (l *loop) await(c *loopConn) {
	l.enqueue(c, l.now+int64(l.run.plan.Timeout))
}

func (l *loop) enqueue(c *loopConn, expires int64) {
	c.expires, c.waiting = expires, true
	c.older, c.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = c
	} else {
		l.oldest = c
	}
	l.newest = c
}

func (l *loop) forget(c *loopConn) {
	if !c.waiting {
		return
	}
	c.waiting = false
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		l.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		l.newest = c.older
	}
	c.older, c.newer = nil, nil
}

func (l *loop) expire() {
	for l.oldest != nil && l.oldest.expires <= l.now {
		c := l.oldest
		if c.state == connOpening {
			l.fail(c, &connectError{cause: errTimeout})
		} else {
			l.fail(c, errTimeout)
		}
	}
	l.wakeRested()
}

// arm sets the timer to the next thing that is due.
func (l *loop) arm() {
	next := l.due
	if l.openCap > 0 && l.inFlight >= l.openCap {
		next = never
	}
	if l.nextUser < l.crowd() {
		next = min(next, l.st.start+l.st.schedule.userStart(l.nextUser))
	}
	if l.oldest != nil {
		next = min(next, l.oldest.expires)
	}
	if len(l.resting) > 0 {
		next = min(next, l.resting[0].until)
	}
	if next >= l.armed || next == never {
		return // a timer that rings too early only costs one turn
	}
	l.armed = next
	wait := max(1, next-l.run.clock.now())
	_ = unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(wait)}, nil)
}

// wait blocks in the kernel. It does so without Go's scheduler knowing, which
// would hand the processor on and want it back for every token; the scheduler's
// signals still interrupt it.
func (l *loop) wait() int {
	n, _, err := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll),
		uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), ^uintptr(0), 0, 0)
	if err != 0 {
		return 0 // EINTR
	}
	return int(n)
}

func rawRead(fd int, b []byte) (int, syscall.Errno) {
	// recvfrom rather than read, which passes through the file layer first.
	n, _, err := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	return int(n), err
}

func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	// sendto rather than write, for MSG_NOSIGNAL: a peer that is gone is an error, not a signal.
	n, _, err := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), err
}

// lookAtIdle drops a connection without a request on which something has come. Epoll tells
// of that too, but the next request may be due before the loop has looked.
func (l *loop) lookAtIdle(c *loopConn) {
	n, err := l.peek(c)
	switch {
	case err == unix.EAGAIN:
	case err != 0:
		l.drop(c)
	default:
		l.endIdle(c, l.buf[:n])
	}
}

// peek looks at the beginning of what has come on a connection, and leaves it there.
func (l *loop) peek(c *loopConn) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&l.buf[0])), peeked,
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return int(n), err
}

// endIdle drops a connection without a request on which b has come; nothing is its end.
func (l *loop) endIdle(c *loopConn, b []byte) {
	if idleStateOf(b) == idleSurplus {
		l.surplus(c.rec, b)
	}
	l.drop(c)
}

// settle ends the loop's idle connections, and waits until the server has ended its side.
func (l *loop) settle(within time.Duration) {
	for _, c := range l.conns {
		if c.state == connIdle {
			_ = unix.Shutdown(c.fd, unix.SHUT_WR)
		}
	}
	limit := l.run.clock.now() + int64(within)
	_ = unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(within))}, nil)
	idle := func(c *loopConn) bool { return c.state == connIdle }
	for slices.ContainsFunc(l.conns, idle) && l.run.clock.now() < limit {
		for i := range l.wait() {
			l.handle(&l.events[i])
		}
	}
}

func quickAck(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
}
