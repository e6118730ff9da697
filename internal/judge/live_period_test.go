package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"
)

// every leaves of a series only the samples that an observer with this period would
// have taken, each source at its own phase.
func every(series []spec.Sample, period int64) []spec.Sample {
	phases, slots := map[string]int64{}, map[string]int64{}
	var kept []spec.Sample
	for _, s := range series {
		name := s.Source + s.Name
		phase, ok := phases[name]
		if !ok {
			phase = int64(len(phases)) * 3 % 5 * period / 5
			phases[name], slots[name] = phase, -1
		}
		if slot := (s.T + phase) / period; slot > slots[name] {
			slots[name] = slot
			kept = append(kept, s)
		}
	}
	return kept
}

// watchedEvery looks once a period, and once in between.
func watchedEvery(series []spec.Sample, period int64) []moment {
	slices.SortStableFunc(series, func(a, b spec.Sample) int { return int(a.T - b.T) })
	l := NewLive(time.Duration(period))
	var told []moment
	next := period / 2
	for _, s := range series {
		for ; s.T > next; next += period / 2 {
			told = append(told, moment{seconds(next), l.Picture(next)})
		}
		l.Add(s)
	}
	return told
}

func TestALongIntervalIsNoFault(t *testing.T) {
	for _, name := range []string{"s1", "s2", "s3", "small"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5) {
				series := playedOut(t, name, seed+1)
				for _, period := range []int64{5 * second, 10 * second} {
					looks := watchedEvery(every(series, period), period)
					if len(looks) < 3 || len(looks[len(looks)/2].picture.Workers) == 0 {
						t.Fatalf("nothing was looked at: %d looks", len(looks))
					}
					for _, m := range looks {
						for _, s := range m.picture.Symptoms {
							t.Errorf("seed %d, every %d s, second %.1f: %s %s: %s",
								seed+1, period/second, m.s, s.Severity, s.Finding, s.Words)
						}
					}
				}
			}
		})
	}
}

// At a period of ten seconds one sample is too little for what takes two at one
// second, and a look between two samples sees what the one before saw.
func TestRulesNeedTheirSamplesAtALongInterval(t *testing.T) {
	const period = 10
	// A worker that makes a share of its 400 tokens/s from a sample on.
	at := func(name string, n, from int64, share float64) spec.Sample {
		full := min(n, from)
		made := 400 * period * (float64(full) + share*float64(n-full))
		return spec.Sample{T: n * period * second, Source: spec.SourceWorker, Name: name, Instance: name,
			Worker: &spec.WorkerSample{Running: new(8.0), Generated: new(1000 + made)}}
	}
	front := func(n, failed int64) spec.Sample {
		return spec.Sample{T: n * period * second, Source: spec.SourceFrontend, Name: "f", Frontend: &spec.FrontendSample{InFlight: new(16.0),
			Served: new(float64(100 * n)), Failed: new(float64(failed))}}
	}
	for name, c := range map[string]struct {
		sample func(n int64) []spec.Sample
		upTo   int64
		want   []string
	}{
		"work that came just before the sample": {func(n int64) []spec.Sample {
			one := at("a", n, 2, 0)
			if n <= 3 {
				one.Worker.Running = new(0.0)
			}
			return []spec.Sample{one}
		}, 4, nil},
		"the fleet, one low sample":  {func(n int64) []spec.Sample { return []spec.Sample{at("a", n, 6, 0.1), at("b", n, 6, 0.1)} }, 7, nil},
		"the fleet, two low samples": {func(n int64) []spec.Sample { return []spec.Sample{at("a", n, 6, 0.1), at("b", n, 6, 0.1)} }, 8, []string{"fail fleet/stall"}},
		"slow in two samples": {func(n int64) []spec.Sample {
			return []spec.Sample{at("a", n, 6, 0.4), at("b", n, 6, 1), at("c", n, 6, 1)}
		}, 8, nil},
		"slow in four": {func(n int64) []spec.Sample {
			return []spec.Sample{at("a", n, 6, 0.4), at("b", n, 6, 1), at("c", n, 6, 1)}
		}, 10, []string{"fail worker/slow a"}},
		"failures, by the sample before": {func(n int64) []spec.Sample {
			return []spec.Sample{at("a", n, 9, 1), front(n, 50*max(0, min(1, n-5)))}
		}, 7, []string{"fail serving/errors"}},
		"failures that have ended": {func(n int64) []spec.Sample {
			return []spec.Sample{at("a", n, 9, 1), front(n, 50*max(0, min(1, n-5)))}
		}, 8, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLive(period * time.Second)
			for n := int64(1); n <= c.upTo; n++ {
				for _, s := range c.sample(n) {
					l.Add(s)
				}
			}
			for _, later := range []int64{1, 9} {
				p := l.Picture((c.upTo*period + later) * second)
				if got := told(p); !slices.Equal(got, c.want) {
					t.Errorf("%d s later: %+v", later, p.Symptoms)
				}
			}
		})
	}
}

