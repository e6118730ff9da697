package load_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
)

// front is a net/http server that notes what it is asked, and how.
type front struct {
	*httptest.Server
	truth *truth.Handler

	mu    sync.Mutex
	conns map[string]int // requests by the client's address
	seen  []*http.Request
}

// asked is what the front has seen.
func (f *front) asked() (requests []*http.Request, conns int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen), len(f.conns)
}

// protocol is what a front speaks.
type protocol string

const (
	plainHTTP protocol = "http"
	tlsHTTP   protocol = "https"
	tlsHTTP2  protocol = "h2"
	plainH2   protocol = "h2c"
)

// newFront serves the script over a protocol; wrap may change what is answered.
func newFront(t testing.TB, speaks protocol, s truth.Script, wrap func(http.Handler) http.Handler, configure ...func(*httptest.Server)) *front {
	t.Helper()
	h, err := truth.NewHandler(s)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{truth: h, conns: map[string]int{}}
	inner := http.Handler(h)
	if wrap != nil {
		inner = wrap(h)
	}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.conns[r.RemoteAddr]++
		f.seen = append(f.seen, r.Clone(t.Context())) // net/http goes on to change its own
		f.mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the client gives up are no news
	for _, c := range configure {
		c(f.Server)
	}
	switch speaks {
	case plainHTTP:
		f.Start()
	case tlsHTTP:
		f.StartTLS()
	case tlsHTTP2:
		f.EnableHTTP2 = true
		f.StartTLS()
	case plainH2:
		f.Config.Protocols = new(http.Protocols)
		f.Config.Protocols.SetUnencryptedHTTP2(true)
		f.Start()
	}
	t.Cleanup(f.Close)
	return f
}

