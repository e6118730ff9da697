package load

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aicr/internal/load/workload"
	"aicr/internal/redact"
)

// The paths of the OpenAI API.
const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
	modelsPath      = "/v1/models"
)

// TargetOptions describe a target. Only URL is required.
type TargetOptions struct {
	URL       string            // with or without /v1, or the whole path of the endpoint
	Endpoint  workload.Endpoint // zero: chat
	APIKey    string            // sent as a bearer token; kept out of everything that is written
	Header    http.Header
	UserAgent string
	TLS       *tls.Config // for https; nil: the system's roots
	Proxy     string      // an http proxy; the environment's is never used
	HTTP2     bool

	// Dial replaces the network, for tests and for virtual time.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Secrets are what a server is told in confidence: some repeat what they refuse.
func (o *TargetOptions) Secrets() []string {
	values := append([]string{o.APIKey}, redact.InURL(o.URL)...)
	for name, all := range o.Header {
		for _, v := range all {
			values = append(values, redact.InHeader(name, v)...)
		}
	}
	return append(values, redact.InURL(o.Proxy)...)
}

// Target is where requests go: an address, and the head that precedes every
// body.
type Target struct {
	base    url.URL // scheme and host, without any path of the API
	path    string
	options TargetOptions
	mask    *redact.Mask // of what is secret in the options: servers and proxies repeat it
	proxy   *url.URL
	head    []byte // request line and headers, up to the value of content-length

	quickAck bool // acknowledge every read at once: the server may leave Nagle's algorithm on

	addr    *net.TCPAddr  // where to connect to, once resolved
	Resolve time.Duration // what the name look-up took, once for the whole run
}

// TargetError says which of the options cannot be, and why.
type TargetError struct {
	Fault TargetFault
	cause error
}

func (e *TargetError) Error() string { return e.cause.Error() }
func (e *TargetError) Unwrap() error { return e.cause }

// TargetFault is what is wrong with the options of a target.
type TargetFault int

// What can be.
const (
	FaultURL    TargetFault = iota // it is none that requests can be sent to
	FaultSecret                    // the URL has a user name or password in it
	FaultProxy                     // its URL is none
	FaultHeader                    // a header, or the key, is more than one line
)

// NewTarget checks the options and prepares the head. It does not touch the
// network. The error is a *TargetError.
func NewTarget(o TargetOptions) (*Target, error) {
	t := &Target{options: o, mask: redact.NewMask(o.Secrets()...), quickAck: true}
	wrong := func(fault TargetFault, format string, args ...any) (*Target, error) {
		return nil, &TargetError{fault, fmt.Errorf(format, args...)}
	}
	raw := o.URL
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw // as curl and AIPerf do
	}
	u, err := url.Parse(raw)
	if err != nil {
		if strings.Contains(raw, "@") { // the parser's words may have a part of a password in them
			return wrong(FaultSecret, "reading the URL: it cannot be parsed, and has a user name or password in it")
		}
		return wrong(FaultURL, "reading the URL: %w", errors.Unwrap(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return wrong(FaultURL, "reading the URL: scheme %q is neither http nor https", u.Scheme)
	}
	if u.Hostname() == "" {
		return wrong(FaultURL, "reading the URL: it has no host")
	}
	if u.User != nil {
		return wrong(FaultSecret, "reading the URL: it has a user name or password in it, which would end up in logs")
	}
	endpoint := chatPath
	if o.Endpoint == workload.Completions {
		endpoint = completionsPath
	}
	prefix := strings.TrimRight(u.Path, "/")
	for _, suffix := range []string{chatPath, completionsPath, "/v1"} {
		if cut, ok := strings.CutSuffix(prefix, suffix); ok {
			prefix = cut
			break
		}
	}
	t.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: prefix}
	t.path = prefix + endpoint
	if u.RawQuery != "" {
		t.path += "?" + u.RawQuery
	}
	if o.Proxy != "" {
		if t.proxy, err = url.Parse(o.Proxy); err != nil || t.proxy.Scheme != "http" || t.proxy.Host == "" {
			return wrong(FaultProxy, "reading the proxy's URL: want http://host:port")
		}
	}
	for name, values := range o.Header {
		for _, v := range append([]string{name}, values...) {
			if strings.ContainsAny(v, "\r\n") {
				return wrong(FaultHeader, "header %s has a line break in it", strings.Map(dropBreaks, name))
			}
		}
	}
	if strings.ContainsAny(o.APIKey, "\r\n") {
		return wrong(FaultHeader, "the API key has a line break in it")
	}
	t.head = t.buildHead("POST", t.path, "text/event-stream")
	return t, nil
}

func dropBreaks(r rune) rune {
	if r == '\r' || r == '\n' {
		return -1
	}
	return r
}

func (t *Target) buildHead(method, path, accept string) []byte {
	line := path
	if t.proxy != nil && t.base.Scheme == "http" {
		line = "http://" + t.base.Host + path // a plain proxy is asked for the whole URL
	}
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: %s\r\n",
		method, line, t.base.Host, t.userAgent(), accept)
	if t.options.APIKey != "" {
		b = fmt.Appendf(b, "Authorization: Bearer %s\r\n", t.options.APIKey)
	}
	if auth := t.proxyAuth(); auth != "" && t.base.Scheme == "http" {
		b = fmt.Appendf(b, "Proxy-Authorization: %s\r\n", auth)
	}
	for name, values := range t.options.Header {
		for _, v := range values {
			b = fmt.Appendf(b, "%s: %s\r\n", name, v)
		}
	}
	if method == "POST" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "...)
	} else {
		b = append(b, "\r\n"...)
	}
	return b
}

