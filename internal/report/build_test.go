package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/internal/stats"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var aRun = spec.Run{ID: "x", Version: "1.2.3", Start: "2026-06-04T12:00:00Z", Target: spec.Target{Model: "m"}}

// begins is an episode that starts so many seconds after the run.
func begins(number, at int) *spec.Episode {
	return &spec.Episode{Number: number, Start: fmt.Sprintf("2026-06-04T12:%02d:%02dZ", at/60, at%60)}
}

// answered is a request of so many tokens, one that is served; stamps are seconds.
func answered(worker string, sent, first, last float64, tokens int) spec.Request {
	ns := func(s float64) int64 { return int64(math.Round(s * 1e9)) }
	return spec.Request{Lane: "closed", Phase: "steady", Sent: ns(sent), Intended: ns(sent), First: ns(first), Last: ns(last), End: ns(last),
		Tokens: tokens, Worker: worker, Class: "ok"}
}

// scraped is a sample of a worker; at is seconds.
func scraped(worker string, at float64, w spec.WorkerSample) spec.Sample {
	return spec.Sample{T: int64(at * 1e9), Source: spec.SourceWorker, Name: worker, Worker: &w}
}

func missing(worker string, at float64) spec.Sample {
	return spec.Sample{T: int64(at * 1e9), Source: spec.SourceWorker, Name: worker, Gap: spec.GapRefused}
}

// power is a sample of a GPU.
func power(gpu string, at, watts float64) spec.Sample {
	return spec.Sample{T: int64(at * 1e9), Source: spec.SourceGPU, Name: gpu, GPU: &spec.GPUSample{PowerW: &watts, Model: "H200"}}
}

// built is the report of one episode that starts with the run.
func built(v *spec.Verdict, requests []spec.Request, series []spec.Sample) *spec.Report {
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 0), requests, series)
	return b.Report(v)
}

func add(b *Builder, e *spec.Episode, requests []spec.Request, series []spec.Sample) {
	b.Begin(e)
	for i := range requests {
		b.Request(&requests[i])
	}
	for i := range series {
		b.Sample(&series[i])
	}
}

func laneOf(t *testing.T, r *spec.Report, worker string) spec.Lane {
	t.Helper()
	i := slices.IndexFunc(r.Lanes, func(l spec.Lane) bool { return l.Worker == worker })
	if i < 0 {
		t.Fatalf("no lane of %q", worker)
	}
	return r.Lanes[i]
}

// same compares numbers as a page shows them, none with none.
func same(t *testing.T, what string, want, got spec.Values) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var none = math.NaN()

