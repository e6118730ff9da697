package metric_test

import (
	"math"
	"strings"
	"testing"

	"aicr/internal/load"
	"aicr/internal/load/metric"
)

// two requests: one with a role-only event, three events for six tokens, half a character
// and a finish without text, one plain; and a failure that ends last.
func rosettaSet() *set {
	var s set
	r := s.add(stream(0, 100, 6, 140, 150, 190)) // ends 191
	r.FirstChoice, r.LastChoice = 120*ms, 190.5*ms
	s.stamps[0] = append(s.stamps[0], 120*ms, 160*ms, 190.5*ms)
	s.add(stream(1, 200, 2, 230, 250))        // ends 251
	s.add(failed(2, 1095, load.Timeout), nil) // ends 1100
	return &s
}

func TestEachToolInItsOwnWords(t *testing.T) {
	s := rosettaSet()
	table := metric.Rosetta(s.log(), nil, nil, metric.Options{})
	if len(table.Rows) != 5*7 {
		t.Fatalf("%d rows, want 35", len(table.Rows))
	}
	nan := math.NaN()
	for _, c := range []struct {
		tool           metric.Tool
		measure        metric.Measure
		n              int64
		mean, p50, p99 float64
	}{
		{metric.AIPerf, metric.TTFT, 2, 35, 35, 39.9},
		{metric.VLLM, metric.TTFT, 2, 25, 25, 29.9}, // the role-only event counts
		{metric.SGLang, metric.TTFT, 2, 35, 35, 39.9},
		{metric.GuideLLM, metric.TTFT, 2, 35, 30, 40}, // a value that occurred
		{metric.InferencePerf, metric.TTFT, 2, 35, 35, 39.9},

		{metric.AIPerf, metric.ITL, 2, 15, 15, 19.9},          // 50/5, 20/1
		{metric.VLLM, metric.ITL, 6, 90.5 / 6, 15, 29.5},      // 20 10 10 30 0.5, 20
		{metric.SGLang, metric.ITL, 3, 70. / 3, 20, 39.6},     // 10 40 20
		{metric.GuideLLM, metric.ITL, 2, 70. / 6, 10, 20},     // weights 5 and 1
		{metric.InferencePerf, metric.ITL, 6, 70. / 6, 5, 39}, // 0 0 0 10 20 40
		{metric.AIPerf, metric.TPOT, 0, nan, nan, nan},
		{metric.VLLM, metric.TPOT, 2, 17.05, 17.05, 19.941}, // (190.5-120)/5, (250-230)/1
		{metric.SGLang, metric.TPOT, 2, (10.2 + 21) / 2, 15.6, 20.892},
		{metric.GuideLLM, metric.TPOT, 2, (90. + 50) / 8, 15, 25},
		{metric.InferencePerf, metric.TPOT, 2, 15, 15, 19.9},

		{metric.AIPerf, metric.E2ELatency, 2, 70, 70, 89.6},
		{metric.VLLM, metric.E2ELatency, 2, 70.25, 70.25, 90.095}, // to the finish, and to the last text
		{metric.SGLang, metric.E2ELatency, 2, 71, 71, 90.6},
		{metric.GuideLLM, metric.E2ELatency, 2, 71, 51, 91},
		{metric.InferencePerf, metric.E2ELatency, 2, 71, 71, 90.6},

		{metric.AIPerf, metric.Duration, 2, 0.15, nan, nan}, // the failure does not count
		{metric.VLLM, metric.Duration, 2, 1, nan, nan},
		{metric.SGLang, metric.Duration, 2, 1, nan, nan},
		{metric.GuideLLM, metric.Duration, 2, 1, nan, nan},
		{metric.InferencePerf, metric.Duration, 2, 1, nan, nan},
		{metric.AIPerf, metric.OutputThroughput, 2, 8, nan, nan},
		{metric.VLLM, metric.OutputThroughput, 2, 8, nan, nan},
		{metric.AIPerf, metric.RequestThroughput, 2, 2, nan, nan},
		{metric.InferencePerf, metric.RequestThroughput, 2, 2, nan, nan},
	} {
		r, ok := table.Get(c.tool, c.measure)
		if !ok {
			t.Errorf("no %s of %s", c.measure, c.tool)
			continue
		}
		what := string(c.tool) + " " + string(c.measure)
		near(t, what+" n", float64(r.N), float64(c.n))
		near(t, what+" mean", r.Mean, c.mean)
		near(t, what+" p50", r.P50, c.p50)
		near(t, what+" p99", r.P99, c.p99)
	}
}

func TestEveryRowIsExplained(t *testing.T) {
	for _, r := range metric.Rosetta(rosettaSet().log(), nil, nil, metric.Options{}).Rows {
		if r.Definition == "" || r.Unit == "" {
			t.Errorf("%s %s: %+v", r.Tool, r.Measure, r)
		}
		if r.Name == "" && !math.IsNaN(r.Mean) {
			t.Errorf("%s has no %s, yet a figure", r.Tool, r.Measure)
		}
	}
}

func TestRosettaSaysWhereStampsAreMissing(t *testing.T) {
	s := rosettaSet()
	for _, c := range []struct {
		name    string
		table   metric.Table
		defined bool
	}{
		{"pooled gaps", metric.Rosetta(s.bare(), s.gaps(), s.choices(), metric.Options{}), true},
		{"nothing kept", metric.Rosetta(s.bare(), nil, nil, metric.Options{}), false},
	} {
		for _, tool := range []metric.Tool{metric.VLLM, metric.SGLang, metric.InferencePerf} {
			r, _ := c.table.Get(tool, metric.ITL)
			if !strings.Contains(r.Caveat, "not kept") || strings.Contains(r.Caveat, "pooled") != c.defined {
				t.Errorf("%s: %s says %q", c.name, tool, r.Caveat)
			}
			if math.IsNaN(r.P99) == c.defined {
				t.Errorf("%s: %s p99 is %v", c.name, tool, r.P99)
			}
		}
		if r, _ := c.table.Get(metric.AIPerf, metric.ITL); r.Caveat != "" || math.IsNaN(r.P99) {
			t.Errorf("%s: AIPerf's ITL needs no stamps: %+v", c.name, r)
		}
	}
	r, _ := metric.Rosetta(s.bare(), s.gaps(), s.choices(), metric.Options{}).Get(metric.InferencePerf, metric.ITL)
	near(t, "zeros within events still count", r.P50, 0)
	near(t, "mean", r.Mean, 70./6)
	r, _ = metric.Rosetta(s.bare(), s.gaps(), s.choices(), metric.Options{}).Get(metric.VLLM, metric.ITL)
	near(t, "events without text are in vLLM's mean", r.Mean, 90.5/6)
}

func TestRosettaOfNothing(t *testing.T) {
	for _, r := range metric.Rosetta(load.NewLog(nil, nil, nil), nil, nil, metric.Options{}).Rows {
		if !math.IsNaN(r.Mean) {
			t.Errorf("%s %s of nothing is %v", r.Tool, r.Measure, r.Mean)
		}
	}
}
