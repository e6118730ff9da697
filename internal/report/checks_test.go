package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"

	"pgregory.net/rapid"
)

// checkedReport is a run that passed, of two workers.
func checkedReport() *spec.Report {
	return &spec.Report{
		Run: spec.Run{
			ID: "run-1", Version: "v1.2.3", Command: "aicr validate --url=http://inference.example:8000",
			Target: spec.Target{URL: "http://user:secret@inference.example:8000/v1?key=secret", Model: "example/model-8b"},
			Start:  "2026-03-01T10:00:00Z", End: "2026-03-01T10:04:37.5Z",
		},
		Kept:     "runs/run-1",
		Plan:     &spec.Plan{Profile: "standard"},
		Episodes: []spec.ReportEpisode{{At: 10, Until: 60}, {At: 70, Until: 120.25}},
		Lanes: []spec.Lane{
			{Worker: "0", GPU: "GPU-aaaa", Known: true, Requests: 100, Failed: 1, Tokens: 12800, Share: 1.01},
			{Worker: "1", GPU: "GPU-bbbb"},
		},
		Facts: []spec.Fact{{Name: "GPUs", Value: "2 × NVIDIA H100 80GB HBM3"}, {Name: "runtime", Value: "1.4.1"}},
		Verdict: &spec.Verdict{
			Verdict: spec.Pass, Reason: "throughput is 0.98 of the reference, no stall in 9.2 min of load", Profile: "standard",
			Ledgers: []spec.Ledger{
				{Name: spec.Integrity, State: spec.Pass, Reason: "2 of 2 workers served"},
				{Name: spec.Capability, State: spec.Pass, Reason: "throughput 0.98 of the reference"},
				{Name: spec.Stability, State: spec.Pass, Reason: "no stall in 9.2 min of load"},
			},
			Expectations: []spec.Expected{
				{
					Name: "throughput-of-reference", Want: ">= 0.92 of 72,318 tokens/s", Effective: "> 0.80, by a sequential test",
					Value: new(0.9825), Low: new(0.9639), High: new(1.001), N: 11, Unit: "ratio", State: spec.Pass,
				},
				{Name: "failed-requests", Want: "<= 0.01", Effective: "<= 0.01", Value: new(0.0), Low: new(0.0), High: new(0.0000121), N: 304905, Unit: "of requests", State: spec.Pass},
			},
			Figures: []spec.Figure{
				{Name: "throughput", Value: new(71052.5), Low: new(69710.8), High: new(72394.2), N: 11, Unit: "tokens/s", By: "t interval over episodes, 95 %"},
				{Name: "gross-ttft-p99", N: 11, Unit: "ms"},
			},
			Tests:    []spec.Walk{{Ledger: spec.Capability, Low: -4.5951, High: 4.5951, Values: []float64{-2.5, math.NaN(), -8.8704}}},
			Episodes: 11, LoadedS: 550,
		},
	}
}

// checkedFail is the report of a run of which one ledger failed.
func checkedFail(ledger string) *spec.Report {
	r := checkedReport()
	v := r.Verdict
	v.Verdict, v.Reason = spec.Fail, ledger+" failed"
	for i := range v.Ledgers {
		if v.Ledgers[i].Name == ledger {
			v.Ledgers[i].State, v.Ledgers[i].Reason = spec.Fail, "the reason of "+ledger
		}
	}
	switch ledger {
	case spec.Integrity:
		v.Findings = []spec.Finding{{
			ID: "worker/absent", Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh, Workers: []string{"1"},
			Summary: "worker 1 served nothing", Evidence: []string{"0 of 304,905 requests"}, Advice: []string{"kubectl logs of its pod"},
		}}
	case spec.Capability:
		v.Expectations[0].State, v.Expectations[0].Value = spec.Fail, new(0.61)
		v.Expectations[0].Note = "worker 1"
	case spec.Stability:
		v.Findings = []spec.Finding{{
			ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: []string{"1"}, GPUs: []string{"GPU-bbbb", "GPU-cccc"},
			Summary: "worker 1 stalled 7 times", Evidence: []string{"episode 2: from 20 s to 28 s"}, Advice: []string{"`py-spy dump --pid PID`"},
		}}
		v.Stalls = []spec.Stall{{Episode: 2, At: 20, Seconds: 8, Worker: "1", GPU: "GPU-bbbb", By: []string{"telemetry", "client"}}}
	}
	return r
}

