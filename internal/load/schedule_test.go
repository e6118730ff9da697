package load_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
)

const ms = time.Millisecond

// Constant arrivals are where arithmetic puts them, however many came before.
func TestConstantArrivalsAreExact(t *testing.T) {
	for _, rate := range []float64{0.5, 1, 3, 7, 1000, 12345.678} {
		at := load.Arrivals(load.Schedule{Rate: rate}, 1, 100_000)
		for i, got := range at {
			if want := int64(math.Round(float64(i) * (1e9 / rate))); got != want {
				t.Fatalf("rate %v, arrival %d: %d, want %d", rate, i, got, want)
			}
		}
	}
}

// The gaps of random arrivals have the law's mean and variance, and the whole of
// its shape by Kolmogorov and Smirnov's test.
func TestRandomArrivalsFollowTheirLaw(t *testing.T) {
	const n, rate = 20_000, 1e-4 // so rare that whole nanoseconds are no grain
	tests := map[string]struct {
		schedule load.Schedule
		shape    float64
	}{
		"poisson":    {load.Schedule{Pattern: load.Poisson}, 1},
		"gamma 1":    {load.Schedule{Pattern: load.Gamma, Smoothness: 1}, 1},
		"gamma 0.25": {load.Schedule{Pattern: load.Gamma, Smoothness: 0.25}, 0.25},
		"gamma 4":    {load.Schedule{Pattern: load.Gamma, Smoothness: 4}, 4},
		"gamma 50":   {load.Schedule{Pattern: load.Gamma, Smoothness: 50}, 50},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				s := tt.schedule
				s.Rate = rate
				at := load.Arrivals(s, seed, n+1)
				gaps := make([]float64, n)
				var sum, square float64
				for i := range gaps {
					gaps[i] = float64(at[i+1]-at[i]) * rate / 1e9 // of mean 1
					sum += gaps[i]
					square += gaps[i] * gaps[i]
				}
				mean := sum / n
				variance := square/n - mean*mean
				// Five standard errors: of the mean, and of the variance, by the
				// gamma law's fourth moment 3+6/k.
				if off := math.Abs(mean - 1); off > 5/math.Sqrt(n*tt.shape) {
					t.Errorf("seed %d: mean gap %v of 1", seed, mean)
				}
				if want := 1 / tt.shape; math.Abs(variance-want) > 5*want*math.Sqrt((2+6/tt.shape)/n) {
					t.Errorf("seed %d: variance %v, want %v", seed, variance, want)
				}
				slices.Sort(gaps)
				var d float64
				for i, g := range gaps {
					f := gammaCDF(tt.shape, g*tt.shape)
					d = max(d, math.Abs(f-float64(i)/n), math.Abs(float64(i+1)/n-f))
				}
				if limit := 2.0 / math.Sqrt(n); d > limit { // p = 0.0007
					t.Errorf("seed %d: the gaps' distribution is off by %v, where %v is chance", seed, d, limit)
				}
			}
		})
	}
}

// gammaCDF is the regularised incomplete gamma function P(a, x): its series, or
// where that is slow its continued fraction (Abramowitz and Stegun 6.5.29, .31).
func gammaCDF(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	lg, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - lg)
	if x < a+1 {
		term := 1 / a
		sum := term
		for n := a + 1; term > sum*1e-15; n++ {
			term *= x / n
			sum += term
		}
		return front * sum
	}
	b := x + 1 - a
	c, d := math.Inf(1), 1/b
	h := d
	for i := 1.0; i < 10_000; i++ {
		an := -i * (i - a)
		b += 2
		d = 1 / (an*d + b)
		c = b + an/c
		h *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return 1 - front*h
}

func TestGammaCDF(t *testing.T) {
	for _, x := range []float64{0.01, 0.5, 1, 3, 20} {
		if got, want := gammaCDF(1, x), 1-math.Exp(-x); math.Abs(got-want) > 1e-12 {
			t.Errorf("P(1, %v) = %v, want %v", x, got, want)
		}
		if got, want := gammaCDF(0.5, x), math.Erf(math.Sqrt(x)); math.Abs(got-want) > 1e-12 {
			t.Errorf("P(½, %v) = %v, want %v", x, got, want)
		}
	}
}

