package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

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
				res, err := s.client.Do(r)
				if err != nil {
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
}

func (s *served) watchArgs() []string {
	args := []string{"watch", "--url", s.URL, "--gpu-metrics", s.GPUMetrics, "--node-metrics", s.NodeMetrics}
	for _, w := range s.Workers {
		args = append(args, "--worker-metrics", w.Metrics)
	}
	return args
}

// Everything that a served fleet tells is in the stream and in the record, by
// its kind and its name.
func TestWatchSeesAWholeFleet(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := filepath.Join(t.TempDir(), "seen")
		s := simServe(t, network, "small", "--listen", "127.0.0.1:0")
		keepAsking(t, s, 8)
		w := startProgram(t, network, append(s.watchArgs(), "--interval", "0.25", "--duration", "4", "-o", "jsonl",
			"--record", dir)...)
		if code := <-w.code; code != 0 {
			t.Fatalf("exit code %d\n%s", code, &w.stderr)
		}
		streamed := samplesIn(t, strings.NewReader(w.stdout.String()))
		seen := map[string]int{}
		tokens := map[string][2]float64{}
		for _, x := range streamed {
			if x.Gap != "" {
				t.Errorf("%s %s: %s", x.Source, x.Name, x.Gap)
			}
			seen[x.Source+" "+x.Name]++
			if x.T <= 0 {
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
		want := []string{"worker " + s.Workers[0].ID, "worker " + s.Workers[1].ID, "node node-0",
			"frontend " + strings.TrimPrefix(s.URL, "http://")}
		for _, name := range want {
			if seen[name] < 15 || seen[name] > 17 {
				t.Errorf("%d samples of %s in 4 s at 4 Hz; seen %v", seen[name], name, seen)
			}
		}
		for name, n := range tokens {
			if n[1] <= n[0] {
				t.Errorf("worker %s made no token: %v", name, n)
			}
		}
		if kept := samplesIn(t, bytes.NewReader(readFile(t, dir, "series.jsonl"))); len(kept) != len(streamed) {
			t.Errorf("%d samples are recorded, %d were printed", len(kept), len(streamed))
		}
		var run spec.Run
		readJSON(t, filepath.Join(dir, "run.json"), &run)
		if run.Schema != spec.RunSchema || run.Start == "" || run.End == "" || run.Target.URL != s.URL ||
			!strings.Contains(run.Command, "--worker-metrics="+s.Workers[1].Metrics) {
			t.Errorf("%+v", run)
		}
	})
}

// What goes wrong is told in words, with the worker's name, and again when it is
// over; the summary at the end begins with it.
func TestWatchSaysWhatIsOff(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := filepath.Join(t.TempDir(), "seen")
		s := simServe(t, network, "small", "--listen", "127.0.0.1:0")
		keepAsking(t, s, 16)
		w := startProgram(t, network, append(s.watchArgs(), "--record", dir)...)
		time.Sleep(4 * time.Second)
		wedge := "[{kind: worker-wedge, workers: [1]}]"
		if status, body := s.ask(t, "POST", s.Faults, s.FaultsToken, wedge); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		said := func() bool { return strings.Contains(w.stderr.String(), "worker/stall") }
		begun := time.Now()
		until(t, "word of the stall", said)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it was said after %s", took)
		}
		w.signals <- os.Interrupt
		if code := <-w.code; code != int(Interrupted) {
			t.Errorf("exit code %d", code)
		}
		at := strings.TrimSuffix(strings.TrimPrefix(s.Workers[1].Metrics, "http://"), "/metrics")
		if out := w.stdout.String(); !strings.HasPrefix(out, "OFF  ") || !strings.Contains(out, at) ||
			!strings.Contains(out, "worker/stall") {
			t.Errorf("it was said:\n%s\nand printed:\n%s", &w.stderr, out)
		}
		events := readFile(t, dir, "events.jsonl")
		if !bytes.Contains(events, []byte(`"kind":"symptom"`)) || !bytes.Contains(events, []byte(s.Workers[1].ID)) {
			t.Errorf("events:\n%s", events)
		}
	})
}

