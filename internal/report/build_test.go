package report

import (
	"bytes"
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
	if l := laneOf(t, r, "1"); l.By != "client" || !l.Known || len(l.T) != 0 {
		t.Errorf("one that the client sent nothing to: %+v", l)
	}
	r = built(&spec.Verdict{}, []spec.Request{answered("0", 0, 1, 3, 20)}, []spec.Sample{missing("10.0.0.1:9400", 1)})
	if len(r.Lanes) != 1 || r.Lanes[0].Worker != "0" || r.Lanes[0].By != "client" || !r.Lanes[0].Known || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "of the client alone") {
		t.Errorf("where its pages go by other names: %+v\nnotes %q", r.Lanes, r.Notes)
	}
	r = built(&spec.Verdict{}, []spec.Request{answered("", 0, 1, 3, 20)}, []spec.Sample{missing("0", 1)})
	if l := laneOf(t, r, "0"); l.By != "telemetry" || l.Known || len(l.Silent) != 1 {
		t.Errorf("where the client knows nobody: %+v", l)
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

func TestTheClientsOwnCountIsScaledByTheTokensOfAllRequests(t *testing.T) {
	told := answered("", 0, 0, 4, 60) // the server told how many, and no stream showed when
	told.First, told.Last = 0, 0
	given := spec.Request{Lane: "closed", Phase: "steady", Sent: 0, First: 1, Last: 1e9, End: 4e9, Class: "interrupted"} // nobody told how many
	var counts []spec.Sample
	for s := range 4 {
		counts = append(counts, spec.Sample{T: int64(s+1) * 1e9, Source: spec.SourceClient, Client: &spec.ClientSample{Tokens: int64(s+1) * 20}})
	}
	r := built(&spec.Verdict{}, []spec.Request{told, given, answered("", 0, 1, 2, 20)}, counts)
	same(t, "rate", spec.Values{20, 20, 20, 20}, r.Fleet.Rate)
}

func TestNoSecretOfAnAddressIsInAReport(t *testing.T) {
	for address, want := range map[string]string{
		"http://user:hunter2@host/v1?key=hunter2":         "http://host/v1",
		"https://hunter2@host:8000/a%2Fb?hunter2#hunter2": "https://host:8000/a%2Fb",
		"http://host/v1?…":                                "http://host/v1",
		"user:hunter2@host/v1":                            "",
		"http://user:hunter2@host:port/v1":                "",
		"hunter2@host/v1?key=hunter2":                     "",
		"http://user:hunter2%zz@host/v1":                  "",
		"":                                                "",
	} {
		run := aRun
		run.Target.URL = address
		b := NewBuilder(run, &spec.Plan{}, nil)
		add(b, begins(1, 0), []spec.Request{answered("0", 0, 1, 2, 20)}, nil)
		r := b.Report(&spec.Verdict{Verdict: spec.Pass})
		if r.Run.Target.URL != want {
			t.Errorf("%s: %q; want %q", address, r.Run.Target.URL, want)
		}
		for _, f := range Formats() {
			var text bytes.Buffer
			if err := f.Write(&text, r); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if strings.Contains(text.String(), "hunter2") {
				t.Errorf("%s: hunter2 is in %s", address, f.Name)
			}
		}
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
		"a deletion":          {spec.Event{Kind: spec.EventRemoved, Source: "Job a/b", Text: "it is gone"}, "Job a/b was deleted by somebody else: it is gone"},
		"a node":              {spec.Event{Kind: spec.EventNode, Source: "gpu-0", Reason: spec.NodeCordoned}, "node gpu-0: Cordoned"},
		"requests before":     {spec.Event{Kind: spec.EventRequests, Reason: "reset", Text: "x"}, "requests failed before the load: reset: x"},
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
	for i := range 5000 {
		requests = append(requests, answered(fmt.Sprintf("request-%d", i), 0, 1, 2, 3))
	}
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 0), requests, nil)
	r := b.Report(&spec.Verdict{})
	if len(b.lanes) != mostTracked || len(r.Lanes) != mostLanes || len(r.Notes) != 2 || !strings.Contains(r.Notes[0], "more than 512 workers") || !strings.Contains(r.Notes[1], "more than 4096 workers") {
		t.Errorf("%d lanes of %d, notes %q", len(r.Lanes), len(b.lanes), r.Notes)
	}
	r = built(&spec.Verdict{}, requests, []spec.Sample{scraped("0", 1, spec.WorkerSample{Running: new(7.0)})})
	if len(r.Lanes) != 1 || r.Lanes[0].Worker != "0" {
		t.Errorf("%d lanes where telemetry knows better", len(r.Lanes))
	}
}

