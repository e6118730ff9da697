package load_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
	"aicr/test/memnet"
)

// twoTokensAnswer is a whole answer of two tokens.
var twoTokensAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(twoTokens), twoTokens)

// eachRequest answers one request after the other on a connection, until it ends.
func eachRequest(c net.Conn, answer func(n int) error) {
	in := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if answer(n) != nil {
			return
		}
	}
}

// blames lists the ids of the audit's reasons.
func blames(a *load.Audit) (ids []string) {
	for _, r := range a.Reasons {
		ids = append(ids, r.ID)
	}
	return ids
}

// What a server sends without having been asked is never credited to a request that comes
// after it: behind the answer in one write, while the connection is idle, or so late that
// only the end of the load tells.
func TestSurplusBytesAreNotCredited(t *testing.T) {
	front := newFront(t, tlsHTTP, truth.Script{}, nil) // for its certificate
	open := load.Schedule{Rate: 10, Count: 4}
	later := 30 * time.Millisecond // in a read of its own, on a machine that is not too busy
	closed := load.Schedule{Users: 1, Count: 6}
	for name, tt := range map[string]struct {
		main   load.Schedule
		answer func(c net.Conn, conn, n int) error
		most   int // requests that may be served all the same
	}{
		"a second answer in the same write": {closed, func(c net.Conn, conn, n int) error {
			_, err := io.WriteString(c, twoTokensAnswer+twoTokensAnswer)
			return err
		}, 0},
		"one byte too many": {closed, func(c net.Conn, conn, n int) error {
			_, err := io.WriteString(c, twoTokensAnswer+"\n")
			return err
		}, 0},
		"while the connection is idle": {open, func(c net.Conn, conn, n int) error {
			_, err := io.WriteString(c, twoTokensAnswer)
			if err == nil && conn == 1 && n == 0 {
				time.Sleep(later)
				_, err = io.WriteString(c, twoTokensAnswer)
			}
			return err
		}, 3},
		"after the last request": {closed, func(c net.Conn, conn, n int) error {
			_, err := io.WriteString(c, twoTokensAnswer)
			if err == nil && n == int(closed.Count)-1 {
				time.Sleep(later)
				_, err = io.WriteString(c, twoTokensAnswer)
			}
			return err
		}, 5},
		"each request is answered twice, the second time late": {closed, func(c net.Conn, conn, n int) error {
			_, err := io.WriteString(c, twoTokensAnswer)
			if err == nil {
				time.Sleep(10 * time.Millisecond)
				_, err = io.WriteString(c, twoTokensAnswer)
			}
			return err
		}, 5},
	} {
		for way, secure := range map[string]bool{"event loop": false, "goroutines": false, "TLS": true} {
			t.Run(name+"/"+way, func(t *testing.T) {
				var conns atomic.Int64 // that carried a request
				url := rawServer(t, func(c net.Conn) {
					if secure {
						c = tls.Server(c, front.TLS)
					}
					conn := 0
					eachRequest(c, func(n int) error {
						if n == 0 {
							conn = int(conns.Add(1))
						}
						return tt.answer(c, conn, n)
					})
				})
				o := front.options(tlsHTTP)
				if o.URL = url; secure {
					o.URL = strings.Replace(url, "http://", "https://", 1)
				}
				p := planTo(t, newTarget(t, o), tt.main, 2)
				p.Wire = ways[way].wire
				res := mustRun(t, p)
				got := countClasses(res.Log)
				if got[load.Unsolicited] == 0 || got[load.OK] > tt.most || got[load.OK]+got[load.Unsolicited] != int(tt.main.Count) {
					t.Errorf("%v %v", got, res.Log.Details)
				}
				if ids := blames(&res.Audit); res.Unsolicited == 0 || !slices.Contains(ids, "server/unsolicited") {
					t.Errorf("%d times; the audit has %v", res.Unsolicited, ids)
				}
			})
		}
	}
}

// A server that answered once before it was asked owes each answer to the request after:
// the last of them comes as late as the slowest, and is awaited.
func TestAnOwedAnswerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Net
		l := network.Listen("server.test:80")
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.WriteString(c, twoTokensAnswer)
					eachRequest(c, func(int) error {
						time.Sleep(3 * time.Second)
						_, err := io.WriteString(c, twoTokensAnswer)
						return err
					})
				}()
			}
		}()
		target := newTarget(t, load.TargetOptions{URL: "http://server.test", Dial: network.To("server.test:80")})
		res := mustRun(t, planTo(t, target, load.Schedule{Users: 1, Count: 4}, 2))
		if got := countClasses(res.Log); got[load.Unsolicited] != 1 || !slices.Contains(blames(&res.Audit), "server/unsolicited") {
			t.Errorf("%v, %v", got, res.Audit.Reasons)
		}
	})
}

