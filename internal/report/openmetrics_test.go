package report

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"aicr/internal/spec"
)

func TestOpenMetrics(t *testing.T) {
	goldens(t, "openmetrics", OpenMetrics, "pass", "fail", "inconclusive", "invalid", "skip", "killed", "bench", "bare", "hostile")
}

func openMetrics(t *testing.T, r *spec.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := OpenMetrics(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// families reads a page as the node exporter does.
func families(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("%v in\n%s", err, page)
	}
	return all
}

// gaugeValue is the value of the series whose labels have these, or NaN where there is none.
func gaugeValue(all map[string]*dto.MetricFamily, name string, want ...label) float64 {
	for _, m := range all[name].GetMetric() {
		have := 0
		for _, l := range m.GetLabel() {
			for _, w := range want {
				if l.GetName() == w.name && l.GetValue() == w.value {
					have++
				}
			}
		}
		if have == len(want) {
			return m.GetGauge().GetValue()
		}
	}
	return math.NaN()
}

// One file is read by both: by those who know the older text, and by those who hold it
// against OpenMetrics, where a family is in one piece, has its type and help before its
// series, no series is there twice, no number is NaN here, and all ends with EOF.
func TestThePageIsGoodForPrometheusAndForOpenMetrics(t *testing.T) {
	typed := regexp.MustCompile(`^# TYPE ([a-z_0-9]+) gauge$`)
	helped := regexp.MustCompile(`^# HELP ([a-z_0-9]+) [^"\\]+\.$`)
	const text = `"(?:[^"\\]|\\[\\n"])*"`
	sample := regexp.MustCompile(`^([a-z_0-9]+)(\{[a-z_]+=` + text + `(?:,[a-z_]+=` + text + `)*\})? -?[0-9.]+(e[+-][0-9]+)?$`)
	for _, c := range toldReports() {
		t.Run(c.name, func(t *testing.T) {
			page := openMetrics(t, c.report)
			for name, f := range families(t, page) {
				if f.GetType() != dto.MetricType_GAUGE || f.GetHelp() == "" || !strings.HasPrefix(name, "aicr_") {
					t.Errorf("%s is a %s, with the help %q", name, f.GetType(), f.GetHelp())
				}
				if regexp.MustCompile(`_(total|bucket|count|sum|created)$`).MatchString(name) {
					t.Errorf("%s ends like what is no gauge", name)
				}
			}
			body, ended := strings.CutSuffix(page, "\n# EOF\n")
			if !ended {
				t.Fatalf("it ends with %q", page[max(0, len(page)-20):])
			}
			family, ready := "", 0
			families, series := map[string]bool{}, map[string]bool{}
			for line := range strings.SplitSeq(body, "\n") {
				switch {
				case helped.MatchString(line):
					family, ready = helped.FindStringSubmatch(line)[1], 1
					if families[family] {
						t.Errorf("%s is there in two pieces", family)
					}
					families[family] = true
				case typed.MatchString(line) && ready == 1 && typed.FindStringSubmatch(line)[1] == family:
					ready = 2
				case sample.MatchString(line) && ready == 2 && sample.FindStringSubmatch(line)[1] == family:
					key := line[:strings.LastIndexByte(line, ' ')]
					if series[key] {
						t.Errorf("%s is there twice", key)
					}
					series[key] = true
				default:
					t.Errorf("a line that is none of OpenMetrics, or in the wrong place: %q", line)
				}
			}
		})
	}
}

func TestTheVerdictIsOneOfItsStates(t *testing.T) {
	for _, is := range []spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip} {
		r := toldPass()
		r.Verdict.Verdict = is
		all := families(t, openMetrics(t, r))
		if n := len(all["aicr_verdict"].GetMetric()); n != 5 {
			t.Errorf("there are %d states", n)
		}
		for _, s := range []spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip} {
			if got := gaugeValue(all, "aicr_verdict", label{"state", string(s)}); got != *gaugeIf(s == is) {
				t.Errorf("of %s, %s is %v", is, s, got)
			}
		}
	}
}

