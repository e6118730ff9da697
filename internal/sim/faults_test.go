package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func dead(workers ...int) spec.Fault {
	return spec.Fault{Kind: spec.WorkerDead, Workers: on(workers...)}
}

func wedge(running string, workers ...int) spec.Fault {
	return spec.Fault{Kind: spec.WorkerWedge, Running: running, Workers: on(workers...)}
}

func stall(factor float64, workers ...int) spec.Fault {
	return spec.Fault{Kind: spec.WorkerStall, Factor: &factor, Workers: on(workers...)}
}

// lone is one worker with one user: each request's times can be told exactly.
func lone(faults ...spec.Fault) *spec.Scenario {
	s := bare(1)
	s.Load.ConcurrencyPerGPU = 1
	s.Faults = faults
	return s
}

// pair is two workers that share the load in turn.
func pair(faults ...spec.Fault) *spec.Scenario {
	s := bare(2)
	s.Fleet.Router = "round-robin"
	s.Faults = faults
	return s
}

// What a request of the lone fleet takes: the frontend and the network, and ten
// steps.
const (
	loneAround = 300*us + 7*us + network
	loneFirst  = 12_300 * us
	loneSteps  = loneFirst + 9*13*ms
)

func classes(r *Recording, worker string) map[string]int {
	n := map[string]int{}
	for _, q := range r.Requests {
		if worker == "" || q.Worker == worker {
			n[q.Class]++
		}
	}
	return n
}

// quiet says whether no request of these workers had a token between two times.
func quiet(t *testing.T, r *Recording, from, to time.Duration, workers ...string) {
	t.Helper()
	held := 0
	for _, q := range r.Requests {
		if q.Worker == "" || !slices.Contains(workers, q.Worker) {
			continue
		}
		for _, at := range []int64{q.First, q.Last} {
			if at > int64(from) && at < int64(to) {
				t.Errorf("request %d of worker %s had a token at %v", q.Seq, q.Worker, time.Duration(at))
			}
		}
		if q.First > 0 && q.First < int64(from) && q.Last > int64(to) {
			held++
			if q.Gap < int64(to-from) || q.GapEnd < int64(to) {
				t.Errorf("request %d of worker %s was silent for %v, until %v", q.Seq, q.Worker, time.Duration(q.Gap), time.Duration(q.GapEnd))
			}
		}
	}
	if held == 0 {
		t.Error("nobody was held")
	}
}

// series gives the samples of one source in order.
func series(r *Recording, source, name string) []spec.Sample {
	var all []spec.Sample
	for _, s := range r.Series {
		if s.Source == source && (name == "" || s.Name == name) {
			all = append(all, s)
		}
	}
	return all
}

// faultRow is a fleet with a fault, and what must be seen of it.
type faultRow struct {
	kind  spec.FaultKind
	fleet *spec.Scenario
	load  Load
	play  func(t *testing.T, r *Recording)
	start func(t *testing.T, events []spec.Event, ready bool)
}