// However many answers are in flight, the events that are not whole yet take no more than
// 128 MiB together, as long as each can have 64 KiB.
func TestEventsThatAreNotWholeAreBoundedTogether(t *testing.T) {
	for users, want := range map[int]int{1: 4 << 20, 32: 4 << 20, 128: 1 << 20, 1024: 128 << 10, 100_000: 64 << 10, 0: (128 << 20) / 1000} {
		if got := load.MostEvent(&load.Plan{Main: load.Schedule{Users: users}}); got != want {
			t.Errorf("%d users: an event may have %d bytes, want %d", users, got, want)
		}
	}
}

// A surplus answer of a TLS server may come in the same segment as the answer, in a record
// of its own: then it lies in the client's memory, and the socket is silent.
func TestSurplusInATLSRecordOfItsOwn(t *testing.T) {
	front := newFront(t, tlsHTTP, truth.Script{}, nil)
	url := rawServer(t, func(c net.Conn) {
		under := &abruptly{Conn: c}
		secure := tls.Server(under, front.TLS)
		eachRequest(secure, func(int) error {
			under.hold = true
			_, _ = io.WriteString(secure, twoTokensAnswer)
			_, _ = io.WriteString(secure, twoTokensAnswer)
			return under.release()
		})
	})
	o := front.options(tlsHTTP)
	o.URL = strings.Replace(url, "http://", "https://", 1)
	res := mustRun(t, planTo(t, newTarget(t, o), load.Schedule{Users: 1, Count: 4}, 2))
	if got := countClasses(res.Log); got[load.Unsolicited] != 4 {
		t.Errorf("%v %v", got, res.Log.Details)
	}
}

// abruptly is a connection that can hold back its writes, and send them as one.
type abruptly struct {
	net.Conn
	hold bool
	held []byte
}

func (c *abruptly) Write(b []byte) (int, error) {
	if !c.hold {
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *abruptly) release() error {
	_, err := c.Conn.Write(c.held)
	c.held, c.hold = nil, false
	return err
}

// A 408 on an idle connection is how some proxies close it. It answers no request, and
// no request fails for it.
func TestATimeoutOfAnIdleConnectionIsItsEnd(t *testing.T) {
	for _, wire := range plainWires {
		t.Run(wireNames[wire], func(t *testing.T) {
			url := rawServer(t, func(c net.Conn) {
				eachRequest(c, func(int) error {
					_, _ = io.WriteString(c, twoTokensAnswer)
					_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return io.EOF
				})
			})
			p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Rate: 20, Count: 4}, 2)
			p.Wire = wire
			res := mustRun(t, p)
			if got := countClasses(res.Log); got[load.OK] != 4 || res.Unsolicited != 0 {
				t.Errorf("%v %v, %d times unsolicited", got, res.Log.Details, res.Unsolicited)
			}
		})
	}
}

// On HTTP/2 a frame of a stream that was never opened ends the connection, and what was
// under way on it has its class.
func TestSurplusFramesOfHTTP2(t *testing.T) {
	url := rawServer(t, func(c net.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		framer := http2.NewFramer(c, c)
		if framer.WriteSettings() != nil {
			return
		}
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameHeaders {
				_ = framer.WriteData(frame.Header().StreamID+100, true, []byte("unasked"))
			}
		}
	})
	p := planTo(t, newTarget(t, load.TargetOptions{URL: url, HTTP2: true}), load.Schedule{Users: 1, Count: 2}, 2)
	res := mustRun(t, p)
	if got := countClasses(res.Log); got[load.Unsolicited] != 2 || !slices.Contains(blames(&res.Audit), "server/unsolicited") {
		t.Errorf("%v %v, %v", got, res.Log.Details, res.Audit.Reasons)
	}
}

