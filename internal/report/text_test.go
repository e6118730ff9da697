package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func TestTextIsWhatItWas(t *testing.T) {
	for name, r := range textReports() {
		t.Run(name, func(t *testing.T) {
			got := textOf(t, r, layout.Palette{})
			holdsRules(t, r, got)
			golden(t, "text/"+name+".txt", []byte(got))
		})
	}
}

// textReports has one of each kind.
func textReports() map[string]*spec.Report {
	f := func(v float64) *float64 { return &v }
	long := strings.Repeat("a reason that is longer than a line ", 5)
	ledgers := func(states ...spec.State) []spec.Ledger {
		var all []spec.Ledger
		for i, name := range []string{spec.Integrity, spec.Capability, spec.Stability} {
			all = append(all, spec.Ledger{Name: name, State: states[i], Reason: "why " + name + " is so"})
		}
		return all
	}
	of := spec.Run{Start: "2026-06-04T12:00:00Z", End: "2026-06-04T12:05:00Z", Target: spec.Target{URL: "http://frontend:8000", Model: "org/model-8b"}}
	met := []spec.Expected{
		{Name: "throughput-of-reference", Want: ">= 0.92 of 72,318 tokens/s", Effective: "> 0.80, by a sequential test", Value: f(0.99), Low: f(0.97), High: f(1.01), N: 5, Unit: "ratio", State: spec.Pass},
		{Name: "failed-requests", Want: "<= 0.01", Effective: "<= 0.01", Value: f(0), Low: f(0), High: f(2.6e-5), N: 140157, Unit: "of requests", State: spec.Pass},
	}
	all := map[string]*spec.Report{}

	all["pass"] = &spec.Report{Run: of, Kept: "today", Verdict: &spec.Verdict{
		Verdict: spec.Pass, Reason: "throughput is 0.99 of the reference, 0 stalls in 4.2 min of load", Profile: spec.ProfileStandard, Episodes: 5, LoadedS: 250,
		Ledgers: ledgers(spec.Pass, spec.Pass, spec.Pass), Expectations: met,
		Figures: []spec.Figure{{Name: "throughput", Value: f(71661), Low: f(70179), High: f(73144), N: 5, Unit: "tokens/s", By: "stall-free batches; t interval over episodes, 95 %"}},
		Tests:   []spec.Walk{{Ledger: spec.Capability, Low: -4.6, High: 4.6, Values: []float64{-8.6, -40.26}}},
	}, Trend: &spec.Trend{Lines: []string{"throughput as in the 7 runs before it"}}}

	all["fail-integrity"] = &spec.Report{Run: of, Verdict: &spec.Verdict{
		Verdict: spec.Fail, Reason: "GPU GPU-0a of worker 2 has an error that ends it", Profile: spec.ProfileQuick, Episodes: 2, LoadedS: 100,
		Ledgers: ledgers(spec.Fail, spec.Pass, spec.Inconclusive),
		Findings: []spec.Finding{{ID: "gpu/error", Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh, Workers: []string{"2"}, GPUs: []string{"GPU-0a"},
			Summary: "GPU GPU-0a of worker 2 has an error that ends it", Evidence: []string{"XID 79 in episode 1"}, Advice: []string{"drain its node: `kubectl drain NODE`"}}},
	}}
	all["fail-capability"] = &spec.Report{Run: of, Kept: "today", Verdict: &spec.Verdict{
		Verdict: spec.Fail, Reason: "the fleet is slow", Profile: spec.ProfileStandard, Episodes: 3, LoadedS: 150, Ledgers: ledgers(spec.Pass, spec.Fail, spec.Pass),
		Expectations: []spec.Expected{
			{Name: "inference-throughput", Want: ">= 50000", Effective: ">= 45000", Value: f(30000), Low: f(29000), High: f(31000), N: 3, Unit: "tokens/s", State: spec.Fail},
			{Name: "inference-ttft-p99", Want: "<= 2000", Value: f(math.Inf(1)), Low: f(4000), High: f(math.Inf(1)), N: 3, Unit: "ms", State: spec.Fail, Note: "most requests had no first token"},
			{Name: "least-token-share", Want: ">= 0.90 of fair", Value: f(math.NaN()), High: f(0.9), Unit: "of fair", State: spec.NotJudged},
		},
		Findings: []spec.Finding{{ID: "fleet/slow", Severity: spec.SeverityFail, Confidence: spec.ConfidenceMedium, Summary: "all workers are slow alike"}},
	}}
	// The one that was kept before there was a Report: all that a verdict may have.
	all["fail-stability"] = &spec.Report{Kept: "runs/a run", Verdict: &spec.Verdict{
		Verdict: spec.Fail, Reason: "worker 5 stalled 4 times in 3.3 min of load", Profile: spec.ProfileStandard, Episodes: 4, LoadedS: 200,
		Plan:    "profile quick instead of standard",
		Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: long}, {Name: spec.Capability, State: spec.Inconclusive, Reason: "too little"}, {Name: spec.Stability, State: spec.Fail, Reason: "4 stalls"}},
		Expectations: []spec.Expected{
			{Name: "inference-throughput", Want: ">= 50000", Effective: ">= 45000", Value: f(79800), Low: f(79100), High: f(80500), N: 40, Unit: "tokens/s", State: spec.Pass},
			{Name: "inference-ttft-p99", Want: "<= 2000", Effective: "<= 2000", Unit: "ms", State: spec.NotJudged, Note: "no first token came"},
		},
		Findings: []spec.Finding{
			{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: []string{"5"}, GPUs: []string{"GPU-0a"}, Summary: "worker 5 stood still", Evidence: []string{long}, Advice: []string{"look at it"}},
			{ID: "start/cold", Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Workers: []string{"1", "2"}, Summary: "slow to start", Evidence: []string{"42 s"}},
		},
		Stalls:  []spec.Stall{{Episode: 2, At: 20.04, Seconds: 8.26, Worker: "5", GPU: "GPU-0a", By: []string{"telemetry", "client"}}, {Episode: 3, At: 1, Seconds: 49, Open: true, By: []string{"client"}}},
		Figures: []spec.Figure{{Name: "throughput", Value: f(79800), Low: f(79100), High: f(80500), N: 4, Unit: "tokens/s", By: "t interval over episodes, 95 %"}, {Name: "elasticity", N: 0}},
		Tests:   []spec.Walk{{Ledger: spec.Capability, Low: -4.6, High: 4.6, Values: []float64{-8.6}}, {Ledger: spec.Stability, Low: -2.94, High: 2.94, Values: []float64{-0.6, 2}}, {Ledger: "none", Low: -1, High: 1}},
		Notes:   []string{"a note"},
	}}
	all["inconclusive"] = &spec.Report{Run: of, Kept: "today", Notes: []string{"episodes/003 is not whole: it was left out"}, Verdict: &spec.Verdict{
		Verdict: spec.Inconclusive, Reason: "not decided after 2 episodes: 3 more may decide", Profile: spec.ProfileStandard, Episodes: 2, LoadedS: 100,
		Ledgers: ledgers(spec.Pass, spec.Inconclusive, spec.Inconclusive), Expectations: met[:1], Notes: []string{"no telemetry: stalls are by the client alone"},
	}}
	all["invalid"] = &spec.Report{Run: of, Kept: "today", Verdict: &spec.Verdict{
		Verdict: spec.Invalid, Reason: "the client could not hold the load in 3 of 3 episodes", Profile: spec.ProfileStandard, Ledgers: ledgers(spec.NotJudged, spec.NotJudged, spec.NotJudged),
		Findings: []spec.Finding{{ID: "client/under-driven", Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh, Summary: "the client could not hold the load",
			Evidence: []string{"episode 1: held 499 of 2048 in flight"}, Advice: []string{"give the client more CPU, or run it nearer to the frontend"}}},
	}}
	all["skip"] = &spec.Report{Kept: "runs/a run", Run: spec.Run{Start: of.Start, End: of.End, Target: spec.Target{Simulated: true, Scenario: "no-free-gpu", Seed: 7}}, Verdict: &spec.Verdict{
		Verdict: spec.Skip, Reason: "no free GPU", Profile: spec.ProfileSmoke,
		Ledgers:      []spec.Ledger{{Name: spec.Integrity, State: spec.NotJudged, Reason: "nothing was loaded"}},
		Expectations: []spec.Expected{{Name: "inference-throughput", State: spec.NotJudged}},
	}}
	all["killed"] = &spec.Report{Kept: "runs/" + strings.Repeat("a-folder-with-a-long-name/", 6) + "run", Run: spec.Run{Start: of.Start}, Verdict: &spec.Verdict{
		Verdict: spec.Inconclusive, Reason: "not decided after 1 episode", Profile: spec.ProfileStandard, Episodes: 1, LoadedS: 50, Ledgers: ledgers(spec.Pass, spec.Inconclusive, spec.Inconclusive),
	}}
	all["empty"] = &spec.Report{Verdict: &spec.Verdict{Verdict: spec.Inconclusive}}

	many := &spec.Verdict{Verdict: spec.Fail, Reason: "the fleet stalled", Profile: spec.ProfileCertify, Episodes: 14, LoadedS: 700, Ledgers: ledgers(spec.Pass, spec.Pass, spec.Fail)}
	sick := spec.Finding{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Summary: "128 workers stood still"}
	for i := range 128 {
		name, gpu := fmt.Sprintf("vllm-worker-%d", i), fmt.Sprintf("GPU-6fa1734a-a640-4429-9ccd-7e39ebe03%03d", i)
		sick.Workers, sick.GPUs = append(sick.Workers, name), append(sick.GPUs, gpu)
		sick.Evidence = append(sick.Evidence, "episode 1: worker "+name+" stood still from 10 s to 18 s")
		many.Stalls = append(many.Stalls, spec.Stall{Episode: 1, At: 10, Seconds: 8.5, Open: i == 3, Worker: name, GPU: gpu, By: []string{"telemetry", "client"}})
	}
	many.Findings = []spec.Finding{sick}
	all["128-workers"] = &spec.Report{Run: of, Kept: "today", Verdict: many}

	evil := "</script>\x1b[2J\x1b]0;owned\x07 \u202etxt\u202c 工作节点 عامل \x00\xff\nPASS  all is well"
	all["hostile"] = &spec.Report{Kept: "runs/$(rm -rf ~)\n'x\x1b[31m", Notes: []string{evil}, Run: spec.Run{Start: evil, Target: spec.Target{URL: "http://" + evil, Model: evil}},
		Trend: &spec.Trend{Lines: []string{evil}},
		Verdict: &spec.Verdict{
			Verdict: spec.Fail, Reason: evil, Profile: evil, Plan: evil, Episodes: -1, LoadedS: math.NaN(), Notes: []string{evil},
			Ledgers:      []spec.Ledger{{Name: evil, State: spec.State(evil), Reason: strings.Repeat("工作", 60)}},
			Expectations: []spec.Expected{{Name: strings.Repeat("x", 300), Want: evil, Effective: evil, Value: f(-1e300), Low: f(math.NaN()), High: f(5e-324), N: math.MinInt, Unit: evil, State: spec.Fail, Note: evil}},
			Findings: []spec.Finding{{ID: evil, Severity: evil, Confidence: evil, Workers: []string{evil, strings.Repeat("y", 1000)}, GPUs: []string{evil}, Summary: evil, Evidence: []string{strings.Repeat("A log line. ", 900000)}, Advice: []string{evil}},
				{Severity: spec.SeverityFail, Workers: []string{"工作节点-3"}}},
			Stalls:  []spec.Stall{{Episode: 1, At: math.NaN(), Seconds: math.Inf(1), Worker: evil, GPU: strings.Repeat("z", 300), By: []string{evil}}},
			Figures: []spec.Figure{{Name: evil, Value: f(1e22), Unit: strings.Repeat("节", 100), By: evil}},
			Tests: []spec.Walk{{Ledger: evil, Low: -1, High: 1, Values: []float64{1e300}}, {Low: -1, High: 1, Values: []float64{math.NaN()}}, {Low: math.Inf(-1), High: math.Inf(1), Values: []float64{0}},
				{Low: 1, High: -1}, {Low: math.NaN(), High: 3, Values: []float64{math.Inf(1)}}},
		}}

	for _, r := range all {
		if r.Kept != "" {
			r.Judge, r.Page = "aicr judge "+layout.Quoted(r.Kept), "aicr report "+layout.Quoted(r.Kept)+" --report html=report.html"
		}
		if r.Verdict.Plan != "" {
			r.Judge += " --profile quick"
		}
	}

	maps.Copy(all, benchReports())

	compared := func(says, first, second string) *spec.Report {
		return &spec.Report{Judge: "aicr judge " + layout.Quoted(first) + " " + layout.Quoted(second),
			Page: "aicr report " + layout.Quoted(first) + " " + layout.Quoted(second) + " --report html=report.html",
			Comparison: &spec.Comparison{Says: says, Reason: "worse in throughput", Together: 0.95, Each: 0.9875,
				Runs: []spec.Side{{Run: first, Verdict: spec.Pass, Episodes: 5, LoadedS: 250}, {Run: second, Verdict: spec.Fail, Episodes: 1, LoadedS: 50, Stalls: 1}},
				Figures: []spec.Compared{
					{Name: "throughput", Unit: "tokens/s", First: f(68689), Second: f(60000), Ratio: f(0.873), Low: f(0.8), High: f(0.95), Says: spec.IsWorse},
					{Name: "stalls", Unit: "a loaded minute", First: f(0), Second: f(0.11), Low: f(0.003), Says: spec.CannotTell},
					{Name: "ttft p99", Unit: "ms", Second: f(55), Says: spec.CannotTell},
				}, Notes: []string{"episodes of two runs are not interleaved"}}}
	}
	all["comparison"] = compared(spec.IsWorse, "before", "after")
	all["comparison-hostile"] = compared(spec.CannotTell, "runs/"+strings.Repeat("工", 400), evil)
	all["comparison-empty"] = &spec.Report{Comparison: &spec.Comparison{Says: spec.IsMixed}}
	return all
}

