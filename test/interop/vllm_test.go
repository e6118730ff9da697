//go:build linux

package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicr/internal/spec"
)

// These need what vLLM alone has. `make interop` leaves them out by their name.

// One engine: what a client may ask of it, what is seen of it beside its log, and what is
// said when it dies.
func TestVLLM(t *testing.T) {
	e := underTest(t)
	s := bringUpEngines(t, e, 1)
	w := s.workers[0]
	shape := []string{"--model", modelName, "--concurrency", "4", "--request-count", "12"}
	bench := func(t *testing.T, flags ...string) finished {
		t.Helper()
		return finish(t, patience, bare(s.dir), slices.Concat([]string{program, "bench", "--url", s.url, "--artifact-dir", t.TempDir()}, shape, flags)...)
	}

	t.Run("completions at a rate", func(t *testing.T) {
		o := s.aicr(t, "--model", modelName, "--endpoint-type", "completions", "--request-rate", "8", "--request-count", "24",
			"--isl", "64", "--osl", "16", "--no-probe")
		records(t, 5, said(o))
		if o.bench.Requests.Served != 24 {
			t.Errorf("%s, want 24 served", jsonOf(o.bench.Requests))
		}
	})
	t.Run("an input that fills most of the context", func(t *testing.T) {
		o := bench(t, "--isl", "700", "--osl", "32")
		records(t, 8, fmt.Sprintf("exit %d: %s%s", o.code, firstLine(o.stdout), firstLine(o.stderr)))
		if o.code != 0 || !strings.HasPrefix(o.stdout, "PASS") {
			t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
		}
	})
	t.Run("more output than the context", func(t *testing.T) {
		before := s.generated(t, e)
		o := bench(t, "--isl", "64", "--osl", "1500")
		records(t, 9, fmt.Sprintf("exit %d: %s", o.code, firstLine(o.stderr)))
		if o.code != 2 || !strings.Contains(o.stderr, strconv.Itoa(tinyContext)) {
			t.Errorf("exit %d, want 2 with the length of the context:\n%s%s", o.code, o.stdout, o.stderr)
		}
		if sent := s.generated(t, e) - before; sent > 200 {
			t.Errorf("%.0f tokens were generated: the load should not have begun", sent)
		}
	})
	t.Run("its log beside its page", func(t *testing.T) {
		seen := s.watched(t, "--url", s.url, "--worker-metrics", w.metrics, "--log", w.log)
		records(t, 13, firstLine(seen)+"; "+line(seen, 1))
		if !strings.Contains(seen, "1 worker ·") || strings.Contains(seen, "OFF") {
			t.Errorf("one healthy engine is seen as\n%s", seen)
		}
	})
	t.Run("its log alone", func(t *testing.T) {
		seen := s.watched(t, "--log", w.log)
		records(t, 14, firstLine(seen)+"; "+line(seen, 1))
		if strings.Contains(seen, "KV use") || !strings.Contains(seen, "KV") {
			t.Errorf("the use of the KV cache was not read:\n%s", seen)
		}
	})
	t.Run("one page names one worker", func(t *testing.T) {
		enginePasses(t, 21, s)
	})
	t.Run("knee at what it takes at once", func(t *testing.T) {
		r := finish(t, 6*patience, bare(s.dir), program, "knee", "--url", s.url, "--model", modelName, "--workers", "1",
			"--worker-metrics", w.metrics, "--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output), "--ramp", "1s",
			"--level-duration", "5s", "--reference-duration", "10s", "--budget", "4m", "-o", "json")
		t.Logf("%s", r.stderr)
		var found kneeFound
		if err := json.Unmarshal([]byte(r.stdout), &found); err != nil {
			t.Fatalf("aicr knee exits with %d: %v\n%s%s", r.code, err, r.stdout, r.stderr)
		}
		records(t, 36, fmt.Sprintf("knee at %.0f in flight, %d proposed", found.Knee.InFlight, found.Proposal.InFlight))
		if !found.Known || found.Proposal.InFlight > engineSlots {
			t.Errorf("%s, want a point of %d in flight at most", jsonOf(found), engineSlots)
		}
	})
	t.Run("watch sees each of its processes stop", func(t *testing.T) {
		s.url = w.url()
		watching := begin(t, bare(s.dir), program, "watch", "--worker-metrics", w.metrics, "--duration", "45s")
		load := s.bench(t, "--model", modelName, "--concurrency", "4", "--benchmark-duration", "40s", "--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output))
		for _, process := range []string{"EngineCore", "", "Worker"} {
			time.Sleep(7 * time.Second)
			one := e
			one.computes = process
			one.stop(t, w, 6*time.Second)
		}
		load()
		o := watching.wait(t, patience)
		t.Logf("%s%s", o.stdout, o.stderr)
		seen := summary(o.stdout)
		stalls := strings.Count(seen, "(worker/stall)") + strings.Count(seen, "(telemetry/gap)")
		records(t, 30, fmt.Sprintf("%s, %d of 3 told", firstLine(seen), stalls))
		if stalls != 3 {
			t.Errorf("%d of 3 stops are told:\n%s", stalls, seen)
		}
	})
	t.Run("its engine is dead", func(t *testing.T) { // the last: nothing serves after it
		if err := syscall.Kill(e.computing(t, w), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		o := bench(t)
		records(t, 1, fmt.Sprintf("exit %d: %s", o.code, firstLine(o.stderr)))
		if o.code != 2 {
			t.Errorf("exit %d, want 2\n%s%s", o.code, o.stdout, o.stderr)
		}
		seen := finish(t, patience, bare(s.dir), program, "watch", "--log", w.log, "--duration", "3s")
		t.Logf("%s", seen.stdout)
	})
}

// An engine that wants a key, and has no figures on its page.
func TestVLLMGuarded(t *testing.T) {
	e := underTest(t)
	s := bringUpGuarded(t, e)
	t.Run("no key and no model", func(t *testing.T) {
		o := finish(t, patience, bare(s.dir), program, "bench", "--url", s.url, "--request-count", "4", "--artifact-dir", t.TempDir())
		records(t, 10, fmt.Sprintf("exit %d: %s", o.code, strings.TrimSpace(o.stderr)))
		if o.code != 2 || !strings.Contains(o.stderr, "AICR_API_KEY") || strings.Contains(o.stderr, "can stream") {
			t.Errorf("exit %d, want 2 and how a key is given:\n%s", o.code, o.stderr)
		}
	})
	t.Run("no figures on its page", func(t *testing.T) {
		o := finish(t, patience, bare(s.dir), program, "watch", "--worker-metrics", s.workers[0].metrics, "--duration", "4s")
		records(t, 42, fmt.Sprintf("exit %d: %s", o.code, firstLine(o.stderr)))
		if o.code != 3 || !strings.Contains(o.stdout+o.stderr, "no worker's metrics on the page") {
			t.Errorf("exit %d, want 3 and why:\n%s%s", o.code, o.stdout, o.stderr)
		}
	})
}

// bringUpGuarded starts one engine with a key and without statistics.
func bringUpGuarded(t *testing.T, e engine) *stack {
	t.Helper()
	s := engineStack(t)
	s.startEngine(t, e, "--api-key", "secret", "--disable-log-stats")
	s.url = s.workers[0].url()
	eventually(t, starts, func(ctx context.Context) error {
		if !s.workers[0].alive() {
			t.Fatalf("it ended: %s", s.workers[0].ended())
		}
		_, err := fetch(ctx, http.MethodGet, s.url+"/health", "")
		return err
	})
	return s
}

// A page with the engines of a server that serves data parallel is that of two workers.
func TestVLLMDataParallel(t *testing.T) {
	e := underTest(t)
	s := bringUpEngines(t, e, 1, "--data-parallel-size", "2")
	w := s.workers[0]
	ranks := []string{w.name() + "/0", w.name() + "/1"}
	t.Run("two workers on one page", func(t *testing.T) {
		seen := s.watched(t, "--worker-metrics", w.metrics)
		records(t, 16, firstLine(seen)+"; "+line(seen, 1))
		for _, rank := range ranks {
			if !strings.Contains(seen, rank) {
				t.Errorf("no %s in\n%s", rank, seen)
			}
		}
	})
	t.Run("the floor is that of two", func(t *testing.T) {
		j := decided(t, func() *judgement {
			return s.engineValidate(t, "--workers", "0", "--recipe", floor(t)).result(t)
		})
		j.records(t, 17)
		j.is(t, spec.Pass, spec.Pass, spec.Pass, spec.NotJudged)
		if got := j.workers(t); !slices.Equal(got, ranks) {
			t.Errorf("the page is of %q, want %q", got, ranks)
		}
		for _, x := range j.verdict.Expectations {
			if x.Name == "throughput" && !strings.Contains(x.Effective, "20") {
				t.Errorf("%s, want a floor of two engines", jsonOf(x))
			}
		}
	})
	t.Run("one of them stops", func(t *testing.T) {
		one := e
		one.computes = "EngineCore_DP1"
		j := decided(t, func() *judgement {
			v := s.engineValidate(t, "--workers", "2", "--profile", "quick", "--episode-duration", "15s")
			for n := range 2 {
				v.during(t, n+1, 4*time.Second)
				one.stop(t, w, frozenFor)
			}
			return v.result(t)
		})
		j.records(t, 29)
		j.is(t, spec.Fail, anyState, anyState, spec.Fail)
		for _, x := range j.verdict.Stalls {
			if x.Worker != ranks[1] {
				t.Errorf("%s, want %s", jsonOf(x), ranks[1])
			}
		}
	})
}

// watched is what aicr watch sums up of a while in which the stack is loaded.
func (s *stack) watched(t *testing.T, flags ...string) string {
	t.Helper()
	r := begin(t, bare(s.dir), append([]string{program, "watch", "--duration", "16s"}, flags...)...)
	s.bench(t, "--model", modelName, "--concurrency", "8", "--benchmark-duration", "12s", "--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output))()
	o := r.wait(t, patience)
	t.Logf("%s%s", o.stdout, o.stderr)
	if o.code != 0 {
		t.Errorf("aicr watch exits with %d", o.code)
	}
	return summary(o.stdout)
}

// summary is what aicr watch ends with.
func summary(text string) string {
	for _, word := range []string{"OFF", "UNKNOWN", "NOTE", "QUIET", "NOT MEASURED"} {
		if i := strings.LastIndex("\n"+text, "\n"+word); i >= 0 {
			return text[i:]
		}
	}
	return text
}

func said(o outcome) string {
	return fmt.Sprintf("%s: %d of %d requests served", o.bench.Verdict, o.bench.Requests.Served, o.bench.Requests.Sent)
}

func firstLine(text string) string { return line(text, 0) }

// line is one of the lines of a text, without the space around it.
func line(text string, n int) string {
	if lines := strings.Split(strings.TrimSpace(text), "\n"); n < len(lines) {
		return strings.TrimSpace(lines[n])
	}
	return ""
}
