package graph

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// printed is a log of AIPerf with a result in it.
func printed(t *testing.T, name string, change ...string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/aiperf/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(change...).Replace(string(data))
	return []byte("12:00:01 INFO starting\n╭──────╮\n" + AIPerfSentinel + "\n" + text + "\n" + AIPerfSentinel + "\n")
}

func TestAIPerfsResultIsReadFromItsLog(t *testing.T) {
	r, err := ReadAIPerfLog(printed(t, "worker-killed.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Version == "" || r.Served != 328 || r.Failed != 72 || r.Throughput < 2904 || r.Throughput > 2905 {
		t.Errorf("it reads %+v", r)
	}
	if diff := cmp.Diff(map[string]float64{"p50": 53.3266235, "p90": 119.45651090000001, "p99": 198.91839192}, r.TTFT); diff != "" {
		t.Error(diff)
	}
	crlf := []byte(strings.ReplaceAll(string(printed(t, "healthy.json")), "\n", "\r\n"))
	if _, err := ReadAIPerfLog(crlf[:len(crlf)-2]); err != nil { // without its last line's end
		t.Errorf("lines that end otherwise: %v", err)
	}
}

func TestWhatAIPerfDoesNotSayIsAnErrorThatNamesTheField(t *testing.T) {
	text := string(printed(t, "healthy.json"))
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"nothing":        {"12:00:01 INFO starting\n", []string{"has no ===AIPERF-RESULT==="}},
		"cut off":        {text[:len(text)-30], []string{"once", "cut off"}},
		"twice":          {text + text, []string{"4 times"}},
		"in the middle":  {strings.ReplaceAll(text, AIPerfSentinel, "x "+AIPerfSentinel), []string{"has no"}},
		"two objects":    {AIPerfSentinel + "\n{}{}\n" + AIPerfSentinel, []string{"more than one JSON object"}},
		"no object":      {AIPerfSentinel + "\nTraceback\n" + AIPerfSentinel, []string{"not one JSON object"}},
		"an empty one":   {AIPerfSentinel + "\n{}\n" + AIPerfSentinel, []string{"output_token_throughput.avg is missing", "time_to_first_token.p99 is missing", "request_count.avg is missing"}},
		"no TTFT at all": {string(printed(t, "healthy.json", `"time_to_first_token"`, `"time_to_first_chunk"`)), []string{"time_to_first_token.p50 is missing", "time_to_first_token.p99 is missing"}},
		"a word":         {string(printed(t, "healthy.json", `"avg": 2283.9706372734872`, `"avg": "fast"`)), []string{`output_token_throughput.avg is no number: "fast"`}},
		"null":           {string(printed(t, "healthy.json", `"avg": 2283.9706372734872`, `"avg": null`)), []string{"output_token_throughput.avg is missing"}},
		"below 0":        {string(printed(t, "healthy.json", `"avg": 2283.9706372734872`, `"avg": -1`)), []string{"output_token_throughput.avg is below 0"}},
		"another unit": {string(printed(t, "healthy.json", `"unit": "tokens/sec",
  "avg": 2283`, `"unit": "tokens/min",
  "avg": 2283`)), []string{"in tokens/min, not in tokens/sec"}},
		"cancelled":          {string(printed(t, "healthy.json", `"was_cancelled": false`, `"was_cancelled": true`)), []string{"was_cancelled"}},
		"not whole":          {string(printed(t, "healthy.json", `"is_complete": true`, `"is_complete": false`)), []string{"is_complete"}},
		"a block of nothing": {string(printed(t, "healthy.json", `"request_count": {`, `"request_count": 7, "was": {`)), []string{"request_count.avg: request_count is no block"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReadAIPerfLog([]byte(c.log))
			if err == nil {
				t.Fatalf("it reads %+v", r)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in: %v", w, err)
				}
			}
		})
	}
}

func aiperfSettings() *Settings {
	s := testSettings()
	s.Engine, s.AIPerf = EngineAIPerf, &AIPerfLoad{Concurrency: 16, Requests: 128, Warmup: 16, InputTokens: 128, OutputTokens: 128}
	return s
}