// trust is a TLS client that knows the front's authority alone.
func (f *front) trust() *tls.Config {
	pool := x509.NewCertPool()
	if c := f.Certificate(); c != nil {
		pool.AddCert(c)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func (f *front) options(speaks protocol) load.TargetOptions {
	return load.TargetOptions{URL: f.URL, TLS: f.trust(), HTTP2: speaks == tlsHTTP2 || speaks == plainH2}
}

func newTarget(t testing.TB, o load.TargetOptions) *load.Target {
	t.Helper()
	target, err := load.NewTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Lookup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return target
}

// way is how a request travels.
type way struct {
	speaks protocol
	wire   load.WireKind
}

// ways are all of them.
var ways = map[string]way{
	"event loop":         {plainHTTP, load.LoopWire},
	"goroutines":         {plainHTTP, load.GoroutineWire},
	"TLS":                {tlsHTTP, load.AutoWire},
	"HTTP/2":             {tlsHTTP2, load.AutoWire},
	"HTTP/2 without TLS": {plainH2, load.HTTP2Wire},
}

// The same workload gives the same counts whatever carries it.
func TestEveryWireCountsTheSame(t *testing.T) {
	const users, count, tokens = 20, 100, 8
	names := map[way]string{
		{plainHTTP, load.AutoWire}:      "HTTP/1.1, one event loop",
		{tlsHTTP2, load.GoroutineWire}:  "HTTP/1.1 over TLS, a goroutine a connection",
		{plainHTTP, load.LoopWire}:      "HTTP/1.1, one event loop",
		{plainHTTP, load.GoroutineWire}: "HTTP/1.1, a goroutine a connection",
		{tlsHTTP, load.AutoWire}:        "HTTP/1.1 over TLS, a goroutine a connection",
		{tlsHTTP2, load.AutoWire}:       "HTTP/2 by net/http",
		{plainH2, load.HTTP2Wire}:       "HTTP/2 by net/http",
		{plainH2, load.AutoWire}:        "HTTP/2 by net/http",
	}
	for way, name := range names {
		t.Run(string(way.speaks)+"/"+name, func(t *testing.T) {
			f := newFront(t, way.speaks, truth.Script{TTFT: ms, Workers: 2, CachedTokens: 5, RoleFirst: true}, nil)
			p := planTo(t, newTarget(t, f.options(way.speaks)), load.Schedule{Users: users, Count: count}, tokens)
			p.Wire = way.wire
			res := mustRun(t, p)
			if res.Wire != name {
				t.Errorf("carried by %s", res.Wire)
			}
			if got := countClasses(res.Log); got[load.OK] != count || res.Log.Len() != count {
				t.Fatalf("%v %v", got, res.Log.Details)
			}
			for r := range res.Log.All() {
				// Role, tokens, finish, usage, [DONE]; two tokens for the template.
				type counts struct{ Chunks, Events, Prompt, Completion, Cached, Stamps int32 }
				want := counts{tokens, tokens + 4, 34, tokens, 5, tokens}
				got := counts{r.Chunks, r.Events, r.PromptTokens, r.CompletionTokens, r.CachedTokens, int32(len(res.Log.Stamps(r)))}
				if got != want || !r.Has(load.HasUsage|load.HasWorker|load.Done) || r.Finish != load.FinishLength {
					t.Fatalf("%+v\n%+v", got, r)
				}
				in := []int64{r.Intended, r.Sent, r.FirstByte, r.FirstChoice, r.FirstContent, r.SecondContent, r.LastContent, r.End}
				for i := 1; i < len(in); i++ {
					if in[i] < in[i-1] || in[i-1] == 0 {
						t.Fatalf("stamps out of order: %d\n%+v", in, r)
					}
				}
				if !r.Has(load.Reused) && way.speaks == tlsHTTP && (r.TLS == 0 || r.Connect == 0) {
					t.Errorf("a new connection that took no time to open: %+v", r)
				}
			}
			if got := f.truth.Truth(); got.Requests != count || got.ServedTokens != count*tokens {
				t.Errorf("the server saw %d requests, %d tokens", got.Requests, got.ServedTokens)
			}
		})
	}
}

// More streams than one HTTP/2 connection may carry still all go through, and
// what it costs to open a connection is told of the requests that opened one.
func TestHTTP2BeyondOneConnection(t *testing.T) {
	const users, each, count = 120, 100, 240 // 100 is what net/http asks for before it knows the limit
	f := newFront(t, tlsHTTP2, truth.Script{}, meet(users), func(s *httptest.Server) {
		s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: each}
	})
	p := planTo(t, newTarget(t, f.options(tlsHTTP2)), load.Schedule{Users: users, Count: count}, 3)
	res := mustRun(t, p)
	if got := countClasses(res.Log); got[load.OK] != count {
		t.Errorf("%v %v", got, res.Log.Details)
	}
	if _, conns := f.asked(); conns < 2 {
		t.Errorf("%d connections", conns)
	}
	for r := range res.Log.All() {
		if r.Has(load.Reused) && (r.Connect != 0 || r.TLS != 0) {
			t.Fatalf("an open connection that took time to open: %+v", r)
		}
	}
}

// meet lets the first n requests wait for one another, so that so many are in
// flight at once on any machine.
func meet(n int64) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		var came atomic.Int64
		all := make(chan struct{})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			nth := came.Add(1)
			if nth == n {
				close(all)
			}
			if nth <= n {
				select {
				case <-all:
				case <-r.Context().Done():
				}
			}
			h.ServeHTTP(w, r)
		})
	}
}

// A certificate of another authority is a failure of TLS, and not of the server.
func TestForeignAuthorityIsATLSFailure(t *testing.T) {
	for _, speaks := range []protocol{tlsHTTP, tlsHTTP2} {
		t.Run(string(speaks), func(t *testing.T) {
			f := newFront(t, speaks, truth.Script{}, nil)
			o := f.options(speaks)
			o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
			res := mustRun(t, planTo(t, newTarget(t, o), load.Schedule{Users: 2, Count: 6}, 2))
			if diff := cmp.Diff(map[load.Class]int{load.TLSFailed: 6}, countClasses(res.Log)); diff != "" {
				t.Error(diff)
			}
			if len(res.Log.Details) != 2 || !strings.Contains(res.Log.Details[1], "certificate signed by unknown authority") {
				t.Errorf("%q", res.Log.Details)
			}
			if n := f.truth.Truth().Requests; n != 0 {
				t.Errorf("%d requests were sent all the same", n)
			}
		})
	}
}

// Connections are a user's own and are kept, unless each request is to have a
// new one.
func TestConnectionsAreReusedUnlessAskedNot(t *testing.T) {
	const users, count = 5, 20
	for name, way := range ways {
		for _, noReuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/no reuse %v", name, noReuse), func(t *testing.T) {
				f := newFront(t, way.speaks, truth.Script{}, nil)
				p := planTo(t, newTarget(t, f.options(way.speaks)), load.Schedule{Users: users, Count: count}, 2)
				p.Wire, p.NoReuse = way.wire, noReuse
				res := mustRun(t, p)
				if got := countClasses(res.Log); got[load.OK] != count {
					t.Fatalf("%v %v", got, res.Log.Details)
				}
				reused := 0
				for r := range res.Log.All() {
					if r.Has(load.Reused) {
						reused++
					}
				}
				_, n := f.asked()
				switch {
				case noReuse && (n != count || reused != 0):
					t.Errorf("%d connections for %d requests, %d on one in use", n, count, reused)
				case !noReuse && n > users, !noReuse && reused < count-users:
					t.Errorf("%d connections of %d users, %d requests on one in use", n, users, reused)
				}
			})
		}
	}
}

