package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// validated validates in this process, and gives the folder of the run.
func validated(t *testing.T, args ...string) (dir string, code int, said string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	said, end := runs(t, append([]string{"validate", "--run", dir}, args...)...)
	return dir, int(end), said
}

// rejudged is what aicr judge says of a run, and how it ends.
func rejudged(t *testing.T, dir string) (product []byte, code int) {
	t.Helper()
	var out, said bytes.Buffer
	env := testEnv(nil, "judge", dir, "-o", "json")
	env.Stdout, env.Stderr = &out, &said
	code = Run(t.Context(), env)
	if out.Len() == 0 {
		t.Fatalf("aicr judge %s: exit code %d\n%s", dir, code, &said)
	}
	return out.Bytes(), code
}

func readFile(t *testing.T, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// killedAt names the environment variable by which this test's own program is told
// where to end without a word, and the folder of its run.
const killedAt = "AICR_TEST_KILLED_AT"

// doomed is a fleet whose validation is killed at some point.
type doomed struct {
	*virtualFleet
	dir, point string
}

func (d doomed) kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // it comes at any moment
}

func (d doomed) reach(point string) {
	if d.point == point {
		d.kill()
	}
}

func (d doomed) Start(ctx context.Context, tell func(spec.Event) error) (bool, error) {
	d.reach("start")
	return d.virtualFleet.Start(ctx, tell)
}

func (d doomed) Load(ctx context.Context, number int, p spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	d.reach(fmt.Sprintf("episode %d", number))
	d.reach(fmt.Sprintf("writing %d", number-1)) // it was written before anybody saw it
	if d.point == fmt.Sprintf("writing %d", number) {
		go func() {
			for {
				if part, _ := filepath.Glob(filepath.Join(d.dir, ".episode-*")); len(part) > 0 {
					d.kill()
				}
			}
		}()
	}
	return d.virtualFleet.Load(ctx, number, p)
}

func (d doomed) Write(p []byte) (int, error) {
	d.reach("print")
	return len(p), nil
}

// validateUntilKilled does what such a program is for.
func validateUntilKilled(t *testing.T, told string) {
	point, dir, _ := strings.Cut(told, "@")
	s, err := readScenario(nil, "small")
	if err != nil {
		t.Fatal(err)
	}
	fleet := doomed{&virtualFleet{scenario: s.Scenario, seed: 1}, dir, point}
	env := testEnv(nil)
	env.Stdout = fleet
	a := newApp(env)
	o := &validateOptions{profile: spec.ProfileQuick, format: outputText}
	j := &validateJob{papers: &papers{}, app: a, options: o, named: &s}
	if err := j.makePlan(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	end := func() time.Time { fleet.reach("end"); return simulatedEpoch() }
	target := &reached{Target: fleet, begun: simulatedEpoch(), close: func() {}, end: end}
	if err := j.carryOut(t.Context(), dir, target, a.showRun(j.plan)); err != nil {
		t.Fatal(err)
	}
}

// TestAKillLeavesARunThatCanBeJudged kills the program at each kind of moment: what is
// there is whole, what was whole is there, and what is judged follows from it. The
// proof kills it at random ones.
func TestAKillLeavesARunThatCanBeJudged(t *testing.T) {
	if told := os.Getenv(killedAt); told != "" {
		validateUntilKilled(t, told)
		return
	}
	t.Parallel()
	complete, code, said := validated(t, "--sim", "small", "--profile", "quick", "-q")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	record, err := spec.ReadRun(os.DirFS(complete))
	if err != nil {
		t.Fatal(err)
	}
	all := len(record.Numbers())
	for point, want := range map[string]string{
		"start":     "a start",
		"episode 0": "a start",
		"episode 1": "some episodes",
		"writing 1": "some episodes",
		"episode 2": "some episodes",
		"writing 2": "some episodes",
		"end":       "all but the verdict",
		"print":     "all and the verdict",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAKillLeavesARunThatCanBeJudged$")
			cmd.Env = append(os.Environ(), killedAt+"="+point+"@"+dir, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it was not killed:\n%s", out)
			}
			if got := checkKilled(t, dir, complete, all); got != want {
				t.Errorf("it was killed after %s, not after %s:\n%s", got, want, out)
			}
		})
	}
}