func TestEpisodesAreOnTheRunsClock(t *testing.T) {
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(0, 5), []spec.Request{answered("", 0, 1, 2, 1)}, nil)
	add(b, begins(1, 30), []spec.Request{answered("", 0, 1, 7.5, 1)}, []spec.Sample{missing("0", 9)})
	add(b, begins(2, 60), nil, nil)
	r := b.Report(&spec.Verdict{Parts: []spec.Part{{Episode: 1, Cut: 3, Counted: true}, {Episode: 2, Cut: 4}}})
	want := []spec.ReportEpisode{
		{Episode: *begins(0, 5), At: 5, Until: 7},
		{Episode: *begins(1, 30), At: 30, Until: 39, Cut: new(33.0), Counted: true},
		{Episode: *begins(2, 60), At: 60, Until: 60, Cut: new(64.0)},
	}
	if diff := cmp.Diff(want, r.Episodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutAClockEpisodesFollowEachOther(t *testing.T) {
	b := NewBuilder(spec.Run{}, nil, nil)
	for n := range 2 {
		add(b, &spec.Episode{Number: n}, []spec.Request{answered("", 0, 1, 10, 1)}, nil)
	}
	r := b.Report(&spec.Verdict{})
	if r.Episodes[0].At != 0 || r.Episodes[1].At != 10 || r.Episodes[1].Until != 20 {
		t.Errorf("%+v", r.Episodes)
	}
}

func TestALaneIsWhatTheScrapesSay(t *testing.T) {
	r := built(&spec.Verdict{}, nil, []spec.Sample{
		scraped("0", 1, spec.WorkerSample{Running: new(3.0), Waiting: new(1.0), Generated: new(100.0), GPU: "GPU-a"}),
		scraped("0", 2, spec.WorkerSample{Running: new(4.0), Generated: new(150.0)}),
		scraped("0", 3, spec.WorkerSample{Running: new(5.0), Generated: new(20.0)}), // it began anew
		scraped("0", 5, spec.WorkerSample{Running: new(6.0), Generated: new(120.0)}),
		scraped("log", 1, spec.WorkerSample{TokensPerS: new(77.0)}),
		power("GPU-a", 1.5, 500), power("GPU-a", 2.5, 510), power("GPU-b", 1.5, 99),
	})
	l := laneOf(t, r, "0")
	same(t, "time", spec.Values{1, 2, 3, 5}, l.T)
	same(t, "running", spec.Values{3, 4, 5, 6}, l.Running)
	same(t, "waiting", spec.Values{1, none, none, none}, l.Waiting)
	same(t, "rate", spec.Values{none, 50, none, 50}, l.Rate)
	same(t, "power's time", spec.Values{1.5, 2.5}, l.PowerT)
	same(t, "power", spec.Values{500, 510}, l.Power)
	if l.By != "telemetry" || l.GPU != "GPU-a" || l.Known {
		t.Errorf("%+v", l)
	}
	l = laneOf(t, r, "log")
	same(t, "rate of a log", spec.Values{77}, l.Rate)
	same(t, "power of no GPU", nil, l.Power)
}

func TestACounterIsReadAnewInEachEpisode(t *testing.T) {
	b := NewBuilder(aRun, nil, nil)
	for n := range 2 {
		add(b, begins(n+1, 10*n), nil, []spec.Sample{scraped("0", 1, spec.WorkerSample{Generated: new(1000.0 * float64(n))}), scraped("0", 2, spec.WorkerSample{Generated: new(1000.0*float64(n) + 7)})})
	}
	same(t, "rate", spec.Values{none, 7, none, none, 7}, laneOf(t, b.Report(&spec.Verdict{}), "0").Rate)
}

func TestASampleThatDidNotComeIsSilenceAndNoZero(t *testing.T) {
	w := spec.WorkerSample{Running: new(1.0)}
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 0), nil, []spec.Sample{scraped("0", 1, w), missing("0", 2), missing("0", 3), scraped("0", 4, w), missing("0", 5)})
	add(b, begins(2, 10), nil, []spec.Sample{missing("0", 1), missing("0", 2), scraped("0", 3, w), {T: 4e9, Source: spec.SourceGPU, Name: "GPU-a", Gap: "x"}})
	l := laneOf(t, b.Report(&spec.Verdict{}), "0")
	want := []spec.Span{{From: 1, Until: 4}, {From: 4, Until: 5}, {From: 11, Until: 13}}
	if diff := cmp.Diff(want, l.Silent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	same(t, "running, with none between the episodes", spec.Values{1, none, none, 1, none, none, none, none, 1}, l.Running)
	same(t, "time", spec.Values{1, 2, 3, 4, 5, 8, 11, 12, 13}, l.T)
}