// checkedNothing is the report of a run that came to nothing.
func checkedNothing(s spec.State, reason string) *spec.Report {
	r := checkedReport()
	v := r.Verdict
	v.Verdict, v.Reason = s, reason
	for i := range v.Ledgers {
		v.Ledgers[i].State, v.Ledgers[i].Reason = spec.NotJudged, "nothing was measured"
	}
	for i := range v.Expectations {
		e := &v.Expectations[i]
		e.State, e.Value, e.Low, e.High, e.N = spec.NotJudged, nil, nil, nil, 0
	}
	v.Figures, v.Tests, v.Episodes, v.LoadedS = nil, nil, 0, 0
	return r
}

// checkedKilled is the report of a run that somebody ended: it has no end of its own.
func checkedKilled() *spec.Report {
	r := checkedNothing(spec.Inconclusive, "not decided after 2 episodes")
	r.Run.End = ""
	return r
}

func checkedBench() *spec.Report {
	r := checkedNothing(spec.Pass, "1,000 of 1,000 requests served")
	r.Plan, r.Lanes, r.Facts = nil, nil, nil
	r.Verdict.Expectations = nil
	r.Bench = &spec.Bench{
		Requests: spec.BenchRequests{Sent: 1000, Served: 998, Failed: 2, Classes: map[string]int{"ok": 998, "timeout": 2}},
		Figures: []spec.BenchFigure{
			{Name: "ttft", Unit: "ms", N: 998, Mean: new(51.5), P50: new(48.0), P99: new(107.7), Max: new(math.Inf(1))},
			{Name: "itl", Unit: "ms"},
		},
		Client: spec.BenchClient{Valid: true},
	}
	return r
}

// checkedHostileText is text that wants to be something else.
const checkedHostileText = "</script><img onerror=alert(1)>]]>&amp;\x1b[31m\u202eevil\x00\xff\xfe\uffff\n::error::工作者 عامل"

func checkedHostile() *spec.Report {
	r := checkedFail(spec.Stability)
	r.Run.ID, r.Run.Version, r.Run.Command, r.Kept = checkedHostileText, checkedHostileText, checkedHostileText, checkedHostileText
	r.Run.Target.Model = checkedHostileText
	r.Facts[0].Name, r.Facts[0].Value = "gpu "+checkedHostileText, checkedHostileText
	r.Lanes[0].Worker, r.Lanes[0].GPU, r.Lanes[0].Share = checkedHostileText, checkedHostileText, math.NaN()
	v := r.Verdict
	v.Reason, v.Ledgers[0].Name, v.Ledgers[0].State = checkedHostileText, checkedHostileText, spec.State(checkedHostileText)
	v.Notes = []string{checkedHostileText}
	f := &v.Findings[0]
	f.ID, f.Severity, f.Summary = checkedHostileText, checkedHostileText, checkedHostileText
	f.Workers, f.GPUs, f.Evidence = []string{checkedHostileText}, []string{checkedHostileText}, []string{checkedHostileText, strings.Repeat("x", 5000)}
	e := &v.Expectations[0]
	e.Name, e.Want, e.Unit, e.Note = checkedHostileText, checkedHostileText, checkedHostileText, checkedHostileText
	e.Value, e.Low, e.High = new(math.NaN()), new(math.Inf(-1)), new(math.Inf(1))
	v.Expectations[1].Name = checkedHostileText
	v.LoadedS, v.Stalls[0].Seconds = math.NaN(), math.Inf(1)
	return r
}

// checkedReports are the reports whose golden files there are.
func checkedReports() map[string]*spec.Report {
	return map[string]*spec.Report{
		"pass":            checkedReport(),
		"fail-integrity":  checkedFail(spec.Integrity),
		"fail-capability": checkedFail(spec.Capability),
		"fail-stability":  checkedFail(spec.Stability),
		"inconclusive":    checkedNothing(spec.Inconclusive, "the tests had not decided after 20 episodes"),
		"invalid":         checkedNothing(spec.Invalid, "the client was the limit"),
		"skip":            checkedNothing(spec.Skip, "the recipe wants nothing of inference"),
		"killed":          checkedKilled(),
		"bench":           checkedBench(),
		"hostile":         checkedHostile(),
	}
}