// rawServer answers each connection as serve does, until the test ends.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return "http://" + l.Addr().String()
}

const twoTokens = `data: {"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":" b"},"finish_reason":"length"}]}

data: [DONE]

`

// plainWires are the wires that speak to a raw server.
var plainWires = []load.WireKind{load.LoopWire, load.GoroutineWire}

// A server may close each connection: by header, by an old protocol, by a body
// that only the end of the connection ends, or without a word.
func TestServersMayClose(t *testing.T) {
	answers := map[string]string{
		"connection: close": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(twoTokens)) + twoTokens,
		"HTTP/1.0, sized":   "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(twoTokens)) + twoTokens,
		"HTTP/1.0":          "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + twoTokens,
		"until the end":     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + twoTokens,
	}
	for name, answer := range answers {
		for _, wire := range plainWires {
			t.Run(name+"/"+wireNames[wire], func(t *testing.T) {
				var asked atomic.Int64
				url := rawServer(t, func(c net.Conn) {
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return // the look-up's
					}
					_, _ = io.Copy(io.Discard, r.Body)
					asked.Add(1)
					_, _ = io.WriteString(c, answer)
				})
				p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 4, Count: 40}, 2)
				p.Wire = wire
				res := mustRun(t, p)
				if got := countClasses(res.Log); got[load.OK] != 40 || asked.Load() != 40 {
					t.Errorf("%v %v, asked %d", got, res.Log.Details, asked.Load())
				}
				for r := range res.Log.All() {
					if r.Chunks != 2 || r.Has(load.Reused) || r.Connect == 0 {
						t.Fatalf("%+v", r)
					}
				}
			})
		}
	}
}

// A server that closes idle connections, as uvicorn does after five seconds,
// has not failed: the next request opens another. This is HTTP/2; for HTTP/1.1
// see TestEndedConnectionsAreNotUsed.
func TestIdleConnectionsMayBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := truth.NewHandler(truth.Script{})
		if err != nil {
			t.Fatal(err)
		}
		opened := 0
		srv := &http.Server{Handler: h, IdleTimeout: 5 * time.Second, Protocols: new(http.Protocols),
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened++
				}
			}}
		srv.Protocols.SetUnencryptedHTTP2(true)
		target := serveInBubble(t, srv, load.TargetOptions{URL: "http://truth.test", HTTP2: true})
		res := mustRun(t, planTo(t, target, load.Schedule{Rate: 0.1, Count: 4}, 2))
		if got, n := countClasses(res.Log), h.Truth().Requests; got[load.OK] != 4 || n != 4 || opened != 4 {
			t.Errorf("%v %v; the server saw %d requests on %d connections", got, res.Log.Details, n, opened)
		}
	})
}

// Large bodies arrive whole, though a server reads them slowly: of 300 KB, and of
// 6 MB, which no kernel takes in one write.
func TestLargePromptsArriveWhole(t *testing.T) {
	for _, words := range []int{60_000, 1_200_000} {
		for _, wire := range plainWires {
			t.Run(fmt.Sprintf("%d words/%s", words, wireNames[wire]), func(t *testing.T) {
				const count = 4
				work := worksOf(t, words, 2)
				var mu sync.Mutex
				bodies := map[string]int{}
				url := rawServer(t, func(c net.Conn) {
					_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
					in := bufio.NewReader(c)
					for {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						body := make([]byte, 0, r.ContentLength)
						for piece := make([]byte, 32<<10); ; {
							n, err := r.Body.Read(piece)
							body = append(body, piece[:n]...)
							if err != nil {
								break
							}
							runtime.Gosched() // others write meanwhile
						}
						mu.Lock()
						bodies[string(body)]++
						mu.Unlock()
						fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(twoTokens), twoTokens)
					}
				})
				p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 4, Count: count}, 2)
				p.Wire, p.Work = wire, work
				res := mustRun(t, p)
				if got := countClasses(res.Log); got[load.OK] != count {
					t.Fatalf("%v %v", got, res.Log.Details)
				}
				mu.Lock() // the race detector does not see that an answer was awaited
				defer mu.Unlock()
				for r := range res.Log.All() {
					if bodies[string(work.Body(nil, r.Seq))] != 1 {
						t.Errorf("the body of request %d did not arrive once", r.Seq)
					}
					if int(r.BytesOut) < 5*words {
						t.Errorf("%d bytes sent", r.BytesOut)
					}
				}
			})
		}
	}
}