func TestWhoIsNamedHasALaneHoweverManyThereAre(t *testing.T) {
	const workers = 600
	var requests []spec.Request
	var series []spec.Sample
	for i := range workers {
		name := fmt.Sprintf("worker-%d", i+1)
		requests = append(requests, answered(name, 0, 1, 2, 30))
		series = append(series, scraped(name, 1, spec.WorkerSample{Running: new(float64(i)), GPU: "GPU-" + name}), power("GPU-"+name, 1, float64(i)))
	}
	r := built(&spec.Verdict{Stalls: []spec.Stall{{Episode: 1, Worker: "worker-598", Seconds: 1}, {Episode: 1, Seconds: 1}},
		Findings: []spec.Finding{{ID: "worker/absent", Workers: []string{"worker-600", "worker-900"}}, {ID: "gpu/throttle", GPUs: []string{"GPU-worker-596"}}}}, requests, series)
	if len(r.Lanes) != mostLanes || !slices.IsSortedFunc(r.Lanes, func(x, y spec.Lane) int { return natural(x.Worker, y.Worker) }) {
		t.Errorf("%d lanes", len(r.Lanes))
	}
	for name, running := range map[string]float64{"worker-1": 0, "worker-508": 507, "worker-596": 595, "worker-598": 597, "worker-600": 599} {
		l := laneOf(t, r, name)
		same(t, name+" runs", spec.Values{running}, l.Running)
		same(t, name+"'s power", spec.Values{running}, l.Power)
		if l.Requests != 1 || math.Abs(l.Share-(workers+1.0)/workers) > 1e-9 {
			t.Errorf("%+v", l)
		}
	}
	if l := laneOf(t, r, "worker-900"); len(l.T) != 0 || len(l.Findings) != 1 {
		t.Errorf("%+v", l)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "more than 512 workers are named") {
		t.Errorf("notes %q", r.Notes)
	}

	requests = nil
	for i := range mostTracked + 1 {
		requests = append(requests, answered(strconv.Itoa(i), 0, 1, 2, 3))
	}
	r = built(&spec.Verdict{Findings: []spec.Finding{{ID: "worker/slow", Workers: []string{strconv.Itoa(mostTracked)}}}}, requests, nil)
	if l := laneOf(t, r, strconv.Itoa(mostTracked)); len(l.Findings) != 1 || len(r.Notes) != 2 || !strings.Contains(r.Notes[1], "of the others nothing was kept") {
		t.Errorf("%+v\nnotes %q", l, r.Notes)
	}
}

func TestAWorkersGPUIsTheOneThatItNamesOrTheOneOfItsPod(t *testing.T) {
	of := func(gpu, pod string, at, watts float64) spec.Sample {
		s := power(gpu, at, watts)
		s.GPU.Pod = pod
		return s
	}
	in := func(worker, pod, gpu string) spec.Sample {
		return scraped(worker, 1, spec.WorkerSample{Running: new(1.0), Pod: pod, GPU: gpu})
	}
	for name, c := range map[string]struct {
		series []spec.Sample
		gpu    string
		power  spec.Values
	}{
		"by its pod":                        {[]spec.Sample{in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 500), of("GPU-b", "pod-b", 1, 90)}, "GPU-a", spec.Values{500}},
		"by its pod, that is told first":    {[]spec.Sample{of("GPU-a", "pod-a", 1, 500), in("0", "pod-a", "")}, "GPU-a", spec.Values{500}},
		"by its name before its pod":        {[]spec.Sample{in("0", "pod-a", "GPU-b"), of("GPU-a", "pod-a", 1, 500), of("GPU-b", "pod-b", 1, 90)}, "GPU-b", spec.Values{90}},
		"by a name that no exporter has":    {[]spec.Sample{in("0", "pod-a", "GPU-c"), of("GPU-a", "pod-a", 1, 500)}, "GPU-c", nil},
		"a pod of several GPUs":             {[]spec.Sample{in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 500), of("GPU-b", "pod-a", 1, 90), of("GPU-c", "pod-a", 1, 90)}, "", nil},
		"a GPU that went to another pod":    {[]spec.Sample{in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 500), of("GPU-a", "pod-b", 2, 500)}, "", nil},
		"a pod that nobody tells":           {[]spec.Sample{in("0", "", ""), of("GPU-a", "", 1, 500)}, "", nil},
		"a pod that is told in one sample":  {[]spec.Sample{in("0", "pod-a", ""), in("0", "", ""), of("GPU-a", "pod-a", 1, 500)}, "GPU-a", spec.Values{500}},
		"a worker that went to another pod": {[]spec.Sample{in("0", "pod-b", ""), in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 500), of("GPU-b", "pod-b", 1, 90)}, "GPU-a", spec.Values{500}},
		"a GPU of which there is but a gap": {[]spec.Sample{in("0", "pod-a", ""), {Source: spec.SourceGPU, Name: "GPU-a", Gap: "x"}}, "", nil},
		"a gap after the pod was told":      {[]spec.Sample{in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 500), {T: 2e9, Source: spec.SourceGPU, Name: "GPU-a", Gap: "x"}}, "GPU-a", spec.Values{500, none}},
	} {
		l := laneOf(t, built(&spec.Verdict{}, nil, c.series), "0")
		if l.GPU != c.gpu {
			t.Errorf("%s: GPU %q; want %q", name, l.GPU, c.gpu)
		}
		same(t, name, c.power, l.Power)
	}

	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 0), nil, []spec.Sample{missing("0", 1), of("GPU-a", "pod-a", 1, 1), of("GPU-b", "pod-b", 1, 10)})
	add(b, begins(2, 10), nil, []spec.Sample{in("0", "pod-a", ""), of("GPU-a", "pod-a", 1, 2), of("GPU-b", "pod-b", 1, 20)})
	add(b, begins(3, 20), nil, []spec.Sample{in("0", "pod-b", ""), of("GPU-a", "pod-a", 1, 3), of("GPU-b", "pod-b", 1, 30)})
	add(b, begins(4, 30), nil, []spec.Sample{missing("0", 1), of("GPU-b", "pod-b", 1, 40)})
	r := b.Report(&spec.Verdict{Findings: []spec.Finding{{ID: "gpu/throttle", GPUs: []string{"GPU-a"}}}})
	l := laneOf(t, r, "0")
	same(t, "of each episode's GPU", spec.Values{10, none, 2, none, 30, none, 40}, l.Power)
	if l.GPU != "GPU-b" || !slices.Equal(l.Findings, []string{"gpu/throttle"}) {
		t.Errorf("%+v", l)
	}
}

