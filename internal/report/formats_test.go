package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

const reportPages = "../../docs/reports/"

// Whoever reads a name in the help finds its page, and no page tells of a format that
// is not there.
func TestEveryFormatHasItsPageAndNoPageIsLeftOver(t *testing.T) {
	want := []string{"README.md"}
	overview, err := os.ReadFile(reportPages + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		want = append(want, f.Name+".md")
		if !bytes.Contains(overview, []byte("("+f.Name+".md)")) {
			t.Errorf("docs/reports/README.md does not link to %s.md", f.Name)
		}
	}
	slices.Sort(want)
	entries, err := os.ReadDir(reportPages)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".md" {
			got = append(got, e.Name())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages in docs/reports (-want +got):\n%s", diff)
	}
}

func TestEveryFormatHasANameOfItsOwnAndASummary(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Formats() {
		if !regexp.MustCompile(`^[a-z]+$`).MatchString(f.Name) || seen[f.Name] {
			t.Errorf("format %q: a name is lower case and there once", f.Name)
		}
		seen[f.Name] = true
		if f.Summary == "" || f.Write == nil {
			t.Errorf("format %s has no summary or cannot be written", f.Name)
		}
	}
}

// everyReport runs a test for each format and each kind of report that it tells.
func everyReport(t *testing.T, test func(t *testing.T, f Format, r *spec.Report)) {
	for _, f := range Formats() {
		for _, c := range toldReports() {
			if c.report.Comparison != nil && !f.Two {
				continue
			}
			t.Run(f.Name+"/"+c.name, func(t *testing.T) { test(t, f, c.report) })
		}
	}
}

func TestTheSameReportIsTheSameBytes(t *testing.T) {
	everyReport(t, func(t *testing.T, f Format, r *spec.Report) {
		first := written(t, f, r)
		for range 4 {
			if diff := cmp.Diff(string(first), string(written(t, f, r))); diff != "" {
				t.Fatalf("another time it is something else:\n%s", diff)
			}
		}
	})
}

// A PASS that nobody measured is told as what it is: not judged. The json format is the
// verdict as it stands, and who reads a record refuses such a one.
func TestNoFormatTellsAPassOfWhatWasNotMeasured(t *testing.T) {
	with := func(s spec.State) *spec.Report {
		r := toldPass()
		r.Verdict.Expectations = append(r.Verdict.Expectations, spec.Expected{Name: "goodput", Want: ">= 1", Unit: "ratio", State: s})
		return r
	}
	for _, f := range Formats() {
		if f.Name == "json" {
			continue
		}
		if diff := cmp.Diff(string(written(t, f, with(spec.NotJudged))), string(written(t, f, with(spec.Pass)))); diff != "" {
			t.Errorf("%s (-not judged +pass):\n%s", f.Name, diff)
		}
	}
}

// Whatever is in a report, or is not, it is told in characters that only show.
func TestEveryFormatIsTextThatOnlyShows(t *testing.T) {
	everyReport(t, func(t *testing.T, f Format, r *spec.Report) {
		out := written(t, f, r)
		if !utf8.Valid(out) {
			t.Error("it is not UTF-8")
		}
		for _, c := range string(out) {
			if unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) {
				t.Fatalf("it has %U, which steers a terminal", c)
			}
			if unicode.Is(unicode.Bidi_Control, c) && f.Name != "json" {
				t.Fatalf("it has %U, which turns what stands beside it", c)
			}
		}
	})
}

// Whoever reads one of the reports does not read the others. The csv format is the record
// itself, and the json format the verdict.
func TestEveryFormatSaysThatARunDidNotEnd(t *testing.T) {
	for _, f := range Formats() {
		if f.Name == "csv" || f.Name == "json" || f.Name == "openmetrics" {
			continue
		}
		for _, tt := range []struct {
			report *spec.Report
			want   bool
		}{{toldKilled(), true}, {toldInconclusive(), false}, {toldBench(), false}} {
			text := strings.ToLower(string(written(t, f, tt.report)))
			if got := strings.Contains(text, "not ended") || strings.Contains(text, "did not end"); got != tt.want {
				t.Errorf("%s: %v, want %v", f.Name, got, tt.want)
			}
		}
	}
}

