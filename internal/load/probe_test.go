package load_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

// asking is the spec of a probe: the model that the truth serves, and every
// optional field.
func asking() workload.Spec {
	return workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: 10, Fields: workload.AllFields(),
		InputTokens: workload.Length{Mean: 200}, OutputTokens: workload.Length{Mean: 64}}
}

func examine(t *testing.T, o load.TargetOptions, spec workload.Spec) (*load.Probe, *load.Target, error) {
	t.Helper()
	target, err := load.NewTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := load.Examine(t.Context(), target, spec, hang)
	return p, target, err
}

// Each field that a server refuses is found, named with the server's words, and
// left out; those that it takes stay.
func TestProbeFindsRefusedFields(t *testing.T) {
	drop := map[string]func(*workload.Fields){
		"nvext":          func(f *workload.Fields) { f.WorkerID = false },
		"ignore_eos":     func(f *workload.Fields) { f.IgnoreEOS = false },
		"min_tokens":     func(f *workload.Fields) { f.MinTokens = false },
		"stream_options": func(f *workload.Fields) { f.IncludeUsage = false },
		"temperature":    func(f *workload.Fields) { f.Temperature0 = false },
	}
	for _, refused := range [][]string{
		nil, {"nvext"}, {"ignore_eos"}, {"min_tokens"}, {"stream_options"}, {"temperature"},
		{"ignore_eos", "min_tokens"}, {"nvext", "stream_options"}, {"nvext", "ignore_eos", "min_tokens", "stream_options"},
	} {
		t.Run(strings.Join(refused, " "), func(t *testing.T) {
			var p *load.Probe
			s := truth.Script{Refuse: refused, Workers: 2}
			inVirtualTime(t, s, func(t *testing.T, _ *truth.Handler, target *load.Target) {
				var err error
				if p, err = load.Examine(t.Context(), target, asking(), hang); err != nil {
					t.Fatal(err)
				}
			})
			want := workload.AllFields()
			for _, name := range refused {
				drop[name](&want)
			}
			if diff := cmp.Diff(want, p.Fields); diff != "" {
				t.Error(diff)
			}
			var named []string
			for _, r := range p.Refused {
				named = append(named, r.Field)
				if !strings.Contains(r.Message, "Unsupported parameter(s): ") || !strings.Contains(r.Message, r.Field) {
					t.Errorf("%+v", r)
				}
			}
			slices.Sort(named)
			if !slices.Equal(named, slices.Sorted(slices.Values(refused))) {
				t.Errorf("named %v of %v", named, refused)
			}
			if p.Usage != want.IncludeUsage || p.Workers != want.WorkerID || p.Calibrated != want.IncludeUsage {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A server that refuses without a word about which is asked with one field less
// after the other, until it is content; what it does take is then asked again.
func TestProbeTriesWhenNothingIsNamed(t *testing.T) {
	f := newFront(t, plainHTTP, truth.Script{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "min_tokens") {
				http.Error(w, "bad request", http.StatusUnprocessableEntity)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			h.ServeHTTP(w, r)
		})
	})
	p, _, err := examine(t, load.TargetOptions{URL: f.URL}, asking())
	if err != nil {
		t.Fatal(err)
	}
	want := workload.AllFields()
	want.MinTokens = false
	if diff := cmp.Diff(want, p.Fields); diff != "" || len(p.Refused) != 1 {
		t.Errorf("%v\n%s", p.Refused, diff)
	}
}

// A count of the prompt that no tokenizer gives calibrates nothing: prompts would be made
// as long, or as short, as the server likes.
func TestProbeDoesNotBelieveEveryCountOfThePrompt(t *testing.T) {
	for name, count := range map[string]func(words int) int{
		"hardly any tokens a word": func(words int) int { return 10 + words/50 },
		"very many tokens a word":  func(words int) int { return 1000 * words },
		"fewer for more words":     func(words int) int { return 10_000 - words },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, plainHTTP, truth.Script{}, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}],"+
						"\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", count(bytes.Count(body, []byte(" "))))
				})
			})
			spec := asking()
			spec.InputTokens.Mean = 3000
			p, _, err := examine(t, load.TargetOptions{URL: f.URL}, spec)
			if err != nil || p.Calibrated || p.Calibration != (workload.Calibration{}) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// The probe learns how the server counts: here a word a token, and two for the