// faultRows is what each kind of fault does to an episode, and to the start of a
// deployment.
func faultRows() map[string]faultRow {
	return map[string]faultRow{
		"a slow worker's steps take longer, and nothing else does": {
			kind:  spec.WorkerSlow,
			fleet: lone(spec.Fault{Kind: spec.WorkerSlow, Workers: on(0), Factor: new(2.0)}),
			play: func(t *testing.T, r *Recording) {
				for _, q := range r.Requests {
					if q.End-q.Sent != int64(2*loneSteps+loneAround) || q.Class != "ok" {
						t.Fatalf("request %d took %v, want %v", q.Seq, time.Duration(q.End-q.Sent), 2*loneSteps+loneAround)
					}
				}
			},
		},
		"a stalled worker hardly steps while it lasts": {
			kind:  spec.WorkerStall,
			fleet: pair(during(stall(400, 1), 2*time.Second, 3*time.Second)),
			play: func(t *testing.T, r *Recording) {
				quiet(t, r, 2*time.Second+network+100*us, 5*time.Second, "1")
				if n := classes(r, ""); n["ok"] != len(r.Requests) {
					t.Errorf("not all were served: %v", n)
				}
			},
		},
		"a wedged worker steps no more, and goes on when it is freed": {
			kind:  spec.WorkerWedge,
			fleet: pair(during(wedge("real", 1), 2*time.Second, 3*time.Second)),
			play: func(t *testing.T, r *Recording) {
				quiet(t, r, 2*time.Second+network+100*us, 5*time.Second, "1")
				if n := classes(r, ""); n["ok"] != len(r.Requests) {
					t.Errorf("not all were served: %v", n)
				}
			},
			start: ready,
		},
		"a worker that is wedged for ever never answers": {
			kind:  spec.WorkerWedge,
			fleet: pair(wedge("real", 1)),
			load:  Load{Grace: 2 * time.Second},
			play: func(t *testing.T, r *Recording) {
				if n := classes(r, "1"); len(n) != 0 {
					t.Errorf("the wedged worker gave %v", n)
				}
				if n := classes(r, ""); n["interrupted"] == 0 {
					t.Errorf("nobody waited in vain: %v", n)
				}
			},
			start: func(t *testing.T, events []spec.Event, ready bool) {
				if e := answerOf(events, "1"); e.Reason != "silent" || e.T != answersWithin.Seconds() || !ready {
					t.Errorf("worker 1's answer: %+v, ready %v", e, ready)
				}
				if e := answerOf(events, "0"); e.Tokens == nil || *e.Tokens != warmTokens {
					t.Errorf("worker 0's answer: %+v", e)
				}
			},
		},
		"a frozen frontend passes no token and no request": {
			kind:  spec.FrontendFreeze,
			fleet: pair(during(spec.Fault{Kind: spec.FrontendFreeze}, 2*time.Second, 3*time.Second)),
			play: func(t *testing.T, r *Recording) {
				quiet(t, r, 2*time.Second+network+300*us, 5*time.Second, "0", "1")
				if n := classes(r, ""); n["ok"] != len(r.Requests) {
					t.Errorf("not all were served: %v", n)
				}
			},
		},
		"a slow host is slow in what the frontend does": {
			kind:  spec.HostSlow,
			fleet: lone(spec.Fault{Kind: spec.HostSlow, Factor: new(3.0)}),
			play: func(t *testing.T, r *Recording) {
				for _, q := range r.Requests {
					if want := int64(loneSteps + 3*307*us + network); q.End-q.Sent != want {
						t.Fatalf("request %d took %v, want %v", q.Seq, time.Duration(q.End-q.Sent), time.Duration(want))
					}
				}
			},
		},
		"a worker that is missing is not in the list": {
			kind:  spec.WorkerMissing,
			fleet: pair(spec.Fault{Kind: spec.WorkerMissing, Workers: on(1)}),
			play: func(t *testing.T, r *Recording) {
				if n := classes(r, "0"); n["ok"] != len(r.Requests) {
					t.Errorf("not all were served by worker 0: %v", classes(r, ""))
				}
				for _, s := range series(r, spec.SourceWorker, "1") {
					if s.Gap != "connection refused" || s.Worker != nil {
						t.Fatalf("at %v the missing worker says %+v", time.Duration(s.T), s)
					}
				}
			},
			start: func(t *testing.T, events []spec.Event, ready bool) {
				i := slices.IndexFunc(events, func(e spec.Event) bool { return e.Kind == spec.EventWorkers })
				if i < 0 || *events[i].Want != 2 || *events[i].Have != 1 || !ready {
					t.Errorf("ready %v, of %+v", ready, events)
				}
				if e := answerOf(events, "1"); e.Kind != "" {
					t.Errorf("the missing worker answered: %+v", e)
				}
			},
		},
		"a worker that leaves ends what it had with an error, and comes back": {
			kind:  spec.WorkerMissing,
			fleet: pair(during(spec.Fault{Kind: spec.WorkerMissing, Workers: on(1)}, 2*time.Second, 2*time.Second)),
			play: func(t *testing.T, r *Recording) {
				back := false
				for _, q := range r.Requests {
					switch {
					case q.Class == "error-event":
						// The frontend tells one after the other.
						if q.End < int64(2*time.Second+network) || q.End > int64(2*time.Second+network+ms) || q.Worker != "1" || q.Status != 200 {
							t.Errorf("it was told at %v: %+v", time.Duration(q.End), q)
						}
					case q.Class != "ok":
						t.Errorf("%+v", q)
					case q.Worker == "1" && q.Sent > int64(2*time.Second) && q.Sent < int64(4*time.Second-300*us):
						t.Errorf("it served a request of %v", time.Duration(q.Sent))
					}
					back = back || q.Worker == "1" && q.Sent > int64(4*time.Second)
				}
				if n := classes(r, "1"); n["error-event"] == 0 || !back {
					t.Errorf("worker 1: %v; back: %v", n, back)
				}
			},
		},
		"no worker at all is a 404": {
			kind:  spec.WorkerMissing,
			fleet: pair(spec.Fault{Kind: spec.WorkerMissing, Workers: &spec.Workers{All: true}}),
			play:  allRefused(404),
			start: notReady,
		},
		"a cold start is over before an episode": {
			kind:  spec.ColdStart,
			fleet: lone(spec.Fault{Kind: spec.ColdStart, Takes: long(42 * time.Second)}),
			play: func(t *testing.T, r *Recording) {
				for _, q := range r.Requests {
					if q.End-q.Sent != int64(loneSteps+loneAround) {
						t.Fatalf("request %d took %v", q.Seq, time.Duration(q.End-q.Sent))
					}
				}
			},
			start: func(t *testing.T, events []spec.Event, ready bool) {
				want := (42*time.Second + loneAround + loneFirst).Seconds()
				if e := answerOf(events, "0"); !ready || e.Seconds == nil || math.Abs(*e.Seconds-want) > 1e-9 {
					t.Errorf("the first token came after %v, want %v", *e.Seconds, want)
				}
			},
		},
		"a dead worker answers every request with a fast 500 and stays in the list": {
			kind:  spec.WorkerDead,
			fleet: func() *spec.Scenario { s := pair(dead(1)); s.Fleet.Router = "least-loaded"; return s }(),
			play: func(t *testing.T, r *Recording) {
				refused := 0
				for _, q := range r.Requests {
					if q.Class == "ok" && q.Worker != "0" {
						t.Errorf("the dead worker served %d", q.Seq)
					}
					if q.Class == "http-status" {
						refused++
						if q.Status != 500 || q.Tokens != 0 || q.End-q.Sent < int64(300*us+refusedAfter+network) {
							t.Errorf("%+v", q)
						}
					}
				}
				if refused < 10*classes(r, "0")["ok"] {
					t.Errorf("a black hole drew %d requests beside %d served", refused, classes(r, "0")["ok"])
				}
				if s := series(r, spec.SourceWorker, "1")[2]; s.Gap != "" || *s.Worker.Running != 0 {
					t.Errorf("the dead worker says %+v", s)
				}
			},
			start: func(t *testing.T, events []spec.Event, ready bool) {
				if e := answerOf(events, "1"); e.Reason != "http-status" || e.Text != "HTTP 500" || !ready {
					t.Errorf("ready %v, worker 1's answer: %+v", ready, e)
				}
			},
		},
		"a share of the requests is answered with a status": {
			kind:  spec.HTTPError,
			fleet: pair(spec.Fault{Kind: spec.HTTPError, Status: new(503), Share: new(0.25)}),
			play: func(t *testing.T, r *Recording) {
				n := classes(r, "")
				within(t, "503", n["http-status"], len(r.Requests), 0.25)
				for _, q := range r.Requests {
					if (q.Class == "http-status") != (q.Status == 503 && q.Tokens == 0 && q.First == 0 && q.Detail == "HTTP 503") || n["ok"]+n["http-status"] != len(r.Requests) {
						t.Fatalf("%+v", q)
					}
				}
			},
		},
		"a share of the answers is reset":     broken("reset", "reset"),
		"a share of the answers is truncated": broken("truncated", "truncated"),
		"a share of the answers ends in an error": broken("error-event",
			"error-event"),
		"a share of the answers has no content": {
			kind:  spec.ZeroTokens,
			fleet: pair(spec.Fault{Kind: spec.ZeroTokens, Share: new(0.3)}),
			play: func(t *testing.T, r *Recording) {
				within(t, "without content", classes(r, "")["no-tokens"], len(r.Requests), 0.3)
				for _, q := range r.Requests {
					empty := q.Status == 200 && q.Tokens == 0 && q.First == 0 && q.Finish == "stop"
					if (q.Class == "no-tokens") != empty {
						t.Fatalf("%+v", q)
					}
				}
			},
		},
		"no answer has content": {
			kind:  spec.ZeroTokens,
			fleet: pair(spec.Fault{Kind: spec.ZeroTokens, Share: new(1.0)}),
			play: func(t *testing.T, r *Recording) {
				if n := classes(r, ""); n["no-tokens"] != len(r.Requests) {
					t.Errorf("%v", n)
				}
				last := series(r, spec.SourceFrontend, "")
				if *last[len(last)-1].Frontend.Tokens != 0 {
					t.Error("the frontend counts tokens")
				}
			},
			start: notReady,
		},
		"a GPU's error is in the telemetry, and only there": {
			kind: spec.GPUError,
			fleet: lone(spec.Fault{Kind: spec.GPUError, Workers: on(0), XID: new(48), DoubleBit: new(3),
				RemapFailure: new(true)}),
			play: func(t *testing.T, r *Recording) {
				gpu := series(r, spec.SourceGPU, "")
				if g := gpu[0].GPU; *g.XID != 0 || *g.DoubleBit != 0 || *g.RemapFailure != 0 {
					t.Errorf("it was broken before it was loaded for a while: %+v", g)
				}
				for _, s := range gpu[1:] {
					if g := s.GPU; *g.XID != 48 || *g.DoubleBit != 3 || *g.RemapFailure != 1 {
						t.Fatalf("at %v: XID %v, ECC %v, remap %v", time.Duration(s.T), *g.XID, *g.DoubleBit, *g.RemapFailure)
					}
				}
				if q := r.Requests[0]; q.End-q.Sent != int64(loneSteps+loneAround) {
					t.Error("it slows the worker")
				}
			},
		},
		"a GPU says that it throttles in a share of the samples": {
			kind: spec.GPUThrottle,
			fleet: func() *spec.Scenario {
				s := pair(spec.Fault{Kind: spec.GPUThrottle, Workers: on(1), Reason: "hw_thermal", Share: new(0.3)})
				s.Load.Episode = spec.Duration(300 * time.Second)
				s.Load.ConcurrencyPerGPU = 1
				return s
			}(),
			play: func(t *testing.T, r *Recording) {
				n := map[string]int{}
				for i, s := range series(r, spec.SourceGPU, "") {
					for _, reason := range *s.GPU.Throttle {
						n[fmt.Sprint(i%2, reason)]++
					}
					if slow := *s.GPU.SMClockMHz < 0.7*fullClock; slow != slices.Contains(*s.GPU.Throttle, "hw_thermal") {
						t.Fatalf("at %v: %v at %v MHz", time.Duration(s.T), *s.GPU.Throttle, *s.GPU.SMClockMHz)
					}
				}
				within(t, "throttled samples", n["1hw_thermal"], 300, 0.3)
				if len(n) != 1 {
					t.Errorf("reasons: %v", n)
				}
			},
		},
		"a share of the workers' samples is not delivered": gap("workers", spec.SourceWorker),
		"a share of the GPUs' samples is not delivered":    gap("gpus", spec.SourceGPU),
		"a share of the node's samples is not delivered":   gap("node", spec.SourceNode),
		"a frontend whose discovery has panicked serves nobody": {
			kind:  spec.DiscoveryPanic,
			fleet: pair(spec.Fault{Kind: spec.DiscoveryPanic, Panics: new(24), BucketMissing: new(97)}),
			play:  allRefused(404),
			start: notReady,
		},
		"with a stale DRA plugin nobody is served": {
			kind: spec.DRAStale, fleet: pair(spec.Fault{Kind: spec.DRAStale}), play: allRefused(404), start: notReady,
		},
		"with claimed GPUs nobody is served": {
			kind: spec.GPUsClaimed, fleet: pair(spec.Fault{Kind: spec.GPUsClaimed}), play: allRefused(404),
			start: func(t *testing.T, events []spec.Event, ready bool) {
				if ready {
					t.Error("it is ready")
				}
			},
		},
	}
}