// A command that would come to another verdict is worse than none: only those are told
// that whoever judged the record has given.
func TestOnlyTheCommandsOfAReportAreTold(t *testing.T) {
	for _, f := range []Format{{Name: "text", Write: Text}, {Name: "markdown", Write: Markdown}, {Name: "github", Write: GitHub}} {
		for _, c := range []toldReport{{"run", toldPass()}, {"comparison", toldComparison()}} {
			r := c.report
			r.Judge, r.Page = "JUDGE IT", "SHOW IT"
			if text := string(written(t, f, r)); strings.Count(text, "JUDGE IT") != 1 || strings.Count(text, "SHOW IT") != 1 || strings.Contains(text, "aicr judge") || strings.Contains(text, "aicr report") {
				t.Errorf("%s of a %s does not tell its commands, and no others:\n%s", f.Name, c.name, text)
			}
			r.Judge, r.Page = "", ""
			if text := string(written(t, f, r)); strings.Contains(text, "aicr judge") || strings.Contains(text, "aicr report") || strings.Contains(text, "again with:\n\n```sh\n\n") {
				t.Errorf("%s of a %s tells a command that it was not given:\n%s", f.Name, c.name, text)
			}
		}
	}
}

// A text of 10 MB, of a server that has gone mad, does not make the report one.
func TestATextOfTenMegabytesIsCut(t *testing.T) {
	long := strings.Repeat("工人 <b>| ", 1<<20)
	for _, f := range Formats() {
		if f.Name == "json" {
			continue // it is the verdict as it is
		}
		t.Run(f.Name, func(t *testing.T) {
			r := toldFail()
			r.Run.Target.Model = long
			r.Verdict.Reason = long
			r.Verdict.Ledgers[0].Reason = long
			r.Verdict.Findings[0].Evidence[0] = long
			r.Verdict.Expectations[0].Note = long
			if n := len(written(t, f, r)); n > 1<<20 {
				t.Errorf("the report has %d bytes", n)
			}
		})
	}
}

// brokenWriter takes so many bytes and then fails.
type brokenWriter struct{ room int }

var errBroken = errors.New("no space left")

func (w *brokenWriter) Write(b []byte) (int, error) {
	if len(b) <= w.room {
		w.room -= len(b)
		return len(b), nil
	}
	n := w.room
	w.room = 0
	return n, errBroken
}

func TestNoFormatSwallowsThatItCouldNotBeWritten(t *testing.T) {
	everyReport(t, func(t *testing.T, f Format, r *spec.Report) {
		whole := len(written(t, f, r))
		step := max(1, whole/8)
		for room := 0; room < whole; room += step {
			if err := f.Write(&brokenWriter{room}, r); !errors.Is(err, errBroken) {
				t.Fatalf("with room for %d of %d bytes it returned %v", room, whole, err)
			}
		}
		if err := f.Write(&brokenWriter{whole - 1}, r); !errors.Is(err, errBroken) {
			t.Fatalf("with room for all but a byte it returned %v", err)
		}
	})
}

func written(t *testing.T, f Format, r *spec.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// goldens writes each report of a kind in a format and holds it against its file.
func goldens(t *testing.T, ext string, write func(io.Writer, *spec.Report) error, names ...string) {
	t.Helper()
	for _, c := range toldReports() {
		if !slices.Contains(names, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b, c.report); err != nil {
				t.Fatal(err)
			}
			golden(t, ext+"/"+c.name+".golden", b.Bytes())
		})
	}
}

type toldReport struct {
	name   string
	report *spec.Report
}

