package judge

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// gaugeReads lets a worker's page tell of so many running requests for a while.
func gaugeReads(who, from, until int, running float64) func(s, w int, p *spec.Sample) {
	return func(s, w int, p *spec.Sample) {
		if w == who && s >= from && s < until {
			p.Worker.Running = &running
		}
	}
}

// oldNumbers is a page that tells, from a second on, what it told then.
func oldNumbers(who, from int) func(s, w int, p *spec.Sample) {
	var last *spec.WorkerSample
	return func(s, w int, p *spec.Sample) {
		if w != who {
			return
		}
		if s <= from {
			last = p.Worker
		}
		p.Worker = last
	}
}

// awayFrom sends what would go to one worker to the others, from a second on.
func awayFrom(who int, from float64) func(u, n int, s float64) int {
	return func(u, n int, s float64) int {
		if w := u % 4; w != who || s < from {
			return w
		}
		return (who + 1 + (u/4+n)%3) % 4
	}
}

type stallCase struct {
	bout  bout
	usual float64  // tokens/s of the fleet, where earlier episodes tell
	want  []string // one that is a single word says who, and leaves open when
}

func testStalls(t *testing.T, cases map[string]stallCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := stood(c.bout, c.usual)
			for i := range min(len(got), len(c.want)) {
				if !strings.Contains(c.want[i], " ") {
					got[i], _, _ = strings.Cut(got[i], " ")
				}
			}
			if diff := cmp.Diff(append([]string{}, c.want...), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAStallIsAWorkerThatStandsWhileItsPeersGoOn(t *testing.T) {
	both := []string{"3 10-16 by telemetry and client"}
	testStalls(t, map[string]stallCase{
		"nobody stands":                  {bout: bout{}},
		"six seconds":                    {bout: bout{pace: only(3, 10, 16, 0)}, want: both},
		"a twentieth of its pace":        {bout: bout{pace: only(3, 10, 16, 0.05)}, want: both},
		"a seventh is under the line":    {bout: bout{pace: only(3, 10, 16, 0.14)}, want: both},
		"a sixth is not":                 {bout: bout{pace: only(3, 10, 16, 0.16)}},
		"two seconds are a stall":        {bout: bout{pace: only(3, 10, 12, 0)}, want: []string{"3 10-12 by telemetry and client"}},
		"one second is none":             {bout: bout{pace: only(3, 10, 11, 0)}},
		"from the first second":          {bout: bout{pace: only(3, 0, 8, 0)}, want: []string{"3 1-8 by telemetry"}},
		"to the last":                    {bout: bout{pace: only(3, 24, 30, 0)}, want: []string{"3 24-30 open by telemetry and client"}},
		"past the last":                  {bout: bout{pace: only(3, 24, 99, 0)}, want: []string{"3 24-30 open by telemetry and client"}},
		"over two seconds before it":     {bout: bout{pace: only(3, 20, 27, 0)}, want: []string{"3 20-27 by telemetry and client"}},
		"two workers at different times": {bout: bout{pace: both2(only(1, 6, 10, 0), only(3, 16, 20, 0))}, want: []string{"1 6-10 by telemetry and client", "3 16-20 by telemetry and client"}},
		"two workers at once":            {bout: bout{workers: 6, pace: both2(only(1, 10, 14, 0), only(3, 10, 14, 0))}, want: []string{"1 10-14 by telemetry and client", "3 10-14 by telemetry and client"}},
		"a worker twice, ten seconds apart, is two": {bout: bout{pace: both2(only(3, 6, 9, 0), only(3, 19, 22, 0))},
			want: []string{"3 6-9 by telemetry and client", "3 19-22 by telemetry and client"}},
		"a good second within is no end": {bout: bout{pace: both2(only(3, 10, 13, 0), only(3, 14, 18, 0))}, want: []string{"3 10-18 by telemetry and client"}},
		"nor are three tolerable ones":   {bout: bout{pace: both2(both2(only(3, 10, 13, 0), only(3, 13, 16, 0.5)), only(3, 16, 19, 0))}, want: []string{"3 10-19 by telemetry and client"}},
		"a slow worker is not stalled":   {bout: bout{pace: only(3, 0, 99, 0.5)}},
		"the ramp is no stall":           {bout: bout{ramp: 8}},
		"nor a start with one worker":    {bout: bout{ramp: 8, pace: only(0, 0, 6, 2)}},
	})
}

// both2 is the slower of two paces.
func both2(a, b func(s, w int) float64) func(s, w int) float64 {
	return func(s, w int) float64 { return math.Min(a(s, w), b(s, w)) }
}

func TestASecondWithoutASampleIsUnknownNeverZeroAndNeverDropped(t *testing.T) {
	stall := only(3, 10, 16, 0)
	lost := func(from, until int) func(s, w int, p *spec.Sample) {
		return darkened(3, from, until, "no answer in 800ms")
	}
	testStalls(t, map[string]stallCase{
		"a gap of a well worker, 1 s":           {bout: bout{nameless: true, page: lost(12, 13)}},
		"a gap of a well worker, 5 s":           {bout: bout{nameless: true, page: lost(12, 17)}},
		"a gap of a well worker to the end":     {bout: bout{nameless: true, page: lost(12, 99)}},
		"a gap of all pages":                    {bout: bout{nameless: true, page: func(s, w int, p *spec.Sample) { lost(12, 17)(s, 3, p) }}},
		"1 s lost in a stall":                   {bout: bout{nameless: true, pace: stall, page: lost(12, 13)}, want: []string{"3 10-16 by telemetry and client"}},
		"2 s lost in a stall":                   {bout: bout{nameless: true, pace: stall, page: lost(12, 14)}, want: []string{"3 10-16 by telemetry and client"}},
		"5 s lost in a stall, telemetry alone":  {bout: bout{nameless: true, pace: only(3, 10, 18, 0), page: lost(12, 17)}, want: []string{"3 10-18 by telemetry and client"}},
		"5 s lost in a stall, the client knows": {bout: bout{pace: only(3, 10, 18, 0), page: lost(12, 17)}, want: []string{"3 10-18 by telemetry and client"}},
		"all of a stall lost, the client knows": {bout: bout{pace: stall, page: lost(9, 18)}, want: []string{"3 10-16 by client"}},
		"lost at both ends":                     {bout: bout{nameless: true, pace: stall, page: func(s, w int, p *spec.Sample) { lost(10, 11)(s, w, p); lost(15, 16)(s, w, p) }}, want: []string{"3 11-16 by telemetry and client"}},
		"every other second lost": {bout: bout{nameless: true, pace: stall, page: func(s, w int, p *spec.Sample) {
			if s%2 == 1 {
				p.Gap = "status 500"
			}
		}}, want: []string{"3 10-16 by telemetry and client"}},
	})
}

func TestAFreezeIsTheFleetsAndNoWorkers(t *testing.T) {
	testStalls(t, map[string]stallCase{
		"five seconds":               {bout: bout{pace: allAt(10, 15, 0)}, want: []string{"fleet 10-15 by client"}},
		"a fifth of its pace":        {bout: bout{counted: true, pace: allAt(10, 15, 0.2)}, want: []string{"fleet"}},
		"a third is slow, no freeze": {bout: bout{counted: true, pace: allAt(10, 15, 0.33)}},
		"nobody knows the workers":   {bout: bout{pace: allAt(10, 15, 0), nameless: true, blind: true}, want: []string{"fleet 10-15 by client"}},
		"by names alone":             {bout: bout{pace: allAt(10, 15, 0), blind: true}, want: []string{"fleet 10-15 by client"}},
		"by pages alone":             {bout: bout{pace: allAt(10, 15, 0), nameless: true}, want: []string{"fleet 10-15 by client"}},
		"from the start, by what is usual": {bout: bout{counted: true, pace: allAt(0, 99, 0.04)}, usual: handFleet,
			want: []string{"fleet"}},
		"a tenth from the start is slow, no freeze": {bout: bout{counted: true, pace: allAt(0, 99, 0.1)}, usual: handFleet},
		"to the end": {bout: bout{pace: allAt(24, 99, 0)}, want: []string{"fleet 24-30 open by client"}},
	})
}

func TestAHoardIsTheOneThatIsWaitedFor(t *testing.T) {
	// Under round-robin what a standing worker is sent stays with it, until its peers
	// have nothing left to do.
	hoards := bout{pace: only(3, 8, 24, 0), route: func(u, n int, s float64) int { return (u + n) % 4 }}
	half := bout{pace: only(3, 12, 20, 0), route: func(u, n int, s float64) int {
		if s >= 12 && s < 20 && u < 23 {
			return 3
		}
		return u % 4
	}}
	testStalls(t, map[string]stallCase{
		"its peers have little, and the fleet goes on": {bout: half, want: []string{"3 12-20 by telemetry and client"}},
		"its peers run dry":                            {bout: hoards, want: []string{"3 8-24 by telemetry and client"}},
		"it trickles, and is one all the same":         {bout: with(hoards, func(b *bout) { b.pace = only(3, 8, 24, 0.02) }), want: []string{"3"}},
		"and its page tells 0":                         {bout: with(hoards, func(b *bout) { b.page = gaugeReads(3, 8, 24, 0) }), want: []string{"3 8-24 by telemetry and client"}},
		"without pages":                                {bout: with(hoards, func(b *bout) { b.blind = true }), want: []string{"3 8-24 by client"}},
		"by pages alone, and its own does not answer":  {bout: with(hoards, func(b *bout) { b.nameless, b.page = true, darkened(3, 8, 24, spec.GapNoAnswer) }), want: []string{"3"}},
		"by pages alone, and its own never answered":   {bout: with(hoards, func(b *bout) { b.nameless, b.page = true, darkened(3, 0, 24, spec.GapNoAnswer) }), want: []string{"fleet"}},
		"by pages alone, and its gauge stands at half": {bout: with(hoards, func(b *bout) { b.nameless, b.page = true, gaugeReads(3, 8, 24, 16) }), want: []string{"3"}},
		"by pages alone, and all of them stand empty": {bout: with(hoards, func(b *bout) {
			b.nameless, b.pace = true, allAt(10, 20, 0)
			b.page = func(s, _ int, p *spec.Sample) {
				if s >= 10 && s < 20 {
					p.Worker.Running = new(0.0)
				}
			}
		}), want: []string{"fleet"}},
		"without either it is the fleet's": {bout: with(hoards, func(b *bout) { b.blind, b.nameless = true, true }), want: []string{"fleet 12-24 by client"}},
	})
}

func with(b bout, change func(*bout)) bout {
	change(&b)
	return b
}

// facts/incidents.md: the gauge of a wedged engine read 0, since it hung before it
// was set.
func TestAGaugeThatReadsZeroClearsNobody(t *testing.T) {
	wedge := bout{pace: only(3, 10, 99, 0), page: gaugeReads(3, 10, 99, 0)}
	testStalls(t, map[string]stallCase{
		"with names": {bout: wedge, want: []string{"3 10-30 open by telemetry and client"}},
		"by pages alone": {bout: with(wedge, func(b *bout) { b.nameless = true }),
			want: []string{"3 10-30 open by telemetry and client"}},
		"it comes back": {bout: with(wedge, func(b *bout) { b.pace, b.page = only(3, 10, 20, 0), gaugeReads(3, 10, 20, 0) }),
			want: []string{"3 10-20 by telemetry and client"}},
		"it began with the episode, and only what the client awaits tells": {bout: with(wedge, func(b *bout) {
			b.nameless, b.pace, b.page = true, only(3, 0, 12, 0), gaugeReads(3, 0, 12, 0)
		}), want: []string{"3 2-12 by telemetry"}},
		"it began with the episode, and names come with the first token": {bout: with(wedge, func(b *bout) {
			b.pace, b.page = only(3, 0, 12, 0), gaugeReads(3, 0, 12, 0)
		}), want: []string{"3 2-12 by telemetry"}},
		"one that never made a token may not have been there": {bout: with(wedge, func(b *bout) {
			b.nameless, b.pace = true, only(3, 0, 99, 0)
			b.page = func(s, w int, p *spec.Sample) {
				if w == 3 {
					p.Worker.Running, p.Worker.Generated = new(0.0), new(0.0)
				}
			}
		})},
		"waiting and none running": {bout: with(wedge, func(b *bout) {
			b.nameless = true
			b.page = func(s, w int, p *spec.Sample) {
				if w == 3 && s >= 10 {
					p.Worker.Running, p.Worker.Waiting = new(0.0), new(3.0)
				}
			}
		}), want: []string{"3 10-30 open by telemetry and client"}},
		"its runtime knows better": {bout: with(wedge, func(b *bout) {
			b.nameless = true
			b.page = func(s, w int, p *spec.Sample) {
				if w == 3 && s >= 10 {
					p.Worker.Running, p.Worker.InFlight = new(0.0), new(8.0)
				}
			}
		}), want: []string{"3 10-30 open by telemetry and client"}},
	})
}

func TestAStallSaysThatItsEngineSlept(t *testing.T) {
	for asleep, want := range map[float64]bool{0: false, 1: true} {
		b := bout{pace: only(3, 10, 16, 0), page: func(s, w int, p *spec.Sample) {
			if w == 3 && s >= 10 && s < 16 {
				p.Worker.Asleep = &asleep
			}
		}}
		stalls := digested(b, 0).stalls
		if len(stalls) != 1 || strings.Contains(stalls[0].words(1), "its engine said that it was asleep") != want {
			t.Errorf("asleep %g: %+v", asleep, stalls)
		}
	}
}

func TestWhoHasNothingToDoIsNotStalled(t *testing.T) {
	testStalls(t, map[string]stallCase{
		"it left discovery and its page lives on":   {bout: bout{route: awayFrom(3, 10)}},
		"the router gives it one request in twenty": {bout: bout{route: seldom}},
		"the same without names":                    {bout: bout{nameless: true, route: seldom}},
		"its page is refused and nothing is open":   {bout: bout{route: awayFrom(3, 10), page: darkened(3, 12, 99, spec.GapRefused)}},
		"it never had anything":                     {bout: bout{route: awayFrom(3, 0)}},
		"nor where its peers' pages are silent, and answers take their time": {bout: bout{route: awayFrom(3, 0),
			wait: func(int) float64 { return 3 },
			page: func(s, w int, p *spec.Sample) {
				if w != 3 {
					p.Gap = "status 500"
				}
			}}},
		"nor by pages alone": {bout: bout{nameless: true, route: awayFrom(3, 0)}},
	})
}

// seldom is a router that follows cached prefixes away from worker 3.
func seldom(u, n int, s float64) int {
	if w := u % 4; w != 3 || (u/4+n)%20 == 0 {
		return w
	}
	return u / 4 % 3
}

func TestEachWitnessWorksWithoutTheOther(t *testing.T) {
	stall := only(3, 10, 16, 0)
	testStalls(t, map[string]stallCase{
		"the client alone, with names":    {bout: bout{blind: true, pace: stall}, want: []string{"3 10-16 by client"}},
		"the client alone, without names": {bout: bout{blind: true, nameless: true, pace: stall}, want: []string{"fleet 9-17 by client"}},
		"telemetry, and no names":         {bout: bout{nameless: true, pace: stall}, want: []string{"3 10-16 by telemetry and client"}},
		"telemetry names others than the client": {bout: bout{pace: stall, spoil: func(q *spec.Request) { q.Worker = "id-" + q.Worker }},
			want: []string{"3 10-16 by telemetry and client"}},
		"a page that tells old numbers is no stall": {bout: bout{page: oldNumbers(3, 10)}},
		"nor is a single stream that hangs":         {bout: bout{blind: true, nameless: true, spoil: hangs(1)}},
		"one in a hundred streams is": {bout: bout{blind: true, nameless: true, spoil: hangs(2)},
			want: []string{"fleet 10-16 by client"}},
		"unless the pages saw all that time": {bout: bout{nameless: true, spoil: hangs(2)}},
	})
}

// hangs holds up so many streams from 10 s to 16 s.
func hangs(streams int) func(q *spec.Request) {
	return func(q *spec.Request) {
		if q.Sent > 9*second && q.First < 10*second && q.End > 10*second && streams > 0 {
			streams--
			q.Gap, q.GapEnd, q.Last, q.End = 6*second, 16*second, q.Last+6*second, q.End+6*second
		}
	}
}

func TestASingleWorkerIsHeldAgainstItself(t *testing.T) {
	testStalls(t, map[string]stallCase{
		"well":            {bout: bout{workers: 1}},
		"stands":          {bout: bout{workers: 1, pace: allAt(10, 16, 0)}, want: []string{"0 10-16 by telemetry and client"}},
		"without a page":  {bout: bout{workers: 1, blind: true, pace: allAt(10, 16, 0)}, want: []string{"0 10-16 by client"}},
		"without a name":  {bout: bout{workers: 1, nameless: true, pace: allAt(10, 16, 0)}, want: []string{"0 10-16 by telemetry and client"}},
		"without either":  {bout: bout{workers: 1, blind: true, nameless: true, pace: allAt(10, 16, 0)}, want: []string{"fleet 10-16 by client"}},
		"is slow as ever": {bout: bout{workers: 1, pace: allAt(0, 99, 0.3)}},
	})
}
