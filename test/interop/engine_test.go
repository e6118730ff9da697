//go:build linux

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// engine is a real inference server without Dynamo before it. Which one the tests of
// engines meet is what INTEROP_ENGINE says.
type engine struct {
	name string
	// once says that it takes so long to start that its tests share one fleet.
	once bool
	argv func(s *stack, port int) []string
	env  []string
	// computes is in the name of the process that runs the model, where the server is more
	// than one; empty is the whole server.
	computes string
	// generated is the name of its counter of tokens.
	generated string
	// keeps says that it keeps connections open after an answer, as a proxy that keeps them
	// open too depends on.
	keeps bool
}

const (
	engineSlots = 8  // requests that an engine runs at once
	engineStep  = 20 // ms of device time for each step of the model
)

var engines = map[string]engine{
	"llamacpp": {
		name: "llama.cpp",
		argv: func(s *stack, port int) []string {
			return []string{python(), "llamacpp.py", filepath.Join(s.model, "tiny.gguf"), strconv.Itoa(port),
				strconv.Itoa(engineSlots), strconv.Itoa(engineStep)}
		},
		generated: "llamacpp:tokens_predicted_total",
	},
	"vllm": {
		name: "vLLM", once: true,
		argv: func(s *stack, port int) []string {
			return []string{filepath.Join(venv, "bin", "vllm"), "serve", s.model, "--served-model-name", modelName,
				"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--max-model-len", strconv.Itoa(tinyContext),
				"--max-num-seqs", strconv.Itoa(engineSlots), "--enforce-eager",
				"--dtype", "float32"} // bfloat16 needs instructions that some virtual machines only announce
		},
		env: []string{
			"VLLM_TARGET_DEVICE=cpu", "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
			"CUDA_VISIBLE_DEVICES=", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1",
			"PYTHONPATH=" + filepath.Join("vllm", "site"), "PYTHONDONTWRITEBYTECODE=1", "DEVICE_MS=" + strconv.Itoa(engineStep),
		},
		computes:  "EngineCore",
		keeps:     true,
		generated: "vllm:generation_tokens_total",
	},
}

// underTest is the engine that this installation has.
func underTest(t *testing.T) engine {
	t.Helper()
	name := os.Getenv("INTEROP_ENGINE")
	e, ok := engines[name]
	if !ok {
		t.Fatalf("INTEROP_ENGINE is %q, want llamacpp or vllm", name)
	}
	return e
}

// starts is how long an engine may take to load its model on a machine that others use.
const starts = 10 * time.Minute

// bringUpEngines starts n engines, each with a page of its own, and waits until each has
// served a request. Without a proxy the stack's URL is that of the first.
func bringUpEngines(t *testing.T, e engine, n int, flags ...string) *stack {
	t.Helper()
	s := engineStack(t)
	for range n {
		s.startEngine(t, e, flags...)
	}
	s.url = s.workers[0].url()
	s.awaitEngines(t)
	return s
}