// Any time table begins at 0, never goes back, and is the seed's.
func TestArrivalsAreMonotoneAndSeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := load.Schedule{
			Rate:       rapid.Float64Range(0.01, 1e5).Draw(t, "rate"),
			Pattern:    rapid.SampledFrom([]load.Pattern{load.Constant, load.Poisson, load.Gamma}).Draw(t, "pattern"),
			Smoothness: rapid.Float64Range(0.05, 100).Draw(t, "smoothness"),
		}
		seed := rapid.Uint64().Draw(t, "seed")
		at := load.Arrivals(s, seed, 500)
		if at[0] != 0 || !slices.IsSorted(at) {
			t.Fatalf("from %d, sorted %v", at[0], slices.IsSorted(at))
		}
		if !slices.Equal(at, load.Arrivals(s, seed, 500)) {
			t.Fatal("the same seed gave another time table")
		}
		if s.Pattern != load.Constant && slices.Equal(at, load.Arrivals(s, seed+1, 500)) {
			t.Fatal("another seed gave the same time table")
		}
	})
}

// span is one request's time in flight.
type span struct{ from, to int64 }

func spansOf(l *load.Log, keep func(*load.Record) bool) []span {
	var all []span
	for r := range l.All() {
		if keep(r) {
			all = append(all, span{r.Sent, r.End})
		}
	}
	return all
}

// inFlightAt is the least and the most in flight between two stamps, where an
// end and a begin of the same moment are one step.
func inFlightAt(spans []span, from, to int64) (least, most int) {
	step := map[int64]int{}
	for _, s := range spans {
		step[s.from]++
		step[s.to]--
	}
	var at []int64
	for k := range step {
		at = append(at, k)
	}
	slices.Sort(at)
	least = math.MaxInt
	n := 0
	for _, k := range at {
		n += step[k]
		if from <= k && k < to {
			least, most = min(least, n), max(most, n)
		}
	}
	return least, most
}

func byLane(lane load.Lane) func(*load.Record) bool {
	return func(r *load.Record) bool { return r.Lane == lane && r.Phase != load.Warmup }
}

// A closed loop has exactly its users' requests in flight, from the last user's
// start to the last request's.
func TestClosedLoopHoldsItsUsers(t *testing.T) {
	tests := map[string]struct {
		users int
		ramp  time.Duration
		count int64
	}{
		"one user":     {1, 0, 20},
		"many":         {17, 0, 300},
		"with a ramp":  {10, 2 * time.Second, 300},
		"as many once": {16, 0, 16},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := truth.Script{TTFT: 100 * ms, TTFTSpread: 60 * ms, ITL: 10 * ms, ITLSpread: 3 * ms}
			inVirtualTime(t, s, func(t *testing.T, h *truth.Handler, target *load.Target) {
				res := mustRun(t, planTo(t, target, load.Schedule{Users: tt.users, Ramp: tt.ramp, Count: tt.count}, 5))
				if got := countClasses(res.Log); got[load.OK] != int(tt.count) || res.Log.Len() != int(tt.count) {
					t.Fatalf("%v %v", got, res.Log.Details)
				}
				spans := spansOf(res.Log, byLane(load.Closed))
				least, most := inFlightAt(spans, res.Main.Full, res.Main.Dry)
				if tt.count > int64(tt.users) && (least != tt.users || most != tt.users) {
					t.Errorf("from %d to %d in flight", least, most)
				}
				if _, most := inFlightAt(spans, 0, math.MaxInt64); most != tt.users || h.Truth().PeakInFlight != tt.users {
					t.Errorf("%d in flight by the records, %d by the server", most, h.Truth().PeakInFlight)
				}
				if a := res.Audit; !a.Valid() || tt.count > int64(tt.users) && a.InFlight != float64(tt.users) {
					t.Errorf("%+v", a)
				}
				seen := make([]bool, tt.count)
				for r := range res.Log.All() {
					seen[r.Seq] = true
				}
				if slices.Contains(seen, false) {
					t.Error("a place in the sequence was not sent")
				}
			})
		})
	}
}

