package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aicr/internal/sim/truth"
	"aicr/internal/spec"
)

// vllm is a server as vLLM is one by itself: it names no worker in its answers, and its page
// tells when its process began and what each of its engines has made.
type vllm struct {
	truth  http.Handler
	began  int
	frozen bool // it takes requests, and answers none; its page answers as ever
	turn   atomic.Int64
	engine []struct{ running, tokens atomic.Int64 }
}

func newVLLM(t *testing.T, began, engines int) *vllm {
	t.Helper()
	h, err := truth.NewHandler(truth.Script{TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return &vllm{truth: h, began: began, engine: make([]struct{ running, tokens atomic.Int64 }, engines)}
}

func (v *vllm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		fmt.Fprintf(w, "process_start_time_seconds %d\n", v.began)
		for i := range v.engine {
			fmt.Fprintf(w, "vllm:num_requests_running{engine=\"%d\"} %d\nvllm:num_requests_waiting{engine=\"%[1]d\"} 0\n"+
				"vllm:generation_tokens_total{engine=\"%[1]d\"} %[3]d\n", i, v.engine[i].running.Load(), v.engine[i].tokens.Load())
		}
	case "/v1/chat/completions":
		e := &v.engine[int(v.turn.Add(1))%len(v.engine)]
		e.running.Add(1)
		defer e.running.Add(-1)
		if v.frozen {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		v.truth.ServeHTTP(countingWriter{w, &e.tokens}, r)
	default:
		v.truth.ServeHTTP(w, r)
	}
}

// countingWriter counts the tokens of a stream.
type countingWriter struct {
	http.ResponseWriter
	tokens *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	w.tokens.Add(int64(strings.Count(string(p), `"content":`)))
	return w.ResponseWriter.Write(p)
}

func (w countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// inTurn is a proxy that passes everything on to its servers in turn, the metrics page too.
func inTurn(all ...*vllm) http.Handler {
	var n, pages atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := &n
		if r.URL.Path == "/metrics" {
			turn = &pages
		}
		all[int(turn.Add(1))%len(all)].ServeHTTP(w, r)
	})
}

// A proxy's metrics page is that of another worker each time: it is no worker, whatever else
// is named, and a healthy fleet behind it is not called sick.
func TestAProxysPageIsNoWorker(t *testing.T) {
	const several, blind = "answers for several processes", "no source distinguishes the workers"
	for name, c := range map[string]struct {
		servers, engines int
		pages            bool // of each server are named
		flags            func(url string) []string
		verdict          spec.State
		workers          int // of the plan, as it was carried out
		reason, said     string
		integrity        string
	}{
		"pages named, a number":      {servers: 2, engines: 1, pages: true, flags: func(string) []string { return []string{"--workers", "2"} }, verdict: spec.Pass, workers: 2, integrity: "2 of 2 workers served"},
		"pages named":                {servers: 2, engines: 1, pages: true, verdict: spec.Pass, workers: 2, integrity: "2 of 2 workers served"},
		"a number":                   {servers: 2, engines: 1, flags: func(string) []string { return []string{"--workers", "2"} }, verdict: spec.Inconclusive, workers: 2, reason: blind, said: several},
		"nothing":                    {servers: 2, engines: 1, verdict: spec.Inconclusive, reason: "the number of workers is unknown", said: several},
		"the proxy's page is named":  {servers: 2, engines: 1, flags: func(url string) []string { return []string{"--worker-metrics", url, "--workers", "2"} }, verdict: spec.Inconclusive, workers: 2, reason: blind, said: several},
		"no proxy":                   {servers: 1, engines: 1, verdict: spec.Pass, workers: 1, said: "is a worker itself", integrity: "1 of 1 workers served"},
		"two engines":                {servers: 1, engines: 2, verdict: spec.Pass, workers: 2, said: "is a worker itself", integrity: "2 of 2 workers served"},
		"two engines, their page":    {servers: 1, engines: 2, pages: true, verdict: spec.Pass, workers: 2, integrity: "2 of 2 workers served"},
		"two engines, one is stated": {servers: 1, engines: 2, flags: func(string) []string { return []string{"--workers", "1"} }, verdict: spec.Inconclusive, workers: 1, reason: "there are 2 workers, more than the plan's 1", integrity: "2 workers served, more than the plan's 1"},
		"two engines each":           {servers: 2, engines: 2, pages: true, verdict: spec.Pass, workers: 4, integrity: "4 of 4 workers served"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				var servers []*vllm
				var flags []string
				for i := range c.servers {
					v := newVLLM(t, 1794843000+i, c.engines)
					servers = append(servers, v)
					if at := network.serve(t, v); c.pages {
						flags = append(flags, "--worker-metrics", at)
					}
				}
				url := network.serve(t, inTurn(servers...))
				if c.flags != nil {
					flags = append(flags, c.flags(url)...)
				}
				dir := filepath.Join(t.TempDir(), "run")
				run := startProgram(t, network, shortRun(url, dir, append(flags, "--recipe", floorRecipe(t))...)...)
				<-run.code
				var v spec.Verdict
				readJSON(t, filepath.Join(dir, verdictFile), &v)
				if v.Verdict != c.verdict || !strings.Contains(v.Reason, c.reason) || !strings.Contains(v.Ledgers[0].Reason, c.integrity) {
					t.Errorf("%s: %s; %s\n%s", v.Verdict, v.Reason, v.Ledgers[0].Reason, &run.stderr)
				}
				if !strings.Contains(run.stderr.String(), c.said) {
					t.Errorf("not said: %s\n%s", c.said, &run.stderr)
				}
				record, err := spec.ReadRun(os.DirFS(dir))
				if err != nil {
					t.Fatal(err)
				}
				if got := record.Plan.Point.Workers; got != c.workers {
					t.Errorf("a plan of %d workers, want %d", got, c.workers)
				}
			})
		})
	}
}