func TestAStallIsFoundAtALongInterval(t *testing.T) {
	for seed := range uint64(3) {
		series := playedOut(t, "s5", seed+1, fixed(20*time.Second, 20*time.Second, 5))
		var found bool
		for _, m := range watchedEvery(every(series, 5*second), 5*second) {
			for _, s := range m.picture.Symptoms {
				if s.Finding != "worker/stall" || !slices.Equal(s.Workers, []string{"5"}) {
					t.Errorf("seed %d, second %.1f: %s %v: %s", seed+1, m.s, s.Finding, s.Workers, s.Words)
				}
				found = found || s.Severity == Fail
			}
		}
		if !found {
			t.Errorf("seed %d: not found", seed+1)
		}
	}
}

// steady is a worker that makes tokens all the time.
func steady(t int64, name string) spec.Sample {
	return spec.Sample{T: t, Source: spec.SourceWorker, Name: name, Instance: name + ":9090",
		Worker: &spec.WorkerSample{Running: new(8.0), Generated: new(float64(t / 1e6))}}
}

func TestAShortIntervalKeepsTwoMinutes(t *testing.T) {
	const period = second / 10
	l := NewLive(time.Duration(period))
	last := int64(0)
	for s := period; s <= 300*second; s += period {
		one := steady(s, "a")
		if s/period%7 == 0 { // now and then one is missing
			one.Worker, one.Gap = nil, "no answer in 80ms"
		}
		l.Add(one)
		last = s
	}
	states := l.workers["a"].states
	if kept := last - states[0].t; kept < lookNS-second || len(states) > mostOf {
		t.Errorf("%d states of %v s", len(states), seconds(kept))
	}
	if p := l.Picture(last); len(p.Symptoms) > 0 || p.Workers[0].Gap != "" {
		t.Errorf("%+v", p.Symptoms)
	}
	for s := last + period; s <= last+2*second; s += period {
		one := steady(s, "a")
		one.Worker, one.Gap = nil, "no answer in 80ms"
		l.Add(one)
	}
	if got := told(l.Picture(last + 2*second)); !slices.Equal(got, []string{"fail worker/stall a"}) {
		t.Errorf("two seconds without an answer: %v", got)
	}
}