func TestWatchFollowsAListOfWorkers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		list := filepath.Join(t.TempDir(), "workers.txt")
		s := simServe(t, network, "small", "--listen", "127.0.0.1:0")
		write := func(text string) {
			if err := os.WriteFile(list+".new", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(list+".new", list); err != nil {
				t.Fatal(err)
			}
		}
		write("# none yet\n")
		w := startProgram(t, network, "watch", "--worker-metrics", list, "--interval", "0.2", "-o", "jsonl")
		await := func(what string) {
			t.Helper()
			time.Sleep(time.Second)
			if !strings.Contains(w.stdout.String()+w.stderr.String(), what) {
				t.Errorf("no %q in\n%s\n%s", what, &w.stdout, &w.stderr)
			}
		}
		time.Sleep(time.Second)
		write(s.Workers[0].Metrics + " name=left\n")
		await(`"name":"left"`)
		write("not a URL\n")
		await("left as they were")
		right := strings.TrimSuffix(strings.TrimPrefix(s.Workers[1].Metrics, "http://"), "/metrics")
		write(`[{"targets":["` + right + `"],"labels":{"name":"right","pod":"p"}}]`)
		await(`"name":"right"`)
		await(`"pod":"p"`)
		w.signals <- os.Interrupt
		if code := <-w.code; code != int(Interrupted) {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestWatchOfNobodyIsNotMeasured(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		w := startProgram(t, network, "watch", "--worker-metrics", "http://127.0.0.1:1", "--interval", "0.1",
			"--duration", "0.5")
		if code := <-w.code; code != int(Unmeasured) {
			t.Errorf("exit code %d, want 3", code)
		}
		if !strings.HasPrefix(w.stdout.String(), "NOT MEASURED") ||
			!strings.Contains(w.stderr.String(), "connection refused") {
			t.Errorf("printed:\n%s\nsaid:\n%s", &w.stdout, &w.stderr)
		}
	})
}

// An endpoint without a metrics page is no broken frontend.
func TestWatchLeavesOutAPageThatTheEndpointDoesNotHave(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		bare := network.serve(t, http.NotFoundHandler())
		w := startProgram(t, network, "watch", "--url", bare+"/v1", "--node-metrics", "local", "--interval", "0.2",
			"--duration", "1", "-o", "jsonl")
		if code := <-w.code; code != 0 {
			t.Errorf("exit code %d\n%s", code, &w.stderr)
		}
		if !strings.Contains(w.stderr.String(), "has no metrics page of its own") ||
			strings.Contains(w.stdout.String(), `"source":"frontend"`) {
			t.Errorf("said:\n%s\nprinted:\n%s", &w.stderr, &w.stdout)
		}
	})
}

func TestWatchReadsALogFromAPipe(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		log := "thread 'tokio-runtime-worker' panicked at src/x.rs:1:2\n" +
			"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
			"Running: 2 reqs, Waiting: 5 reqs, GPU KV cache usage: 64.0%, Prefix cache hit rate: 0.0%\n"
		code, out, said := watchOnce(t, network, log, "--log", "-", "-o", "jsonl") // it ends with its input
		if code != 0 {
			t.Errorf("exit code %d\n%s", code, said)
		}
		for _, want := range []string{`"kind":"log"`, "panicked at", `"running":2,"waiting":5`, `"kv_usage":0.64`} {
			if !strings.Contains(out, want) {
				t.Errorf("no %s in\n%s", want, out)
			}
		}
	})
}

// The log of a worker whose page is watched is no second worker, which would be held against
// the first and be added to it.
func TestALogBesideItsWorkersPageIsNoWorker(t *testing.T) {
	const page, other = "http://127.0.0.1:40001", "http://127.0.0.1:40002" // the first that the network gives
	for name, c := range map[string]struct {
		args    []string
		workers []string
	}{
		"no page":                     {[]string{"--log", "-"}, []string{"standard input"}},
		"no page, a name":             {[]string{"--log", "- name=left"}, []string{"left"}},
		"its page":                    {[]string{"--log", "-", "--worker-metrics", page}, []string{"127.0.0.1:40001"}},
		"the endpoint's page":         {[]string{"--log", "-", "--url", page}, []string{"127.0.0.1:40001"}},
		"several pages":               {[]string{"--log", "-", "--worker-metrics", page, "--worker-metrics", other}, []string{"127.0.0.1:40001", "127.0.0.1:40002"}},
		"the name of a page":          {[]string{"--log", "- name=127.0.0.1:40001", "--worker-metrics", page}, []string{"127.0.0.1:40001"}},
		"a name that no page goes by": {[]string{"--log", "- name=left", "--worker-metrics", page}, []string{"127.0.0.1:40001", "left"}},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				if metricsPage(t, network, 200, idleWorker) != page || metricsPage(t, network, 200, idleWorker) != other {
					t.Fatal("the pages are served elsewhere")
				}
				log := "EngineDeadError\nEngine 000: Avg generation throughput: 9.0 tokens/s, Running: 2 reqs, Waiting: 5 reqs\n"
				code, out, said := watchOnce(t, network, log, append(c.args, "-o", "jsonl", "--duration", "2")...)
				workers := map[string]bool{}
				for _, s := range samplesIn(t, strings.NewReader(out)) {
					workers[s.Name] = true
				}
				if got := slices.Sorted(maps.Keys(workers)); code != 0 || !slices.Equal(got, c.workers) || !strings.Contains(out, "engine-dead") {
					t.Errorf("exit code %d, workers %v, want %v; said:\n%s\nprinted:\n%s", code, got, c.workers, said, out)
				}
			})
		})
	}
}

