package proof

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/metric"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
	"aicr/test/busy"
)

// The test binary is also the two programs that it runs.
const (
	roleEnv   = "AICR_PROOF_ROLE"
	jobEnv    = "AICR_PROOF_JOB"
	roleServe = "serve"
	roleLoad  = "load"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case roleServe:
		exit(beServer())
	case roleServeTLS:
		exit(beTLSServer())
	case roleLoad:
		exit(beClient())
	case roleStarved:
		exit(beStarved())
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const tokens = 64

func script() truth.Script {
	return truth.Script{Seed: 7, TTFT: 100 * time.Millisecond, TTFTSpread: 20 * time.Millisecond,
		ITL: 20 * time.Millisecond, HeadersFirst: true, Workers: 4}
}

func beServer() error {
	srv, err := truth.NewServer(script())
	if err != nil {
		return err
	}
	if err := srv.Start(context.Background(), ""); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, srv.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets go
	return srv.Close()
}

// job is what a client is asked to do.
type job struct {
	URL   string
	Users int
}

// reading is what a client measured, in milliseconds.
type reading struct {
	Requests, Failed   int
	Tokens, Events     int64
	TTFT50, TTFT99     float64
	ITL50, ITL99       float64
	InFlight, StampLag float64
	Reasons            []load.Reason
}

func beClient() error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return err
	}
	target, err := load.NewTarget(load.TargetOptions{URL: j.URL})
	if err != nil {
		return err
	}
	if err := target.Lookup(context.Background()); err != nil {
		return err
	}
	count := int64(4 * j.Users)
	work, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: count, Fields: workload.AllFields(),
		InputTokens: workload.Length{Mean: 128}, OutputTokens: workload.Length{Mean: tokens}})
	if err != nil {
		return err
	}
	res, err := load.Run(context.Background(), &load.Plan{Target: target, Work: work, Timeout: time.Minute, Grace: time.Minute,
		Main: load.Schedule{Users: j.Users, Count: count}}, nil)
	if err != nil {
		return err
	}
	sum := metric.Summarize(res.Log, res.Gaps, metric.Options{})
	ttft, _ := sum.Get("time_to_first_token")
	itl, _ := sum.Get("inter_token_latency")
	r := reading{Requests: sum.Requests, Failed: sum.Failed, TTFT50: ttft.P50, TTFT99: ttft.P99, ITL50: itl.P50, ITL99: itl.P99,
		InFlight: res.Audit.InFlight, StampLag: float64(res.Audit.StampLag.P99) / 1e6, Reasons: res.Audit.Reasons}
	for rec := range res.Log.All() {
		r.Tokens += int64(rec.Tokens())
		r.Events += int64(rec.Events)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// again starts the test binary in a role, on a core of its own where there are
// enough.
func again(t testing.TB, core int, env ...string) *exec.Cmd {
	t.Helper()
	name, args := os.Args[0], []string{"-test.run=^$"}
	if taskset, err := exec.LookPath("taskset"); err == nil && runtime.NumCPU() > core {
		name, args = taskset, append([]string{"-c", fmt.Sprint(core), os.Args[0]}, args...)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func startServer(t testing.TB, role string) string {
	t.Helper()
	cmd := again(t, 0, roleEnv+"="+role)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func measure(t *testing.T, url string, users int) (reading, truth.Truth) {
	t.Helper()
	reset, err := http.Post(url+"/truth/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = reset.Body.Close()
	j, err := json.Marshal(job{url, users})
	if err != nil {
		t.Fatal(err)
	}
	out, err := again(t, 1, roleEnv+"="+roleLoad, jobEnv+"="+string(j)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var r reading
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(url + "/truth")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var want truth.Truth
	if err := json.NewDecoder(res.Body).Decode(&want); err != nil {
		t.Fatal(err)
	}
	return r, want
}

func TestTheEngineTellsTheTruth(t *testing.T) {
	url := startServer(t, roleServe)
	for _, tc := range []struct {
		users int
		times bool // latencies are judged, not only counts
	}{{64, true}, {256, true}, {1000, false}} {
		t.Run(fmt.Sprintf("%d streams", tc.users), func(t *testing.T) {
			busy.Measure(t, func() string {
				got, want := measure(t, url, tc.users)
				sameCounts(t, got, want, tc.users) // however busy the machine is
				off := wrong(got, want, tc.users, tc.times)
				if off == "" {
					return ""
				}
				// Under a neighbour's load the engine may be late, but then it must know.
				if got.StampLag < 1 && late(want) < 1 {
					t.Fatalf("%s, and neither side knows of being late (stamps %.2f ms, server %.2f ms)", off, got.StampLag, late(want))
				}
				return fmt.Sprintf("%s; stamps late p99 %.2f ms, server late p99 %.2f ms", off, got.StampLag, late(want))
			})
		})
	}
}

func late(w truth.Truth) float64 { return float64(w.Lateness.P99) / 1e6 }

func sameCounts(t *testing.T, got reading, want truth.Truth, users int) {
	t.Helper()
	if got.Failed != 0 || got.Requests != 4*users || got.Requests != want.Requests {
		t.Fatalf("%d requests, %d failed; the server had %d", got.Requests, got.Failed, want.Requests)
	}
	if got.Tokens != want.Tokens || got.Tokens != int64(got.Requests)*tokens {
		t.Fatalf("%d tokens; the server wrote %d", got.Tokens, want.Tokens)
	}
	if got.Events != want.Events.Total {
		t.Fatalf("%d events; the server wrote %d", got.Events, want.Events.Total)
	}
}

// wrong says in what the engine's figures are not the truth.
func wrong(got reading, want truth.Truth, users int, times bool) string {
	// The server's truth about what it had in flight is the judge here: the
	// client's own figure is full even when its stamps are late.
	if min(got.InFlight, want.MeanInFlight) < 0.99*float64(users) {
		return fmt.Sprintf("held %.1f of %d in flight, by the server's count %.1f", got.InFlight, users, want.MeanInFlight)
	}
	if !times {
		return ""
	}
	median := float64(want.Lateness.P50) / 1e6
	for _, f := range []struct {
		name              string
		got, want, server float64 // server: its own lateness at that percentile
	}{
		{"TTFT p50", got.TTFT50, want.TTFT.P50 / 1e6, median}, {"TTFT p99", got.TTFT99, want.TTFT.P99 / 1e6, late(want)},
		{"ITL p50", got.ITL50, want.ITL.P50 / 1e6, median}, {"ITL p99", got.ITL99, want.ITL.P99 / 1e6, late(want)},
	} {
		if d := math.Abs(f.got - f.want); d > 1+f.server || math.IsNaN(d) {
			return fmt.Sprintf("%s is %.3f ms, the truth %.3f ms, the bound %.2f ms", f.name, f.got, f.want, 1+f.server)
		}
	}
	return ""
}