func TestTheTimesOfARunAreThoseOfItsRecord(t *testing.T) {
	epoch := "1970-01-01T00:00:00Z"
	for _, test := range []struct {
		name, start, end string
		until            []float64
		wantStart, want  string
	}{
		{"as recorded", "2026-03-01T10:00:00Z", "2026-03-01T10:04:37.5Z", []float64{99}, "2026-03-01T10:00:00Z", "2026-03-01T10:04:37.5Z"},
		{"in another zone", "2026-03-01T11:00:00+01:00", "2026-03-01T10:01:00Z", nil, "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z"},
		{"killed", "2026-03-01T10:00:00Z", "", []float64{60.5, 30}, "2026-03-01T10:00:00Z", "2026-03-01T10:01:00.5Z"},
		{"killed at once", "2026-03-01T10:00:00Z", "", nil, "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"},
		{"an end before the start", "2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z", []float64{5}, "2026-03-01T10:00:00Z", "2026-03-01T10:00:05Z"},
		{"episodes that never end", "2026-03-01T10:00:00Z", "", []float64{math.NaN(), math.Inf(1), 1e300, -7}, "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"},
		{"no time at all", "yesterday", "today", nil, epoch, epoch},
		{"before there was time", "0000-01-01T00:00:00Z", "", nil, epoch, epoch},
		{"the last second of all", "9999-12-31T23:59:59Z", "", []float64{1000}, epoch, "1970-01-01T00:16:40Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &spec.Report{Run: spec.Run{Start: test.start, End: test.end}}
			for _, u := range test.until {
				r.Episodes = append(r.Episodes, spec.ReportEpisode{Until: u})
			}
			start, end := checkSpan(r)
			if got := start.Format(time.RFC3339Nano); got != test.wantStart {
				t.Errorf("it starts at %s, want %s", got, test.wantStart)
			}
			if got := end.Format(time.RFC3339Nano); got != test.want {
				t.Errorf("it ends at %s, want %s", got, test.want)
			}
		})
	}
}

func TestNoTwoChecksOfAGroupHaveOneName(t *testing.T) {
	v := &spec.Verdict{Expectations: []spec.Expected{{Name: "a"}, {Name: "a"}, {Name: "a (2)"}, {Name: " \n"}, {Name: ""}, {Name: "inference-perf"}}}
	seen := map[string]bool{}
	for _, c := range checksOf(&spec.Report{Verdict: v}) {
		if seen[c.group+c.name] || strings.TrimSpace(c.name) == "" {
			t.Errorf("%q is there twice, or is no name", c.name)
		}
		seen[c.group+c.name] = true
	}
}

// Names are given in a time that grows with their number alone, as what is allocated shows.
func TestThousandsOfChecksOfOneNameAreNamedOneByOne(t *testing.T) {
	const names = 3_000
	v := &spec.Verdict{Expectations: make([]spec.Expected, names)}
	for i := range v.Expectations {
		v.Expectations[i].Name = "a"
	}
	r := &spec.Report{Verdict: v}
	if all := checksOf(r); all[1].name != "a" || all[names].name != "a (3000)" {
		t.Errorf("the first is %q, the last %q", all[1].name, all[names].name)
	}
	if each := testing.AllocsPerRun(1, func() { checksOf(r) }) / names; each > 50 {
		t.Errorf("%.0f allocations a name", each)
	}
}