func allRefused(status int) func(*testing.T, *Recording) {
	return func(t *testing.T, r *Recording) {
		for _, q := range r.Requests {
			if q.Class != "http-status" || q.Status != status || q.First != 0 || q.Worker != "" {
				t.Fatalf("%+v", q)
			}
		}
		if len(r.Requests) < 100 {
			t.Errorf("only %d requests", len(r.Requests))
		}
	}
}

func ready(t *testing.T, events []spec.Event, ready bool) {
	if !ready || answerOf(events, "1").Tokens == nil {
		t.Errorf("ready %v: %+v", ready, events)
	}
}

func notReady(t *testing.T, events []spec.Event, ready bool) {
	if last := events[len(events)-1]; ready || last.Kind != spec.EventNotServed || last.Text == "" {
		t.Errorf("ready %v, at last %+v", ready, last)
	}
}

func answerOf(events []spec.Event, worker string) spec.Event {
	for _, e := range events {
		if e.Kind == spec.EventAnswer && e.Worker == worker {
			return e
		}
	}
	return spec.Event{}
}

func broken(how, class string) faultRow {
	return faultRow{
		kind:  spec.StreamBreak,
		fleet: pair(spec.Fault{Kind: spec.StreamBreak, How: how, Share: new(0.2)}),
		play: func(t *testing.T, r *Recording) {
			within(t, how, classes(r, "")[class], len(r.Requests), 0.2)
			for _, q := range r.Requests {
				half := q.Class == class && q.Tokens == 5 && q.Status == 200 && q.Finish == "" && q.First > 0 && q.Last > q.First && q.Worker != ""
				if whole := q.Class == "ok" && q.Tokens == 10; !half && !whole {
					t.Fatalf("%+v", q)
				}
			}
		},
	}
}

