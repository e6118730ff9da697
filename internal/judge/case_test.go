package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func noReference(p *spec.Plan) { p.Reference = nil }

func floorOf(v float64) func(*spec.Plan) {
	return func(p *spec.Plan) {
		p.Constraints = append(p.Constraints, spec.Constraint{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: v, Unit: "tokens/s", Tolerance: 0.1})
	}
}

func stageEnd() spec.Event { return spec.Event{Kind: spec.EventStage, Stage: "end"} }

func interrupt() spec.Event { return spec.Event{Kind: spec.EventInterrupt} }

// lawCase is a run and what the laws make of it.
type lawCase struct {
	plan     []func(*spec.Plan)
	events   []spec.Event
	episodes []*spec.EpisodeRecord
	verdict  spec.State
	open     bool   // one more episode is wanted
	ledgers  string // their states, by their first letters
	ledger   string // that decided
	reason   string // a part of it
}

func testLaws(t *testing.T, cases map[string]lawCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			k := NewCase(handPlan(c.plan...))
			k.Hear(c.events...)
			for _, e := range c.episodes {
				k.Add(e)
			}
			v, next := k.Verdict()
			if v.Verdict != c.verdict {
				t.Errorf("%s, want %s: %s", v.Verdict, c.verdict, v.Reason)
			}
			if len(c.events) == 0 && (next != nil) != c.open { // who has ended the run asks nobody
				t.Errorf("open %v, want %v: %s", next != nil, c.open, v.Reason)
			}
			if !strings.Contains(v.Reason, c.reason) {
				t.Errorf("no %q in %q", c.reason, v.Reason)
			}
			if got := states2(v); c.ledgers != "" && got != c.ledgers {
				t.Errorf("ledgers %s, want %s: %+v", got, c.ledgers, v.Ledgers)
			}
			if got := LedgerOf(v); got != c.ledger {
				t.Errorf("decided by %q, want %q", got, c.ledger)
			}
		})
	}
}

// states2 has a letter for each ledger: Pass, Fail, Inconclusive, Not judged.
func states2(v *spec.Verdict) string {
	s := ""
	for _, l := range v.Ledgers {
		s += string(l.State[0])
	}
	return s
}

// nothingIn is an episode in which nothing was recorded.
func nothingIn(n int) []*spec.EpisodeRecord {
	var all []*spec.EpisodeRecord
	for i := range n {
		all = append(all, &spec.EpisodeRecord{Episode: *Summarize(&Record{Number: i + 1, Point: bout{}.point()})})
	}
	return all
}

// believed is an episode whose client says that it held its load.
func believed(all []*spec.EpisodeRecord) []*spec.EpisodeRecord {
	for _, r := range all {
		r.Episode.Client = spec.BenchClient{Valid: true, InFlightAsked: 32, InFlight: new(32.0)}
		r.Episode.LoadedS = 30
	}
	return all
}

func halfOnly() []*spec.EpisodeRecord {
	r := bout{users: 16}.record()
	r.Episode.Number = 0
	return []*spec.EpisodeRecord{r}
}

