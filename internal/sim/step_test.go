package sim

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func micros(n ...int) []time.Duration {
	var all []time.Duration
	for _, n := range n {
		all = append(all, time.Duration(n)*us)
	}
	return all
}

// The bare fleet: a request passes the frontend in 300 us. A step takes 12 ms,
// and 1 ms a decoding sequence, 10 us a prompt token, 100 us an admission. Its
// tokens pass the frontend in 7 us each, and the network in 500 us.
func TestAStepTakesWhatItsParts(t *testing.T) {
	tests := map[string]struct {
		fleet func(*spec.Fleet)
		asks  []ask
		want  [][]time.Duration // the times of each one's tokens
	}{
		"the first token comes with the admitting step, then one a step": {
			// 300 + 12000+200+100 = 12600, then 13000 each
			asks: []ask{{prompt: 20, output: 3}},
			want: [][]time.Duration{micros(12_600+507, 25_600+507, 38_600+507)},
		},
		"one token is one step": {
			asks: []ask{{prompt: 1, output: 1}},
			want: [][]time.Duration{micros(300 + 12_110 + 507)},
		},
		"who comes during a step is admitted at its end": {
			// 12600; then 12000 + 1000 of the first + 300 of the second = 25900, both tokens
			// passing together; then 14000 each; the first leaves after its third
			asks: []ask{{prompt: 20, output: 3}, {at: 5 * ms, prompt: 20, output: 3}},
			want: [][]time.Duration{micros(12_600+507, 25_900+514, 39_900+514), micros(25_900+514, 39_900+514, 52_900+507)},
		},
		"two who wait are admitted into one batch": {
			// 12600; then 12000 + 1000 + 2*300 = 26200, three tokens; then 14000 of the two
			asks: []ask{{prompt: 20, output: 2}, {at: 5 * ms, prompt: 20, output: 2}, {at: 6 * ms, prompt: 20, output: 2}},
			want: [][]time.Duration{micros(12_600+507, 26_200+521), micros(26_200+521, 40_200+514), micros(26_200+521, 40_200+514)},
		},
		"an idle worker begins when a request comes": {
			asks: []ask{{at: 100 * ms, prompt: 20, output: 1}},
			want: [][]time.Duration{micros(112_600 + 507)},
		},
		"host time is part of every step": {
			fleet: func(f *spec.Fleet) { f.Timing.Host = spec.Duration(5 * ms) },
			asks:  []ask{{prompt: 20, output: 2}},
			want:  [][]time.Duration{micros(15_600+507, 31_600+507)},
		},
		"the frontend passes one thing at a time": {
			// 300, 600; the second is routed to the idle second worker
			fleet: func(f *spec.Fleet) { f.Workers, f.Router = 2, "round-robin" },
			asks:  []ask{{prompt: 20, output: 1}, {prompt: 20, output: 1}},
			want:  [][]time.Duration{micros(12_600 + 507), micros(12_900 + 507)},
		},
		"a request waits for the tokens before it, and tokens for the request": {
			// the tokens of 12600 are passed by 12607; the request of 12601 by 12907;
			// it is admitted at 25600, whose token passes alone
			asks: []ask{{prompt: 20, output: 2}, {at: 12_601 * us, prompt: 20, output: 1}},
			want: [][]time.Duration{micros(12_600+507, 25_600+507), micros(25_600 + 12_300 + 507)},
		},
		"no more run at once than maxSequences": {
			fleet: func(f *spec.Fleet) { f.MaxSequences = 1 },
			asks:  []ask{{prompt: 20, output: 2}, {prompt: 20, output: 2}},
			want:  [][]time.Duration{micros(12_600+507, 25_600+507), micros(37_900+507, 50_900+507)},
		},
		"a burst of prompts is spread over steps by maxBatchedTokens": {
			// 45 tokens a step: the first alone (it found the worker idle), then 44 left of
			// 45 with one decoding: two prompts of 20, then with three the last
			fleet: func(f *spec.Fleet) { f.MaxBatchedTokens = 45 },
			asks:  []ask{{prompt: 20, output: 4}, {prompt: 20, output: 1}, {prompt: 20, output: 1}, {prompt: 20, output: 1}},
			want: [][]time.Duration{
				micros(12_600+507, 26_200+521, 39_500+514, 52_500+507),
				micros(26_200 + 521), micros(26_200 + 521), micros(39_500 + 514),
			},
		},
		"a decoding sequence takes one of the batched tokens": {
			// 40 would hold two prompts of 20, but not beside one that decodes
			fleet: func(f *spec.Fleet) { f.MaxBatchedTokens = 40 },
			asks:  []ask{{prompt: 20, output: 3}, {prompt: 20, output: 1}, {prompt: 20, output: 1}},
			want:  [][]time.Duration{micros(12_600+507, 25_900+514, 39_200+514), micros(25_900 + 514), micros(39_200 + 514)},
		},
		"a prompt longer than maxBatchedTokens is computed in parts": {
			// 16 + 16 + 8 tokens: 12160, 12160, and with the admission 12180
			fleet: func(f *spec.Fleet) { f.MaxBatchedTokens = 16 },
			asks:  []ask{{prompt: 40, output: 2}},
			want:  [][]time.Duration{micros(36_800+507, 49_800+507)},
		},
		"who decodes goes on while a prompt is computed in parts": {
			// from 12460: 13150 with 15 of the 31 tokens, 13150 with 15, then with the last
			// 13110, both decoding after; nobody is let in beside a part
			fleet: func(f *spec.Fleet) { f.MaxBatchedTokens = 16 },
			asks:  []ask{{prompt: 6, output: 5}, {at: ms, prompt: 31, output: 2}},
			want: [][]time.Duration{
				micros(12_460+507, 25_610+507, 38_760+507, 51_870+514, 65_870+514),
				micros(51_870+514, 65_870+514),
			},
		},
		"no admission waits for a prompt's parts to be behind it": {
			// the prompt of 40 is first: 16, 16, 8 and then 8 of the next one's 8
			fleet: func(f *spec.Fleet) { f.MaxBatchedTokens = 16 },
			asks:  []ask{{prompt: 40, output: 1}, {at: ms, prompt: 8, output: 1}},
			want:  [][]time.Duration{micros(300 + 12_160 + 12_160 + 12_360 + 514), micros(300 + 12_160 + 12_160 + 12_360 + 514)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := bare(1)
			if tt.fleet != nil {
				tt.fleet(&s.Fleet)
			}
			streams, c := drive(t, virtual(s, 1, true), tt.asks, nil)
			for i, s := range streams {
				if diff := cmp.Diff(tt.want[i], c.tokens[s]); diff != "" {
					t.Errorf("tokens of request %d (-want +got):\n%s", i, diff)
				}
			}
			// Told of the first token alone, a client knows the same in the end.
			f := bare(1)
			if tt.fleet != nil {
				tt.fleet(&f.Fleet)
			}
			streams, c = drive(t, virtual(f, 1, false), tt.asks, nil)
			for i, s := range streams {
				want := tt.want[i]
				var gap, end time.Duration
				for k := 1; k < len(want); k++ {
					if d := want[k] - want[k-1]; d > gap {
						gap, end = d, want[k]
					}
				}
				got := []any{s.First, s.Last, s.Given, s.Gap, s.GapEnd, s.Outcome, c.tokens[s], c.ended[s]}
				if diff := cmp.Diff([]any{want[0], want[len(want)-1], len(want), gap, end, Served, want[:1], want[len(want)-1:]}, got); diff != "" {
					t.Errorf("request %d, when told of its first token alone (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestTheHeadOfAnAnswerGoesOutWhenItsWorkerHasIt(t *testing.T) {
	streams, c := drive(t, virtual(bare(1), 1, false), []ask{{at: ms, prompt: 20, output: 1}}, nil)
	if got := c.routed[streams[0]]; got != ms+300*us {
		t.Errorf("routed at %v", got)
	}
	if got := streams[0].Admitted; got != ms+300*us {
		t.Errorf("admitted at %v", got)
	}
}

func TestWhatTakesForEverNeverComes(t *testing.T) {
	for _, tt := range []struct {
		now  time.Duration
		ns   float64
		want time.Duration
		ever bool
	}{
		{5, 0, 5, true},
		{5, 2.4, 7, true},
		{5, 2.5, 8, true},
		{5, math.Inf(1), 0, false},
		{5, 1e300, 0, false},
		{math.MaxInt64 - 10, 20, 0, false},
	} {
		if got, ever := after(tt.now, tt.ns); got != tt.want || ever != tt.ever {
			t.Errorf("%v ns after %d: %d, %v", tt.ns, tt.now, got, ever)
		}
	}
	s := bare(1)
	s.Faults = []spec.Fault{during(stall(1e300, 0), 5*ms, 100*ms)}
	streams, _ := drive(t, virtual(s, 1, false), []ask{{prompt: 20, output: 1}}, nil)
	if got := streams[0].First; got != 112_600*us+507*us {
		t.Errorf("the token came at %v", got)
	}
}

func TestJitterIsDrawnOnceAnEpisode(t *testing.T) {
	s := bare(1)
	s.Fleet.Timing.HostJitter, s.Fleet.Timing.StepJitter = 0.25, 0.045
	requests, steps := map[float64]bool{}, map[float64]bool{}
	for episode := range 20 {
		a := newFleet(s, settings{seed: 7, episode: episode + 1})
		b := newFleet(s, settings{seed: 7, episode: episode + 1})
		if a.perRequest != b.perRequest || a.pace != b.pace {
			t.Fatal("the same episode differs")
		}
		requests[a.perRequest], steps[a.pace] = true, true
		speed := a.perRequest / float64(s.Fleet.Frontend.PerRequest)
		if token := a.perToken / float64(s.Fleet.Frontend.PerToken); token*token < speed*0.999 || token*token > speed*1.001 {
			t.Errorf("a host %v times as slow passes tokens %v times as slowly, want its root", speed, token)
		}
	}
	if len(requests) != 20 || len(steps) != 20 {
		t.Errorf("20 episodes have %d speeds of the host and %d of the steps", len(requests), len(steps))
	}
}

func TestHiccupsComeAsOftenAsTheProfileSays(t *testing.T) {
	s, _ := spec.NewScenario("x", "h100-eks")
	s.Fleet.Workers = 1
	s.Fleet.Timing.StepJitter = 0
	p, _ := spec.ProfileNamed("h100-eks")
	plain := s.Fleet.Timing.Base + s.Fleet.Timing.Host + s.Fleet.Timing.PerSequence
	hiccups := func(jitter float64) (slow, steps int) {
		s.Fleet.Timing.HostJitter = jitter
		for seed := range uint64(2) {
			f := virtual(s, seed, true)
			a, c := &Stream{Prompt: 1, Output: 30_000}, newTap()
			f.submit(0, a, c)
			for len(c.ended) == 0 {
				f.advance(f.next())
			}
			for i, at := range c.tokens[a][1:] {
				steps++
				if at-c.tokens[a][i] > plain.D()+ms {
					slow++
				}
			}
		}
		return slow, steps
	}
	slow, steps := hiccups(1e-9)
	within(t, "hiccups", slow, steps, p.HiccupsPerSecond*plain.D().Seconds())
	if slow, _ := hiccups(0); slow != 0 {
		t.Errorf("a host without jitter has %d hiccups", slow)
	}
}
