package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

var configMaps = Resource{Version: "v1", Name: "configmaps"}

// asking is a cluster whose server is a function; time is virtual in a synctest bubble.
func asking(t *testing.T, answer func(r *http.Request) (*http.Response, error)) *Cluster {
	t.Helper()
	c, err := connectTo(&rest.Config{Host: "https://api.example", BearerToken: "bearer-secret-1", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			defer r.Body.Close()
		}
		return answer(r)
	})}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answers(code int, body any, headers ...string) *http.Response {
	text, ok := body.(string)
	if !ok {
		data, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		text = string(data)
	}
	h := http.Header{"Content-Type": []string{"application/json"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(text))}
}

func refusal(code int, reason, message string, causes ...Object) *http.Response {
	return answers(code, Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message, "details": Object{"causes": causes}})
}

func dialing(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// What passes is tried again until it has passed; what the server refuses is not asked
// twice.
func TestWhatIsTriedAgain(t *testing.T) {
	type failure = func(*http.Request) (*http.Response, error)
	fails := func(err error) failure {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	says := func(code int, reason, message string) failure {
		return func(*http.Request) (*http.Response, error) { return refusal(code, reason, message), nil }
	}
	for _, tt := range []struct {
		name    string
		failure failure
		again   bool
		least   time.Duration // until it is asked again
	}{
		{"connection refused", fails(dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED))), true, 0},
		{"connection reset", fails(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), true, 0},
		{"no route", fails(dialing(syscall.EHOSTUNREACH)), true, 0},
		{"EOF", fails(io.EOF), true, 0},
		{"half an answer", func(*http.Request) (*http.Response, error) {
			r := answers(200, "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"kind":`), broken{io.ErrUnexpectedEOF}))
			return r, nil
		}, true, 0},
		{"handshake time-out", fails(timedOut{}), true, 0},
		{"connection lost", fails(errors.New("http2: client connection lost")), true, 0},
		{"going away", fails(errors.New("http2: server sent GOAWAY and closed the connection")), true, 0},
		{"no answer", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, true, DefaultRequestTimeout},
		{"too many requests", func(*http.Request) (*http.Response, error) {
			return answers(429, "Too many requests", "Retry-After", "7", "Content-Type", "text/plain"), nil
		}, true, 7 * time.Second},
		{"too many, in its own words", func(*http.Request) (*http.Response, error) {
			return answers(429, Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests", "details": Object{"retryAfterSeconds": 9}}), nil
		}, true, 9 * time.Second},
		{"500", says(500, "InternalError", "etcdserver: leader changed"), true, 0},
		{"502 of a proxy", func(*http.Request) (*http.Response, error) {
			return answers(502, "<html>", "Content-Type", "text/html"), nil
		}, true, 0},
		{"503", says(503, "ServiceUnavailable", "apiserver not ready"), true, 0},
		{"504", says(504, "Timeout", "etcd"), true, 0},
		{"DNS for a moment", fails(dialing(&net.DNSError{Err: "server misbehaving", IsTemporary: true})), true, 0},

		{"400", says(400, "BadRequest", "no"), false, 0},
		{"401", says(401, "Unauthorized", "no"), false, 0},
		{"403", says(403, "Forbidden", "no"), false, 0},
		{"404", says(404, "NotFound", "no"), false, 0},
		{"405", says(405, "MethodNotAllowed", "no"), false, 0},
		{"409", says(409, "Conflict", "no"), false, 0},
		{"413", says(413, "RequestEntityTooLarge", "no"), false, 0},
		{"422", says(422, "Invalid", "no"), false, 0},
		{"too large for etcd", says(500, "InternalError", "etcdserver: request is too large"), false, 0},
		{"a certificate", fails(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), false, 0},
		{"their alert", fails(&net.OpError{Op: "remote error", Err: tls.AlertError(42)}), false, 0},
		{"no TLS", fails(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), false, 0},
		{"no such host", fails(dialing(&net.DNSError{Err: "no such host", IsNotFound: true})), false, 0},
		{"no credentials", fails(errors.New("getting credentials: exec: executable aws failed with exit code 255")), false, 0},
		{"no JSON", func(*http.Request) (*http.Response, error) { return answers(200, "<html>"), nil }, false, 0},
		{"a list", func(*http.Request) (*http.Response, error) { return answers(200, "[]"), nil }, false, 0},
		{"null", func(*http.Request) (*http.Response, error) { return answers(200, "null"), nil }, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // a try that was given up may still be under way
				var asked []time.Time
				c := asking(t, func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					asked = append(asked, time.Now())
					fails := len(asked) <= 2
					mu.Unlock()
					if fails {
						return tt.failure(r)
					}
					return answers(200, Object{"kind": "ConfigMap"}), nil
				})
				o, err := c.Read(t.Context(), configMaps, "a", "b")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !tt.again && (err == nil || len(asked) != 1):
					t.Errorf("asked %d times: %v", len(asked), err)
				case tt.again && (err != nil || len(asked) != 3 || o.Text("kind") != "ConfigMap"):
					t.Errorf("asked %d times: %v", len(asked), err)
				case tt.again && asked[1].Sub(asked[0]) < max(tt.least, firstPause/2):
					t.Errorf("asked again after %s", asked[1].Sub(asked[0]))
				}
			})
		})
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