func TestWhatWasNotMeasuredNeverPasses(t *testing.T) {
	testLaws(t, map[string]lawCase{
		"no episode":                                    {verdict: spec.Inconclusive, open: true, ledgers: "NNN", reason: "nothing was loaded"},
		"no episode, and the run is over":               {events: []spec.Event{stageEnd()}, verdict: spec.Inconclusive, ledgers: "NNN", reason: "nothing was loaded"},
		"no episode, and it was never served":           {events: []spec.Event{neverServes(300)}, verdict: spec.Fail, ledgers: "FNN", ledger: spec.Integrity},
		"the look at half the load alone":               {episodes: halfOnly(), verdict: spec.Inconclusive, open: true},
		"episodes with nothing in them":                 {episodes: nothingIn(9), verdict: spec.Invalid},
		"nothing in them, and a client that is content": {episodes: believed(nothingIn(11)), events: []spec.Event{stageEnd()}, verdict: spec.Inconclusive},
		"invalid episodes alone":                        {episodes: times(11, bout{lag: 80}), verdict: spec.Invalid, ledgers: "NNN"},
		"nothing to hold it against":                    {plan: []func(*spec.Plan){noReference}, episodes: times(9, bout{}), verdict: spec.Inconclusive, ledgers: "PNP", reason: "neither a reference nor a floor"},
		"a floor is enough":                             {plan: []func(*spec.Plan){noReference, floorOf(1700)}, episodes: times(9, bout{}), verdict: spec.Pass, ledgers: "PPP", reason: "above the floor"},
		"a reference of nothing":                        {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Reference.Throughput = 0 }}, episodes: times(11, bout{}), verdict: spec.Inconclusive},
		"telemetry is missing":                          {episodes: times(9, bout{page: darkened(3, 6, 20, "status 500")}), verdict: spec.Inconclusive, ledgers: "IPP", reason: "telemetry is missing"},
		"nobody tells the workers apart":                {episodes: times(9, bout{blind: true, nameless: true}), verdict: spec.Inconclusive, ledgers: "IPP", reason: "no source distinguishes the workers"},
		"unless there is one":                           {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Point.Workers = 1 }}, episodes: times(9, bout{blind: true, nameless: true}), verdict: spec.Pass},
		"by names alone":                                {episodes: times(9, bout{blind: true}), verdict: spec.Pass, ledgers: "PPP"},
		"one page of a fleet that is thought to be one worker": {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Point.Workers = 1 }},
			episodes: times(9, bout{nameless: true, page: func(_, w int, p *spec.Sample) {
				if w > 0 {
					*p = spec.Sample{}
				}
			}}), verdict: spec.Inconclusive, ledgers: "IPP", reason: "too much of the workers' telemetry is missing, or is not what the client saw"},
		"the one page turns out to be a proxy's": {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Point.Workers = 1 }},
			episodes: times(9, bout{nameless: true, page: func(s, w int, p *spec.Sample) {
				if w > 0 {
					*p = spec.Sample{}
				} else if s > 5 {
					p.Gap, p.Instance = spec.GapProxy, "proxy:80"
				}
			}}), verdict: spec.Inconclusive, ledgers: "IPP", reason: "the metrics page at proxy:80 is a proxy's"},
		"more workers serve than the plan has": {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Point.Workers = 3 }}, episodes: times(9, bout{nameless: true}),
			verdict: spec.Inconclusive, ledgers: "IPP", reason: "there are 4 workers, more than the plan's 3"},
		"by pages alone":                     {episodes: times(9, bout{nameless: true}), verdict: spec.Pass, ledgers: "PPP"},
		"throughput near to the floor":       {plan: []func(*spec.Plan){noReference, floorOf(1600 / 0.9 * 0.99)}, episodes: sequel(times(5, bout{}), times(5, bout{pace: allAt(0, 99, 0.96)})), verdict: spec.Inconclusive, open: true, ledgers: "PIP"},
		"near to it until the budget ends":   {plan: []func(*spec.Plan){noReference, floorOf(1600 / 0.9 * 0.99)}, episodes: sequel(times(6, bout{}), times(5, bout{pace: allAt(0, 99, 0.96)})), verdict: spec.Inconclusive, ledgers: "PIP"},
		"stalls lost half of every episode":  {episodes: times(1, bout{pace: only(3, 10, 16, 0)}), verdict: spec.Inconclusive, open: true, ledgers: "PNI"},
		"one episode is not enough":          {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Thresholds.RateOK, p.Thresholds.RateBad = 1, 20 }}, episodes: times(1, bout{}), verdict: spec.Inconclusive, open: true, ledgers: "PIP"},
		"two are":                            {plan: []func(*spec.Plan){func(p *spec.Plan) { p.Thresholds.RateOK, p.Thresholds.RateBad = 1, 20 }}, episodes: times(2, bout{}), verdict: spec.Pass, ledgers: "PPP"},
		"one stall, and the budget is spent": {episodes: sequel(times(1, bout{pace: only(3, 10, 12, 0)}), times(10, bout{})), verdict: spec.Inconclusive, ledgers: "PPI", reason: "not decided after 11 episodes"},
	})
}

