package truth

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Handler plays a script behind net/http. Each request sleeps in its own
// goroutine, so it is later than a Server and costs more; in exchange it works
// under TLS, HTTP/2 and virtual time.
type Handler struct {
	*stage

	mu      sync.Mutex
	answers map[string]int // that a connection has carried, by its address
}

// NewHandler makes a Handler. Its epoch is now.
func NewHandler(s Script) (*Handler, error) {
	st, err := newStage(s)
	if err != nil {
		return nil, err
	}
	return &Handler{stage: st}, nil
}

// maxBody bounds what one request can make the server hold.
const maxBody = 64 << 20

// ServeHTTP answers one request as the script says.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client is gone
	}
	epoch := h.Epoch()
	now := func() time.Duration { return time.Since(epoch) }
	arrival := now()
	p := h.begin(request{
		method: r.Method, path: r.URL.Path, query: r.URL.RawQuery,
		auth: r.Header.Get("Authorization"), body: body, arrival: arrival, read: arrival,
	})
	if p.contentType != "" {
		w.Header().Set("Content-Type", p.contentType)
	}
	last := p.stream && h.last(r)
	if last && r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close") // net/http makes a GOAWAY of it
	}
	if p.stream {
		w.Header().Set("Cache-Control", "no-cache")
	}
	var buf []byte
	for head := true; ; {
		if p.entry != nil && !wait(r.Context(), p.due-now()) {
			p.leave(now())
			return
		}
		var st step
		buf, st = p.next(buf[:0], false)
		if head && !st.bare() {
			head = false
			w.WriteHeader(p.status)
		}
		p.note(now(), st)
		if err := h.write(w, buf, p.stream && !st.bare()); err != nil {
			p.leave(now())
			return
		}
		switch st.act {
		case actGoOn:
			continue
		case actEnd:
			if extra := p.surplus(); extra != nil {
				followWith(w, extra)
			} else if last && r.ProtoMajor == 1 {
				h.part(w)
			}
			return
		case actStall:
			<-r.Context().Done()
			p.leave(now())
			return
		default:
			sever(w, st.act == actReset)
			return
		}
	}
}

// last counts an answer of the request's connection, and reports whether the script wants
// it to be the last.
func (h *Handler) last(r *http.Request) bool {
	if h.script.Close.After == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answers == nil {
		h.answers = map[string]int{}
	}
	h.answers[r.RemoteAddr]++
	if h.answers[r.RemoteAddr] < h.script.Close.After {
		return false
	}
	delete(h.answers, r.RemoteAddr)
	return true
}

// part ends a chunked answer in good order, and then its connection as the script says.
func (h *Handler) part(w http.ResponseWriter) {
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	_, _ = out.WriteString("0\r\n\r\n")
	_ = out.Flush()
	how := h.script.Close
	time.Sleep(how.Delay)
	switch half, ok := conn.(interface{ CloseWrite() error }); {
	case how.Half && ok:
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	case how.Reset:
		abort(conn)
	}
}

// write sends buf in as many writes as the script's fragments make of it.
func (h *Handler) write(w http.ResponseWriter, buf []byte, flush bool) error {
	rc := http.NewResponseController(w)
	size := h.script.Fragment
	if size == 0 {
		size = max(1, len(buf))
	}
	for len(buf) > 0 {
		n := min(size, len(buf))
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		if buf = buf[n:]; len(buf) > 0 {
			if err := rc.Flush(); err != nil {
				return err
			}
		}
	}
	if !flush {
		return nil
	}
	return rc.Flush()
}

// wait sleeps for d, or reports false when the request is given up first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// followWith ends a chunked answer with something behind it, and then leaves the connection
// to the client.
func followWith(w http.ResponseWriter, extra []byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has no room for it
	}
	_, _ = conn.Write(append([]byte("0\r\n\r\n"), extra...))
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// sever breaks the connection, by RST where asked and where the connection
// knows how. Over HTTP/2 there is only the stream to break.
func sever(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if reset {
		abort(conn)
	}
	_ = socketOf(conn).Close()
}

// socketOf is what carries a connection: a close of a tls.Conn would say goodbye first.
func socketOf(conn net.Conn) net.Conn {
	if t, ok := conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return conn
}

// abort closes a connection by RST, where it knows how. An error leaves a FIN instead.
func abort(conn net.Conn) {
	socket := socketOf(conn)
	if t, ok := socket.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = socket.Close()
}