// toldReports are reports of every kind, made by hand. Each call makes them anew.
func toldReports() []toldReport {
	return []toldReport{
		{"pass", toldPass()},
		{"fail", toldFail()},
		{"inconclusive", toldInconclusive()},
		{"invalid", toldInvalid()},
		{"skip", toldSkip()},
		{"bench", toldBench()},
		{"comparison", toldComparison()},
		{"bare", &spec.Report{Verdict: &spec.Verdict{}}},
		{"bare-comparison", &spec.Report{Verdict: &spec.Verdict{}, Against: &spec.Report{Verdict: &spec.Verdict{}},
			Comparison: &spec.Comparison{Runs: []spec.Side{{}, {}}}}},
		{"killed", toldKilled()},
		{"hostile", hostile(toldFail())},
		{"hostile-bench", hostile(toldBench())},
		{"hostile-comparison", hostile(toldComparison())},
	}
}

func toldPass() *spec.Report {
	r := &spec.Report{
		Run: spec.Run{Schema: spec.RunSchema, ID: "run-1", Version: "v1.2.3", Command: "aicr validate --url http://gateway:8000 --model llama",
			Target: spec.Target{URL: "http://me:secret@gateway:8000/v1?key=secret", Model: "llama-3.1-8b"},
			Start:  "2026-06-04T12:00:00Z", End: "2026-06-04T12:04:10.5Z"},
		Kept: "runs/run 1", Judge: "aicr judge 'runs/run 1' --profile certify", Page: "aicr report 'runs/run 1' --report html=report.html",
		Plan: &spec.Plan{Schema: spec.PlanSchema, Profile: "standard", Point: toldPoint(), Stability: spec.StabilityGate,
			Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 50_000, Unit: "tokens/s", Tolerance: 0.1, From: "recipe.yaml"}}},
		Verdict: &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Pass, Reason: "throughput is 0.99 of the reference, 0 stalls in 1.7 min of load",
			Profile: "standard", Episodes: 2, LoadedS: 100,
			Ledgers: []spec.Ledger{
				{Name: spec.Integrity, State: spec.Pass, Reason: "2 of 2 workers served, 0 of 56,926 requests failed"},
				{Name: spec.Capability, State: spec.Pass, Reason: "throughput 0.99 of the reference"},
				{Name: spec.Stability, State: spec.Pass, Reason: "0 stalls in 1.7 min of load"},
			},
			Expectations: []spec.Expected{
				{Name: "throughput-of-reference", Want: ">= 0.92 of 72,318 tokens/s", Effective: "> 0.80, by a sequential test",
					Value: new(0.99), Low: new(0.97), High: new(1.01), N: 2, Unit: "ratio", State: spec.Pass},
				{Name: "failed-requests", Want: "<= 0.01", Effective: "<= 0.01", Value: new(0.0), Low: new(0.0), High: new(0.00006), N: 56_926, Unit: "of requests", State: spec.Pass},
			},
			Findings: []spec.Finding{},
			Figures: []spec.Figure{
				{Name: "throughput", Value: new(71_661.0), Low: new(70_179.0), High: new(73_144.0), N: 2, Unit: "tokens/s", By: "t interval over episodes, 95 %"},
				{Name: "ttft-p99", Value: new(74.1), Low: new(66.6), High: new(80.5), N: 26_256, Unit: "ms", By: "worst episode"},
			},
			Tests: []spec.Walk{{Ledger: spec.Capability, Low: -4.6, High: 4.6, Values: []float64{-8.9, -15.4}}},
			Parts: []spec.Part{{Episode: 1, Cut: 4, Counted: true}, {Episode: 2, Cut: 4, Counted: true}},
		},
		Lanes: []spec.Lane{
			{Worker: "0", GPU: "GPU-0", By: "telemetry", Findings: []string{}, Requests: 28_000, Tokens: 3_584_000, Share: 1, Known: true,
				T: spec.Values{0, 1, math.NaN(), 50}, Running: spec.Values{64, 64, math.NaN(), 63}, Waiting: spec.Values{0, 0, math.NaN(), 0}, Rate: spec.Values{4000, 4100, math.NaN(), 4000},
				PowerT: spec.Values{0, 1}, Power: spec.Values{570, 580}},
			{Worker: "1", By: "client", Findings: []string{}, T: spec.Values{}, Running: spec.Values{}, Waiting: spec.Values{}, Rate: spec.Values{}},
		},
		Fleet: spec.FleetTrack{T: spec.Values{0, 1}, Rate: spec.Values{70_000, 71_000}, TTFT50: spec.Values{32, 32}, TTFT99: spec.Values{50, 51},
			InFlight: spec.Values{1024, 1024}, Failed: spec.Values{0, 0}},
		Distributions: []spec.Distribution{{Name: "TTFT", Of: "requests", Unit: "ms", N: 3, Edges: spec.Values{1, 2, 4}, Counts: []int64{1, 2}, P50: 2, P90: 3, P99: 4, Max: 4}},
		Facts:         []spec.Fact{{Name: "GPU", Value: "2 x H100"}},
		Marks:         []spec.Mark{{At: 1, Kind: spec.EventStage, Text: "episode 1"}},
	}
	for i := range 2 {
		r.Episodes = append(r.Episodes, spec.ReportEpisode{At: 20 + 60*float64(i), Until: 70 + 60*float64(i), Cut: new(24 + 60*float64(i)), Counted: true,
			Episode: spec.Episode{Schema: spec.EpisodeSchema, Number: i + 1, Start: "2026-06-04T12:00:20Z", Point: toldPoint(), LoadedS: 50,
				Requests: spec.RequestCounts{Sent: 27_963, Served: 27_963, Classes: map[string]int{"ok": 27_963}},
				Sentinel: spec.RequestCounts{Sent: 500, Served: 500, Classes: map[string]int{"ok": 500}},
				Tokens:   spec.TokenCounts{Prompt: 3_579_264, Cached: new(int64), Completion: 3_579_264},
				Client:   spec.BenchClient{Valid: true}}})
	}
	r.Requests = requestsInOrder(
		spec.RequestOf{Episode: 1, Request: &spec.Request{Seq: 0, Lane: "closed", Phase: "ramp", First: 14_354_954, Last: 1_112_866_506, End: 1_112_866_506,
			Gap: 13_049_674, GapEnd: 469_943_185, Prompt: 128, Cached: new(int), Tokens: 128, Worker: "1", Class: "ok", Status: 200, Finish: "length"}},
		spec.RequestOf{Episode: 2, Request: &spec.Request{Seq: 7, Lane: "sentinel", Phase: "steady", Intended: 1_000_000_000, Sent: 1_000_250_000, End: 1_200_250_000,
			Class: "http-status", Status: 503, Detail: "service unavailable, \"try\" again"}},
		spec.RequestOf{Episode: 3, Request: &spec.Request{Seq: 8, Lane: "closed", Phase: "drain", Intended: 5, Sent: 5, End: 6, Class: "interrupted"}},
	)
	return r
}