func TestHardwareComesBeforeGoodNumbersAndBeforeABadClient(t *testing.T) {
	xid := broken(2, 20, func(g *spec.GPUSample) { g.XID = new(48.0) })
	testLaws(t, map[string]lawCase{
		"good numbers":                     {episodes: times(9, bout{gpu: xid}), verdict: spec.Fail, ledgers: "FPP", ledger: spec.Integrity, reason: "XID 48"},
		"a late client":                    {episodes: times(3, bout{gpu: xid, lag: 80}), verdict: spec.Fail, ledger: spec.Integrity, reason: "XID 48"},
		"in the half look":                 {episodes: sequel0(bout{users: 16, gpu: xid}, times(2, bout{})), verdict: spec.Fail, ledger: spec.Integrity},
		"workers come before":              {episodes: times(3, bout{route: awayFrom(3, 0), lag: 80}), verdict: spec.Fail, ledger: spec.Integrity, reason: "worker 3"},
		"a bad client comes before stalls": {episodes: sequel(times(2, bout{pace: only(3, 10, 16, 0)}), times(3, bout{lag: 80})), verdict: spec.Invalid},
	})
}

// sequel0 puts a look at half the load before.
func sequel0(half bout, all []*spec.EpisodeRecord) []*spec.EpisodeRecord {
	r := half.record()
	r.Episode.Number = 0
	return append([]*spec.EpisodeRecord{r}, all...)
}

func TestInvalidIsRetriedSoOftenAndSaysItsRemedy(t *testing.T) {
	k := NewCase(handPlan())
	late := bout{lag: 80}.record()
	for i := 1; i <= 2; i++ {
		k.Add(late)
		v, next := k.Verdict()
		if next == nil || !strings.Contains(next.Retry, "late by 80 ms") || !strings.Contains(next.Retry, "repeated") {
			t.Fatalf("after %d invalid episodes: %s, %+v", i, v.Verdict, next)
		}
		if v.Verdict == spec.Pass || v.Verdict == spec.Fail || v.Episodes != 0 {
			t.Errorf("after %d invalid episodes: %s, %d counted", i, v.Verdict, v.Episodes)
		}
	}
	k.Add(late)
	if v, next := k.Verdict(); v.Verdict != spec.Invalid || next != nil || !strings.Contains(v.Reason, "late in 3 of 3 episodes") {
		t.Errorf("after 3: %s, %+v: %s", v.Verdict, next, v.Reason)
	}

	// One that is repeated costs nothing but its time.
	k = NewCase(handPlan())
	for _, e := range sequel(times(2, bout{}), times(1, bout{lag: 80})) {
		k.Add(e)
	}
	if _, next := k.Verdict(); next == nil || next.Retry == "" {
		t.Errorf("an invalid episode among valid ones is not repeated: %+v", next)
	}
	for i := range 7 {
		k.Add(bout{number: 4 + i}.record())
	}
	if v, next := k.Verdict(); v.Verdict != spec.Pass || next != nil || v.Episodes != 9 {
		t.Errorf("%s after %d, %+v: %s", v.Verdict, v.Episodes, next, v.Reason)
	}
}

func TestAFailStopsEarly(t *testing.T) {
	for name, c := range map[string]struct {
		bout bout
		told int // after so many episodes it is FAIL, and no more are wanted after two
	}{
		"a broken GPU":          {bout{gpu: broken(2, 9, func(g *spec.GPUSample) { g.XID = new(48.0) })}, 1},
		"an absent worker":      {bout{route: awayFrom(3, 0)}, 1},
		"too little throughput": {bout{pace: allAt(0, 99, 0.6)}, 2},
		"a slow worker":         {bout{pace: only(3, 0, 99, 0.5)}, 2},
		"stalls":                {bout{pace: only(3, 10, 16, 0)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			k := NewCase(handPlan())
			for _, r := range times(2, c.bout) {
				k.Add(r)
				n := r.Episode.Number
				v, next := k.Verdict()
				if (v.Verdict == spec.Fail) != (n >= c.told) || next == nil && n < c.told || next != nil && n == 2 {
					t.Errorf("after %d: %s, %+v: %s", n, v.Verdict, next, v.Reason)
				}
			}
		})
	}
}

