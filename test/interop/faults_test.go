//go:build linux

package interop_test

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// under is a stack under load, observed.
type under struct {
	*stack
	*watcher
	result func() outcome // waits for the load's end, and is what the client saw
}

// loaded brings up a stack, watches it, and loads it for a while. Every worker
// has something to do when it returns.
func loaded(t *testing.T, seconds string, p plan) *under {
	t.Helper()
	s := bringUp(t, p)
	s.warm(t)
	u := &under{stack: s, watcher: s.watch(t)}
	u.result = s.bench(t, "--model", modelName, "--concurrency", "12", "--benchmark-duration", seconds,
		"--isl", "130", "--osl", "64", "--benchmark-grace-period", "30", "--request-timeout-seconds", "60", "--max-error-share", "1")
	for _, w := range s.workers {
		u.awaitWhere(t, w.metrics, runs)
	}
	return u
}

// runs says of a sample that its worker runs something.
func runs(x sighting) bool {
	return x.Worker != nil && x.Worker.Running != nil && *x.Worker.Running > 0
}

func healthy(router string) plan { return plan{router: router, workers: alike(3)} }

// A slow worker holds as many requests as its peers with this router; only its
// pace tells.
func TestSlowWorkerShowsInItsPace(t *testing.T) {
	t.Parallel() // they wait more than they work
	u := loaded(t, "8s", plan{router: "least-loaded", workers: [][]string{{"--speedup-ratio", "0.1"}, nil, nil}})
	o := u.result()
	seen := u.end(t)
	if o.bench.Requests.Failed > 0 {
		t.Errorf("%s, want no failure", jsonOf(o.bench.Requests))
	}
	slow := seen.of(u.stack.workers[0].metrics).pace()
	for _, w := range u.stack.workers[1:] {
		if peer := seen.of(w.metrics).pace(); !(slow > 0 && slow < peer/3) {
			t.Errorf("%.1f tokens a second for each request on the slow worker, %.1f on %s: want a third at most", slow, peer, w.name())
		}
	}
}

func TestStoppedWorkerIsAGapFromTheSignalOn(t *testing.T) {
	t.Parallel() // they wait more than they work
	for _, c := range []struct {
		name    string
		stop    time.Duration
		load    string
		forgets bool // the frontend forgets a worker that is away for longer than its lease
	}{
		{"for 5 s", 5 * time.Second, "11s", false},
		{"for 20 s", 20 * time.Second, "27s", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := loaded(t, c.load, healthy("least-loaded"))
			victim, peers := u.stack.workers[0], u.stack.workers[1:]
			from := time.Now()
			victim.signal(t, syscall.SIGSTOP)
			time.Sleep(c.stop)
			to := time.Now()
			victim.signal(t, syscall.SIGCONT)
			u.await(t, victim.metrics) // it answers again
			back := time.Now()
			o := u.result()
			if known, err := u.instances(t.Context()); err != nil || slices.Contains(known, victim.id) == c.forgets {
				t.Errorf("the frontend knows %d (error %v); that it has forgotten %d should be %t", known, err, victim.id, c.forgets)
			}
			over := time.Now()
			seen := u.end(t)

			during := seen.of(victim.metrics).between(from, to)
			gap := during.gaps().first(t, "the stopped worker")
			if late := gap.at.Sub(from); late > noticed {
				t.Errorf("the first gap comes %s after the signal, want within %s", late, noticed)
			}
			if !strings.HasPrefix(gap.Gap, "no answer in ") {
				t.Errorf("the gap is %q", gap.Gap)
			}
			if answers := during.between(gap.at, to).answers(); len(answers) > 0 {
				t.Errorf("%d answers of a stopped worker: %s", len(answers), jsonOf(answers[0].Sample))
			}
			if n, least := len(during.gaps()), int((c.stop-noticed)/period); n < least {
				t.Errorf("%d gaps in %s, want %d at least", n, c.stop, least)
			}
			if late := back.Sub(to); late > noticed {
				t.Errorf("it answers %s after it goes on, want within %s", late, noticed)
			}
			for _, w := range peers {
				seen.of(w.metrics).goesOn(t, "worker "+w.name(), from, to)
			}
			seen.of(u.url).goesOn(t, "frontend", from, to)

			// To the client a request was as long, before its first token or after.
			latency, _ := readProfile(t, o.dir).Get("request_latency")
			if frozen := float64(c.stop.Milliseconds()); !(latency.Max >= frozen) {
				t.Errorf("the longest request took %.0f ms, want %.0f at least; %s", latency.Max, frozen, jsonOf(o.bench.Requests))
			}
			if c.forgets {
				after := seen.of(victim.metrics).between(back.Add(noticed), over)
				if grown, known := after.grown(generated); known && grown > 0 {
					t.Errorf("%.0f tokens of a worker that the frontend has forgotten", grown)
				}
			}
		})
	}
}