// An answer that comes before the body has gone out is an answer.
func TestAnswerBeforeTheBodyIsSent(t *testing.T) {
	for _, wire := range plainWires {
		t.Run(wireNames[wire], func(t *testing.T) {
			url := rawServer(t, func(c net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 8\r\n\r\ntoo long")
				_, _ = io.Copy(io.Discard, r.Body) // as nginx lingers, so that no RST overtakes the answer
			})
			p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 2, Count: 6}, 2)
			p.Wire, p.Work = wire, worksOf(t, 400_000, 2)
			res := mustRun(t, p)
			if diff := cmp.Diff(map[load.Class]int{load.HTTPStatus: 6}, countClasses(res.Log)); diff != "" || res.Log.Details[1] != "HTTP 413: too long" {
				t.Errorf("%v\n%s", res.Log.Details, diff)
			}
		})
	}
}

// A refused connection is asked for again only after a rest, and the count is
// exact all the same.
func TestRefusedConnections(t *testing.T) {
	for _, wire := range plainWires {
		t.Run(wireNames[wire], func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			target := newTarget(t, load.TargetOptions{URL: "http://" + l.Addr().String()})
			l.Close()
			p := planTo(t, target, load.Schedule{Users: 3, Count: 9}, 2)
			p.Wire = wire
			res := mustRun(t, p)
			if diff := cmp.Diff(map[load.Class]int{load.Connect: 9}, countClasses(res.Log)); diff != "" || !strings.Contains(res.Log.Details[1], "refused") {
				t.Errorf("%v\n%s", res.Log.Details, diff)
			}
			if rounds := time.Duration(res.Main.End - res.Main.Start); rounds < 100*ms {
				t.Errorf("three rounds in %v: no rest", rounds)
			}
			if !res.Audit.Valid() {
				t.Errorf("the server's refusal is held against the client: %v", res.Audit.Reasons)
			}
		})
	}
}

// throughProxy is a proxy to one place, whatever is asked of it.
type throughProxy struct {
	to        string // host:port
	forwarded atomic.Int64
	tunnels   atomic.Int64
	auth      atomic.Value
	refuse    atomic.Bool
}

func (p *throughProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.auth.Store(r.Header.Get("Proxy-Authorization"))
	if p.refuse.Load() {
		http.Error(w, "no", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnels.Add(1)
		there, err := net.Dial("tcp", p.to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			there.Close()
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, buffered)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
		return
	}
	if !r.URL.IsAbs() {
		http.Error(w, "not a request to a proxy", http.StatusBadRequest)
		return
	}
	p.forwarded.Add(1)
	out := r.Clone(r.Context())
	out.URL.Host, out.RequestURI = p.to, ""
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	for buf := make([]byte, 4<<10); ; {
		n, err := res.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = http.NewResponseController(w).Flush()
		if err != nil {
			return
		}
	}
}

// A proxy is used when it is asked for: for http by the whole URL, for https by
// a tunnel. The client looks up the proxy's name alone.
func TestProxies(t *testing.T) {
	const count = 20
	tests := map[string]struct {
		speaks protocol
		url    string
		wire   load.WireKind
	}{
		"http, event loop": {plainHTTP, "http://nowhere.invalid", load.LoopWire},
		"http, goroutines": {plainHTTP, "http://nowhere.invalid:8000/v1", load.GoroutineWire},
		"https":            {tlsHTTP, "https://example.com", load.AutoWire}, // the name on httptest's certificate
		"HTTP/2":           {tlsHTTP2, "https://example.com", load.AutoWire},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, tt.speaks, truth.Script{}, nil)
			proxy := &throughProxy{to: f.Listener.Addr().String()}
			door := httptest.NewServer(proxy)
			defer door.Close()
			o := f.options(tt.speaks)
			o.URL, o.Proxy = tt.url, strings.Replace(door.URL, "http://", "http://me:secret@", 1)
			p := planTo(t, newTarget(t, o), load.Schedule{Users: 3, Count: count}, 2)
			p.Wire = tt.wire
			res := mustRun(t, p)
			if got := countClasses(res.Log); got[load.OK] != count {
				t.Fatalf("%v %v", got, res.Log.Details)
			}
			forwarded, tunnels := proxy.forwarded.Load(), proxy.tunnels.Load()
			if tt.speaks == plainHTTP && (forwarded != count || tunnels != 0) || tt.speaks != plainHTTP && (forwarded != 0 || tunnels < 1 || tunnels > 3) {
				t.Errorf("%d forwarded, %d tunnels", forwarded, tunnels)
			}
			if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:secret")); proxy.auth.Load() != want {
				t.Errorf("the proxy was told %q", proxy.auth.Load())
			}
			seen, _ := f.asked()
			for _, r := range seen {
				if r.Header.Get("Proxy-Authorization") != "" && tt.speaks != plainHTTP {
					t.Error("the proxy's password went through the tunnel")
				}
			}

			proxy.refuse.Store(true)
			p.Main.Count = 6
			res = mustRun(t, p)
			want := load.Connect
			if tt.speaks == plainHTTP {
				want = load.HTTPStatus
			}
			if got := countClasses(res.Log); got[want] != 6 {
				t.Errorf("a proxy that refuses: %v %v", got, res.Log.Details)
			}
		})
	}
}