// Two that tell of one worker in turns do not make it look as if it were asked more
// often.
func TestThePeriodIsNeverLessThanTheInterval(t *testing.T) {
	l := NewLive(5 * time.Second)
	for s := range int64(10) {
		l.Add(steady(s*5*second+second, "a"))
		l.Add(steady(s*5*second+second+second/10, "a"))
	}
	l.Add(steady(58*second, "b"))
	if got := told(l.Picture(46*second + 14*second)); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestALogThatSaysNothingIsNoFault(t *testing.T) {
	l := NewLive(time.Second)
	for s := range int64(60) {
		if l.Add(steady(s*second, "page")); s <= 20 && s%10 == 0 {
			l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "log", Worker: &spec.WorkerSample{Running: new(8.0), TokensPerS: new(1000.0)}})
		}
		p := l.Picture(s * second)
		if len(p.Symptoms) > 0 {
			t.Fatalf("second %d: %+v", s, p.Symptoms)
		}
		at := slices.IndexFunc(p.Workers, func(w WorkerPicture) bool { return w.Name == "log" })
		if known := p.Workers[at].TokensPerS != nil; known != (s < 50) {
			t.Errorf("second %d: known is %v", s, known)
		}
	}
	for s := int64(61); s < 66; s++ {
		l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "log", Gap: "the file is gone"})
		l.Add(steady(s*second, "page"))
	}
	if got := told(l.Picture(66 * second)); !slices.Equal(got, []string{"note telemetry/gap log"}) {
		t.Errorf("a log that cannot be read: %v", got)
	}
}

// crowd is a second of two workers, their GPU, a node and a frontend.
func crowd(s int64) []spec.Sample {
	at := s * second
	return []spec.Sample{steady(at, "a"), steady(at+second/10, "b"),
		{T: at + second/5, Source: spec.SourceGPU, Name: "GPU-0", Instance: "g:9400", GPU: gpuAt(500, 0.9)},
		{T: at + second/4, Source: spec.SourceNode, Name: "n", Instance: "n:9100", Node: &spec.NodeSample{CPUPressure: new(0.0)}},
		{T: at + second/3, Source: spec.SourceFrontend, Name: "f", Instance: "f:8000", Frontend: &spec.FrontendSample{InFlight: new(16.0), Tokens: new(float64(2 * s * 1000))}}}
}

func missing(s spec.Sample, t int64, why string) spec.Sample {
	return spec.Sample{T: t, Source: s.Source, Name: s.Name, Instance: s.Instance, Gap: why}
}

func TestAStopOfTheWatcherIsNobodysFault(t *testing.T) {
	begun := func() *Live {
		l := NewLive(time.Second)
		for s := int64(1); s <= 20; s++ {
			for _, one := range crowd(s) {
				l.Add(one)
			}
		}
		return l
	}
	l := begun()
	p := l.Picture(25*second + second/2)
	if got := told(p); !slices.Equal(got, []string{"note telemetry/gap"}) || p.Symptoms[0].Words != "nothing was heard from anybody for 5 s: the watcher itself was stopped, or its network" {
		t.Fatalf("before anything has come: %+v", p.Symptoms)
	}
	if got := told(begun().Picture(22*second + second/2)); len(got) > 0 {
		t.Errorf("after two seconds: %v", got)
	}
	// The pollers wake up one after the other: after each of them, nobody is blamed.
	for i, one := range crowd(25) {
		if i == 0 { // it was asked when all stood still
			l.Add(missing(one, one.T-4*second, "the answer was late: it took 5s"))
		}
		for s := int64(3); s >= 0; s-- {
			l.Add(missing(one, one.T-s*second, "the observer itself was late by 4s"))
		}
		if got := told(l.Picture(25*second + second/2)); len(got) > 0 {
			t.Fatalf("%s: %v", one.Name, got)
		}
	}
	for s := int64(26); s < 30; s++ {
		for _, one := range crowd(s) {
			l.Add(one)
			if got := told(l.Picture(one.T)); len(got) > 0 {
				t.Fatalf("%s in second %d: %v", one.Name, s, got)
			}
		}
	}

	// Nobody says that the watcher stopped, but samples come again.
	l = begun()
	for _, one := range crowd(26) {
		l.Add(one)
		if got := told(l.Picture(one.T)); len(got) > 0 {
			t.Fatalf("%s: %v", one.Name, got)
		}
	}

	// It says so of one of them only, and then nothing more of it.
	l = begun()
	for s := int64(21); s <= 31; s++ {
		for i, one := range crowd(s) {
			if i == 0 && s > 25 {
				continue
			}
			if i == 0 {
				one = missing(one, one.T, "the observer itself was late by 1s")
			}
			l.Add(one)
		}
		if got := told(l.Picture(s*second + second/2)); len(got) > 0 {
			t.Fatalf("second %d: %v", s, got)
		}
	}

	// One was being asked when it stopped, and fails once more after it.
	l = begun()
	for i, one := range crowd(25) {
		if i == 0 {
			l.Add(missing(one, one.T-4*second, "the answer was late: it took 5s"))
		}
		for s := int64(3); s >= 0; s-- {
			l.Add(missing(one, one.T-s*second, "the observer itself was late by 4s"))
		}
	}
	for i, one := range crowd(26) {
		if i == 0 {
			one = missing(one, one.T, "no answer in 800ms")
		}
		l.Add(one)
	}
	if p := l.Picture(26*second + second/2); len(p.Symptoms) > 0 || p.Workers[0].Gap != "no answer in 800ms" {
		t.Errorf("%+v", p)
	}

	// What is from before the stop is not current.
	l = begun()
	for _, one := range crowd(26)[1:] {
		l.Add(one)
	}
	if p := l.Picture(26*second + second/2); len(p.Symptoms) > 0 || p.Workers[0].Name != "a" || p.Workers[0].Gap == "" || p.Workers[0].TokensPerS != nil {
		t.Errorf("%+v", p)
	}

	// Who does not answer after it is blamed for that time only.
	l = begun()
	for _, one := range crowd(25) {
		for s := int64(3); s >= 0; s-- {
			l.Add(missing(one, one.T-s*second, "the observer itself was late by 4s"))
		}
	}
	for s := int64(26); s <= 27; s++ {
		for i, one := range crowd(s) {
			if i == 0 {
				one = missing(one, one.T, "no answer in 800ms")
			}
			l.Add(one)
		}
	}
	p = l.Picture(27*second + second/2)
	if got := told(p); !slices.Equal(got, []string{"fail worker/stall a"}) || !strings.Contains(p.Symptoms[0].Words, "has not answered for 2 s") {
		t.Errorf("%+v", p.Symptoms)
	}
}