// template.
func TestProbeCalibratesOnTheServersCount(t *testing.T) {
	srv := serve(t, truth.Script{})
	for _, mean := range []int{20, 200, 3000} {
		spec := asking()
		spec.InputTokens.Mean = mean
		p, target, err := examine(t, load.TargetOptions{URL: srv.URL()}, spec)
		if err != nil {
			t.Fatal(err)
		}
		if p.Calibration != (workload.Calibration{Overhead: 2, PerWord: 1}) || !p.Calibrated || !p.Usage {
			t.Fatalf("%+v", p)
		}
		if p.Asked != p.Got || p.Asked == 0 {
			t.Errorf("asked for %d tokens, got %d", p.Asked, p.Got)
		}
		spec.Calibration, spec.Fields = p.Calibration, p.Fields
		work, err := workload.Synthetic(spec)
		if err != nil {
			t.Fatal(err)
		}
		res := mustRun(t, &load.Plan{Target: target, Work: work, Main: load.Schedule{Users: 2, Count: 10}, Timeout: time.Minute})
		for r := range res.Log.All() {
			if r.PromptTokens != int32(mean) || !r.OK() {
				t.Fatalf("asked for %d tokens in, the server counted %d (%v)", mean, r.PromptTokens, r.Class)
			}
		}
	}
}

// The algorithm shows in the wait for the first token behind the head, and in
// those between tokens, where they are short when acknowledged at once.
func TestNagleIsToldFromTwoAnswers(t *testing.T) {
	answer := func(first, gap time.Duration) load.Record {
		return load.Record{FirstByte: 1, FirstContent: 1 + int64(first), MaxGap: int64(gap), Chunks: 8,
			Flags: load.Reused}
	}
	alone, fresh := answer(ms, 0), answer(ms, ms)
	alone.Chunks, fresh.Flags = 1, 0
	for name, c := range map[string]struct {
		later, once load.Record
		want        load.Nagle
	}{
		"the first token waits":     {answer(40*ms, ms), answer(ms, ms), load.NagleOn},
		"a later token waits":       {answer(ms, 40*ms), answer(ms, ms), load.NagleOn},
		"no token waits":            {answer(ms, ms), answer(ms, ms), load.NagleOff},
		"just below the delay":      {answer(34*ms, 34*ms), answer(ms, ms), load.NagleOff},
		"both wait anyway":          {answer(120*ms, 60*ms), answer(120*ms, 60*ms), load.NagleUnknown},
		"the first waits anyway":    {answer(120*ms, ms), answer(120*ms, ms), load.NagleOff},
		"the gap shows it, alone":   {answer(120*ms, 40*ms), answer(120*ms, ms), load.NagleOn},
		"one token":                 {answer(ms, 0), alone, load.NagleUnknown},
		"a connection not yet used": {answer(40*ms, ms), fresh, load.NagleUnknown},
	} {
		if got := load.NagleBetween(&c.later, &c.once); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// One slow answer is a busy machine as well as Nagle's algorithm, so that a sign
// of it must come twice; and where it is off, reads need no acknowledgement.
func TestASignOfNagleMustComeTwice(t *testing.T) {
	for name, c := range map[string]struct {
		slow []int // the completions, from 1, with 40 ms between head and tokens
		want load.Nagle
	}{
		// Two calibrate; then one acknowledged late and one at once, at most twice.
		"never":      {nil, load.NagleOff},
		"once":       {[]int{3}, load.NagleOff},
		"twice":      {[]int{3, 5}, load.NagleOn},
		"every time": {[]int{1, 2, 3, 4, 5, 6}, load.NagleOff}, // between the tokens it would show
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, err := truth.NewHandler(truth.Script{})
				if err != nil {
					t.Fatal(err)
				}
				asked := 0
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						asked++
					}
					if slices.Contains(c.slow, asked) {
						body, _ := io.ReadAll(r.Body) // it cannot be read behind the head
						r.Body = io.NopCloser(bytes.NewReader(body))
						w.Header().Set("Content-Type", "text/event-stream")
						_ = http.NewResponseController(w).Flush()
						time.Sleep(40 * ms)
					}
					h.ServeHTTP(w, r)
				}), ErrorLog: log.New(io.Discard, "", 0)} // a second head is no news
				target := serveInBubble(t, srv, load.TargetOptions{URL: "http://truth.test"})
				p, err := load.Examine(t.Context(), target, asking(), hang)
				if err != nil {
					t.Fatal(err)
				}
				if p.Nagle != c.want || target.AcksAtOnce() != (c.want != load.NagleOff) {
					t.Errorf("%v, acknowledges at once: %v", p.Nagle, target.AcksAtOnce())
				}
			})
		})
	}
}

