//go:build linux

package interop_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicr/internal/spec"
)

// engineCases are the tests that any engine can be met with. A case that breaks its fleet
// comes last.
var engineCases = []struct {
	name string
	// seldom is a case whose rule another one shows as well: it is left out where every
	// change waits for the tests.
	seldom bool
	check  func(t *testing.T, e engine, s *stack)
}{
	{"stalls are counted and named", false, engineStalls},
	{"one is slow", false, engineIsSlow},
	{"one server", false, func(t *testing.T, _ engine, s *stack) {
		one := *s
		one.workers = nil
		enginePasses(t, 41, &one, "--workers", "1")
	}},
	{"behind a proxy that passes metrics on", false, func(t *testing.T, e engine, s *stack) {
		enginePasses(t, 18, e.behindNginx(t, s, true))
	}},
	{"behind a proxy without metrics", true, func(t *testing.T, e engine, s *stack) {
		enginePasses(t, 20, e.behindNginx(t, s, false))
	}},
	{"one server without metrics", true, func(t *testing.T, e engine, s *stack) {
		one := *s
		one.workers = s.workers[:1]
		alone := e.behindNginx(t, &one, false)
		alone.workers = nil
		enginePasses(t, 26, alone, "--workers", "1")
	}},
	{"two workers and no page", false, func(t *testing.T, e engine, s *stack) {
		blind := e.behindNginx(t, s, false)
		blind.workers = nil
		engineUndecided(t, 23, blind, "--workers", "2")
	}},
	{"two workers and one page", true, func(t *testing.T, e engine, s *stack) {
		half := e.behindNginx(t, s, false)
		half.workers = s.workers[:1]
		engineUndecided(t, 24, half, "--workers", "2")
	}},
	{"bench counts what the engine counts", false, engineBench},
	{"watch of two behind a proxy is quiet", false, engineWatch},
	{"one is frozen from the start", true, engineFrozen},
	{"one is killed", false, engineKilled},
}

// Two engines behind nginx, judged healthy, slow, stopped, frozen and dead as they are.
func TestEngines(t *testing.T) {
	t.Parallel() // they wait more than they work
	e := underTest(t)
	var shared *stack
	if e.once {
		shared = bringUpEngines(t, e, 2)
	}
	for _, c := range engineCases {
		if c.seldom && !e.once {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := shared
			if !e.once {
				t.Parallel()
				s = bringUpEngines(t, e, 2)
			}
			c.check(t, e, s)
		})
	}
}

// engineValidate starts a validation with the given pages; flags come last and prevail.
func (s *stack) engineValidate(t *testing.T, flags ...string) *validation {
	t.Helper()
	return s.validate(t, append([]string{"--profile", "smoke", "--episode-duration", "10s"}, flags...)...)
}

// floor is a recipe that a healthy engine meets many times over.
func floor(t *testing.T) string {
	t.Helper()
	return writeRecipe(t, spec.RecipePhase{Constraints: []spec.RecipeConstraint{
		{Name: spec.ConstraintThroughput, Value: ">= 10", Unit: "tokens/s/GPU"}}})
}

// enginePasses checks that a healthy endpoint is called healthy.
func enginePasses(t *testing.T, number int, s *stack, flags ...string) {
	t.Helper()
	j := decided(t, func() *judgement {
		return s.engineValidate(t, append(flags, "--recipe", floor(t))...).result(t)
	})
	j.records(t, number)
	j.is(t, spec.Pass, spec.Pass, spec.Pass, spec.NotJudged)
	j.without(t, "telemetry/gap", "worker/stall", "fleet/stall", "worker/slow", "worker/absent", "serving/errors")
	if got := j.workers(t); len(s.workers) > 0 && !slices.Equal(got, s.names()) {
		t.Errorf("the pages are of %q, want %q", got, s.names())
	}
}

// engineUndecided checks that nothing is found at workers that are not told apart.
func engineUndecided(t *testing.T, number int, s *stack, flags ...string) {
	t.Helper()
	j := s.engineValidate(t, append(flags, "--recipe", floor(t))...).result(t)
	j.records(t, number)
	if j.verdict.Verdict != spec.Inconclusive {
		t.Errorf("%s: %s, want %s", j.verdict.Verdict, j.verdict.Reason, spec.Inconclusive)
	}
	j.without(t, "worker/absent", "worker/stall", "worker/slow", "serving/errors")
}