func TestWithoutTelemetryTheClientDrawsTheLanes(t *testing.T) {
	failed := spec.Request{Lane: "closed", Phase: "steady", Sent: 2e9, End: 4e9, Worker: "9", Class: "timeout"}
	refused := spec.Request{Lane: "closed", Phase: "steady", Sent: 2e9, End: 2e9 + 5, Worker: "9", Class: "http-status"}
	r := built(&spec.Verdict{}, []spec.Request{answered("10", 0, 1, 3, 20), failed, refused, answered("9", 0, 0.5, 1.5, 10)}, nil)
	if len(r.Lanes) != 2 || r.Lanes[0].Worker != "9" || r.Lanes[1].Worker != "10" {
		t.Fatalf("%+v", r.Lanes)
	}
	ten, nine := r.Lanes[1], r.Lanes[0]
	same(t, "time", spec.Values{0.5, 1.5, 2.5, 3.5}, ten.T)
	same(t, "running", spec.Values{0, 1, 1, 0}, ten.Running)
	same(t, "waiting, of which nobody tells", spec.Values{none, none, none, none}, ten.Waiting)
	same(t, "rate", spec.Values{0, 10, 10, 0}, ten.Rate)
	same(t, "running of the one that failed", spec.Values{0.5, 0.5, 1, 1}, nine.Running)
	if ten.By != "client" || !ten.Known || ten.Requests != 1 || ten.Failed != 0 || ten.Tokens != 20 || math.Abs(ten.Share-4.0/3) > 1e-12 {
		t.Errorf("%+v", ten)
	}
	if nine.Requests != 3 || nine.Failed != 2 || nine.Tokens != 10 {
		t.Errorf("%+v", nine)
	}
}

func TestTelemetryDrawsAndTheClientCounts(t *testing.T) {
	r := built(&spec.Verdict{}, []spec.Request{answered("0", 0, 1, 3, 20)}, []spec.Sample{
		scraped("0", 1, spec.WorkerSample{Running: new(7.0)}), scraped("1", 1, spec.WorkerSample{Running: new(0.0)})})
	l := laneOf(t, r, "0")
	same(t, "running", spec.Values{7}, l.Running)
	if l.By != "telemetry" || !l.Known || l.Requests != 1 || l.Share != 2 {
		t.Errorf("%+v", l)
	}
	if l := laneOf(t, r, "1"); !l.Known || l.Requests != 0 || l.Share != 0 {
		t.Errorf("%+v", l)
	}
}

func TestWhereTelemetryIsSilentThroughoutTheClientDraws(t *testing.T) {
	r := built(&spec.Verdict{}, []spec.Request{answered("0", 0, 1, 3, 20)}, []spec.Sample{missing("0", 1), missing("0", 2), missing("1", 1)})
	l := laneOf(t, r, "0")
	same(t, "rate", spec.Values{0, 10, 10}, l.Rate)
	if l.By != "client" || len(l.Silent) != 1 || !l.Known {
		t.Errorf("%+v", l)
	}
	if l := laneOf(t, r, "1"); l.By != "telemetry" {
		t.Errorf("%+v", l)
	}
}

func TestNamesThatNobodySharesAreNotJoined(t *testing.T) {
	r := built(&spec.Verdict{}, []spec.Request{answered("0xabc", 0, 1, 3, 20)}, []spec.Sample{scraped("0", 1, spec.WorkerSample{Running: new(7.0)})})
	if len(r.Lanes) != 1 || r.Lanes[0].Worker != "0" || r.Lanes[0].Known || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "name the workers differently") {
		t.Errorf("%+v\nnotes %q", r.Lanes, r.Notes)
	}
}

func TestTheVerdictIsDrawnOnItsLanes(t *testing.T) {
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 10), nil, []spec.Sample{scraped("0", 1, spec.WorkerSample{GPU: "GPU-a"}), scraped("1", 1, spec.WorkerSample{})})
	r := b.Report(&spec.Verdict{
		Stalls: []spec.Stall{{Episode: 1, At: 20, Seconds: 8, Worker: "0"}, {Episode: 1, At: 5, Seconds: 2, Open: true, Worker: "0"}, {Episode: 1, At: 7, Seconds: 1}, {Episode: 9, At: 1, Seconds: 1}},
		Findings: []spec.Finding{{ID: "worker/stall", Workers: []string{"0"}}, {ID: "gpu/throttle", GPUs: []string{"GPU-a"}}, {ID: "worker/stall", Workers: []string{"0", "1"}},
			{ID: "fleet/slow"}, {ID: "worker/absent", Workers: []string{"2"}}}})
	l := laneOf(t, r, "0")
	if diff := cmp.Diff([]spec.Span{{From: 15, Until: 17, Open: true}, {From: 30, Until: 38}}, l.Stalls); diff != "" {
		t.Errorf("stalls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]spec.Span{{From: 17, Until: 18}}, r.Fleet.Stalls); diff != "" {
		t.Errorf("stalls of the fleet (-want +got):\n%s", diff)
	}
	for worker, want := range map[string][]string{"0": {"worker/stall", "gpu/throttle"}, "1": {"worker/stall"}, "2": {"worker/absent"}} {
		if diff := cmp.Diff(want, laneOf(t, r, worker).Findings); diff != "" {
			t.Errorf("findings of %s (-want +got):\n%s", worker, diff)
		}
	}
}

