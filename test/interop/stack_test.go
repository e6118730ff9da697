//go:build linux

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// plan says what stack to bring up.
type plan struct {
	router   string
	frontend []string   // more arguments
	workers  [][]string // each worker's arguments
}

// alike plans workers with the same arguments.
func alike(n int, args ...string) [][]string { return slices.Repeat([][]string{args}, n) }

// stack is a real Dynamo: a broker for its events, a frontend, and mockers as
// its workers, all on loopback, with a directory, ports and a home of their own.
type stack struct {
	url      string
	model    string // its directory, which AIPerf wants for the tokenizer
	frontend *process
	workers  []*worker

	dir string
	env []string
}

// worker is one mocker.
type worker struct {
	*process
	id      uint64
	metrics string // URL of its page
}

// name is how Dynamo's frontend and aicr call the worker: an engine without Dynamo has no
// number and is called by its address.
func (w *worker) name() string {
	if w.id == 0 {
		return strings.TrimSuffix(strings.TrimPrefix(w.metrics, "http://"), "/metrics")
	}
	return strconv.FormatUint(w.id, 10)
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.process.signal(s); err != nil {
		t.Fatalf("signalling %s: %v", w.process.name, err)
	}
}

// longestSocket is what a Unix socket's path may have, less some for its name.
const longestSocket = 107 - len("/publishers")

// bringUp starts a stack and waits until it has served a request and knows every
// worker. Everything ends with the test.
func bringUp(t *testing.T, p plan) *stack {
	t.Helper()
	dir, err := os.MkdirTemp("", "ip") //nolint:usetesting // the sockets want a short name, which t.TempDir has not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if len(dir) > longestSocket {
		t.Fatalf("%s is too long for a socket's path: set TMPDIR to a shorter one", dir)
	}
	s := &stack{dir: dir, model: filepath.Join(dir, "model")}
	for _, sub := range []string{"kv", "home", "model", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeModel(t, s.model)
	publishers, subscribers := "ipc://"+filepath.Join(dir, "publishers"), "ipc://"+filepath.Join(dir, "subscribers")
	s.env = append(bare(filepath.Join(dir, "home")),
		"DYN_DISCOVERY_BACKEND=file", "DYN_FILE_KV="+filepath.Join(dir, "kv"),
		"DYN_REQUEST_PLANE=tcp", "DYN_TCP_RPC_HOST=127.0.0.1",
		"DYN_TCP_RESPONSE_STREAM_HOST=lo", // an interface here, not an address
		"DYN_EVENT_PLANE=zmq", "DYN_ZMQ_BROKER_URL=xsub="+publishers+" , xpub="+subscribers,
		"DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS=[\"generate\"]", // without it a worker is never healthy
		"DYN_RUNTIME_NUM_WORKER_THREADS=2", "DYN_SDK_DISABLE_ANSI_LOGGING=1", "DYN_LOG=warn",
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1",
	)
	s.run(t, "broker", nil, python(), "broker.py", publishers, subscribers)
	port := freePort(t)
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	s.frontend = s.run(t, "frontend", nil, slices.Concat([]string{python(), "-m", "dynamo.frontend",
		"--http-host", "127.0.0.1", "--http-port", strconv.Itoa(port), "--router-mode", p.router}, p.frontend)...)
	for _, args := range p.workers {
		s.startWorker(t, args...)
	}
	s.awaitWorkers(t)
	return s
}

// bare is an environment that has nothing of the one that started the tests but
// what a program needs, so that no setting for Dynamo or AIPerf gets in.
func bare(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8", "TZ=UTC"}
}

func (s *stack) run(t *testing.T, name string, env []string, argv ...string) *process {
	t.Helper()
	return launch(t, name, filepath.Join(s.dir, "logs"), slices.Concat(s.env, env), argv...)
}

