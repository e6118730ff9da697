package truth_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim/truth"
	"aicr/test/memnet"
)

// endpoint is what a driver of a script has for the tests.
type endpoint interface {
	Truth() truth.Truth
	TruthOf(truth.Filter) truth.Truth
	Requests() []truth.Request
	Reset()
}

// drivers starts a script in each way there is.
var drivers = map[string]func(*testing.T, truth.Script) (string, endpoint){
	"server": func(t *testing.T, s truth.Script) (string, endpoint) {
		srv := start(t, s)
		return srv.URL(), srv
	},
	"handler": func(t *testing.T, s truth.Script) (string, endpoint) {
		h, err := truth.NewHandler(s)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL, h
	},
}

func start(t *testing.T, s truth.Script) *truth.Server {
	t.Helper()
	srv, err := truth.NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// seen is what a plain net/http client sees of an answer.
type seen struct {
	status int
	body   string
	err    error // of reading the body, or of the whole exchange
}

func post(ctx context.Context, c *http.Client, url, body string) seen {
	return postUntil(ctx, c, url, body, nil)
}

// postUntil is post, but gives up when enough says so of what has come.
func postUntil(ctx context.Context, c *http.Client, url, body string, enough func(body string) bool) seen {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return seen{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return seen{err: err}
	}
	defer res.Body.Close()
	var all []byte
	for buf := make([]byte, 4<<10); ; {
		n, err := res.Body.Read(buf)
		all = append(all, buf[:n]...)
		switch {
		case err == io.EOF:
			return seen{res.StatusCode, string(all), nil}
		case err != nil:
			return seen{res.StatusCode, string(all), err}
		case enough != nil && enough(string(all)):
			// What is not to come has this long to come all the same.
			time.AfterFunc(20*time.Millisecond, cancel)
			enough = nil
		}
	}
}

// events are the data lines of a stream.
func events(body string) []string {
	var all []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

const chat = `{"model":"truth","stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"messages":[{"role":"user","content":"one two  three"}]}`

func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: hang}
}

// hang is a time limit that only ends a hang: no machine is so slow.
const hang = 2 * time.Minute