type timedOut struct{}

func (timedOut) Error() string   { return "net/http: TLS handshake timeout" }
func (timedOut) Timeout() bool   { return true }
func (timedOut) Temporary() bool { return true }

// What has worked before is the network's fault now: a laptop that wakes knows no name yet.
func TestANameThatWasKnownIsTriedAgain(t *testing.T) {
	for _, failure := range []error{dialing(&net.DNSError{Err: "no such host", IsNotFound: true}), errors.New("getting credentials: exec: executable aws failed with exit code 255")} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c := asking(t, func(*http.Request) (*http.Response, error) {
				if n++; n == 2 {
					return nil, failure
				}
				return answers(200, Object{}), nil
			})
			for range 2 {
				if _, err := c.Read(t.Context(), configMaps, "a", "b"); err != nil {
					t.Error(err)
				}
			}
			if n != 3 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Patience has an end, and so has the caller's; both say what the server said last.
func TestPatienceEnds(t *testing.T) {
	away := func(*http.Request) (*http.Response, error) { return nil, dialing(syscall.ECONNREFUSED) }
	t.Run("the client's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin, n := time.Now(), 0
			c := asking(t, func(r *http.Request) (*http.Response, error) { n++; return away(r) })
			_, err := c.Read(t.Context(), configMaps, "a", "b")
			if took := time.Since(begin); !IsAway(err) || took > DefaultPatience || took < DefaultPatience-2*longestPause {
				t.Errorf("after %s: %v", took, err)
			}
			if n < 20 || n > 40 {
				t.Errorf("asked %d times in three minutes", n)
			}
			if !strings.Contains(err.Error(), "reading configmaps a/b: no answer for ") || !strings.Contains(err.Error(), "connection refused") {
				t.Error(err)
			}
		})
	})
	t.Run("shorter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			c := asking(t, away)
			c.Patience = 5 * time.Second
			if err := c.Delete(t.Context(), configMaps, "a", "b", DeleteOptions{}); !IsAway(err) || time.Since(begin) > 5*time.Second {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
		})
	})
	t.Run("with a server that was never there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			there := false
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				if there {
					return answers(200, Object{}), nil
				}
				return away(r)
			})
			c.First = 5 * time.Second
			begin := time.Now()
			if _, err := c.Read(t.Context(), configMaps, "a", "b"); !IsAway(err) || time.Since(begin) > c.First || c.Reached() {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
			there = true
			if _, err := c.Read(t.Context(), configMaps, "a", "b"); err != nil || !c.Reached() {
				t.Error(err)
			}
			there, begin = false, time.Now()
			if _, err := c.Read(t.Context(), configMaps, "a", "b"); !IsAway(err) || time.Since(begin) < DefaultPatience-2*longestPause {
				t.Errorf("one that has answered was given up after %s: %v", time.Since(begin), err)
			}
		})
	})
	t.Run("the caller's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := asking(t, away).List(ctx, configMaps, "", "")
			if !errors.Is(err, context.DeadlineExceeded) || IsAway(err) || !strings.Contains(err.Error(), "connection refused") {
				t.Error(err)
			}
		})
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the second Ctrl-C"))
		_, err := asking(t, away).Read(ctx, configMaps, "a", "b")
		if err == nil || !strings.Contains(err.Error(), "the second Ctrl-C") {
			t.Error(err)
		}
	})
	t.Run("a try that hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				n.Add(1)
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			c.Limit = time.Second
			c.Patience = 10 * time.Second
			_, err := c.Read(t.Context(), configMaps, "a", "b")
			if !IsAway(err) || !strings.Contains(err.Error(), "no answer in 1s") || n.Load() < 3 {
				t.Errorf("%d tries: %v", n.Load(), err)
			}
		})
	})
}