func gap(source, of string) faultRow {
	s := pair(spec.Fault{Kind: spec.TelemetryGap, Source: source, Share: new(0.2)})
	s.Load.Episode, s.Load.ConcurrencyPerGPU = spec.Duration(300*time.Second), 1
	return faultRow{kind: spec.TelemetryGap, fleet: s, play: func(t *testing.T, r *Recording) {
		lost, all := map[string]int{}, map[string]int{}
		for _, s := range r.Series {
			all[s.Source]++
			if s.Gap != "" {
				lost[s.Source]++
				if s.Gap != "not delivered" || s.Worker != nil || s.GPU != nil || s.Node != nil {
					t.Fatalf("%+v", s)
				}
			}
		}
		within(t, "lost", lost[of], all[of], 0.2)
		if len(lost) != 1 {
			t.Errorf("lost of %v", lost)
		}
	}}
}

func TestWhatEachKindOfFaultDoes(t *testing.T) {
	for name, row := range faultRows() {
		t.Run(name, func(t *testing.T) {
			if i := slices.IndexFunc(row.fleet.Faults, func(f spec.Fault) bool { return f.Kind == row.kind }); i < 0 {
				t.Fatalf("the fleet has no %s", row.kind)
			}
			row.play(t, play(t, row.fleet, 3, 1, row.load))
			if row.start != nil {
				events, ready := Start(row.fleet, 3)
				row.start(t, events, ready)
			}
		})
	}
}