// eventually waits for a condition that nothing but a hang keeps from coming.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > hang {
			t.Fatalf("after %v still not: %s", hang, what)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ep := drive(t, truth.Script{Seed: 1, TTFT: 2 * time.Millisecond, TTFTSpread: time.Millisecond, ITL: 100 * time.Microsecond, RoleFirst: true})
			const clients, each, tokens = 8, 5, 7
			c := client(t)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range each {
						got := post(t.Context(), c, url+"/v1/chat/completions", fmt.Sprintf(chat, tokens))
						if got.err != nil || got.status != 200 {
							t.Errorf("got %+v", got)
							return
						}
						data := events(got.body)
						if len(data) != 1+tokens+3 || data[len(data)-1] != "[DONE]" || strings.Count(got.body, `"content":" w`) != tokens {
							t.Errorf("%d events:\n%s", len(data), got.body)
						}
						if want := `"usage":{"prompt_tokens":5,"total_tokens":12,"completion_tokens":7}`; !strings.Contains(got.body, want) {
							t.Errorf("no %s in\n%s", want, got.body)
						}
						for _, d := range data[:len(data)-1] {
							if !json.Valid([]byte(d)) {
								t.Errorf("not JSON: %s", d)
							}
						}
					}
				})
			}
			wg.Wait()
			const n = clients * each
			got := ep.Truth()
			want := truth.Events{Content: n * tokens, Role: n, Finish: n, Usage: n, Done: n, Total: n * (tokens + 4)}
			if diff := cmp.Diff(want, got.Events); diff != "" {
				t.Error(diff)
			}
			if got.Requests != n || got.Tokens != n*tokens || got.ServedTokens != n*tokens || got.Outcomes[truth.Served] != n {
				t.Errorf("got %+v", got)
			}
			if got.TTFT.N != n || got.ITL.N != n || got.Gap.N != n*(tokens-1) || got.Lateness.N != n*tokens {
				t.Errorf("got %+v", got)
			}
			if got.TTFT.P50 <= 0 || got.TTFT.P99 < got.TTFT.P50 || got.Lateness.P50 <= 0 || got.Lateness.Max < got.Lateness.P99 {
				t.Errorf("got %+v", got)
			}
			if got.PeakInFlight < 1 || got.PeakInFlight > clients || got.MeanInFlight > clients {
				t.Errorf("in flight: %+v", got)
			}
			for _, r := range ep.Requests() {
				if r.First < r.PlannedFirst || r.Read < r.Arrival || r.Last < r.First || r.End < r.Last {
					t.Errorf("out of order: %+v", r)
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const tokens = 6
	whole := func(t *testing.T, got seen, status int) {
		t.Helper()
		if got.err != nil || got.status != status {
			t.Errorf("got %+v, want status %d", got, status)
		}
	}
	// half is a stream that ended after half of its tokens.
	half := func(t *testing.T, got seen) {
		t.Helper()
		if n := strings.Count(got.body, `"content":" w`); got.status != 200 || n != tokens/2 || strings.Contains(got.body, `"finish_reason":"`) {
			t.Errorf("got %d tokens: %+v", n, got)
		}
	}
	tests := map[truth.Kind]func(t *testing.T, driver string, got seen){
		truth.HTTP500: func(t *testing.T, _ string, got seen) {
			whole(t, got, 500)
			if !json.Valid([]byte(got.body)) {
				t.Errorf("got %q", got.body)
			}
		},
		truth.HTTP429: func(t *testing.T, _ string, got seen) { whole(t, got, 429) },
		truth.Empty500: func(t *testing.T, _ string, got seen) {
			whole(t, got, 500)
			if got.body != "" {
				t.Errorf("got %q", got.body)
			}
		},
		truth.HTML200: func(t *testing.T, _ string, got seen) {
			whole(t, got, 200)
			if !strings.HasPrefix(got.body, "<!DOCTYPE html>") {
				t.Errorf("got %q", got.body)
			}
		},
		truth.Reset: func(t *testing.T, _ string, got seen) {
			half(t, got)
			if !errors.Is(got.err, syscall.ECONNRESET) {
				t.Errorf("got %v", got.err)
			}
		},
		truth.Cut: func(t *testing.T, _ string, got seen) {
			half(t, got)
			if !errors.Is(got.err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", got.err)
			}
		},
		truth.Truncated: func(t *testing.T, _ string, got seen) {
			half(t, got)
			whole(t, got, 200)
			if strings.Contains(got.body, "[DONE]") {
				t.Errorf("got %q", got.body)
			}
		},
		truth.NoDone: func(t *testing.T, _ string, got seen) {
			whole(t, got, 200)
			if !strings.Contains(got.body, `"finish_reason":"length"`) || strings.Contains(got.body, "[DONE]") || strings.Count(got.body, `"content":" w`) != tokens {
				t.Errorf("got %q", got.body)
			}
		},
		truth.ErrorEvent: func(t *testing.T, _ string, got seen) {
			half(t, got)
			whole(t, got, 200)
			if !strings.Contains(got.body, "\n\nevent: error\ndata: {\"error\":") || strings.Contains(got.body, "[DONE]") {
				t.Errorf("got %q", got.body)
			}
		},
		truth.ErrorData: func(t *testing.T, _ string, got seen) {
			half(t, got)
			whole(t, got, 200)
			if strings.Contains(got.body, "event:") || !strings.Contains(got.body, "\n\ndata: {\"error\":") || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
				t.Errorf("got %q", got.body)
			}
		},
		truth.ZeroTokens: func(t *testing.T, _ string, got seen) {
			whole(t, got, 200)
			if !strings.Contains(got.body, `"finish_reason":"`) || !strings.Contains(got.body, `"completion_tokens":0}`) || strings.Contains(got.body, `"content":" w`) {
				t.Errorf("got %q", got.body)
			}
		},
		truth.Stall: func(t *testing.T, _ string, got seen) {
			half(t, got)
			if !errors.Is(got.err, context.Canceled) { // by the client, not the end of the stream
				t.Errorf("got %v", got.err)
			}
		},
	}
	tests[truth.Endless] = func(t *testing.T, _ string, got seen) {
		if n := strings.Count(got.body, `"content":" w`); n < 10*tokens || !errors.Is(got.err, context.Canceled) {
			t.Errorf("%d events, %v", n, got.err)
		}
	}
	tests[truth.Unsolicited] = func(t *testing.T, _ string, got seen) {
		whole(t, got, 200)
		if strings.Count(got.body, `"content":" w`) != tokens || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			t.Errorf("got %q", got.body)
		}
	}
	for _, kind := range truth.Kinds() {
		check, ok := tests[kind]
		if !ok {
			t.Errorf("%s has no test", kind)
			continue
		}
		for name, drive := range drivers {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				url, ep := drive(t, truth.Script{ITL: 100 * time.Microsecond, Faults: []truth.Fault{{Kind: kind, Share: 1}}, Spare: 1})
				c := client(t)
				whole(t, post(t.Context(), c, url+"/v1/chat/completions", fmt.Sprintf(chat, tokens)), 200)
				var enough func(body string) bool
				if kind == truth.Stall {
					enough = func(body string) bool { return strings.Count(body, `"content":" w`) == tokens/2 }
				}
				if kind == truth.Endless {
					enough = func(body string) bool { return strings.Count(body, `"content":" w`) >= 10*tokens }
				}
				again := func() seen {
					return postUntil(t.Context(), c, url+"/v1/chat/completions", fmt.Sprintf(chat, tokens), enough)
				}
				check(t, name, again())
				outcome := truth.Failed
				if kind == truth.Endless {
					outcome = truth.Left
				} else if kind == truth.NoDone || kind == truth.Unsolicited {
					outcome = truth.Served
				}
				// A stall ends when the server sees that the client is gone.
				eventually(t, "the request has ended", func() bool { return ep.Requests()[1].Outcome != truth.Open })
				got := ep.TruthOf(truth.Filter{Skip: 1})
				if got.Requests != 1 || got.Faults[kind] != 1 || got.Outcomes[outcome] != 1 {
					t.Errorf("got %+v", got)
				}
				check(t, name, again()) // the server goes on
			})
		}
	}
}

