package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// What is open lasts as long as its reader wants; opening it has the time of a call.
func TestLogs(t *testing.T) {
	t.Run("which part", func(t *testing.T) {
		for want, o := range map[string]LogOptions{
			"container=c": {},
			"container=c&previous=true&tailLines=200": {Previous: true, Tail: 200},
			"container=c&follow=true":                 {Follow: true},
		} {
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				if got := r.URL.RequestURI(); got != "/api/v1/namespaces/a/pods/p/log?"+want {
					t.Errorf("asked for %s, want %s", got, want)
				}
				return answers(200, "one\ntwo\n", "Content-Type", "text/plain"), nil
			})
			r, err := c.Logs(t.Context(), "a", "p", "c", o)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(r); err != nil || string(text) != "one\ntwo\n" || r.Close() != nil {
				t.Errorf("%q %v", text, err)
			}
		}
	})
	t.Run("opened while the server is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			c := asking(t, func(r *http.Request) (*http.Response, error) {
				switch n.Add(1) {
				case 1:
					return nil, io.EOF
				case 2:
					<-r.Context().Done()
					return nil, r.Context().Err()
				case 3:
					return refusal(503, "ServiceUnavailable", ""), nil
				}
				return answers(200, "text"), nil
			})
			r, err := c.Logs(t.Context(), "a", "p", "c", LogOptions{})
			if err != nil || n.Load() != 4 {
				t.Fatal(n.Load(), err)
			}
			if text, err := io.ReadAll(r); err != nil || string(text) != "text" || r.Close() != nil {
				t.Errorf("%q %v", text, err)
			}
		})
	})
	t.Run("none", func(t *testing.T) {
		c := asking(t, func(*http.Request) (*http.Response, error) {
			return refusal(400, "BadRequest", `previous terminated container "c" in pod "p" not found`), nil
		})
		if _, err := c.Logs(t.Context(), "a", "p", "c", LogOptions{Previous: true}); !IsInvalid(err) || !strings.HasPrefix(err.Error(), "reading the log of a/p, c: previous terminated") {
			t.Error(err)
		}
	})
	for name, follow := range map[string]bool{"one that stops half-way ends": false, "one that is followed may be silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := asking(t, func(r *http.Request) (*http.Response, error) {
					answer := answers(200, "")
					answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("begun"), silent{r.Context(), time.Hour}))
					return answer, nil
				})
				r, err := c.Logs(t.Context(), "a", "p", "c", LogOptions{Follow: follow})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				text, err := io.ReadAll(r)
				if string(text) != "begun" || (err == nil) != follow || (time.Since(begin) > time.Minute) != follow || r.Close() != nil {
					t.Errorf("%q after %s: %v", text, time.Since(begin), err)
				}
			})
		})
	}
}

// silent says nothing for a while, and then that it was all.
type silent struct {
	ctx   context.Context
	lasts time.Duration
}

func (s silent) Read([]byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.lasts):
		return 0, io.EOF
	}
}

// command is what a container does with one.
type command struct {
	stdout, stderr string
	status         Object
	hang           bool
}

var (
	done  = Object{"kind": "Status", "status": "Success"}
	seven = Object{"kind": "Status", "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with exit code 7", "details": Object{"causes": []Object{{"reason": "ExitCode", "message": "7"}}}}
)

func (run command) overSocket(t *testing.T, w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	status, _ := json.Marshal(run.status)
	for _, m := range [][]byte{append([]byte{1}, run.stdout...), append([]byte{2}, run.stderr...), append([]byte{3}, status...)} {
		if m[0] == 3 && run.hang {
			_, _, _ = conn.ReadMessage() // until the other goes
			return
		}
		_ = conn.WriteMessage(websocket.BinaryMessage, m)
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute))
}

func (run command) overSPDY(t *testing.T, w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if conn == nil {
		t.Error("no connection")
		return
	}
	defer conn.Close()
	status, _ := json.Marshal(run.status)
	for range 3 {
		s := <-streams
		_, _ = io.WriteString(s, map[string]string{"stdout": run.stdout, "stderr": run.stderr, "error": string(status)}[s.Headers().Get("streamType")])
		_ = s.Close()
	}
	<-conn.CloseChan()
}

