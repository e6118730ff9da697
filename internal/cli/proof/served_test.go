package proof

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/cli"
	"aicr/internal/sim/truth"
	"aicr/internal/spec"
	"aicr/test/busy"
)

// validation is what came of one.
type validation struct {
	spec.Verdict
	dir, stdout, stderr string
	code                int
}

// validate validates a fleet over sockets. tooBusy is the reason of a verdict on the
// client instead of the fleet.
func validate(t *testing.T, args ...string) (r validation, tooBusy string) {
	t.Helper()
	r.dir = filepath.Join(t.TempDir(), "run")
	args = append([]string{"validate", "--real-time", "-o", "json", "--run", r.dir}, args...)
	r.stdout, r.stderr, r.code = aicr(t, args...)
	decode(t, read(t, r.dir, "verdict.json"), &r.Verdict)
	clientsFault := len(r.Findings) > 0 && strings.HasPrefix(r.Findings[0].ID, "client/")
	if r.Verdict.Verdict == spec.Invalid && r.code == int(cli.Unmeasured) && clientsFault {
		tooBusy = r.Reason
	}
	return r, tooBusy
}

// TestAServedFleetIsValidated: over real HTTP a healthy fleet passes.
func TestAServedFleetIsValidated(t *testing.T) {
	t.Parallel() // it mostly waits, as the other does
	busy.Measure(t, func() string {
		r, tooBusy := validate(t, "--sim", "small", "--profile", "smoke",
			"--episode-duration", "10", "--concurrency-per-gpu", "2")
		if tooBusy == "" && (r.Verdict.Verdict != spec.Pass || r.code != 0) {
			t.Errorf("exit code %d, %s: %s\n%s", r.code, r.Verdict.Verdict, r.Reason, r.stderr)
		}
		// The record holds all that the verdict follows from, whatever it is.
		again, _, _ := aicr(t, "judge", r.dir, "-o", "json")
		if again != r.stdout || again != string(read(t, r.dir, "verdict.json")) {
			t.Errorf("judged again:\n%s", cmp.Diff(r.stdout, again))
		}
		record, err := spec.ReadRun(os.DirFS(r.dir))
		if err != nil {
			t.Fatal(err)
		}
		e, err := record.Episode(1)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for i := range e.Requests {
			named[e.Requests[i].Worker] = true
		}
		for i := range e.Series {
			if s := &e.Series[i]; s.Source == spec.SourceWorker {
				named[s.Name] = true
			}
		}
		if diff := cmp.Diff(map[string]bool{"0": true, "1": true}, named); diff != "" {
			t.Errorf("the workers' names (-want +got):\n%s", diff)
		}
		return tooBusy
	})
}

// A stall that is injected into a served fleet is found over real HTTP, by the real
// engine and the real observers, and named.
func TestAStallOverHTTPIsNamed(t *testing.T) {
	t.Parallel()
	file := write(t, "stalls.yaml", `apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: stalls}
fleet: {workers: 2, profile: small}
load: {concurrencyPerGPU: 4, ramp: 1s, episode: 12s, inputTokens: 64, outputTokens: 32}
faults:
  - {kind: worker-stall, workers: [1], factor: 1000, at: 4s, lasts: 5s}
`)
	busy.Measure(t, func() string {
		r, tooBusy := validate(t, "--sim", file, "--profile", "quick")
		switch {
		case tooBusy != "":
		case r.Verdict.Verdict != spec.Fail || r.code != int(cli.Failed):
			t.Errorf("exit code %d, %s: %s\n%s", r.code, r.Verdict.Verdict, r.Reason, r.stderr)
		default:
			f := r.Findings[0]
			if f.ID != "worker/stall" || !slices.Equal(f.Workers, []string{"1"}) || len(f.GPUs) != 1 {
				t.Errorf("found %s of %v on %v: %s", f.ID, f.Workers, f.GPUs, r.Reason)
			}
		}
		return tooBusy
	})
}

// Over real HTTP the knee is that of the model, about 20 in flight. The fleet is one
// whose knee a busy machine can show: its two engines run eight requests each, and
// each takes a few tenths of a second.
func TestTheKneeOfAServedFleet(t *testing.T) {
	file := write(t, "tiny.yaml", `apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: tiny}
fleet:
  workers: 2
  profile: small
  maxSequences: 8
  timing: {base: 8ms, host: 1ms, perSequence: 500us}
load: {concurrencyPerGPU: 4, ramp: 200ms, episode: 5s, inputTokens: 16, outputTokens: 16}
`)
	known := regexp.MustCompile(`^KNEE  about (1[6-9]|2[0-4]) in flight \(\d+ a GPU\); propose [4-9] a GPU: `)
	limited := regexp.MustCompile(`(?s)^(NO )?KNEE  .*the client was the limit`)
	busy.Measure(t, func() string {
		stdout, stderr, code := aicr(t, "knee", "--sim", file, "--real-time", "--first-per-gpu=1", "--max-per-gpu=32",
			"--level-duration=1s", "--reference-duration=1s", "--budget=67.2s", "--sentinel-rate=1")
		if !strings.Contains(stderr, "level 1: 2 in flight: ") {
			t.Errorf("no word on how it goes:\n%s", stderr)
		}
		switch {
		case code == int(cli.Unmeasured) && limited.MatchString(stdout):
			first, _, _ := strings.Cut(stdout, "\n")
			return first
		case code != int(cli.Passed) || !known.MatchString(stdout):
			t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
		}
		return ""
	})
}

// A client that gets a quarter of the time of its core, as one behind a CPU quota
// does, reports INVALID and no fault of the server.
func TestStarvedClientSaysInvalid(t *testing.T) {
	srv, err := truth.NewServer(truth.Script{TTFT: 40 * time.Millisecond, ITL: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(context.WithoutCancel(t.Context()), ""); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	run := start(t, "bench", "--url", srv.URL(), "-c", "8", "--benchmark-duration", "1", "--osl", "32")
	const ofAProbe = 8 // tokens
	loaded := func() bool {
		return slices.ContainsFunc(srv.Requests(), func(r truth.Request) bool { return r.Asked != ofAProbe })
	}
	for end := time.Now().Add(time.Minute); !loaded(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no load came")
		}
	}
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_ = run.Process.Signal(syscall.SIGSTOP) // fails once it has ended
		time.Sleep(60 * time.Millisecond)
		_ = run.Process.Signal(syscall.SIGCONT)
	}
	_ = run.Wait() // the code says it
	if code := run.ProcessState.ExitCode(); code != int(cli.Unmeasured) {
		t.Errorf("exit code %d, want 3", code)
	}
	if !strings.HasPrefix(run.out.String(), "INVALID  the client was the limit: ") {
		t.Errorf("standard output:\n%s", &run.out)
	}
	var doc spec.Bench
	decode(t, read(t, run.Dir, "artifacts", "bench.json"), &doc)
	if doc.Verdict != spec.Invalid || doc.Client.Valid || len(doc.Client.Reasons) == 0 {
		t.Errorf("the document says %s, with a client of %+v", doc.Verdict, doc.Client)
	}
}