// An engine that was frozen before the run, and gets its first request, is the worker that is
// named, and not the endpoint.
func TestAFrozenEngineBehindAProxyIsNamed(t *testing.T) {
	for name, recipe := range map[string]string{"five minutes to answer": "", "eight seconds": "      verdict: {thresholds: {answerWithinS: 8}}\n"} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				well, frozen := newVLLM(t, 1794843000, 1), newVLLM(t, 1794843009, 1)
				frozen.frozen = true
				a, b := network.serve(t, well), network.serve(t, frozen)
				path := floorRecipe(t)
				text, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, append(text, recipe...), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(t.TempDir(), "run")
				run := startProgram(t, network, shortRun(network.serve(t, inTurn(well, frozen)), dir, "--recipe", path, "--profile", "quick", "--worker-metrics", a, "--worker-metrics", b)...)
				<-run.code
				var v spec.Verdict
				readJSON(t, filepath.Join(dir, verdictFile), &v)
				if want := strings.TrimPrefix(b, "http://"); v.Verdict != spec.Fail || !strings.HasPrefix(v.Reason, "worker "+want) || len(v.Findings) == 0 || !slices.Equal(v.Findings[0].Workers, []string{want}) {
					t.Errorf("%s: %s; want %s\n%s", v.Verdict, v.Reason, want, &run.stderr)
				}
			})
		})
	}
}