// workers are those whose pages the episodes have.
func (j *judgement) workers(t *testing.T) []string {
	t.Helper()
	run, err := spec.ReadRun(os.DirFS(j.dir))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, number := range run.Numbers() {
		e, err := run.Episode(number)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range e.Series {
			if x.Source == spec.SourceWorker && !slices.Contains(all, x.Name) {
				all = append(all, x.Name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// The tokens of a load are those that the engines counted themselves, also where a server
// closes each connection after its answer.
func engineBench(t *testing.T, e engine, s *stack) {
	const requests = 60
	before := s.generated(t, e)
	behind := *s
	behind.workers = s.workers[:1] // the load goes to the first, without a proxy
	o := behind.aicr(t, "--model", modelName, "--concurrency", "4", "--request-count", strconv.Itoa(requests),
		"--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output), "--no-probe")
	records(t, 40, fmt.Sprintf("%s: %d of %d requests served", o.bench.Verdict, o.bench.Requests.Served, o.bench.Requests.Sent))
	if o.bench.Requests.Served != requests || o.bench.Requests.Failed != 0 {
		t.Errorf("%s, want all %d served", jsonOf(o.bench.Requests), requests)
	}
	mean, _ := o.figure(t, "output_sequence_length")
	if ours, theirs := math.Round(mean*requests), s.generated(t, e)-before; ours != theirs {
		t.Errorf("%.0f tokens by the client, %.0f by the engine", ours, theirs)
	}
	records(t, 3, fmt.Sprintf("%.0f tokens by the client and by the engine", mean*requests))
}

// A proxy's page is that of one engine now and of the other then: it is no third worker, and
// nothing restarts.
func engineWatch(t *testing.T, e engine, s *stack) {
	behind := e.behindNginx(t, s, true)
	argv := []string{program, "watch", "--url", behind.url, "--duration", "12s", "--interval", period.String()}
	for _, w := range s.workers {
		argv = append(argv, "--worker-metrics", w.metrics)
	}
	r := begin(t, bare(s.dir), argv...)
	load := behind.bench(t, "--model", modelName, "--concurrency", "8", "--benchmark-duration", "9s",
		"--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output))
	load()
	watched := r.wait(t, patience)
	t.Logf("%s%s", watched.stdout, watched.stderr)
	if watched.code != 0 {
		t.Errorf("aicr watch exits with %d", watched.code)
	}
	seen := summary(watched.stdout)
	records(t, 19, firstLine(seen)+"; "+line(seen, 1))
	if strings.HasPrefix(seen, "OFF") || !strings.Contains(seen, "2 workers ·") {
		t.Errorf("two healthy engines behind a proxy are seen as\n%s", seen)
	}
}

// One stall decides nothing. A second one on the same worker does.
func engineStalls(t *testing.T, e engine, s *stack) {
	const stalls = 2
	behind, victim := e.behindNginx(t, s, false), s.workers[1]
	j := decided(t, func() *judgement {
		v := behind.engineValidate(t, "--profile", "quick", "--episode-duration", "15s")
		for n := range stalls {
			v.during(t, n+1, 4*time.Second)
			e.stop(t, victim, frozenFor)
		}
		return v.result(t)
	})
	j.records(t, 27)
	j.is(t, spec.Fail, anyState, anyState, spec.Fail)
	j.blames(t, victim, "worker/stall")
	j.without(t, "worker/absent", "worker/slow", "fleet/stall")
	if len(j.verdict.Stalls) != stalls {
		t.Errorf("%s, want one in each of %d episodes", jsonOf(j.verdict.Stalls), stalls)
	}
	for i, x := range j.verdict.Stalls {
		if off := x.Seconds - frozenFor.Seconds(); x.Episode != i+1 || x.Worker != victim.name() || math.Abs(off) > 2 {
			t.Errorf("%s, want one of %s in episode %d, of worker %s", jsonOf(x), frozenFor, i+1, victim.name())
		}
	}
}

// An engine that is slow from the beginning is named, and the words are those of its pace.
func engineIsSlow(t *testing.T, e engine, s *stack) {
	behind, victim := e.behindNginx(t, s, false), s.workers[1]
	defer e.slow(t, victim)()
	j := decided(t, func() *judgement { return behind.engineValidate(t).result(t) })
	j.records(t, 32)
	j.is(t, spec.Fail, anyState, spec.Fail, spec.NotJudged)
	j.blames(t, victim, "worker/slow")
	j.without(t, "worker/absent", "worker/stall", "fleet/stall")
	for _, x := range j.verdict.Expectations {
		if x.State == spec.Fail && strings.Contains(jsonOf(x), s.workers[0].name()) {
			t.Errorf("%s fails because of the healthy worker", jsonOf(x))
		}
	}
}

// An engine that serves nothing from the start is not taken for the whole endpoint.
func engineFrozen(t *testing.T, e engine, s *stack) {
	behind, victim := e.behindNginx(t, s, false), s.workers[1]
	pid := e.computing(t, victim)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	j := behind.engineValidate(t, "--recipe", writeRecipe(t, spec.RecipePhase{
		Verdict: spec.RecipeVerdict{Thresholds: spec.ThresholdValues{"answerWithinS": 8}}})).result(t)
	j.records(t, 33)
	if v := j.verdict; v.Verdict != spec.Fail || !strings.Contains(v.Reason, victim.name()) || strings.Contains(v.Reason, "nothing to do") {
		t.Errorf("%s: %s, want %s because worker %s does not serve", v.Verdict, v.Reason, spec.Fail, victim.name())
	}
}

// nginx stops sending to a dead engine, so that few requests fail: the engine is named.
func engineKilled(t *testing.T, e engine, s *stack) {
	behind, victim := e.behindNginx(t, s, false), s.workers[1]
	v := behind.engineValidate(t)
	v.during(t, 1, 3*time.Second)
	if err := syscall.Kill(e.computing(t, victim), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j := v.result(t)
	j.records(t, 31)
	j.is(t, spec.Fail, spec.Fail, anyState, spec.NotJudged)
	j.blames(t, victim, "worker/absent", "worker/black-hole")
}
