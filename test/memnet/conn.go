package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes are under way in one direction before a writer waits,
// as with the buffers of a socket.
const window = 64 << 10

// conn is one end of a connection.
type conn struct {
	in, out       *stream
	local, remote address
}

func newConn(client, server address) (here, there *conn) {
	up, down := newStream(), newStream()
	return &conn{down, up, client, server}, &conn{up, down, server, client}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close lets the other end read what was written before, and no more.
func (c *conn) Close() error {
	c.out.change(func(s *stream) { s.ended = true })
	c.in.change(func(s *stream) { s.deaf = true })
	return nil
}

// CloseWrite lets the other end read to the end, and goes on to read what it sends.
func (c *conn) CloseWrite() error {
	c.out.change(func(s *stream) { s.ended = true })
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func(s *stream) { s.reader.set(t, s.wakeAll) })
	return nil
}
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.change(func(s *stream) { s.writer.set(t, s.wakeAll) })
	return nil
}

// stream carries bytes in one direction.
type stream struct {
	mu             sync.Mutex
	bytes          []byte
	ended          bool // its writer has closed
	deaf           bool // its reader has closed
	reader, writer deadline
	changed        chan struct{} // closed when any of this changes
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

func (s *stream) change(f func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	s.wake()
}

func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) wakeAll() { s.change(func(*stream) {}) }

// wait waits until ready is true. It is called, and returns, with the lock held.
func (s *stream) wait(d *deadline, closed func() bool, ready func() bool) error {
	for {
		switch {
		case closed():
			return net.ErrClosed
		case d.passed():
			return os.ErrDeadlineExceeded
		case ready():
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.wait(&s.reader, func() bool { return s.deaf }, func() bool { return len(s.bytes) > 0 || s.ended })
	if err != nil {
		return 0, err
	}
	if len(s.bytes) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.bytes)
	s.bytes = s.bytes[n:]
	s.wake()
	return n, nil
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		err := s.wait(&s.writer, func() bool { return s.ended }, func() bool { return s.deaf || len(s.bytes) < window })
		if err != nil {
			return n, err
		}
		if s.deaf {
			return n, &net.OpError{Op: "write", Net: "memory", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
		}
		part := p[n:min(len(p), n+window-len(s.bytes))]
		s.bytes = append(s.bytes, part...)
		n += len(part)
		s.wake()
	}
	return n, nil
}

// deadline is a point in time after which a read or a write fails.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) set(at time.Time, wake func()) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = at, nil
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), wake)
	}
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