func TestExec(t *testing.T) {
	for _, tt := range []struct {
		name   string
		socket int // how a websocket is answered; 101: it is taken
		spdy   int
		run    command
		stdout string
		want   string // the error
		is     func(error) bool
	}{
		{"a websocket", 101, 0, command{stdout: "out", stderr: "warning", status: done}, "out", "", nil},
		{"a code", 101, 0, command{stdout: "out", stderr: "oh\nno Bearer abcdefgh12345", status: seven}, "out", "running a command in a/p, c: the command ended with code 7: oh no Bearer ***", func(err error) bool {
			code, ok := errors.AsType[*ExecError](err)
			return ok && code.Code == 7
		}},
		{"a server that knows no websockets", 400, 101, command{stdout: "out", status: done}, "out", "", nil},
		{"its code", 403, 101, command{stdout: "out", stderr: "no", status: seven}, "out", "running a command in a/p, c: the command ended with code 7: no", nil},
		{"no pod", 404, 404, command{}, "", "running a command in a/p, c: pods is not there", IsNotFound},
		{"no right", 403, 403, command{}, "", "running a command in a/p, c: pods is not there", IsForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			c := execServer(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.RequestURI())
				code, over := tt.spdy, tt.run.overSPDY
				if websocket.IsWebSocketUpgrade(r) {
					code, over = tt.socket, tt.run.overSocket
				}
				if code == 101 {
					over(t, w, r)
					return
				}
				refuse(w, code)
			})
			var stdout bytes.Buffer
			err := c.Exec(t.Context(), "a", "p", "c", []string{"aicr", "run", "fetch"}, &stdout)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || stdout.String() != tt.stdout || tt.is != nil && !tt.is(err) {
				t.Errorf("%q %q, want %q %q", stdout.String(), got, tt.stdout, tt.want)
			}
			const where = " /api/v1/namespaces/a/pods/p/exec?command=aicr&command=run&command=fetch&container=c&stderr=true&stdout=true"
			want := []string{"GET" + where}
			if tt.socket != 101 {
				want = append(want, "POST"+where)
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A command is run again only where it cannot have run.
func TestACommandIsNotRunTwice(t *testing.T) {
	t.Run("the server was away", func(t *testing.T) {
		tries := 0
		c := execServer(t, func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries <= 2 { // both ways
				refuse(w, 503)
				return
			}
			command{stdout: "out", status: done}.overSocket(t, w, r)
		})
		var stdout bytes.Buffer
		if err := c.Exec(t.Context(), "a", "p", "c", []string{"x"}, &stdout); err != nil || stdout.String() != "out" || tries != 3 {
			t.Errorf("%d tries, %q: %v", tries, stdout.String(), err)
		}
	})
	t.Run("it broke off", func(t *testing.T) {
		tries := 0
		c := execServer(t, func(w http.ResponseWriter, r *http.Request) {
			tries++
			conn, err := (&websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}).Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte("\x01half"))
			if tcp, ok := conn.UnderlyingConn().(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // reset: the kind of error after which other calls are tried again
			}
			_ = conn.UnderlyingConn().Close()
		})
		var stdout bytes.Buffer
		if err := c.Exec(t.Context(), "a", "p", "c", []string{"x"}, &stdout); err == nil || tries != 1 {
			t.Errorf("%d tries, %q: %v", tries, stdout.String(), err)
		}
	})
	t.Run("it ends with its caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := execServer(t, func(w http.ResponseWriter, r *http.Request) {
			command{stdout: "out", hang: true}.overSocket(t, w, r)
		})
		if err := c.Exec(ctx, "a", "p", "c", []string{"x"}, onWrite(cancel)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }

func execServer(t *testing.T, handle http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := connectTo(&rest.Config{Host: server.URL}, "test")
	if err != nil {
		t.Fatal(err)
	}
	c.Limit = time.Minute // a machine that is busy is no server that is away
	return c
}

func refuse(w http.ResponseWriter, code int) {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 400: "BadRequest", 503: "ServiceUnavailable"}[code]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "pods is not there"})
}
