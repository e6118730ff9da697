package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/spec"
)

// watched is an aicr watch in this process.
type watched struct {
	stdout, stderr keptWriter
	signals        chan os.Signal
	code           chan int
}

func startWatch(t *testing.T, args ...string) *watched {
	t.Helper()
	w := &watched{signals: make(chan os.Signal, 1), code: make(chan int, 1)}
	go func() {
		w.code <- Run(context.WithoutCancel(t.Context()), Env{Args: append([]string{"watch"}, args...), Stdin: strings.NewReader(""), Stdout: &w.stdout, Stderr: &w.stderr,
			LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now, Signals: w.signals})
	}()
	return w
}

func (w *watched) samples(t *testing.T) []spec.Sample {
	t.Helper()
	return samplesIn(t, strings.NewReader(w.stdout.String()))
}

func samplesIn(t *testing.T, r interface{ Read([]byte) (int, error) }) []spec.Sample {
	t.Helper()
	var all []spec.Sample
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var s spec.Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if s.Source != "" && s.Name != "" { // not an event
			all = append(all, s)
		}
	}
	return all
}

// keepAsking sends requests until the test's end.
func keepAsking(t *testing.T, s *served, users int) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for ctx.Err() == nil {
				body := `{"model":"aicr-sim","messages":[{"role":"user","content":"how are you"}],"max_tokens":60}`
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					return
				}
				r.Header.Set("Content-Type", "application/json")
				if res, err := http.DefaultClient.Do(r); err == nil {
					_ = res.Body.Close()
				}
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
}

func (s *served) watchArgs() []string {
	args := []string{"--url", s.URL, "--gpu-metrics", s.GPUMetrics, "--node-metrics", s.NodeMetrics}
	for _, w := range s.Workers {
		args = append(args, "--worker-metrics", w.Metrics)
	}
	return args
}

// Everything that a served fleet tells is in the stream and in the record, by
// its kind and its name.
func TestWatchSeesAWholeFleet(t *testing.T) {
	s := simServe(t, "small", "--listen", "127.0.0.1:0")
	keepAsking(t, s, 8)
	dir := filepath.Join(t.TempDir(), "seen")
	w := startWatch(t, append(s.watchArgs(), "--interval", "0.25", "--duration", "4", "-o", "jsonl", "--record", dir)...)
	if code := <-w.code; code != 0 {
		t.Fatalf("exit code %d\n%s", code, &w.stderr)
	}
	streamed := w.samples(t)
	seen := map[string]int{}
	tokens := map[string][2]float64{}
	for _, x := range streamed {
		if x.Gap != "" {
			t.Logf("%s %s: %s", x.Source, x.Name, x.Gap) // a busy machine may be late
			continue
		}
		seen[x.Source+" "+x.Name]++
		if x.Took <= 0 || x.T <= 0 {
			t.Errorf("%+v has no time", x)
		}
		if x.Worker != nil && x.Worker.Generated != nil {
			first, ok := tokens[x.Name]
			if !ok {
				first[0] = *x.Worker.Generated
			}
			first[1] = *x.Worker.Generated
			tokens[x.Name] = first
		}
	}
	want := []string{"worker " + s.Workers[0].ID, "worker " + s.Workers[1].ID, "node node-0", "frontend " + strings.TrimPrefix(s.URL, "http://")}
	for _, name := range want {
		if seen[name] < 5 {
			t.Errorf("%d samples of %s in 4 s at 4 Hz; seen %v", seen[name], name, seen)
		}
	}
	for name, n := range tokens {
		if n[1] <= n[0] {
			t.Errorf("worker %s made no token: %v", name, n)
		}
	}
	f, err := os.Open(filepath.Join(dir, "series.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if kept := samplesIn(t, f); len(kept) != len(streamed) {
		t.Errorf("%d samples are recorded, %d were printed", len(kept), len(streamed))
	}
	var run spec.Run
	readJSON(t, filepath.Join(dir, "run.json"), &run)
	if run.Schema != spec.RunSchema || run.Start == "" || run.End == "" || run.Target.URL != s.URL || !strings.Contains(run.Command, "--worker-metrics="+s.Workers[1].Metrics) {
		t.Errorf("%+v", run)
	}
}

// What goes wrong is told in words, with the worker's name, and again when it is
// over; the summary at the end begins with it.
func TestWatchSaysWhatIsOff(t *testing.T) {
	s := simServe(t, "small", "--listen", "127.0.0.1:0")
	keepAsking(t, s, 16)
	dir := filepath.Join(t.TempDir(), "seen")
	w := startWatch(t, append(s.watchArgs(), "--record", dir)...)
	time.Sleep(4 * time.Second)
	if status, body := ask(t, "POST", s.Faults, s.FaultsToken, "[{kind: worker-wedge, workers: [1]}]"); status != 200 && status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	at := strings.TrimSuffix(strings.TrimPrefix(s.Workers[1].Metrics, "http://"), "/metrics")
	said := func() bool { return strings.Contains(w.stderr.String(), "worker/stall") }
	for deadline := time.Now().Add(30 * time.Second); !said() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	w.signals <- os.Interrupt
	if code := <-w.code; code != int(Interrupted) {
		t.Errorf("exit code %d", code)
	}
	if out := w.stdout.String(); !said() || !strings.HasPrefix(out, "OFF  ") || !strings.Contains(out, at) || !strings.Contains(out, "worker/stall") {
		t.Errorf("it was said:\n%s\nand printed:\n%s", &w.stderr, out)
	}
	events, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(events, []byte(`"kind":"symptom","source":`)) && !bytes.Contains(events, []byte(`"kind":"symptom"`)) || !bytes.Contains(events, []byte(s.Workers[1].ID)) {
		t.Errorf("events:\n%s", events)
	}
}

func TestWatchFollowsAListOfWorkers(t *testing.T) {
	s := simServe(t, "small", "--listen", "127.0.0.1:0")
	list := filepath.Join(t.TempDir(), "workers.txt")
	write := func(text string) {
		if err := os.WriteFile(list+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(list+".new", list); err != nil {
			t.Fatal(err)
		}
	}
	write("# none yet\n")
	w := startWatch(t, "--worker-metrics", list, "--interval", "0.2", "-o", "jsonl")
	await := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(w.stdout.String()+w.stderr.String(), what); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in\n%s\n%s", what, &w.stdout, &w.stderr)
			}
		}
	}
	write(s.Workers[0].Metrics + " name=left\n")
	await(`"name":"left"`)
	write("not a URL\n")
	await("left as they were")
	write(`[{"targets":["` + strings.TrimSuffix(strings.TrimPrefix(s.Workers[1].Metrics, "http://"), "/metrics") + `"],"labels":{"name":"right","pod":"p"}}]`)
	await(`"name":"right"`)
	await(`"pod":"p"`)
	w.signals <- os.Interrupt
	if code := <-w.code; code != int(Interrupted) {
		t.Errorf("exit code %d", code)
	}
}