// Proxies of the environment are for other programs: a measurement through one
// that nobody named would be the proxy's.
func TestEnvironmentProxiesAreIgnored(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	for name, way := range ways {
		if way.wire == load.LoopWire {
			continue // it dials an address, and knows of no proxy but the target's own
		}
		t.Run(name, func(t *testing.T) {
			f := newFront(t, way.speaks, truth.Script{}, nil)
			o := f.options(way.speaks)
			// Not by the address: the environment's proxies spare the loopback.
			o.URL = strings.Replace(f.URL, "127.0.0.1", "example.com", 1)
			o.Dial = func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", f.Listener.Addr().String())
			}
			target := newTarget(t, o)
			res := mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 4}, 2))
			if got := countClasses(res.Log); got[load.OK] != 4 {
				t.Errorf("%v %v", got, res.Log.Details)
			}
			if models, err := target.Models(t.Context()); err != nil || len(models) != 1 {
				t.Errorf("%v %v", models, err)
			}
			seen, _ := f.asked()
			for _, r := range seen {
				if r.Method == http.MethodConnect || r.URL.IsAbs() {
					t.Errorf("asked as a proxy: %s %s", r.Method, r.URL)
				}
			}
		})
	}
}

// A redirect is an answer: following it would measure another server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, way.speaks, truth.Script{}, func(http.Handler) http.Handler {
				return http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect)
			})
			p := planTo(t, newTarget(t, f.options(way.speaks)), load.Schedule{Users: 2, Count: 6}, 2)
			p.Wire = way.wire
			res := mustRun(t, p)
			for r := range res.Log.All() {
				if r.Class != load.HTTPStatus || r.Status != http.StatusTemporaryRedirect {
					t.Errorf("%v: %s", r.Class, res.Log.Details[r.Detail])
				}
			}
			if seen, _ := f.asked(); len(seen) != 6 {
				t.Errorf("%d requests", len(seen))
			}
		})
	}
}

// What is asked for is on the wire, and nothing that was not.
func TestHeadersOnTheWire(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, way.speaks, truth.Script{APIKey: "sk-1"}, nil)
			o := f.options(way.speaks)
			o.APIKey, o.UserAgent, o.Header = "sk-1", "aicr/test", http.Header{"X-Team": {"a", "b"}}
			o.URL += "/v1?tenant=7"
			p := planTo(t, newTarget(t, o), load.Schedule{Users: 1, Count: 2}, 2)
			p.Wire = way.wire
			res := mustRun(t, p)
			if got := countClasses(res.Log); got[load.OK] != 2 {
				t.Fatalf("%v %v", got, res.Log.Details)
			}
			seen, _ := f.asked()
			r := seen[1]
			want := http.Header{
				"Authorization": {"Bearer sk-1"}, "User-Agent": {"aicr/test"}, "Accept": {"text/event-stream"},
				"Content-Type": {"application/json"}, "X-Team": {"a", "b"}, "Content-Length": {fmt.Sprint(p.Work.BodyLen(1))},
			}
			if diff := cmp.Diff(want, r.Header); diff != "" {
				t.Error(diff)
			}
			if r.Method != http.MethodPost || r.URL.RequestURI() != "/v1/chat/completions?tenant=7" || r.Host != f.Listener.Addr().String() {
				t.Errorf("%s %s of %s", r.Method, r.URL, r.Host)
			}
		})
	}
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(entries)
}

