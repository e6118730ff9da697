package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/spec"
)

// Three requests of 16 + 33 tokens, each 4 blocks in the end, on a worker with
// 8: all are admitted, and as they grow, not all can stay.
func TestWhenKVRunsOutTheLastAdmittedYieldsAndIsServedAllTheSame(t *testing.T) {
	for _, each := range []bool{true, false} {
		s := bare(1)
		s.Fleet.KVBlocks = 8
		f := virtual(s, 1, each)
		var asks []ask
		for i := range 3 {
			asks = append(asks, ask{at: time.Duration(i) * us, prompt: 16, output: 33})
		}
		streams, _ := drive(t, f, asks, nil)
		w := f.workers[0]
		if w.preemptions == 0 {
			t.Error("nobody was preempted")
		}
		for i, s := range streams {
			if s.Outcome != Served || s.Given != 33 {
				t.Errorf("request %d: outcome %d after %d tokens", i, s.Outcome, s.Given)
			}
		}
		if w.generated != 99 || f.frontend.tokens != 99 {
			t.Errorf("the worker counts %d tokens, the frontend %d", w.generated, f.frontend.tokens)
		}
		if w.prompted != 48 || w.queries != 48 {
			t.Errorf("prompt tokens of a preempted request are counted anew: %d", w.prompted)
		}
		// The first two need the 8 blocks from their 33rd KV token on, and the third
		// comes back when they are through: its gap is the wait.
		if first := streams[0].Gap; first > 20*ms {
			t.Errorf("the first was not to yield, and waited %v", first)
		}
		if last := streams[2].Gap; last < 100*ms || last > streams[0].Last-streams[2].First {
			t.Errorf("the last waited %v", last)
		}
		if end := streams[2].GapEnd; end <= streams[0].Last {
			t.Errorf("the last came back at %v, before the first had ended at %v", end, streams[0].Last)
		}
	}
}

func TestAPreemptedRequestComputesItsTokensAgain(t *testing.T) {
	s := bare(1)
	s.Fleet.KVBlocks = 4
	// Both begin in a step of their own. The second yields when the first needs its
	// third block, at the first's 17th step, and comes back with 16 + 15 tokens when
	// the first is through.
	streams, c := drive(t, virtual(s, 1, true), []ask{{prompt: 16, output: 20}, {at: us, prompt: 16, output: 20}}, nil)
	a, b := c.tokens[streams[0]], c.tokens[streams[1]]
	yields := -1
	for i := 1; i < len(b); i++ {
		if b[i]-b[i-1] > 20*ms {
			if yields >= 0 {
				t.Fatalf("it waited twice")
			}
			yields = i
		}
	}
	if yields < 0 {
		t.Fatal("it never waited")
	}
	back := a[len(a)-1] - 507*us // the step in which the first had its last token
	want := back + 12_100*us + 10*us*time.Duration(16+yields) + 507*us
	if b[yields] != want {
		t.Errorf("after %d tokens it came back at %v, want %v", yields, b[yields], want)
	}
}

// One that yielded is the first to come back, and what it found in the cache the
// first time is what it is told to have found. The second and the third are
// admitted together, grow together to 4 of 5 blocks, and cannot both have another.
func TestWhoYieldedComesBackBeforeThoseWhoWait(t *testing.T) {
	s := bare(1)
	s.Fleet.KVBlocks, s.Fleet.MaxSequences = 5, 2
	f := virtual(s, 1, false)
	streams, _ := drive(t, f, []ask{
		{prompt: 16, output: 1},
		{at: us, prompt: 16, output: 40},
		{at: 2 * us, prompt: 16, output: 40, blocks: promptOf(1, 16)},
		{at: 3 * us, prompt: 16, output: 5},
	}, nil)
	w, third, fourth := f.workers[0], streams[2], streams[3]
	if w.preemptions != 1 || third.Gap < 50*ms || fourth.First < third.GapEnd {
		t.Errorf("%d preemptions; the third waited %v until %v, the fourth began at %v", w.preemptions, third.Gap, third.GapEnd, fourth.First)
	}
	if third.Cached != 0 || w.hits != 0 || w.queries != 64 {
		t.Errorf("the third is told of %d cached tokens, %d hits of %d", third.Cached, w.hits, w.queries)
	}
}

