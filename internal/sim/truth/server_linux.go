package truth

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop is the driver of a Server: one thread that owns every socket. Nothing
// in it is locked but the ledger, which nobody else holds for long.
type loop struct {
	stage  *stage
	epoch  time.Time
	epoll  int
	listen int
	wake   int // eventfd: somebody wants the loop to end
	done   chan<- struct{}
	conns  map[int32]*conn
	timers timers
	buf    []byte // what is read
	out    []byte // what is written
	oob    []byte // control messages of a read
	coarse bool   // the kernel has no epoll_pwait2
}

// conn is a client's connection. It carries one request at a time; what the
// client sends meanwhile waits in the buffer.
type conn struct {
	fd      int
	in      []byte // read but not yet used
	body    int    // where the body of the request being read begins; 0 is not known yet
	need    int    // how long that request is, with its head
	arrival time.Duration
	read    time.Duration

	play    *play // nil between requests
	head    bool  // the head of the answer is still to be sent
	last    bool  // close after this answer
	pending []byte
	after   act    // what to do when pending is gone
	answers int    // that were whole
	deaf    bool   // it carried the last that the script allows: what comes is dropped
	serial  uint32 // of the play, so that a timer of an older one is known as such
	closed  bool
}

// drive listens and starts the loop.
func (s *Server) drive(at netip.AddrPort, done chan<- struct{}) (netip.AddrPort, func(), error) {
	l := &loop{
		stage: s.stage, epoch: s.Epoch(), epoll: -1, listen: -1, wake: -1, done: done,
		conns: map[int32]*conn{}, buf: make([]byte, 64<<10), out: make([]byte, 0, 4<<10), oob: make([]byte, 128),
	}
	bound, err := l.open(at)
	if err != nil {
		l.close()
		return netip.AddrPort{}, nil, err
	}
	go l.run()
	stop := func() {
		// The only error is a full counter, and then the loop is awake.
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	return bound, stop, nil
}

func (l *loop) open(at netip.AddrPort) (bound netip.AddrPort, err error) {
	family, sa := unix.AF_INET, unix.Sockaddr(nil)
	if at.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	} else {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	const flags = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	if l.listen, err = unix.Socket(family, flags, 0); err != nil {
		return bound, err
	}
	if err := unix.SetsockoptInt(l.listen, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return bound, err
	}
	// The kernel begins to stamp packets a moment after the first socket asks
	// for it; asking on the listener makes the first request have its stamp.
	// Without stamps, arrivals are those of the read.
	_ = unix.SetsockoptInt(l.listen, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	if err := unix.Bind(l.listen, sa); err != nil {
		return bound, err
	}
	if err := unix.Listen(l.listen, 4096); err != nil {
		return bound, err
	}
	name, err := unix.Getsockname(l.listen)
	if err != nil {
		return bound, err
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		bound = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *unix.SockaddrInet6:
		bound = netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port))
	default:
		return bound, fmt.Errorf("bound to %T", name)
	}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return bound, err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return bound, err
	}
	for _, fd := range []int{l.listen, l.wake} {
		if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return bound, err
		}
	}
	return bound, nil
}