func toldPoint() spec.OperatingPoint {
	return spec.OperatingPoint{Workers: 2, Concurrency: 256, RampS: 2, DurationS: 50, InputTokens: 128, OutputTokens: 128, Prompts: "unique", SentinelRate: 10, Router: "least-loaded"}
}

func requestsInOrder(all ...spec.RequestOf) func(func(spec.RequestOf, error) bool) {
	return func(yield func(spec.RequestOf, error) bool) {
		for _, q := range all {
			if !yield(q, nil) {
				return
			}
		}
	}
}

func toldFail() *spec.Report {
	r := toldPass()
	v := r.Verdict
	v.Verdict, v.Reason = spec.Fail, "worker 1 stalls: 3 stalls in 1.7 min of load"
	v.Ledgers[2] = spec.Ledger{Name: spec.Stability, State: spec.Fail, Reason: "3 stalls in 1.7 min of load (95 % between 0.37 and 5.3 a minute)"}
	v.Expectations = append(v.Expectations,
		spec.Expected{Name: "stall-rate", Want: "<= 0.033", Effective: "< 0.75, by a sequential test", Value: new(1.8), Low: new(0.37), High: new(5.3), N: 3, Unit: "stalls/min", State: spec.Fail, Note: "worker 1"},
		spec.Expected{Name: "ttft-p99-guardrail", Want: "<= 2,000", Effective: "<= 2,000", Unit: "ms", State: spec.NotJudged})
	v.Findings = []spec.Finding{
		{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: []string{"1"}, GPUs: []string{"GPU-1"},
			Summary:  "worker 1 stalled 3 times in 1.7 min of load, for up to 8 s",
			Evidence: []string{"episode 1: worker 1 stood still from 20 s to 28 s (telemetry and client); its GPU drew 126 W, its peers' 576 W"},
			Advice: []string{"look at the engine's main thread while it stands: `py-spy dump --pid PID`",
				"`aicr watch --url URL --worker-metrics PAGE --record DIR` keeps the evidence of the next one", "`dmesg | grep -i xid`"}},
		{ID: "start/cold", Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Summary: "the first answer took 42 s", Evidence: []string{}, Advice: []string{}},
	}
	v.Stalls = []spec.Stall{
		{Episode: 1, At: 20, Seconds: 8, Worker: "1", GPU: "GPU-1", By: []string{"telemetry", "client"}},
		{Episode: 2, At: 10, Seconds: 6.5, Worker: "1", GPU: "GPU-1", By: []string{"telemetry"}},
		{Episode: 2, At: 45, Seconds: 5, Open: true, By: []string{"client"}},
	}
	v.Notes = []string{"no reference for this hardware"}
	r.Lanes[0].Stalls = []spec.Span{}
	r.Lanes[1].GPU, r.Lanes[1].Findings, r.Lanes[1].Stalls = "GPU-1", []string{"worker/stall"}, []spec.Span{{From: 40, Until: 48}, {From: 90, Until: 96.5, Open: true}}
	r.Trend = &spec.Trend{Runs: 6, Changes: []spec.TrendChange{}, Lines: []string{"throughput is 4 % below what it was in 5 runs before"}}
	r.Notes = []string{"the last line of events.jsonl is torn"}
	return r
}

