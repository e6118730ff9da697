package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// benchOf is a document of a healthy run, changed.
func benchOf(change func(*spec.Bench)) *spec.Bench {
	n := func(v float64) *float64 { return &v }
	figure := func(name string, count int64, v float64) spec.BenchFigure {
		return spec.BenchFigure{Name: name, Unit: "ms", N: count, Mean: n(v), P50: n(0.9 * v), P90: n(1.5 * v), P95: n(1.7 * v), P99: n(2 * v), Min: n(v / 2), Max: n(3 * v)}
	}
	zero := int64(0)
	d := &spec.Bench{
		Schema: spec.BenchSchema, Verdict: spec.Pass, Reason: "all 2048 requests served", Version: "v1.2.3", Command: "aicr bench",
		Start: "2026-11-15T06:00:00Z", End: "2026-11-15T06:01:02.34Z",
		Target: spec.BenchTarget{URL: "http://llm.example:8000", Model: "Qwen/Qwen3-8B", Wire: "HTTP/1.1, one event loop", Nagle: "off"},
		Workload: spec.BenchWorkload{Prompts: "unique", Seed: 42, SHA256: strings.Repeat("0123456789abcdef", 4), Tokens: "usage",
			Input: spec.BenchCount{Asked: n(128), Observed: n(128), Min: n(128), Max: n(128)}, Output: spec.BenchCount{Asked: n(128), Observed: n(127.4), Min: n(90), Max: n(128)}},
		Schedule: spec.BenchSchedule{Concurrency: 256, Count: 2048},
		Requests: spec.BenchRequests{Sent: 2048, Served: 2048},
		Figures: []spec.BenchFigure{
			{Name: "output throughput", Unit: "tokens/sec", Mean: n(12345.6)}, {Name: "request throughput", Unit: "requests/sec", Mean: n(96.45)},
			figure("time to first token", 2048, 231.4), figure("inter-token latency", 2048, 18.23), figure("gap between chunks", 1_234_567, 18.23),
			figure("request latency", 2048, 2546.1), figure("latency from intended send", 2048, 2546.2),
		},
		Phases: []spec.BenchPhase{{Name: "warmup", Requests: 256}, {Name: "ramp", Requests: 255}, {Name: "steady", Requests: 1537}, {Name: "drain", Requests: 256}},
		Client: spec.BenchClient{Valid: true, InFlightAsked: 256, InFlight: n(255.9), Little: n(255.7), SteadyS: 50,
			SendLateness: spec.BenchSpread{N: 2048, P50: 0.012, P99: 0.31, Max: 1.2}, StampLag: spec.BenchSpread{N: 2048, P50: 0.01, P99: 0.22, Max: 3}, StampLagBy: "kernel receive time",
			EventsPerRead: n(1.04), GCPauses: 2, GCPauseMaxMS: 0.08, SchedLatencyP99MS: 0.05, CPUSeconds: 11.23, Cores: 8, ThrottledPeriods: &zero, ThrottledS: n(0), CPUPressure: n(0.03)},
		Files: []string{"artifacts/profile_export_aiperf.json", "artifacts/profile_export.jsonl", "artifacts/bench.json"},
	}
	if change != nil {
		change(d)
	}
	return d
}