func TestWhoIsNoLongerListedIsForgotten(t *testing.T) {
	for name, gap := range map[string]spec.Sample{
		"by name":     {T: 10*second + 1, Source: spec.SourceWorker, Name: "a", Instance: "a:9090", Gap: "no longer listed"},
		"by instance": {T: 10*second + 1, Source: spec.SourceWorker, Name: "a:9090", Instance: "a:9090", Gap: "no longer listed"},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLive(time.Second)
			for s := int64(1); s <= 20; s++ {
				l.Add(steady(s*second, "b"))
				if s <= 10 {
					l.Add(steady(s*second, "a"))
				}
				if s == 10 {
					moved := gap
					moved.Instance, moved.Name = "old:9090", strings.Replace(moved.Name, "a:", "old:", 1)
					if l.Add(moved); len(l.workers) != 2 {
						t.Errorf("one that is elsewhere by now is forgotten")
					}
					l.Add(gap)
				}
				if p := l.Picture(s*second + 2); len(p.Symptoms) > 0 || s >= 10 && len(p.Workers) != 1 {
					t.Fatalf("second %d: %d workers, %+v", s, len(p.Workers), p.Symptoms)
				}
			}
		})
	}
}

func TestSymptomsBeginWithTheirFirstFailure(t *testing.T) {
	h := hand{workers: 3, seconds: 23, worker: func(s, w int) at {
		v := busy(8)
		if w == 2 && s > 20 {
			v.ended, v.failed = 6, 6
		}
		return v
	}, frontend: func(s int) *front {
		f := &front{inFlight: 24, tokens: 1200, served: 50, failed: 4, outcomes: map[string]float64{"success": 50, "cancelled": 4}}
		if s > 20 {
			f.failed, f.outcomes["internal"] = 10, 6
		}
		return f
	}}
	p := atEnd(h)
	if got := told(p); !slices.Equal(got, []string{"fail worker/black-hole 2", "fail serving/errors"}) {
		t.Fatalf("%v", got)
	}
	for _, s := range p.Symptoms {
		if s.SinceS < 2 || s.SinceS > 3 {
			t.Errorf("%s since %v s, the first was counted 2 s ago", s.Finding, s.SinceS)
		}
	}
}