func TestWatchRefusesAFolderThatIsThere(t *testing.T) {
	w := startProgram(t, Network{}, "watch", "--node-metrics", "local", "--record", t.TempDir())
	if code := <-w.code; code != int(Misused) || !strings.Contains(w.stderr.String(), "is there already") {
		t.Errorf("exit code %d\n%s", code, &w.stderr)
	}
}

// watchOnce runs aicr watch to its end.
func watchOnce(t *testing.T, network Network, stdin string, args ...string) (code int, out, said string) {
	t.Helper()
	env := testEnv(nil, append([]string{"watch", "--interval", "0.2"}, args...)...)
	var stdout, stderr keptWriter
	env.Stdin, env.Stdout, env.Stderr, env.Network = strings.NewReader(stdin), &stdout, &stderr, network
	code = Run(t.Context(), env)
	return code, stdout.String(), stderr.String()
}

// pageTakes is how long a page takes to answer.
const pageTakes = 10 * time.Millisecond

// metricsPage serves one page, and gives the URL of its server.
func metricsPage(t *testing.T, network Network, status int, text string) string {
	t.Helper()
	return network.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/metrics") {
			http.NotFound(w, r)
			return
		}
		time.Sleep(pageTakes)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
}

const idleWorker = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total 5\n"

func TestTheFirstWordOfAnObservation(t *testing.T) {
	const fine, gone = "http://127.0.0.1:40001", "http://127.0.0.1:40002" // the first that the network gives
	for _, tc := range []struct {
		rule, stdin string
		args        []string
		code        int
		first       string
		also        string
	}{
		{"all answer, nothing is off", "", []string{"--worker-metrics", fine, "--interval", "1", "--duration", "3.5"}, 0, "QUIET  nothing was off", ""},
		{"one never tells", "", []string{"--worker-metrics", fine, "--worker-metrics", gone, "--interval", "1", "--duration", "3.5"}, 0, "UNKNOWN  nothing was seen off", "status 500"},
		{"nobody tells", "", []string{"--worker-metrics", gone, "--duration", "1"}, 3, "NOT MEASURED", ""},
		{"a log panics", "thread 'tokio' panicked at src/lib.rs:1:1\n", []string{"--log", "-"}, 0, "OFF  1 thing off", "panicked at src/lib.rs"},
		{"a log is only starting", "bucket missing for query=x\n", []string{"--log", "-"}, 0, "NOTE  nothing was off", "bucket missing"},
		{"a log says nothing", "hello\n", []string{"--log", "-"}, 0, "QUIET  nothing was off", ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				if metricsPage(t, network, 200, idleWorker) != fine || metricsPage(t, network, 500, "") != gone {
					t.Fatal("the pages are served elsewhere")
				}
				code, out, said := watchOnce(t, network, tc.stdin, tc.args...)
				if code != tc.code || !strings.HasPrefix(out, tc.first) || !strings.Contains(out, tc.also) {
					t.Errorf("exit code %d, want %d; printed:\n%s\nsaid:\n%s", code, tc.code, out, said)
				}
			})
		})
	}
}