func TestAClockThatWasSetBackMakesNoLineThatRunsBack(t *testing.T) {
	b := NewBuilder(aRun, nil, nil)
	var first, second []spec.Sample
	for _, at := range []float64{1, 4, 2, 3} {
		first = append(first, scraped("0", at, spec.WorkerSample{Running: new(10 * at), TokensPerS: new(at), GPU: "GPU-a"}), power("GPU-a", at, 100*at))
		second = append(second, scraped("0", at, spec.WorkerSample{Running: new(10 * (at - 2.5))}), power("GPU-a", at, 100*(at-2.5)))
	}
	add(b, begins(1, 30), []spec.Request{answered("0", 0, 0.5, 2, 3), answered("1", 0, 0.5, 2, 3)}, first)
	add(b, begins(2, 20), []spec.Request{answered("1", 0, 0.5, 2, 3)}, second)
	r := b.Report(&spec.Verdict{})
	l := laneOf(t, r, "0")
	same(t, "time", spec.Values{21, 22, 23, 24, 27.5, 31, 32, 33, 34}, l.T)
	same(t, "running", spec.Values{-15, -5, 5, 15, none, 10, 20, 30, 40}, l.Running)
	same(t, "rate", spec.Values{none, none, none, none, none, 1, 2, 3, 4}, l.Rate)
	same(t, "power's time", spec.Values{21, 22, 23, 24, 27.5, 31, 32, 33, 34}, l.PowerT)
	same(t, "power", spec.Values{-150, -50, 50, 150, none, 100, 200, 300, 400}, l.Power)
	if !slices.IsSorted(r.Fleet.T) || !slices.IsSorted(laneOf(t, r, "1").T) {
		t.Errorf("%v, %v", r.Fleet.T, laneOf(t, r, "1").T)
	}
}

func TestHowManyBinsThereAreIsBoundedWhateverTheClockSays(t *testing.T) {
	const day = 86399
	for _, c := range []struct{ workers, most int }{{1, mostBins}, {256, mostBins}, {512, 4096}, {5000, 512}} {
		b := NewBuilder(aRun, nil, nil)
		b.Begin(begins(1, 0))
		for range 3 {
			for w := range c.workers {
				q := answered(strconv.Itoa(w), 0, 1, day, 1000)
				b.Request(&q)
			}
		}
		total := 0
		for _, v := range []bins{b.episodes[0].fleet.tokens, b.episodes[0].fleet.inFlight, b.lanes["0"].now.tokens, b.lanes["0"].now.streams} {
			if n := max(len(v.amounts), len(v.rises)); n > c.most || n < c.most/4 {
				t.Errorf("%d workers: %d bins", c.workers, n)
			}
		}
		for _, l := range b.lanes {
			total += max(len(l.now.tokens.amounts), len(l.now.streams.amounts))
		}
		if total > mostBinsOfAll || len(b.episodes[0].fleet.waits) > c.most {
			t.Errorf("%d workers: %d bins", c.workers, total)
		}
		b.Begin(begins(2, 1))
		points := 0
		for _, l := range b.lanes {
			points += len(l.client[0].t)
		}
		if points > max(mostKeptOfAll, fewestKept*min(c.workers, mostTracked)) {
			t.Errorf("%d workers: %d points are kept", c.workers, points)
		}
	}
}