// What is not measured has no series: a zero would be a value, and a good one of stalls.
func TestWhatIsNotMeasuredHasNoSeries(t *testing.T) {
	r := toldInvalid()
	r.Verdict.Expectations[1].Value, r.Verdict.Expectations[1].Low = new(math.NaN()), new(math.Inf(-1))
	r.Run.Start, r.Run.End = "", ""
	r.Episodes = nil
	all := families(t, openMetrics(t, r))
	for _, name := range []string{"aicr_expectation_value", "aicr_expectation_low", "aicr_expectation_samples", "aicr_throughput_tokens_per_second", "aicr_ttft_p99_seconds",
		"aicr_stalls", "aicr_stall_seconds", "aicr_fleet_stalls", "aicr_requests", "aicr_run_timestamp_seconds"} {
		if f := all[name]; f != nil {
			t.Errorf("%s is there: %v", name, f)
		}
	}
	if got := gaugeValue(all, "aicr_expectation_met", label{"name", "throughput-of-reference"}); !math.IsNaN(got) {
		t.Errorf("an expectation that was not judged is met: %v", got)
	}
}

func TestFiguresAreInBaseUnits(t *testing.T) {
	all := families(t, openMetrics(t, toldPass()))
	for name, want := range map[string]float64{"aicr_throughput_tokens_per_second": 71_661, "aicr_throughput_low_tokens_per_second": 70_179, "aicr_throughput_high_tokens_per_second": 73_144,
		"aicr_ttft_p99_seconds": 0.0741, "aicr_ttft_p99_low_seconds": 0.0666, "aicr_ttft_p99_high_seconds": 0.0805,
		"aicr_run_timestamp_seconds": 1_780_574_650.5, "aicr_loaded_seconds": 100, "aicr_episodes": 2} {
		if got := gaugeValue(all, name); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	all = families(t, openMetrics(t, toldBench()))
	for name, want := range map[string]float64{"aicr_throughput_tokens_per_second": 9_000, "aicr_ttft_p99_seconds": 0.0515} {
		if got := gaugeValue(all, name); math.Abs(got-want) > 1e-9*want {
			t.Errorf("of a bench, %s is %v, want %v", name, got, want)
		}
	}
}

func TestStallsAreTheWorkersAndTheFleetsOwn(t *testing.T) {
	all := families(t, openMetrics(t, toldFail()))
	for _, tt := range []struct {
		name   string
		labels []label
		want   float64
	}{
		{"aicr_stalls", []label{{"worker", "1"}, {"gpu", "GPU-1"}}, 2},
		{"aicr_stall_seconds", []label{{"worker", "1"}, {"gpu", "GPU-1"}}, 14.5},
		{"aicr_stalls", []label{{"worker", "0"}, {"gpu", "GPU-0"}}, 0},
		{"aicr_fleet_stalls", nil, 1},
		{"aicr_fleet_stall_seconds", nil, 5},
		{"aicr_findings", []label{{"id", "worker/stall"}, {"severity", "fail"}}, 1},
		{"aicr_requests", []label{{"outcome", "served"}}, 56_926},
	} {
		if got := gaugeValue(all, tt.name, tt.labels...); got != tt.want {
			t.Errorf("%s%v is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
}

// A worker has one series, whoever knows its GPU: a second one with a zero would say
// that it is well.
func TestAWorkerHasOneSeriesOfStalls(t *testing.T) {
	for _, tt := range []struct {
		name, lane string
		stalls     []string // their GPUs
		gpu        string
	}{
		{"nobody knows", "", []string{""}, ""},
		{"the lane knows", "GPU-1", []string{""}, "GPU-1"},
		{"the stall knows", "", []string{"GPU-1"}, "GPU-1"},
		{"one stall knows", "", []string{"", "GPU-1"}, "GPU-1"},
		{"both know", "GPU-1", []string{"GPU-1"}, "GPU-1"},
		{"they do not agree", "GPU-1", []string{"GPU-2", "GPU-3"}, "GPU-2"},
		{"it did not stall", "GPU-1", nil, "GPU-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := toldPass()
			r.Lanes = []spec.Lane{{Worker: "1", GPU: tt.lane}}
			for _, gpu := range tt.stalls {
				r.Verdict.Stalls = append(r.Verdict.Stalls, spec.Stall{Worker: "1", GPU: gpu, Seconds: 2})
			}
			all := families(t, openMetrics(t, r))
			for name, want := range map[string]int{"aicr_stalls": len(tt.stalls), "aicr_stall_seconds": 2 * len(tt.stalls)} {
				series := all[name].GetMetric()
				if len(series) != 1 || series[0].GetGauge().GetValue() != float64(want) {
					t.Fatalf("%s is %v, want one of %d", name, series, want)
				}
				gpu := ""
				for _, l := range series[0].GetLabel() {
					if l.GetName() == "gpu" {
						gpu = l.GetValue()
					}
				}
				if gpu != tt.gpu {
					t.Errorf("%s has the GPU %q, want %q", name, gpu, tt.gpu)
				}
			}
		})
	}
}

// Without a time no alert would ever say that a run is too old.
func TestARunThatDidNotEndGrowsOldToo(t *testing.T) {
	for _, tt := range []struct {
		name     string
		episodes int
		want     float64
	}{{"with episodes", 2, 1_780_574_400 + 130}, {"before the first", 0, 1_780_574_400}} {
		r := toldKilled()
		r.Episodes = r.Episodes[:tt.episodes]
		if got := gaugeValue(families(t, openMetrics(t, r)), "aicr_run_timestamp_seconds"); got != tt.want {
			t.Errorf("%s: it is of %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A machine that runs aicr may look at many deployments: each series says whose it is,
// and only one of them says which run it was.
func TestEverySeriesSaysWhoseItIs(t *testing.T) {
	for name, f := range families(t, openMetrics(t, toldFail())) {
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			if have["target"] != "http://gateway:8000/v1" || have["model"] != "llama-3.1-8b" {
				t.Errorf("%s has the labels %v", name, have)
			}
			if _, ok := have["run"]; ok != (name == "aicr_run_info") {
				t.Errorf("%s has a label that is new with every run: %v", name, have)
			}
		}
	}
}

func TestATargetIsNamedWithoutItsSecrets(t *testing.T) {
	for _, tt := range []struct {
		target spec.Target
		want   string
	}{
		{spec.Target{URL: "http://gateway:8000"}, "http://gateway:8000"},
		{spec.Target{URL: "https://me:word@gateway/v1/?key=word#word"}, "https://gateway/v1"},
		{spec.Target{URL: "http://me:wo rd@gateway"}, ""},
		{spec.Target{URL: "word"}, ""},
		{spec.Target{}, ""},
		{spec.Target{Scenario: "healthy", Simulated: true}, "sim:healthy"},
	} {
		if got := targetName(tt.target); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.target, got, tt.want)
		}
	}
}

// Names that differ in nothing that can be shown are one series, not a broken page.
func TestNamesThatLookAlikeAreOneSeries(t *testing.T) {
	r := toldFail()
	r.Verdict.Stalls = []spec.Stall{{Worker: "a\x00", Seconds: 1}, {Worker: "a\x01", Seconds: 2}}
	r.Verdict.Findings = []spec.Finding{{ID: "a\x00", Severity: "fail"}, {ID: "a\x01", Severity: "fail"}}
	all := families(t, openMetrics(t, r))
	if got := gaugeValue(all, "aicr_stall_seconds", label{"worker", "a□"}); got != 3 {
		t.Errorf("the stalls are %v", all["aicr_stall_seconds"])
	}
	if n := len(all["aicr_findings"].GetMetric()); n != 1 {
		t.Errorf("there are %d series of findings", n)
	}
}