func TestEveryKindOfFaultHasARow(t *testing.T) {
	has, starts := map[spec.FaultKind]bool{}, map[spec.FaultKind]bool{}
	for _, row := range faultRows() {
		has[row.kind] = true
		starts[row.kind] = starts[row.kind] || row.start != nil
	}
	for _, k := range spec.FaultKinds() {
		if !has[k.Kind] {
			t.Errorf("%s has no row", k.Kind)
		}
	}
	for _, kind := range []spec.FaultKind{spec.DiscoveryPanic, spec.DRAStale, spec.GPUsClaimed, spec.WorkerDead, spec.WorkerMissing, spec.WorkerWedge, spec.ColdStart} {
		if !starts[kind] {
			t.Errorf("no row says what %s does to the start", kind)
		}
	}
}

// Every token of a long answer, against the work that the worker can have done
// by then: in the window it does a quarter.
func TestAWindowBeginsAndEndsToTheNanosecond(t *testing.T) {
	const from, lasts = 1000 * ms, 400 * ms
	for name, kind := range map[string]spec.FaultKind{"slow": spec.WorkerSlow, "stall": spec.WorkerStall} {
		t.Run(name, func(t *testing.T) {
			s := bare(1)
			s.Faults = []spec.Fault{during(spec.Fault{Kind: kind, Workers: on(0), Factor: new(4.0)}, from, lasts)}
			streams, c := drive(t, virtual(s, 1, true), []ask{{prompt: 20, output: 150}}, nil)
			for i, got := range c.tokens[streams[0]] {
				want := 12_600*us + 13*ms*time.Duration(i) // undisturbed
				switch {
				case want <= from:
				case want <= from+lasts/4:
					want = from + 4*(want-from)
				default:
					want += lasts - lasts/4
				}
				if got != want+507*us {
					t.Fatalf("token %d came at %v, want %v", i, got, want+507*us)
				}
			}
		})
	}
	t.Run("wedge", func(t *testing.T) {
		s := bare(1)
		s.Faults = []spec.Fault{during(wedge("real", 0), from, lasts)}
		streams, c := drive(t, virtual(s, 1, true), []ask{{prompt: 20, output: 150}}, nil)
		for i, got := range c.tokens[streams[0]] {
			want := 12_600*us + 13*ms*time.Duration(i)
			if want > from {
				want += lasts
			}
			if got != want+507*us {
				t.Fatalf("token %d came at %v, want %v", i, got, want+507*us)
			}
		}
	})
	t.Run("wedge, at the end of a step", func(t *testing.T) {
		s := bare(1)
		s.Faults = []spec.Fault{during(wedge("real", 0), 12_600*us, lasts)}
		streams, _ := drive(t, virtual(s, 1, true), []ask{{prompt: 20, output: 1}}, nil)
		if got, want := streams[0].First, 12_600*us+lasts+507*us; got != want {
			t.Errorf("the token came at %v, want %v", got, want)
		}
	})
	t.Run("freeze", func(t *testing.T) {
		s := bare(1)
		s.Faults = []spec.Fault{during(spec.Fault{Kind: spec.FrontendFreeze}, from, lasts)}
		streams, c := drive(t, virtual(s, 1, true), []ask{{prompt: 20, output: 150}}, nil)
		passed := time.Duration(0) // when the frontend passed the token before
		for i, got := range c.tokens[streams[0]] {
			begins := max(12_600*us+13*ms*time.Duration(i), passed)
			if begins >= from && begins < from+lasts {
				begins = from + lasts
			}
			passed = begins + 7*us
			if got != passed+network {
				t.Fatalf("token %d came at %v, want %v", i, got, passed+network)
			}
		}
	})
}