func TestALongStretchTakesNoMoreWorkThanAShortOne(t *testing.T) {
	touched := func(v []float64) (n int) {
		for _, x := range v {
			if x != 0 {
				n++
			}
		}
		return n
	}
	for _, long := range []int64{farApart + 1, farApart + 2, 1000, 8000} {
		var v bins
		v.spread(second, 0, long*second, 2/float64(second))
		if touched(v.amounts)+touched(v.rises) > farApart+4 {
			t.Errorf("%d s: %d and %d places", long, touched(v.amounts), touched(v.rises))
		}
	}
}

func TestAStretchIsTheSameByTheSecondHoweverLongItIs(t *testing.T) {
	for _, c := range []struct{ from, until float64 }{{0, 1}, {0.25, 0.5}, {3.5, 200.25}, {0, 128}, {0, 129}, {0, 130}, {1.5, 131}, {7, 4000}, {-5, 300.5}} {
		var v bins
		v.spread(second, int64(c.from*1e9), int64(c.until*1e9), 3/float64(second))
		v.spread(second, 0, second/2, 1/float64(second))
		v.settle()
		want := make(spec.Values, int(math.Ceil(c.until)))
		for k := range want {
			want[k] = 3 * max(0, min(c.until, float64(k+1))-max(c.from, float64(k)))
		}
		want[0] += 0.5
		same(t, fmt.Sprint(c), want, v.amounts)
		odd := append(slices.Clone(want), make(spec.Values, len(want)%2)...)
		for k := range len(odd) / 2 {
			odd[k] = (odd[2*k] + odd[2*k+1]) / 2
		}
		v.widen()
		var got spec.Values
		for k := range v.amounts {
			got = append(got, v.rate(k, 2*second))
		}
		same(t, fmt.Sprint("wider ", c), odd[:len(odd)/2], got)
	}
}

func TestALongEpisodeIsDrawnWhole(t *testing.T) {
	for _, long := range []int{50, 1500, 3000, 7200, 6 * 3600} {
		b := NewBuilder(aRun, nil, nil)
		e := begins(1, 0)
		e.LoadedS = float64(long)
		var requests []spec.Request
		for s := 0; s < long; s += 2 {
			requests = append(requests, answered("0", float64(s), float64(s)+0.5, float64(s+2), 30))
		}
		requests = append(requests, answered("0", 0, 1, float64(long), 0)) // one that takes all the time
		add(b, e, requests, nil)
		r := b.Report(&spec.Verdict{})
		n := len(r.Fleet.T)
		if len(r.Notes) != 0 || n < min(long, 1400) || r.Fleet.T[0] > 2 || r.Fleet.T[n-1] < float64(long)-4 {
			t.Fatalf("%d s: %d points, notes %q", long, n, r.Notes)
		}
		lane := laneOf(t, r, "0")
		for what, v := range map[string]spec.Values{"the fleet's rate": r.Fleet.Rate[:n-1], "the lane's": lane.Rate[:len(lane.Rate)-1]} {
			if low, high := slices.Min(v), slices.Max(v); low < 9.9 || high > 20.1 || high < 14.9 {
				t.Errorf("%d s: %s is %g to %g", long, what, low, high)
			}
		}
		if low, high := slices.Min(r.Fleet.InFlight[:n-1]), slices.Max(r.Fleet.InFlight[:n-1]); low < 1.999 || high > 2.001 {
			t.Errorf("%d s: %g to %g in flight", long, low, high)
		}
		if w := r.Fleet.TTFT50[0]; math.Abs(w-750) > 1 && math.Abs(w-500) > 1 {
			t.Errorf("%d s: waits %g ms", long, w)
		}
	}
}

