package judge

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

const sec = int64(1e9)

// An episode of three workers' requests, small enough to count by hand.
func record() *Record {
	ok := func(seq int64, worker string, sent, first, end, gap int64) spec.Request {
		return spec.Request{Seq: seq, Lane: "closed", Phase: "steady", Intended: sent, Sent: sent, First: first, Last: end, End: end,
			Gap: gap, GapEnd: end, Prompt: 10, Cached: new(4), Tokens: 5, Worker: worker, Class: "ok", Status: 200, Finish: "length"}
	}
	late := ok(1, "10", 1*sec, 2*sec, 4*sec, sec)
	late.Intended = 0
	return &Record{Number: 3, Start: "2026-01-01T00:00:00Z", LagBy: "the model",
		Point: spec.OperatingPoint{Workers: 3, Concurrency: 2, DurationS: 5},
		Lags:  []float64{1, 1, 1},
		Requests: []spec.Request{
			ok(0, "2", 0, sec, 3*sec, sec/2), late,
			{Seq: 2, Lane: "closed", Sent: 3 * sec, Intended: 3 * sec, End: 4 * sec, Class: "http-status", Status: 500, Worker: "2"},
			ok(3, "2", 4*sec, 5*sec, 6*sec, sec/4),
			{Seq: 4, Lane: "closed", Sent: 5 * sec, Intended: 5 * sec, End: 9 * sec, Class: "interrupted"},
			{Seq: 0, Lane: "sentinel", Sent: 2 * sec, Intended: sec, First: 3 * sec, Last: 4 * sec, End: 4 * sec, Tokens: 5, Class: "ok"},
			{Seq: 1, Lane: "sentinel", Sent: 2 * sec, Intended: 2 * sec, End: 3 * sec, Class: "reset"},
		},
		Series: []spec.Sample{{Source: "worker", Name: "2"}, {Source: "worker", Name: "10", Gap: "not delivered"}, {Source: "node"}},
	}
}

func figureOf(t *testing.T, e *spec.Episode, name string) spec.BenchFigure {
	t.Helper()
	for _, f := range e.Figures {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no %s", name)
	return spec.BenchFigure{}
}

func TestSummaryCountsTheClosedLoop(t *testing.T) {
	e := Summarize(record())
	want := spec.RequestCounts{Sent: 5, Served: 3, Failed: 1, Interrupted: 1, Classes: map[string]int{"ok": 3, "http-status": 1, "interrupted": 1}}
	if diff := cmp.Diff(want, e.Requests); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.RequestCounts{Sent: 2, Served: 1, Failed: 1, Classes: map[string]int{"ok": 1, "reset": 1}}, e.Sentinel); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.TokenCounts{Prompt: 30, Completion: 15, Cached: new(int64(12))}, e.Tokens); diff != "" {
		t.Error(diff)
	}
	// From the first send to the last answer that was served, the sentinel's tokens included.
	if got := *figureOf(t, e, OutputThroughput).Mean; got != (15.0+5)/6 {
		t.Errorf("throughput %v", got)
	}
	if e.LoadedS != 5 || e.Number != 3 || e.Schema != spec.EpisodeSchema {
		t.Errorf("%+v", e)
	}
	ttft := figureOf(t, e, FirstToken)
	if *ttft.P50 != 1000 || ttft.N != 3 || ttft.WithFailures["p99"] != "inf" {
		t.Errorf("ttft %+v", ttft)
	}
	if got := *figureOf(t, e, SentinelWait).P50; got != 2000 {
		t.Errorf("the sentinel's wait is %v ms from its send, not from when it was meant", got)
	}
	if got := *figureOf(t, e, LongestGap).Max; got != 1000 {
		t.Errorf("longest gap %v", got)
	}
}