func TestOverlappingWindows(t *testing.T) {
	slow := func(factor float64) spec.Fault {
		return spec.Fault{Kind: spec.WorkerSlow, Workers: on(0), Factor: &factor}
	}
	type is struct {
		Slow, Stall, Host      float64
		Wedged, GaugeOff       bool
		Dead, Present, Frozen  bool
		OtherSlow, OtherFactor float64
	}
	plain := is{Slow: 1, Stall: 1, Host: 1, Present: true, OtherSlow: 1, OtherFactor: 1}
	with := func(change func(*is)) is { c := plain; change(&c); return c }
	// Each list holds from 1 s to 3 s and from 2 s to 4 s.
	tests := map[string]struct {
		first, second    spec.Fault
		one, both, other is
	}{
		"slowness multiplies": {slow(2), slow(3), with(func(c *is) { c.Slow = 2 }), with(func(c *is) { c.Slow = 6 }), with(func(c *is) { c.Slow = 3 })},
		"of two stalls the worse holds": {stall(40, 0), stall(10, 0),
			with(func(c *is) { c.Stall = 40 }), with(func(c *is) { c.Stall = 40 }), with(func(c *is) { c.Stall = 10 })},
		"slow and stalled multiply": {slow(2), stall(40, 0),
			with(func(c *is) { c.Slow = 2 }), with(func(c *is) { c.Slow, c.Stall = 2, 40 }), with(func(c *is) { c.Stall = 40 })},
		"a wedge lasts until the last one ends": {wedge("zero", 0), wedge("real", 0),
			with(func(c *is) { c.Wedged, c.GaugeOff = true, true }), with(func(c *is) { c.Wedged, c.GaugeOff = true, true }), with(func(c *is) { c.Wedged = true })},
		"a freeze lasts until the last one ends": {spec.Fault{Kind: spec.FrontendFreeze}, spec.Fault{Kind: spec.FrontendFreeze},
			with(func(c *is) { c.Frozen = true }), with(func(c *is) { c.Frozen = true }), with(func(c *is) { c.Frozen = true })},
		"a host's slowness multiplies": {spec.Fault{Kind: spec.HostSlow, Factor: new(2.0)}, spec.Fault{Kind: spec.HostSlow, Factor: new(5.0)},
			with(func(c *is) { c.Host = 2 }), with(func(c *is) { c.Host = 10 }), with(func(c *is) { c.Host = 5 })},
		"dead and missing": {dead(0), spec.Fault{Kind: spec.WorkerMissing, Workers: on(0)},
			with(func(c *is) { c.Dead = true }), with(func(c *is) { c.Dead, c.Present = true, false }), with(func(c *is) { c.Present = false })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := bare(2)
			s.Faults = []spec.Fault{during(tt.first, time.Second, 2*time.Second), during(tt.second, 2*time.Second, 2*time.Second)}
			f := virtual(s, 1, false)
			for i, want := range []is{plain, tt.one, tt.both, tt.other, plain} {
				f.advance(time.Duration(i) * time.Second)
				w, other := f.workers[0], f.workers[1]
				got := is{w.slow, w.stall, f.frontend.slow, w.wedged, w.gaugeOff, w.dead, w.present, f.frontend.frozen, other.slow, other.factor()}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("at %d s (-want +got):\n%s", i, diff)
				}
				if slices.Contains(f.view.workers, 0) != want.Present {
					t.Errorf("at %d s the router's list is %v", i, f.view.workers)
				}
			}
		})
	}
}

// laid are the windows that are planned, with their lengths.
func laid(f *Fleet) (at, lasts []time.Duration, workers []int) {
	until := map[*window]time.Duration{}
	for _, e := range f.queue.heap {
		if e.kind == ends {
			until[e.window] = e.at
		}
	}
	for _, e := range f.queue.heap {
		if e.kind == begins {
			at, lasts, workers = append(at, e.at), append(lasts, until[e.window]-e.at), append(workers, e.window.workers...)
		}
	}
	return at, lasts, workers
}