// An error that says "61 of 61 requests were served" says nothing.
func TestALedgerOfABenchThatDecidedNothingSaysWhy(t *testing.T) {
	const why, served = "interrupted after 61 requests, 61 of them served", "61 of 61 requests were served"
	for _, test := range []struct {
		name    string
		bench   *spec.Bench
		verdict spec.State
		ledger  spec.Ledger
		want    string
	}{
		{"of a bench", &spec.Bench{}, spec.Inconclusive, spec.Ledger{State: spec.Inconclusive, Reason: served}, why + "; " + served},
		{"that says it itself", &spec.Bench{}, spec.Inconclusive, spec.Ledger{State: spec.Inconclusive, Reason: "it was " + why}, "it was " + why},
		{"that says nothing", &spec.Bench{}, spec.Inconclusive, spec.Ledger{State: spec.Inconclusive}, why},
		{"that was not judged", &spec.Bench{}, spec.Inconclusive, spec.Ledger{State: spec.NotJudged, Reason: served}, served},
		{"of a bench that failed", &spec.Bench{}, spec.Fail, spec.Ledger{State: spec.Inconclusive, Reason: served}, served},
		{"of a run", nil, spec.Inconclusive, spec.Ledger{State: spec.Inconclusive, Reason: served}, served},
	} {
		r := &spec.Report{Bench: test.bench, Verdict: &spec.Verdict{Verdict: test.verdict, Reason: why, Ledgers: []spec.Ledger{test.ledger}}}
		if got := checksOf(r)[1].reason; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// anyCheckedReport draws a report of which nothing is as it should be.
func anyCheckedReport() *rapid.Generator[*spec.Report] {
	text := rapid.OneOf(rapid.String(), rapid.Just(""), rapid.Just(checkedHostileText),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(0, 9000), func(n int) string { return strings.Repeat("長", n) }),
		rapid.Map(rapid.IntRange(0, 9000), func(n int) string { return strings.Repeat("\x01", n) }))
	number := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}))
	pointer := rapid.Custom(func(t *rapid.T) *float64 {
		if rapid.Bool().Draw(t, "nil") {
			return nil
		}
		return new(number.Draw(t, "value"))
	})
	state := rapid.OneOf(rapid.SampledFrom([]spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip, spec.NotJudged}),
		rapid.Map(text, func(s string) spec.State { return spec.State(s) }))
	moment := rapid.OneOf(text, rapid.SampledFrom([]string{"2026-03-01T10:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z"}))
	texts := rapid.SliceOfN(text, 0, 3)
	return rapid.Custom(func(t *rapid.T) *spec.Report {
		r := &spec.Report{Verdict: &spec.Verdict{}, Kept: text.Draw(t, "kept"), Notes: texts.Draw(t, "notes")}
		r.Run = spec.Run{ID: text.Draw(t, "id"), Version: text.Draw(t, "version"), Command: text.Draw(t, "command"), Start: moment.Draw(t, "start"), End: moment.Draw(t, "end")}
		r.Run.Target = spec.Target{URL: text.Draw(t, "url"), Model: text.Draw(t, "model"), Scenario: text.Draw(t, "scenario")}
		for range rapid.IntRange(0, 3).Draw(t, "episodes") {
			r.Episodes = append(r.Episodes, spec.ReportEpisode{Until: number.Draw(t, "until")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "lanes") {
			r.Lanes = append(r.Lanes, spec.Lane{Worker: text.Draw(t, "worker"), GPU: text.Draw(t, "gpu"), Share: number.Draw(t, "share"), Known: rapid.Bool().Draw(t, "known")})
			r.Facts = append(r.Facts, spec.Fact{Name: text.Draw(t, "fact"), Value: text.Draw(t, "says")})
		}
		v := r.Verdict
		v.Verdict, v.Reason, v.LoadedS, v.Notes = state.Draw(t, "verdict"), text.Draw(t, "reason"), number.Draw(t, "loaded"), texts.Draw(t, "notes")
		for range rapid.IntRange(0, 3).Draw(t, "ledgers") {
			name := text.Draw(t, "ledger")
			v.Ledgers = append(v.Ledgers, spec.Ledger{Name: name, State: state.Draw(t, "state"), Reason: text.Draw(t, "reason")})
			v.Tests = append(v.Tests, spec.Walk{Ledger: name, Low: number.Draw(t, "low"), High: number.Draw(t, "high"), Values: []float64{number.Draw(t, "walk")}})
		}
		for range rapid.IntRange(0, 4).Draw(t, "expectations") {
			v.Expectations = append(v.Expectations, spec.Expected{
				Name: text.Draw(t, "name"), Want: text.Draw(t, "want"), Effective: text.Draw(t, "effective"), Unit: text.Draw(t, "unit"), Note: text.Draw(t, "note"),
				Value: pointer.Draw(t, "value"), Low: pointer.Draw(t, "low"), High: pointer.Draw(t, "high"), N: rapid.Int().Draw(t, "n"), State: state.Draw(t, "state"),
			})
			v.Figures = append(v.Figures, spec.Figure{Name: text.Draw(t, "name"), Value: pointer.Draw(t, "value"), Low: pointer.Draw(t, "low"), High: pointer.Draw(t, "high"), By: text.Draw(t, "by")})
			v.Stalls = append(v.Stalls, spec.Stall{At: number.Draw(t, "at"), Seconds: number.Draw(t, "seconds"), Worker: text.Draw(t, "worker"), By: texts.Draw(t, "by")})
			v.Findings = append(v.Findings, spec.Finding{
				ID: text.Draw(t, "id"), Severity: text.Draw(t, "severity"), Confidence: text.Draw(t, "confidence"), Summary: text.Draw(t, "summary"),
				Workers: texts.Draw(t, "workers"), GPUs: texts.Draw(t, "gpus"), Evidence: texts.Draw(t, "evidence"), Advice: texts.Draw(t, "advice"),
			})
		}
		if rapid.Bool().Draw(t, "bench") {
			r.Bench = &spec.Bench{
				Figures:  []spec.BenchFigure{{Name: text.Draw(t, "name"), Unit: text.Draw(t, "unit"), Mean: pointer.Draw(t, "mean"), P99: pointer.Draw(t, "p99")}},
				Requests: spec.BenchRequests{Classes: map[string]int{text.Draw(t, "class"): 1, text.Draw(t, "class"): 2}},
				Client:   spec.BenchClient{Reasons: []spec.BenchReason{{Text: text.Draw(t, "why")}}},
			}
		}
		return r
	})
}
