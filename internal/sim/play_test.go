package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

// brief is a scenario of the library with less of everything: its windows are
// there, within four seconds.
func brief(t testing.TB, e scenarios.Entry) *spec.Scenario {
	t.Helper()
	s, err := spec.DecodeScenario(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	s.Load.Episode = spec.Duration(4 * time.Second)
	s.Load.Ramp = min(s.Load.Ramp, spec.Duration(time.Second))
	s.Load.ConcurrencyPerGPU = min(s.Load.ConcurrencyPerGPU, 4)
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.At != nil {
			*f.At = min(*f.At, spec.Duration(2*time.Second))
		}
		if f.PerMinute != nil {
			*f.PerMinute *= 10
		}
	}
	return s
}

func answered(r *Recording) bool {
	return slices.ContainsFunc(r.Requests, func(q spec.Request) bool { return q.Class != "interrupted" })
}

func asBytes(t testing.TB, r *Recording) []byte {
	data, err := json.Marshal(r)
	if err != nil {
		t.Error(err)
	}
	return data
}

func TestAScenarioAndASeedPinEverything(t *testing.T) {
	for _, e := range scenarios.All() {
		t.Run(e.Name, func(t *testing.T) {
			s := brief(t, e)
			given := *s
			l := Load{Sentinel: 4, Grace: 3 * time.Second}
			a, b := play(t, s, 7, 2, l), play(t, s, 7, 2, l)
			if !reflect.DeepEqual(a, b) || !bytes.Equal(asBytes(t, a), asBytes(t, b)) {
				t.Error("the same seed twice differs")
			}
			if answered(a) { // otherwise there is nothing that could differ
				if reflect.DeepEqual(a.Requests, play(t, s, 8, 2, l).Requests) {
					t.Error("two seeds do not differ")
				}
				if reflect.DeepEqual(a.Requests, play(t, s, 7, 3, l).Requests) {
					t.Error("two episodes of a seed do not differ")
				}
			}
			if diff := cmp.Diff(&given, s); diff != "" {
				t.Errorf("the scenario was changed:\n%s", diff)
			}
			eventsA, readyA := Start(s, 7)
			eventsB, readyB := Start(s, 7)
			if diff := cmp.Diff(eventsA, eventsB); diff != "" || readyA != readyB {
				t.Errorf("two starts differ:\n%s", diff)
			}
			checkRecord(t, s, l, a)
		})
	}
}

func TestEpisodesPlayAtOnceAsTheyPlayAlone(t *testing.T) {
	names := []string{"s1", "s6", "s9", "worker-leaves"}
	var alone [][]byte
	var list []*spec.Scenario
	for _, name := range names {
		e, _ := scenarios.Find(name)
		s := brief(t, e)
		list = append(list, s)
		alone = append(alone, asBytes(t, play(t, s, 1, 1, Load{})))
	}
	var all sync.WaitGroup
	for range 2 {
		for i, s := range list {
			all.Go(func() {
				r, err := Play(t.Context(), s, 1, 1, Load{})
				if err != nil {
					t.Error(err)
				} else if !bytes.Equal(alone[i], asBytes(t, r)) {
					t.Errorf("%s differs when others play", names[i])
				}
			})
		}
	}
	all.Wait()
}

func TestPlayGivesUpWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if r, err := Play(ctx, bare(1), 1, 1, Load{}); r != nil || !errors.Is(err, enough) {
		t.Errorf("%v, %v", r, err)
	}
}