func TestKilledWorkerIsAGapAndFailsRequests(t *testing.T) {
	t.Parallel() // they wait more than they work
	u := loaded(t, "8s", healthy("round-robin"))
	victim, peers := u.stack.workers[0], u.stack.workers[1:]
	from := time.Now()
	victim.signal(t, syscall.SIGKILL)
	o := u.result()
	to := time.Now()
	u.await(t, u.url) // the frontend, when all is over
	seen := u.end(t)

	after := seen.of(victim.metrics).between(from, to)
	gap := after.gaps().first(t, "the killed worker")
	if late := gap.at.Sub(from); late > noticed {
		t.Errorf("the first gap comes %s after the signal, want within %s", late, noticed)
	}
	if last := after[len(after)-1].Gap; last != "connection refused" {
		t.Errorf("the last gap is %q, want a refused connection", last)
	}
	if answers := after.between(gap.at, to).answers(); len(answers) > 0 {
		t.Errorf("%d answers of a dead worker", len(answers))
	}
	for _, w := range peers {
		seen.of(w.metrics).goesOn(t, "worker "+w.name(), from, to)
	}
	if o.bench.Requests.Failed == 0 {
		t.Error("no request failed: those in flight on it should have")
	}
	frontend := seen.of(u.url).answers()
	first, last := frontend.first(t, "frontend"), frontend[len(frontend)-1]
	if first.Frontend.Failed == nil || last.Frontend.Failed == nil {
		t.Fatalf("the frontend's failures are not told: %s", jsonOf(last.Sample))
	}
	if told := *last.Frontend.Failed - *first.Frontend.Failed; told < float64(o.bench.Requests.Failed) {
		t.Errorf("the frontend tells of %.0f failures, the client of %d", told, o.bench.Requests.Failed)
	}
}

func TestLateWorkerBeginsASeries(t *testing.T) {
	t.Parallel() // they wait more than they work
	u := loaded(t, "16s", healthy("least-loaded"))
	before := time.Now()
	late := u.stack.addWorker(t)
	u.stack.listWorkers(t, u.watcher)
	listed := time.Now()
	u.awaitWhere(t, late.metrics, runs)
	o := u.result()
	seen := u.end(t)

	of := seen.of(late.metrics)
	if first := of.first(t, "the late worker"); first.at.Before(before) || first.at.Sub(listed) > 2*noticed {
		t.Errorf("its series begins %s after it was listed", first.at.Sub(listed))
	}
	if name := of.answers().first(t, "the late worker").Name; name != late.name() {
		t.Errorf("it is called %q, want %q", name, late.name())
	}
	if grown, known := of.grown(generated); !known || grown == 0 {
		t.Errorf("it generated %.0f tokens (known: %t)", grown, known)
	}
	if o.bench.Requests.Failed > 0 {
		t.Errorf("%s, want no failure", jsonOf(o.bench.Requests))
	}
	if !slices.ContainsFunc(seen.of(u.stack.workers[0].metrics).between(listed, time.Now()), func(x sighting) bool { return x.Gap == "" }) {
		t.Error("the others are not seen any more")
	}
}

func TestWithoutWorkersTheFrontendIsSeenAlone(t *testing.T) {
	s := bringUp(t, plan{router: "round-robin"})
	w := s.watch(t)
	for range 2 {
		w.await(t, s.url)
	}
	o := finish(t, patience, bare(s.dir), program, "bench", "--url", s.url, "--model", modelName, "--request-count", "1", "--artifact-dir", t.TempDir())
	if o.code != 2 {
		t.Errorf("aicr bench exits with %d, want 2: not ready\n%s%s", o.code, o.stdout, o.stderr)
	}
	seen := w.end(t)
	for _, x := range seen {
		if x.Frontend == nil || x.Gap != "" {
			t.Errorf("a sample of something else: %s", jsonOf(x.Sample))
		} else if x.Frontend.Served != nil && *x.Frontend.Served > 0 || len(x.Frontend.Outcomes) > 0 {
			t.Errorf("a frontend that has served: %s", jsonOf(x.Sample))
		}
	}
}

func TestKilledFrontendIsAGapAndEndsEveryStream(t *testing.T) {
	t.Parallel() // they wait more than they work
	u := loaded(t, "10s", healthy("least-loaded"))
	from := time.Now()
	u.frontend.kill()
	to := from.Add(4 * period)
	time.Sleep(time.Until(to))
	seen := u.end(t)
	o := u.result()

	after := seen.of(u.url).between(from, to)
	gap := after.gaps().first(t, "the frontend")
	if late := gap.at.Sub(from); late > noticed {
		t.Errorf("the first gap comes %s after the signal, want within %s", late, noticed)
	}
	if last := after[len(after)-1].Gap; last != "connection refused" {
		t.Errorf("the last gap is %q, want a refused connection", last)
	}
	for _, w := range u.stack.workers {
		of := seen.of(w.metrics)
		of.goesOn(t, "worker "+w.name(), from, to)
		last := of[len(of)-1]
		if last.Worker == nil || last.Worker.InFlight == nil || *last.Worker.InFlight != 0 {
			t.Errorf("worker %s has requests of a dead frontend: %s", w.name(), jsonOf(last.Sample))
		}
	}
	cut := 0
	for _, class := range slices.Sorted(maps.Keys(o.bench.Requests.Classes)) {
		if class != "ok" {
			cut += o.bench.Requests.Classes[class]
		}
	}
	if cut < 12 {
		t.Errorf("%s, want the 12 streams in flight to have failed at least", jsonOf(o.bench.Requests))
	}
}
