//go:build linux

package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
	"aicr/test/busy"
)

// What a validation asks of a stack: little, and of workers so slow that a machine
// which others use hardly shows in them.
const (
	perWorker = 4 // in flight
	input     = 128
	output    = 32

	usualPace = "0.25" // of a real engine's
	tenthOfIt = "0.025"

	frozenFor = 5 * time.Second // after some 8 s the frontend forgets a worker
)

// threeWorkers plans workers of which all but the last have the usual pace.
func threeWorkers(lastPace string) plan {
	p := plan{router: "least-loaded"}
	for _, pace := range []string{usualPace, usualPace, lastPace} {
		p.workers = append(p.workers, []string{"--speedup-ratio", pace, "--no-enable-prefix-caching"})
	}
	return p
}

// validation is aicr validate at work on a stack.
type validation struct {
	*running
	dir string
}

// judgement is what became of it.
type judgement struct {
	finished
	dir     string
	verdict spec.Verdict
}

// validate starts a validation of the stack and of every worker's page.
func (s *stack) validate(t *testing.T, flags ...string) *validation {
	t.Helper()
	v := &validation{dir: filepath.Join(t.TempDir(), "run")}
	argv := []string{program, "validate", "--url", s.url, "--model", modelName, "--workers", strconv.Itoa(len(s.workers)),
		"--concurrency-per-gpu", strconv.Itoa(perWorker), "--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output), "--ramp", "1s", "--run", v.dir}
	for _, w := range s.workers {
		argv = append(argv, "--worker-metrics", w.metrics)
	}
	v.running = begin(t, bare(s.dir), append(argv, flags...)...)
	return v
}

// exits are the program's exit codes.
var exits = map[spec.State]int{spec.Pass: 0, spec.Skip: 0, spec.Fail: 1, spec.Inconclusive: 3, spec.Invalid: 3}

// result waits for the end. The verdict is that of the run's folder, and the exit
// code has to be its own.
func (v *validation) result(t *testing.T) *judgement {
	t.Helper()
	j := &judgement{finished: v.wait(t, 4*patience), dir: v.dir}
	text, err := os.ReadFile(filepath.Join(j.dir, verdictFile))
	if err == nil {
		err = json.Unmarshal(text, &j.verdict)
	}
	if err != nil {
		t.Fatalf("aicr validate exits with %d and no verdict: %v\n%s%s", j.code, err, j.stdout, j.stderr)
	}
	if want := exits[j.verdict.Verdict]; j.code != want {
		t.Errorf("%s exits with %d, want %d", j.verdict.Verdict, j.code, want)
	}
	t.Logf("in %s:\n%s%s: %s", j.wall.Round(time.Second), j.stderr, j.verdict.Verdict, j.verdict.Reason)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("aicr validate said:\n%s%s", j.stdout, j.kept(t))
		}
	})
	return j
}

const verdictFile = "verdict.json"

// kept keeps a run of a test that failed, and says where.
func (j *judgement) kept(t *testing.T) string {
	dir := filepath.Join(keep, "failed", strings.ReplaceAll(t.Name(), "/", "-")+"-"+filepath.Base(filepath.Dir(j.dir)))
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(j.dir))
	}
	if err != nil {
		return err.Error()
	}
	return "its run is in " + dir
}

// decided validates until that comes to a verdict, twice at most. On a machine that
// others keep busy the client says that it cannot vouch for its measurement, or that it
// needs more of it: that says nothing about the stack. An INVALID must have the client's
// own audit for a reason.
func decided(t *testing.T, once func() *judgement) *judgement {
	t.Helper()
	var j *judgement
	busy.Measure(t, func() (tooBusy string) {
		j = once()
		if v := j.verdict.Verdict; v == spec.Pass || v == spec.Fail {
			return ""
		}
		for _, f := range j.verdict.Findings {
			if f.Severity == spec.SeverityInvalid && !strings.HasPrefix(f.ID, "client/") {
				t.Errorf("INVALID, and not for the client's sake: %s", jsonOf(f))
			}
		}
		return fmt.Sprintf("%s: %s", j.verdict.Verdict, j.verdict.Reason)
	})
	return j
}

