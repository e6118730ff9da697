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
}

func newHTTP2Wire(r *run) *http2Wire {
	w := &http2Wire{sender: r.sender(), transport: r.plan.Target.transport()}
	w.crew.sender = w.sender
	w.crew.newLine = func() line { return &http2Line{wire: w, buf: make([]byte, 16<<10)} }
	w.stop = w.startBeat()
	return w
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
		DisableCompression: true,
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

func (w *http2Wire) close() {
	w.stop()
	w.transport.CloseIdleConnections()
}

type http2Line struct {
	wire *http2Wire
	buf  []byte
}

func (*http2Line) hangUp() {}

func (l *http2Line) exchange(ctx context.Context, body []byte, str *stream) error {
	run, rec := l.wire.run, str.rec
	now := run.clock.now
	var connectFrom, tlsFrom time.Time
	trace := &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { connectFrom = time.Now() },
		ConnectDone:       func(string, string, error) { rec.Connect = int64(time.Since(connectFrom)) },
		TLSHandshakeStart: func() { tlsFrom = time.Now() },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { rec.TLS = int64(time.Since(tlsFrom)) },
		GotConn: func(i httptrace.GotConnInfo) {
			rec.Sent = now()
			if i.Reused {
				rec.Flags |= Reused
			}
		},
		GotFirstResponseByte: func() { rec.FirstByte = now() },
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost,
		run.plan.Target.Endpoint(), io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(body)) // and no GetBody, so that nothing can be sent twice
	req.Header = run.plan.Target.headers()
	rec.BytesOut = int32(len(body))
	res, err := l.wire.transport.RoundTrip(req)
	if err != nil {
		if rec.Sent == 0 {
			return &connectError{cause: unwrapDial(err), tls: !tlsFrom.IsZero()}
		}
		return &resetError{unwrapDial(err)}
	}
	defer func() { _ = res.Body.Close() }()
	if rec.FirstByte == 0 {
		rec.FirstByte = now()
	}
	if err := str.Head(http1.Head{Status: res.StatusCode}.WithType(res.Header.Get("Content-Type"))); err != nil {
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
			return &resetError{unwrapDial(err)}
		}
	}
}

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
