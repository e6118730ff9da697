package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aicr/test/busy"
)

// The scenarios that are served and played: what `small` is, for half as long, as
// it is and with workers that are slow. All of them, since with one the users move
// from worker to worker: who then shares a step with whom, and with that the
// median, hangs on microseconds.
const (
	healthy = `
apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: agree}
fleet: {workers: 2, profile: small}
load: {concurrencyPerGPU: 4, ramp: 1s, episode: 10s, inputTokens: 64, outputTokens: 64}
`
	allSlow = healthy + `
faults: [{kind: worker-slow, workers: all, factor: 1.7}]
`
)

// How far apart the two may be.
const (
	throughputWithin = 0.03
	ttftWithin       = 0.05
)

func TestServedAndPlayedAgree(t *testing.T) {
	program := build(t)
	for name, scenario := range map[string]string{"healthy": healthy, "slow workers": allSlow} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scenario.yaml")
			if err := os.WriteFile(file, []byte(scenario), 0o644); err != nil {
				t.Fatal(err)
			}
			want := play(t, program, file)
			busy.Measure(t, func() (tooBusy string) {
				got, spoilt := measure(t, program, file)
				x, ttft := got.throughput/want.throughput-1, got.ttft50/want.ttft50-1
				t.Logf("throughput %.1f served, %.1f played (%+.1f %%); ttft p50 %.1f ms served, %.1f ms played (%+.1f %%) %s",
					got.throughput, want.throughput, 100*x, got.ttft50, want.ttft50, 100*ttft, spoilt)
				switch {
				case math.Abs(x) <= throughputWithin && math.Abs(ttft) <= ttftWithin:
					return ""
				case spoilt == "":
					t.Fatalf("throughput is %+.1f %% and ttft p50 %+.1f %% apart, and neither client nor fleet was late", 100*x, 100*ttft)
				}
				return spoilt
			})
		})
	}
}

type reading struct{ throughput, ttft50 float64 }

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "aicr")
	out, err := exec.Command("go", "build", "-o", program, "aicr/cmd/aicr").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func play(t *testing.T, program, file string) reading {
	t.Helper()
	var line struct {
		Throughput float64
		TTFTP50    float64 `json:"ttftP50Ms"`
	}
	run(t, &line, program, "sim", "play", file, "--episodes", "1", "--sentinel-rate", "0", "-o", "json", "-q")
	if line.Throughput == 0 || line.TTFTP50 == 0 {
		t.Fatalf("nothing was played: %+v", line)
	}
	return reading{line.Throughput, line.TTFTP50}
}

// measure serves the scenario and loads it. A reading is spoilt when the client
// or the fleet says of itself that it was late.
func measure(t *testing.T, program, file string) (got reading, spoilt string) {
	t.Helper()
	serve := exec.Command(program, "sim", "serve", file, "--listen", "127.0.0.1:0", "-o", "json")
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := &lockedBuffer{}
	serve.Stderr = said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	var where struct{ URL, Model string }
	if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&where); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // nothing else comes
	var doc struct {
		Verdict, Reason string
		Figures         []struct {
			Name      string
			Mean, P50 float64
		}
	}
	run(t, &doc, program, "bench", "--url", where.URL, "--model", where.Model, "--concurrency", "8", "--ramp", "1s",
		"--benchmark-duration", "10", "--isl", "64", "--osl", "64", "-o", "json", "-q", "--output-artifact-dir", t.TempDir())
	if err := serve.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = serve.Wait() // 130: it was interrupted
	for _, f := range doc.Figures {
		switch f.Name {
		case "throughput":
			got.throughput = f.Mean
		case "time to first token":
			got.ttft50 = f.P50
		}
	}
	switch {
	case doc.Verdict != "PASS":
		spoilt = doc.Verdict + ": " + doc.Reason
	case strings.Contains(said.String(), "cannot keep up"):
		spoilt = said.String()
	}
	return got, spoilt
}

// run runs the program and reads its product. A bench that found itself to be
// the limit exits with 3 and has a product all the same.
func run(t *testing.T, product any, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if jsonErr := json.Unmarshal(out, product); jsonErr != nil {
		t.Fatalf("%v: %v %v\n%s", args, err, jsonErr, &stderr)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