func textOf(t interface{ Fatal(...any) }, r *spec.Report, paint layout.Palette) string {
	var b bytes.Buffer
	if err := TextIn(paint)(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// holdsRules keeps what is true of the text of every report.
func holdsRules(t interface {
	Errorf(string, ...any)
	Fatal(...any)
}, r *spec.Report, got string) {
	verdict := ""
	if r.Comparison != nil {
		verdict = strings.ToUpper(r.Comparison.Says)
	} else {
		verdict = string(r.Verdict.Verdict)
	}
	if !strings.HasPrefix(got, verdict+"  ") && !strings.HasPrefix(got, verdict+"\n") {
		t.Errorf("it does not begin with %q: %q", verdict, got[:min(100, len(got))])
	}
	if !strings.HasSuffix(got, "\n") || !utf8.ValidString(got) {
		t.Errorf("no text: %q", got)
	}
	for line := range strings.Lines(got) {
		line = strings.TrimSuffix(line, "\n")
		if n := layout.Width(line); n > layout.Columns {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.ContainsFunc(line, unseen) || strings.TrimRight(line, " ") != line {
			t.Errorf("more than is seen: %q", line)
		}
	}
	if plain := colour.ReplaceAllString(textOf(t, r, layout.Palette{On: true}), ""); plain != got {
		t.Errorf("with colour (-without +with):\n%s", cmp.Diff(got, plain))
	}
	line := Line(r)
	if !strings.HasPrefix(line, verdict+"  ") || strings.ContainsFunc(line, unseen) || !utf8.ValidString(line) || len(line) > 3*longestLine {
		t.Errorf("in one line: %q", line)
	}
}

func unseen(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

func TestAnyReportHasAText(t *testing.T) {
	texts := rapid.Custom(func(t *rapid.T) any {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{" ", "worker", "5", " %", "工作节点", "e\u0301", "عامل", "\u202e", "\x1b[31m", "\x1b]0;x\x07", "\x00", "\n", "\r", "\xff", "…",
			"GPU-6fa1734a-a640-4429-9ccd-7e39ebe03109", strings.Repeat("long", 60), strings.Repeat("many words ", 30), strings.Repeat("节", 300)}), 0, 4).Draw(t, "parts")
		return strings.Join(parts, "")
	})
	numbers := rapid.Custom(func(t *rapid.T) any {
		return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 0.5, 1, 71053, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324})).Draw(t, "number")
	})
	state := func(all ...spec.State) *rapid.Generator[any] { return rapid.SampledFrom(all).AsAny() }
	hostile := strings.Repeat("\x1b[31m\u202e多 ", 40)
	checks := rapid.SampledFrom([][]spec.CheckVerdict{nil, // written out: a verdict holds others
		{{Name: spec.InferencePerf, Verdict: spec.Pass, Detail: &spec.Verdict{Verdict: spec.Pass}}},
		{{Name: hostile, Phase: hostile, Verdict: spec.State(hostile), Reason: spec.Reason{Code: hostile, Text: hostile}},
			{Verdict: spec.NotRun, Reason: spec.Reason{Code: spec.NotAsked, Text: hostile}}, {Verdict: spec.NotRun, Seconds: math.NaN()}}}).AsAny()
	config := rapid.MakeConfig{
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: texts, reflect.Float64: numbers},
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[map[string]any](): rapid.SampledFrom([]map[string]any{nil, {}, {"p50": "inf", "p99": 3.5}, {"p50": math.NaN(), "p90": 1e300, "p99": true}}).AsAny(),
		},
		Fields: map[reflect.Type]map[string]*rapid.Generator[any]{
			reflect.TypeFor[spec.Verdict]():    {"Verdict": state(spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip), "Checks": checks},
			reflect.TypeFor[spec.Comparison](): {"Says": rapid.SampledFrom([]string{spec.IsBetter, spec.IsWorse, spec.IsMixed, spec.CannotTell}).AsAny()},
		},
	}
	for name, parts := range map[string]func(*rapid.T, *spec.Report){
		"of a run": func(*rapid.T, *spec.Report) {},
		"of a bench": func(t *rapid.T, r *spec.Report) {
			b := rapid.MakeCustom[spec.Bench](config).Draw(t, "bench")
			r.Bench = &b
		},
		"of two runs": func(t *rapid.T, r *spec.Report) {
			c := rapid.MakeCustom[spec.Comparison](config).Draw(t, "comparison")
			r.Comparison, r.Verdict = &c, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := rapid.MakeCustom[spec.Verdict](config).Draw(t, "verdict")
				trend := rapid.MakeCustom[spec.Trend](config).Draw(t, "trend")
				r := &spec.Report{Verdict: &v, Trend: &trend, Run: rapid.MakeCustom[spec.Run](config).Draw(t, "run"), Kept: texts.Draw(t, "kept").(string)}
				parts(t, r)
				holdsRules(t, r, textOf(t, r, layout.Palette{}))
			})
		})
	}
}