// An answer without an end is given up, on every wire, whatever it is made of.
func TestAnAnswerWithoutAnEndIsGivenUp(t *testing.T) {
	for name, way := range ways {
		t.Run("events/"+name, func(t *testing.T) {
			f := newFront(t, way.speaks, truth.Script{Faults: []truth.Fault{{Kind: truth.Endless, Share: 1}}}, nil)
			p := planTo(t, newTarget(t, f.options(way.speaks)), load.Schedule{Users: 2, Count: 2}, 2)
			p.Wire = way.wire
			res := mustRun(t, p)
			if diff := cmp.Diff(map[load.Class]int{load.Oversized: 2}, countClasses(res.Log)); diff != "" {
				t.Errorf("%v\n%s", res.Log.Details, diff)
			}
		})
		for rule, tt := range map[string]struct {
			contentType, piece string
			status             int
			want               load.Class
		}{
			"comments":         {"text/event-stream", ": still here, and here, and here\n\n", 200, load.Oversized},
			"one line":         {"text/event-stream", "data: and here, and here, and here", 200, load.Oversized},
			"a page":           {"text/html", "<p>and so on</p>\n", 200, load.BadStream},
			"an error's words": {"text/plain", "and so on\n", 500, load.HTTPStatus},
		} {
			t.Run(rule+"/"+name, func(t *testing.T) {
				var sent atomic.Int64
				f := newFront(t, way.speaks, truth.Script{}, func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", tt.contentType)
						w.WriteHeader(tt.status)
						many := []byte(strings.Repeat(tt.piece, 1000))
						for {
							n, err := w.Write(many)
							if sent.Add(int64(n)); err != nil {
								return
							}
						}
					})
				})
				p := planTo(t, newTarget(t, f.options(way.speaks)), load.Schedule{Users: 1, Count: 1}, 2)
				p.Wire = way.wire
				res := mustRun(t, p)
				if diff := cmp.Diff(map[load.Class]int{tt.want: 1}, countClasses(res.Log)); diff != "" {
					t.Errorf("%v\n%s", res.Log.Details, diff)
				}
				for r := range res.Log.All() {
					if r.BytesIn > 5<<20 {
						t.Errorf("%d bytes were read", r.BytesIn)
					}
				}
			})
		}
	}
}

// What a server tells after [DONE] is no part of the answer.
func TestContentBehindTheEndOfAStreamIsNotCounted(t *testing.T) {
	body := twoTokens + strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 100)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, wire := range plainWires {
		url := rawServer(t, func(c net.Conn) {
			eachRequest(c, func(int) error { _, err := io.WriteString(c, answer); return err })
		})
		p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 1, Count: 2}, 2)
		p.Wire = wire
		res := mustRun(t, p)
		for r := range res.Log.All() {
			if r.Class != load.BadStream || r.Chunks != 2 {
				t.Errorf("%s: %v with %d events of content", wireNames[wire], r.Class, r.Chunks)
			}
		}
	}
}

// Usage whose count cannot be read is no usage: the tokens are then the events. One that
// can be read and cannot be is kept as it is, for whoever judges it.
func TestUsageThatCannotBeReadIsNone(t *testing.T) {
	const tokens = 12
	for _, count := range []string{"0", "null", `"8"`, "8.0", "-8", "18446744073709551615", "[]"} {
		t.Run(count, func(t *testing.T) {
			inVirtualTime(t, truth.Script{UsageCount: count}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
				for r := range mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 6}, tokens)).Log.All() {
					if !r.OK() || r.Has(load.HasUsage) || r.Tokens() != tokens || r.TextBytes != 6*tokens {
						t.Fatalf("%+v", r)
					}
				}
			})
		})
	}
	inVirtualTime(t, truth.Script{UsageCount: "9223372036854775807"}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		for r := range mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 6}, tokens)).Log.All() {
			if !r.OK() || !r.Has(load.HasUsage) || r.Tokens() != 1<<31-1 || r.Asked != tokens {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// One letter that claims all tokens is kept as what it is.
func TestTheTextOfAnAnswerIsKept(t *testing.T) {
	inVirtualTime(t, truth.Script{OneLetter: true}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		for r := range mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 6}, 128)).Log.All() {
			q := r.Request(0, "")
			if !r.OK() || q.Tokens != 128 || *q.Events != 1 || *q.TextBytes != 1 {
				t.Fatalf("%+v", q)
			}
		}
	})
}

// closing is a listener that ends every connection when it has read a request.
func closing(t *testing.T, l net.Listener) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
}