// The users of a ramp start evenly, and what was sent before the last of them
// had started is the ramp.
func TestRampIsEven(t *testing.T) {
	const users, ramp = 8, 4 * time.Second
	inVirtualTime(t, truth.Script{TTFT: 700 * ms}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		res := mustRun(t, planTo(t, target, load.Schedule{Users: users, Ramp: ramp, Count: 100}, 1))
		first := map[int32]int64{}
		for r := range res.Log.All() {
			if at, seen := first[r.User]; !seen || r.Sent < at {
				first[r.User] = r.Sent
			}
		}
		for u := range int32(users) {
			if got, want := time.Duration(first[u]-res.Main.Start), time.Duration(u)*ramp/users; got != want {
				t.Errorf("user %d started at %v, want %v", u, got, want)
			}
		}
		full := res.Main.Start + int64(7*ramp/users)
		if res.Main.Full != full {
			t.Errorf("full at %v", time.Duration(res.Main.Full-res.Main.Start))
		}
		checkPhases(t, res, func(r *load.Record) load.Phase {
			switch {
			case r.Sent < full:
				return load.Ramp
			case r.End > res.Main.Dry:
				return load.Drain
			}
			return load.Steady
		})
	})
}

func checkPhases(t *testing.T, res *load.Result, want func(*load.Record) load.Phase) {
	t.Helper()
	n := map[load.Phase]int{}
	for r := range res.Log.All() {
		n[r.Phase]++
		if w := want(r); r.Phase != w {
			t.Errorf("request %d, %v to %v: %v, want %v", r.Seq, time.Duration(r.Sent), time.Duration(r.End), r.Phase, w)
		}
	}
	if n[load.Steady] == 0 || n[load.Drain] == 0 {
		t.Errorf("phases %v", n)
	}
}

// The warm-up is a stage of its own: none of the main stage is sent before all
// of it has ended, and it has its own places in the workload.
func TestWarmupIsAwaited(t *testing.T) {
	inVirtualTime(t, truth.Script{TTFT: 300 * ms, TTFTSpread: 250 * ms}, func(t *testing.T, h *truth.Handler, target *load.Target) {
		p := planTo(t, target, load.Schedule{Users: 4, Count: 40}, 2)
		p.Warmup = load.Schedule{Users: 6, Count: 15}
		res := mustRun(t, p)
		var lastWarm, firstMain int64 = 0, math.MaxInt64
		n := map[bool]int{}
		for r := range res.Log.All() {
			warm := r.Phase == load.Warmup
			n[warm]++
			if warm {
				lastWarm = max(lastWarm, r.End)
			} else {
				firstMain = min(firstMain, r.Sent)
			}
		}
		if n[true] != 15 || n[false] != 40 || h.Truth().Requests != 55 {
			t.Errorf("%v of 15 and 40; the server saw %d", n, h.Truth().Requests)
		}
		if firstMain < lastWarm || res.Warmup.End > res.Main.Start || res.Main.Start != firstMain {
			t.Errorf("warm-up to %d (%+v), main from %d (%+v)", lastWarm, res.Warmup, firstMain, res.Main)
		}
		if res.Gaps.Count != 40 {
			t.Errorf("%d gaps pooled, want those of the main stage", res.Gaps.Count)
		}
	})
}