// A long prompt that is computed in parts holds KV before it runs: 7 blocks here,
// of which the one that runs needs 2 to be served.
func TestAPromptInPartsYieldsItsKVFirst(t *testing.T) {
	s := bare(1)
	s.Fleet.KVBlocks, s.Fleet.MaxBatchedTokens = 8, 8
	f := virtual(s, 1, false)
	most := 0
	streams, _ := drive(t, f, []ask{
		{prompt: 8, output: 40},
		{at: us, prompt: 100, output: 20},
	}, func() { most = max(most, f.workers[0].blocks) })
	if most != 8 {
		t.Errorf("%d of 8 blocks were held at most", most)
	}
	for i, s := range streams {
		if s.Outcome != Served || s.Given != s.Output {
			t.Errorf("request %d: outcome %d after %d tokens", i, s.Outcome, s.Given)
		}
	}
	if streams[0].Gap > 20*ms {
		t.Errorf("the one that ran waited %v", streams[0].Gap)
	}
	if w := f.workers[0]; w.preemptions == 0 || w.queries != 108 || w.prompted != 108 {
		t.Errorf("%d preemptions, %d tokens looked up, %d prompt tokens", w.preemptions, w.queries, w.prompted)
	}
}

// anyFleet draws a small fleet that goes wrong in many ways, and what is asked of
// it.
func anyFleet(t *rapid.T) (*spec.Scenario, uint64, []ask) {
	n := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	when := func(name string, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
	}
	s := bare(n("workers", 1, 3))
	s.Fleet.PrefillWorkers = n("prefillWorkers", 0, s.Fleet.Workers-1)
	s.Fleet.KVBlocks = n("kvBlocks", 3, 24)
	s.Fleet.MaxSequences = n("maxSequences", 1, 8)
	s.Fleet.MaxBatchedTokens = n("maxBatchedTokens", 1, 80)
	s.Fleet.Router = rapid.SampledFrom(spec.Routers()).Draw(t, "router")
	s.Fleet.KVCredit = 3
	s.Load.Episode = spec.Duration(4 * time.Second)
	for range n("faults", 0, 5) {
		f := spec.Fault{Kind: rapid.SampledFrom([]spec.FaultKind{
			spec.WorkerSlow, spec.WorkerStall, spec.WorkerWedge, spec.WorkerMissing, spec.WorkerDead, spec.FrontendFreeze,
			spec.HostSlow, spec.HTTPError, spec.StreamBreak, spec.ZeroTokens, spec.ColdStart,
		}).Draw(t, "kind"), Factor: new(rapid.SampledFrom([]float64{0.5, 3, 40}).Draw(t, "factor")),
			Takes: long(time.Second), Status: new(503), Share: new(0.3), How: rapid.SampledFrom([]string{"reset", "truncated", "error-event"}).Draw(t, "how")}
		if kind, _ := spec.FaultKindNamed(f.Kind); len(kind.Takes) > 0 && kind.Takes[0] == "workers" {
			f.Workers = on(n("worker", 0, s.Fleet.Workers-1))
			if rapid.Bool().Draw(t, "any") {
				f.Workers = &spec.Workers{Any: true}
			}
		}
		s.Faults = append(s.Faults, during(f, when("at", 3*time.Second), when("lasts", 2*time.Second)+1))
	}
	var asks []ask
	for range n("asks", 1, 40) {
		a := ask{at: when("arrives", 3*time.Second), output: n("output", 1, 60)}
		a.prompt = n("prompt", 1, max(1, s.Fleet.KVBlocks*spec.KVBlockTokens-a.output))
		a.output = min(a.output, s.Fleet.KVBlocks*spec.KVBlockTokens-a.prompt)
		if p := n("prefix", 0, 3); p > 0 {
			a.blocks = promptOf(p, a.prompt)
		}
		if rapid.Bool().Draw(t, "leaves") {
			a.gone = 1 + when("leaves at", 4*time.Second) // perhaps before it comes
		}
		a.pin = n("pin", 0, s.Fleet.Workers)
		if a.output < 1 {
			a.output, a.prompt = 1, a.prompt-1
		}
		asks = append(asks, a)
	}
	return s, rapid.Uint64().Draw(t, "seed"), asks
}

func TestNothingIsLostAndNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, seed, asks := anyFleet(t)
		f := virtual(s, seed, rapid.Bool().Draw(t, "each"))
		streams, c := drive(t, f, asks, func() {
			for _, w := range f.workers {
				if w.blocks < 0 || w.blocks > s.Fleet.KVBlocks || w.running < 0 || w.running > s.Fleet.MaxSequences || w.waiting < 0 {
					t.Fatalf("at %v worker %d holds %d of %d blocks, runs %d of %d, has %d waiting",
						f.now, w.index, w.blocks, s.Fleet.KVBlocks, w.running, s.Fleet.MaxSequences, w.waiting)
				}
				holds, runs := 0, 0
				for _, s := range w.batch {
					if s.state == running {
						holds += held(s, w.step)
						runs++
					}
				}
				waits := 0
				for _, s := range w.queue {
					if s.state == waiting {
						holds += s.blocks
						waits++
					}
				}
				if holds != w.blocks || runs != w.running || waits != w.waiting {
					t.Fatalf("at %v worker %d counts %d blocks, %d running, %d waiting; there are %d, %d, %d",
						f.now, w.index, w.blocks, w.running, w.waiting, holds, runs, waits)
				}
			}
		})
		for _, w := range f.workers {
			var none [spec.KVBlockTokens]int
			if w.running != 0 || w.waiting != 0 || w.blocks != 0 || w.grows != none || len(w.due) != 0 || len(w.queue) != 0 || w.busy {
				t.Errorf("worker %d is left with %d running, %d waiting, %d blocks, %v, %d lists due, %d queued, busy %v",
					w.index, w.running, w.waiting, w.blocks, w.grows, len(w.due), len(w.queue), w.busy)
			}
			if f.view.load[w.index] != 0 || f.prefill.load[w.index] != 0 {
				t.Errorf("the router still counts %d and %d at worker %d", f.view.load[w.index], f.prefill.load[w.index], w.index)
			}
		}
		if fe := f.frontend; fe.inFlight != 0 || fe.queued != 0 || fe.busy || fe.head != len(fe.jobs) || int(fe.served+fe.failed) > len(asks) {
			t.Errorf("the frontend is left with %+v", fe)
		}
		pending := 0
		for _, e := range f.queue.heap {
			if e.kind != stepped || e.turn == f.workers[e.worker].turn { // a step that was planned anew is void
				pending++
			}
		}
		if pending != 1 {
			t.Errorf("%d things are still to happen, want the tick alone", pending)
		}
		for i, s := range streams {
			if n := len(c.ended[s]); n != 1 {
				t.Errorf("request %d ended %d times", i, n)
			}
			if s.Given > s.Output || s.Outcome == Served && s.Given != s.Output || s.Outcome == Unended {
				t.Errorf("request %d: outcome %d after %d of %d tokens", i, s.Outcome, s.Given, s.Output)
			}
			if s.Given > 0 && (s.First < s.Arrived || s.Last < s.First || c.ended[s][0] < s.Last || s.Gap > s.Last-s.First) {
				t.Errorf("request %d arrived at %v, had tokens from %v to %v with a gap of %v, and ended at %v", i, s.Arrived, s.First, s.Last, s.Gap, c.ended[s][0])
			}
		}
	})
}

// A client that is told of every token, and one that is told of the first alone
// and sums up at the end, see the same.
func TestTellingOfEachTokenChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, seed, asks := anyFleet(t)
		told, c := drive(t, virtual(s, seed, true), asks, nil)
		summed, _ := drive(t, virtual(s, seed, false), asks, nil)
		for i := range asks {
			if diff := cmp.Diff(seenBy(told[i]), seenBy(summed[i])); diff != "" {
				t.Errorf("request %d (-told of each +of the first):\n%s", i, diff)
			}
			if n := len(c.tokens[told[i]]); n != told[i].Given {
				t.Errorf("request %d was told of %d tokens and given %d", i, n, told[i].Given)
			}
		}
	})
}

// seen is what a stream shows its client.
type seen struct {
	Worker, Given, Cached, Status              int
	Arrived, Admitted, First, Last, Gap, GapAt time.Duration
	Outcome                                    Outcome
}

func seenBy(s *Stream) seen {
	return seen{s.Worker, s.Given, s.Cached, s.Status, s.Arrived, s.Admitted, s.First, s.Last, s.Gap, s.GapEnd, s.Outcome}
}