// engineStack is a stack of no engine yet, with its model.
func engineStack(t *testing.T) *stack {
	t.Helper()
	dir := t.TempDir()
	s := &stack{dir: dir, model: filepath.Join(dir, "model"), env: bare(dir)}
	for _, sub := range []string{"model", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeTiny(t, s.model)
	return s
}

func (s *stack) startEngine(t *testing.T, e engine, flags ...string) {
	t.Helper()
	port := freePort(t)
	w := &worker{metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	w.process = s.run(t, fmt.Sprintf("engine%d", len(s.workers)), e.env, append(e.argv(s, port), flags...)...)
	s.workers = append(s.workers, w)
}

// url is the base URL of an engine.
func (w *worker) url() string { return strings.TrimSuffix(w.metrics, "/metrics") }

// awaitEngines waits until each engine has served a request.
func (s *stack) awaitEngines(t *testing.T) {
	t.Helper()
	for _, w := range s.workers {
		eventually(t, starts, func(ctx context.Context) error {
			if !w.alive() {
				t.Fatalf("%s ended: %s", w.process.name, w.ended())
			}
			one := *s
			one.url = w.url()
			_, err := one.chat(ctx, `{"model":"tiny","messages":[{"role":"user","content":"the hill"}],"max_tokens":2}`)
			return err
		})
	}
}

// behindNginx puts a proxy before the engines, which passes /metrics on or has none. The
// stack that it gives is the same but for its URL.
func (e engine) behindNginx(t *testing.T, s *stack, metrics bool) *stack {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	var servers, page strings.Builder
	kept := ""
	if e.keeps {
		kept = `proxy_http_version 1.1; proxy_set_header Connection "";`
	}
	for _, w := range s.workers {
		fmt.Fprintf(&servers, "server %s max_fails=1 fail_timeout=5s; ", w.name())
	}
	if e.keeps {
		servers.WriteString("keepalive 32;")
	}
	if !metrics {
		page.WriteString("location = /metrics { return 404; }")
	}
	config := fmt.Sprintf(`
daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream engines { %s }
  server {
    listen 127.0.0.1:%d;
    %s
    location / { proxy_pass http://engines; %s proxy_buffering off; proxy_read_timeout 300s; }
  }
}
`, &servers, port, &page, kept)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "nginx", dir, bare(dir), os.Getenv("INTEROP_NGINX"), "-p", dir, "-e", "stderr", "-c", "nginx.conf")
	behind := *s
	behind.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	eventually(t, patience, func(ctx context.Context) error {
		if !p.alive() {
			t.Fatalf("nginx ended: %s", p.ended())
		}
		_, err := fetch(ctx, http.MethodGet, behind.url+"/v1/models", "")
		return err
	})
	return &behind
}

// computing is the process of an engine that runs its model.
func (e engine) computing(t *testing.T, w *worker) int {
	t.Helper()
	if e.computes == "" {
		return w.cmd.Process.Pid
	}
	for _, pid := range descendants(w.cmd.Process.Pid) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(name)+string(line), e.computes) {
			return pid
		}
	}
	t.Fatalf("%s has no process %s", w.process.name, e.computes)
	return 0
}

// descendants are the processes that a process and its children started.
func descendants(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
				all = append(all, descendants(child)...)
			}
		}
	}
	return all
}

// stop freezes the engine's computing for a while.
func (e engine) stop(t *testing.T, w *worker, d time.Duration) {
	t.Helper()
	pid := e.computing(t, w)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// slow lets an engine compute a fifth of the time, until what is given is called.
func (e engine) slow(t *testing.T, w *worker) (over func()) {
	t.Helper()
	const rests, works = 4 * engineStep * time.Millisecond, engineStep * time.Millisecond
	pid := e.computing(t, w)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
		for {
			if syscall.Kill(pid, syscall.SIGSTOP) != nil {
				return
			}
			time.Sleep(rests)
			_ = syscall.Kill(pid, syscall.SIGCONT)
			select {
			case <-end:
				return
			case <-time.After(works):
			}
		}
	}()
	return func() { close(end); <-ended }
}

// generated sums the engines' own counters of tokens.
func (s *stack) generated(t *testing.T, e engine) float64 {
	t.Helper()
	sum := 0.0
	for _, w := range s.workers {
		page, err := fetch(t.Context(), http.MethodGet, w.metrics, "")
		if err != nil {
			t.Fatal(err)
		}
		n, err := sumOf(page, e.generated)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// sumOf adds up the series of one counter on a page.
func sumOf(page, name string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			fields := strings.Fields(rest)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		return 0, errors.New("no " + name + " on the page")
	}
	return sum, nil
}

// names are those of the workers.
func (s *stack) names() []string {
	var all []string
	for _, w := range s.workers {
		all = append(all, w.name())
	}
	slices.Sort(all)
	return all
}