// checkRecord holds a recording against what every one must be.
func checkRecord(t *testing.T, s *spec.Scenario, l Load, r *Recording) {
	t.Helper()
	known := map[string]bool{}
	for c := load.OK; c <= load.Interrupt; c++ {
		known[c.String()] = true
	}
	stop := int64(s.Load.Episode)
	next := map[string]int64{}
	for i, q := range r.Requests {
		if !known[q.Class] {
			t.Fatalf("request %d: no class %q", i, q.Class)
		}
		if _, begun := next[q.Lane]; q.Lane == spec.LaneSentinel && !begun {
			next[q.Lane] = q.Seq // those that were due before anything had ended were not sent
		}
		if q.Seq != next[q.Lane] {
			t.Fatalf("request %d is number %d of its lane, want %d", i, q.Seq, next[q.Lane])
		}
		next[q.Lane]++
		stamps := []int64{q.Intended, q.Sent, q.End}
		if q.First != 0 {
			stamps = []int64{q.Intended, q.Sent, q.First, q.Last, q.End}
		}
		if !slices.IsSorted(stamps) || q.Sent >= stop || q.Sent == q.End {
			t.Fatalf("request %d: stamps %v", i, stamps)
		}
		if (q.First == 0) != (q.Tokens == 0) || (q.Last == 0) != (q.First == 0) || (q.Gap == 0) != (q.GapEnd == 0) {
			t.Fatalf("request %d: %+v", i, q)
		}
		if q.Class == "ok" && (q.Tokens != s.Load.OutputTokens || q.Status != 200 || q.Finish != "length" || q.Worker == "" || q.Cached == nil) {
			t.Fatalf("request %d: %+v", i, q)
		}
		if q.Prompt != s.Load.InputTokens || (q.Class == "ok") != (q.Detail == "") {
			t.Fatalf("request %d: %+v", i, q)
		}
		// The load engine's own rules: ramp until every user has sent its first, which
		// it does when it is due or as soon as the client can.
		users := int64(s.Load.ConcurrencyPerGPU * s.Fleet.Workers)
		due := int64(s.Load.Ramp) * (users - 1) / users
		spacing := int64(sendsApart)
		if s.Load.SendsPerSecond > 0 {
			spacing = int64(float64(time.Second) / s.Load.SendsPerSecond)
		}
		rest := "steady"
		if q.End > stop {
			rest = "drain"
		}
		switch {
		case q.Lane == "closed" && q.Sent < due && q.Phase != "ramp",
			(q.Lane != "closed" || q.Sent > due+2*users*spacing) && q.Phase != rest,
			q.Phase != "ramp" && q.Phase != rest:
			t.Fatalf("request %d of the %s lane, sent at %v and ended at %v, is %s", i, q.Lane, time.Duration(q.Sent), time.Duration(q.End), q.Phase)
		}
	}
	checkSeries(t, s, r)
}

// checkSeries: each source says something each second, from the first to the
// last, and no counter falls.
func checkSeries(t *testing.T, s *spec.Scenario, r *Recording) {
	t.Helper()
	at := map[string][]int64{}
	before := map[string][]float64{}
	for _, x := range r.Series {
		who := x.Source + " " + x.Name
		at[who] = append(at[who], x.T)
		kinds := 0
		for _, set := range []bool{x.Worker != nil, x.GPU != nil, x.Node != nil, x.Frontend != nil, x.Client != nil, x.Gap != ""} {
			if set {
				kinds++
			}
		}
		if kinds != 1 {
			t.Fatalf("%s says %d things at %v", who, kinds, time.Duration(x.T))
		}
		var counters []float64
		switch {
		case x.Worker != nil:
			w := x.Worker
			counters = []float64{*w.Generated, *w.PromptTokens, *w.PrefixQueries, *w.PrefixHits, *w.Preemptions}
			if *w.KVUsage < 0 || *w.KVUsage > 1 || *w.Running < 0 || *w.Waiting < 0 || *w.PrefixHits > *w.PrefixQueries {
				t.Fatalf("%s: %+v", who, w)
			}
		case x.Frontend != nil:
			counters = []float64{*x.Frontend.Served, *x.Frontend.Failed, *x.Frontend.Tokens}
		case x.Client != nil:
			counters = []float64{float64(x.Client.Sent), float64(x.Client.Ended), float64(x.Client.Tokens)}
			if x.Client.Sent != x.Client.Ended+int64(x.Client.InFlight) {
				t.Fatalf("the client: %+v", x.Client)
			}
		}
		for i, b := range before[who] {
			if counters != nil && counters[i] < b {
				t.Fatalf("%s: counter %d fell from %v to %v", who, i, b, counters[i])
			}
		}
		if counters != nil {
			before[who] = counters
		}
	}
	if want := 2*s.Fleet.Workers + 3; len(at) != want {
		t.Fatalf("%d sources, want %d", len(at), want)
	}
	for who, times := range at {
		if len(times) < int(s.Load.Episode.D()/time.Second) {
			t.Fatalf("%s has %d samples", who, len(times))
		}
		for i, at := range times {
			if at != int64(i+1)*int64(time.Second) {
				t.Fatalf("%s: sample %d is of %v", who, i, time.Duration(at))
			}
		}
	}
}