// The frontend's own count is not mixed with the workers', which read 0 in a freeze
// and are told of first.
func TestAFleetStallCountsTheFrontendsRequests(t *testing.T) {
	l := NewLive(time.Second)
	h := hand{workers: 3, seconds: 23,
		worker: func(s, w int) at {
			if s > 20 {
				return at{}
			}
			return busy(8)
		},
		frontend: func(s int) *front {
			switch {
			case s > 22:
				return nil // it has not spoken yet
			case s > 20:
				return &front{inFlight: 24}
			}
			return &front{inFlight: 24, tokens: 1200, served: 6}
		}}
	for _, s := range h.series() {
		l.Add(s)
	}
	p := l.Picture(23*second + second/10)
	if got := told(p); !slices.Equal(got, []string{"fail fleet/stall"}) || !strings.Contains(p.Symptoms[0].Words, "with 24 requests under way") {
		t.Errorf("%+v", p.Symptoms)
	}
}

func TestABlackHoleThatFirstEndsWhatItHas(t *testing.T) {
	// From second 20 on half of all fails; the worker is empty from second empty on.
	hole := func(seconds, empty, over int, after at) hand {
		return hand{workers: 3, seconds: seconds, sole: true, worker: func(s, w int) at {
			switch {
			case w != 2 || s <= empty:
				return busy(8)
			case s > empty+1:
				return after
			}
			return at{}
		}, frontend: func(s int) *front {
			if s > 20 && s <= over {
				return &front{inFlight: 16, tokens: 800, served: 4, failed: 200}
			}
			return &front{inFlight: 16, tokens: 1200, served: 6}
		}}
	}
	both := []string{"fail worker/black-hole 2", "fail serving/errors"}
	testRule(t, map[string]ruleCase{
		"empty 2 s later":          {hole(25, 22, 99, at{}), both, []string{"stood empty since soon after that began"}},
		"empty 5 s later":          {hole(29, 25, 99, at{}), []string{"fail serving/errors"}, nil},
		"it does not stay empty":   {hole(25, 22, 99, busy(8)), []string{"fail serving/errors"}, nil},
		"the failures have ended":  {hole(29, 22, 25, at{}), []string{"fail serving/errors"}, nil},
		"3 s after the last of it": {hole(28, 22, 25, at{}), both, []string{"failed 1000 requests"}},
	})
}

func TestAWorkerStartsAnew(t *testing.T) {
	begun := func(at, every int64, name func(life int64) string) *Live {
		l := NewLive(time.Second)
		for s := int64(1); s <= at; s++ {
			life, since := s/every, s%every
			one := steady(s*second, name(life))
			one.Instance, one.Worker.Generated = "h:9090", new(float64(100*since))
			if life > 0 && since == 0 {
				one.Worker, one.Gap, one.Name = nil, "no longer on the page", name(life-1)
			}
			l.Add(one)
			if s%5 == 0 {
				l.Picture(s * second)
			}
		}
		return l
	}
	same := func(int64) string { return "a" }
	another := func(life int64) string { return fmt.Sprint(life) }
	for name, c := range map[string]struct {
		at, every int64
		name      func(int64) string
		want      string
	}{
		"once, by its counters":       {40, 30, same, "worker a has started anew once in the last 2 min (its counters began at 0)"},
		"a crash loop":                {60, 7, same, "worker a has started anew 8 times in the last 2 min (its counters began at 0)"},
		"once, with another id":       {40, 30, another, "worker 1 has started anew once in the last 2 min (another id at the same address)"},
		"a crash loop with other ids": {60, 7, another, "worker 8 has started anew 8 times in the last 2 min (another id at the same address)"},
		"long ago":                    {160, 300, same, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range begun(c.at, c.every, c.name).Picture(c.at*second + second/10).Symptoms {
				if s.Severity != Note || s.Finding != "worker/absent" {
					t.Errorf("%s %s: %s", s.Severity, s.Finding, s.Words)
				}
				got = append(got, s.Words)
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("%q", got)
			}
		})
	}
	l := NewLive(time.Second)
	for s := int64(1); s <= 200; s++ {
		one := steady(s*second, "a")
		if s > 20 {
			one.Worker.Generated = new(float64(s))
		}
		if s == 40 {
			one.Worker.Generated = new(30.0) // two readers, a little out of order
		}
		l.Add(one)
		if got := told(l.Picture(s * second)); (len(got) > 0) != (s > 20 && s <= 141) {
			t.Fatalf("second %d: %v", s, got)
		}
	}
}

