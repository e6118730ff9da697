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