// during waits until an episode has been loaded for so long.
func (v *validation) during(t *testing.T, episode int, after time.Duration) {
	t.Helper()
	eventually(t, 2*patience, func(context.Context) error {
		if !v.alive() {
			t.Fatalf("aicr validate ended before episode %d: %s\n%s%s", episode, v.ended(), &v.stdout, &v.stderr)
		}
		events, err := os.ReadFile(filepath.Join(v.dir, "events.jsonl"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(events)) {
			var e spec.Event // the last line may not be whole yet
			if json.Unmarshal([]byte(line), &e) == nil && e.Kind == spec.EventStage && e.Stage == "episode" && e.Episode == episode {
				return nil
			}
		}
		return fmt.Errorf("episode %d has not begun", episode)
	})
	time.Sleep(after)
}

// is checks the verdict, and that of each ledger, all of which have to be there.
func (j *judgement) is(t *testing.T, verdict, integrity, capability, stability spec.State) {
	t.Helper()
	if j.verdict.Verdict != verdict {
		t.Errorf("%s: %s, want %s", j.verdict.Verdict, j.verdict.Reason, verdict)
	}
	want := []spec.Ledger{{Name: spec.Integrity, State: integrity}, {Name: spec.Capability, State: capability}, {Name: spec.Stability, State: stability}}
	for i, l := range j.verdict.Ledgers {
		if i < len(want) && want[i].State == anyState {
			want[i].State = l.State
		}
		if i >= len(want) || l.Name != want[i].Name || l.State != want[i].State || l.Reason == "" {
			t.Errorf("ledger %d is %s, want %s", i+1, jsonOf(l), jsonOf(want))
		}
	}
	if len(j.verdict.Ledgers) < len(want) {
		t.Errorf("the ledgers are %s, want all three", jsonOf(j.verdict.Ledgers))
	}
}

// anyState is of a ledger that a fault may or may not show in.
const anyState spec.State = "any"

// blames checks that one of the findings fails the run for exactly that worker, that
// nobody else is blamed, and that the reason names it.
func (j *judgement) blames(t *testing.T, w *worker, ids ...string) {
	t.Helper()
	found := false
	for _, f := range j.verdict.Findings {
		if f.Severity != spec.SeverityFail {
			continue
		}
		found = found || slices.Contains(ids, f.ID)
		if len(f.Workers) > 0 && !slices.Equal(f.Workers, []string{w.name()}) {
			t.Errorf("%s blames %s, want %s alone", f.ID, f.Workers, w.name())
		}
		if slices.Contains(ids, f.ID) && (len(f.Workers) == 0 || len(f.Evidence) == 0 || len(f.Advice) == 0) {
			t.Errorf("%s, want a name, evidence and advice", jsonOf(f))
		}
	}
	if !found {
		t.Errorf("none of %s fails it: %s", ids, jsonOf(j.verdict.Findings))
	}
	page, err := url.Parse(w.metrics)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(j.verdict.Reason, "worker "+page.Host) { // an instance id is nothing that a reader finds
		t.Errorf("the reason does not name worker %s: %s", page.Host, j.verdict.Reason)
	}
}

// without checks that something was not found.
func (j *judgement) without(t *testing.T, ids ...string) {
	t.Helper()
	for _, f := range j.verdict.Findings {
		if slices.Contains(ids, f.ID) {
			t.Errorf("found %s", jsonOf(f))
		}
	}
}

// figure is a number of the verdict, which has to be there.
func (j *judgement) figure(t *testing.T, name string) float64 {
	t.Helper()
	for _, f := range j.verdict.Figures {
		if f.Name == name && f.Value != nil {
			return *f.Value
		}
	}
	t.Fatalf("no %s in %s", name, jsonOf(j.verdict.Figures))
	return 0
}

// writeRecipe writes a recipe of this kind of stack.
func writeRecipe(t *testing.T, p spec.RecipePhase) string {
	t.Helper()
	text, err := spec.EncodeRecipe(&spec.Recipe{Name: "mockers", Phases: spec.RecipePhases{Performance: &p}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "recipe.yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A fleet of which nothing is known but a floor is held against that; what it is
// measured to have is the reference of the next run.
func TestValidateHealthyFleetPasses(t *testing.T) {
	t.Parallel() // they wait more than they work
	s := bringUp(t, threeWorkers(usualPace))
	smoke := func(recipe string) *judgement {
		return decided(t, func() *judgement {
			return s.validate(t, "--profile", "smoke", "--episode-duration", "10s", "--recipe", recipe).result(t)
		})
	}
	floor := smoke(writeRecipe(t, spec.RecipePhase{Constraints: []spec.RecipeConstraint{
		{Name: spec.ConstraintThroughput, Value: ">= 1", Unit: "tokens/s/GPU"}}}))
	floor.is(t, spec.Pass, spec.Pass, spec.Pass, spec.NotJudged)
	if !slices.ContainsFunc(floor.verdict.Notes, func(n string) bool { return strings.Contains(n, "aicr knee --write") }) {
		t.Errorf("nobody says that there is no reference: %q", floor.verdict.Notes)
	}

	j := smoke(writeRecipe(t, spec.RecipePhase{Verdict: spec.RecipeVerdict{Reference: &spec.RecipeReference{
		Throughput: floor.figure(t, "throughput"), GPUs: len(s.workers), ConcurrencyPerGPU: perWorker, InputTokens: input, OutputTokens: output}}}))
	j.is(t, spec.Pass, spec.Pass, spec.Pass, spec.NotJudged)
	j.without(t, "telemetry/gap", "worker/stall", "fleet/stall", "worker/slow", "serving/errors")
	j.tellsApart(t, s)
	j.judgedAgain(t)
}

// tellsApart checks that both witnesses know every worker, by the same names.
func (j *judgement) tellsApart(t *testing.T, s *stack) {
	t.Helper()
	var want []string
	for _, w := range s.workers {
		want = append(want, w.name())
	}
	slices.Sort(want)
	run, err := spec.ReadRun(os.DirFS(j.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range run.Numbers() {
		e, err := run.Episode(number)
		if err != nil {
			t.Fatal(err)
		}
		client, pages := map[string]bool{}, map[string]bool{}
		for _, r := range e.Requests {
			client[r.Worker] = true
		}
		for _, x := range e.Series {
			if x.Source == spec.SourceWorker {
				pages[x.Name] = true
			}
		}
		for witness, names := range map[string]map[string]bool{"the answers": client, "the pages": pages} {
			if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
				t.Errorf("episode %d: %s name the workers %q, want %q", number, witness, got, want)
			}
		}
	}
}

// judgedAgain checks that the record alone gives the verdict, to the byte.
func (j *judgement) judgedAgain(t *testing.T) {
	t.Helper()
	again := filepath.Join(t.TempDir(), "again")
	if err := os.CopyFS(again, os.DirFS(j.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(again, verdictFile)); err != nil {
		t.Fatal(err)
	}
	o := finish(t, patience, bare(t.TempDir()), program, "judge", again)
	got, err := os.ReadFile(filepath.Join(again, verdictFile))
	if err != nil {
		t.Fatalf("aicr judge exits with %d: %v\n%s", o.code, err, o.stderr)
	}
	want, err := os.ReadFile(filepath.Join(j.dir, verdictFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" || o.code != j.code {
		t.Errorf("judged again it exits with %d, with %d before (-before +again):\n%s", o.code, j.code, diff)
	}
}

// Its router gives it as much to do as the others have.
func TestValidateNamesASlowWorker(t *testing.T) {
	t.Parallel() // they wait more than they work
	s := bringUp(t, threeWorkers(tenthOfIt))
	j := decided(t, func() *judgement {
		return s.validate(t, "--profile", "smoke", "--episode-duration", "10s").result(t)
	})
	j.is(t, spec.Fail, spec.Pass, spec.Fail, spec.NotJudged)
	j.blames(t, s.workers[2], "worker/slow")
	j.without(t, "worker/stall", "fleet/stall")
	j.judgedAgain(t)
}

// One stall decides nothing. A second one on the same worker does.
func TestValidateCountsAndNamesStalls(t *testing.T) {
	t.Parallel() // they wait more than they work
	const stalls = 2
	var victim *worker
	j := decided(t, func() *judgement {
		s := bringUp(t, threeWorkers(usualPace))
		victim = s.workers[1]
		v := s.validate(t, "--profile", "quick", "--episode-duration", "15s")
		for n := range stalls {
			v.during(t, n+1, 4*time.Second)
			victim.signal(t, syscall.SIGSTOP)
			time.Sleep(frozenFor)
			victim.signal(t, syscall.SIGCONT)
		}
		return v.result(t)
	})
	j.is(t, spec.Fail, anyState, anyState, spec.Fail)
	j.blames(t, victim, "worker/stall")
	j.without(t, "worker/absent", "worker/slow", "fleet/stall", "serving/errors")
	if j.verdict.Episodes != stalls || len(j.verdict.Stalls) != stalls {
		t.Errorf("%s in %d episodes, want one in each of %d", jsonOf(j.verdict.Stalls), j.verdict.Episodes, stalls)
	}
	for i, s := range j.verdict.Stalls {
		if off := s.Seconds - frozenFor.Seconds(); s.Episode != i+1 || s.Worker != victim.name() || s.Open || math.Abs(off) > 2 {
			t.Errorf("%s, want one of %s in episode %d, of worker %s", jsonOf(s), frozenFor, i+1, victim.name())
		}
	}
	j.judgedAgain(t)

	// The same stalls, where they are only to be told.
	var told spec.Verdict
	o := finish(t, patience, bare(t.TempDir()), program, "judge", j.dir, "--stability", "report", "-o", "json")
	if err := json.Unmarshal([]byte(o.stdout), &told); err != nil {
		t.Fatalf("aicr judge exits with %d: %v\n%s", o.code, err, o.stderr)
	}
	if told.Verdict == spec.Fail || len(told.Stalls) != stalls || !slices.ContainsFunc(told.Findings, func(f spec.Finding) bool {
		return f.ID == "worker/stall" && f.Severity == spec.SeverityNote && slices.Equal(f.Workers, []string{victim.name()})
	}) {
		t.Errorf("reported and not judged: %s: %s, %s", told.Verdict, told.Reason, jsonOf(told.Findings))
	}
}

// Least-loaded routing sends a dead worker everything, so that most requests fail:
// the one that is to blame has to be named all the same.
func TestValidateNamesAKilledWorker(t *testing.T) {
	t.Parallel() // they wait more than they work
	var victim *worker
	j := decided(t, func() *judgement {
		s := bringUp(t, threeWorkers(usualPace))
		victim = s.workers[0]
		v := s.validate(t, "--profile", "smoke", "--episode-duration", "10s")
		v.during(t, 1, 4*time.Second)
		victim.signal(t, syscall.SIGKILL)
		return v.result(t)
	})
	j.is(t, spec.Fail, spec.Fail, anyState, spec.NotJudged)
	j.blames(t, victim, "worker/absent", "worker/black-hole")
	j.judgedAgain(t)
}

// Up, healthy by its own page, and without an answer: the recipe says how long one is
// waited for.
func TestValidateFailsWhatNeverServes(t *testing.T) {
	t.Parallel() // they wait more than they work
	for _, c := range []struct {
		name  string
		plan  plan
		cause string
	}{
		{"without workers", plan{router: "round-robin"}, "lists no model"},
		{"its only worker frozen", plan{router: "round-robin", workers: alike(1)}, "HTTP "}, // 500, then 503, then 404
	} {
		t.Run(c.name, func(t *testing.T) {
			s := bringUp(t, c.plan)
			for _, w := range s.workers {
				w.signal(t, syscall.SIGSTOP)
			}
			if page, err := fetch(t.Context(), http.MethodGet, s.url+"/health", ""); err != nil {
				t.Fatalf("not even its own page says that it is up: %v, %s", err, page)
			}
			j := s.validate(t, "--recipe", writeRecipe(t, spec.RecipePhase{
				Verdict: spec.RecipeVerdict{Thresholds: spec.ThresholdValues{"answerWithinS": 8}}})).result(t)
			j.is(t, spec.Fail, spec.Fail, spec.NotJudged, spec.NotJudged)
			if j.verdict.Episodes != 0 || j.verdict.LoadedS != 0 {
				t.Errorf("%d episodes of what does not serve", j.verdict.Episodes)
			}
			if !slices.ContainsFunc(j.verdict.Findings, func(f spec.Finding) bool {
				return f.ID == "start/timeout" && f.Severity == spec.SeverityFail && strings.Contains(strings.Join(f.Evidence, "\n"), c.cause)
			}) {
				t.Errorf("%s, want start/timeout with %q", jsonOf(j.verdict.Findings), c.cause)
			}
			j.judgedAgain(t)
		})
	}
}