// checkKilled checks the folder of a run that was killed, and says how far it had
// come.
func checkKilled(t *testing.T, dir, complete string, all int) string {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "nothing"
	}
	record, err := spec.ReadRun(os.DirFS(dir))
	if err != nil {
		t.Fatalf("a killed run cannot be read: %v", err)
	}
	there := map[int]bool{}
	for _, n := range record.Numbers() {
		there[n] = true
		for _, name := range []string{"episode.json", "requests.jsonl.gz", "series.jsonl.gz"} {
			part := filepath.Join(episodesDir, fmt.Sprintf("%03d", n), name)
			if !bytes.Equal(readFile(t, dir, part), readFile(t, complete, part)) {
				t.Errorf("%s is not what it was", part)
			}
		}
	}
	for _, e := range record.Events {
		if e.Kind == spec.EventStage && e.Stage == stageEpisode && e.Episode > 0 && !there[e.Episode-1] {
			t.Errorf("episode %d was whole, since the next had begun, and is lost", e.Episode-1)
		}
	}
	verdict, err := os.ReadFile(filepath.Join(dir, verdictFile))
	product, code := rejudged(t, dir)
	switch {
	case err == nil && !bytes.Equal(verdict, product):
		t.Errorf("verdict.json does not follow from the record:\n%s", cmp.Diff(string(verdict), string(product)))
	case !bytes.Equal(readFile(t, dir, verdictFile), product):
		t.Errorf("what was judged was not written")
	}
	if len(there) < all && code == 0 {
		t.Errorf("%d of %d episodes pass:\n%s", len(there), all, product)
	}
	switch {
	case err == nil:
		return "all and the verdict"
	case len(there) == all:
		return "all but the verdict"
	case len(there) > 0:
		return "some episodes"
	}
	return "a start"
}

// interrupter sends an interrupt with the first line that has a text.
type interrupter struct {
	keptWriter
	at      string
	signals chan os.Signal
	once    sync.Once
}

func (i *interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), i.at) {
		i.once.Do(func() { i.signals <- os.Interrupt })
	}
	return i.keptWriter.Write(p)
}

// TestAnInterruptIsJudgedByWhatThereIs: the first Ctrl-C ends the run in good order.
func TestAnInterruptIsJudgedByWhatThereIs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	env := testEnv(nil, "validate", "--run", dir, "--sim", "s1", "--profile", "certify")
	stderr := &interrupter{at: "episode 2 of ", signals: make(chan os.Signal)}
	var stdout bytes.Buffer
	env.Stdout, env.Stderr, env.Signals = &stdout, stderr, stderr.signals
	if code := Run(t.Context(), env); code != int(Interrupted) {
		t.Errorf("exit code %d, want 130\n%s", code, stderr)
	}
	if !strings.HasPrefix(stdout.String(), "INCONCLUSIVE  ") {
		t.Errorf("standard output:\n%s", &stdout)
	}
	if !strings.Contains(stderr.String(), "stopping; interrupt again to exit at once\n") {
		t.Errorf("standard error:\n%s", stderr)
	}
	if events := readFile(t, dir, eventsFile); !bytes.Contains(events, []byte(`"kind":"interrupt"`)) {
		t.Errorf("the interrupt is not kept:\n%s", events)
	}
	product, code := rejudged(t, dir)
	if want := readFile(t, dir, verdictFile); !bytes.Equal(product, want) || code != int(Unmeasured) {
		t.Errorf("exit code %d, judged again:\n%s", code, cmp.Diff(string(want), string(product)))
	}
}

// unkeepable is a fleet whose third record cannot be written.
type unkeepable struct{ *virtualFleet }

func (u unkeepable) Load(ctx context.Context, number int, p spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	e, err := u.virtualFleet.Load(ctx, number, p)
	if err == nil && number == 3 {
		e.Episode.LoadedS = math.NaN()
	}
	return e, err
}

