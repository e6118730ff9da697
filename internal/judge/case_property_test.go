package judge

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aicr/internal/spec"
)

func bytesOf(t interface{ Fatalf(string, ...any) }, v *spec.Verdict) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("a verdict that cannot be written: %v", err)
	}
	return b
}

// busyRun is a run with something of everything in it.
func busyRun() (*spec.Plan, []spec.Event, []*spec.EpisodeRecord) {
	b := bout{pace: both2(only(3, 0, 99, 0.5), only(1, 10, 13, 0)), counted: true, spoil: cachedShare(0.1), ends: oneIn(31, ending{class: "http-error", afterS: 0.2, detail: "500"}),
		sentinel: func(n int) float64 { return 0.1 }, gpu: heldBack(2, 5, "hw_thermal"),
		front: func(int) spec.FrontendSample { return spec.FrontendSample{InFlight: new(32.0), Queued: new(3.0)} }}
	return handPlan(floorOf(1500)), []spec.Event{answer("1", 42, 4, ""), answer("2", 12, 4, "")}, sequel0(bout{users: 16}, times(3, b))
}

// Same episodes, same bytes: a verdict follows from what was recorded, not from the
// order in which its sources came or a map was walked.
func TestTheSameEpisodesGiveTheSameBytes(t *testing.T) {
	p, events, episodes := busyRun()
	want := bytesOf(t, Judge(p, events, episodes...))
	if !strings.Contains(string(want), `"worker/slow"`) || !strings.Contains(string(want), `"gpu/throttle"`) {
		t.Fatalf("too little in it: %s", want)
	}
	for i := range 20 {
		if got := bytesOf(t, Judge(p, events, episodes...)); !bytes.Equal(got, want) {
			t.Fatalf("time %d:\n%s\n%s", i, got, want)
		}
	}
	orders := [][]string{{spec.SourceClient, spec.SourceGPU, spec.SourceFrontend, spec.SourceWorker}, {spec.SourceGPU, spec.SourceWorker, spec.SourceClient, spec.SourceFrontend}}
	for _, order := range orders {
		var moved []*spec.EpisodeRecord
		for _, r := range episodes {
			one := *r
			one.Series = slices.Clone(r.Series)
			slices.SortStableFunc(one.Series, func(a, b spec.Sample) int {
				return slices.Index(order, a.Source) - slices.Index(order, b.Source)
			})
			moved = append(moved, &one)
		}
		if got := bytesOf(t, Judge(p, events, moved...)); !bytes.Equal(got, want) {
			t.Errorf("in the order %v:\n%s\n%s", order, got, want)
		}
	}
}

// A case that is asked after each episode ends where one that is asked once ends.
func TestAskingInBetweenChangesNothing(t *testing.T) {
	p, events, episodes := busyRun()
	k := NewCase(p)
	k.Hear(events...)
	for _, r := range episodes {
		k.Verdict()
		k.Add(r)
		k.Verdict()
	}
	v, _ := k.Verdict()
	if got, want := bytesOf(t, v), bytesOf(t, Judge(p, events, episodes...)); !bytes.Equal(got, want) {
		t.Errorf("%s\n%s", got, want)
	}
}

// anyNumber is one that a broken file could have.
func anyNumber(t *rapid.T, what string) float64 {
	return rapid.OneOf(rapid.SampledFrom([]float64{0, -1, 1, 1e-9, 1e18, -1e18, math.NaN(), math.Inf(1), math.Inf(-1)}), rapid.Float64Range(-10, 4000)).Draw(t, what)
}

func anyStamp(t *rapid.T, what string) int64 {
	return rapid.SampledFrom([]int64{0, -1, 1, -second, second, 7 * second, 12 * second, 1000 * second, math.MaxInt64, math.MinInt64}).Draw(t, what)
}