// What stands in the way of a probe is told in one failure, with the server's
// words and without waiting for anything.
func TestProbeTellsWhatIsWrong(t *testing.T) {
	page := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	tests := map[string]struct {
		script  truth.Script
		answer  http.HandlerFunc // instead of the script
		url     string
		model   string
		class   load.Class
		status  int
		message string
		models  []string
	}{
		"no API key":      {script: truth.Script{APIKey: "k"}, class: load.HTTPStatus, status: 401, message: "Incorrect API key provided"},
		"another model":   {model: "other", class: load.HTTPStatus, status: 404, message: "Model not found", models: []string{truth.DefaultModel}},
		"no model at all": {answer: page(404, "", ""), class: load.HTTPStatus, status: 404, message: "(empty body)"},
		"page of HTML":    {answer: page(200, "text/html", "<html>It works</html>"), class: load.BadStream, status: 200, message: "(a page of HTML)"},
		"HTML error":      {answer: page(502, "text/html", "<html>Bad gateway</html>"), class: load.HTTPStatus, status: 502, message: "HTTP 502: (a page of HTML)"},
		"empty body":      {answer: page(200, "text/event-stream", ""), class: load.NoTokens, status: 200, message: "without any content"},
		"one JSON":        {answer: page(200, "application/json", `{"choices":[]}`), class: load.BadStream, status: 200, message: `no event stream: {"choices":[]}`},
		"all fields bad":  {answer: page(400, "application/json", `{"message":"prompt too long"}`), class: load.HTTPStatus, status: 400, message: "prompt too long"},
		"its list wants a key": {answer: page(401, "application/json", `{"error":{"message":"no key was given","type":"auth"}}`), model: "-",
			class: load.HTTPStatus, status: 401, message: "asking the server for its models failed: HTTP 401: no key was given"},
		"its list fails":   {answer: page(500, "text/plain", "out of\nwords"), model: "-", class: load.HTTPStatus, status: 500, message: "HTTP 500: out of words"},
		"its list is none": {answer: page(200, "application/json", `{"models":[]}`), model: "-", class: load.BadStream, message: "not a list of models"},
		"a longer context": {answer: page(400, "application/json", `{"error":{"message":"This model's maximum context length is 9 tokens","code":400}}`), class: load.HTTPStatus, status: 400, message: "HTTP 400: This model's maximum context length is 9 tokens"},
		"refused":          {url: closed.URL, class: load.Connect, message: "connection refused"},
		"no such host":     {url: "http://nowhere.invalid", class: load.Connect, message: "nowhere.invalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := asking()
			if tt.model != "" {
				spec.Model = strings.TrimPrefix(tt.model, "-") // "-": none is named
			}
			var err error
			if tt.url != "" {
				_, _, err = examine(t, load.TargetOptions{URL: tt.url}, spec)
			} else {
				synctest.Test(t, func(t *testing.T) {
					begun := time.Now()
					_, err = load.Examine(t.Context(), answering(t, tt.script, tt.answer), spec, hang)
					if took := time.Since(begun); took != 0 {
						t.Errorf("took %v", took)
					}
				})
			}
			f, ok := errors.AsType[*load.Failure](err)
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if f.Class != tt.class || f.Status != tt.status || !strings.Contains(f.Message, tt.message) {
				t.Errorf("%v %d %q", f.Class, f.Status, f.Message)
			}
			if diff := cmp.Diff(tt.models, f.Models); tt.models != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answering is a target in a bubble that plays the script or, if not nil, has
// the answer given instead.
func answering(t *testing.T, s truth.Script, answer http.HandlerFunc) *load.Target {
	t.Helper()
	srv := &http.Server{Handler: answer}
	if answer == nil {
		h, err := truth.NewHandler(s)
		if err != nil {
			t.Fatal(err)
		}
		srv.Handler = h
	}
	return serveInBubble(t, srv, load.TargetOptions{URL: "http://truth.test"})
}

// Without a model's name the server's only one is taken.
func TestProbeTakesTheOnlyModel(t *testing.T) {
	inVirtualTime(t, truth.Script{Model: "the/one"}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		spec := asking()
		spec.Model = ""
		p, err := load.Examine(t.Context(), target, spec, hang)
		if err != nil || p.Model != "the/one" {
			t.Errorf("%+v %v", p, err)
		}
	})
}

// A workload that is replayed is sent as it is: nothing is fitted, and what is
// found out is told of it.
func TestKnockSendsTheWorkloadsOwn(t *testing.T) {
	const inputs = `{"data":[{"session_id":"a","payloads":[
		{"model":"truth","messages":[{"role":"user","content":"one two three"}],"stream":true,"max_tokens":5,"stream_options":{"include_usage":true}}]}]}`
	work, err := workload.ReadInputs(strings.NewReader(inputs), "inputs.json", workload.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	const first = 100 * ms
	s := truth.Script{HeadersFirst: true, TTFT: first}
	inVirtualTime(t, s, func(t *testing.T, h *truth.Handler, target *load.Target) {
		p, err := load.Knock(t.Context(), target, work, hang)
		if err != nil {
			t.Fatal(err)
		}
		if p.Asked != 5 || p.Got != 5 || !p.Usage || p.FirstAnswer != first || p.Requests != h.Truth().Requests {
			t.Errorf("%+v, the server saw %d", p, h.Truth().Requests)
		}
		for _, r := range h.Requests() {
			if r.Prompt != 5 || r.Asked != 5 {
				t.Errorf("the server was asked %+v", r)
			}
		}
		if _, err := load.Knock(t.Context(), target, worksOf(t, 32, 2), hang); err != nil {
			t.Error(err)
		}
	})
	inVirtualTime(t, truth.Script{Model: "other"}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		_, err := load.Knock(t.Context(), target, work, hang)
		f, ok := errors.AsType[*load.Failure](err)
		if !ok || f.Status != 404 || !slices.Equal(f.Models, []string{"other"}) {
			t.Errorf("%+v", err)
		}
	})
}

// A server that insists on HTTP/2 is found out, and spoken to in it.
func TestProbeFindsHTTP2(t *testing.T) {
	t.Run("TLS", func(t *testing.T) {
		f := newFront(t, tlsHTTP2, truth.Script{}, nil, func(s *httptest.Server) {
			s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if slices.Contains(hello.SupportedProtos, "h2") {
					return nil, nil
				}
				c := s.TLS.Clone()
				c.GetConfigForClient = nil
				c.NextProtos = []string{"none of yours"} // crypto/tls lets http/1.1 through where there is only h2
				return c, nil
			}}
		})
		checkHTTP2(t, f.options(tlsHTTP), f)
	})
	t.Run("plain, a frame", func(t *testing.T) {
		f := newFront(t, plainH2, truth.Script{}, nil)
		// As nghttp2 does: its settings at once, and a good-bye to whoever does not
		// begin as HTTP/2 does.
		url := rawServer(t, func(c net.Conn) {
			first := make([]byte, 24)
			if _, err := io.ReadFull(c, first); err != nil {
				return
			}
			if !strings.HasPrefix(string(first), "PRI * HTTP/2.0") {
				_, _ = c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"))
				return
			}
			there, err := net.Dial("tcp", f.Listener.Addr().String())
			if err != nil {
				return
			}
			defer there.Close()
			_, _ = there.Write(first)
			go func() { _, _ = io.Copy(there, c); there.Close() }()
			_, _ = io.Copy(c, there)
		})
		o := f.options(plainHTTP)
		o.URL = url
		checkHTTP2(t, o, f)
	})
}