// TestARecordThatCannotBeKeptIsTold: the run ends, what is there is still judged and
// printed, and the error names the file.
func TestARecordThatCannotBeKeptIsTold(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	env := testEnv(nil)
	env.Stdout, env.Stderr = &out, &said
	a := newApp(env)
	s, err := readScenario(nil, "small")
	if err != nil {
		t.Fatal(err)
	}
	o := &validateOptions{profile: spec.ProfileStandard, format: outputText}
	j := &validateJob{papers: &papers{}, app: a, options: o, named: &s}
	if err := j.makePlan(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	fleet := &virtualFleet{scenario: s.Scenario, seed: 1}
	view := a.showRun(j.plan)
	err = j.carryOut(t.Context(), dir, &reached{Target: unkeepable{fleet}, begun: simulatedEpoch(), close: func() {},
		end: simulatedEpoch}, view)
	all := problems(err, Failed, "")
	if worst(all) != Unmeasured || len(all) != 1 || !strings.Contains(all[0].Error(), "episode.json: loaded_s is NaN, which cannot be written as JSON") {
		t.Errorf("error %v", err)
	}
	if got := out.String(); !strings.HasPrefix(got, "INCONCLUSIVE  ") || !strings.Contains(got, "\n  2 episodes, ") {
		t.Errorf("the two episodes that are there are not judged:\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, verdictFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a verdict was written: %v", err)
	}
}

// TestAFullDiskEndsTheRecord: the first line that cannot be written is the last.
func TestAFullDiskEndsTheRecord(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		full, err = os.Open(t.TempDir()) // where there is none, what cannot be written either
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{dir: t.TempDir(), events: full}
	err = r.Event(spec.Event{Kind: spec.EventStage, Stage: stageStart})
	if all := problems(err, Failed, ""); worst(all) != Unmeasured || !strings.Contains(err.Error(), full.Name()) {
		t.Errorf("error %v", err)
	}
	if again := r.Episode(&spec.EpisodeRecord{}); !errors.Is(again, err) {
		t.Errorf("an episode after it: %v", again)
	}
	if closed := r.close(&spec.Verdict{}, time.Unix(0, 0)); !errors.Is(closed, err) {
		t.Errorf("the end: %v", closed)
	}
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

func TestCostOfAPlan(t *testing.T) {
	for _, c := range []struct {
		profile            string
		workers, durationS int
		want               spec.Cost
	}{
		{spec.ProfileStandard, 8, 50, spec.Cost{ExpectedEpisodes: 5, WorstEpisodes: 13, ExpectedS: 300, WorstS: 740, ExpectedGPUMinutes: 40, WorstGPUMinutes: 740. / 60 * 8}},
		{spec.ProfileStandard, 2, 20, spec.Cost{ExpectedEpisodes: 13, WorstEpisodes: 30, ExpectedS: 350, WorstS: 775, ExpectedGPUMinutes: 700. / 60, WorstGPUMinutes: 1550. / 60}},
		{spec.ProfileQuick, 8, 50, spec.Cost{ExpectedEpisodes: 3, WorstEpisodes: 8, ExpectedS: 190, WorstS: 465, ExpectedGPUMinutes: 190. / 60 * 8, WorstGPUMinutes: 62}},
		{spec.ProfileCertify, 8, 50, spec.Cost{ExpectedEpisodes: 14, WorstEpisodes: 26, ExpectedS: 795, WorstS: 1455, ExpectedGPUMinutes: 106, WorstGPUMinutes: 194}},
		{spec.ProfileSmoke, 1, 15, spec.Cost{ExpectedEpisodes: 2, WorstEpisodes: 4, ExpectedS: 60, WorstS: 100, ExpectedGPUMinutes: 1, WorstGPUMinutes: 100. / 60}},
		{spec.ProfileSmoke, 0, 50, spec.Cost{ExpectedEpisodes: 2, WorstEpisodes: 4, ExpectedS: 135, WorstS: 245, ExpectedGPUMinutes: 2.25, WorstGPUMinutes: 245. / 60}},
	} {
		p := newApp(testEnv(nil)).newPlanner(nil, nil)
		point := spec.OperatingPoint{Workers: c.workers, Concurrency: 128 * max(1, c.workers), DurationS: float64(c.durationS), OutputTokens: 128}
		plan, err := p.plan(c.profile, defaultStability(c.profile), point, 1)
		if err != nil {
			t.Fatal(err)
		}
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if diff := cmp.Diff(c.want, plan.Cost, near); diff != "" {
			t.Errorf("%s, %d workers, %d s (-want +got):\n%s", c.profile, c.workers, c.durationS, diff)
		}
	}
}

func TestHalfTheLoadIsWholeForEachWorker(t *testing.T) {
	for _, c := range []struct {
		workers, concurrency int
		durationS            float64
		want                 *spec.HalfLook
	}{
		{8, 1024, 50, &spec.HalfLook{Concurrency: 512, DurationS: 20}},
		{2, 6, 10, &spec.HalfLook{Concurrency: 2, DurationS: 10}},
		{0, 3, 50, &spec.HalfLook{Concurrency: 1, DurationS: 20}},
		{4, 4, 50, nil}, // there is no half of one
	} {
		got := halfOf(spec.OperatingPoint{Workers: c.workers, Concurrency: c.concurrency, DurationS: c.durationS})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d of %d workers (-want +got):\n%s", c.concurrency, c.workers, diff)
		}
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, path)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestProgressOfARun: on a terminal a block is redrawn, elsewhere a line is said for
// each stage and each episode.
func TestProgressOfARun(t *testing.T) {
	plan := &spec.Plan{Cost: spec.Cost{ExpectedEpisodes: 5}, Thresholds: spec.Thresholds{MaxEpisodes: 11}, Half: &spec.HalfLook{DurationS: 20}}
	var said bytes.Buffer
	env := testEnv(nil)
	env.Stderr = &said
	v := newApp(env).showRun(plan)
	tests := []spec.Walk{{Ledger: spec.Stability, Low: -2.94, High: 2.94, Values: []float64{-0.6}}}
	v.Stage(stageStart, 0)
	v.Stage(stageEpisode, 0)
	v.Stage(stageEpisode, 3)
	v.Episode(&spec.Episode{Number: 3})
	v.Judged(3, &spec.Verdict{Tests: tests}, nil)
	v.close()
	v.close() // twice is once
	want := `start: waiting for every worker to answer
half the load for 20s: is the operating point past the knee?
episode 3 of 5–11: throughput not measured, ttft p50 – p99 –, 0 errors; decided
`
	if diff := cmp.Diff(want, said.String()); diff != "" {
		t.Errorf("in a log (-want +got):\n%s", diff)
	}
	block := strings.Join(v.Block(80), "\n")
	for _, part := range []string{"episode 3 of 5–11\n", "stability   good at -2.94 [", "●", "] bad at +2.94, now -0.60"} {
		if !strings.Contains(block, part) {
			t.Errorf("the block has no %q:\n%s", part, block)
		}
	}
}

// TestAServedFleetIsValidated: over HTTP a healthy fleet passes, and each worker has its
// name in the record.
func TestAServedFleetIsValidated(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := filepath.Join(t.TempDir(), "run")
		run := startProgram(t, network, "validate", "--run", dir, "--sim", "small", "--real-time", "--profile", "smoke",
			"--episode-duration", "10", "--concurrency-per-gpu", "2", "-o", "json")
		code := <-run.code
		var v spec.Verdict
		readJSON(t, filepath.Join(dir, verdictFile), &v)
		if v.Verdict != spec.Pass || code != 0 || len(v.Findings) > 0 {
			t.Errorf("exit code %d, %s: %s, %v\n%s", code, v.Verdict, v.Reason, v.Findings, &run.stderr)
		}
		product, _ := rejudged(t, dir)
		if out := run.stdout.String(); string(product) != out || !bytes.Equal(product, readFile(t, dir, verdictFile)) {
			t.Errorf("judged again:\n%s", cmp.Diff(out, string(product)))
		}
		record, err := spec.ReadRun(os.DirFS(dir))
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
	})
}