func (l *loop) watch(op, fd int, events uint32) error {
	return unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (l *loop) now() time.Duration { return time.Since(l.epoch) }

// burst is how many due writes are done before the sockets are looked at, and
// the other way round how soon a write that has come due is done while sockets
// are being read.
const burst = 32

// run serves until it is woken. The thread is its own and ends with it, since
// its timer slack is changed.
func (l *loop) run() {
	runtime.LockOSThread()
	defer close(l.done)
	defer l.close()
	// Timers are otherwise up to 50 µs late on purpose. Without it the server
	// is a little later, and says so.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)

	events := make([]unix.EpollEvent, 256)
	for {
		if until := l.stage.frozen(l.now()); until != 0 {
			if l.freeze(until) {
				return
			}
			continue
		}
		l.fire(burst)
		n := l.wait(events)
		if l.stage.frozen(l.now()) != 0 {
			continue // nothing is lost: epoll tells it again
		}
		for _, ev := range events[:n] {
			switch int(ev.Fd) {
			case l.wake:
				return
			case l.listen:
				l.accept()
			default:
				// The connection may have been closed by an event before this.
				if c := l.conns[ev.Fd]; c != nil {
					l.serve(c, ev.Events)
				}
			}
			l.fire(burst)
		}
	}
}

// close gives up what is in flight.
func (l *loop) close() {
	for _, c := range l.conns {
		l.drop(c)
	}
	for _, fd := range []int{l.listen, l.epoll, l.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// freeze waits until the end of a window and touches no socket; it reports
// whether it was told to end.
func (l *loop) freeze(until time.Duration) bool {
	left := unix.NsecToTimespec(int64(max(0, until-l.now())))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(l.wake), Events: unix.POLLIN}}, &left, nil)
	return err == nil && n > 0
}

// wait gives the number of events there are, after waiting for the next timer
// at most.
func (l *loop) wait(events []unix.EpollEvent) int {
	left := time.Duration(-1)
	if len(l.timers) > 0 {
		left = max(0, l.timers[0].due-l.now())
	}
	if !l.coarse {
		var limit *unix.Timespec
		if left >= 0 {
			ts := unix.NsecToTimespec(int64(left))
			limit = &ts
		}
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])),
			uintptr(len(events)), uintptr(unsafe.Pointer(limit)), 0, 0)
		if errno == 0 {
			return int(n)
		}
		if errno == unix.EINTR {
			return 0
		}
		l.coarse = true // before Linux 5.11
	}
	// Whole milliseconds, rounded down: the rest is spent looking.
	ms := -1
	if left >= 0 {
		ms = int(left / time.Millisecond)
	}
	n, err := unix.EpollWait(l.epoll, events, ms)
	if err != nil {
		return 0
	}
	return n
}

func (l *loop) accept() {
	for {
		fd, _, err := unix.Accept4(l.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return // none left, or none to be had now: epoll says when
		}
		// An accepted socket has neither from its listener. Both only change
		// how fine the truth is.
		if !l.stage.script.Nagle {
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		c := &conn{fd: fd}
		if err := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			_ = unix.Close(fd)
			continue
		}
		l.conns[int32(fd)] = c
	}
}

// drop closes a connection, whatever it is in the middle of.
func (l *loop) drop(c *conn) {
	if c.closed {
		return
	}
	if c.play != nil {
		c.play.leave(l.now())
		c.play = nil
	}
	c.closed = true
	c.serial++
	delete(l.conns, int32(c.fd))
	_ = unix.Close(c.fd)
}

func (l *loop) serve(c *conn, events uint32) {
	if events&unix.EPOLLOUT != 0 && !l.flush(c) {
		return
	}
	if events&^uint32(unix.EPOLLOUT) == 0 {
		return
	}
	n, kernel, err := l.receive(c.fd)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil || n == 0:
		l.drop(c)
		return
	}
	// One reading of both clocks, so that the kernel's stamp, which is of the
	// wall clock, can be told in time since the epoch.
	t := time.Now()
	c.read = t.Sub(l.epoch)
	c.arrival = c.read
	if age := t.Sub(kernel); !kernel.IsZero() && age > 0 && age < time.Minute {
		c.arrival -= age
	}
	if c.deaf {
		return
	}
	c.in = append(c.in, l.buf[:n]...)
	if len(c.in) > maxBody {
		l.drop(c)
		return
	}
	if c.play == nil {
		l.take(c)
	}
}