func TestNextSaysWhatWouldEndIt(t *testing.T) {
	k := NewCase(handPlan())
	k.Add(bout{}.record())
	_, next := k.Verdict()
	want := "capability takes 1 more episode; 0 stalls in 0.5 min of load: stability passes after 3.6 more minutes without a stall, fails at 2 more stalls"
	if next == nil || next.Why != want {
		t.Errorf("%+v, want %q", next, want)
	}
}

func TestStabilityIsReportedWhereItDoesNotDecide(t *testing.T) {
	report := func(p *spec.Plan) { p.Stability = spec.StabilityReport }
	smoke := func(p *spec.Plan) {
		p.Profile, p.Stability = spec.ProfileSmoke, spec.StabilityReport
		p.Thresholds.MaxEpisodes = 2
	}
	stall := bout{pace: only(3, 10, 12, 0)}
	testLaws(t, map[string]lawCase{
		"gate: stalls fail":                         {episodes: times(4, stall), verdict: spec.Fail, ledger: spec.Stability, ledgers: "PPF", reason: "worker 3 stalled 4 times in 2.0 min of load"},
		"report: they do not":                       {plan: []func(*spec.Plan){report}, episodes: times(4, stall), verdict: spec.Pass, ledgers: "PPN"},
		"report: a worker that hangs for good does": {plan: []func(*spec.Plan){report}, episodes: times(2, bout{pace: only(3, 15, 99, 0)}), verdict: spec.Fail, ledger: spec.Stability, reason: "worker 3 hangs for good"},
		"report: hangs in one episode":              {plan: []func(*spec.Plan){report}, episodes: sequel(times(1, bout{pace: only(3, 15, 99, 0)}), times(3, bout{})), verdict: spec.Pass},
		"report: 9 s at the end is a stall":         {plan: []func(*spec.Plan){report}, episodes: times(3, bout{seconds: 50, pace: only(3, 41, 99, 0)}), verdict: spec.Pass},
		"smoke: two episodes pass":                  {plan: []func(*spec.Plan){smoke}, episodes: times(2, bout{}), verdict: spec.Pass, ledgers: "PPN"},
		"smoke: one does not":                       {plan: []func(*spec.Plan){smoke}, episodes: times(1, bout{}), verdict: spec.Inconclusive, open: true},
		"smoke: stalls are told":                    {plan: []func(*spec.Plan){smoke}, episodes: times(2, stall), verdict: spec.Pass, ledgers: "PPN"},
		"smoke: a slow worker fails":                {plan: []func(*spec.Plan){smoke}, episodes: times(2, bout{pace: only(3, 0, 99, 0.5)}), verdict: spec.Fail, ledger: spec.Capability},
		"smoke: an undecided one ends":              {plan: []func(*spec.Plan){smoke}, episodes: times(2, bout{pace: allAt(0, 99, 0.86)}), verdict: spec.Inconclusive, ledgers: "PIN"},
	})
}

func TestARunThatEndsBeforeItIsDecided(t *testing.T) {
	testLaws(t, map[string]lawCase{
		"interrupted":                     {events: []spec.Event{interrupt()}, episodes: times(3, bout{}), verdict: spec.Inconclusive, reason: "interrupted after 3 episodes"},
		"interrupted before any load":     {events: []spec.Event{interrupt()}, verdict: spec.Inconclusive, reason: "interrupted after 0 episodes"},
		"interrupted after it had failed": {events: []spec.Event{interrupt()}, episodes: times(2, bout{pace: only(3, 0, 99, 0.5)}), verdict: spec.Fail, ledger: spec.Capability},
		"interrupted when it had passed":  {events: []spec.Event{interrupt()}, episodes: times(9, bout{}), verdict: spec.Pass},
		"killed":                          {episodes: times(3, bout{}), verdict: spec.Inconclusive, open: true, reason: "not decided"},
		"killed after it had failed":      {episodes: times(2, bout{pace: only(3, 0, 99, 0.5)}), verdict: spec.Fail, ledger: spec.Capability},
		"killed when it had passed":       {episodes: times(9, bout{}), verdict: spec.Pass},
		"killed after an invalid episode": {episodes: sequel(times(2, bout{}), times(1, bout{lag: 80})), verdict: spec.Inconclusive, open: true},
		"over after an invalid episode":   {events: []spec.Event{stageEnd()}, episodes: sequel(times(2, bout{}), times(1, bout{lag: 80})), verdict: spec.Inconclusive},
		"over, and undecided":             {events: []spec.Event{stageEnd()}, episodes: times(3, bout{}), verdict: spec.Inconclusive, reason: "not decided"},
	})
}