// A stall that is injected into a served fleet is found over HTTP, by the engine and the
// observers, and named.
func TestAStallOverHTTPIsNamed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		file := filepath.Join(t.TempDir(), "stalls.yaml")
		err := os.WriteFile(file, []byte(`apiVersion: aicr.run/v1alpha1
kind: Scenario
metadata: {name: stalls}
fleet: {workers: 2, profile: small}
load: {concurrencyPerGPU: 4, ramp: 1s, episode: 12s, inputTokens: 64, outputTokens: 32}
faults:
  - {kind: worker-stall, workers: [1], factor: 1000, at: 4s, lasts: 5s}
`), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "run")
		run := startProgram(t, network, "validate", "--run", dir, "--sim", file, "--real-time", "--profile", "quick",
			"-o", "json")
		code := <-run.code
		var v spec.Verdict
		readJSON(t, filepath.Join(dir, verdictFile), &v)
		if v.Verdict != spec.Fail || code != int(Failed) {
			t.Fatalf("exit code %d, %s: %s\n%s", code, v.Verdict, v.Reason, &run.stderr)
		}
		if f := v.Findings[0]; f.ID != "worker/stall" || !slices.Equal(f.Workers, []string{"1"}) || len(f.GPUs) != 1 {
			t.Errorf("found %s of %v on %v: %s", f.ID, f.Workers, f.GPUs, v.Reason)
		}
	})
}

// TestHalfTheLoadIsOfTheFirstEpisodesFleet: what differs between the look at half
// the load and the first episode is the load alone.
func TestHalfTheLoadIsOfTheFirstEpisodesFleet(t *testing.T) {
	s, err := readScenario(nil, "small")
	if err != nil {
		t.Fatal(err)
	}
	point := newApp(testEnv(nil)).newPlanner(nil, &s).point(spec.ProfileStandard, pointFlags{})
	play := func(number int) []spec.Request {
		e, err := (&virtualFleet{scenario: s.Scenario, seed: 3}).Load(t.Context(), number, point)
		if err != nil || e.Episode.Number != number {
			t.Fatalf("episode %d: %v", number, err)
		}
		return e.Requests
	}
	if diff := cmp.Diff(play(1), play(0)); diff != "" {
		t.Errorf("at the same load the two differ (-first +half):\n%.500s", diff)
	}
	if cmp.Equal(play(1), play(2)) {
		t.Error("the second episode is the first again")
	}
}