// mutate breaks an episode in one way.
func mutate(t *rapid.T, r *spec.EpisodeRecord) {
	stamps := func(q *spec.Request) []*int64 {
		return []*int64{&q.Intended, &q.Sent, &q.First, &q.Last, &q.End, &q.Gap, &q.GapEnd}
	}
	some := func() (is func(i int) bool) {
		one, from := rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "each"), rapid.IntRange(0, 90).Draw(t, "from")
		return func(i int) bool { return i >= from && i%one == 0 }
	}
	worker := func(change func(w *spec.WorkerSample)) {
		is := some()
		for i := range r.Series {
			if w := r.Series[i].Worker; w != nil && is(i) {
				other := *w
				change(&other)
				r.Series[i].Worker = &other
			}
		}
	}
	switch rapid.SampledFrom([]string{"nothing", "stamps", "names", "tokens", "classes", "lanes", "cached", "shuffle", "drop requests", "no requests", "no series", "series times", "gauges",
		"counters", "no counters", "gaps", "gpu", "samples of nobody", "loaded", "point", "client", "workers", "cut"}).Draw(t, "mutation") {
	case "stamps":
		which, to, is := rapid.IntRange(0, 6).Draw(t, "stamp"), anyStamp(t, "to"), some()
		for i := range r.Requests {
			if is(i) {
				*stamps(&r.Requests[i])[which] = to
			}
		}
	case "names":
		name, is := rapid.SampledFrom([]string{"", "9", "0", "x"}).Draw(t, "name"), some()
		for i := range r.Requests {
			if is(i) {
				r.Requests[i].Worker = name
			}
		}
	case "tokens":
		n, is := rapid.SampledFrom([]int{0, -5, 1, 1e9}).Draw(t, "tokens"), some()
		for i := range r.Requests {
			if is(i) {
				r.Requests[i].Tokens, r.Requests[i].Prompt = n, n
			}
		}
	case "classes":
		class, is := rapid.SampledFrom([]string{"", "no-tokens", "interrupted", "http-error", "odd"}).Draw(t, "class"), some()
		for i := range r.Requests {
			if is(i) {
				r.Requests[i].Class = class
			}
		}
	case "lanes":
		is := some()
		for i := range r.Requests {
			if is(i) {
				r.Requests[i].Lane = spec.LaneSentinel
			}
		}
	case "cached":
		n := rapid.SampledFrom([]int{0, -1, 1e9}).Draw(t, "cached")
		for i := range r.Requests {
			r.Requests[i].Cached = &n
		}
	case "shuffle":
		r.Requests = rapid.Permutation(r.Requests).Draw(t, "requests")
	case "drop requests":
		is := some()
		kept := r.Requests[:0:0]
		for i := range r.Requests {
			if !is(i) {
				kept = append(kept, r.Requests[i])
			}
		}
		r.Requests = kept
	case "no requests":
		r.Requests = nil
	case "no series":
		r.Series = nil
	case "series times":
		to, is := anyStamp(t, "to"), some()
		for i := range r.Series {
			if is(i) {
				r.Series[i].T = to
			}
		}
	case "gauges":
		v := anyNumber(t, "gauge")
		worker(func(w *spec.WorkerSample) { w.Running, w.Waiting, w.KVUsage, w.InFlight = &v, &v, &v, &v })
	case "counters":
		v := anyNumber(t, "counter")
		worker(func(w *spec.WorkerSample) { w.Generated, w.PrefixHits, w.PrefixQueries = &v, &v, new(1.0) })
	case "no counters":
		worker(func(w *spec.WorkerSample) {
			*w = spec.WorkerSample{TokensPerS: rapid.SampledFrom([]*float64{nil, new(math.NaN()), new(-3.0)}).Draw(t, "rate")}
		})
	case "gaps":
		why, is := rapid.SampledFrom([]string{spec.GapRefused, spec.GapObserver, "odd"}).Draw(t, "gap"), some()
		for i := range r.Series {
			if is(i) {
				r.Series[i].Gap, r.Series[i].Worker = why, nil
			}
		}
	case "gpu":
		v, is := anyNumber(t, "gpu"), some()
		for i := range r.Series {
			if is(i) {
				r.Series[i].Source, r.Series[i].Worker, r.Series[i].GPU = spec.SourceGPU, nil, &spec.GPUSample{PowerW: &v, XID: &v, DoubleBit: &v, Utilization: &v, Throttle: &[]string{"odd"}}
			}
		}
	case "samples of nobody":
		for i := range r.Series {
			r.Series[i].Name = ""
		}
	case "loaded":
		r.Episode.LoadedS = rapid.SampledFrom([]float64{0, -1, 0.5, 3, 5000, math.NaN()}).Draw(t, "loaded")
	case "point":
		n := rapid.SampledFrom([]int{0, -1, 1, 1e9}).Draw(t, "point")
		r.Episode.Point.Concurrency, r.Episode.Point.Workers, r.Episode.Point.RampS = n, n, float64(n)
	case "client":
		r.Episode.Client = spec.BenchClient{Valid: true, InFlightAsked: rapid.IntRange(-1, 9).Draw(t, "asked"), InFlight: new(anyNumber(t, "held"))}
	case "workers":
		r.Episode.Workers, r.Episode.Samples = nil, nil
	case "cut":
		r.Series = r.Series[:rapid.IntRange(0, len(r.Series)).Draw(t, "series")]
		r.Requests = r.Requests[:rapid.IntRange(0, len(r.Requests)).Draw(t, "requests")]
	}
}