// A connection can break or stall before any byte of an answer.
func TestFaultBeforeTheHead(t *testing.T) {
	t.Parallel()
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := drive(t, truth.Script{HeadersFirst: true, Faults: []truth.Fault{{Kind: truth.Cut, Share: 1, After: -1}}})
			got := post(t.Context(), client(t), url+"/v1/chat/completions", fmt.Sprintf(chat, 4))
			if got.status != 0 || !errors.Is(got.err, io.EOF) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFaultShares(t *testing.T) {
	t.Parallel()
	s := truth.Script{Seed: 7, Spare: 3, TTFT: 200, TTFTSpread: 20, Faults: []truth.Fault{{Kind: truth.HTTP500, Share: 0.1}, {Kind: truth.Reset, Share: 0.01}}}
	want := map[truth.Kind]int{truth.HTTP500: 30, truth.Reset: 3}
	if diff := cmp.Diff(want, s.FaultCounts(303)); diff != "" {
		t.Error(diff)
	}
	for i := range int64(3) {
		if f := s.FaultAt(i); f.Kind != "" {
			t.Errorf("spared request %d has %q", i, f.Kind)
		}
	}
	twin, other := s, s
	other.Seed = 8
	same := 0
	for i := range int64(1000) {
		if s.FaultAt(i) != twin.FaultAt(i) || s.FirstAfter(i) != twin.FirstAfter(i) {
			t.Fatal("a script does not repeat itself")
		}
		if s.FaultAt(i).Kind != "" && s.FaultAt(i) == other.FaultAt(i) {
			same++
		}
	}
	if same > 60 {
		t.Errorf("%d faults of two seeds fall on the same requests", same)
	}
}

func TestSeedDecidesTheStream(t *testing.T) {
	t.Parallel()
	body := func(seed uint64) string {
		s := truth.Script{Seed: seed, Workers: 2}
		srv := start(t, s)
		req := strings.Replace(fmt.Sprintf(chat, 3), `"stream":true`, `"stream":true,"nvext":{"extra_fields":["worker_id"]}`, 1)
		got := post(t.Context(), client(t), srv.URL()+"/v1/chat/completions", req)
		if got.err != nil {
			t.Fatal(got.err)
		}
		// The wall clock is no part of the script.
		created := strconv.FormatInt(srv.Epoch().Unix(), 10)
		return strings.ReplaceAll(got.body, created, "0")
	}
	if a, b := body(1), body(1); a != b {
		t.Errorf("one seed, two streams:\n%s\n%s", a, b)
	}
	if body(1) == body(2) {
		t.Error("two seeds, one stream")
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	s := truth.Script{Seed: 3, Workers: 2}
	srv := start(t, s)
	c := client(t)
	req := strings.Replace(fmt.Sprintf(chat, 2), `"stream":true`, `"stream":true,"nvext":{"extra_fields":["worker_id"]}`, 1)
	for i := range int64(4) {
		got := post(t.Context(), c, srv.URL()+"/v1/chat/completions", req)
		id := s.WorkerAt(i)
		if id <= 1<<53 || uint64(float64(id)) == id {
			t.Errorf("%d fits in a float", id)
		}
		if want := fmt.Sprintf(`"worker_id":{"prefill_worker_id":%d,"decode_worker_id":%d}`, id, id); strings.Count(got.body, want) != 4 {
			t.Errorf("no %s in every event of\n%s", want, got.body)
		}
	}
	want := map[string]int{strconv.FormatUint(s.WorkerAt(0), 10): 2, strconv.FormatUint(s.WorkerAt(1), 10): 2}
	if diff := cmp.Diff(want, srv.Truth().Workers); diff != "" {
		t.Error(diff)
	}
	if got := post(t.Context(), c, srv.URL()+"/v1/chat/completions", fmt.Sprintf(chat, 2)); strings.Contains(got.body, "worker_id") {
		t.Errorf("named unasked: %s", got.body)
	}
}

// Shapes of streams that clients trip over.
func TestStreams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script truth.Script
		body   string
		path   string
		want   []string
		not    []string
		tokens int64
	}{
		"usage in every event": {
			script: truth.Script{Usage: truth.UsageEvery},
			want:   []string{`"completion_tokens":1}`, `"completion_tokens":4}`},
			not:    []string{`"usage":null`},
		},
		"no usage": {script: truth.Script{Usage: truth.UsageNone}, not: []string{`"usage":{`}},
		"cached and reasoning tokens": {
			script: truth.Script{CachedTokens: 3, ReasoningTokens: 2},
			want: []string{`"delta":{"reasoning_content":" w0001"}`, `"delta":{"content":" w0002"}`,
				`"prompt_tokens_details":{"cached_tokens":3}`, `"completion_tokens_details":{"reasoning_tokens":2}`},
		},
		"no cached tokens, told": {script: truth.Script{CachedTokens: -1}, want: []string{`"prompt_tokens_details":{"cached_tokens":0}`}},
		"several tokens an event": {
			script: truth.Script{TokensPerChunk: 3, ReasoningTokens: 1},
			want:   []string{`"reasoning_content":" w0000"`, `"content":" w0001 w0002 w0003"`},
		},
		"CRLF":        {script: truth.Script{CRLF: true}, want: []string{"}\r\n\r\ndata: [DONE]\r\n\r\n"}},
		"no [DONE]":   {script: truth.Script{NoDone: true}, not: []string{"[DONE]"}},
		"fragments":   {script: truth.Script{Fragment: 1}, want: []string{`" w0003"`, "[DONE]"}},
		"completions": {path: "/v1/completions", body: `{"model":"truth","prompt":"a b","stream":true,"max_tokens":4,"stream_options":{"include_usage":true}}`, want: []string{`"text":" w0003"`, `"object":"text_completion"`, `"prompt_tokens":4`}},
		"content parts": {
			body: `{"model":"truth","stream":true,"max_completion_tokens":4,"stream_options":{"include_usage":true},"messages":[{"content":[{"type":"text","text":"a b c"}]},{"content":"d"}]}`,
			want: []string{`"prompt_tokens":6`, `"finish_reason":"length"`},
		},
		"own length":     {script: truth.Script{Tokens: 2}, body: `{"model":"truth","stream":true,"min_tokens":4,"messages":[]}`, want: []string{`"finish_reason":"stop"`}, not: []string{`"usage":{`}},
		"not a stream":   {body: `{"model":"truth","max_tokens":4,"messages":[{"content":"a"}]}`, want: []string{`"content":" w0000 w0001 w0002 w0003"`, `"completion_tokens":4`, `"prompt_tokens":3`}},
		"headers first":  {script: truth.Script{HeadersFirst: true}, want: []string{"[DONE]"}},
		"Nagle is there": {script: truth.Script{Nagle: true}, want: []string{"[DONE]"}},
	}
	for name, tt := range tests {
		for driver, drive := range drivers {
			t.Run(name+"/"+driver, func(t *testing.T) {
				t.Parallel()
				url, ep := drive(t, tt.script)
				path, body := tt.path, tt.body
				if path == "" {
					path = "/v1/chat/completions"
				}
				if body == "" {
					body = fmt.Sprintf(chat, 4)
				}
				got := post(t.Context(), client(t), url+path, body)
				if got.err != nil || got.status != 200 {
					t.Fatalf("got %+v", got)
				}
				for _, want := range tt.want {
					if !strings.Contains(got.body, want) {
						t.Errorf("no %q in\n%s", want, got.body)
					}
				}
				for _, not := range tt.not {
					if strings.Contains(got.body, not) {
						t.Errorf("%q in\n%s", not, got.body)
					}
				}
				if n := ep.Truth().ServedTokens; n != 4 {
					t.Errorf("served %d tokens", n)
				}
			})
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ep := drive(t, truth.Script{APIKey: "secret", Refuse: []string{"min_tokens", "ignore_eos"}})
			c := client(t)
			do := func(method, path, key, body string) seen {
				req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if key != "" {
					req.Header.Set("Authorization", "Bearer "+key)
				}
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				return seen{res.StatusCode, string(b), err}
			}
			const path = "/v1/chat/completions"
			for _, tt := range []struct {
				method, path, key, body string
				status                  int
				want                    string
			}{
				{"GET", "/health", "", "", 200, "healthy"},
				{"GET", "/v1/models", "", "", 401, "API key"},
				{"GET", "/v1/models", "secret", "", 200, `"id":"truth"`},
				{"POST", path, "wrong", fmt.Sprintf(chat, 1), 401, "API key"},
				{"POST", path, "secret", fmt.Sprintf(chat, 1), 200, "[DONE]"},
				{"POST", path, "secret", `{"model":"truth","min_tokens":1,"ignore_eos":true}`, 400, "Unsupported parameter(s): ignore_eos, min_tokens"},
				{"POST", path, "secret", `{"model":"other"}`, 404, "Model not found"},
				{"POST", path, "secret", `{"model":"truth","max_tokens":0}`, 400, "max_tokens"},
				{"POST", path, "secret", `{`, 400, "JSON"},
				{"GET", path, "secret", "", 405, "POST"},
				{"GET", "/nowhere", "secret", "", 404, "Not Found"},
			} {
				got := do(tt.method, tt.path, tt.key, tt.body)
				if got.status != tt.status || !strings.Contains(got.body, tt.want) {
					t.Errorf("%s %s: got %+v, want %d %q", tt.method, tt.path, got, tt.status, tt.want)
				}
			}
			if got := ep.Truth(); got.Requests != 1 || got.Refused != 4 {
				t.Errorf("got %+v", got)
			}
			var over truth.Truth
			got := do("GET", "/truth?skip=0&asked=1&concurrency=1", "", "")
			if err := json.Unmarshal([]byte(got.body), &over); err != nil || over.Requests != 1 || over.Tokens != 1 {
				t.Errorf("%v: %+v", err, got)
			}
			if got := do("GET", "/truth?skip=x", "", ""); got.status != 400 {
				t.Errorf("got %+v", got)
			}
			if got := do("POST", "/truth/reset", "", ""); got.status != 200 || ep.Truth().Requests != 0 {
				t.Errorf("not reset: %+v", ep.Truth())
			}
		})
	}
}