func TestTheClosedLoopKeepsItsUsersBusy(t *testing.T) {
	s := bare(2)
	s.Load.Ramp = spec.Duration(time.Second)
	r := play(t, s, 1, 1, Load{})
	if r.Point.Concurrency != 8 {
		t.Errorf("%+v", r.Point)
	}
	r.Requests = slices.DeleteFunc(r.Requests, func(q spec.Request) bool { return q.Lane != "closed" })
	started := map[int64]bool{}
	ends := map[int64]int{}
	for _, q := range r.Requests {
		ends[q.End]++
	}
	for _, q := range r.Requests {
		if ends[q.Intended] > 0 { // somebody's last request ended
			ends[q.Intended]--
			continue
		}
		started[q.Intended] = true
	}
	for user := range int64(8) {
		if at := int64(time.Second) * user / 8; !started[at] {
			t.Errorf("no user started at %v", time.Duration(at))
		}
	}
	if len(started) != 8 {
		t.Errorf("%d requests follow no other", len(started))
	}
	for _, x := range series(r, spec.SourceClient, "client") {
		if at := time.Duration(x.T); at > time.Second && at < 6*time.Second && (x.Client.InFlight < 7 || x.Client.InFlight > 10) {
			t.Errorf("at %v %d are in flight", at, x.Client.InFlight)
		}
	}
}

// The users give way to the sentinel, so that both together are the load that was asked
// for, with short answers and with long ones.
func TestTheSentinelIsPartOfTheLoad(t *testing.T) {
	for _, perGPU := range []int{8, 16, 32} {
		for _, output := range []int{128, 512} {
			s := bare(4)
			s.Load.ConcurrencyPerGPU, s.Load.OutputTokens = perGPU, output
			s.Load.Ramp, s.Load.Episode = spec.Duration(2*time.Second), spec.Duration(40*time.Second)
			users := 4 * perGPU
			r := play(t, s, 1, 1, Load{Sentinel: max(0.5, 0.01*float64(users))})
			mean, above := inFlight(r.Requests, 5*time.Second, 40*time.Second, users)
			if math.Abs(mean/float64(users)-1) > 0.01 || above > 0.01*float64(users) {
				t.Errorf("%d users, %d tokens: %.2f in flight on average, %.2f above what was asked for", users, output, mean, above)
			}
		}
	}
}

// inFlight is the mean of what was in flight, and of what was above a bound.
func inFlight(requests []spec.Request, from, until time.Duration, bound int) (mean, above float64) {
	const step = 5 * time.Millisecond
	n := make([]int, (until-from)/step)
	for _, q := range requests {
		first, end := (time.Duration(q.Sent)-from+step-1)/step, (time.Duration(q.End)-from+step-1)/step
		for k := max(0, first); k < min(end, time.Duration(len(n))); k++ {
			n[k]++
		}
	}
	for _, have := range n {
		mean, above = mean+float64(have), above+float64(max(0, have-bound))
	}
	return mean / float64(len(n)), above / float64(len(n))
}

func TestTheSentinelKeepsItsSchedule(t *testing.T) {
	s := bare(1)
	s.Faults = []spec.Fault{during(wedge("real", 0), time.Second, 2*time.Second)}
	r := play(t, s, 1, 1, Load{Sentinel: 8})
	first := int64(math.MaxInt64) // end of a request: before it none can yield a slot
	for _, q := range r.Requests {
		first = min(first, q.End)
	}
	n := (first + int64(125*ms) - 1) / int64(125*ms)
	for _, q := range r.Requests {
		if q.Lane != "sentinel" {
			continue
		}
		if want := n * int64(125*ms); q.Seq != n || q.Intended != want || q.Sent < want || q.Sent > want+int64(5*sendsApart) {
			t.Errorf("sentinel %d was meant for %v and sent at %v", n, time.Duration(q.Intended), time.Duration(q.Sent))
		}
		n++
	}
	if n != 48 || r.Point.SentinelRate != 8 {
		t.Errorf("%d sentinels in 6 s at %v a second", n, r.Point.SentinelRate)
	}
	for _, q := range play(t, s, 1, 1, Load{}).Requests {
		if q.Lane != "closed" {
			t.Fatal("a sentinel that nobody asked for")
		}
	}
}

func TestAClientThatCannotSendFastEnoughIsLate(t *testing.T) {
	s := bare(2)
	s.Load.SendsPerSecond = 20
	r := play(t, s, 1, 1, Load{})
	last, late := int64(-1), 0
	for i, q := range r.Requests {
		if last >= 0 && q.Sent-last < int64(50*ms) {
			t.Fatalf("request %d was sent %v after the one before", i, time.Duration(q.Sent-last))
		}
		if q.Sent > q.Intended {
			late++
		}
		last = q.Sent
	}
	if len(r.Requests) != 120 || late == 0 {
		t.Errorf("%d requests at 20 a second for 6 s, %d late", len(r.Requests), late)
	}
	checkRecord(t, s, Load{}, r)
	// Even one that sends once in a while records the whole episode.
	s.Load.SendsPerSecond = 0.3
	checkRecord(t, s, Load{}, play(t, s, 1, 1, Load{}))
}