// Nothing of a run is left when it has ended, by itself or by force.
func TestNothingIsLeftAfterARun(t *testing.T) {
	for name, way := range ways {
		for _, forced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/forced %v", name, forced), func(t *testing.T) {
				s := truth.Script{}
				if forced {
					s.TTFT = time.Hour
				}
				f := newFront(t, way.speaks, s, nil)
				target := newTarget(t, f.options(way.speaks))
				files, goroutines := openFiles(t), runtime.NumGoroutine()
				p := planTo(t, target, load.Schedule{Users: 10, Count: 50}, 2)
				p.Wire = way.wire
				want := map[load.Class]int{load.OK: 50}
				if forced {
					p.Grace = ms
					want = map[load.Class]int{load.Interrupt: 10}
				}
				res := runUntil(t, p, func() bool { return forced && f.truth.Truth().Requests == 10 })
				if diff := cmp.Diff(want, countClasses(res.Log)); diff != "" {
					t.Errorf("%v\n%s", res.Log.Details, diff)
				}
				// The server closes its ends when it finds ours closed.
				eventually(t, fmt.Sprintf("%d files and %d goroutines", files, goroutines), func() bool {
					return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
				})
			})
		}
	}
}

func TestIPv6(t *testing.T) {
	srv, err := truth.NewServer(truth.Script{})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context(), "[::1]:0"); err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer srv.Close()
	for _, wire := range plainWires {
		p := planFor(t, srv.URL(), 4, 40, 3)
		p.Wire = wire
		if got := countClasses(mustRun(t, p).Log); got[load.OK] != 40 {
			t.Errorf("%s: %v", wireNames[wire], got)
		}
	}
}

// Several event loops are one load: one count, one sequence, one limit of users.
func TestSeveralEventLoopsAreOneLoad(t *testing.T) {
	const users, count = 10, 200
	for _, senders := range []int{1, 3, 7} {
		t.Run(fmt.Sprint(senders), func(t *testing.T) {
			f := newFront(t, plainHTTP, truth.Script{}, meet(users))
			p := planFor(t, f.URL, users, count, 4)
			p.Senders, p.Wire = senders, load.LoopWire
			res := mustRun(t, p)
			if got := countClasses(res.Log); got[load.OK] != count || res.Log.Len() != count {
				t.Fatalf("%v %v", got, res.Log.Details)
			}
			seen := map[int64]bool{}
			last := map[int32]int64{}
			for r := range res.Log.All() {
				seen[r.Seq] = true
				if r.Sent < last[r.User] {
					t.Fatalf("user %d sent before its answer was whole", r.User)
				}
				last[r.User] = r.End
			}
			if len(seen) != count || len(last) != users {
				t.Errorf("%d places of the sequence, %d users", len(seen), len(last))
			}
			if _, most := inFlightAt(spansOf(res.Log, byLane(load.Closed)), 0, never); most != users {
				t.Errorf("%d in flight at most", most)
			}
			if got := f.truth.Truth(); got.Requests != count || got.PeakInFlight > users || got.Tokens != 4*count {
				t.Errorf("the server saw %d requests, %d at once, %d tokens", got.Requests, got.PeakInFlight, got.Tokens)
			}
		})
	}
	// An open loop's arrivals are dealt out, and none is lost or sent twice.
	srv := serve(t, truth.Script{})
	for _, pattern := range []load.Pattern{load.Constant, load.Poisson} {
		p := planFor(t, srv.URL(), 0, 500, 2)
		p.Senders, p.Wire = 3, load.LoopWire
		p.Main = load.Schedule{Rate: 20_000, Pattern: pattern, Count: 500}
		res := mustRun(t, p)
		table := load.Arrivals(p.Main, p.Seed, 500)
		seq := int64(0)
		for r := range res.Log.All() {
			if r.Seq != seq || r.Intended != res.Main.Start+table[seq] || r.Sent < r.Intended {
				t.Fatalf("%s: place %d: %+v", pattern, seq, r)
			}
			seq++
		}
		if seq != 500 {
			t.Errorf("%s: %d requests", pattern, seq)
		}
	}
}

const never = int64(1<<63 - 1)