// Several requests written at once are answered one after the other, and a
// head may come in pieces.
func TestPipelining(t *testing.T) {
	t.Parallel()
	srv := start(t, truth.Script{ITL: time.Millisecond})
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := fmt.Sprintf(chat, 3)
	req := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, part := range []string{req[:10], req[10:70], req[70:] + req + req} {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // so that the server most often reads it in as many pieces
	}
	r := bufio.NewReader(conn)
	for range 3 {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || !bytes.HasSuffix(b, []byte("data: [DONE]\n\n")) {
			t.Errorf("%v: %s", err, b)
		}
	}
	if got := srv.Truth(); got.Tokens != 9 {
		t.Errorf("got %+v", got)
	}
}

// A client that does not read makes the server queue, not fail or wait.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	srv := start(t, truth.Script{})
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const tokens = 50_000
	body := fmt.Sprintf(chat, tokens)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if runtime.GOOS == "linux" {
		eventually(t, "all tokens are written or queued", func() bool { return srv.Truth().Tokens == tokens })
		if got := srv.Truth(); got.Queued == 0 {
			t.Errorf("got %+v", got)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if n := bytes.Count(b, []byte(`"content":" w`)); err != nil || n != tokens {
		t.Errorf("%v: %d tokens", err, n)
	}
}

func TestServerLivesOnThisMachineOnly(t *testing.T) {
	t.Parallel()
	srv, err := truth.NewServer(truth.Script{})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:80", "nonsense"} {
		if err := srv.Start(t.Context(), addr); err == nil {
			t.Errorf("listens on %s", addr)
		}
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}

// Nothing of a server is left once it is closed, whichever way, even with
// streams in flight.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, byContext := range []bool{false, true} {
		srv, err := truth.NewServer(truth.Script{TTFT: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := srv.Start(ctx, "localhost:0"); err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{}
		failed := make(chan error)
		go func() {
			failed <- post(t.Context(), &http.Client{Transport: tr}, srv.URL()+"/v1/chat/completions", fmt.Sprintf(chat, 1)).err
		}()
		eventually(t, "the request has come", func() bool { return srv.Truth().Requests == 1 })
		if byContext {
			cancel()
		} else if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; err == nil {
			t.Error("the stream went on")
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		tr.CloseIdleConnections()
		if got := srv.Truth(); got.Outcomes[truth.Left] != 1 {
			t.Errorf("got %+v", got)
		}
	}
	eventually(t, "as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]truth.Script{
		"negative":      {Tokens: -1},
		"spread":        {TTFT: 1, TTFTSpread: 2},
		"unknown fault": {Faults: []truth.Fault{{Kind: "bad luck", Share: 0.1}}},
		"share":         {Faults: []truth.Fault{{Kind: truth.Reset, Share: 1.1}}},
		"sum of shares": {Faults: []truth.Fault{{Kind: truth.Reset, Share: 0.6}, {Kind: truth.Cut, Share: 0.6}}},
		"freeze":        {Freezes: []truth.Freeze{{Lasts: -1}}},
		"unknown usage": {Usage: 9},
	} {
		if err := s.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// virtual runs f against a script in virtual time.
func virtual(t *testing.T, s truth.Script, f func(t *testing.T, h *truth.Handler, c *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		h, err := truth.NewHandler(s)
		if err != nil {
			t.Fatal(err)
		}
		var network memnet.Net
		l := network.Listen("x:80")
		srv := &http.Server{Handler: h}
		go func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}()
		tr := &http.Transport{DialContext: network.Dial}
		f(t, h, &http.Client{Transport: tr})
		tr.CloseIdleConnections()
		srv.Close()
	})
}

// In virtual time the script's times come out to the nanosecond.
func TestExactTimes(t *testing.T) {
	t.Parallel()
	const tokens = 5
	s := truth.Script{Seed: 9, TTFT: 200 * time.Millisecond, TTFTSpread: 20 * time.Millisecond, ITL: 20 * time.Millisecond}
	virtual(t, s, func(t *testing.T, h *truth.Handler, c *http.Client) {
		for i := range int64(10) {
			began := time.Now()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/v1/chat/completions", strings.NewReader(fmt.Sprintf(chat, tokens)))
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(res.Body)
			for k := range tokens {
				line, err := r.ReadString('\n')
				if err != nil || !strings.Contains(line, `"content"`) {
					t.Fatalf("%v: %s", err, line)
				}
				if got, want := time.Since(began), s.FirstAfter(i)+time.Duration(k)*s.ITL; got != want {
					t.Errorf("request %d, token %d: after %v, want %v", i, k, got, want)
				}
				if _, err := r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		got := h.Truth()
		if got.Lateness.Max > 1 || got.ITL.P50 != float64(s.ITL) || got.ITL.P99 != float64(s.ITL) {
			t.Errorf("got %+v", got)
		}
		if got.TTFT.P50 < 180e6 || got.TTFT.P99 > 220e6 || got.TTFT.P50 == got.TTFT.P99 {
			t.Errorf("got %+v", got.TTFT)
		}
		if got.PeakInFlight != 1 || got.MeanInFlight != 1 {
			t.Errorf("in flight: peak %d, mean %v", got.PeakInFlight, got.MeanInFlight)
		}
	})
}

// A freeze puts off everything that was to come by as long as it lasts.
func TestFreeze(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	s := truth.Script{TTFT: 100 * ms, ITL: 10 * ms, Freezes: []truth.Freeze{{At: 115 * ms, Lasts: 2000 * ms}}}
	virtual(t, s, func(t *testing.T, h *truth.Handler, c *http.Client) {
		var wg sync.WaitGroup
		for _, at := range []time.Duration{0, 50 * ms, 200 * ms, 2115 * ms} {
			wg.Go(func() {
				time.Sleep(at)
				if got := post(t.Context(), c, "http://x/v1/chat/completions", fmt.Sprintf(chat, 4)); got.err != nil {
					t.Error(got.err)
				}
			})
		}
		wg.Wait()
		var got [][2]time.Duration
		for _, r := range h.Requests() {
			got = append(got, [2]time.Duration{r.First - r.Arrival, r.Last - r.First})
		}
		want := [][2]time.Duration{
			{100 * ms, 2030 * ms},        // two tokens before the freeze, two after
			{2100 * ms, 30 * ms},         // began before it
			{(1915 + 100) * ms, 30 * ms}, // began in it
			{100 * ms, 30 * ms},          // began as it ended
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got := h.Truth(); got.Lateness.Max > 1 {
			t.Errorf("late: %+v", got.Lateness)
		}
	})
}

// The raw server moves no byte in a freeze either: what it was to write comes
// after it, and what is sent meanwhile is read after it.
func TestServerFreezes(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	srv := start(t, truth.Script{ITL: 10 * ms, Freezes: []truth.Freeze{{Lasts: 50 * ms}, {At: 65 * ms, Lasts: 20 * ms}}})
	c := client(t)
	ask := func() {
		if got := post(t.Context(), c, srv.URL()+"/v1/chat/completions", fmt.Sprintf(chat, 5)); got.err != nil {
			t.Error(got.err)
		}
	}
	var first sync.WaitGroup
	first.Go(ask)
	eventually(t, "the request has come, and with it the freeze", func() bool { return srv.Truth().Requests == 1 })
	ask()
	first.Wait()
	r := srv.Requests()
	thawed := r[0].Arrival + 50*ms
	if r[0].First < thawed || r[0].Last < thawed+(40+20)*ms || r[1].Read < thawed {
		t.Errorf("not frozen until %v, or not again: %+v", thawed, r)
	}
}