func TestStallsOfEarlierRunsCountAndNeverFailARunWithoutOne(t *testing.T) {
	prior := func(gpu string, count float64) func(*spec.Plan) {
		return func(p *spec.Plan) { p.Prior = append(p.Prior, spec.PriorStall{GPU: gpu, Count: count}) }
	}
	one := sequel(times(1, bout{pace: only(3, 10, 12, 0)}), times(8, bout{}))
	testLaws(t, map[string]lawCase{
		"many, and none now":                          {plan: []func(*spec.Plan){prior("GPU-3", 5)}, episodes: times(9, bout{}), verdict: spec.Inconclusive, open: true, ledgers: "PPI"},
		"many, none now, and the budget ends":         {plan: []func(*spec.Plan){prior("GPU-3", 5)}, episodes: times(11, bout{}), verdict: spec.Inconclusive, ledgers: "PPI"},
		"a half of one, and none now":                 {plan: []func(*spec.Plan){prior("GPU-3", 0.5)}, episodes: times(9, bout{}), verdict: spec.Inconclusive, open: true},
		"half, none now, for longer":                  {plan: []func(*spec.Plan){prior("GPU-3", 0.5)}, episodes: times(11, bout{seconds: 40}), verdict: spec.Pass},
		"two of the same GPU, and one now":            {plan: []func(*spec.Plan){prior("GPU-3", 2)}, episodes: one, verdict: spec.Fail, ledger: spec.Stability},
		"one of the same GPU, and one now":            {plan: []func(*spec.Plan){prior("GPU-3", 1)}, episodes: one[:2], verdict: spec.Fail, ledger: spec.Stability, reason: "worker 3"},
		"one of the same GPU, one now, and then none": {plan: []func(*spec.Plan){prior("GPU-3", 1)}, episodes: one, verdict: spec.Inconclusive, open: true},
		"many, none now, for much longer":             {plan: []func(*spec.Plan){prior("GPU-3", 5)}, episodes: times(11, bout{seconds: 60}), verdict: spec.Pass},
		"one in an hour speaks for nobody":            {plan: []func(*spec.Plan){prior("GPU-3", 1), func(p *spec.Plan) { p.PriorMinutes = 60 }}, episodes: times(9, bout{}), verdict: spec.Pass},
		"nor does it spare the time":                  {plan: []func(*spec.Plan){prior("GPU-3", 0), func(p *spec.Plan) { p.PriorMinutes = 600 }}, episodes: times(8, bout{}), verdict: spec.Inconclusive, open: true},
		"a quarter, and one now":                      {plan: []func(*spec.Plan){prior("GPU-3", 0.25)}, episodes: one, verdict: spec.Inconclusive, open: true},
		"of another GPU they are not its own":         {plan: []func(*spec.Plan){prior("GPU-1", 2), func(p *spec.Plan) { p.Thresholds.MinStalls = 9 }}, episodes: one, verdict: spec.Inconclusive, open: true},
		"of its own they are":                         {plan: []func(*spec.Plan){prior("GPU-3", 2), func(p *spec.Plan) { p.Thresholds.MinStalls = 9 }}, episodes: one, verdict: spec.Fail, ledger: spec.Stability},
	})
}