func TestTheFleetIsWhatTheClientSaw(t *testing.T) {
	sentinel := answered("", 0, 0.9, 1, 4)
	sentinel.Lane = "sentinel"
	lost := spec.Request{Lane: "closed", Sent: 1e9, End: 35e8, Class: "timeout"}
	interrupted := spec.Request{Lane: "closed", Sent: 3e9, End: 35e8, Class: "interrupted"}
	refused := spec.Request{Lane: "closed", Sent: 2e9, End: 25e8, Class: "http-status"} // nobody waited
	r := built(&spec.Verdict{}, []spec.Request{answered("", 0, 0.1, 2.1, 20), answered("", 0.5, 0.7, 1.7, 10), sentinel, lost, interrupted, refused}, nil)
	same(t, "time", spec.Values{0.5, 1.5, 2.5, 3.5}, r.Fleet.T)
	same(t, "rate", spec.Values{9 + 3 + 4, 10 + 7, 1, 0}, r.Fleet.Rate)
	same(t, "in flight", spec.Values{1 + 0.5 + 1, 1 + 0.7 + 1, 0.1 + 1, 0.5 + 0.5}, r.Fleet.InFlight)
	same(t, "failed", spec.Values{0, 0, 1, 1}, r.Fleet.Failed)
	wait := func(v spec.Values) spec.Values { // kept with seven digits
		for i := range v {
			v[i] = math.Round(v[i]*1e3) / 1e3
		}
		return v
	}
	same(t, "median wait", spec.Values{150, none, none, none}, wait(r.Fleet.TTFT50))
	same(t, "99th percentile", spec.Values{199, none, none, none}, wait(r.Fleet.TTFT99))
}

func TestALongWaitBetweenTokensIsSeen(t *testing.T) {
	q := answered("0", 0, 1, 9, 40)
	q.Gap, q.GapEnd = 4e9, 7e9
	r := built(&spec.Verdict{}, []spec.Request{q}, nil)
	want := spec.Values{0, 10, 10, 0, 0, 0, 0, 10, 10}
	same(t, "fleet", want, r.Fleet.Rate)
	same(t, "lane", want, laneOf(t, r, "0").Rate)
}

