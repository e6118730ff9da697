package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// The page's own assets would make a golden file unreadable: they have a file each.
var ownAssets = regexp.MustCompile(`(?s)(<style>).*?(</style>\n<noscript>)|(</script>\n<script>).*?(</script>\n</body>)|(sha256-).*?(&#39;)`)

func readable(page []byte) []byte {
	return ownAssets.ReplaceAll(page, []byte("$1$3$5(an asset)$2$4$6"))
}

func htmlOf(t testing.TB, r *spec.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// htmlPages are the kinds of page.
func htmlPages() map[string]func() *spec.Report {
	return map[string]func() *spec.Report{
		"pass":         htmlPass,
		"fail":         htmlFail,
		"skip":         htmlSkip,
		"killed":       htmlKilled,
		"no-telemetry": htmlNoTelemetry,
		"bench":        htmlBench,
		"comparison":   htmlTwo,
	}
}

func TestEveryKindOfPageIsAsItWas(t *testing.T) {
	for name, report := range htmlPages() {
		t.Run(name, func(t *testing.T) {
			golden(t, "html/"+name+".html", readable([]byte(htmlOf(t, report()))))
		})
	}
}

func TestTheSameReportIsTheSamePage(t *testing.T) {
	for name, report := range htmlPages() {
		first := htmlOf(t, report())
		for range 5 {
			if htmlOf(t, report()) != first {
				t.Fatalf("%s: the same report made two pages", name)
			}
		}
	}
}

func htmlPass() *spec.Report {
	return &spec.Report{
		Run:  spec.Run{ID: "monday", Version: "v1.0.0", Command: "aicr validate --url http://frontend:8000 --run monday", Target: spec.Target{URL: "http://frontend:8000", Model: "Qwen/Qwen3-8B"}, Start: "2026-06-01T03:00:00Z", End: "2026-06-01T03:04:38Z"},
		Kept: "monday", Judge: "aicr judge monday", Page: "aicr report monday --report html=report.html",
		Plan: &spec.Plan{Profile: "standard", Stability: spec.StabilityGate, Seed: 1,
			Point:       spec.OperatingPoint{Workers: 2, Concurrency: 256, RampS: 2, DurationS: 50, InputTokens: 128, OutputTokens: 128, Prompts: "unique", Router: "least-loaded"},
			Reference:   &spec.ReferenceFigure{Throughput: 18000, N: 5, From: "recipes/h100.yaml"},
			Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 16000, Unit: "tokens/s", Tolerance: 0.1, From: "recipes/h100.yaml"}},
			Cost:        spec.Cost{ExpectedEpisodes: 5, WorstEpisodes: 13},
			Inputs:      map[string]spec.Input{"workers": {Value: "2", From: "flag"}, "profile": {Value: "standard", From: "default"}, "recipe": {Value: "h100.yaml", From: "env", Place: "AICR_RECIPE"}}},
		Verdict: &spec.Verdict{Verdict: spec.Pass, Reason: "throughput is 0.99 of the reference, 0 stalls in 1.7 min of load", Profile: "standard", Episodes: 2, LoadedS: 100,
			Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: "2 of 2 workers served"}, {Name: spec.Capability, State: spec.Pass, Reason: "throughput 0.99 of the reference"}, {Name: spec.Stability, State: spec.Pass, Reason: "0 stalls"}},
			Expectations: []spec.Expected{
				{Name: "throughput-of-reference", Want: ">= 0.92 of 18,000 tokens/s", Effective: "> 0.80, by a sequential test", Value: new(0.99), Low: new(0.97), High: new(1.01), N: 2, Unit: "ratio", State: spec.Pass},
				{Name: "ttft-p99-guardrail", Want: "<= 2,000", Effective: "<= 2,000 in more than half of the episodes", Value: new(74.1), Low: new(66.5), High: new(80.4), N: 26256, Unit: "ms", State: spec.Pass},
				{Name: "failed-requests", Want: "<= 0.01", Effective: "<= 0.01", Value: new(0.0), Low: new(0.0), High: new(2e-5), N: 52000, Unit: "of requests", State: spec.Pass}},
			Tests:   []spec.Walk{{Ledger: spec.Capability, Low: -4.6, High: 4.6, Values: []float64{-8.87, -15.38}}, {Ledger: spec.Stability, Low: -2.94, High: 2.94, Values: []float64{-0.6, -1.19}}},
			Figures: []spec.Figure{{Name: "throughput", Value: new(17800.0), Low: new(17500.0), High: new(18100.0), N: 2, Unit: "tokens/s", By: "t interval over episodes, 95 %"}, {Name: "goodput", N: 0, Unit: "of requests"}},
			Parts:   []spec.Part{{Episode: 1, Cut: 5, Counted: true}, {Episode: 2, Cut: 0, Counted: true}}},
		Trend:    &spec.Trend{Runs: 3, Lines: []string{"3 runs before this one, nothing has changed"}},
		Episodes: []spec.ReportEpisode{htmlEpisode(0, 0.1, 20, false), htmlEpisode(1, 22, 50, true), htmlEpisode(2, 74, 50, true)},
		Marks:    []spec.Mark{{At: 0, Kind: spec.EventStage, Text: "half the load"}},
		Lanes: []spec.Lane{
			{Worker: "0", GPU: "GPU-0", By: "telemetry", Findings: []string{}, Requests: 13000, Tokens: 1664000, Share: 1.01, Known: true, T: spec.Values{22, 23, 24}, Running: spec.Values{0, 128, 128}, Waiting: spec.Values{0, 0, 0}, Rate: spec.Values{0, 8900, 8950}, PowerT: spec.Values{22, 24}, Power: spec.Values{100, 600}},
			{Worker: "1", GPU: "GPU-1", By: "telemetry", Findings: []string{}, Requests: 12900, Tokens: 1651200, Share: 0.99, Known: true, T: spec.Values{22, 23, 24}, Running: spec.Values{0, 128, 127}, Waiting: spec.Values{0, 0, 1}, Rate: spec.Values{0, 8800, 8850}, PowerT: spec.Values{22, 24}, Power: spec.Values{100, 590}}},
		Fleet:         spec.FleetTrack{T: spec.Values{22, 23, 24, 74, 75}, Rate: spec.Values{0, 17700, 17800, 0, 17900}, TTFT50: spec.Values{30, 31, 32, 30, 31}, TTFT99: spec.Values{70, 71, 74, 70, 71}, InFlight: spec.Values{0, 256, 256, 0, 256}, Failed: spec.Values{0, 0, 0, 0, 0}},
		Distributions: []spec.Distribution{{Name: "TTFT", Of: "requests", Unit: "ms", N: 3, Edges: spec.Values{10, 20, 40}, Counts: []int64{1, 2}, P50: 31, P90: 70, P99: 74, Max: 74}},
		Facts:         []spec.Fact{{Name: "runtime", Value: "1.4.1"}, {Name: "GPUs", Value: "2 of H100"}},
	}
}