func TestALongPromptThatFillsTheCacheIsNoStall(t *testing.T) {
	prefill := func(seconds int, running float64, kv func(s int) float64) hand {
		return hand{workers: 1, seconds: seconds, worker: func(s, w int) at {
			if s > 20 {
				return at{running: running, inFlight: running, kv: kv(s)}
			}
			return busy(2)
		}}
	}
	grows := func(s int) float64 { return float64(s) / 100 }
	stall := []string{"fail worker/stall 0"}
	testRule(t, map[string]ruleCase{
		"for 10 s":               {prefill(30, 1, grows), nil, nil},
		"for 29 s":               {prefill(49, 1, grows), nil, nil},
		"for 30 s":               {prefill(50, 1, grows), stall, nil},
		"many requests":          {prefill(30, 3, grows), stall, nil},
		"the cache stays as was": {prefill(30, 1, func(int) float64 { return 0.4 }), stall, nil},
		"beside a peer": {hand{workers: 2, seconds: 30, worker: func(s, w int) at {
			if s > 20 && w == 1 {
				return at{running: 1, inFlight: 1, kv: grows(s)}
			}
			return busy(8)
		}}, nil, nil},
		"it grew at first only": {prefill(30, 1, func(s int) float64 { return grows(min(s, 22)) }), stall, nil},
	})
}

func TestTheWorstIsFirst(t *testing.T) {
	l := NewLive(time.Second)
	for s := int64(1); s <= 20; s++ {
		add := func(name string, rate, waiting float64) {
			l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: name, Worker: &spec.WorkerSample{Running: new(8.0), Waiting: &waiting, Generated: new(rate * float64(s))}})
		}
		add("1", 400, 0)
		add("10", 400, 0)
		add("2", 400, 0)
		add("waits", 400, 2)
		add("less", 300, 0)
		if add("stalled", 400*float64(min(s, 15))/float64(s), 0); s < 20 {
			add("silent", 400, 0)
		} else {
			l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "silent", Gap: "status 500"})
		}
		l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "not known", Worker: &spec.WorkerSample{Running: new(0.0)}})
		for _, name := range []string{"GPU-a", "GPU-b"} {
			l.Add(spec.Sample{T: s * second, Source: spec.SourceGPU, Name: name, GPU: gpuAt(500, 0.9)})
		}
		gone := spec.Sample{T: s * second, Source: spec.SourceGPU, Name: "GPU-c", GPU: gpuAt(500, 0.9)}
		if s == 20 {
			gone.GPU, gone.Gap = nil, "status 500"
		}
		l.Add(gone)
	}
	p := l.Picture(20 * second)
	var workers, gpus []string
	for _, w := range p.Workers {
		workers = append(workers, w.Name)
	}
	for _, g := range p.GPUs {
		gpus = append(gpus, g.Name)
	}
	if want := []string{"stalled", "silent", "not known", "less", "waits", "1", "2", "10"}; !slices.Equal(workers, want) {
		t.Errorf("%v", workers)
	}
	if want := []string{"GPU-c", "GPU-a", "GPU-b"}; !slices.Equal(gpus, want) {
		t.Errorf("%v", gpus)
	}
}