// TestAReportInASCIIHasATextInASCII but for the bar of a walk, which has its numbers
// beside it: a log may know no more. A bench has its own signs, with a word or a number
// beside each.
func TestAReportInASCIIHasATextInASCII(t *testing.T) {
	reports := textReports()
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		if strings.Contains(name, "hostile") || reports[name].Bench != nil {
			continue
		}
		for line := range strings.Lines(textOf(t, reports[name], layout.Palette{})) {
			if strings.ContainsFunc(line, func(r rune) bool { return r > unicode.MaxASCII }) && !regexp.MustCompile(`good at .*\[.*\] bad at .*, now `).MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

func TestALineNamesTheWorkersOfAFail(t *testing.T) {
	found := func(names ...string) []spec.Finding {
		return []spec.Finding{{Severity: spec.SeverityFail, Workers: names}, {Severity: spec.SeverityNote, Workers: []string{"note"}}}
	}
	var crowd []string
	for i := range 128 {
		crowd = append(crowd, fmt.Sprint(i))
	}
	for _, tt := range []struct {
		name string
		v    spec.Verdict
		want string
	}{
		{"named", spec.Verdict{Verdict: spec.Fail, Reason: "worker 5 stalled 4 times", Findings: found("5")}, "FAIL  worker 5 stalled 4 times"},
		{"all named", spec.Verdict{Verdict: spec.Fail, Reason: "workers 3, 5 and 7 stalled", Findings: found("3", "5", "7")}, "FAIL  workers 3, 5 and 7 stalled"},
		{"a number is no name", spec.Verdict{Verdict: spec.Fail, Reason: "2 workers stalled 5 times", Findings: found("5", "3")}, "FAIL  2 workers stalled 5 times (workers 5, 3)"},
		{"part of a name is no name", spec.Verdict{Verdict: spec.Fail, Reason: "worker 55 stalled", Findings: found("5")}, "FAIL  worker 55 stalled (worker 5)"},
		{"some are named", spec.Verdict{Verdict: spec.Fail, Reason: "worker 3 is slow", Findings: append(found("3"), found("4", "4")...)}, "FAIL  worker 3 is slow (worker 4)"},
		{"many", spec.Verdict{Verdict: spec.Fail, Reason: "slow", Findings: found(crowd...)}, "FAIL  slow (workers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 116 more)"},
		{"of no FAIL", spec.Verdict{Verdict: spec.Inconclusive, Reason: "not decided", Findings: found("5")}, "INCONCLUSIVE  not decided"},
		{"hostile", spec.Verdict{Verdict: spec.Fail, Reason: "a\nb\x1b[2J", Findings: found("\u202e")}, "FAIL  a b□[2J (worker □)"},
	} {
		if got := Line(&spec.Report{Verdict: &tt.v}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestOnlyARecordWithoutAnEndIsSaidToHaveNone: a run that has ended, and one that is not kept, is
// not said to have none.
func TestOnlyARecordWithoutAnEndIsSaidToHaveNone(t *testing.T) {
	for _, tt := range []struct {
		kept, start, end string
		want             bool
	}{{"d", "s", "", true}, {"d", "s", "e", false}, {"d", "", "", false}, {"", "s", "", false}} {
		r := &spec.Report{Kept: tt.kept, Run: spec.Run{Start: tt.start, End: tt.end}, Verdict: &spec.Verdict{Verdict: spec.Pass}}
		if got := strings.Contains(textOf(t, r, layout.Palette{}), "not ended: "); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestColourIsOfTheState(t *testing.T) {
	p := layout.Palette{On: true}
	got := textOf(t, textReports()["fail-stability"], p)
	for _, want := range []string{p.Red("FAIL") + "  worker 5 ", p.Yellow("INCONCLUSIVE"), p.Green("PASS"), p.Yellow("NOT JUDGED"), p.Red("fail   ") + " worker/stall", p.Cyan("note   "), p.Bold("Found")} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := textOf(t, textReports()["comparison"], p); !strings.HasPrefix(got, p.Red("WORSE")+"  after: ") || !strings.Contains(got, p.Yellow("cannot tell")) {
		t.Errorf("of a comparison:\n%s", got)
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAWriterThatFailsIsTold(t *testing.T) {
	for name, r := range textReports() {
		if err := Text(full{}, r); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