// A user whose connection fails before any answer comes back later and later, and not in
// step with the others: a minute of a server that serves no request is a few dozen records.
func TestUsersBackOff(t *testing.T) {
	const users = 8
	for name, serve := range map[string]func(t *testing.T, l net.Listener){
		"closed without a byte": closing,
		"no handshake":          closing,
		"refused":               func(_ *testing.T, l net.Listener) { _ = l.Close() },
		"no HTTP": func(t *testing.T, l net.Listener) {
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
					_ = c.Close()
				}
			}()
			t.Cleanup(func() { _ = l.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network memnet.Net
				l := network.Listen("server.test:80")
				serve(t, l)
				url := map[bool]string{true: "https://server.test", false: "http://server.test"}[name == "no handshake"]
				target, err := load.NewTarget(load.TargetOptions{URL: url, Dial: network.To("server.test:80")})
				if err != nil {
					t.Fatal(err)
				}
				res := mustRun(t, planTo(t, target, load.Schedule{Users: users, Duration: time.Minute}, 2))
				if n := res.Log.Len(); n < users*15 || n > users*30 {
					t.Errorf("%d records in a minute of %d users", n, users)
				}
				if !res.Audit.Valid() {
					t.Errorf("the server's failure is held against the client: %v", res.Audit.Reasons)
				}
				last, waits := map[int32]int64{}, map[int32][]time.Duration{}
				for r := range res.Log.All() {
					if was, ok := last[r.User]; ok {
						waits[r.User] = append(waits[r.User], time.Duration(r.Intended-was))
					}
					last[r.User] = r.End
				}
				seconds := map[time.Duration]int{}
				for user, w := range waits {
					for i, wait := range w {
						if most := min(100*ms<<i, 5*time.Second); wait < most/2 || wait > most {
							t.Errorf("user %d waited %v after failure %d, want %v to %v", user, wait, i+1, most/2, most)
						}
					}
					seconds[w[6]]++
				}
				if len(seconds) < users {
					t.Errorf("users come back together: %v", seconds)
				}
			})
		})
	}
}

// A user that was served again begins anew.
func TestBackingOffEndsWithAnAnswer(t *testing.T) {
	for _, wire := range plainWires {
		t.Run(wireNames[wire], func(t *testing.T) {
			var n atomic.Int64
			url := rawServer(t, func(c net.Conn) {
				eachRequest(c, func(int) error {
					if n.Add(1)%2 == 0 {
						return io.EOF
					}
					_, err := io.WriteString(c, twoTokensAnswer)
					return err
				})
			})
			p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 1, Count: 12}, 2)
			p.Wire, p.NoReuse = wire, true // on a kept connection it would be sent again
			res := mustRun(t, p)
			if diff := cmp.Diff(map[load.Class]int{load.OK: 6, load.Reset: 6}, countClasses(res.Log)); diff != "" {
				t.Errorf("%v\n%s", res.Log.Details, diff)
			}
			if took := time.Duration(res.Main.End - res.Main.Start); took < 250*ms {
				t.Errorf("five rests took %v", took)
			}
		})
	}
}

// The words of a failure are bounded, however many names a certificate has.
func TestFailuresHaveFewWords(t *testing.T) {
	log := mustRun(t, func() *load.Plan {
		f := newFront(t, plainHTTP, truth.Script{}, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, strings.Repeat("\x1b[31mwords ", 10_000), http.StatusTeapot)
			})
		})
		return planTo(t, newTarget(t, f.options(plainHTTP)), load.Schedule{Users: 1, Count: 2}, 2)
	}()).Log
	if text := log.Details[1]; len(text) > 500 || strings.Contains(text, "\x1b") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

// So many connections fit, take a higher limit of this process, or are refused with the
// numbers that it would need.
func TestDescriptorsAreCountedBeforeTheLoad(t *testing.T) {
	for name, tt := range map[string]struct {
		soft, hard  uint64
		connections int
		raise       uint64
		refused     bool
	}{
		"they fit":            {1024, 4096, 900, 0, false},
		"the limit is raised": {1024, 4096, 3000, 3084, false},
		"they do not":         {1024, 4096, 5000, 0, true},
		"no limit":            {1024, 1<<64 - 1, 1 << 20, 1<<20 + 84, false},
		"none are asked for":  {1024, 4096, 0, 0, false},
	} {
		raise, err := load.Fit(tt.soft, tt.hard, tt.connections, 20)
		if raise != tt.raise || (err != nil) != tt.refused {
			t.Errorf("%s: raise to %d, %v", name, raise, err)
		}
		if err != nil && (err.InFlight != 5000 || err.Need != 5084 || err.Limit != 4096 ||
			!strings.Contains(err.Hint(), "ulimit -n 5084") || !strings.Contains(err.Hint(), "at most 4012 in flight")) {
			t.Errorf("%v; %s", err, err.Hint())
		}
	}
}