func TestWatchOfNobodyIsNotMeasured(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	w := startWatch(t, "--worker-metrics", gone.URL, "--interval", "0.1", "--duration", "0.5")
	if code := <-w.code; code != int(Unmeasured) {
		t.Errorf("exit code %d, want 3", code)
	}
	if !strings.HasPrefix(w.stdout.String(), "NOT MEASURED") || !strings.Contains(w.stderr.String(), "connection refused") {
		t.Errorf("printed:\n%s\nsaid:\n%s", &w.stdout, &w.stderr)
	}
}

// An endpoint without a metrics page is no broken frontend.
func TestWatchLeavesOutAPageThatTheEndpointDoesNotHave(t *testing.T) {
	bare := httptest.NewServer(http.NotFoundHandler())
	defer bare.Close()
	w := startWatch(t, "--url", bare.URL+"/v1", "--node-metrics", "local", "--interval", "0.2", "--duration", "1", "-o", "jsonl")
	if code := <-w.code; code != 0 {
		t.Errorf("exit code %d\n%s", code, &w.stderr)
	}
	if !strings.Contains(w.stderr.String(), "has no frontend's metrics page of its own") || strings.Contains(w.stdout.String(), `"source":"frontend"`) {
		t.Errorf("said:\n%s\nprinted:\n%s", &w.stderr, &w.stdout)
	}
}

func TestWatchReadsALogFromAPipe(t *testing.T) {
	env := Env{Args: []string{"watch", "--log", "-", "--interval", "0.5", "-o", "jsonl"}, // it ends with its input
		Stdin: strings.NewReader("thread 'tokio-runtime-worker' panicked at src/x.rs:1:2\n" +
			"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 2 reqs, Waiting: 5 reqs, GPU KV cache usage: 64.0%, Prefix cache hit rate: 0.0%\n"),
		LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now}
	var out, said keptWriter
	env.Stdout, env.Stderr = &out, &said
	if code := Run(t.Context(), env); code != 0 {
		t.Errorf("exit code %d\n%s", code, &said)
	}
	for _, want := range []string{`"kind":"log"`, "panicked at", `"running":2,"waiting":5`, `"kv_usage":0.64`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}

func TestWatchRefusesAFolderThatIsThere(t *testing.T) {
	w := startWatch(t, "--node-metrics", "local", "--record", t.TempDir())
	if code := <-w.code; code != int(Misused) || !strings.Contains(w.stderr.String(), "is there already") {
		t.Errorf("exit code %d\n%s", code, &w.stderr)
	}
}