func TestAClientsLagIsInItsStamps(t *testing.T) {
	s := bare(2)
	s.Load.OutputTokens = 1
	plain := play(t, s, 1, 1, Load{})
	s.Load.ClientLag = spec.Duration(80 * ms)
	r := play(t, s, 1, 1, Load{})
	checkRecord(t, s, Load{}, r)
	lags := slices.Sorted(slices.Values(r.Lags))
	if n := len(lags); n < 1000 || math.Abs(lags[n*99/100]-80) > 25 || lags[n/2] < 5 || lags[n/2] > 20 {
		t.Errorf("its %d lags have a median of %v and a p99 of %v", n, lags[n/2], lags[n*99/100])
	}
	if len(plain.Lags) != 0 {
		t.Errorf("a client without lag tells of one: %v", plain.Lags)
	}
	if len(plain.Requests) != len(r.Requests) {
		t.Errorf("a client that stamps late sends %d requests instead of %d", len(r.Requests), len(plain.Requests))
	}
	var sum, truth float64
	for i := range r.Requests {
		sum += float64(r.Requests[i].First - r.Requests[i].Sent)
		truth += float64(plain.Requests[i].First - plain.Requests[i].Sent)
	}
	if mean := (sum - truth) / float64(len(r.Requests)); math.Abs(mean-80/math.Log(100)*float64(ms)) > float64(3*ms) {
		t.Errorf("stamps are %v late on average", time.Duration(mean))
	}
}

func TestWhatIsUnansweredAfterTheGraceIsInterrupted(t *testing.T) {
	s := pair(during(wedge("real", 1), 3*time.Second, time.Hour))
	r := play(t, s, 1, 1, Load{Grace: 2 * time.Second})
	n, mid := 0, 0
	for _, q := range r.Requests {
		if q.Class == "ok" {
			continue
		}
		n++
		if q.Class != "interrupted" || q.End != int64(8*time.Second) || q.Phase != "drain" {
			t.Errorf("%+v", q)
		}
		if q.First > 0 {
			mid++
			if q.Status != 200 || q.Worker != "1" || q.Tokens == 0 || q.Tokens >= 10 || q.Last > int64(3*time.Second+10*ms) {
				t.Errorf("%+v", q)
			}
		} else if q.Status != 0 || q.Worker != "" {
			t.Errorf("%+v", q)
		}
	}
	if n == 0 || mid == 0 || mid == n {
		t.Errorf("%d were interrupted, %d of them in mid-answer", n, mid)
	}
	checkRecord(t, s, Load{}, r)
	if last := series(r, spec.SourceNode, ""); last[len(last)-1].T < int64(7*time.Second) {
		t.Errorf("the series ends at %v", time.Duration(last[len(last)-1].T))
	}
}

// finished plays an episode and keeps the fleet.
func finished(s *spec.Scenario, l Load) *player {
	p := newPlayer(s, 1, 1, l)
	for !p.over() {
		p.fleet.advance(min(p.fleet.next(), p.horizon()))
	}
	return p
}

func TestTokensAgreeWhereverTheyAreCounted(t *testing.T) {
	for _, prompts := range []spec.Prompts{0, 5} {
		s := bare(3)
		s.Load.Prompts, s.Load.InputTokens = prompts, 40
		s.Faults = []spec.Fault{{Kind: spec.StreamBreak, How: "reset", Share: new(0.1)}, {Kind: spec.ZeroTokens, Share: new(0.1)}}
		p := finished(s, Load{Sentinel: 3})
		tokens, prompt, cached := 0, 0, 0
		for _, q := range p.requests {
			tokens += q.Tokens
			prompt += q.Prompt
			if q.Cached != nil {
				cached += *q.Cached
			}
		}
		var generated, prompted, queries, hits, ended int64
		for _, w := range p.fleet.workers {
			generated, prompted, queries, hits, ended = generated+w.generated, prompted+w.prompted, queries+w.queries, hits+w.hits, ended+w.finished
		}
		if int64(tokens) != generated || generated != p.fleet.frontend.tokens {
			t.Errorf("requests have %d tokens, workers %d, the frontend %d", tokens, generated, p.fleet.frontend.tokens)
		}
		if int64(prompt) != prompted || prompted != queries || ended != int64(len(p.requests)) {
			t.Errorf("requests have %d prompt tokens, workers %d and %d queries; %d of %d ended", prompt, prompted, queries, ended, len(p.requests))
		}
		// A request without content tells nothing of its cache.
		if int64(cached) > hits || (hits > 0) != (prompts > 0) || hits > 0 && float64(cached) < 0.8*float64(hits) {
			t.Errorf("requests have %d cached tokens, workers %d hits", cached, hits)
		}
		if diff := cmp.Diff(make([]int32, 3), p.fleet.view.load); diff != "" {
			t.Errorf("the router still counts requests:\n%s", diff)
		}
		fe := p.fleet.frontend
		// To the frontend an answer with an end is a good one, whatever is in it.
		ends := classes(&Recording{Requests: p.requests}, "")
		if int(fe.served+fe.failed) != len(p.requests) || int(fe.served) != ends["ok"]+ends["no-tokens"] {
			t.Errorf("the frontend served %d and failed %d of %d", fe.served, fe.failed, len(p.requests))
		}
	}
}