// A run ends by count, by time or when told: sending stops at once, and what is
// in flight is awaited for the grace, then given up as interrupted.
func TestRunsEnd(t *testing.T) {
	answer := 400 * ms // of each request, exactly
	tests := map[string]struct {
		main        load.Schedule
		grace       time.Duration
		cancel      time.Duration
		ok, stopped int
		lasts       time.Duration
		unsent      int64 // due, and held back by the cap
	}{
		"by count":               {main: load.Schedule{Users: 2, Count: 5}, grace: time.Second, ok: 5, lasts: 1200 * ms},
		"by time":                {main: load.Schedule{Users: 2, Duration: time.Second}, grace: time.Second, ok: 6, lasts: 1200 * ms},
		"by time, at an end":     {main: load.Schedule{Users: 2, Duration: 800 * ms}, grace: time.Second, ok: 4, lasts: 800 * ms},
		"by time, grace over":    {main: load.Schedule{Users: 2, Duration: time.Second}, grace: 100 * ms, ok: 4, stopped: 2, lasts: 1100 * ms},
		"count before time":      {main: load.Schedule{Users: 2, Count: 3, Duration: time.Hour}, grace: time.Second, ok: 3, lasts: 800 * ms},
		"told to":                {main: load.Schedule{Users: 3}, grace: time.Second, cancel: 900 * ms, ok: 9, lasts: 1200 * ms},
		"told to, grace over":    {main: load.Schedule{Users: 3}, grace: 50 * ms, cancel: 900 * ms, ok: 6, stopped: 3, lasts: 950 * ms},
		"told to, no grace":      {main: load.Schedule{Users: 3}, cancel: 900 * ms, ok: 6, stopped: 3, lasts: 900 * ms},
		"told to in a ramp":      {main: load.Schedule{Users: 2, Ramp: time.Hour}, grace: time.Second, cancel: 100 * ms, ok: 1, lasts: 400 * ms},
		"open, by count":         {main: load.Schedule{Rate: 10, Count: 11}, grace: time.Second, ok: 11, lasts: 1400 * ms},
		"open, by time":          {main: load.Schedule{Rate: 10, Duration: time.Second}, grace: time.Second, ok: 10, lasts: 1300 * ms},
		"open, told to":          {main: load.Schedule{Rate: 10}, grace: time.Second, cancel: 950 * ms, ok: 10, lasts: 1300 * ms},
		"open, grace over":       {main: load.Schedule{Rate: 10}, grace: 100 * ms, cancel: 950 * ms, ok: 7, stopped: 3, lasts: 1050 * ms},
		"open, capped, by time":  {main: load.Schedule{Rate: 100, Users: 2, Duration: time.Second}, grace: time.Second, ok: 6, lasts: 1210 * ms, unsent: 94},
		"open, capped, told to":  {main: load.Schedule{Rate: 100, Users: 2}, grace: time.Second, cancel: 900 * ms, ok: 6, lasts: 1210 * ms, unsent: 84},
		"open, one, then halted": {main: load.Schedule{Rate: 0.001}, grace: time.Second, cancel: 900 * ms, ok: 1, lasts: 900 * ms},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, truth.Script{TTFT: answer}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				p := planTo(t, target, tt.main, 1)
				p.Grace = tt.grace
				begun := time.Now()
				res, err := load.Run(ctx, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begun); got != tt.lasts {
					t.Errorf("lasted %v, want %v", got, tt.lasts)
				}
				want := map[load.Class]int{load.OK: tt.ok, load.Interrupt: tt.stopped}
				if tt.stopped == 0 {
					delete(want, load.Interrupt)
				}
				if diff := gocmp.Diff(want, countClasses(res.Log)); diff != "" {
					t.Error(diff)
				}
				if res.Interrupted != (tt.cancel > 0) {
					t.Errorf("interrupted: %v", res.Interrupted)
				}
				if res.Main.Unsent != tt.unsent {
					t.Errorf("%d arrivals were due and not sent, want %d", res.Main.Unsent, tt.unsent)
				}
				for r := range res.Log.All() {
					if (r.Class == load.Interrupt) != r.Has(load.Cancelled) {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}

// The event loop ends in the same ways, however fast the arrivals: it has no
// virtual time, so only that it ends and what it counts are looked at.
func TestEventLoopEnds(t *testing.T) {
	const brief = 30 * ms // what is sent in it is the machine's
	hour, short := truth.Script{TTFT: time.Hour}, truth.Script{TTFT: 5 * ms}
	tests := map[string]struct {
		main   load.Schedule
		tell   int // told to stop when the server has seen so many; 0: not told
		grace  time.Duration
		script truth.Script
	}{
		"closed, by time":        {main: load.Schedule{Users: 8, Duration: brief}},
		"closed, told to":        {main: load.Schedule{Users: 8}, tell: 20},
		"closed, grace over":     {main: load.Schedule{Users: 8}, tell: 8, grace: ms, script: hour},
		"told to in a ramp":      {main: load.Schedule{Users: 8, Ramp: time.Hour}, tell: 1},
		"open, by time":          {main: load.Schedule{Rate: 2000, Duration: brief}},
		"open, told to":          {main: load.Schedule{Rate: 2000}, tell: 20},
		"open, capped, by time":  {main: load.Schedule{Rate: 2000, Users: 3, Duration: brief}, script: short},
		"open, capped, told to":  {main: load.Schedule{Rate: 2000, Users: 3}, tell: 20, script: short},
		"open, grace over":       {main: load.Schedule{Rate: 2000}, tell: 20, grace: ms, script: hour},
		"open, more than it can": {main: load.Schedule{Rate: 20_000, Duration: brief}},
		"open, cap below loops":  {main: load.Schedule{Rate: 2000, Users: 2, Duration: brief}, script: short},
		"open, far arrivals":     {main: load.Schedule{Rate: 0.001}, tell: 1},
	}
	for name, tt := range tests {
		for _, senders := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, senders), func(t *testing.T) {
				srv := serve(t, tt.script)
				p := planFor(t, srv.URL(), 1, 1, 3)
				p.Wire, p.Senders, p.Main, p.Work = load.LoopWire, senders, tt.main, worksOf(t, 32, 3)
				if tt.grace > 0 {
					p.Grace = tt.grace
				}
				res := runUntil(t, p, func() bool { return tt.tell > 0 && srv.Truth().Requests >= tt.tell })
				class := load.OK
				if tt.grace > 0 {
					class = load.Interrupt
				}
				if got := countClasses(res.Log); got[class] < tt.tell || got[class] != res.Log.Len() {
					t.Errorf("%v %v", got, res.Log.Details)
				}
				sent := 0
				for r := range res.Log.All() {
					if r.Sent != 0 { // one may be interrupted while it connects
						sent++
					}
				}
				eventually(t, fmt.Sprintf("the server has seen all %d requests", sent), func() bool {
					return srv.Truth().Requests == sent
				})
				if limit := tt.main.Users; limit > 0 && srv.Truth().PeakInFlight > limit {
					t.Errorf("%d in flight where %d are allowed", srv.Truth().PeakInFlight, limit)
				}
			})
		}
	}
}