func TestATrickleIsSeenByTheClientsOwnCount(t *testing.T) {
	counted := func(at float64, tokens int64) spec.Sample {
		return spec.Sample{T: int64(at * 1e9), Source: spec.SourceClient, Client: &spec.ClientSample{Tokens: tokens}}
	}
	q := []spec.Request{answered("", 0, 0, 6, 120)}
	q[0].First = 1
	for name, c := range map[string]struct {
		counts []spec.Sample
		want   spec.Values
	}{
		"none":                     {nil, spec.Values{20, 20, 20, 20, 20, 20}},
		"one of each second":       {[]spec.Sample{counted(1, 20), counted(2, 21), counted(3, 22), counted(4, 40), counted(5, 50), counted(6, 60)}, spec.Values{40, 2, 2, 36, 20, 20}},
		"between the seconds":      {[]spec.Sample{counted(1.5, 30), counted(2.5, 30), counted(3.5, 30), counted(4.5, 60), counted(6, 60)}, spec.Values{40, 20, 0, 30, 30, 0}},
		"too far apart":            {[]spec.Sample{counted(1, 20), counted(4, 40), counted(5, 50), counted(6, 60)}, spec.Values{40, 20, 20, 20, 20, 20}},
		"of another thing":         {[]spec.Sample{counted(1, 1), counted(2, 2), counted(6, 3)}, spec.Values{20, 20, 20, 20, 20, 20}},
		"one that began anew":      {[]spec.Sample{counted(1, 60), counted(2, 10), counted(3, 20), counted(4, 40), counted(5, 50), counted(6, 60)}, spec.Values{120, 20, 20, 40, 20, 20}},
		"twice of the same second": {[]spec.Sample{counted(1, 20), counted(1, 50), counted(2, 21), counted(3, 22), counted(4, 40), counted(5, 50), counted(6, 60)}, spec.Values{40, 2, 2, 36, 20, 20}},
	} {
		r := built(&spec.Verdict{}, q, c.counts)
		for i := range r.Fleet.Rate { // a first token at 1 ns
			r.Fleet.Rate[i] = math.Round(r.Fleet.Rate[i]*1e6) / 1e6
		}
		same(t, name, c.want, r.Fleet.Rate)
	}
}