// startWorker starts one more worker and does not wait for it.
func (s *stack) startWorker(t *testing.T, args ...string) *worker {
	t.Helper()
	port := freePort(t)
	w := &worker{metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	w.process = s.run(t, fmt.Sprintf("worker%d", len(s.workers)),
		[]string{"DYN_SYSTEM_HOST=127.0.0.1", "DYN_SYSTEM_PORT=" + strconv.Itoa(port)},
		slices.Concat([]string{python(), "-m", "dynamo.mocker", "--model-path", s.model, "--model-name", modelName}, args)...)
	s.workers = append(s.workers, w)
	return w
}

// addWorker starts one more worker and waits until it is known.
func (s *stack) addWorker(t *testing.T, args ...string) *worker {
	t.Helper()
	w := s.startWorker(t, args...)
	s.awaitWorkers(t)
	return w
}

// freePort finds a port that nobody has. Dynamo takes none above 32767 for a
// worker's page, and the kernel gives none below that to anybody else.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(32768-10000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// awaitWorkers waits until the frontend has every worker that is alive, and has
// served a request if there is one.
func (s *stack) awaitWorkers(t *testing.T) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		if !s.frontend.alive() {
			t.Fatalf("the frontend ended: %s", s.frontend.ended())
		}
		known, err := s.instances(ctx)
		if err != nil {
			return err
		}
		for _, w := range s.workers {
			if !w.alive() {
				t.Fatalf("%s ended: %s", w.process.name, w.ended())
			}
			if w.id == 0 {
				if w.id, err = idOf(ctx, w.metrics); err != nil {
					return err
				}
			}
			if !slices.Contains(known, w.id) {
				return fmt.Errorf("the frontend knows %d, and not %s", known, w.name())
			}
		}
		if len(s.workers) == 0 {
			return nil
		}
		answer, err := s.chat(ctx, `{"model":"tiny","messages":[{"role":"user","content":"the king"}],"max_tokens":2}`)
		if err == nil && !strings.Contains(answer, `"completion_tokens":2`) {
			err = errors.New(answer)
		}
		return err
	})
}

// chat asks for a completion; an answer that is not 200 is an error.
func (s *stack) chat(ctx context.Context, body string) (string, error) {
	return fetch(ctx, http.MethodPost, s.url+"/v1/chat/completions", body)
}

func fetch(ctx context.Context, method, url, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, answer.Body); err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s %s", url, answer.Status, &b)
	}
	return b.String(), nil
}

// instances are the workers that the frontend knows.
func (s *stack) instances(ctx context.Context) ([]uint64, error) {
	page, err := fetch(ctx, http.MethodGet, s.url+"/health", "")
	if err != nil {
		return nil, err
	}
	var health struct {
		Instances []struct {
			Endpoint string
			ID       uint64 `json:"instance_id"`
		}
	}
	if err := json.Unmarshal([]byte(page), &health); err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	var ids []uint64
	for _, i := range health.Instances {
		if i.Endpoint == "generate" {
			ids = append(ids, i.ID)
		}
	}
	return ids, nil
}

var workerID = regexp.MustCompile(`dynamo_endpoint="generate".*worker_id="([0-9a-f]+)"`)

// idOf finds a worker's number on its own page, which has it in hexadecimal.
func idOf(ctx context.Context, metrics string) (uint64, error) {
	page, err := fetch(ctx, http.MethodGet, metrics, "")
	if err != nil {
		return 0, err
	}
	m := workerID.FindStringSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("%s names no worker", metrics)
	}
	return strconv.ParseUint(m[1], 16, 64)
}

// warm loads the stack a little until every worker has served: before that a
// mocker's page has none of the engine's metrics.
func (s *stack) warm(t *testing.T) {
	t.Helper()
	n := 0
	eventually(t, patience, func(ctx context.Context) error {
		var asked sync.WaitGroup
		for range 4 * len(s.workers) {
			n++
			body := fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":"number %d"}],"max_tokens":8}`, n)
			asked.Go(func() { _, _ = s.chat(ctx, body) }) // the pages tell whether they were served
		}
		asked.Wait()
		for _, w := range s.workers {
			page, err := fetch(ctx, http.MethodGet, w.metrics, "")
			if err != nil {
				return err
			}
			if !strings.Contains(page, "vllm:") {
				return fmt.Errorf("%s has served nothing", w.process.name)
			}
		}
		return nil
	})
}