func htmlEpisode(number int, at, lasts float64, counted bool) spec.ReportEpisode {
	e := spec.ReportEpisode{At: at, Until: at + lasts, Counted: counted, Throughput: new(17750.0), Episode: spec.Episode{Number: number, LoadedS: lasts,
		Point:    spec.OperatingPoint{Workers: 2, Concurrency: 256, RampS: 2, DurationS: lasts},
		Requests: spec.RequestCounts{Sent: 26000, Served: 26000}, Sentinel: spec.RequestCounts{Sent: 500, Served: 500}, Tokens: spec.TokenCounts{Completion: 3328000},
		Figures: []spec.BenchFigure{{Name: "output throughput", Mean: new(17750.0)}, {Name: "time to first token", P50: new(31.0), P99: new(74.0)}},
		Client:  spec.BenchClient{Valid: true, InFlightAsked: 256, InFlight: new(255.9), Little: new(255.1), SendLateness: spec.BenchSpread{N: 26000, P99: 0.08, Max: 0.2}, StampLagBy: "the kernel", CPUSeconds: 12, Cores: 8},
		Samples: []spec.SampleCount{{Source: spec.SourceWorker, Expected: 100}, {Source: spec.SourceGPU, Expected: 100, Missing: 1}}}}
	if counted {
		e.Cut = new(at + 5)
	}
	return e
}