func TestSummaryTellsTheWorkersApart(t *testing.T) {
	got := Summarize(record()).Workers
	want := []spec.BenchWorker{
		{Worker: "2", Requests: 3, Failed: 1, Tokens: 10, Share: 2.0 / 3, TTFT50MS: new(1000.0), ITLMS: new(375.0), MaxGapMS: 500},
		{Worker: "10", Requests: 1, Tokens: 5, Share: 1.0 / 3, TTFT50MS: new(1000.0), ITLMS: new(500.0), MaxGapMS: 1000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryAuditsTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Record)
		want   []string
	}{
		"held what it should": {func(r *Record) {}, nil},
		"held too few":        {func(r *Record) { r.Point.Concurrency = 3 }, []string{"client/under-driven"}},
		"held too many":       {func(r *Record) { r.Point.Concurrency = 1 }, []string{"client/under-driven"}},
		"sentinels piled up on a fleet that hangs": {func(r *Record) {
			for i := range r.Requests {
				r.Requests[i].End = 60 * sec
			}
			for i := range int64(3) {
				r.Requests = append(r.Requests, spec.Request{Seq: i, Lane: spec.LaneSentinel, Sent: i * sec, End: 60 * sec, Class: spec.ClassInterrupted})
			}
			r.Requests = append(r.Requests[:2], r.Requests[10:]...)
		}, nil},
		"was late":             {func(r *Record) { r.Lags = []float64{51, 51} }, []string{"client/late"}},
		"recorded nothing":     {func(r *Record) { r.Requests = nil }, []string{"client/under-driven"}},
		"was never to be held": {func(r *Record) { r.Point.Concurrency = 0 }, []string{"client/under-driven"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := record()
			// Two in flight all the time: the failed one is followed by another at once.
			r.Requests = r.Requests[:0]
			for i := range int64(5) {
				for user := range int64(2) {
					r.Requests = append(r.Requests, spec.Request{Seq: 2*i + user, Lane: "closed", Intended: i * sec, Sent: i * sec,
						First: i*sec + 1, Last: (i + 1) * sec, End: (i + 1) * sec, Tokens: 2, Class: "ok"})
				}
			}
			c.change(r)
			got := Summarize(r).Client
			var ids []string
			for _, why := range got.Reasons {
				ids = append(ids, why.ID)
			}
			if diff := cmp.Diff(c.want, ids); diff != "" || got.Valid != (len(c.want) == 0) {
				t.Errorf("valid %v, %v\n%s", got.Valid, got.Reasons, diff)
			}
		})
	}
}

func TestSummaryCountsSamplesThatAreMissing(t *testing.T) {
	want := []spec.SampleCount{{Source: "node", Expected: 1}, {Source: "worker", Expected: 2, Missing: 1}}
	if diff := cmp.Diff(want, Summarize(record()).Samples); diff != "" {
		t.Error(diff)
	}
}

// A fleet that stops answering does not look as good as it was before: its time is
// counted, who got no answer is infinitely slow, and the wait in which a stream was
// given up is its longest.
func TestSummaryOfAFleetThatStopsAnswering(t *testing.T) {
	r := &Record{Point: spec.OperatingPoint{Workers: 1, Concurrency: 1, DurationS: 50}, Requests: []spec.Request{
		{Lane: "closed", First: 1, Last: sec, End: sec, Tokens: 100, Class: "ok", Worker: "0"},
		{Lane: "closed", Seq: 1, Intended: sec, Sent: sec, First: 2 * sec, Last: 3 * sec, End: 80 * sec, Gap: 1, Tokens: 9, Class: "interrupted", Worker: "0"},
	}}
	e := Summarize(r)
	if got := *figureOf(t, e, OutputThroughput).Mean; got != 2 {
		t.Errorf("%v tokens/s, want 100 in 50 s", got)
	}
	if got := figureOf(t, e, FirstToken).WithFailures["p99"]; got != "inf" {
		t.Errorf("ttft p99 with failures %v", got)
	}
	if got := *figureOf(t, e, LongestGap).Max; got != 77_000 || e.Workers[0].MaxGapMS != 77_000 {
		t.Errorf("longest gap %v ms, the worker's %v", got, e.Workers[0].MaxGapMS)
	}
	if e.LoadedS != 50 {
		t.Errorf("%v s under load", e.LoadedS)
	}
	if !e.Client.Valid {
		t.Errorf("the client is blamed: %v", e.Client.Reasons)
	}
}

// Nothing at all is summed up as nothing, never as a figure.
func TestSummaryOfNothingHasNoFigure(t *testing.T) {
	e := Summarize(&Record{})
	for _, f := range e.Figures {
		if f.Mean != nil || f.P50 != nil || f.N != 0 {
			t.Errorf("%s has a value: %+v", f.Name, f)
		}
	}
	if e.Client.Valid {
		t.Error("a client that sent nothing is valid")
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
}

// A served request without a token is not one.
func TestSummaryDoesNotCountAnEmptyAnswerAsServed(t *testing.T) {
	r := record()
	r.Requests[0].Tokens, r.Requests[0].First = 0, 0
	if got := Summarize(r).Requests; got.Served != 2 || got.Failed != 2 {
		t.Errorf("%+v", got)
	}
}