func checkHTTP2(t *testing.T, o load.TargetOptions, f *front) {
	t.Helper()
	if o.HTTP2 {
		t.Fatal("it was told beforehand")
	}
	p, target, err := examine(t, o, asking())
	if err != nil {
		t.Fatal(err)
	}
	if p.Calibration != (workload.Calibration{Overhead: 2, PerWord: 1}) {
		t.Errorf("%+v", p)
	}
	seen, _ := f.asked()
	for _, r := range seen {
		if r.ProtoMajor != 2 {
			t.Errorf("%s %s", r.Proto, r.URL)
		}
	}
	res := mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 4}, 2))
	if got := countClasses(res.Log); got[load.OK] != 4 || res.Wire != "HTTP/2 by net/http" {
		t.Errorf("%s: %v", res.Wire, got)
	}
}

// A cold server is waited for, once: asked again, it would be slower yet.
func TestProbeWaitsForASlowFirstAnswer(t *testing.T) {
	inVirtualTime(t, truth.Script{TTFT: 10 * time.Minute}, func(t *testing.T, h *truth.Handler, target *load.Target) {
		begun := time.Now()
		p, err := load.Examine(t.Context(), target, asking(), 15*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if p.FirstAnswer != 10*time.Minute || p.Requests != h.Truth().Requests || h.Truth().PeakInFlight != 1 {
			t.Errorf("%+v, the server saw %d", p, h.Truth().Requests)
		}
		if got, want := time.Since(begun), time.Duration(p.Requests)*10*time.Minute; got != want {
			t.Errorf("%d requests in %v", p.Requests, got)
		}
	})
	inVirtualTime(t, truth.Script{TTFT: 10 * time.Minute}, func(t *testing.T, h *truth.Handler, target *load.Target) {
		begun := time.Now()
		_, err := load.Examine(t.Context(), target, asking(), time.Minute)
		f, ok := errors.AsType[*load.Failure](err)
		if !ok || f.Class != load.Timeout || time.Since(begun) != time.Minute {
			t.Errorf("%+v after %v", err, time.Since(begun))
		}
		synctest.Wait()
		if n := h.Truth().Requests; n != 1 {
			t.Errorf("the server was asked %d times", n)
		}
	})
}
