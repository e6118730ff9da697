package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/metric"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
	"aicr/internal/spec"
)

func TestOnlyAPassIsAPass(t *testing.T) {
	for verdict, want := range map[spec.State]Code{
		spec.Pass: Passed, spec.Fail: Failed, spec.Invalid: Unmeasured, spec.Inconclusive: Unmeasured, spec.Skip: Unmeasured,
		"": Unmeasured, "something new": Unmeasured,
	} {
		code := Passed
		if err := exitOf(verdict); err != nil {
			code, _ = errors.AsType[Code](err)
		}
		if code != want {
			t.Errorf("%q ends with %d, want %d", verdict, code, want)
		}
	}
}

func TestTheClientIsJudgedBeforeTheServer(t *testing.T) {
	late := []spec.BenchReason{{Text: "late"}}
	for _, tt := range []struct {
		name        string
		interrupted bool
		reasons     []spec.BenchReason
		requests    spec.BenchRequests
		share       float64
		grace       time.Duration
		want        spec.State
	}{
		{"all served", false, nil, spec.BenchRequests{Sent: 10, Served: 10}, 0, 0, spec.Pass},
		{"one failed", false, nil, spec.BenchRequests{Sent: 10, Served: 9, Failed: 1}, 0, 0, spec.Fail},
		{"as many failed as are allowed", false, nil, spec.BenchRequests{Sent: 10, Served: 9, Failed: 1}, 0.1, 0, spec.Pass},
		{"more failed than are allowed", false, nil, spec.BenchRequests{Sent: 10, Served: 8, Failed: 2}, 0.1, 0, spec.Fail},
		{"none served is never a pass", false, nil, spec.BenchRequests{Sent: 10, Failed: 10}, 1, 0, spec.Fail},
		{"nothing sent is never a pass", false, nil, spec.BenchRequests{}, 1, 0, spec.Inconclusive},
		{"all given up is never a pass", false, nil, spec.BenchRequests{Sent: 10, Interrupted: 10}, 1, 0, spec.Inconclusive},
		{"the client was the limit", false, late, spec.BenchRequests{Sent: 10, Served: 10}, 0, 0, spec.Invalid},
		{"the client was the limit, and some requests failed", false, late, spec.BenchRequests{Sent: 10, Served: 1, Failed: 9}, 0, 0, spec.Invalid},
		{"nothing was served, whatever the audit says", false, late, spec.BenchRequests{Sent: 10, Failed: 10}, 0, 0, spec.Fail},
		{"the client could send nothing", false, late, spec.BenchRequests{Sent: 7, Failed: 7}, 0, 0, spec.Invalid},
		{"the client was the limit, but the server said itself that it failed", false, late, spec.BenchRequests{Sent: 10, Failed: 10, Classes: map[string]int{"http-status": 10}}, 0, 0, spec.Fail},
		{"the client was the limit, and the server failed as often as is allowed", false, late, spec.BenchRequests{Sent: 10, Served: 9, Failed: 1, Classes: map[string]int{"http-status": 1}}, 0.1, 0, spec.Invalid},
		{"a sentinel request failed", false, nil, spec.BenchRequests{Sent: 10, Served: 10, SentinelSent: 5, SentinelFailed: 1}, 0, 0, spec.Fail},
		{"as many sentinel requests failed as are allowed", false, nil, spec.BenchRequests{Sent: 10, Served: 10, SentinelSent: 5, SentinelFailed: 1}, 0.2, 0, spec.Pass},
		{"interrupted", true, late, spec.BenchRequests{Sent: 10, Failed: 10}, 0, 0, spec.Inconclusive},
		{"cut off in flight when the time is up, as was asked", false, nil, spec.BenchRequests{Sent: 10, Served: 8, Interrupted: 2}, 0, 0, spec.Pass},
		{"unanswered in spite of a grace period", false, nil, spec.BenchRequests{Sent: 10, Served: 8, Interrupted: 2}, 1, time.Second, spec.Inconclusive},
		{"unanswered, and others failed", false, nil, spec.BenchRequests{Sent: 10, Served: 7, Failed: 1, Interrupted: 2}, 0, time.Second, spec.Fail},
	} {
		d := &spec.Bench{Requests: tt.requests, Client: spec.BenchClient{Valid: tt.reasons == nil, Reasons: tt.reasons}}
		r := &benchReport{job: &benchJob{options: &benchOptions{errorShare: tt.share, grace: seconds(tt.grace)}}, res: &load.Result{Interrupted: tt.interrupted}, exhausted: map[string]int{"the client could send nothing": 7}[tt.name]}
		if got, why := r.verdict(d); got != tt.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", tt.name, got, why, tt.want)
		}
	}
}

func TestFilesAppearWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	put := func(text string, err error) error {
		return writeWhole(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		})
	}
	if err := put("half of", errors.New("out of words")); err == nil || !strings.Contains(err.Error(), "out of words") {
		t.Errorf("a failing writer gives %v", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("a failing writer leaves %q", left)
	}
	if err := put("the first", nil); err != nil {
		t.Fatal(err)
	}
	if err := put(strings.Repeat("half of the second", 1<<16), errors.New("no more")); err == nil {
		t.Error("a failing writer gives no error")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "the first" {
		t.Errorf("what was there before is now %.20q, %v", b, err)
	}
	if left := names(t, dir); !slices.Equal(left, []string{"result.json"}) {
		t.Errorf("a failing writer leaves %q", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("others cannot read it: %v, %v", info.Mode(), err)
	}
	// Renaming cannot replace a folder that has something in it.
	if err := writeWhole(filepath.Dir(path), func(io.Writer) error { return nil }); err == nil {
		t.Error("a folder was replaced")
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func programEnv() []string {
	variable, value := raceSettings()
	return append(os.Environ(), variable+"="+value)
}

// started is a run of the program as a process.
type started struct {
	*exec.Cmd
	dir            string
	stdout, stderr keptWriter
}

func startBench(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{dir: t.TempDir()}
	s.Cmd = exec.CommandContext(t.Context(), processName, append([]string{"bench"}, args...)...)
	s.Dir, s.Stdout, s.Stderr, s.Env = s.dir, &s.stdout, &s.stderr, programEnv()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *started) interrupt(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end of the program, and gives its exit code. The time that it has
// only ends a hang.
func (s *started) ends(t *testing.T) int {
	t.Helper()
	stop := time.AfterFunc(5*time.Minute, func() { _ = s.Process.Kill() })
	defer stop.Stop()
	if err := s.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return s.ProcessState.ExitCode()
}

func serveTruth(t *testing.T, s truth.Script) *truth.Server {
	t.Helper()
	srv, err := truth.NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(context.WithoutCancel(t.Context()), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// probeTokens is how many tokens a probe asks for, by which it is told from the load.
const probeTokens = 8

func TestFirstInterruptDrainsAndWritesEverything(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := t.TempDir()
		url, served := network.serveScript(t, truth.Script{TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond})
		run := startProgram(t, network, "bench", "--url", url, "-c", "4", "--until-interrupted", "--osl", "32",
			"--artifact-dir", dir)
		ofLoad := func() (all []truth.Request) {
			return slices.DeleteFunc(served.Requests(), func(r truth.Request) bool { return r.Asked == probeTokens })
		}
		until(t, "load", func() bool { return len(ofLoad()) > 0 })
		time.Sleep(900 * time.Millisecond) // each takes 355 ms: two of each user are done, and one is in flight
		run.signals <- os.Interrupt
		if code := <-run.code; code != int(Interrupted) {
			t.Errorf("exit code %d, want 130", code)
		}
		if !strings.HasPrefix(run.stdout.String(), "INCONCLUSIVE  interrupted after ") {
			t.Errorf("standard output:\n%s", &run.stdout)
		}
		if want := "stopping; interrupt again to exit at once\n"; run.stderr.String() != want {
			t.Errorf("standard error is %q, want %q", &run.stderr, want)
		}
		files := []string{"bench.json", "profile_export.jsonl", "profile_export_aiperf.json"}
		if got := names(t, dir); !slices.Equal(got, files) {
			t.Errorf("files %q", got)
		}
		var profile struct {
			Cancelled bool `json:"was_cancelled"`
			Count     struct {
				Avg float64 `json:"avg"`
			} `json:"request_count"`
		}
		readJSON(t, filepath.Join(dir, "profile_export_aiperf.json"), &profile)
		for _, r := range ofLoad() {
			if r.Outcome != truth.Served {
				t.Errorf("request %d was not awaited: %s", r.Index, r.Outcome)
			}
		}
		if n := len(ofLoad()); n != 12 || !profile.Cancelled || profile.Count.Avg != float64(n) {
			t.Errorf("the export says cancelled %v with %v requests, the server %d", profile.Cancelled,
				profile.Count.Avg, n)
		}
	})
}

func TestSecondInterruptExitsAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := t.TempDir()
		t.Cleanup(synctest.Wait) // for what the end of the server ends, before the folder is removed
		url, _ := network.serveScript(t, truth.Script{Faults: []truth.Fault{{Kind: truth.Stall, Share: 1}}, Spare: 20})
		run := startProgram(t, network, "bench", "--url", url, "-c", "2", "--until-interrupted", "--osl", "32",
			"--artifact-dir", dir)
		time.Sleep(5 * time.Second) // all that are spared have been served, and two stall
		run.signals <- os.Interrupt
		time.Sleep(5 * time.Second) // it waits for what will never come
		run.signals <- os.Interrupt
		begun := time.Now()
		if code := <-run.code; code != int(Interrupted) {
			t.Errorf("exit code %d, want 130", code)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %s to exit", took)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Errorf("it left %q", left)
		}
	})
}

// The second signal ends the process, whatever it still waits for.
func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	srv := serveTruth(t, truth.Script{Faults: []truth.Fault{{Kind: truth.Stall, Share: 1}}, Spare: 20})
	run := startBench(t, "--url", srv.URL(), "-c", "2", "--until-interrupted", "--osl", "32")
	until(t, "a stall", func() bool { return len(srv.Requests()) >= 22 })
	run.interrupt(t)
	until(t, "word of the first", func() bool { return strings.Contains(run.stderr.String(), "interrupt again") })
	run.interrupt(t)
	if code := run.ends(t); code != int(Interrupted) {
		t.Errorf("exit code %d, want 130", code)
	}
	if left := names(t, run.dir); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// An interrupt while the first answer is awaited, which a cold server may take
// minutes for, ends the wait.
func TestInterruptEndsTheProbe(t *testing.T) {
	t.Parallel()
	srv := serveTruth(t, truth.Script{TTFT: time.Hour})
	run := startBench(t, "--url", srv.URL())
	until(t, "a probe", func() bool { return len(srv.Requests()) > 0 })
	run.interrupt(t)
	if code := run.ends(t); code != int(Interrupted) {
		t.Errorf("exit code %d, want 130", code)
	}
	if strings.Contains(run.stderr.String(), "error:") || run.stdout.String() != "" {
		t.Errorf("it said %s%s", &run.stdout, &run.stderr)
	}
	if left := names(t, run.dir); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// session is one call in a console block of a page: what is typed, what the
// page shows of the answer, and the exit code.
type session struct {
	line    int
	command string
	output  []string
	code    int
}

// sessions reads the calls from a page. An exit code other than 0
// is shown in the page as a shell shows it: "$ echo $?" and the number.
func sessions(t *testing.T, page string) []session {
	t.Helper()
	var all []session
	inside, asked := false, false
	for i, line := range strings.Split(page, "\n") {
		command, typed := strings.CutPrefix(line, "$ ")
		last := len(all) - 1
		switch {
		case line == "```console":
			inside, asked = true, false
		case line == "```":
			inside = false
		case !inside:
		case typed && command == "echo $?":
			asked = true
		case typed:
			asked = false
			all = append(all, session{line: i + 1, command: command})
		case last < 0:
		case asked:
			if _, err := fmt.Sscan(line, &all[last].code); err != nil {
				t.Fatalf("line %d: %q is no exit code", i+1, line)
			}
		default:
			all[last].output = append(all[last].output, line)
		}
	}
	return all
}

func TestPageShowsWhatTheProgramDoes(t *testing.T) {
	for file, c := range map[string]struct {
		played string // what a call has in it that a test can make
		least  int
		run    func(*testing.T, string) (string, int)
	}{"bench.md": {"aicr bench --demo", 4, typedInVirtualTime}, "simulator.md": {"aicr sim play", 3, typed}} {
		page, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		played := 0
		for _, s := range sessions(t, string(page)) {
			if !strings.Contains(s.command, c.played) {
				continue
			}
			played++
			t.Run(fmt.Sprintf("%s:%d", file, s.line), func(t *testing.T) {
				out, code := c.run(t, s.command)
				if code != s.code {
					t.Fatalf("%s: exit code %d, the page says %d:\n%s", s.command, code, s.code, out)
				}
				if missing := unshown(s.output, strings.Split(out, "\n")); len(missing) > 0 {
					t.Errorf("%s: the page shows, but the program does not print:\n%s\nbut:\n%s", s.command,
						strings.Join(missing, "\n"), out)
				}
			})
		}
		if played < c.least {
			t.Errorf("%s has %d calls of %s, which is not worth a test", file, played, c.played)
		}
	}
}

// typed gives what a shell prints of a command, and its exit code.
func typed(t *testing.T, command string) (string, int) {
	t.Helper()
	t.Parallel()
	cmd := exec.Command("sh", "-c", `aicr() { `+processName+` "$@"; }; `+command)
	cmd.Dir, cmd.Env = t.TempDir(), programEnv()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// typedInVirtualTime does so with a command that measures: nothing but words apart.
func typedInVirtualTime(t *testing.T, command string) (out string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	inVirtualTime(t, func(t *testing.T, network Network) {
		var said keptWriter
		env := testEnv(nil, strings.Fields(command)[1:]...)
		env.Stdout, env.Stderr, env.Network = &said, &said, network
		code = Run(t.Context(), env)
		out = said.String()
	})
	return out, code
}

// unshown lists the lines of a page that the program's answer does not have, in
// their order. Lines are compared up to their first number, since every run has
// others.
func unshown(page, answer []string) []string {
	before := func(line string) string {
		if i := strings.IndexAny(line, "0123456789█"); i >= 0 {
			line = line[:i]
		}
		return strings.Join(strings.Fields(line), " ")
	}
	var missing []string
	at := 0
	for _, line := range page {
		if line == "…" || before(line) == "" {
			continue
		}
		i := slices.IndexFunc(answer[at:], func(a string) bool { return before(a) == before(line) })
		if i < 0 {
			missing = append(missing, line)
			continue
		}
		at += i + 1
	}
	return missing
}

func TestACountBelowWhatWasSentIsTold(t *testing.T) {
	work, err := workload.Synthetic(workload.Spec{Model: "m", InputTokens: workload.Length{Mean: 8}, OutputTokens: workload.Length{Mean: 4}, Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	answer := load.Record{Sent: 1, FirstContent: 2, LastContent: 9, End: 9, Phase: load.Steady, Flags: load.HasUsage, Chunks: 4, CompletionTokens: 4}
	short := answer
	short.CompletionTokens = 2
	r := &benchReport{job: &benchJob{options: &benchOptions{output: 4}}, work: work,
		res: &load.Result{Log: load.NewLog([]load.Record{answer, short}, nil, nil)}}
	w := r.workload(metric.Summarize(r.res.Log, nil, r.options()))
	if w.Undercounted != 1 || w.TokensPerChunk == nil || *w.TokensPerChunk != 0.75 {
		t.Errorf("%+v", w)
	}
}