func TestAnEndpointThatIsAWorkerIsWatchedAsOne(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		code, out, said := watchOnce(t, network, "", "--url", metricsPage(t, network, 200, idleWorker)+"/behind/v1/",
			"--duration", "1", "-o", "jsonl")
		if code != 0 || !strings.Contains(said, "is a worker itself") || !strings.Contains(out, `"source":"worker"`) {
			t.Errorf("exit code %d; said:\n%s\nprinted:\n%s", code, said, out)
		}
		dir := filepath.Join(t.TempDir(), "seen")
		code, _, said = watchOnce(t, network, "", "--url", metricsPage(t, network, 404, ""), "--duration", "1",
			"--record", dir)
		if code != int(Misused) || !strings.Contains(said, "there is nothing to watch") {
			t.Errorf("exit code %d; said:\n%s", code, said)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("a folder was made for nothing")
		}
	})
}

func TestAPageIsNamedByHostAndPort(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		page := strings.TrimPrefix(metricsPage(t, network, 200, idleWorker), "http://")
		code, out, said := watchOnce(t, network, "", "--worker-metrics", page, "--duration", "1", "-o", "jsonl")
		if code != 0 || !strings.Contains(out, `"running":0`) {
			t.Errorf("exit code %d; said:\n%s\nprinted:\n%s", code, said, out)
		}
		for _, x := range samplesIn(t, strings.NewReader(out)) {
			if x.Took != int64(pageTakes) {
				t.Errorf("%+v took another time than %s", x, pageTakes)
			}
		}
	})
}

// A reader who stops reading stops neither the record nor the end.
func TestNobodyReadsTheStream(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := filepath.Join(t.TempDir(), "seen")
		page := metricsPage(t, network, 200, idleWorker)
		blocked, release := io.Pipe()
		defer blocked.Close()
		env := testEnv(nil, "watch", "--worker-metrics", page, "--interval", "0.1", "-o", "jsonl", "--record", dir)
		stderr, signals, code := &keptWriter{}, make(chan os.Signal, 1), make(chan int, 1)
		env.Stdout, env.Stderr, env.Signals, env.Network = release, stderr, signals, network
		go func() { code <- Run(t.Context(), env) }()
		time.Sleep(2 * time.Second)
		if n := bytes.Count(readFile(t, dir, "series.jsonl"), []byte("\n")); n < 18 {
			t.Errorf("%d samples are recorded in 2 s at 10 Hz\n%s", n, stderr)
		}
		signals <- os.Interrupt
		if got := <-code; got != int(Interrupted) {
			t.Errorf("exit code %d", got)
		}
		var run spec.Run
		readJSON(t, filepath.Join(dir, "run.json"), &run)
		if run.End == "" || !strings.Contains(stderr.String(), "lost") {
			t.Errorf("%+v\n%s", run, stderr)
		}
	})
}

// What is written before and after a log is rotated is read, from both files.
func TestALogIsFollowedThroughItsRotation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, _ Network) { followsRotation(t) })
}

func followsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	old, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := old.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := openTail(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer r.Close()
		for all := bufio.NewScanner(r); all.Scan(); {
			lines <- all.Text()
		}
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Errorf("read %q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing was read, want %q", want)
		}
	}
	write := func(f *os.File, text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(old, "one\n")
	expect("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	write(old, "two\n")
	write(fresh, "three\n")
	expect("two")
	expect("three")
	if err := fresh.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * tailEvery)
	write(fresh, "four\n")
	expect("four")
}

// A fleet is quiet when it was looked at. Nothing that was read is no quiet, whatever the
// reason is.
func TestNothingReadIsNotQuiet(t *testing.T) {
	const fine = "http://127.0.0.1:40001"
	list := filepath.Join(t.TempDir(), "none.txt")
	silent := filepath.Join(t.TempDir(), "silent.log")
	for path, text := range map[string]string{list: "# none yet\n", silent: "said before\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	huge := "vllm:num_requests_running 1.7e308\nvllm:num_requests_running{a=\"b\"} 1.7e308\nvllm:generation_tokens_total{a=\"b\"} NaN\n"
	for _, tc := range []struct {
		rule, page, stdin string
		args              []string
		code              int
		first, also       string
	}{
		{"there was no time", idleWorker, "", []string{"--worker-metrics", fine, "--interval", "10", "--duration", "0.1"}, 3, "NOT MEASURED  nothing was read", "worker 127.0.0.1:40001: the watch ended before it was asked"},
		{"a list of nothing", "", "", []string{"--worker-metrics", list, "--duration", "2"}, 3, "NOT MEASURED  nothing was read", "the files of pages list none"},
		{"an empty log", "", "", []string{"--log", "-"}, 3, "NOT MEASURED  nothing was read", "log standard input: nothing was written to it"},
		{"a log that says nothing more", "", "", []string{"--log", silent, "--duration", "2"}, 3, "NOT MEASURED  nothing was read", "silent.log: nothing was"},
		{"values that are none", huge, "", []string{"--worker-metrics", fine, "--duration", "2"}, 3, "NOT MEASURED  nothing was read", "no value of it could be used"},
		{"a page and a log that says nothing", idleWorker, "", []string{"--worker-metrics", fine, "--log", silent, "--duration", "3"}, 0, "UNKNOWN  nothing was seen off", "silent.log: nothing was"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				if metricsPage(t, network, 200, tc.page) != fine {
					t.Fatal("the page is served elsewhere")
				}
				code, out, said := watchOnce(t, network, tc.stdin, tc.args...)
				if code != tc.code || !strings.HasPrefix(out, tc.first) || !strings.Contains(strings.Join(strings.Fields(out), " "), tc.also) {
					t.Errorf("exit code %d, want %d; printed:\n%s\nsaid:\n%s", code, tc.code, out, said)
				}
				if tc.code != 0 && !strings.Contains(said, "nothing was read: ") {
					t.Errorf("said:\n%s", said)
				}
			})
		})
	}
}