func toldInconclusive() *spec.Report {
	r := toldPass()
	r.Verdict.Verdict, r.Verdict.Reason = spec.Inconclusive, "11 episodes decided nothing: throughput is 0.86 of the reference"
	r.Verdict.Ledgers[1] = spec.Ledger{Name: spec.Capability, State: spec.Inconclusive, Reason: "throughput 0.86 of the reference, between good and bad"}
	r.Verdict.Expectations[0].State = spec.Inconclusive
	return r
}

// toldKilled is a run whose record has no end.
func toldKilled() *spec.Report {
	r := toldInconclusive()
	r.Verdict.Reason = "not decided after 2 episodes"
	r.Run.End = ""
	return r
}

func toldInvalid() *spec.Report {
	r := toldPass()
	v := r.Verdict
	v.Verdict, v.Reason = spec.Invalid, "the client held 71 % of the load that was asked for"
	v.Ledgers[1].State, v.Ledgers[2].State = spec.NotJudged, spec.NotJudged
	v.Expectations[0] = spec.Expected{Name: "throughput-of-reference", Want: ">= 0.92", Effective: ">= 0.92", Unit: "ratio", State: spec.NotJudged}
	v.Findings = []spec.Finding{{ID: "client/under-driven", Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh,
		Summary: "the client could not send more than 370 requests a second", Evidence: []string{"in flight: 181 of 256"}, Advice: []string{"run it on a machine with more cores"}}}
	v.Figures = []spec.Figure{{Name: "throughput", N: 0, Unit: "tokens/s"}}
	v.Episodes, v.LoadedS = 0, 0
	return r
}

