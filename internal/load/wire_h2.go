package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"aicr/internal/load/http1"
)

// http2Wire carries HTTP/2 with net/http, for servers that insist on it. Its
// stamps are taken after net/http's own frame reader has passed the bytes on,
// so it costs more and stamps later than the other wires.
type http2Wire struct {
	*sender
	crew      crew
	transport *http.Transport
	stop      func()

	mu    sync.Mutex
	conns map[*ownedConn]bool // all that are open; nil when the wire is closed
}

func newHTTP2Wire(r *run) *http2Wire {
	w := &http2Wire{sender: r.sender(), conns: map[*ownedConn]bool{}}
	w.transport = w.newTransport()
	w.crew.sender = w.sender
	w.crew.newLine = func() line { return &http2Line{wire: w, buf: make([]byte, 16<<10)} }
	w.stop = w.startBeat()
	return w
}

// newTransport is the target's, but notes its connections, so that close can end
// them all: net/http ends only the idle ones, and may yet open one that nobody
// waits for any more.
func (w *http2Wire) newTransport() *http.Transport {
	tr := w.run.plan.Target.transport()
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		owned := &ownedConn{conn, w}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.conns == nil {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		w.conns[owned] = true
		return owned, nil
	}
	return tr
}

type ownedConn struct {
	net.Conn
	wire *http2Wire
}

func (c *ownedConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}

// transport speaks HTTP/2 alone, with TLS or, to an http URL, without.
func (t *Target) transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(t.base.Scheme == "https")
	protocols.SetUnencryptedHTTP2(t.base.Scheme == "http")
	tr := &http.Transport{
		Protocols:       protocols,
		TLSClientConfig: t.tlsConfig("h2"),
		// Nothing is added, followed or tried again that was not asked for.
		DisableCompression:     true,
		MaxResponseHeaderBytes: http1.MaxHead,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if t.options.Dial != nil {
				return t.options.Dial(ctx)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", t.addr.String())
		},
	}
	if t.proxy != nil {
		tr.Proxy = http.ProxyURL(t.proxy)
	}
	return tr
}

func (w *http2Wire) name() string { return "HTTP/2 by net/http" }

func (w *http2Wire) carry(st *stage) { w.crew.carry(st) }

// settle does nothing: a frame of a stream that was never opened ends the connection.
func (w *http2Wire) settle(time.Duration) {}

func (w *http2Wire) close() {
	w.stop()
	w.transport.CloseIdleConnections()
	w.mu.Lock()
	open := w.conns
	w.conns = nil
	w.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close()
	}
}

// opening is what net/http tells of the connection that it finds for a request.
// It may go on to tell, from goroutines of its own, when the request has long
// been carried by another connection.
type opening struct {
	mu              sync.Mutex
	from, tlsFrom   time.Time
	connect, tls    time.Duration
	sent, firstByte int64
	reused          bool
}

func (o *opening) trace(now func() int64) *httptrace.ClientTrace {
	locked := func(f func()) {
		o.mu.Lock()
		defer o.mu.Unlock()
		f()
	}
	return &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { locked(func() { o.from = time.Now() }) },
		ConnectDone:          func(string, string, error) { locked(func() { o.connect = time.Since(o.from) }) },
		TLSHandshakeStart:    func() { locked(func() { o.tlsFrom = time.Now() }) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { locked(func() { o.tls = time.Since(o.tlsFrom) }) },
		GotConn:              func(i httptrace.GotConnInfo) { locked(func() { o.sent, o.reused = now(), i.Reused }) },
		GotFirstResponseByte: func() { locked(func() { o.firstByte = now() }) },
	}
}

// tell writes what is known into the record, and reports whether a TLS
// handshake had begun.
func (o *opening) tell(rec *Record) (shook bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rec.FirstByte = o.firstByte
	if rec.Has(Resent) { // what it takes to open another connection is a part of the latency
		return !o.tlsFrom.IsZero()
	}
	rec.Sent = o.sent
	switch {
	case o.reused:
		rec.Flags |= Reused
	case o.sent != 0:
		rec.Connect, rec.TLS = int64(o.connect), int64(o.tls)
	}
	return !o.tlsFrom.IsZero()
}