func TestAIPerfsFiguresGoThroughTheSameJudge(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		floor   float64
		ceiling float64
		want    spec.State
		notes   []string
	}{
		"above the floor": {"healthy.json", 2000, 2000, spec.Pass, []string{"summary alone"}},
		"below it":        {"healthy.json", 9000, 2000, spec.Fail, nil},
		"too slow":        {"healthy.json", 2000, 50, spec.Fail, nil},
		"with failures":   {"worker-killed.json", 2000, 2000, spec.Pass, []string{"72 of 400 requests failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReadAIPerfLog(printed(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			s := aiperfSettings()
			e := r.Episode(s.aiperfPoint(), time.Unix(0, 0))
			limits, _ := spec.DefaultThresholds(spec.ProfileClassic)
			v := judge.Judge(&spec.Plan{Profile: spec.ProfileClassic, Point: s.aiperfPoint(), Thresholds: limits, Constraints: []spec.Constraint{
				{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: c.floor, Unit: "tokens/s", Tolerance: 0.1},
				{Name: spec.ConstraintTTFT, Comparator: "<=", Threshold: c.ceiling, Unit: "ms", Tolerance: 0.1},
			}}, nil, e)
			if v.Verdict != c.want {
				t.Errorf("%s: %s, want %s", v.Verdict, v.Reason, c.want)
			}
			for _, n := range c.notes {
				if !strings.Contains(strings.Join(v.Notes, "\n"), n) {
					t.Errorf("%q is not among its notes: %q", n, v.Notes)
				}
			}
		})
	}
	// A summary shows neither a worker nor a stall.
	r, err := ReadAIPerfLog(printed(t, "healthy.json"))
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := spec.DefaultThresholds(spec.ProfileStandard)
	v := judge.Judge(&spec.Plan{Profile: spec.ProfileStandard, Thresholds: limits}, []spec.Event{{Kind: spec.EventStage, Stage: "end"}}, r.Episode(aiperfSettings().aiperfPoint(), time.Unix(0, 0)))
	if v.Verdict == spec.Pass || v.Verdict == spec.Skip {
		t.Errorf("by profile standard a summary is %s: %s", v.Verdict, v.Reason)
	}
	if CheckEngine(EngineAIPerf, spec.ProfileStandard) == "" || CheckEngine(EngineAIPerf, spec.ProfileClassic) != "" || CheckEngine(EngineOwn, spec.ProfileStandard) != "" {
		t.Error("an engine goes with a profile that it cannot serve, or not with one that it can")
	}
}

func TestHowAIPerfEndsIsToldInWords(t *testing.T) {
	aiperf := func(code int, reason string) kube.Object {
		o := ended(code, reason, "")
		o.List("status", "containerStatuses")[0]["name"] = AIPerfContainer
		o.List("spec", "containers")[0]["name"] = AIPerfContainer
		return o
	}
	whole := strings.Split(strings.TrimSuffix(string(printed(t, "healthy.json")), "\n"), "\n")
	none := strings.Split(strings.TrimSuffix(string(printed(t, "worker-killed.json", `"avg": 328.0`, `"avg": 0`)), "\n"), "\n")
	for name, c := range map[string]struct {
		pod   kube.Object
		log   []string
		by    string
		words string
	}{
		"well":                    {aiperf(0, "Completed"), whole, ByAIPerf, ""},
		"well, and without words": {aiperf(0, "Completed"), []string{"bye"}, "", "has no ===AIPERF-RESULT==="},
		"well, and half":          {aiperf(0, "Completed"), whole[:40], "", "cut off"},
		"badly, with a result":    {aiperf(1, "Error"), whole, "", "AIPerf failed (exit code 1)"},
		"nothing served":          {aiperf(0, "Completed"), none, "", "all 72 requests failed"},
		"killed":                  {aiperf(137, "Error"), nil, "", "killed (exit code 137)"},
		"out of memory":           {aiperf(137, "OOMKilled"), nil, "", "killed for its memory"},
		"not in its image":        {aiperf(127, "Error"), nil, "", "not in its image"},
		"an answer's log is lost": {aiperf(noAnswer, "Error"), nil, "", "nothing answered, so that AIPerf was not begun (exit code 69)"},
		"a flag that is gone":     {aiperf(2, "Error"), []string{"Usage: aiperf", "│ Unknown option: --model │"}, "", "did not take its arguments (exit code 2): its command line may have changed between versions: Unknown option: --model"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.breaks = 1
				go func() {
					f.print(time.Millisecond, c.log...)
					f.change(func() { f.pod = c.pod })
				}()
				out, err := FollowLoad(t.Context(), f, aiperfSettings(), Told{}, &memorySpool{}, nil)
				if err != nil || out.By != c.by || !strings.Contains(out.Why, c.words) {
					t.Errorf("by %q: %s (%v), want %q: %s", out.By, out.Why, err, c.by, c.words)
				}
				if (out.Episode != nil) != (c.by == ByAIPerf) || c.by == "" && out.Reason == "" {
					t.Errorf("it came to %+v", out)
				}
			})
		})
	}
}

func FuzzAIPerfLog(f *testing.F) {
	data, _ := os.ReadFile("testdata/aiperf/worker-killed.json")
	f.Add([]byte(AIPerfSentinel + "\n" + string(data) + "\n" + AIPerfSentinel + "\n"))
	f.Add([]byte(AIPerfSentinel + "\n{\"request_count\":{\"avg\":1}}\n" + AIPerfSentinel))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := ReadAIPerfLog(log)
		if err != nil {
			return
		}
		for _, p := range []string{"p50", "p90", "p99"} {
			if _, ok := r.TTFT[p]; !ok {
				t.Errorf("%s is not there, and nobody said so", p)
			}
		}
		if !(r.Throughput >= 0) {
			t.Errorf("throughput %v", r.Throughput)
		}
	})
}