func htmlFail() *spec.Report {
	r := htmlPass()
	r.Run.ID = "tuesday"
	v := r.Verdict
	v.Verdict, v.Reason = spec.Fail, "worker 1 stalled 3 times in 1.7 min of load, for up to 8 s"
	v.Ledgers[2] = spec.Ledger{Name: spec.Stability, State: spec.Fail, Reason: v.Reason}
	v.Expectations[1].State, v.Expectations[1].Value, v.Expectations[1].Low, v.Expectations[1].High = spec.Fail, new(5200.0), new(4100.0), new(6000.0)
	v.Tests[1].Values = []float64{2.5, 12}
	v.Findings = []spec.Finding{
		{ID: "load/past-knee", Severity: spec.SeverityNote, Confidence: spec.ConfidenceLow, Summary: "the load is past the knee", Evidence: []string{}, Advice: []string{"step the concurrency down: --concurrency-per-gpu"}},
		{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh, Workers: []string{"1"}, GPUs: []string{"GPU-1"}, Summary: v.Reason,
			Evidence: []string{"episode 1: worker 1 stood still from 20 s to 28 s"}, Advice: []string{"look at the engine's main thread while it stands: `py-spy dump --pid PID`", "least-loaded routing limits the damage"}}}
	v.Stalls = []spec.Stall{{Episode: 1, At: 20, Seconds: 8, Worker: "1", GPU: "GPU-1", By: []string{"telemetry", "client"}}, {Episode: 2, At: 45, Seconds: 5, Open: true, By: []string{"client"}}}
	r.Lanes[1].Findings = []string{"worker/stall"}
	r.Lanes[1].Stalls = []spec.Span{{From: 42, Until: 50}}
	r.Lanes[1].Silent = []spec.Span{{From: 51, Until: 52}}
	r.Notes = []string{"the last line of events.jsonl is cut"}
	return r
}

func htmlSkip() *spec.Report {
	return &spec.Report{Run: spec.Run{ID: "skipped", Target: spec.Target{Scenario: "no-free-gpus", Seed: 1, Simulated: true}, Start: "1970-01-01T00:00:00Z", End: "1970-01-01T00:00:00Z"},
		Plan: &spec.Plan{Profile: "standard"},
		Verdict: &spec.Verdict{Verdict: spec.Skip, Reason: "no free GPU: nothing was loaded", Profile: "standard",
			Ledgers:      []spec.Ledger{{Name: spec.Integrity, State: spec.NotJudged, Reason: "nothing was loaded"}},
			Expectations: []spec.Expected{{Name: "failed-requests", Want: "<= 0.01", Effective: "<= 0.01", Unit: "of requests", State: spec.NotJudged, Note: "not measured"}},
			Findings:     []spec.Finding{{ID: "cluster/no-free-gpus", Severity: spec.SeverityNote, Confidence: spec.ConfidenceHigh, Summary: "no free GPU", Advice: []string{"`kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`"}}}}}
}

func htmlKilled() *spec.Report {
	r := htmlPass()
	r.Run.ID, r.Run.End = "killed", ""
	r.Verdict.Verdict, r.Verdict.Reason, r.Verdict.Episodes = spec.Inconclusive, "capability takes 1 more episode", 1
	r.Episodes = r.Episodes[:2]
	return r
}

func htmlNoTelemetry() *spec.Report {
	r := htmlPass()
	r.Run.ID, r.Lanes = "quiet", nil
	for i := range r.Episodes {
		r.Episodes[i].Samples = nil
	}
	return r
}

func htmlBench() *spec.Report {
	return &spec.Report{
		Run: spec.Run{ID: "bench"},
		Verdict: &spec.Verdict{Verdict: spec.Invalid, Reason: "the client could not hold the load", Profile: "bench", Notes: []string{"the server does not name its workers"},
			Ledgers: []spec.Ledger{{Name: spec.Stability, State: spec.NotJudged, Reason: "a bench measures one load"}},
			Figures: []spec.Figure{{Name: "time to first token, p50", Value: new(31.0), N: 98, Unit: "ms"}}, Parts: []spec.Part{{Episode: 1}}},
		Episodes: []spec.ReportEpisode{{Until: 60, Episode: spec.Episode{Number: 1, LoadedS: 60, Requests: spec.RequestCounts{Sent: 100, Served: 98, Failed: 2}}}},
		Lanes:    []spec.Lane{{Worker: "w-0", By: "client", Known: true, Requests: 100, Tokens: 12800, Share: 1, T: spec.Values{1, 2}, Running: spec.Values{1, 2}}},
		Fleet:    spec.FleetTrack{T: spec.Values{1, 2}, Rate: spec.Values{100, 200}},
		Bench: &spec.Bench{Verdict: spec.Invalid, Version: "v1.0.0", Command: "aicr bench --url http://frontend:8000", Start: "2026-06-01T03:00:00Z", End: "2026-06-01T03:01:00Z",
			Target:   spec.BenchTarget{URL: "http://frontend:8000", Model: "Qwen/Qwen3-8B"},
			Requests: spec.BenchRequests{Sent: 100, Served: 98, Failed: 2, Failures: []spec.BenchFailure{{Class: "http", Status: 503, Message: "no worker", Count: 2}}},
			Figures:  []spec.BenchFigure{{Name: "time to first token", Unit: "ms", N: 98, Mean: new(40.0), P50: new(31.0), P90: new(60.0), P95: new(65.0), P99: new(74.0), Min: new(20.0), Max: new(80.0), WithFailures: map[string]any{"p50": 31.5, "p99": "inf"}}},
			Phases:   []spec.BenchPhase{{Name: "steady", Requests: 90}},
			Workers:  []spec.BenchWorker{{Worker: "w-0", Requests: 100, Tokens: 12800, Share: 1, TTFT50MS: new(31.0), MaxGapMS: 12}},
			Rosetta:  []spec.BenchRosetta{{Measure: "TTFT", Tool: "genai-perf", Name: "time_to_first_token", Definition: "from send to the first chunk", Unit: "ms", Mean: new(40.0), P50: new(31.0), P99: new(74.0), Caveat: "counts the role chunk"}},
			Client:   spec.BenchClient{Reasons: []spec.BenchReason{{ID: "under-driven", Text: "60 of 100 were in flight", Hint: "give it more cores"}}, InFlightAsked: 100, InFlight: new(60.0)},
			Notes:    []string{"the server does not name its workers"}},
	}
}