func TestPastTheKneeNeitherTTFTNorThroughputFailsAlone(t *testing.T) {
	// At half the load throughput is nearly the same.
	half := bout{users: 16, ramp: 4.5, pace: allAt(0, 99, 1), wait: func(int) float64 { return 0.2 }}
	late := bout{ramp: 4.5, wait: func(int) float64 { return 2.5 }}
	nearly := with(half, func(b *bout) { b.wait = func(int) float64 { return 1.22 } }) // past it, and not by the margin
	below := with(half, func(b *bout) { b.wait = func(int) float64 { return 1.6 } })
	reference := func(v float64) func(*spec.Plan) { return func(p *spec.Plan) { p.Reference.Throughput = v } }
	testLaws(t, map[string]lawCase{
		"TTFT alone is the knee's":            {plan: []func(*spec.Plan){reference(711)}, episodes: sequel0(half, times(3, late)), verdict: spec.Invalid, ledgers: "PNI", reason: "past the knee"},
		"TTFT alone may be the knee's":        {plan: []func(*spec.Plan){reference(711)}, episodes: sequel0(nearly, times(3, late)), verdict: spec.Inconclusive, ledgers: "PII", reason: "TTFT p99 is above 2,000 ms in 3 of 3 episodes at a load that may be past the knee (elasticity 0."},
		"below the knee it fails":             {plan: []func(*spec.Plan){reference(711)}, episodes: sequel0(below, times(3, late)), verdict: spec.Fail, ledger: spec.Capability, reason: "TTFT p99"},
		"without the look it fails":           {plan: []func(*spec.Plan){reference(711)}, episodes: times(3, late), verdict: spec.Fail, ledger: spec.Capability, reason: "TTFT p99"},
		"too little throughput may be chance": {plan: []func(*spec.Plan){reference(1600)}, episodes: sequel0(half, times(3, late)), verdict: spec.Inconclusive, ledgers: "PII", reason: "throughput is 0.44 of the reference (711 of 1,600 tokens/s) past the knee"},
		"below the recipe's floor it is not":  {plan: []func(*spec.Plan){reference(1600), floorOf(1500)}, episodes: sequel0(half, times(3, late)), verdict: spec.Fail, ledger: spec.Capability, reason: "throughput is 0.44"},
		"with throttled GPUs it is not":       {plan: []func(*spec.Plan){reference(1600)}, episodes: sequel0(half, times(3, with(late, func(b *bout) { b.gpu = heldBack(2, 5, "hw_thermal") }))), verdict: spec.Fail, ledger: spec.Integrity, ledgers: "FFI"},
		"without the look it fails too":       {plan: []func(*spec.Plan){reference(1600)}, episodes: times(3, late), verdict: spec.Fail, ledger: spec.Capability, reason: "throughput is 0.44"},
		"and a slow worker is slow":           {plan: []func(*spec.Plan){reference(711)}, episodes: sequel0(half, times(3, with(late, func(b *bout) { b.pace = only(3, 0, 99, 0.4) }))), verdict: spec.Fail, ledger: spec.Capability},
	})
}

func TestEveryFailedExpectationIsTold(t *testing.T) {
	p := handPlan(floorOf(1600))
	p.Constraints = append(p.Constraints, spec.Constraint{Name: spec.ConstraintTTFT, Comparator: "<=", Threshold: 100, Unit: "ms", Tolerance: 0.1})
	v := Judge(p, nil, times(3, bout{seconds: 60, wait: func(int) float64 { return 0.2 }, pace: both2(only(3, 0, 99, 0.3), both2(allAt(0, 99, 0.6), only(1, 20, 26, 0))),
		ends: oneIn(11, ending{class: "http-error", afterS: 3})})...)
	got := map[string]spec.State{}
	for _, e := range v.Expectations {
		got[e.Name] = e.State
		if e.State == spec.Fail && (e.Value == nil || e.N == 0 || e.Want == "" || e.Effective == "" || e.Unit == "") {
			t.Errorf("not told whole: %+v", e)
		}
	}
	want := map[string]spec.State{spec.ConstraintThroughput: spec.Fail, spec.ConstraintTTFT: spec.Fail, "throughput-of-reference": spec.Fail,
		"least-token-share": spec.Fail, "least-pace": spec.Fail, "stall-rate": spec.Fail, "failed-requests": spec.Fail}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := states2(v); got != "FFF" {
		t.Errorf("ledgers %s: %+v", got, v.Ledgers)
	}
}

