package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// served is a fleet that the program serves, and what it has said.
type served struct {
	serving
	client *http.Client
	stderr *keptWriter
	stop   func() int // interrupts it and gives its exit code
}

// keptWriter keeps what is written by several goroutines.
type keptWriter struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (k *keptWriter) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.Write(p)
}

func (k *keptWriter) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.String()
}

func simServe(t *testing.T, network Network, args ...string) *served {
	t.Helper()
	s := &served{client: network.client(t)}
	p := startProgram(t, network, append([]string{"sim", "serve", "-o", "json"}, args...)...)
	s.stderr = &p.stderr
	s.stop = sync.OnceValue(func() int {
		p.signals <- os.Interrupt
		return <-p.code
	})
	t.Cleanup(func() { s.stop() })
	until(t, "where it serves", func() bool { return json.Unmarshal([]byte(p.stdout.String()), &s.serving) == nil })
	return s
}

func (s *served) ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

const completion = `{"model":"aicr-sim","messages":[{"role":"user","content":"how are you"}],"max_tokens":3}`

// Everything that the program says it serves is there, on loopback, until it is
// interrupted.
func TestSimServeServesWhatItSays(t *testing.T) {
	s := simServe(t, Network{}, "small", "--listen", "127.0.0.1:0")
	if len(s.Workers) != 2 || s.Model != "aicr-sim" || s.FaultsToken == "" {
		t.Fatalf("%+v", s.serving)
	}
	if status, body := s.ask(t, "POST", s.URL+"/v1/chat/completions", "", completion); status != 200 ||
		!strings.Contains(body, `"completion_tokens":3`) {
		t.Errorf("completion: %d %s", status, body)
	}
	for url, want := range map[string]string{
		s.URL + "/v1/models": `"id":"aicr-sim"`,
		s.URL + "/health":    `"status":"healthy"`,
		s.URL + "/live":      `"status":"live"`,
		s.FrontendMetrics:    "dynamo_frontend_requests_total{",
		s.Workers[0].Metrics: "vllm:num_requests_running{",
		s.Workers[1].Metrics: "vllm:generation_tokens_total{",
		s.GPUMetrics:         "DCGM_FI_DEV_POWER_USAGE{",
		s.NodeMetrics:        "node_pressure_cpu_waiting_seconds_total",
		strings.TrimSuffix(s.Workers[1].Metrics, "/metrics") + "/health": `"status":"ready"`,
	} {
		if !strings.HasPrefix(url, "http://127.0.0.1:") {
			t.Errorf("%s is not on loopback", url)
		}
		if status, body := s.ask(t, "GET", url, "", ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d without %q:\n%.300s", url, status, want, body)
		}
	}
	if code := s.stop(); code != int(Interrupted) {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")); err == nil {
		t.Error("it still listens after its end")
	}
}

// Faults are switched by whoever has the token, and by the file.
func TestSimServeSwitchesFaults(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		file := filepath.Join(t.TempDir(), "faults.yaml")
		s := simServe(t, network, "small", "--listen", "127.0.0.1:0", "--faults-file", file)
		dead := "- {kind: worker-dead, workers: [0, 1]}\n"
		chat := func() int {
			status, _ := s.ask(t, "POST", s.URL+"/v1/chat/completions", "", completion)
			return status
		}
		set := func(faults string) (int, string) { return s.ask(t, "POST", s.Faults, s.FaultsToken, faults) }
		if status, _ := s.ask(t, "POST", s.Faults, "guess", dead); status != http.StatusUnauthorized {
			t.Errorf("with another token: %d", status)
		}
		if got := chat(); got != 200 {
			t.Fatalf("without faults: %d", got)
		}
		if status, body := set(dead); status != 200 {
			t.Fatalf("switching on: %d %s", status, body)
		}
		if got := chat(); got != 500 {
			t.Errorf("with dead workers: %d", got)
		}
		if status, body := set("[{kind: worker-ded, workers: [7]}]"); status != 400 ||
			!strings.Contains(body, "worker-ded") {
			t.Errorf("a bad fault: %d %s", status, body)
		}
		if got := chat(); got != 500 {
			t.Errorf("a bad fault has switched the good ones off: %d", got)
		}
		set("[]")
		if got := chat(); got != 200 {
			t.Errorf("after switching off: %d", got)
		}

		write := func(text string) {
			t.Helper()
			if err := writeText(file, func() ([]byte, error) { return []byte(text), nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(faultsEvery)
		}
		write(dead)
		if got := chat(); got != 500 {
			t.Errorf("the file has not been followed: %d\n%s", got, s.stderr)
		}
		write("- {kind: worker-dead, workers: [9]}\n")
		if !strings.Contains(s.stderr.String(), "worker 9 of 2") {
			t.Errorf("nothing was said of a bad file\n%s", s.stderr)
		}
		if got := chat(); got != 500 {
			t.Errorf("a bad file has switched the good faults off: %d", got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(faultsEvery)
		if got := chat(); got != 200 {
			t.Errorf("without the file: %d", got)
		}
	})
}

// A port that is taken is the user's to change, and nothing is left listening.
func TestSimServeSaysWhichPortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()[strings.LastIndex(taken.Addr().String(), ":")+1:]
	for _, args := range [][]string{{"--listen", taken.Addr().String()}, {"--listen", "127.0.0.1:0", "--gpu-port", port}} {
		var out, said bytes.Buffer
		code := Run(t.Context(), Env{Args: append([]string{"sim", "serve", "small"}, args...), Stdout: &out, Stderr: &said,
			LookupEnv: func(string) (string, bool) { return "", false }, Now: time.Now})
		if code != int(Misused) || out.Len() > 0 || !strings.Contains(said.String(), "address already in use") || !strings.Contains(said.String(), "hint: name other ports") {
			t.Errorf("%v: code %d, %q, %q", args, code, &out, &said)
		}
	}
}

func TestSimServeFindsPortsThatCollide(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a worker and the GPUs":     {[]string{"--worker-port", "9399"}, "--gpu-port and worker 1 both want port 9400"},
		"the frontend and the node": {[]string{"--listen", "127.0.0.1:9100"}, "--listen and --node-port both want port 9100"},
		"beyond the last port":      {[]string{"--worker-port", "65535"}, "worker 1 has no port: 65536"},
	} {
		var said bytes.Buffer
		env := testEnv(nil, append([]string{"sim", "serve", "small"}, c.args...)...)
		env.Stderr = &said
		if code := Run(t.Context(), env); code != int(Misused) || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: code %d, %q, want %q", name, code, &said, c.want)
		}
	}
}