func toldSkip() *spec.Report {
	return &spec.Report{
		Run:  spec.Run{Schema: spec.RunSchema, ID: "run-2", Version: "v1.2.3", Command: "aicr validate --sim=no-free-gpus", Target: spec.Target{Scenario: "no-free-gpus", Seed: 1, Simulated: true}, Start: "1970-01-01T00:00:00Z"},
		Plan: &spec.Plan{Schema: spec.PlanSchema, Profile: "smoke"},
		Verdict: &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Skip, Reason: "no GPU is free", Profile: "smoke", Ledgers: []spec.Ledger{
			{Name: spec.Integrity, State: spec.NotJudged, Reason: "nothing was loaded"}, {Name: spec.Capability, State: spec.NotJudged, Reason: "nothing was loaded"},
			{Name: spec.Stability, State: spec.NotJudged, Reason: "nothing was loaded"}},
			Findings: []spec.Finding{{ID: "cluster/no-free-gpus", Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Summary: "0 of 8 GPUs are free",
				Evidence: []string{"8 GPUs, 0 free"}, Advice: []string{"free GPUs, or name another node", "`kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`"}}}},
	}
}

func toldBench() *spec.Report {
	b := &spec.Bench{Schema: spec.BenchSchema, Verdict: spec.Pass, Reason: "1,990 of 2,000 requests were served", Version: "v1.2.3", Command: "aicr bench --url http://gateway:8000",
		Start: "2026-06-04T12:00:00Z", End: "2026-06-04T12:01:00Z",
		Target:   spec.BenchTarget{URL: "http://gateway:8000", Model: "llama", Wire: "http/1.1", ResolveMS: 0.3, ProbeRequests: 3, Nagle: "off"},
		Workload: spec.BenchWorkload{Prompts: "unique", Seed: 1, SHA256: "d6a6317d6a6317", Tokens: "usage", Output: spec.BenchCount{Asked: new(128.0), Observed: new(128.0)}},
		Schedule: spec.BenchSchedule{Concurrency: 64, Count: 2_000},
		Requests: spec.BenchRequests{Sent: 2_000, Served: 1_990, Failed: 10, Classes: map[string]int{"ok": 1_990, "http-status": 10},
			Failures: []spec.BenchFailure{{Class: "http-status", Status: 503, Message: "busy", Count: 10}}, Unsent: 3},
		Figures: []spec.BenchFigure{
			{Name: "output throughput", Unit: "tokens/sec", Mean: new(9_000.0)},
			{Name: "time to first token", Unit: "ms", N: 1_990, Mean: new(30.0), P50: new(29.0), P90: new(40.0), P95: new(45.0), P99: new(51.5), Min: new(10.0), Max: new(90.0),
				WithFailures: map[string]any{"p99": "inf"}}},
		Phases:   []spec.BenchPhase{{Name: "steady", Requests: 2_000}},
		Workers:  []spec.BenchWorker{{Worker: "0", Requests: 2_000, Failed: 10, Tokens: 254_720, Share: 1, TTFT50MS: new(29.0), MaxGapMS: 40}},
		Sentinel: []spec.BenchFigure{{Name: "first token from intended send", Unit: "ms", N: 60, P99: new(48.0)}},
		Client:   spec.BenchClient{Valid: true, StampLagBy: "kernel", Cores: 2},
		Notes:    []string{"the server names no workers"},
	}
	return &spec.Report{
		Run: spec.Run{Schema: spec.RunSchema, ID: "bench", Version: b.Version, Command: b.Command, Start: b.Start, End: b.End, Target: spec.Target{URL: b.Target.URL, Model: b.Target.Model}},
		Verdict: &spec.Verdict{Schema: spec.VerdictSchema, Verdict: b.Verdict, Reason: b.Reason, Profile: "bench", Episodes: 1, LoadedS: 60, Notes: b.Notes,
			Ledgers:  []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: b.Reason}, {Name: spec.Capability, State: spec.NotJudged, Reason: "a bench judges no capability"}, {Name: spec.Stability, State: spec.NotJudged, Reason: "a bench judges no stalls"}},
			Figures:  []spec.Figure{{Name: "output throughput", Value: new(9_000.0), N: 1_990, Unit: "tokens/sec"}},
			Findings: []spec.Finding{{ID: "serving/errors", Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Summary: "10 of 2,000 requests failed", Evidence: []string{"10 times http-status: busy"}, Advice: []string{}}}},
		Bench:    b,
		Episodes: []spec.ReportEpisode{{Episode: spec.Episode{Number: 1, Start: b.Start, LoadedS: 60, Requests: spec.RequestCounts{Sent: 2_000, Served: 1_990, Failed: 10}, Client: b.Client}, Until: 60, Counted: true}},
	}
}

