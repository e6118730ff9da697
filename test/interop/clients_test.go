//go:build linux

package interop_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"aicr/internal/load/aiperf"
	"aicr/internal/spec"
)

// template is how many tokens the model's chat template adds to a prompt. AIPerf
// counts a prompt without them, the server and aicr with them.
const template = 2

// load is what a load generator is asked for.
type load struct {
	concurrency, requests, warmup int
	input, output                 int // tokens, the template's among the input's
	seed                          int
}

// flags are those that both take alike.
func (l load) flags() []string {
	n := strconv.Itoa
	flags := []string{
		"--model", modelName, "--streaming",
		"--concurrency", n(l.concurrency), "--request-count", n(l.requests),
		"--osl", n(l.output), "--random-seed", n(l.seed), "--extra-inputs", "temperature:0",
		"--connection-reuse-strategy", "never", // a connection that is used again shows Nagle's delay instead of the server's
	}
	if l.warmup > 0 { // AIPerf takes no zero
		flags = append(flags, "--warmup-request-count", n(l.warmup))
	}
	return flags
}

// limit is how long a run may take at most: AIPerf alone needs ten seconds to
// start and to end.
func (l load) limit() time.Duration { return patience + time.Duration(l.requests)*time.Second }

// outcome is one run of a load generator.
type outcome struct {
	finished
	dir     string
	profile *aiperf.Profile
	bench   spec.Bench // of aicr alone
}

// figure is a statistic of a metric, which has to be there.
func (o outcome) figure(t *testing.T, tag string) (mean, median float64) {
	t.Helper()
	d, ok := o.profile.Get(tag)
	if !ok {
		t.Fatalf("%s has no %s", o.dir, tag)
	}
	return d.Avg, d.P50
}

// aicr loads the stack with aicr bench, which has to serve all. That it was late
// itself, on a machine that was busy otherwise, is the concern of those who compare
// times: valid tells.
func (s *stack) aicr(t *testing.T, flags ...string) outcome {
	t.Helper()
	o := s.bench(t, flags...)()
	if o.bench.Verdict != spec.Pass && (o.bench.Verdict != spec.Invalid || o.bench.Requests.Served != o.bench.Requests.Sent) {
		t.Fatalf("aicr bench exits with %d: %s %s\n%s%s", o.code, o.bench.Verdict, o.bench.Reason, o.stdout, o.stderr)
	}
	o.profile = readProfile(t, o.dir)
	return o
}

// valid says whether aicr vouches for its times.
func (o outcome) valid() bool { return o.bench.Verdict == spec.Pass }

// bench starts aicr bench; what it gives waits for its end, however that is.
func (s *stack) bench(t *testing.T, flags ...string) func() outcome {
	t.Helper()
	o := outcome{dir: filepath.Join(t.TempDir(), "aicr")}
	r := begin(t, bare(s.dir), append([]string{
		program, "bench", "--url", s.url, "-o", "json", "--quiet", "--artifact-dir", o.dir}, flags...)...)
	return func() outcome {
		t.Helper()
		o.finished = r.wait(t, patience)
		if err := json.Unmarshal([]byte(o.stdout), &o.bench); err != nil {
			t.Fatalf("aicr bench exits with %d and no result: %v\n%s%s", o.code, err, o.stdout, o.stderr)
		}
		return o
	}
}

// aiperf loads the stack with AIPerf, which has to end well.
func (s *stack) aiperf(t *testing.T, l load, flags ...string) outcome {
	t.Helper()
	o := outcome{dir: filepath.Join(t.TempDir(), "aiperf")}
	argv := append([]string{
		filepath.Join(venv, "bin", "aiperf"), "profile", "--url", s.url, "--endpoint-type", "chat", "--tokenizer", s.model,
		"--isl", strconv.Itoa(l.input - template), "--num-dataset-entries", strconv.Itoa(l.requests),
		"--use-server-token-count", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none",
		"--output-artifact-dir", o.dir,
	}, l.flags()...)
	o.finished = finish(t, l.limit(), bare(s.dir), append(argv, flags...)...)
	if o.code != 0 {
		t.Fatalf("aiperf exits with %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o.profile = readProfile(t, o.dir)
	return o
}

// readProfile reads what either of the two wrote, with the one reader that aicr
// has for both.
func readProfile(t *testing.T, dir string) *aiperf.Profile {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "profile_export_aiperf.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := aiperf.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