// benchReports has one of each kind.
func benchReports() map[string]*spec.Report {
	n := func(v float64) *float64 { return &v }
	inf := map[string]any{"p50": 220.0, "p90": "inf", "p99": "inf"}
	throttled := int64(1234)
	all := map[string]*spec.Bench{
		"pass": benchOf(func(d *spec.Bench) {
			d.Workers = []spec.BenchWorker{
				{Worker: "7813343167778405249", Requests: 1024, Tokens: 130000, Share: 0.5, TTFT50MS: n(230), ITLMS: n(18.1), MaxGapMS: 91},
				{Worker: "4744361238402357391", Requests: 1024, Failed: 3, Tokens: 130000, Share: 0.5, MaxGapMS: 2091}}
			d.Sentinel = []spec.BenchFigure{{Name: "sentinel: first token from intended send", Unit: "ms", N: 60, Mean: n(240), P50: n(231), P90: n(280), P99: n(333), Max: n(340)}}
			d.Schedule.SentinelRate = 1
			d.Notes = []string{"the server leaves Nagle's algorithm on: clients that do not acknowledge at once see its first token some 40 ms late on a connection in use; this one does"}
		}),
		"fail": benchOf(func(d *spec.Bench) {
			d.Verdict, d.Reason = spec.Fail, "205 of 2048 requests failed"
			d.Requests = spec.BenchRequests{Sent: 2048, Served: 1843, Failed: 205, Failures: []spec.BenchFailure{
				{Class: "http-status", Status: 500, Count: 200, Message: `HTTP 500: {"error":{"message":"the worker that served this request has gone away, and there was no other one to take it over in time","type":"internal_server_error"}}`},
				{Class: "reset", Count: 5, Message: "read: connection reset by peer"}}}
			d.Figures[2].WithFailures = inf
		}),
		"all-failed": benchOf(func(d *spec.Bench) {
			d.Verdict, d.Reason = spec.Fail, "none of 20 requests was served"
			d.Requests = spec.BenchRequests{Sent: 20, Failed: 20, Failures: []spec.BenchFailure{{Class: "connect", Count: 20, Message: "connection refused"}}}
			d.Figures = []spec.BenchFigure{{Name: "time to first token", Unit: "ms", WithFailures: map[string]any{"p50": "inf", "p90": "inf", "p99": "inf"}}}
			d.Workload.Input.Observed, d.Workload.Output.Observed = nil, nil
		}),
		"invalid": benchOf(func(d *spec.Bench) {
			d.Verdict, d.Reason = spec.Invalid, "the client was the limit: the client's own stamps were late: p99 73.2ms by kernel receive time, where 23.1ms is allowed"
			d.Client.Valid, d.Client.InFlight, d.Client.ThrottledPeriods, d.Client.ThrottledS = false, n(201.3), &throttled, n(45.678)
			hint := "give the client more CPU (a request of its own, another node), or ask for less load"
			d.Client.Reasons = []spec.BenchReason{
				{ID: "client/late", Text: "the client's own stamps were late: p99 73.2ms by kernel receive time, where 23.1ms is allowed", Hint: hint},
				{ID: "client/under-driven", Text: "the client held 201.3 of 256 requests in flight", Hint: hint}}
		}),
		"inconclusive": benchOf(func(d *spec.Bench) {
			d.Verdict, d.Reason = spec.Inconclusive, "interrupted after 300 requests, 290 of them served"
			d.Schedule = spec.BenchSchedule{Rate: 12.5, Pattern: "poisson", Concurrency: 64, DurationS: 60}
			d.Client.InFlightAsked = 0
			d.Files = nil
		}),
		"chunks": benchOf(func(d *spec.Bench) {
			d.Workload.Tokens, d.Workload.Input.Observed = "chunks", nil
			d.Notes = []string{"the server did not count the tokens of 2048 answers: they are counted as chunks, and no token figure is exact"}
		}),
		"no-steady": benchOf(func(d *spec.Bench) {
			d.Client.InFlight, d.Client.Little, d.Client.ThrottledPeriods, d.Client.CPUPressure, d.Client.GCPauses = nil, nil, nil, nil, 0
		}),
		"definitions": benchOf(func(d *spec.Bench) {
			d.Rosetta = []spec.BenchRosetta{
				{Measure: "TTFT", Tool: "AIPerf", Name: "time_to_first_token", Definition: "sent to first event with text or reasoning", Unit: "ms", Mean: n(231.4), P50: n(208), P99: n(462.8)},
				{Measure: "TTFT", Tool: "SGLang bench_serving", Name: "ttft", Definition: "sent to first event with text or reasoning", Unit: "ms", Mean: n(231.4), P50: n(208), P99: n(462.8), Caveat: "SGLang opens a connection for each request and counts that time too"},
				{Measure: "TPOT", Tool: "AIPerf", Definition: "AIPerf calls it inter_token_latency", Unit: "ms"},
				{Measure: "output throughput", Tool: "vLLM bench serve", Name: "output_throughput", Definition: "output tokens per second of that", Unit: "tokens/sec", Mean: n(12345.6)}}
		}),
		"128-workers": benchOf(func(d *spec.Bench) {
			for i := range 128 {
				d.Workers = append(d.Workers, spec.BenchWorker{Worker: fmt.Sprintf("w-%d", i), Requests: 8, Tokens: int64(1000 - i), Share: 1. / 128, TTFT50MS: n(50), MaxGapMS: 12.5})
			}
		}),
		"empty": {Verdict: spec.Inconclusive, Workers: []spec.BenchWorker{{Worker: "0"}}},
	}
	evil := "\x1b[31mred\x1b[0m\x1b]0;title\x07\u202egnol\x00\xff <script> " + strings.Repeat("节点", 60)
	all["hostile"] = &spec.Bench{Verdict: spec.Fail, Reason: evil, Target: spec.BenchTarget{URL: "http://" + strings.Repeat("h", 300), Model: evil, Wire: evil},
		Workload: spec.BenchWorkload{Prompts: evil, SHA256: "节节节节节节节", Input: spec.BenchCount{Asked: n(math.Inf(1))}, Output: spec.BenchCount{Observed: n(math.NaN())}},
		Schedule: spec.BenchSchedule{Rate: 1e300, Pattern: evil, Concurrency: 1, SentinelRate: 1e-9},
		Requests: spec.BenchRequests{Failed: 1, Failures: []spec.BenchFailure{{Class: evil, Message: evil, Count: 1e12}, {Class: "http-status", Message: "{\n    \"error\":\t\"x\"\n}", Count: 1}}},
		Figures: []spec.BenchFigure{{Name: evil, Unit: evil, Mean: n(-999999999999999)},
			{Name: evil, N: 1, Mean: n(math.NaN()), P50: n(math.Inf(1)), P90: n(1e300), Max: n(-9e11), WithFailures: map[string]any{"p50": math.NaN(), "p90": evil, "p99": true}}},
		Phases:  []spec.BenchPhase{{Name: evil, Requests: -1}},
		Workers: []spec.BenchWorker{{Worker: evil, Share: math.NaN()}, {Worker: "5", Share: 1e300, MaxGapMS: math.Inf(1)}, {Worker: "6", Share: -1}},
		Rosetta: []spec.BenchRosetta{{Measure: evil, Tool: evil, Name: evil, Definition: evil, Caveat: evil, Unit: "ms", Mean: n(1e15), P50: n(1e300), P99: n(-1e300)}, {Unit: evil}},
		Client:  spec.BenchClient{InFlightAsked: 1, InFlight: n(1e300), StampLag: spec.BenchSpread{N: 1}, StampLagBy: evil, Reasons: []spec.BenchReason{{ID: evil, Text: evil, Hint: evil}}},
		Notes:   []string{strings.Repeat("A log line. ", 900000), evil}, Files: []string{strings.Repeat("folder/", 40), evil},
	}
	reports := map[string]*spec.Report{}
	for name, d := range all {
		reports["bench-"+name] = &spec.Report{Bench: d, Verdict: &spec.Verdict{Verdict: d.Verdict, Reason: d.Reason}}
	}
	reports["bench-128-workers"].Notes = []string{"a note of who made the report"}
	return reports
}

