package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// troubled is a fleet with jitter, hiccups and little KV, and with every fault
// that has to do with requests.
func troubled() *spec.Scenario {
	s, _ := spec.NewScenario("troubled", "h100-eks")
	s.Fleet.Workers, s.Fleet.KVBlocks, s.Fleet.MaxSequences, s.Fleet.MaxBatchedTokens = 3, 60, 12, 256
	s.Load.Episode = spec.Duration(5 * time.Second)
	anyStall := stall(40)
	anyStall.Workers = &spec.Workers{Any: true}
	anyStall.PerMinute, anyStall.Lasts, anyStall.Spread = new(20.0), long(300*ms), new(0.5)
	second := during(wedge("real", 2), time.Second, 700*ms)
	second.Episodes = []int{2}
	s.Faults = []spec.Fault{
		{Kind: spec.WorkerSlow, Workers: on(1), Factor: new(1.5)},
		{Kind: spec.HTTPError, Status: new(503), Share: new(0.03)},
		{Kind: spec.StreamBreak, How: "truncated", Share: new(0.03)},
		{Kind: spec.ZeroTokens, Share: new(0.03)},
		{Kind: spec.TelemetryGap, Source: "workers", Share: new(0.2)},
		{Kind: spec.GPUThrottle, Workers: on(0), Reason: "sw_thermal", Share: new(0.4)},
		{Kind: spec.GPUError, Workers: on(2), XID: new(48)},
		anyStall, second,
		during(spec.Fault{Kind: spec.FrontendFreeze}, 1200*ms, 400*ms),
		during(spec.Fault{Kind: spec.HostSlow, Factor: new(3.0)}, 2000*ms, 500*ms),
		during(spec.Fault{Kind: spec.WorkerMissing, Workers: on(1)}, 2600*ms, 800*ms),
		during(dead(0), 3800*ms, 300*ms),
	}
	return s
}

// arrivals are an open loop of requests, some of whose clients go away. Their
// times are multiples of 4 ns, so that they exist at that speed.
func arrivals(seed uint64, n int, over time.Duration) []ask {
	r := rand.New(rand.NewPCG(seed, 1))
	var all []ask
	for i := range n {
		a := ask{prompt: 1 + r.IntN(300), output: 1 + r.IntN(80)}
		if i > 0 {
			a.at = time.Duration(r.Int64N(int64(over/4))) * 4
		}
		if p := r.IntN(4); p > 0 {
			a.blocks = promptOf(p, a.prompt)
		}
		if r.IntN(5) == 0 {
			a.gone = a.at + 4 + time.Duration(r.Int64N(int64(time.Second/4)))*4
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b ask) int { return int(a.at - b.at) })
	return all
}

// deed is something that a client does.
type deed struct {
	at   time.Duration
	who  int
	goes bool
}

func deeds(asks []ask) []deed {
	var all []deed
	for i, a := range asks {
		all = append(all, deed{a.at, i, false})
		if a.gone > 0 {
			all = append(all, deed{a.gone, i, true})
		}
	}
	slices.SortStableFunc(all, func(a, b deed) int { return int(a.at - b.at) })
	return all
}

func streamsOf(asks []ask) []*Stream {
	all := make([]*Stream, len(asks))
	for i, a := range asks {
		all[i] = &Stream{Prompt: a.prompt, Output: a.output, Blocks: a.blocks, Tag: i}
	}
	return all
}

// There is one model: what comes of a request does not depend on whether the
// fleet was moved as fast as it goes and told its client of one token, or as the
// clock went, at any speed, and told of all.
func TestBothDriversGiveTheSame(t *testing.T) {
	const n, over, until = 500, 10 * time.Second, 40*time.Second + 500*ms
	for seed := range uint64(2) {
		asks := arrivals(seed, n, over)
		s := troubled()
		f := newFleet(s, settings{seed: seed, episode: 1, endless: true, warm: true})
		quick, c := streamsOf(asks), newTap()
		for _, d := range deeds(asks) {
			f.advance(d.at)
			if d.goes {
				f.abandon(quick[d.who])
			} else {
				f.submit(d.at, quick[d.who], c)
			}
		}
		f.advance(until)
		counts := map[Outcome]int{}
		preempted := int64(0)
		for _, w := range f.workers {
			preempted += w.preemptions
		}
		for _, s := range quick {
			counts[s.Outcome]++
		}
		for _, o := range []Outcome{Served, Refused, Truncated, ErrorTold, Empty, Abandoned} {
			if counts[o] < 3 {
				t.Errorf("seed %d: only %d requests ended as %d; the test has lost its teeth", seed, counts[o], o)
			}
		}
		if counts[Unended] > 0 || preempted < 10 {
			t.Errorf("seed %d: %d are open, %d preemptions", seed, counts[Unended], preempted)
		}

		for _, speed := range []time.Duration{1, 4} {
			t.Run(fmt.Sprintf("seed %d, speed %d", seed, speed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					l := NewLive(troubled(), seed, float64(speed))
					var done sync.WaitGroup
					done.Go(func() { l.Run(t.Context()) })
					live, told := streamsOf(asks), newTap()
					for _, d := range deeds(asks) {
						time.Sleep(d.at/speed - time.Since(begin))
						if d.goes {
							l.Abandon(live[d.who])
						} else {
							l.Submit(live[d.who], told)
						}
					}
					time.Sleep(until/speed - time.Since(begin))
					synctest.Wait()
					for i := range asks {
						if diff := cmp.Diff(seenBy(quick[i]), seenBy(live[i])); diff != "" {
							t.Fatalf("request %d of %v (-virtual time +real time):\n%s", i, asks[i].at, diff)
						}
						if diff := cmp.Diff(c.ended[quick[i]], told.ended[live[i]]); diff != "" {
							t.Fatalf("request %d of %v ended (-virtual time +real time):\n%s", i, asks[i].at, diff)
						}
						if got := len(told.tokens[live[i]]); got != live[i].Given {
							t.Fatalf("request %d was told of %d tokens and given %d", i, got, live[i].Given)
						}
					}
					virtual, real := f.snapshot(), l.Snapshot()
					virtual.At, real.At = 0, 0
					if diff := cmp.Diff(virtual, real); diff != "" {
						t.Errorf("the telemetry (-virtual time +real time):\n%s", diff)
					}
					if late := l.Late(); late != 0 {
						t.Errorf("it was late by %v", late)
					}
				})
			})
		}
	}
}

