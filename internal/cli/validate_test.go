package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// startValidate starts the program in a folder of its own.
func startValidate(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{dir: t.TempDir()}
	s.Cmd = exec.Command(program, append([]string{"validate", "--run", "run"}, args...)...)
	s.Dir, s.Stdout, s.Stderr, s.Env = s.dir, &s.stdout, &s.stderr, programEnv()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() })
	return s
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

// TestAKillLeavesARunThatCanBeJudged kills the program at many moments: what is
// there is whole, what was whole is there, and what is judged follows from it.
func TestAKillLeavesARunThatCanBeJudged(t *testing.T) {
	t.Parallel()
	const kills = 50
	args := []string{"--sim", "small", "--profile", "quick", "-q"}
	begun := time.Now()
	whole := startValidate(t, args...)
	if code := whole.ends(t, time.Minute); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, &whole.stdout, &whole.stderr)
	}
	took := time.Since(begun)
	complete := filepath.Join(whole.dir, "run")
	record, err := spec.ReadRun(os.DirFS(complete))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the moments are as random as the machine is
	found := map[string]int{}
	for range kills {
		killed := startValidate(t, args...)
		time.Sleep(time.Duration(rng.Float64() * float64(took)))
		_ = killed.Process.Kill() // it may be over already
		killed.ends(t, time.Minute)
		found[checkKilled(t, filepath.Join(killed.dir, "run"), complete, len(record.Numbers()))]++
		if t.Failed() {
			break
		}
	}
	t.Logf("killed at %v", found)
	if found["some episodes"] == 0 {
		t.Errorf("no kill was in the middle of a run: %v", found)
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

// TestAnInterruptIsJudgedByWhatThereIs: the first Ctrl-C ends the run in good order.
func TestAnInterruptIsJudgedByWhatThereIs(t *testing.T) {
	t.Parallel()
	run := startValidate(t, "--sim", "s1", "--profile", "certify")
	dir := filepath.Join(run.dir, "run")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, episodesDir, "002")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no second episode came:\n%s", &run.stderr)
		}
	}
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := run.ends(t, time.Minute); code != int(Interrupted) {
		t.Errorf("exit code %d, want 130\n%s", code, &run.stderr)
	}
	if !strings.HasPrefix(run.stdout.String(), "INCONCLUSIVE  ") {
		t.Errorf("standard output:\n%s", &run.stdout)
	}
	if !strings.Contains(run.stderr.String(), "stopping; interrupt again to exit at once\n") {
		t.Errorf("standard error:\n%s", &run.stderr)
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
	s, err := readScenario("small")
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
	if worst(all) != Unmeasured || len(all) != 1 || !strings.Contains(all[0].Error(), "episode.json: json: unsupported value: NaN") {
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
episode 3 of 5–11: – tokens/s, ttft p50 – p99 –, 0 errors; stability -0.60; decided
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

// TestAServedFleetIsValidated: over real HTTP a healthy fleet passes, or a machine
// that was too busy says so of itself; it is never blamed on the fleet.
func TestAServedFleetIsValidated(t *testing.T) {
	t.Parallel()
	run := startValidate(t, "--sim", "small", "--real-time", "--profile", "smoke", "--episode-duration", "10", "--concurrency-per-gpu", "2", "-o", "json")
	code := run.ends(t, 3*time.Minute)
	dir := filepath.Join(run.dir, "run")
	var v spec.Verdict
	readJSON(t, filepath.Join(dir, verdictFile), &v)
	switch {
	case v.Verdict == spec.Pass && code == 0:
	case v.Verdict == spec.Invalid && code == int(Unmeasured) && len(v.Findings) > 0 && strings.HasPrefix(v.Findings[0].ID, "client/"):
		t.Logf("the machine was too busy: %s", v.Reason)
	default:
		t.Errorf("exit code %d, %s: %s\n%s", code, v.Verdict, v.Reason, &run.stderr)
	}
	if product, _ := rejudged(t, dir); !bytes.Equal(product, run.stdout.Bytes()) || !bytes.Equal(product, readFile(t, dir, verdictFile)) {
		t.Errorf("judged again:\n%s", cmp.Diff(run.stdout.String(), string(product)))
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
}

// A stall that is injected into a served fleet is found over real HTTP, by the real
// engine and the real observers, and named; a machine that is too busy for that says
// so, and is never wrong.
func TestAStallOverHTTPIsNamed(t *testing.T) {
	t.Parallel()
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
	run := startValidate(t, "--sim", file, "--real-time", "--profile", "quick", "-o", "json")
	code := run.ends(t, 5*time.Minute)
	var v spec.Verdict
	readJSON(t, filepath.Join(run.dir, "run", verdictFile), &v)
	switch {
	case v.Verdict == spec.Invalid && code == int(Unmeasured) && len(v.Findings) > 0 && strings.HasPrefix(v.Findings[0].ID, "client/"):
		t.Logf("the machine was too busy: %s", v.Reason)
	case v.Verdict == spec.Fail && code == int(Failed):
		if f := v.Findings[0]; f.ID != "worker/stall" || !slices.Equal(f.Workers, []string{"1"}) || len(f.GPUs) != 1 {
			t.Errorf("found %s of %v on %v: %s", f.ID, f.Workers, f.GPUs, v.Reason)
		}
	default:
		t.Errorf("exit code %d, %s: %s\n%s", code, v.Verdict, v.Reason, &run.stderr)
	}
}

// TestHalfTheLoadIsOfTheFirstEpisodesFleet: what differs between the look at half
// the load and the first episode is the load alone.
func TestHalfTheLoadIsOfTheFirstEpisodesFleet(t *testing.T) {
	s, err := readScenario("small")
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