// runUntil carries out a plan and stops it when the condition has come, if it
// does before the plan's end.
func runUntil(t *testing.T, p *load.Plan, stop func() bool) *load.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan *load.Result, 1)
	go func() {
		res, err := load.Run(ctx, p, nil)
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	var res *load.Result
	eventually(t, "the run has ended", func() bool {
		if stop() {
			cancel()
		}
		select {
		case res = <-ended:
		default:
		}
		return res != nil
	})
	return res
}

// An open loop sends on its time table, whatever the answers do.
func TestOpenLoopKeepsItsTimeTable(t *testing.T) {
	for _, pattern := range []load.Pattern{load.Constant, load.Poisson, load.Gamma} {
		t.Run(pattern.String(), func(t *testing.T) {
			inVirtualTime(t, truth.Script{TTFT: 900 * ms, TTFTSpread: 800 * ms}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
				s := load.Schedule{Rate: 37, Pattern: pattern, Smoothness: 3, Count: 300}
				res := mustRun(t, planTo(t, target, s, 1))
				table := load.Arrivals(s, 1, 300)
				if res.Log.Len() != 300 {
					t.Fatalf("%d requests", res.Log.Len())
				}
				for r := range res.Log.All() {
					if want := res.Main.Start + table[r.Seq]; r.Intended != want || r.Sent != want || r.Lane != load.Open {
						t.Fatalf("request %d: intended %d, sent %d, want %d", r.Seq, r.Intended, r.Sent, want)
					}
				}
				if !res.Audit.Valid() || res.Audit.Lateness.Max > 1 {
					t.Errorf("%+v", res.Audit)
				}
			})
		})
	}
}