// However many calls meet it, it is told once that the server is away and once that it is
// back; a blink is not told at all.
func TestTroubleIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		var told []string
		gone := func() bool {
			since := time.Since(begin)
			return since > time.Second && since < 21*time.Second || since > time.Minute && since < 80*time.Second
		}
		c := asking(t, func(*http.Request) (*http.Response, error) {
			if gone() {
				return nil, dialing(syscall.ECONNREFUSED)
			}
			return refusal(404, "NotFound", "none"), nil
		})
		c.Trouble = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, strings.Fields(text)[4]) // not, again
		}
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				for range 100 {
					if _, err := c.Read(t.Context(), configMaps, "a", fmt.Sprint("b", i)); !IsNotFound(err) {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		group.Wait()
		if diff := cmp.Diff([]string{"not", "again", "not", "again"}, told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		told, begin = nil, time.Now()
		blinks := 0
		c = asking(t, func(*http.Request) (*http.Response, error) {
			if blinks++; blinks == 1 {
				return nil, io.EOF
			}
			return answers(200, Object{}), nil
		})
		c.Trouble = func(text string) { told = append(told, text) }
		if _, err := c.Read(t.Context(), configMaps, "a", "b"); err != nil || told != nil {
			t.Error(err, told)
		}
	})
}

// A create that was repeated and meets its own work has done it. Anybody else's stays what
// it is: there already.
func TestACreateThatMeetsItsOwnWork(t *testing.T) {
	mine := map[string]string{LabelOwner: "aicr", LabelRun: "r1"}
	for _, tt := range []struct {
		name   string
		lost   bool // the answer to the first try
		labels map[string]string
		there  *http.Response
		want   string
	}{
		{"its own", true, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u", "labels": mine}}), "u"},
		{"its own, in an earlier life", false, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u", "labels": mine}}), "exists"},
		{"another run's", true, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u", "labels": map[string]string{LabelOwner: "aicr", LabelRun: "r2"}}}), "exists"},
		{"another owner's", true, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u", "labels": map[string]string{LabelOwner: "x", LabelRun: "r1"}}}), "exists"},
		{"nobody's", true, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u"}}), "exists"},
		{"without labels of a run", true, nil, answers(200, Object{"metadata": Object{"name": "b", "uid": "u"}}), "exists"},
		{"its own, going", true, mine, answers(200, Object{"metadata": Object{"name": "b", "uid": "u", "labels": mine, "deletionTimestamp": "2026-11-16T02:00:00Z"}}), "exists"},
		{"it may not look", true, mine, refusal(403, "Forbidden", "secrets"), "exists"},
		{"it has gone", true, mine, refusal(404, "NotFound", "none"), "exists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := tt.lost
				c := asking(t, func(r *http.Request) (*http.Response, error) {
					switch {
					case r.Method == http.MethodGet:
						return tt.there, nil
					case first:
						first = false
						return nil, io.EOF
					}
					return refusal(409, "AlreadyExists", `configmaps "b" already exists`), nil
				})
				o, err := c.Create(t.Context(), configMaps, Object{"metadata": Object{"name": "b", "namespace": "a", "labels": tt.labels}})
				got := o.UID()
				if IsExists(err) {
					got = "exists"
				} else if err != nil {
					got = err.Error()
				}
				if got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// One that is not there is told, unless this very call may have taken it away.
func TestADeleteThatFindsNothing(t *testing.T) {
	for lost, want := range map[bool]bool{false: true, true: false} {
		synctest.Test(t, func(t *testing.T) {
			first := lost
			c := asking(t, func(*http.Request) (*http.Response, error) {
				if first {
					first = false
					return nil, io.ErrUnexpectedEOF
				}
				return refusal(404, "NotFound", "none"), nil
			})
			if err := c.Delete(t.Context(), configMaps, "a", "b", DeleteOptions{}); IsNotFound(err) != want || err != nil != want {
				t.Errorf("after a lost answer %v: %v", lost, err)
			}
		})
	}
}