// receive reads into l.buf, and gives the kernel's stamp where there is one.
// The stamp has no monotonic part: it is compared by the wall clock.
func (l *loop) receive(fd int) (n int, stamp time.Time, err error) {
	n, oobn, _, _, err := unix.Recvmsg(fd, l.buf, l.oob, unix.MSG_DONTWAIT)
	if err != nil || oobn == 0 {
		return n, stamp, err
	}
	messages, err := unix.ParseSocketControlMessage(l.oob[:oobn])
	if err != nil {
		return n, stamp, nil // the bytes are good; only their stamp is not
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			var ts unix.Timespec
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&ts)), unsafe.Sizeof(ts)), m.Data)
			stamp = time.Unix(ts.Unix())
		}
	}
	return n, stamp, nil
}

// take begins the next request, if the whole of it is there.
func (l *loop) take(c *conn) {
	if c.body == 0 {
		end := bytes.Index(c.in, []byte("\r\n\r\n"))
		if end < 0 {
			return
		}
		c.body = end + 4
		length, err := contentLength(c.in[:end])
		if err != nil {
			c.last = true
			l.answer(c, refusal(http.StatusBadRequest, err.Error()))
			return
		}
		c.need = c.body + length
	}
	if len(c.in) < c.need {
		return
	}
	r, last := readHead(c.in[:c.body-4])
	r.body, r.arrival, r.read = c.in[c.body:c.need], c.arrival, c.read
	c.last = last
	p := l.stage.begin(r)
	// The request is used up: nothing of it is kept.
	c.in = c.in[:copy(c.in, c.in[c.need:])]
	c.body, c.need = 0, 0
	l.answer(c, p)
}

func (l *loop) answer(c *conn, p *play) {
	c.play, c.head = p, true
	c.serial++
	if p.entry == nil || p.due <= l.now() {
		l.step(c)
		return
	}
	l.timers.push(timer{p.due, c, c.serial})
}

// fire does the writes that are due, at most so many.
func (l *loop) fire(limit int) {
	for ; limit > 0 && len(l.timers) > 0 && l.timers[0].due <= l.now(); limit-- {
		t := l.timers.pop()
		switch {
		case t.serial != t.conn.serial:
		case t.conn.deaf:
			l.part(t.conn)
		default:
			l.step(t.conn)
		}
	}
}

// step does the play's next step, and those that are due with it.
func (l *loop) step(c *conn) {
	p := c.play
	for {
		out := l.out[:0]
		body, st := p.next(out, p.stream)
		out = body
		if c.head && !st.bare() {
			c.head = false
			head := appendHead(nil, p, c.last)
			out = append(head, body...)
		}
		if p.stream && st.act == actEnd {
			out = append(append(out, "0\r\n\r\n"...), p.surplus()...)
		}
		l.out = body[:0] // as large as it has grown
		stamp := l.now()
		p.note(stamp, st)
		if err := l.write(c, out); err != nil {
			l.drop(c)
			return
		}
		if st.act == actGoOn {
			if p.due <= stamp {
				continue
			}
			l.timers.push(timer{p.due, c, c.serial})
			return
		}
		if len(c.pending) > 0 {
			c.after = st.act
			return
		}
		l.finish(c, st.act)
		return
	}
}

// finish does what comes after the last write of an answer.
func (l *loop) finish(c *conn, a act) {
	if a == actStall {
		return // until the client goes away
	}
	c.play = nil
	c.answers++
	switch most, delay := l.stage.script.Close.After, l.stage.script.Close.Delay; {
	case a == actReset:
		l.reset(c)
	case a == actCut || c.last:
		l.drop(c)
	case most > 0 && c.answers >= most && delay > 0:
		c.deaf = true
		l.timers.push(timer{l.now() + delay, c, c.serial})
	case most > 0 && c.answers >= most:
		c.deaf = true
		l.part(c)
	case len(c.in) > 0:
		l.take(c)
	}
}

// part ends a connection behind its last answer, as the script says.
func (l *loop) part(c *conn) {
	switch how := l.stage.script.Close; {
	case how.Half:
		_ = unix.Shutdown(c.fd, unix.SHUT_WR) // where it cannot, the client has ended the connection
	case how.Reset:
		l.reset(c)
	default:
		l.drop(c)
	}
}