// A cap puts sends off and says so: the intended time stays that of the table.
func TestCappedOpenLoopKeepsIntended(t *testing.T) {
	inVirtualTime(t, truth.Script{TTFT: time.Second}, func(t *testing.T, h *truth.Handler, target *load.Target) {
		s := load.Schedule{Rate: 10, Users: 2, Count: 20}
		res := mustRun(t, planTo(t, target, s, 1))
		for r := range res.Log.All() {
			intended := res.Main.Start + r.Seq*int64(100*ms)
			// Two at a time, a second each.
			sent := max(intended, res.Main.Start+r.Seq/2*int64(time.Second)+r.Seq%2*int64(100*ms))
			if r.Intended != intended || r.Sent != sent {
				t.Errorf("request %d: intended %v, sent %v; want %v and %v", r.Seq, r.Intended, r.Sent, intended, sent)
			}
		}
		if peak := h.Truth().PeakInFlight; peak != 2 {
			t.Errorf("%d in flight", peak)
		}
		if !res.Audit.Valid() || res.Audit.Lateness.Max < 7*time.Second {
			t.Errorf("a cap is not the client's fault, and its delay is told: %+v", res.Audit)
		}
	})
}

// A sentinel is an open loop of its own, on its own schedule and its own prompts, and
// ends with the closed loop. Its requests take the place of the users', so that both
// together are the load that was asked for.
func TestSentinelWithinTheLoadOfAClosedLoop(t *testing.T) {
	inVirtualTime(t, truth.Script{TTFT: 500 * ms}, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		p := planTo(t, target, load.Schedule{Users: 20, Ramp: 400 * ms, Duration: 10 * time.Second}, 2)
		p.Sentinel = 2.5
		res := mustRun(t, p)
		n := map[load.Lane]int{}
		for r := range res.Log.All() {
			n[r.Lane]++
			if want := res.Main.Start + r.Seq*int64(400*ms); r.Lane == load.Sentinel && (r.Intended != want || r.Sent != want) {
				t.Errorf("sentinel %d at %d, want %d", r.Seq, r.Sent, want)
			}
		}
		// The first answer is whole after 0.5 s: the arrivals at 0 and 0.4 s are not sent.
		if n[load.Sentinel] != 23 || n[load.Closed] > 400-23 {
			t.Errorf("%v: want 23 of the sentinel, and the users of the rest of 400", n)
		}
		if _, most := inFlightAt(spansOf(res.Log, func(*load.Record) bool { return true }), res.Main.Full, res.Main.Dry); most != 20 {
			t.Errorf("up to %d in flight, and 20 were asked for", most)
		}
		if got := time.Duration(res.Main.Dry - res.Main.Start); got != 10*time.Second {
			t.Errorf("dry after %v", got)
		}
		if a := res.Audit; res.Gaps.Count != int64(n[load.Closed]) || !a.Valid() || a.InFlight < 19.8 || a.InFlight > 20 || a.Lateness.Max > 0 {
			t.Errorf("%d gaps of %d requests; audit %+v", res.Gaps.Count, n[load.Closed], a)
		}
	})
}

// A rare sentinel must not end the steady part of the loop that it stands beside.
func TestRareSentinelLeavesTheWindowAlone(t *testing.T) {
	const lasts = 100 * ms
	srv := serve(t, truth.Script{})
	sentinels := func(res *load.Result) (n int) {
		for r := range res.Log.All() {
			if r.Lane == load.Sentinel {
				n++
			}
		}
		return n
	}
	for _, senders := range []int{1, 3} {
		p := planFor(t, srv.URL(), 6, 1, 2)
		p.Work = worksOf(t, 32, 2)
		p.Wire, p.Senders, p.Sentinel = load.LoopWire, senders, 0.001
		p.Main = load.Schedule{Users: 6, Duration: lasts}
		res := mustRun(t, p)
		if dry := time.Duration(res.Main.Dry - res.Main.Start); dry < lasts || sentinels(res) > 1 {
			t.Errorf("%d loops: dry after %v of %v, %d sentinels", senders, dry, lasts, sentinels(res))
		}
	}
	// The first arrival is due before there can be an answer, the next one after the end.
	p := planFor(t, srv.URL(), 6, 1, 2)
	p.Work = worksOf(t, 32, 2)
	p.Wire, p.Senders, p.Sentinel, p.Main = load.LoopWire, 1, 0.001, load.Schedule{Users: 6, Count: 60}
	if n := sentinels(mustRun(t, p)); n != 0 {
		t.Errorf("%d sentinels", n)
	}
}