// found reports whether there was a connection for the request.
func (o *opening) found() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent != 0
}

type http2Line struct {
	wire *http2Wire
	buf  []byte
}

func (*http2Line) settle(time.Duration) {}
func (*http2Line) hangUp()              {}

func (l *http2Line) exchange(ctx context.Context, body []byte, str *stream) error {
	run, rec := l.wire.run, str.rec
	now := run.clock.now
	transport := l.wire.transport
	if run.plan.NoReuse {
		transport = l.wire.newTransport()
		defer transport.CloseIdleConnections()
	}
	rec.BytesOut = int32(len(body))
	res, err := l.send(ctx, transport, body, rec)
	if err != nil && ctx.Err() == nil && (str.unheard(err, now()) || neverTaken(err)) {
		// Another kept connection, which users share, may be about to end too.
		transport = l.wire.newTransport()
		defer transport.CloseIdleConnections()
		rec.Flags |= Resent
		res, err = l.send(ctx, transport, body, rec)
	}
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if rec.FirstByte == 0 {
		rec.FirstByte = now()
	}
	head, rank := http1.Head{Status: res.StatusCode}.WithType(res.Header.Get("Content-Type")), 0
	for name, values := range res.Header {
		if r := http1.BackendRank([]byte(name)); r > rank {
			head.Backend, rank = http1.BackendID([]byte(values[0])), r
		}
	}
	if err := str.Head(head); err != nil {
		return err
	}
	for {
		n, err := res.Body.Read(l.buf)
		at := now()
		if n > 0 {
			before := rec.Chunks
			if bad := str.feedBody(l.buf[:n], at); bad != nil {
				str.broken = bad
				return nil
			}
			if d := rec.Chunks - before; d > 0 {
				run.live.tokens.Add(int64(d))
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return http1.ErrTruncated
		default:
			return brokenConnection(err)
		}
	}
}

// send sends the request and waits for the head of its answer.
func (l *http2Line) send(ctx context.Context, transport *http.Transport, body []byte, rec *Record) (*http.Response, error) {
	run := l.wire.run
	var opening opening
	trace := opening.trace(run.clock.now)
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost,
		run.plan.Target.Endpoint(), io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(body)) // and no GetBody, so that nothing is sent twice unseen
	req.Header = run.plan.Target.headers()
	res, err := transport.RoundTrip(req)
	shook := opening.tell(rec)
	switch {
	case err == nil:
		return res, nil
	case !opening.found():
		return nil, &connectError{cause: unwrapDial(err), tls: shook}
	}
	return nil, brokenConnection(err)
}

// neverTaken reports that net/http itself would have sent a request again, if it had its body
// once more: the server was closing the connection and has not taken the request (RFC 9113,
// 6.8). It says so by these words alone.
func neverTaken(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "http2: Transport: cannot retry err") || strings.Contains(err.Error(), "net/http: cannot rewind body"))
}

// brokenConnection is why a connection of HTTP/2 failed under a request. net/http ends one
// on which a frame comes for a stream that was never opened, which is an answer that no
// request asked for, and tells it by these words alone.
func brokenConnection(err error) error {
	if err = unwrapDial(err); strings.Contains(err.Error(), "connection error: PROTOCOL_ERROR") {
		return &surplusError{err.Error()}
	}
	if _, ok := errors.AsType[streamError](err); ok {
		return err // the server ended this stream alone: it had the request
	}
	return &resetError{cause: err}
}

// streamError is net/http's error of one stream, which errors.As copies into a struct with
// the same fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

func (t *Target) headers() http.Header {
	h := http.Header{}
	for name, values := range t.options.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	h.Set("User-Agent", t.userAgent())
	if t.options.APIKey != "" {
		h.Set("Authorization", "Bearer "+t.options.APIKey)
	}
	return h
}