// Whatever a record has lost: no panic, a verdict that can be written, and PASS only
// by what was measured.
func TestABrokenRecordNeverPassesByWhatIsNotThere(t *testing.T) {
	small := bout{workers: 2, seconds: 12, ramp: 1}
	well := small.record()
	passed := false
	rapid.Check(t, func(t *rapid.T) {
		p := handPlan(func(p *spec.Plan) {
			p.Point, p.Reference.Throughput = well.Episode.Point, handFleet/2
			p.Thresholds.RateOK, p.Thresholds.RateBad = 1, 20
			switch rapid.IntRange(0, 7).Draw(t, "plan") {
			case 1:
				p.Reference = nil
			case 2:
				p.Reference = nil
				floorOf(rapid.SampledFrom([]float64{0, 700, 1e9}).Draw(t, "floor"))(p)
			case 3:
				p.Reference.Throughput = rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1)}).Draw(t, "reference")
			case 4:
				p.Stability = spec.StabilityReport
			case 5:
				p.Profile = rapid.SampledFrom([]string{spec.ProfileSmoke, spec.ProfileClassic}).Draw(t, "profile")
			}
		})
		var all []*spec.EpisodeRecord
		for i := range rapid.IntRange(1, 4).Draw(t, "episodes") {
			one := *well
			one.Episode.Number = i + 1
			one.Requests, one.Series = slices.Clone(one.Requests), slices.Clone(one.Series)
			for range rapid.IntRange(0, 2).Draw(t, "mutations") {
				mutate(t, &one)
			}
			all = append(all, &one)
		}
		if rapid.IntRange(0, 4).Draw(t, "half") == 0 {
			all[0].Episode.Number = 0
		}
		v := Judge(p, nil, all...)
		bytesOf(t, v)
		if len(v.Ledgers) != 3 || v.Reason == "" {
			t.Fatalf("not a whole verdict: %+v", v)
		}
		if v.Verdict != spec.Pass || p.Profile == spec.ProfileClassic {
			return
		}
		passed = true
		byReference := p.Reference != nil && p.Reference.Throughput > 0
		if !byReference && len(p.Constraints) == 0 {
			t.Fatalf("PASS without anything to hold it against: %s", v.Reason)
		}
		if v.Episodes < p.Thresholds.MinEpisodes {
			t.Fatalf("PASS by %d episodes", v.Episodes)
		}
		for _, l := range v.Ledgers {
			gated := l.Name != spec.Stability || p.Stability == spec.StabilityGate
			if gated && l.State != spec.Pass {
				t.Fatalf("PASS with %s %s: %s", l.Name, l.State, l.Reason)
			}
		}
	})
	if !passed {
		t.Error("nothing passed: the rule was never tried")
	}
}