// All three, always, in their order, with a reason; and the worst of them decides.
func TestTheLedgersOfEveryVerdict(t *testing.T) {
	for name, v := range judgedCases() {
		var names []string
		failed := false
		for _, l := range v.Ledgers {
			names = append(names, l.Name)
			failed = failed || l.State == spec.Fail
			switch l.State {
			case spec.Pass, spec.Fail, spec.Inconclusive, spec.NotJudged:
			default:
				t.Errorf("%s: %s is %s", name, l.Name, l.State)
			}
			if l.Reason == "" {
				t.Errorf("%s: %s gives no reason", name, l.Name)
			}
			if v.Verdict == spec.Pass && l.State != spec.Pass {
				t.Errorf("%s: PASS with %s %s", name, l.Name, l.State)
			}
		}
		if diff := cmp.Diff([]string{spec.Integrity, spec.Capability, spec.Stability}, names); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if failed && v.Verdict != spec.Fail && v.Verdict != spec.Invalid {
			t.Errorf("%s: a ledger failed and the verdict is %s", name, v.Verdict)
		}
		if v.Verdict == spec.Fail && (LedgerOf(v) == "" || !failed) {
			t.Errorf("%s: FAIL by no ledger: %+v", name, v.Ledgers)
		}
		if v.Verdict != spec.Fail && LedgerOf(v) != "" {
			t.Errorf("%s: %s by %s", name, v.Verdict, LedgerOf(v))
		}
		if v.Reason == "" || v.Schema != spec.VerdictSchema || v.Profile != spec.ProfileStandard {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestLedgerOfIsThatOfWhatDecided(t *testing.T) {
	v := &spec.Verdict{Verdict: spec.Fail, Findings: []spec.Finding{{ID: "client/late", Severity: spec.SeverityNote}, {ID: "worker/stall", Severity: spec.SeverityFail}, {ID: "gpu/error", Severity: spec.SeverityFail}},
		Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Fail}}}
	if got := LedgerOf(v); got != spec.Stability {
		t.Errorf("%q: the first finding that fails is told", got)
	}
	v.Findings = nil
	if got := LedgerOf(v); got != spec.Integrity {
		t.Errorf("%q: without findings, the first ledger that failed", got)
	}
	v.Verdict = spec.Invalid
	if got := LedgerOf(v); got != "" {
		t.Errorf("%q of a verdict that is no FAIL", got)
	}
}

// A fleet of four as a large one: two stalls of workers in one episode of 50 s are what
// it may have by chance, of the whole fleet or of one worker they are not.
func TestALargeFleetHasATestForEachKindOfStall(t *testing.T) {
	large := func(p *spec.Plan) { p.Thresholds.RateWorkers = 1 }
	long := func(pace func(s, w int) float64) bout { return bout{seconds: 50, pace: pace} }
	two := long(both2(only(3, 10, 13, 0), only(1, 30, 33, 0)))
	testLaws(t, map[string]lawCase{
		"two workers stall once, a small fleet": {episodes: sequel(times(1, two), times(1, bout{seconds: 50})), verdict: spec.Fail, ledger: spec.Stability},
		"two workers stall once":                {plan: []func(*spec.Plan){large}, episodes: sequel(times(1, two), times(10, bout{seconds: 50})), verdict: spec.Pass},
		"the whole fleet stalls twice":          {plan: []func(*spec.Plan){large}, episodes: times(2, long(allAt(10, 14, 0))), verdict: spec.Fail, ledger: spec.Stability, reason: "the whole fleet"},
		"one worker stalls in each episode":     {plan: []func(*spec.Plan){large}, episodes: times(2, long(only(3, 10, 13, 0))), verdict: spec.Fail, ledger: spec.Stability, reason: "worker 3 stalled 2 times"},
		"a worker of a fleet that stalls":       {plan: []func(*spec.Plan){large}, episodes: sequel(times(1, two), times(3, long(only(3, 10, 13, 0)))), verdict: spec.Fail, ledger: spec.Stability, reason: "worker 3 stalled 4 times"},
	})
}

// What is sick is a finding, and what may be chance is another.
func TestASickWorkerOfALargeFleetIsNamedAlone(t *testing.T) {
	p := handPlan(func(p *spec.Plan) { p.Thresholds.RateWorkers = 1 })
	first := bout{seconds: 50, pace: both2(only(3, 10, 13, 0), only(1, 30, 33, 0))}
	v := Judge(p, nil, sequel(times(1, first), times(2, bout{seconds: 50, pace: only(3, 10, 13, 0)}), times(3, bout{seconds: 50}))...)
	got := map[string]string{}
	for _, f := range v.Findings {
		if f.ID == "worker/stall" {
			got[strings.Join(f.Workers, " ")] = f.Severity
		}
	}
	if diff := cmp.Diff(map[string]string{"3": spec.SeverityFail, "1": spec.SeverityNote}, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%+v", diff, v.Findings)
	}
	if first := v.Findings[0].Evidence[0]; !strings.Contains(first, "worker 3 alone: 3 stalls in 5.0 min, where the other 3 workers have 1 stall together") {
		t.Errorf("evidence: %s", first)
	}
	var of []string
	for _, w := range v.Tests {
		of = append(of, w.Ledger+" "+w.Of)
	}
	if diff := cmp.Diff([]string{"capability ", "stability ", "stability whole fleet", "stability one worker"}, of); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A plan of before a fleet's size counted is judged as it was.
func TestAPlanWithoutRateWorkersHoldsEveryFleetToTheSameRates(t *testing.T) {
	p := handPlan(func(p *spec.Plan) { p.Thresholds.RateWorkers, p.Point.Workers = 0, 512 })
	s := newSequence(p)
	s.add(reading{ratio: 1, stalls: []stallEvent{{worker: "1"}, {worker: "2"}}, minutes: 1})
	if got := s.rateState(); got != spec.Fail {
		t.Errorf("two stalls in a minute: %s", got)
	}
}

// Answers that name a worker each, and pages that name others each second, name none: the
// run does not pass, and no worker is blamed.
func TestMoreWorkersThanThereCanBeAreNotJudged(t *testing.T) {
	one := []func(*spec.Plan){func(p *spec.Plan) { p.Point.Workers = 1 }}
	answers := bout{seconds: 70, blind: true, spoil: func(q *spec.Request) { q.Worker = fmt.Sprint("w", q.Seq) }}
	pages := bout{seconds: 300, nameless: true, page: func(s, w int, p *spec.Sample) { p.Name = fmt.Sprint(s, "-", w) }}
	few := answers
	few.seconds = 30
	const words = "workers in episode 1, another each time"
	inconclusive := func(of bout, reason string) lawCase {
		return lawCase{plan: one, episodes: times(9, of), verdict: spec.Inconclusive, ledgers: "IPP", reason: reason}
	}
	testLaws(t, map[string]lawCase{
		"answers":     inconclusive(answers, words),
		"few answers": inconclusive(few, words),
		"pages":       inconclusive(pages, "1,216 "+words),
	})
}

// A server that takes every request and answers none has failed, though nothing failed by
// its own word, and whether or not there is anything to hold throughput against.
func TestAServerThatAnswersNothingFails(t *testing.T) {
	frozen := bout{pace: allAt(0, 99, 0), blind: true, nameless: true}
	const words = "none of 32 requests got a token"
	stops := frozen
	stops.pace = allAt(3, 99, 0)
	blind := []func(*spec.Plan){noReference}
	testLaws(t, map[string]lawCase{
		"without a reference": {plan: blind, episodes: times(1, frozen), verdict: spec.Fail, open: true,
			ledgers: "FNI", ledger: spec.Integrity, reason: words},
		"with a floor": {plan: append(blind, floorOf(1700)), episodes: times(1, frozen), verdict: spec.Fail, open: true,
			ledgers: "FII", ledger: spec.Integrity, reason: words},
		"one answered in time": {plan: blind, episodes: times(1, stops), verdict: spec.Inconclusive, open: true},
	})
}