func (t *Target) userAgent() string {
	if t.options.UserAgent != "" {
		return t.options.UserAgent
	}
	return "aicr"
}

func (t *Target) proxyAuth() string {
	if t.proxy == nil || t.proxy.User == nil {
		return ""
	}
	pass, _ := t.proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(t.proxy.User.Username()+":"+pass))
}

// request appends a whole request to dst.
func (t *Target) request(dst, body []byte) []byte {
	dst = append(dst, t.head...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

// String is the target's URL, without anything secret.
func (t *Target) String() string { return redact.URL(t.base.String()) }

// Base is where the paths of the API begin. It may have a key in it.
func (t *Target) Base() string { return t.base.String() }

// Endpoint is the URL that requests are sent to.
func (t *Target) Endpoint() string {
	return t.base.Scheme + "://" + t.base.Host + t.path
}

// HTTP2 makes the target speak HTTP/2 from now on.
func (t *Target) HTTP2() { t.options.HTTP2 = true }

// Lookup resolves the target's name. Connections use the address that it
// found, so that no request's time has a name look-up in it.
func (t *Target) Lookup(ctx context.Context) error {
	if t.options.Dial != nil {
		return nil
	}
	u := &t.base
	if t.proxy != nil {
		u = t.proxy
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	begun := time.Now()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	t.Resolve = time.Since(begun)
	if err != nil {
		return fmt.Errorf("looking up %s: %w", u.Hostname(), err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("reading the URL: port %q", port)
	}
	// The first that answers is used for the whole run: spreading one run over
	// several frontends would hide which of them was slow.
	for _, ip := range ips {
		t.addr = &net.TCPAddr{IP: ip.Unmap().AsSlice(), Port: int(n), Zone: ip.Zone()}
		var conn net.Conn
		conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", t.addr.String())
		if err == nil {
			return conn.Close()
		}
	}
	return &connectError{cause: fmt.Errorf("connecting to %s: %w", u.Host, unwrapDial(err))}
}

// unwrapDial keeps the cause and drops the address that the caller names anyway.
func unwrapDial(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// opened is a connection and what it took to open it.
type opened struct {
	net.Conn
	socket             net.Conn // Conn, or what carries it
	connect, handshake time.Duration
}

// acknowledge makes the kernel acknowledge what has come at once, or, when
// later, go back to its habit of waiting for more.
func (o *opened) acknowledge(at ackHabit) {
	if tcp, ok := o.socket.(*net.TCPConn); ok {
		setAck(tcp, at)
	}
}

type ackHabit bool

const (
	ackAtOnce ackHabit = true
	ackLater  ackHabit = false
)

// open connects, through the proxy and TLS where they are asked for.
func (t *Target) open(ctx context.Context) (*opened, error) {
	begun := time.Now()
	var conn net.Conn
	var err error
	if t.options.Dial != nil {
		conn, err = t.options.Dial(ctx)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", t.addr.String())
	}
	if err != nil {
		return nil, &connectError{cause: unwrapDial(err)}
	}
	if t.proxy != nil && t.base.Scheme == "https" {
		if err := t.tunnel(ctx, conn); err != nil {
			_ = conn.Close()
			return nil, &connectError{cause: err}
		}
	}
	o := &opened{Conn: conn, socket: conn, connect: time.Since(begun)}
	if t.base.Scheme != "https" {
		return o, nil
	}
	begun = time.Now()
	secure := tls.Client(conn, t.tlsConfig("http/1.1"))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &connectError{cause: err, tls: true}
	}
	o.Conn, o.handshake = secure, time.Since(begun)
	return o, nil
}

func (t *Target) tlsConfig(protocols ...string) *tls.Config {
	c := t.options.TLS.Clone()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ServerName == "" {
		c.ServerName = t.base.Hostname()
	}
	c.NextProtos = protocols
	return c
}

// tunnel asks the proxy for a connection to the target.
func (t *Target) tunnel(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	host := t.base.Host
	if t.base.Port() == "" {
		host = net.JoinHostPort(t.base.Hostname(), "443")
	}
	b := fmt.Appendf(nil, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", host, host)
	if auth := t.proxyAuth(); auth != "" {
		b = fmt.Appendf(b, "Proxy-Authorization: %s\r\n", auth)
	}
	if _, err := conn.Write(append(b, "\r\n"...)); err != nil {
		return fmt.Errorf("asking the proxy: %w", err)
	}
	// One byte at a time: what follows the head belongs to TLS.
	var head []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, one[0]) {
		if len(head) > 16<<10 {
			return errors.New("asking the proxy: its answer has no end")
		}
		if _, err := conn.Read(one); err != nil {
			return fmt.Errorf("asking the proxy: %w", err)
		}
	}
	line, _, _ := strings.Cut(string(head), "\r\n")
	if len(line) < 12 || line[9:12] != "200" {
		return fmt.Errorf("the proxy refused: %s", excerpt(t.mask, []byte(line), 80))
	}
	return nil
}