// The published gate: a wave of as many requests as there are users, a barrier,
// and then a number of requests.
func TestAWaveIsForgottenAndACountIsKept(t *testing.T) {
	s := bare(2)
	s.Faults = []spec.Fault{during(stall(40, 1), 200*ms, 300*ms)}
	r := play(t, s, 1, 1, Load{Wave: true, Count: 100})
	if len(r.Requests) != 100 {
		t.Fatalf("%d requests", len(r.Requests))
	}
	burst := 0
	for i, q := range r.Requests {
		if q.Seq != int64(i) || q.Sent < 0 {
			t.Errorf("request %d: %+v", i, q)
		}
		if q.Intended == 0 {
			burst++
		}
	}
	if burst != 8 {
		t.Errorf("%d requests begin the episode, want the users' 8", burst)
	}
	// The windows count from the end of the wave.
	slow := 0
	for _, q := range r.Requests {
		if q.Gap > int64(100*ms) {
			slow++
			if from := q.GapEnd - q.Gap; from < int64(200*ms)-int64(30*ms) || from > int64(500*ms) || q.Worker != "1" {
				t.Errorf("worker %s was silent from %v for %v", q.Worker, time.Duration(from), time.Duration(q.Gap))
			}
		}
	}
	if slow == 0 {
		t.Error("nobody noticed the stall")
	}
	client := series(r, spec.SourceClient, "client")
	if first := client[0].Client; first.Sent > 100 || first.Tokens > first.Sent*10 || first.Sent != first.Ended+int64(first.InFlight) {
		t.Errorf("the client counts the wave: %+v", first)
	}
	for _, p := range r.Peak {
		if p < 3 || p > 8 {
			t.Errorf("the peaks are %v", r.Peak)
		}
	}
}

func TestEachUserSendsAsManyOfTheWaveAsAreAskedFor(t *testing.T) {
	waved := func(each int) int64 {
		s := bare(2)
		p := newPlayer(s, 1, 1, Load{Wave: true, WavePerUser: each, Count: 100})
		most := 0
		for !p.over() {
			if p.wave > 0 {
				most = max(most, p.inFlight)
			}
			p.fleet.advance(min(p.fleet.next(), p.horizon()))
		}
		if most != p.users || len(p.requests) != 100 {
			t.Errorf("%d of the wave for each user: at most %d in flight and %d requests, want %d and 100", each, most, len(p.requests), p.users)
		}
		return p.waved
	}
	for each, want := range map[int]int64{0: 8, 1: 8, 3: 24} {
		if got := waved(each); got != want {
			t.Errorf("%d of the wave for each user: %d were sent, want %d", each, got, want)
		}
	}
}

func TestAHealthyTwinHasNothingWrong(t *testing.T) {
	s := loaded(2, dead(1))
	s.Load.SendsPerSecond, s.Load.ClientLag = 3, 5
	h := Healthy(s)
	if len(h.Faults) != 0 || h.Fleet.Timing.HostJitter != 0 || h.Fleet.Timing.StepJitter != 0 || h.Load.SendsPerSecond != 0 || h.Load.ClientLag != 0 {
		t.Errorf("%+v", h)
	}
	if len(s.Faults) != 1 || s.Fleet.Timing.HostJitter == 0 || s.Load.SendsPerSecond != 3 {
		t.Error("the scenario itself was changed")
	}
	h.Faults, h.Load.SendsPerSecond, h.Load.ClientLag = s.Faults, s.Load.SendsPerSecond, s.Load.ClientLag
	h.Fleet.Timing.HostJitter, h.Fleet.Timing.StepJitter = s.Fleet.Timing.HostJitter, s.Fleet.Timing.StepJitter
	if diff := cmp.Diff(s, h); diff != "" {
		t.Errorf("it differs otherwise too:\n%s", diff)
	}
}
