package checks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/observe"
	"aicr/internal/spec"
)

// plainEndpoint is one that asks nobody.
func plainEndpoint(t *testing.T, change func(o *EndpointOptions)) *Endpoint {
	t.Helper()
	o := EndpointOptions{Target: load.TargetOptions{URL: "http://sim.test", APIKey: "sk-confidential"}, Names: map[string]string{"17": "a"},
		Point: spec.OperatingPoint{Concurrency: 2, DurationS: 10, InputTokens: 48, OutputTokens: 8}}
	if change != nil {
		change(&o)
	}
	e, err := NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Why a value is not measured is said once, and holds from then on. What was said
// before the load began must not get lost with it.
func TestWhatWasSaidBeforeTheLoadStillHolds(t *testing.T) {
	e := plainEndpoint(t, nil)
	why := map[string]string{"waiting": "the worker has none"}
	second := int64(time.Second)
	got := e.series([]spec.Sample{
		{T: 3 * second, Source: spec.SourceWorker, Name: "17", Gap: "refused sk-confidential"},
		{T: 1 * second, Source: spec.SourceWorker, Name: "17", NotMeasured: why, Worker: &spec.WorkerSample{}},
		{T: 4 * second, Source: spec.SourceWorker, Name: "17", Worker: &spec.WorkerSample{}},
		{T: 5 * second, Source: spec.SourceWorker, Name: "17", Worker: &spec.WorkerSample{}},
		{T: 4 * second, Source: spec.SourceNode, Name: "17", Node: &spec.NodeSample{}},
		{T: 6 * second, Source: spec.SourceClient, Name: "client", Client: &spec.ClientSample{InFlight: 2, Sent: 12, Ended: 10, Tokens: 80}},
	}, 2*time.Second, spec.ClientSample{Sent: 4, Ended: 4, Tokens: 32})
	want := []spec.Sample{
		{T: 1 * second, Source: spec.SourceWorker, Name: "a", Gap: "refused ***"},
		{T: 2 * second, Source: spec.SourceWorker, Name: "a", NotMeasured: why, Worker: &spec.WorkerSample{}},
		{T: 2 * second, Source: spec.SourceNode, Name: "17", Node: &spec.NodeSample{}},
		{T: 3 * second, Source: spec.SourceWorker, Name: "a", Worker: &spec.WorkerSample{}},
		{T: 4 * second, Source: spec.SourceClient, Name: "client", Client: &spec.ClientSample{InFlight: 2, Sent: 8, Ended: 6, Tokens: 48}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// ran is a load of ten seconds that ended so.
func ran(records []load.Record, details ...string) *load.Result {
	second := int64(time.Second)
	start := 5 * second
	for i := range records {
		r := &records[i]
		r.Intended += start
		for _, at := range []*int64{&r.Sent, &r.FirstContent, &r.LastContent, &r.MaxGapAt, &r.End} {
			if *at != 0 {
				*at += start
			}
		}
	}
	return &load.Result{Epoch: time.Now(), Log: load.NewLog(records, nil, details),
		Main: load.Window{Start: start, End: start + 11*second, Full: start, Dry: start + 10*second}}
}

// A record is moved to the episode's clock as it is: what did not happen stays 0.
func TestARecordKeepsItsStamps(t *testing.T) {
	e := plainEndpoint(t, nil)
	second := int64(time.Second)
	res := ran([]load.Record{
		{Phase: load.Warmup, Sent: second, End: 2 * second, Chunks: 8},
		{Seq: 1, Phase: load.Steady, Sent: second, FirstContent: 2 * second, LastContent: 4 * second, MaxGap: second, MaxGapAt: 3 * second, End: 5 * second,
			Flags: load.HasUsage | load.HasWorker | load.HasCached, PromptTokens: 50, CompletionTokens: 8, CachedTokens: 16, Chunks: 7, TextBytes: 31, Worker: 17, Status: 200, Finish: load.FinishLength},
		{Seq: 2, Phase: load.Drain, Lane: load.Sentinel, Intended: 9 * second, Sent: 9 * second, End: 12 * second, Class: load.Interrupt, Detail: 1, Chunks: 0},
		{Seq: 3, Phase: load.Steady, Intended: 3 * second, End: 4 * second, Class: load.Connect, Detail: 2},
		{Seq: 4, Phase: load.Steady, Intended: 3 * second, End: 4 * second, Class: load.Connect, Flags: load.Exhausted},
	}, "stopped", "refused sk-confidential")
	got, waved := e.requests(res, res.Main.Start-1)
	cached, events, text := 16, 7, 31
	want := []spec.Request{
		{Seq: 1, Lane: "closed", Phase: "steady", Intended: 1, Sent: second + 1, First: 2*second + 1, Last: 4*second + 1, End: 5*second + 1, Gap: second, GapEnd: 3*second + 1,
			Prompt: 50, Cached: &cached, Tokens: 8, Events: &events, TextBytes: &text, Worker: "a", Class: "ok", Status: 200, Finish: "length"},
		{Seq: 3, Lane: "closed", Phase: "steady", Intended: 3*second + 1, Sent: 3*second + 1, End: 4*second + 1, Class: "connect", Detail: "refused ***"},
		{Seq: 4, Lane: "closed", Phase: "steady", Intended: 3*second + 1, Sent: 3*second + 1, End: 4*second + 1, Class: "exhausted"},
		{Seq: 2, Lane: "sentinel", Phase: "drain", Intended: 9*second + 1, Sent: 9*second + 1, End: 12*second + 1, Class: "interrupted", Detail: "stopped"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.ClientSample{Sent: 1, Ended: 1, Tokens: 8}, waved); diff != "" {
		t.Error(diff)
	}
}

// The observers' clock is started before the engine's, and the load begins after
// that: a sample and a request of the same moment have the same stamp.
func TestSamplesAreMovedToTheRequestsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := plainEndpoint(t, nil)
		second := int64(time.Second)
		watch := observe.StartClock()
		time.Sleep(3 * time.Second)
		res := ran([]load.Record{{Phase: load.Steady, Sent: 1, FirstContent: second, LastContent: 2 * second, End: 7 * second, Chunks: 2}}) // it begins at 5 s
		r := e.record(1, e.o.Point, res, watch, []spec.Sample{
			{T: 7 * second, Source: spec.SourceNode, Name: "n", Node: &spec.NodeSample{}},
			{T: 15 * second, Source: spec.SourceNode, Name: "n", Node: &spec.NodeSample{}}})
		if len(r.Series) != 1 || r.Series[0].T-r.Requests[0].End != 1 { // the epoch itself is stamp 1 of the engine
			t.Errorf("the sample is at %+v, the request's end at %d", r.Series, r.Requests[0].End)
		}
		if want := time.Now().Add(5*time.Second - 2).UTC().Format(time.RFC3339Nano); r.Episode.Start != want {
			t.Errorf("it began at %s, want %s", r.Episode.Start, want)
		}
	})
}

// What the engine finds out about itself makes an episode invalid, and so does what
// its surroundings say. Users who rest after a refused connection do not.
func TestTheClientsAudit(t *testing.T) {
	second := int64(time.Second)
	held := []load.Record{
		{Phase: load.Steady, Sent: 1, FirstContent: second, LastContent: 2 * second, End: 10 * second, Chunks: 2},
		{Seq: 1, Phase: load.Steady, Sent: 1, FirstContent: second, LastContent: 2 * second, End: 10 * second, Chunks: 2},
	}
	starved := []load.Record{{Phase: load.Steady, Sent: 1, FirstContent: second, LastContent: 2 * second, End: 10 * second, Chunks: 2}}
	refused := append([]load.Record{{Seq: 1, Phase: load.Steady, Intended: second, End: 2 * second, Class: load.Connect}}, starved...)
	exhausted := append([]load.Record{{Seq: 1, Phase: load.Steady, Intended: second, End: 2 * second, Class: load.Connect, Flags: load.Exhausted}}, starved...)
	late := load.Audit{Reasons: []load.Reason{{ID: "client/late", Text: "stamps were late"}}, StampLag: load.Spread{N: 1, P99: 60 * time.Millisecond}}
	machine := func() []spec.BenchReason { return []spec.BenchReason{{ID: "client/late", Text: "the machine"}} }
	for _, c := range []struct {
		name    string
		records []load.Record
		audit   load.Audit
		more    func() []spec.BenchReason
		want    []string
	}{
		{"all is held", held, load.Audit{}, nil, nil},
		{"half is held", starved, load.Audit{}, nil, []string{"client/under-driven"}},
		{"users who were refused rest", refused, load.Audit{}, nil, nil},
		{"a client without ports was not refused", exhausted, load.Audit{}, nil, []string{"client/under-driven"}},
		{"the engine's stamps were late", held, late, nil, []string{"client/late"}},
		{"the machine was late", held, load.Audit{}, machine, []string{"client/late"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := plainEndpoint(t, func(o *EndpointOptions) { o.Audit = c.more })
			res := ran(append([]load.Record{}, c.records...))
			res.Audit = c.audit
			r := e.record(1, e.o.Point, res, observe.StartClock(), nil)
			var got []string
			for _, reason := range r.Episode.Client.Reasons {
				got = append(got, reason.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || r.Episode.Client.Valid != (len(c.want) == 0) {
				t.Errorf("valid %v, %s", r.Episode.Client.Valid, diff)
			}
		})
	}
}
