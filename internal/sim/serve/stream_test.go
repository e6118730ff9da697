package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/sim"
	"aicr/test/memnet"
)

const step = 10 * time.Millisecond

// stepping is a puppet that takes a step between what it tells, for a server of
// which the test wants to see the puppet.
func stepping(p **puppet) func(t *testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		*p = newPuppet()
		(*p).step = step
		return serverOf(t, *p).Frontend()
	}
}

// The head comes when a worker has the request, before any token; a token comes
// when the fleet gives it.
func TestBytesComeWhenTheFleetSaysSo(t *testing.T) {
	var p *puppet
	inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
		conn, err := network.Dial(t.Context(), "tcp", simAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begin := time.Now()
		if _, err := io.WriteString(conn, post(chatPath, streamed)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := []time.Duration{time.Since(begin)}
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data:") {
				got = append(got, time.Since(begin))
			}
		}
		// The head, five tokens, and with the last of them finish, usage and [DONE].
		want := []time.Duration{step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 6 * step, 6 * step, 6 * step}
		if !slices.Equal(got, want) {
			t.Errorf("came at %v, want %v", got, want)
		}
	})
}

// A connection serves one request after another.
func TestConnectionsAreKept(t *testing.T) {
	var p *puppet
	inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
		conn, err := network.Dial(t.Context(), "tcp", simAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for i, body := range []string{streamed, whole, `{`, streamed} {
			if _, err := io.WriteString(conn, post(chatPath, body)); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Close {
				t.Errorf("request %d: %v, closed: %t", i, err, res.Close)
			}
		}
	})
}

// The fleet goes on while a client reads nothing, and what the client has missed
// is there when it reads again, each token as an event of its own.
func TestASlowClientDelaysNobody(t *testing.T) {
	var p *puppet
	inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
		conn, err := network.Dial(t.Context(), "tcp", simAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, post(chatPath, streamed)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6*step + 1) // as long as the stream takes
		synctest.Wait()
		p.mu.Lock()
		if p.ended != 1 || len(p.abandoned) > 0 {
			t.Errorf("ended %d streams, gave up %d", p.ended, len(p.abandoned))
		}
		p.mu.Unlock()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(body), `"content":`); n != 5 || !strings.HasSuffix(string(body), eventDone) {
			t.Errorf("%d events with text in:\n%s", n, body)
		}
	})
}

// A client that goes away is no longer served: in the middle of a stream, before
// it, and where it wanted no stream.
func TestAClientThatLeavesIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		body  string
		after time.Duration
	}{
		{"in mid-stream", streamed, 3*step + 1},
		{"before the head", streamed, step / 2},
		{"before the whole", whole, 3*step + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p *puppet
			inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
				conn, err := network.Dial(t.Context(), "tcp", simAddress)
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed
				if _, err := io.WriteString(conn, post(chatPath, tt.body)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.after)
				conn.Close()
				synctest.Wait()
				p.mu.Lock()
				defer p.mu.Unlock()
				if len(p.abandoned) != 1 || p.abandoned[0] != p.streams[0] {
					t.Errorf("gave up %d of %d streams", len(p.abandoned), len(p.streams))
				}
			})
		})
	}
}

// A body that never ends is not read to its end.
func TestABodyHasALimit(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, chatPath, io.LimitReader(blanks{}, maxBody+1))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	serverOf(t, newPuppet()).Frontend().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), saysTooLarge) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Over TCP a reset is a reset, and what was said before it has come.
func TestAResetIsAReset(t *testing.T) {
	p := newPuppet()
	ends(sim.Reset, 2)(p)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: serverOf(t, p).Frontend()}
	go func() { _ = srv.Serve(listener) }() // it ends by Close
	defer srv.Close()
	for body, events := range map[string]int{streamed: 2, whole: 0} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, post(chatPath, body)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if !errors.Is(err, syscall.ECONNRESET) || strings.Count(string(got), "data: {") != events {
			t.Errorf("the connection ended with %v after:\n%s", err, got)
		}
		conn.Close()
	}
}

// What a token costs the server is a write: making its event allocates nothing.
func TestAnEventIsMadeWithoutAllocation(t *testing.T) {
	a, refused := parse([]byte(`{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":10000,"ignore_eos":true,
		"nvext":{"extra_fields":["worker_id"]},"stream_options":{"continuous_usage_stats":true}}`), chat)
	if refused != nil {
		t.Fatal(refused.message)
	}
	p, refused := planOf(a, 5, longestContext)
	if refused != nil {
		t.Fatal(refused.message)
	}
	w := newWriter(a, &p, "id", time.Now())
	w.begin(13508364658517883845)
	n := 0
	w.token(1)
	if allocs := testing.AllocsPerRun(1000, func() { n++; w.token(n + 1) }); allocs > 0 {
		t.Errorf("%v allocations a token", allocs)
	}
}

// Many at once, each gets its own answer.
func TestManyStreamsAtOnce(t *testing.T) {
	var p *puppet
	inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
		client := &http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
		const n = 200
		answers := make(chan error, n)
		for i := range n {
			go func() { answers <- askOne(t.Context(), client, i) }()
		}
		for range n {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	})
}

func askOne(ctx context.Context, client *http.Client, i int) error {
	body := fmt.Sprintf(`{"model":"tiny","prompt":[%d],"stream":true,"max_tokens":3}`, i)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sim.test"+plainPath, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var want prompt
	want.addIDs([]uint32{uint32(i)})
	text := string(appendWord(nil, want.sum, 2))
	if !strings.Contains(string(got), `"text":"`+text+`"`) {
		return fmt.Errorf("request %d has no %q in\n%s", i, text, got)
	}
	return nil
}