func TestWindowsComeSoOftenAMinuteAndLastAsTheyAreSpread(t *testing.T) {
	s := bare(8)
	s.Load.Episode = spec.Duration(time.Minute)
	f := stall(40)
	f.Workers = &spec.Workers{Any: true}
	f.PerMinute, f.Lasts, f.Spread = new(3.0), long(8*time.Second), new(0.5)
	s.Faults = []spec.Fault{f}
	const seeds = 500
	var lengths []float64
	count, square, place := 0, 0, 0.0
	fell := make([]int, 8)
	for seed := range uint64(seeds) {
		at, lasts, workers := laid(virtual(s, seed, false))
		count += len(at)
		square += len(at) * len(at)
		for i := range at {
			place += at[i].Minutes()
			lengths = append(lengths, math.Log(lasts[i].Seconds()))
			fell[workers[i]]++
			if at[i] < 0 || at[i] >= time.Minute {
				t.Fatalf("a window at %v", at[i])
			}
		}
	}
	mean := float64(count) / seeds
	if math.Abs(mean-3) > 5*math.Sqrt(3./seeds) {
		t.Errorf("%v windows a minute, want 3", mean)
	}
	if variance := float64(square)/seeds - mean*mean; variance < 2 || variance > 4.2 {
		t.Errorf("the variance of a minute's windows is %v, want that of Poisson arrivals, 3", variance)
	}
	if place /= float64(count); math.Abs(place-0.5) > 5*math.Sqrt(1./12/float64(count)) {
		t.Errorf("they come at %v of the episode on average", place)
	}
	slices.Sort(lengths)
	if median := math.Exp(lengths[len(lengths)/2]); median < 8*0.92 || median > 8*1.08 {
		t.Errorf("they last %v s in the median, want 8", median)
	}
	if spread := (lengths[len(lengths)*84/100] - lengths[len(lengths)*16/100]) / 2; math.Abs(spread-0.5) > 0.06 {
		t.Errorf("the spread is %v, want 0.5", spread)
	}
	for w, n := range fell {
		within(t, fmt.Sprintf("windows of worker %d", w), n, count, 1./8)
	}

	f.Spread = new(0.0)
	s.Faults = []spec.Fault{f}
	for seed := range uint64(5) {
		_, lasts, _ := laid(virtual(s, seed, false))
		for _, d := range lasts {
			if d != 8*time.Second {
				t.Errorf("without spread one lasts %v", d)
			}
		}
	}
}

func TestAFaultOfCertainEpisodesFallsOnThoseAlone(t *testing.T) {
	windowed, always := during(stall(40, 0), time.Second, time.Second), wedge("real", 0)
	windowed.Episodes, always.Episodes = []int{2, 4}, []int{2, 4}
	for episode := 1; episode <= 5; episode++ {
		want := episode == 2 || episode == 4
		s := bare(1)
		s.Faults = []spec.Fault{windowed}
		f := newFleet(s, settings{seed: 1, episode: episode})
		f.advance(1500 * ms)
		if got := f.workers[0].stall == 40; got != want {
			t.Errorf("episode %d: stalled %v", episode, got)
		}
		s.Faults = []spec.Fault{always}
		if got := newFleet(s, settings{seed: 1, episode: episode}).workers[0].wedged; got != want {
			t.Errorf("episode %d: wedged %v", episode, got)
		}
	}
}

// The windows of a fleet in real time count from the first request, and come
// again with each stretch of the episode's length; so do episodes.
func TestWindowsRecurInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := during(dead(1), 3*time.Second, time.Second)
		second.Episodes = []int{2}
		all := spec.Fault{Kind: spec.FrontendFreeze, Episodes: []int{3}}
		s := bare(2)
		s.Faults = []spec.Fault{during(wedge("real", 0), time.Second, time.Second), second, all}
		l := NewLive(s, 1, 1)
		go l.Run(t.Context())
		look := func() (wedged, dead, frozen bool) {
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.fleet.workers[0].wedged, l.fleet.workers[1].dead, l.fleet.frontend.frozen
		}
		time.Sleep(9500 * ms)
		if wedged, _, _ := look(); wedged {
			t.Error("a window began before there was a request")
		}
		l.Submit(&Stream{Prompt: 1, Output: 1}, newTap())
		for half := range 48 { // four stretches of 6 s
			stretch, at := half/12+1, time.Duration(half%12)*500*ms+100*ms
			time.Sleep(100 * ms)
			wedged, dead, frozen := look()
			if want := at >= time.Second && at < 2*time.Second; wedged != want {
				t.Errorf("stretch %d, %v: wedged %v", stretch, at, wedged)
			}
			if want := stretch == 2 && at >= 3*time.Second && at < 4*time.Second; dead != want {
				t.Errorf("stretch %d, %v: dead %v", stretch, at, dead)
			}
			if want := stretch == 3; frozen != want {
				t.Errorf("stretch %d, %v: frozen %v", stretch, at, frozen)
			}
			time.Sleep(400 * ms)
		}
	})
}

func TestAnyWorkerIsDrawnAnewForEachStretch(t *testing.T) {
	s := bare(8)
	f := during(stall(40), time.Second, time.Second)
	f.Workers = &spec.Workers{Any: true}
	s.Faults = []spec.Fault{f}
	fleet := newFleet(s, settings{seed: 1, episode: 1, endless: true})
	hit := map[int]int{}
	for stretch := range 80 {
		fleet.advance(time.Duration(stretch)*6*time.Second + 1500*ms)
		for _, w := range fleet.workers {
			if w.stall == 40 {
				hit[w.index]++
			}
		}
	}
	if len(hit) < 7 {
		t.Errorf("80 windows fell on %v", hit)
	}
	n := 0
	for _, h := range hit {
		n += h
	}
	if n != 80 {
		t.Errorf("%d windows in 80 stretches", n)
	}
}