// A page at the end of what a number can be ends neither the watch nor its record.
func TestNoPageMakesTheWatchPanic(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := filepath.Join(t.TempDir(), "seen")
		page := idleWorker + "vllm:time_to_first_token_seconds_count 1.7e308\nvllm:num_requests_waiting{a=\"b\"} 1.7e308\nvllm:num_requests_waiting{a=\"c\"} 1.7e308\n" +
			"vllm:prompt_tokens_total 1.7e308\nvllm:prompt_tokens_total{a=\"c\"} 1.7e308\nvllm:inter_token_latency_seconds_count 1.7e308\n"
		page = strings.Replace(page, "vllm:generation_tokens_total 5\n", "", 1)
		code, out, said := watchOnce(t, network, "", "--worker-metrics", metricsPage(t, network, 200, page), "--duration", "3", "-o", "jsonl", "--record", dir)
		if code != 0 || len(samplesIn(t, strings.NewReader(out))) < 10 || strings.Contains(said, "disk") {
			t.Errorf("exit code %d\n%s\n%s", code, out, said)
		}
	})
}

// What cannot be written as JSON is named, and the disk is not blamed for it.
func TestAValueThatIsNoneIsNamed(t *testing.T) {
	sample := spec.Sample{Source: spec.SourceWorker, Name: "3", Worker: &spec.WorkerSample{Generated: new(math.Inf(1))}}
	_, err := jsonLine(sample)
	if err == nil || err.Error() != "worker.generated_tokens is +Inf, which cannot be written as JSON" {
		t.Errorf("%v", err)
	}
	err = writeLines(io.Discard, []spec.Sample{{}, sample})
	if err == nil || err.Error() != "line 2: worker.generated_tokens is +Inf, which cannot be written as JSON" {
		t.Errorf("%v", err)
	}
	_, err = indentedJSON(map[string]any{"figures": []spec.Figure{{Value: new(math.NaN())}}})
	if err == nil || !strings.HasPrefix(err.Error(), "figures[0].value is NaN") {
		t.Errorf("%v", err)
	}
	if problem := unwritten(err); strings.Contains(fmt.Sprint(problems(problem, Unmeasured, "")[0].Hint), "space") {
		t.Errorf("the hint is %q", problems(problem, Unmeasured, "")[0].Hint)
	}
}

// What was not measured is said once for all that say it, and of whom where not all do.
func TestWhatAWatchDidNotMeasureSaysOfWhom(t *testing.T) {
	values := map[string]judge.Bounds{"running": {N: 1}}
	row := func(name string, why map[string]string) *judge.TallyRow {
		return &judge.TallyRow{Source: spec.SourceWorker, Name: name, Samples: 1, Values: values, NotMeasured: why}
	}
	const absent = "not on the page"
	var b bytes.Buffer
	writeUnmeasured(&b, []*judge.TallyRow{
		row("w:1", map[string]string{"ended": absent, "failed": absent, "kv_usage": "of no engine"}),
		row("w:2", map[string]string{"ended": absent, "failed": absent, "preemptions": absent}),
	}, spec.SourceWorker)
	const want = `    not measured: ended, failed (not on the page)
    not measured: kv_usage of w:1 (of no engine)
    not measured: preemptions of w:2 (not on the page)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