// Time in it is the clock's, times the speed.
func TestLiveFollowsTheClock(t *testing.T) {
	for _, speed := range []float64{0, 1, 0.5, 3} {
		synctest.Test(t, func(t *testing.T) {
			times := speed
			if times == 0 {
				times = 1
			}
			l := NewLive(bare(1), 1, speed)
			go l.Run(t.Context())
			time.Sleep(1234567 * us)
			if got, want := l.Now(), time.Duration(1234567*float64(us)*times); got != want {
				t.Errorf("at speed %v it is %v, want %v", speed, got, want)
			}
			c := newTap()
			a := &Stream{Prompt: 20, Output: 10}
			begin := time.Now()
			l.Submit(a, c)
			for l.Snapshot().Frontend.InFlight == 0 {
				time.Sleep(us)
			}
			for l.Snapshot().Frontend.InFlight > 0 {
				time.Sleep(us)
			}
			want := time.Duration(float64(loneSteps+loneAround) / times)
			if got := time.Since(begin); got < want || got > want+2*us {
				t.Errorf("at speed %v a request took %v, want %v", speed, got, want)
			}
		})
	}
}

func TestLiveStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLive(bare(1), 1, 1)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { l.Run(ctx) })
		time.Sleep(time.Second)
		stop()
		done.Wait()
		c := newTap()
		l.Submit(&Stream{Prompt: 1, Output: 1}, c)
		time.Sleep(time.Minute)
		if len(c.tokens) != 0 {
			t.Error("it moves on")
		}
	})
}

// A client may give up a request before the fleet has looked at it, or after it
// has ended, and is told of one end.
func TestAnEndIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLive(bare(1), 1, 1)
		c := newTap()
		early, late := &Stream{Prompt: 1, Output: 1}, &Stream{Prompt: 1, Output: 1}
		l.Submit(early, c)
		l.Abandon(early)
		l.Abandon(early)
		go l.Run(t.Context())
		time.Sleep(time.Second)
		l.Submit(late, c)
		time.Sleep(time.Second)
		synctest.Wait()
		l.Abandon(late)
		if early.Outcome != Abandoned || late.Outcome != Served || len(c.ended[early]) != 1 || len(c.ended[late]) != 1 {
			t.Errorf("outcomes %d and %d, told %d and %d times", early.Outcome, late.Outcome, len(c.ended[early]), len(c.ended[late]))
		}
		if s := l.Snapshot(); s.Frontend.InFlight != 0 || s.Workers[0].Held != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// What a client may read once it was told of the end is not written any more.
func TestAStreamThatHasEndedIsLeftAlone(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{dead(0)}
	f := virtual(s, 1, false)
	a := &Stream{Prompt: 1, Output: 1}
	f.submit(0, a, newTap())
	f.advance(time.Millisecond) // it is with the dead worker
	f.abandon(a)
	was := seenBy(a)
	f.advance(time.Second)
	if diff := cmp.Diff(was, seenBy(a)); diff != "" {
		t.Errorf("(-then +now):\n%s", diff)
	}
}

// A cold fleet gives its first answers late, each worker once; faults that are
// set again are there again.
func TestAColdStartInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(2)
		s.Faults = []spec.Fault{{Kind: spec.ColdStart, Takes: long(20 * time.Second)}}
		l := NewLive(s, 1, 1)
		go l.Run(t.Context())
		time.Sleep(time.Minute) // it is not warm for having been up
		ask := func(worker int) time.Duration {
			a := &Stream{Prompt: 20, Output: 1, Pin: worker + 1}
			c := newTap()
			l.Submit(a, c)
			time.Sleep(time.Minute)
			synctest.Wait()
			return a.First - a.Arrived
		}
		const warm = loneAround + loneFirst
		for i, want := range []time.Duration{warm + 20*time.Second, warm} {
			for worker := range 2 {
				if got := ask(worker); got != want {
					t.Errorf("answer %d of worker %d took %v, want %v", i+1, worker, got, want)
				}
			}
		}
		l.SetFaults(l.Faults())
		if got := ask(0); got != warm+20*time.Second {
			t.Errorf("cold again, it took %v", got)
		}
	})
}