// A server that stands still for two seconds is seen by every request that
// should have been answered meanwhile. From the intended send it is all there;
// a closed loop that measures from its own sends has left most of it out.
func TestFreezeIsSeenInFull(t *testing.T) {
	const rate, count = 100, 1000
	script := truth.Script{TTFT: 50 * ms, Freezes: []truth.Freeze{{At: 3 * time.Second, Lasts: 2 * time.Second}}}

	// What the script says of each request, by its arrival: a request that would
	// end before the freeze does, all others wait out what is left of it.
	truthOf := func(at time.Duration) time.Duration {
		switch from, to := 3*time.Second, 5*time.Second; {
		case at+50*ms < from || at >= to:
			return 50 * ms
		case at < from:
			return 2*time.Second + 50*ms
		default:
			return to - at + 50*ms
		}
	}
	want := make([]float64, count)
	for i := range want {
		want[i] = float64(truthOf(time.Duration(i) * time.Second / rate))
	}

	inVirtualTime(t, script, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		res := mustRun(t, planTo(t, target, load.Schedule{Rate: rate, Count: count}, 1))
		var got []float64
		for r := range res.Log.All() {
			got = append(got, float64(r.FirstContent-r.Intended))
		}
		for _, q := range []float64{0.50, 0.99, 1} {
			if g, w := quantileOf(got, q), quantileOf(want, q); g != w {
				t.Errorf("q%v is %v, in truth %v", q, time.Duration(g), time.Duration(w))
			}
		}
		if !slices.Equal(got, want) {
			t.Error("not every latency is the truth")
		}
	})

	// A cap makes the sends late as well: from the sends the worst is two seconds,
	// from the intended ones it is what a user would have waited.
	inVirtualTime(t, script, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		res := mustRun(t, planTo(t, target, load.Schedule{Rate: rate, Users: 10, Count: count}, 1))
		var fromSent, fromIntended []float64
		for r := range res.Log.All() {
			fromSent = append(fromSent, float64(r.FirstContent-r.Sent))
			fromIntended = append(fromIntended, float64(r.FirstContent-r.Intended))
		}
		if p99 := quantileOf(fromSent, 0.99); p99 > float64(50*ms)*1.5 {
			t.Errorf("p99 from the sends is %v: nothing was left out", time.Duration(p99))
		}
		if p99 := quantileOf(fromIntended, 0.99); p99 < quantileOf(want, 0.99) {
			t.Errorf("p99 from the intended sends is %v, at least %v in truth", time.Duration(p99), time.Duration(quantileOf(want, 0.99)))
		}
	})

	// The same server, asked by a loop that waits for its answers: of a thousand
	// latencies the freeze is in five.
	inVirtualTime(t, script, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		res := mustRun(t, planTo(t, target, load.Schedule{Users: 5, Count: count}, 1))
		var got []float64
		slow := 0
		for r := range res.Log.All() {
			got = append(got, float64(r.FirstContent-r.Sent))
			if r.FirstContent-r.Sent > int64(time.Second) {
				slow++
			}
		}
		if slow != 5 || quantileOf(got, 0.99) != float64(50*ms) || quantileOf(got, 1) <= float64(2*time.Second) {
			t.Errorf("%d slow, p99 %v, max %v", slow, time.Duration(quantileOf(got, 0.99)), time.Duration(quantileOf(got, 1)))
		}
		if quantileOf(want, 0.99) < float64(time.Second) {
			t.Error("the freeze is too short to show the difference")
		}
	})
}

// quantileOf is numpy's linear rule.
func quantileOf(values []float64, q float64) float64 {
	v := slices.SortedFunc(slices.Values(values), cmp.Compare)
	h := float64(len(v)-1) * q
	i := int(h)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (h-float64(i))*(v[i+1]-v[i])
}