func htmlTwo() *spec.Report {
	r := htmlFail()
	r.Against = htmlPass()
	r.Against.Judge, r.Against.Page = "", ""
	r.Judge, r.Page = "aicr judge monday tuesday", "aicr report monday tuesday --report html=report.html"
	r.Comparison = &spec.Comparison{Says: spec.IsWorse, Reason: "worse in ttft p99", Together: 0.95, Each: 0.9875,
		Runs: []spec.Side{{Run: "monday", Verdict: spec.Pass, Episodes: 2, LoadedS: 100}, {Run: "tuesday", Verdict: spec.Fail, Episodes: 2, LoadedS: 100, Stalls: 2}},
		Figures: []spec.Compared{
			{Name: "throughput", Unit: "tokens/s", First: new(17800.0), Second: new(17750.0), Ratio: new(0.997), Low: new(0.95), High: new(1.04), Says: spec.CannotTell},
			{Name: "ttft p99", Unit: "ms", First: new(74.1), Second: new(5200.0), Ratio: new(70.2), Low: new(60.0), Says: spec.IsWorse},
			{Name: "stalls", Unit: "a loaded minute", First: new(0.0), Second: new(1.2), Says: spec.CannotTell}},
		Notes: []string{"the load was the same"}}
	return r
}

// element is a tag of a page: its name, and its attributes in order.
type element struct {
	Name  string
	Attrs [][2]string
	Text  string // behind it, up to the next tag
}

func (e element) get(name string) (string, bool) {
	for _, a := range e.Attrs {
		if a[0] == name {
			return a[1], true
		}
	}
	return "", false
}

// elements reads a page as a browser does, as far as ours go: what it takes for a tag
// or an attribute is one, whoever meant it.
func elements(t testing.TB, page string) []element {
	t.Helper()
	var all []element
	for page != "" {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			break
		}
		if n := len(all); n > 0 {
			all[n-1].Text = page[:i]
		}
		page = page[i+1:]
		end := strings.IndexAny(page, " \t\n\f/>")
		if page[0] == '/' {
			end = strings.IndexByte(page, '>')
		}
		if end < 0 {
			t.Fatalf("a tag has no end: %.80q", page)
		}
		e := element{Name: strings.ToLower(page[:end])}
		page = page[end:]
		for {
			page = strings.TrimLeft(page, " \t\n\f/")
			if page == "" {
				t.Fatalf("<%s has no end", e.Name)
			}
			if page[0] == '>' {
				page = page[1:]
				break
			}
			end := strings.IndexAny(page, " \t\n\f/>=")
			name := page[:end]
			page = page[end:]
			value := ""
			if rest, ok := strings.CutPrefix(page, `="`); ok {
				value, page, ok = strings.Cut(rest, `"`)
				if !ok {
					t.Fatalf("the value of %s has no end", name)
				}
			} else if page[0] == '=' {
				t.Fatalf("the value of %s in <%s has no quotes", name, e.Name)
			}
			e.Attrs = append(e.Attrs, [2]string{name, value})
		}
		if e.Name == "script" || e.Name == "style" {
			text, rest, ok := strings.Cut(page, "</"+e.Name)
			if !ok {
				t.Fatalf("<%s has no end", e.Name)
			}
			e.Text, page = text, "</"+e.Name+rest
			all = append(all, e, element{Name: "#"})
			continue
		}
		all = append(all, e)
	}
	return all
}