func TestWaitsAreOfWhatCounts(t *testing.T) {
	requests := func(wait float64) []spec.Request {
		ramp, sentinel, failed := answered("", 0, 99, 100, 2), answered("", 0, 98, 100, 2), spec.Request{Lane: "closed", Phase: "steady", End: 7, Class: "timeout"}
		ramp.Phase, sentinel.Lane = "ramp", "sentinel"
		return []spec.Request{ramp, sentinel, failed, answered("", 1, 1+wait, 1+wait+0.9, 10), answered("", 1, 1+2*wait, 1+2*wait, 1)}
	}
	for name, c := range map[string]struct {
		parts []spec.Part
		n     int64
		max   float64
	}{
		"one episode counts": {[]spec.Part{{Episode: 1, Counted: true}, {Episode: 2}}, 2, 200},
		"both do":            {[]spec.Part{{Episode: 1, Counted: true}, {Episode: 2, Counted: true}}, 4, 600},
		"none does":          {[]spec.Part{{Episode: 1}}, 6, 1000},
	} {
		b := NewBuilder(aRun, nil, nil)
		add(b, begins(0, 0), requests(0.5), nil)
		add(b, begins(1, 200), requests(0.1), nil)
		add(b, begins(2, 400), requests(0.3), nil)
		d := b.Report(&spec.Verdict{Parts: c.parts}).Distributions
		if len(d) != 2 || d[0].Name != "TTFT" || d[0].N != c.n || math.Abs(d[0].Max/c.max-1) > 1e-3 || d[1].Name != "ITL" || d[1].N != c.n/2 || math.Abs(d[1].Max/100-1) > 1e-3 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := built(&spec.Verdict{}, nil, nil).Distributions; len(d) != 0 {
		t.Errorf("of nothing: %+v", d)
	}
}

func TestADistributionIsNearTheValuesThemselves(t *testing.T) {
	var requests []spec.Request
	var waits []float64
	for i := range 20_000 {
		wait := 0.02 + 0.3*math.Pow(float64(i)/20_000, 6)
		requests = append(requests, answered("", 1, 1+wait, 2, 2))
		waits = append(waits, ms(requests[i].First-requests[i].Sent))
	}
	d := built(&spec.Verdict{}, requests, nil).Distributions[0]
	for p, got := range map[float64]float64{50: d.P50, 90: d.P90, 99: d.P99, 100: d.Max} {
		if want := stats.Percentile(waits, p); math.Abs(got/want-1) > 0.002 {
			t.Errorf("p%g is %g; want %g", p, got, want)
		}
	}
	if len(d.Edges) != len(d.Counts)+1 {
		t.Fatalf("%d edges of %d bins", len(d.Edges), len(d.Counts))
	}
	sum := int64(0)
	for i, n := range d.Counts {
		sum += n
		want := int64(0)
		for _, w := range waits {
			if w >= d.Edges[i] && w < d.Edges[i+1] {
				want++
			}
		}
		if math.Abs(float64(n-want)) > 0.01*float64(len(waits)) {
			t.Errorf("%d from %g to %g; want %d", n, d.Edges[i], d.Edges[i+1], want)
		}
		if factor := d.Edges[i+1] / d.Edges[i]; math.Abs(factor-math.Pow(10, 1.0/20)) > 1e-9 {
			t.Errorf("bin %d grows by %g", i, factor)
		}
	}
	if sum != d.N || d.N != int64(len(waits)) {
		t.Errorf("%d in the bins, of %d", sum, d.N)
	}
}

func TestOnlyEventsThatMeanSomethingAreMarked(t *testing.T) {
	for name, c := range map[string]struct {
		event spec.Event
		want  string // "": no mark
	}{
		"a stage":             {spec.Event{Kind: spec.EventStage, Stage: "warm"}, ""},
		"an episode again":    {spec.Event{Kind: spec.EventStage, Stage: "retry", Episode: 3, Text: "the client was late"}, "episode 3 is measured again: the client was late"},
		"versions":            {spec.Event{Kind: spec.EventVersions, Runtime: "1"}, ""},
		"a quick answer":      {spec.Event{Kind: spec.EventAnswer, Worker: "0", Seconds: new(0.2), Tokens: new(8)}, ""},
		"a slow answer":       {spec.Event{Kind: spec.EventAnswer, Worker: "0", Seconds: new(41.7), Tokens: new(8)}, "the first answer took 41.7 s"},
		"no answer":           {spec.Event{Kind: spec.EventAnswer, Worker: "0", Reason: "silent", Text: "nothing in 300 s"}, "no first answer: silent: nothing in 300 s"},
		"an answer of no use": {spec.Event{Kind: spec.EventAnswer, Worker: "0", Seconds: new(0.2), Tokens: new(0)}, "no first answer"},
		"a log":               {spec.Event{Kind: spec.EventLog, Source: "frontend", Reason: "panic", Text: "boom", Count: 1200}, "1,200 times: frontend: panic: boom"},
		"an event of a pod":   {spec.Event{Kind: spec.EventPod, Source: "worker-1", Reason: "BackOff", Text: "x"}, "worker-1: BackOff: x"},
		"a symptom":           {spec.Event{Kind: spec.EventSymptom, Reason: "worker/stall", Text: "stands still"}, "worker/stall: stands still"},
		"the end of one":      {spec.Event{Kind: spec.EventSymptomOver, Reason: "worker/stall"}, "over: worker/stall"},
		"an interrupt":        {spec.Event{Kind: spec.EventInterrupt, Text: "interrupt"}, "the run was ended: interrupt"},
		"never served":        {spec.Event{Kind: spec.EventNotServed}, "the endpoint never served"},
	} {
		c.event.T = 12
		r := NewBuilder(aRun, nil, []spec.Event{c.event}).Report(&spec.Verdict{})
		var want []spec.Mark
		if c.want != "" {
			want = []spec.Mark{{At: 12, Kind: c.event.Kind, Text: c.want, Worker: c.event.Worker}}
		}
		if diff := cmp.Diff(want, r.Marks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAPlanSaysWhichFirstAnswerIsSlow(t *testing.T) {
	e := spec.Event{Kind: spec.EventAnswer, Seconds: new(2.0), Tokens: new(8)}
	if r := NewBuilder(aRun, &spec.Plan{Thresholds: spec.Thresholds{ColdS: 1}}, []spec.Event{e}).Report(&spec.Verdict{}); len(r.Marks) != 1 {
		t.Errorf("%+v", r.Marks)
	}
}

func TestOfTooManyMarksTheWeightiestStay(t *testing.T) {
	var events []spec.Event
	for i := range 1000 {
		events = append(events, spec.Event{T: float64(i), Kind: spec.EventLog, Text: strings.Repeat("長", 5000)})
	}
	events = append(events, spec.Event{T: 2000, Kind: spec.EventInterrupt, Text: "x"})
	r := NewBuilder(aRun, nil, events).Report(&spec.Verdict{})
	last := r.Marks[len(r.Marks)-1]
	if len(r.Marks) != 200 || last.Kind != spec.EventInterrupt || r.Marks[0].At != 0 || len(r.Marks[0].Text) > 400 {
		t.Errorf("%d marks, %+v", len(r.Marks), last)
	}
	if !slices.Contains(r.Notes, "801 events not shown: there are too many") {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestFactsAreInAFixedOrder(t *testing.T) {
	run := aRun
	run.Target = spec.Target{Model: "m", URL: "http://h/v1"}
	b := NewBuilder(run, &spec.Plan{Seed: 7, Point: spec.OperatingPoint{Router: "kv", Workers: 9}}, []spec.Event{
		{Kind: spec.EventVersions, Runtime: "1.4.1", Chart: "1.4.0"}, {Kind: spec.EventVersions, Runtime: "1.4.2"},
		{Kind: spec.EventWorkers, Want: new(8), Have: new(7)}, {Kind: spec.EventGPUs, Want: new(4)}})
	add(b, begins(1, 0), nil, []spec.Sample{power("GPU-a", 1, 1), power("GPU-b", 1, 1), {Source: spec.SourceGPU, Name: "GPU-c", Gap: "x"}})
	want := []spec.Fact{{Name: "model", Value: "m"}, {Name: "URL", Value: "http://h/v1"}, {Name: "seed", Value: "7"}, {Name: "workers", Value: "7 of 8"},
		{Name: "GPUs", Value: "1 of unknown model, 2 × H200"}, {Name: "runtime", Value: "1.4.1 and 1.4.2"}, {Name: "chart", Value: "1.4.0"}, {Name: "router", Value: "kv"}, {Name: "aicr", Value: "1.2.3"}}
	if diff := cmp.Diff(want, b.Report(&spec.Verdict{}).Facts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	run.Target = spec.Target{Simulated: true, Scenario: "healthy", Seed: 3}
	b = NewBuilder(run, &spec.Plan{Seed: 7, Point: spec.OperatingPoint{Workers: 9}}, []spec.Event{{Kind: spec.EventGPUs, Want: new(4)}, {Kind: spec.EventGPUs, Want: new(8)}})
	want = []spec.Fact{{Name: "scenario", Value: "healthy"}, {Name: "seed", Value: "3"}, {Name: "workers", Value: "9, by the plan"}, {Name: "GPUs", Value: "12"}, {Name: "aicr", Value: "1.2.3"}}
	if diff := cmp.Diff(want, b.Report(&spec.Verdict{}).Facts); diff != "" {
		t.Errorf("simulated (-want +got):\n%s", diff)
	}
}

func TestNamesAreInTheOrderThatPeopleExpect(t *testing.T) {
	want := []string{"1", "2", "9", "10", "gpu-a", "node-1/worker-2", "node-1/worker-10", "node-2/worker-1", "worker-002", "worker-10", "工人2", "工人10"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALongRunOfManyWorkersFitsAPage(t *testing.T) {
	for _, c := range []struct{ workers, episodes, seconds int }{{8, 60, 50}, {8, 1, 3000}, {128, 60, 50}, {64, 300, 10}} {
		b := NewBuilder(aRun, nil, nil)
		for n := range c.episodes {
			b.Begin(begins(n+1, n*c.seconds%3600))
			for s := range c.seconds {
				for w := range c.workers {
					name, at := strconv.Itoa(w), float64(s)+0.123456
					made := float64((s*7919 + w) % 100_003)
					one, two := scraped(name, at, spec.WorkerSample{Running: &made, Waiting: &made, TokensPerS: &made, GPU: name}), power(name, at, made)
					b.Sample(&one)
					b.Sample(&two)
				}
			}
		}
		r := b.Report(&spec.Verdict{})
		points, powers := 0, 0
		for _, l := range r.Lanes {
			points, powers = points+len(l.T), powers+len(l.PowerT)
			if !slices.IsSorted(l.T) || len(l.T) != len(l.Running) || len(l.T) != len(l.Rate) || len(l.PowerT) != len(l.Power) {
				t.Fatalf("lane %s is not in order", l.Worker)
			}
		}
		text, err := json.Marshal(r.Lanes)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: %d and %d points, %d bytes", c, points, powers, len(text))
		// Between two episodes there is one that is none.
		most := mostLanePoints + c.workers*c.episodes
		if len(r.Lanes) != c.workers || points > most || powers > max(mostPowerPoints, fewestPoints*c.workers*c.episodes)+c.workers*c.episodes || len(text) > 2<<20 {
			t.Errorf("%+v: %d lanes, %d and %d points, %d bytes", c, len(r.Lanes), points, powers, len(text))
		}
		if points < most/2 && points < c.workers*c.episodes*c.seconds {
			t.Errorf("%+v: only %d points", c, points)
		}
	}
}

func TestAServerThatInventsWorkersHasNotALaneForEach(t *testing.T) {
	var requests []spec.Request
	for i := range 2000 {
		requests = append(requests, answered(fmt.Sprintf("request-%d", i), 0, 1, 2, 3))
	}
	r := built(&spec.Verdict{}, requests, nil)
	if len(r.Lanes) != mostLanes || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "more than 512 workers") {
		t.Errorf("%d lanes, notes %q", len(r.Lanes), r.Notes)
	}
}

func TestATimeThatCannotBeIsNotDrawn(t *testing.T) {
	never := answered("0", 0, 1, 1e9, 5)
	early := answered("0", -3, -2, 1, 30)
	r := built(&spec.Verdict{}, []spec.Request{never, early}, []spec.Sample{scraped("0", 1e9, spec.WorkerSample{}), {T: -5, Source: spec.SourceWorker, Name: "0"}})
	if len(r.Fleet.T) != 1 || laneOf(t, r, "0").Requests != 2 || !slices.Contains(r.Notes, "3 lines not drawn: they tell of more than a day after their episode's start") {
		t.Errorf("%+v\nnotes %q", r.Fleet, r.Notes)
	}
}

func TestARequestMayBeUsedAgain(t *testing.T) {
	var requests []spec.Request
	for i := range 100 {
		requests = append(requests, answered(strconv.Itoa(i%7), float64(i%9), float64(i%9)+1, float64(i%9)+3, i))
	}
	want := built(&spec.Verdict{}, requests, nil)
	b := NewBuilder(aRun, nil, nil)
	b.Begin(begins(1, 0))
	var q spec.Request
	for i := range requests {
		q = requests[i]
		b.Request(&q)
	}
	q = spec.Request{}
	if diff := cmp.Diff(want, b.Report(&spec.Verdict{}), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAReportMayBeMadeTwice(t *testing.T) {
	b := NewBuilder(aRun, nil, []spec.Event{{Kind: spec.EventInterrupt}})
	add(b, begins(1, 0), []spec.Request{answered("0", 0, 1, 3, 20)}, []spec.Sample{scraped("0", 1, spec.WorkerSample{Running: new(1.0)}), missing("0", 2)})
	if diff := cmp.Diff(b.Report(&spec.Verdict{}), b.Report(&spec.Verdict{}), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestARunWithoutEpisodesHasAReport(t *testing.T) {
	r := NewBuilder(aRun, nil, nil).Report(&spec.Verdict{Findings: []spec.Finding{{ID: "worker/absent", Workers: []string{"3"}}}})
	if len(r.Lanes) != 1 || len(r.Fleet.T) != 0 || r.Lanes[0].Known {
		t.Errorf("%+v", r)
	}
	if text, err := json.Marshal(r.Lanes); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}
