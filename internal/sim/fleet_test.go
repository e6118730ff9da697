package sim

import (
	"math"
	"testing"
	"time"

	"aicr/internal/spec"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// bare is a fleet whose every step can be worked out on paper: no jitter, no
// hiccups, round numbers.
func bare(workers int) *spec.Scenario {
	s, ok := spec.NewScenario("bare", "small")
	if !ok {
		panic("no profile small")
	}
	s.Fleet.Workers = workers
	s.Fleet.Timing = spec.Timing{
		Base: spec.Duration(10 * ms), Host: spec.Duration(2 * ms), PerSequence: spec.Duration(ms),
		PerPromptToken: spec.Duration(10 * us), PerAdmission: spec.Duration(100 * us),
	}
	s.Fleet.Frontend = spec.FrontendCost{PerRequest: spec.Duration(300 * us), PerToken: spec.Duration(7 * us)}
	s.Load = spec.Load{ConcurrencyPerGPU: 4, Episode: spec.Duration(6 * time.Second), InputTokens: 20, OutputTokens: 10}
	return s
}

// The network of the bare fleet, which is its profile's.
const network = 500 * us

func long(d time.Duration) *spec.Duration { return new(spec.Duration(d)) }

func on(workers ...int) *spec.Workers { return &spec.Workers{List: workers} }

// during lays a window.
func during(f spec.Fault, at, lasts time.Duration) spec.Fault {
	f.At, f.Lasts = long(at), long(lasts)
	return f
}

// tap is a client that notes all that it is told.
type tap struct {
	routed map[*Stream]time.Duration
	tokens map[*Stream][]time.Duration
	ended  map[*Stream][]time.Duration
}

func newTap() *tap {
	return &tap{map[*Stream]time.Duration{}, map[*Stream][]time.Duration{}, map[*Stream][]time.Duration{}}
}

func (c *tap) Routed(now time.Duration, s *Stream) { c.routed[s] = now }
func (c *tap) Token(now time.Duration, s *Stream)  { c.tokens[s] = append(c.tokens[s], now) }
func (c *tap) Ended(now time.Duration, s *Stream)  { c.ended[s] = append(c.ended[s], now) }

// ask is a request at a time.
type ask struct {
	at, gone       time.Duration // gone: when its client goes away; 0: never
	prompt, output int
	blocks         []uint64
	pin            int
}

// fataler is a test of the testing package, or of rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// drive has a fleet served these requests, moved from event to event until all
// have ended and nothing is under way, and gives the streams in order. After
// each event it calls check.
func drive(t fataler, f *Fleet, asks []ask, check func()) ([]*Stream, *tap) {
	t.Helper()
	c := newTap()
	streams := make([]*Stream, len(asks))
	for i, a := range asks {
		streams[i] = &Stream{Prompt: a.prompt, Output: a.output, Blocks: a.blocks, Pin: a.pin, Tag: i}
		f.submit(a.at, streams[i], c)
		if a.gone > 0 {
			f.wakeAt(a.gone, i)
		}
	}
	f.onWake = func(who int) { f.abandon(streams[who]) }
	for len(c.ended) < len(asks) {
		if f.now > time.Hour {
			t.Fatalf("%d of %d requests never ended", len(asks)-len(c.ended), len(asks))
		}
		f.advance(f.next())
		if check != nil {
			check()
		}
	}
	for end := f.now + 10*time.Minute; f.now < end; {
		f.advance(f.next())
	}
	return streams, c
}

func virtual(s *spec.Scenario, seed uint64, each bool) *Fleet {
	return newFleet(s, settings{seed: seed, episode: 1, eachToken: each, warm: true})
}

func play(t testing.TB, s *spec.Scenario, seed uint64, episode int, l Load) *Recording {
	t.Helper()
	r, err := Play(t.Context(), s, seed, episode, l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// within checks a count of n draws against a share, at five standard deviations.
func within(t *testing.T, what string, count, n int, share float64) {
	t.Helper()
	mean, sd := float64(n)*share, math.Sqrt(float64(n)*share*(1-share))
	if math.Abs(float64(count)-mean) > 5*sd+0.5 {
		t.Errorf("%s: %d of %d, want about %.0f", what, count, n, mean)
	}
}

// What takes longer than there is time never happens, and nothing happens before
// its time: a frontend that is as good as stopped serves nobody.
func TestWhatNeverEndsHoldsEverythingUp(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{{Kind: spec.HostSlow, Factor: new(1e18)}}
	for _, q := range play(t, s, 1, 1, Load{Grace: time.Second}).Requests {
		if q.Class != "interrupted" || q.End < q.Sent {
			t.Fatalf("%+v", q)
		}
	}
	f := virtual(s, 1, false)
	f.queue.push(event{at: time.Minute, kind: tick})
	f.advance(time.Minute)
	if f.now != time.Minute {
		t.Errorf("it is %v", f.now)
	}
}

// Those who give up on what stands still are not kept.
func TestWhoGaveUpIsForgotten(t *testing.T) {
	for name, fault := range map[string]spec.Fault{
		"a frozen frontend": {Kind: spec.FrontendFreeze},
		"a wedged worker":   {Kind: spec.WorkerWedge, Workers: on(0), Running: "real"},
	} {
		s := bare(1)
		s.Faults = []spec.Fault{fault}
		f := virtual(s, 1, true)
		c := newTap()
		for i := range 5000 {
			stream := &Stream{Prompt: 20, Output: 5}
			f.submit(f.now, stream, c)
			f.advance(time.Duration(i+1) * ms)
			f.abandon(stream)
		}
		if jobs, queue := len(f.frontend.jobs)-f.frontend.head, len(f.workers[0].queue); jobs > 100 || queue > 100 {
			t.Errorf("%s keeps %d jobs and %d requests of those who are gone", name, jobs, queue)
		}
	}
}

// A worker that hangs does not hear that a client has gone away: its gauges count
// on, until it is mended.
func TestAHungWorkerCountsThoseWhoAreGone(t *testing.T) {
	s := bare(1)
	s.Fleet.MaxSequences = 2
	s.Faults = []spec.Fault{during(spec.Fault{Kind: spec.WorkerWedge, Workers: on(0), Running: "real"}, 15*ms, time.Second)}
	f := virtual(s, 1, true)
	var asks []ask
	for range 3 {
		asks = append(asks, ask{prompt: 20, output: 50, gone: 500 * ms})
	}
	drive(t, f, asks, func() {
		w := f.snapshot().Workers[0]
		switch {
		case f.now > 20*ms && f.now < 1015*ms && (w.Running != 2 || w.Waiting != 1 || w.KVUsage == 0):
			t.Fatalf("at %v: %+v", f.now, w)
		case f.now > 1015*ms && (w.Running != 0 || w.Waiting != 0 || w.KVUsage != 0):
			t.Fatalf("mended, at %v: %+v", f.now, w)
		}
	})
}

// What a killed worker had is told by the frontend, and so not while it is frozen.
func TestAFrozenFrontendTellsOfNoError(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{
		during(spec.Fault{Kind: spec.FrontendFreeze}, 20*ms, time.Second),
		during(spec.Fault{Kind: spec.WorkerMissing, Workers: on(0)}, 30*ms, time.Minute),
	}
	streams, c := drive(t, virtual(s, 1, true), []ask{{prompt: 20, output: 50}}, nil)
	if at := c.ended[streams[0]][0]; streams[0].Outcome != ErrorTold || at < 1020*ms {
		t.Errorf("it was told %v at %v", streams[0].Outcome, at)
	}
}

// A worker that dies with a request at the door, and is back in the same moment,
// begins once.
func TestAWorkerThatIsBackAtOnceBeginsOnce(t *testing.T) {
	f := virtual(bare(1), 1, true)
	c := newTap()
	streams := []*Stream{{Prompt: 20, Output: 4}, {Prompt: 20, Output: 4}}
	w := f.workers[0]
	for _, s := range streams {
		s.client, s.state = c, arriving
		f.frontend.inFlight++
		f.frontend.queued++
		f.view.count(0, 1)
		f.queueAt(w, s)
		if s == streams[0] {
			f.kill(w)
		}
	}
	f.advance(time.Second)
	if streams[0].Outcome != ErrorTold || streams[1].Outcome != Served || streams[1].Given != 4 || w.step != 4 {
		t.Errorf("%v, %v with %d tokens after %d steps", streams[0].Outcome, streams[1].Outcome, streams[1].Given, w.step)
	}
}