// reset ends a connection by RST. Where it cannot, the client sees a FIN; its read fails
// all the same.
func (l *loop) reset(c *conn) {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0})
	l.drop(c)
}

// write sends b at once as far as the socket takes it, and keeps the rest.
func (l *loop) write(c *conn, b []byte) error {
	if len(c.pending) > 0 {
		c.pending = append(c.pending, b...)
		c.play.queuedStep()
		return nil
	}
	size := l.stage.script.Fragment
	if size == 0 {
		size = len(b)
	}
	for len(b) > 0 {
		n, err := send(c.fd, b[:min(size, len(b))])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			c.pending = append(c.pending, b...)
			c.play.queuedStep()
			return l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN|unix.EPOLLOUT)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// send writes without telling the scheduler. A write to a non-blocking socket
// takes microseconds; handing the processor over and back takes as long again.
func send(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// flush sends what waited for the client; it reports false when the
// connection is gone.
func (l *loop) flush(c *conn) bool {
	for len(c.pending) > 0 {
		n, err := send(c.fd, c.pending)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return true
		}
		if err != nil {
			l.drop(c)
			return false
		}
		c.pending = c.pending[n:]
	}
	c.pending = nil
	if err := l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN); err != nil {
		l.drop(c)
		return false
	}
	if after := c.after; after != actGoOn {
		c.after = actGoOn
		l.finish(c, after)
	}
	return !c.closed
}

// contentLength finds how long the body of a request is.
func contentLength(head []byte) (int, error) {
	if v, ok := header(head, "transfer-encoding"); ok {
		return 0, fmt.Errorf("transfer-encoding %q is not supported: send content-length", v)
	}
	v, ok := header(head, "content-length")
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > maxBody {
		return 0, fmt.Errorf("bad content-length %q", v)
	}
	return n, nil
}

// readHead reads the parts of a request's head that matter; last is that the
// client wants the connection closed.
func readHead(head []byte) (r request, last bool) {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, proto, _ := bytes.Cut(rest, []byte(" "))
	path, query, _ := bytes.Cut(target, []byte("?"))
	auth, _ := header(head, "authorization")
	connection, _ := header(head, "connection")
	r = request{method: string(method), path: string(path), query: string(query), auth: string(auth)}
	return r, string(proto) != "HTTP/1.1" || bytes.EqualFold(connection, []byte("close"))
}

// header finds a header's value by its name in lower case.
func header(head []byte, name string) ([]byte, bool) {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if ok && len(key) == len(name) && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value), true
		}
	}
	return nil, false
}

// appendHead appends the head of an answer.
func appendHead(dst []byte, p *play, last bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(append(dst, ' '), http.StatusText(p.status)...)
	if p.contentType != "" {
		dst = append(append(dst, "\r\ncontent-type: "...), p.contentType...)
	}
	if p.stream {
		dst = append(dst, "\r\ncache-control: no-cache\r\ntransfer-encoding: chunked"...)
	} else {
		dst = strconv.AppendInt(append(dst, "\r\ncontent-length: "...), int64(len(p.body)), 10)
	}
	if last {
		dst = append(dst, "\r\nconnection: close"...)
	}
	dst = time.Now().UTC().AppendFormat(append(dst, "\r\ndate: "...), http.TimeFormat)
	return append(dst, "\r\n\r\n"...)
}

// timer is the next step of a connection's play.
type timer struct {
	due    time.Duration
	conn   *conn
	serial uint32
}

// timers is a heap with the soonest first. It is written out since
// container/heap's calls through an interface would cost as much as the rest
// of an event.
type timers []timer

func (h *timers) push(t timer) {
	*h = append(*h, t)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up].due <= a[i].due {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *timers) pop() timer {
	a := *h
	top, n := a[0], len(a)-1
	a[0], a[n] = a[n], timer{}
	a = a[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && a[down+1].due < a[down].due {
			down++
		}
		if a[i].due <= a[down].due {
			break
		}
		a[i], a[down] = a[down], a[i]
		i = down
	}
	*h = a
	return top
}