// Faults can be replaced while it runs: what was planned is void, and a fault
// that is gone leaves no trace.
func TestFaultsCanBeReplacedInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(2)
		s.Faults = []spec.Fault{during(wedge("zero", 0), time.Second, time.Hour), during(spec.Fault{Kind: spec.FrontendFreeze}, 4*time.Second, time.Hour)}
		l := NewLive(s, 1, 1)
		go l.Run(t.Context())
		c := newTap()
		a := &Stream{Prompt: 16, Output: 400, Pin: 1}
		l.Submit(a, c)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w := l.Snapshot().Workers[0]; w.Running != 0 || w.Held != 1 {
			t.Errorf("the wedged worker says %+v", w)
		}
		if diff := cmp.Diff(s.Faults, l.Faults()); diff != "" {
			t.Error(diff)
		}
		l.SetFaults([]spec.Fault{{Kind: spec.DiscoveryPanic}, during(dead(1), time.Second, time.Second)})
		if serving, kind := l.Serving(); serving || kind != spec.DiscoveryPanic {
			t.Errorf("serving %v, %s", serving, kind)
		}
		time.Sleep(1500 * ms)
		synctest.Wait()
		l.mu.Lock()
		if !l.fleet.workers[1].dead || l.fleet.workers[0].wedged {
			t.Error("the new window did not come, or the old one is still there")
		}
		l.mu.Unlock()
		l.SetFaults(nil)
		if serving, _ := l.Serving(); !serving || l.Snapshot().Workers[0].Running != 1 {
			t.Error("nothing is wrong, and still it does not serve")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.Outcome != Served || a.Given != 400 || a.Gap < time.Second {
			t.Errorf("outcome %d after %d tokens, the longest gap %v", a.Outcome, a.Given, a.Gap)
		}
	})
}

// Two windows of one fault that overlap make it there once; two faults are there
// both.
func TestOverlappingWindowsOfOneFaultAreOne(t *testing.T) {
	slow := func() spec.Fault { return spec.Fault{Kind: spec.WorkerSlow, Workers: on(0), Factor: new(2.0)} }
	host := func() spec.Fault { return spec.Fault{Kind: spec.HostSlow, Factor: new(3.0)} }
	s := bare(1)
	s.Faults = []spec.Fault{slow(), slow(), host()}
	f := virtual(s, 1, false)
	for range 3 {
		f.begin(f.window(&s.Faults[0]))
		f.begin(f.window(&s.Faults[2]))
	}
	if w := f.workers[0]; w.slow != 4 || f.frontend.slow != 3 {
		t.Errorf("the worker takes %v times as long, the host %v; want 4 and 3", w.slow, f.frontend.slow)
	}
}

// Faults that are set while a fleet is served come once, and are gone when they
// are replaced.
func TestFaultsThatAreSetComeOnce(t *testing.T) {
	s := bare(1)
	l := NewLive(s, 1, 1)
	fault := during(spec.Fault{Kind: spec.FrontendFreeze}, time.Second, time.Second)
	often := fault
	often.Episodes = []int{1, 2}
	for _, c := range []struct {
		fault spec.Fault
		want  []bool // frozen, in the middle of its window, an episode after the other
	}{{fault, []bool{true, false, false}}, {often, []bool{true, true, false}}} {
		l.SetFaults([]spec.Fault{c.fault})
		start := l.fleet.now
		for i, want := range c.want {
			l.fleet.advance(start + time.Duration(i)*s.Load.Episode.D() + 1500*ms)
			if l.fleet.frontend.frozen != want {
				t.Errorf("episodes %v: frozen %v in stretch %d", c.fault.Episodes, !want, i+1)
			}
		}
	}
	l.SetFaults([]spec.Fault{{Kind: spec.ColdStart, Takes: long(time.Minute)}, {Kind: spec.GPUError, Workers: on(0), XID: new(79)}})
	l.fleet.advance(l.fleet.now + 2*time.Second)
	if w := l.fleet.workers[0]; w.cold == 0 || w.gpus[0].state.XID != 79 {
		t.Errorf("cold %v, XID %d", w.cold, w.gpus[0].state.XID)
	}
	l.SetFaults(nil)
	if w := l.fleet.workers[0]; w.cold != 0 || w.gpus[0].state.XID != 0 {
		t.Errorf("mended, and cold %v, XID %d", w.cold, w.gpus[0].state.XID)
	}
}

// Pods that never start are not there for a scraper either.
func TestWithoutPodsNoWorkerIsPresent(t *testing.T) {
	for _, kind := range []spec.FaultKind{spec.DRAStale, spec.GPUsClaimed} {
		s := bare(2)
		s.Faults = []spec.Fault{{Kind: kind}}
		for _, w := range virtual(s, 1, false).snapshot().Workers {
			if w.Present {
				t.Errorf("%s: worker %d is there", kind, w.ID)
			}
		}
	}
}