// A proxy's header that says where an answer is from attributes it to the worker whose page is
// there; where it does not say so of each answer, or of no page, nothing is attributed.
func TestAProxysHeaderNamesTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		header  string
		value   func(address string, n int) string
		pages   int
		verdict spec.State
		named   bool
	}{
		"nginx":                    {"X-Upstream-Addr", func(a string, _ int) string { return a }, 2, spec.Pass, true},
		"LiteLLM":                  {"x-litellm-model-api-base", func(a string, _ int) string { return "http://" + a + "/v1" }, 2, spec.Pass, true},
		"another network's names":  {"X-Upstream-Addr", func(a string, _ int) string { return "vllm-" + a }, 2, spec.Pass, false},
		"not of each answer":       {"X-Upstream-Addr", func(a string, n int) string { return strings.Repeat(a, n%5&1) }, 2, spec.Pass, false},
		"a page of one of them":    {"X-Upstream-Addr", func(a string, _ int) string { return a }, 1, spec.Inconclusive, false},
		"a header of another kind": {"X-Envoy-Upstream-Service-Time", func(a string, _ int) string { return a }, 2, spec.Pass, false},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				var servers []*vllm
				var at, flags []string
				for i := range 2 {
					servers = append(servers, newVLLM(t, 1794843000+i, 1))
					at = append(at, strings.TrimPrefix(network.serve(t, servers[i]), "http://"))
					if i < c.pages {
						flags = append(flags, "--worker-metrics", at[i])
					}
				}
				var n atomic.Int64
				url := network.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/metrics" {
						http.NotFound(w, r)
						return
					}
					turn := int(n.Add(1))
					w.Header().Set(c.header, c.value(at[turn%2], turn))
					servers[turn%2].ServeHTTP(w, r)
				}))
				dir := filepath.Join(t.TempDir(), "run")
				run := startProgram(t, network, shortRun(url, dir, append(flags, "--workers", "2", "--recipe", floorRecipe(t))...)...)
				<-run.code
				var v spec.Verdict
				readJSON(t, filepath.Join(dir, verdictFile), &v)
				if v.Verdict != c.verdict {
					t.Errorf("%s: %s; %s\n%s", v.Verdict, v.Reason, v.Ledgers[0].Reason, &run.stderr)
				}
				record, err := spec.ReadRun(os.DirFS(dir))
				if err != nil {
					t.Fatal(err)
				}
				e, err := record.Episode(1)
				if err != nil {
					t.Fatal(err)
				}
				by := map[string]int{}
				for i := range e.Requests {
					by[e.Requests[i].Worker]++
				}
				if want := len(e.Requests) / 2; c.named && (by[at[0]] < want-4 || by[at[1]] < want-4) || !c.named && by[""] != len(e.Requests) {
					t.Errorf("attributed: %v", by)
				}
			})
		})
	}
}

// Nor is it one in a watch, or one that restarts all the time.
func TestAProxysPageIsNotWatchedAsAWorker(t *testing.T) {
	for name, c := range map[string]struct {
		args    func(proxy, a, b string) []string
		code    int
		workers int
		said    string
	}{
		"beside the workers' pages": {func(proxy, a, b string) []string {
			return []string{"--url", proxy, "--worker-metrics", a, "--worker-metrics", b}
		}, 0, 2, "answers for several processes"},
		"named as one": {func(proxy, a, _ string) []string { return []string{"--worker-metrics", proxy, "--worker-metrics", a} }, 0, 1, "name each worker's own page"},
		"alone":        {func(proxy, _, _ string) []string { return []string{"--url", proxy} }, int(Misused), 0, "answers for several processes"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				one, other := newVLLM(t, 1794843000, 1), newVLLM(t, 1794843009, 1)
				one.engine[0].tokens.Store(5000)
				proxy := network.serve(t, inTurn(one, other))
				code, out, said := watchOnce(t, network, "", append(c.args(proxy, network.serve(t, one), network.serve(t, other)), "--duration", "6")...)
				if code != c.code || strings.Contains(out+said, "anew") || !strings.Contains(out+said, c.said) {
					t.Errorf("exit code %d; said:\n%s\nprinted:\n%s", code, said, out)
				}
				if c.workers > 0 && !strings.Contains(said+out, fmt.Sprintf("%d worker", c.workers)) {
					t.Errorf("not %d workers; said:\n%s\nprinted:\n%s", c.workers, said, out)
				}
			})
		})
	}
}