func TestWhatAnEpisodeCannotHaveHadIsNotDrawn(t *testing.T) {
	const day = 86400
	for name, c := range map[string]struct {
		episode spec.Episode
		want    float64 // seconds
	}{
		"by its load and its timeout": {spec.Episode{LoadedS: 60, Point: spec.OperatingPoint{RequestTimeout: 300}}, 60 + 300 + 600},
		"by the time it was to take":  {spec.Episode{LoadedS: 3, Point: spec.OperatingPoint{RampS: 10, DurationS: 50, RequestTimeout: 300}}, 60 + 300 + 600},
		"no timeout":                  {spec.Episode{LoadedS: 60}, 60 + 3600 + 600},
		"a timeout that cannot be":    {spec.Episode{LoadedS: 60, Point: spec.OperatingPoint{RequestTimeout: -300}}, 60 + 600},
		"nobody says":                 {spec.Episode{}, day},
		"by count, and it has no end": {spec.Episode{Point: spec.OperatingPoint{Requests: 1000, DurationS: 50}}, day},
		"by count":                    {spec.Episode{LoadedS: 60, Point: spec.OperatingPoint{Requests: 1000, DurationS: 5000, RequestTimeout: 300}}, 60 + 300 + 600},
		"longer than a day":           {spec.Episode{LoadedS: 1e300}, day},
	} {
		b := NewBuilder(aRun, nil, nil)
		add(b, &c.episode, []spec.Request{answered("0", 0, 1, c.want-1, 3), answered("0", 0, 1, c.want, 3),
			{Sent: int64(c.want) * second, End: 5, First: 7, Class: "ok"}, {First: 1, Last: math.MaxInt64, End: 5, Tokens: 3, Class: "ok"}},
			[]spec.Sample{missing("0", c.want-2), missing("0", c.want)})
		r := b.Report(&spec.Verdict{})
		if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "4 lines not drawn") || r.Episodes[0].Until != c.want-1 || r.Lanes[0].Requests != 2 {
			t.Errorf("%s: until %g, notes %q", name, r.Episodes[0].Until, r.Notes)
		}
	}
}

func TestAnExporterThatInventsGPUsHasNotATrackForEach(t *testing.T) {
	var series []spec.Sample
	for i := range 5000 {
		series = append(series, power(fmt.Sprintf("GPU-%d", i), 1, 1))
	}
	b := NewBuilder(aRun, nil, nil)
	add(b, begins(1, 0), nil, series)
	r := b.Report(&spec.Verdict{})
	if len(b.gpus) != mostTracked || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "more than 4096 GPUs") || !slices.Contains(r.Facts, spec.Fact{Name: "GPUs", Value: "at least 4096 × H200"}) {
		t.Errorf("%d GPUs, notes %q, facts %v", len(b.gpus), r.Notes, r.Facts)
	}
}

func TestOfAnEpisodeThatIsOverFewPointsAreKept(t *testing.T) {
	const long = 3 * mostKeptPoints // seconds
	b := NewBuilder(aRun, nil, nil)
	b.Begin(begins(1, 0))
	for s := range long {
		at, made := float64(s), float64(s%7)
		if s == long/2 {
			made = 1000 // what sticks out
		}
		one, two := scraped("0", at, spec.WorkerSample{Running: &made, GPU: "GPU-a"}), power("GPU-a", at, made)
		q := answered("1", at, at+0.1, at+0.9, int(made))
		b.Sample(&one)
		b.Sample(&two)
		b.Request(&q)
	}
	b.Begin(begins(2, 3599))
	for what, s := range map[string]stretch{"scrapes": b.lanes["0"].scraped[0], "power": b.gpus["GPU-a"].power[0], "the client's": b.lanes["1"].client[0], "the fleet's": b.episodes[0].drawn} {
		// In so long an episode a bin of the client's is two seconds.
		if len(s.t) != mostKeptPoints || max(slices.Max(s.rows[len(s.rows)-1]), slices.Max(s.rows[0])) < 499 {
			t.Errorf("%s: %d points", what, len(s.t))
		}
	}
	if l := b.lanes["1"]; l.now.tokens.amounts != nil || b.episodes[0].fleet.tokens.amounts != nil || b.episodes[0].count.at != nil {
		t.Error("what was added up is still there")
	}
}

func TestATimeThatCannotBeIsNotDrawn(t *testing.T) {
	never := answered("0", 0, 1, 1e9, 5)
	early := answered("0", -3, -2, 1, 30)
	r := built(&spec.Verdict{}, []spec.Request{never, early}, []spec.Sample{scraped("0", 1e9, spec.WorkerSample{}), {T: -5, Source: spec.SourceWorker, Name: "0"}})
	if len(r.Fleet.T) != 1 || laneOf(t, r, "0").Requests != 2 || !slices.Contains(r.Notes, "3 lines not drawn: their episode cannot have had the times that they tell") {
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