func TestTheColourOfABenchIsOfItsState(t *testing.T) {
	p := layout.Palette{On: true}
	for name, want := range map[string][]string{
		"bench-pass":         {p.Green("PASS") + "  all", "client    " + p.Green("✓") + " not the limit", p.Bold("12,346") + " tokens/sec"},
		"bench-fail":         {p.Red("FAIL") + "  205", p.Red("failed") + " 205 of 2048"},
		"bench-invalid":      {p.Red("INVALID") + "  the client", "client    " + p.Red("✗") + " the limit", p.Red("✗") + " the client held"},
		"bench-inconclusive": {p.Yellow("INCONCLUSIVE") + "  interrupted"},
		"bench-definitions":  {p.Bold("output throughput, tokens/sec"), p.Dim("AIPerf calls it inter_token_latency")},
	} {
		got := textOf(t, benchReports()[name], p)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", name, w, got)
			}
		}
	}
}

// TestWhatABenchDidNotMeasureIsNotZero keeps apart what was not measured and nothing.
func TestWhatABenchDidNotMeasureIsNotZero(t *testing.T) {
	got := textOf(t, &spec.Report{Verdict: &spec.Verdict{Verdict: spec.Inconclusive}, Bench: &spec.Bench{}}, layout.Palette{})
	for _, want := range []string{"lateness of sends not measured", "lateness of stamps not measured", "throttling not measured", "CPU pressure not measured", "input, none observed"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestPartsFillLines(t *testing.T) {
	part := func(n int) string { return strings.Repeat("x", n) }
	for name, tt := range map[string]struct {
		parts []string
		want  []string
	}{
		"nothing":                             {[]string{"", ""}, nil},
		"one, and nothing":                    {[]string{"", "a", ""}, []string{"  name a"}},
		"as many as fit":                      {[]string{part(45), part(45)}, []string{"  name " + part(45) + " · " + part(45)}},
		"one column too many":                 {[]string{part(45), part(46)}, []string{"  name " + part(45) + " ·", "       " + part(46)}},
		"there must be room to say that more": {[]string{part(45), part(44), "a"}, []string{"  name " + part(45) + " ·", "       " + part(44) + " · a"}},
		"what cannot be seen takes a column":  {[]string{part(45), part(1) + strings.Repeat(" \x1b[1m", 10)}, []string{"  name " + part(45) + " ·", "       " + part(1) + strings.Repeat(" □[1m", 10)}},
		"one that is too long is broken":      {[]string{part(100), "a"}, []string{"  name " + part(93), "       " + part(7) + " ·", "       a"}},
	} {
		page := &textPage{}
		page.parts(2, "name ", tt.parts...)
		if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n")); tt.want != nil && diff != "" || tt.want == nil && page.Len() > 0 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The judged throughput is of batches, and counts them: it is a rate as any other, and no
// latency.
func TestAThroughputOfBatchesIsARate(t *testing.T) {
	r := toldBench()
	rate, gross := 287.6, 288.1
	r.Bench.Figures = append([]spec.BenchFigure{{Name: "throughput", Unit: "tokens/sec", N: 8, Mean: &rate}, {Name: "gross-throughput", Unit: "tokens/sec", Mean: &gross}}, r.Bench.Figures...)
	var b bytes.Buffer
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "\n  throughput           288 tokens/sec\n  gross-throughput     288 tokens/sec\n") || strings.Contains(text, "288ms") {
		t.Errorf("no rate, or a latency:\n%s", text)
	}
}

// A server that names each of its answers another worker fills no page.
func TestABenchShowsSoManyWorkers(t *testing.T) {
	for n, want := range map[int]string{shownBenchWorkers: "", shownBenchWorkers + 1000: "and 1000 more: the json format has them all"} {
		d := benchOf(func(d *spec.Bench) {
			for i := range n {
				d.Workers = append(d.Workers, spec.BenchWorker{Worker: fmt.Sprint("w", i), Requests: 1})
			}
		})
		var page strings.Builder
		if err := Text(&page, &spec.Report{Verdict: &spec.Verdict{Verdict: d.Verdict, Reason: d.Reason}, Bench: d}); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(page.String(), "\n  w"); lines < shownBenchWorkers || lines > shownBenchWorkers+2 {
			t.Errorf("%d workers: %d lines", n, lines)
		}
		if got := strings.Contains(page.String(), "more: the json format"); got != (want != "") || !strings.Contains(page.String(), want) {
			t.Errorf("%d workers: %v that there are more", n, got)
		}
	}
}