func toldComparison() *spec.Report {
	r := toldFail()
	r.Judge, r.Page = "aicr judge before after", "aicr report before after --report html=report.html"
	r.Against = toldPass()
	r.Against.Judge, r.Against.Page = "", ""
	r.Comparison = &spec.Comparison{Schema: spec.ComparisonSchema, Says: spec.IsWorse, Reason: "it stalls more often", Together: 0.95, Each: 0.983,
		Runs: []spec.Side{{Run: "before", Verdict: spec.Pass, Episodes: 2, LoadedS: 100}, {Run: "after", Verdict: spec.Fail, Episodes: 2, LoadedS: 100, Stalls: 3}},
		Figures: []spec.Compared{
			{Name: "throughput", Unit: "tokens/s", First: new(71_661.0), Second: new(71_053.0), Ratio: new(0.992), Low: new(0.97), High: new(1.01), Says: spec.CannotTell},
			{Name: "stall-rate", Unit: "stalls/min", First: new(0.0), Second: new(1.8), Low: new(1.2), Says: spec.IsWorse},
			{Name: "goodput", Unit: "of requests", Says: spec.CannotTell},
		},
		Notes: []string{"both are of the same operating point"}}
	return r
}

// evil is what nobody should have as a name: markup of every kind that a report is
// written in, commands of those who read one, and what steers a terminal.
func evil(of string) string {
	return fmt.Sprintf("</script></style><img src=x onerror=alert(1)>-->]]>%s|a||b\\|c`x```y`` **b** _i_ ~~s~~ [l](http://evil.example/x) ![i](https://evil.example/i.png) "+
		"www.evil.example me@evil.example @admin #1 !2 $3 ~4 %%5 &6 GH-7 :boom: $x$ &lt;b&gt;\r\n/close\n::error::obey\n ::warning::obey ##[error]obey %%0A\n"+
		"# h\n> q\n- l\n1. l\n---\n~~~\n    code\n=cmd()|' /C calc'!A0 \x1b[31mred\x1b]0;t\x07 \u202eturned\u2066 \x00 \xff\xfe \u2028 工人 عامل 👩‍🚀 \"q\" 'q' \\", of)
}

// hostile has evil texts in every place of a report, and hopeless numbers where there
// may be any. States are the judge's own.
func hostile(r *spec.Report) *spec.Report {
	count := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				fill(v.Elem())
			}
		case reflect.Struct:
			for _, field := range v.Fields() {
				if field.CanSet() {
					fill(field)
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Map:
			if v.Type() == reflect.TypeFor[map[string]int]() && v.Len() > 0 {
				v.SetMapIndex(reflect.ValueOf(evil("a key")), reflect.ValueOf(1))
			}
		case reflect.String:
			if v.Type() != reflect.TypeFor[spec.State]() {
				count++
				v.SetString(evil(fmt.Sprint(count)))
			}
		default: // it has no text
		}
	}
	fill(reflect.ValueOf(r))
	for i := range r.Lanes {
		r.Lanes[i].T = spec.Values{math.NaN(), math.Inf(1), -1e308}
	}
	bad := evil("request")
	r.Requests = requestsInOrder(spec.RequestOf{Episode: -1, Request: &spec.Request{Seq: math.MinInt64, Lane: bad, Phase: bad, Worker: bad, Class: bad, Finish: bad, Detail: bad,
		Intended: math.MinInt64, Sent: math.MaxInt64, First: -1, Last: math.MinInt64, End: 1, Gap: -5, GapEnd: -1, Prompt: -1, Tokens: math.MaxInt, Status: -1}})
	return r
}
