package metric_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"aicr/internal/load"
	"aicr/internal/load/metric"
	"aicr/internal/stats"
)

const ms = 1_000_000 // nanoseconds

// stream is a served request: sent at, content events at, in milliseconds.
func stream(seq, sent int64, tokens int32, events ...int64) (load.Record, []int64) {
	stamps := make([]int64, len(events))
	for i, e := range events {
		stamps[i] = e * ms
	}
	r := load.Record{
		Seq: seq, Intended: sent * ms, Sent: sent * ms, Phase: load.Steady, Flags: load.HasUsage,
		FirstChoice: stamps[0], FirstContent: stamps[0], FirstAnswer: stamps[0], LastContent: stamps[len(stamps)-1],
		End: stamps[len(stamps)-1] + ms, Chunks: int32(len(stamps)), PromptTokens: 10, CompletionTokens: tokens,
	}
	if len(stamps) > 1 {
		r.SecondContent = stamps[1]
	}
	return r, stamps
}

func failed(seq, sent int64, class load.Class) load.Record {
	return load.Record{Seq: seq, Intended: sent * ms, Sent: sent * ms, End: (sent + 5) * ms, Phase: load.Steady, Class: class}
}

type set struct {
	records []load.Record
	stamps  [][]int64
}

func (s *set) add(r load.Record, stamps []int64) *load.Record {
	s.records, s.stamps = append(s.records, r), append(s.stamps, stamps)
	return &s.records[len(s.records)-1]
}

func (s *set) log() *load.Log { return load.NewLog(s.records, s.stamps, nil) }

func (s *set) bare() *load.Log { return load.NewLog(s.records, nil, nil) }

func (s *set) gaps() *load.Gaps {
	g := load.NewGaps()
	for i, x := range s.stamps {
		g.Add(x[:s.records[i].Chunks])
	}
	return g
}

func (s *set) choices() *load.Gaps {
	g, l := load.NewGaps(), s.log()
	for r := range l.All() {
		g.Add(l.Choices(r))
	}
	return g
}

func get(t *testing.T, s *metric.Summary, tag string) metric.Distribution {
	t.Helper()
	d, ok := s.Get(tag)
	if !ok {
		t.Fatalf("no %s", tag)
	}
	return d
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Abs(want)) && !(math.IsNaN(got) && math.IsNaN(want)) && got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestDefinitionsOfARequest(t *testing.T) {
	var s set
	r := s.add(stream(0, 100, 5, 140, 150, 150, 190))
	r.FirstAnswer = 150 * ms
	r.ReasoningTokens = 2
	r.Flags |= load.HasCached
	r.CachedTokens = 4
	r.Connect, r.TLS, r.Resolve = 3*ms, 2*ms, ms
	r.BytesIn, r.BytesOut = 2048, 512
	got := metric.Summarize(s.log(), nil, metric.Options{RequestedTokens: 10})
	for tag, want := range map[string]float64{
		"request_latency":                  90,
		"time_to_first_token":              40,
		"time_to_second_token":             10,
		"time_to_first_output_token":       50,
		"decode_duration":                  50,
		"inter_token_latency":              12.5,
		"output_token_throughput_per_user": 80,
		"e2e_output_token_throughput":      5 / 0.09,
		"prefill_throughput_per_user":      10 / 0.04,
		"inter_chunk_latency":              50.0 / 3,
		"output_sequence_length":           5,
		"output_token_count":               3,
		"reasoning_token_count":            2,
		"input_sequence_length":            10,
		"usage_total_tokens":               15,
		"usage_prompt_cache_read_tokens":   4,
		"osl_mismatch_diff_pct":            -50,
		"osl_mismatch_count":               1,
		"http_req_connecting":              5,
		"http_req_connection_overhead":     6,
		"http_req_duration":                91,
		"http_req_total":                   97,
		"http_req_data_received":           2,
		"http_req_data_sent":               0.5,
		"benchmark_duration":               0.09,
		"request_count":                    1,
		"request_error_rate":               0,
		"effective_latency":                91,
		"effective_concurrency":            1,
	} {
		near(t, tag, get(t, got, tag).Avg, want)
	}
}

func TestAFigureThatARequestDoesNotHaveIsAbsent(t *testing.T) {
	var s set
	s.add(stream(0, 100, 1, 140)) // one token: no second, no time between tokens
	s.records[0].Flags = 0        // and no usage
	s.records[0].FirstAnswer = 0  // all of it reasoning
	got := metric.Summarize(s.log(), nil, metric.Options{})
	for _, tag := range []string{
		"time_to_second_token", "inter_token_latency", "output_token_throughput_per_user", "inter_chunk_latency",
		"time_to_first_output_token", "input_sequence_length", "usage_prompt_tokens", "total_isl",
		"osl_mismatch_count", "goodput", "error_request_count", "adj_request_latency",
	} {
		if d, ok := got.Get(tag); ok {
			t.Errorf("%s: %+v", tag, d)
		}
	}
	near(t, "output_sequence_length", get(t, got, "output_sequence_length").Avg, 1)
	if got.Uncounted != 1 {
		t.Errorf("%d requests without a token count, want 1", got.Uncounted)
	}
}

func TestWhichRequestsCount(t *testing.T) {
	var s set
	for i, phase := range []load.Phase{load.Warmup, load.Ramp, load.Steady, load.Drain} {
		s.add(stream(int64(i), int64(100*i+100), 2, int64(100*i+110), int64(100*i+120))).Phase = phase
	}
	s.add(stream(9, 900, 2, 910, 920)).Lane = load.Sentinel
	for _, c := range []struct {
		name   string
		phases []load.Phase
		want   int
	}{
		{"the main stage by default", nil, 3},
		{"one phase", []load.Phase{load.Steady}, 1},
		{"the warm-up", []load.Phase{load.Warmup}, 1},
	} {
		if got := metric.Summarize(s.log(), nil, metric.Options{Phases: c.phases}).Requests; got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
}

func TestRatesArePerSecondOfTheStage(t *testing.T) {
	var s set
	s.add(stream(0, 100, 10, 110, 120))
	s.add(failed(1, 1000, load.Timeout), nil) // ends at 1005
	got := metric.Summarize(s.log(), nil, metric.Options{})
	near(t, "from the first intended to the last end", get(t, got, "output_token_throughput").Avg, 10/0.905)
	near(t, "benchmark_duration", get(t, got, "benchmark_duration").Avg, 0.02)
	got = metric.Summarize(s.log(), nil, metric.Options{Start: 0, End: 2000 * ms})
	near(t, "as the caller says", get(t, got, "output_token_throughput").Avg, 5)
	near(t, "requests", get(t, got, "request_throughput").Avg, 0.5)
}

func TestFailuresCountAsInfinitelySlowAndInterruptionsDoNot(t *testing.T) {
	var s set
	for i := range int64(3) {
		s.add(stream(i, 100*i+100, 2, 100*i+110, 100*i+120+10*i))
	}
	s.add(failed(3, 400, load.HTTPStatus), nil)
	for i := range int64(4) {
		s.add(failed(4+i, 500, load.Interrupt), nil)
	}
	got := metric.Summarize(s.log(), nil, metric.Options{})
	if got.Failed != 1 || got.Interrupted != 4 || got.Classes[load.OK] != 3 {
		t.Errorf("failed %d, interrupted %d, classes %v", got.Failed, got.Interrupted, got.Classes)
	}
	if len(got.WithFailures) != 3 {
		t.Fatalf("%d figures with failures, want 3", len(got.WithFailures))
	}
	for _, f := range got.WithFailures {
		if f.Tag != "request_latency" {
			continue
		}
		near(t, "N", float64(f.N), 4)
		near(t, "p50", f.P50, 35)
		near(t, "p99", f.P99, math.Inf(1))
	}
	near(t, "AIPerf counts interruptions", get(t, got, "error_request_count").Avg, 5)
	near(t, "adj count", float64(get(t, got, "adj_request_latency").N), 8)
	near(t, "adj p25 is the nearest rank", get(t, got, "adj_request_latency").P25, 40)
	near(t, "plain p99 stays finite", get(t, got, "request_latency").P99, 39.8)
}

func TestARunWithoutSuccessesStillReports(t *testing.T) {
	var s set
	s.add(failed(0, 100, load.Connect), nil)
	s.records[0].Sent = 0 // no connection, nothing sent
	got := metric.Summarize(s.log(), nil, metric.Options{SLOs: []metric.SLO{{Tag: "request_latency", Limit: 1}}})
	near(t, "request_error_rate", get(t, got, "request_error_rate").Avg, 100)
	near(t, "good_request_fraction", get(t, got, "good_request_fraction").Avg, 0)
	if len(got.WithFailures) != 3 || !math.IsInf(got.WithFailures[0].P50, 1) {
		t.Errorf("with failures: %+v", got.WithFailures)
	}
	if _, ok := got.Get("request_latency"); ok {
		t.Error("a latency without a success")
	}
	if _, ok := got.Get("credit_to_start_latency"); ok {
		t.Error("a send lag of a request that was never sent")
	}
	if n := len(metric.Summarize(load.NewLog(nil, nil, nil), nil, metric.Options{}).Figures); n != 0 {
		t.Errorf("%d figures of no request", n)
	}
}

func TestGoodRequestsKeepEverySLO(t *testing.T) {
	var s set
	s.add(stream(0, 100, 2, 140, 150)) // TTFT 40, 100 tok/s
	s.add(stream(1, 200, 2, 241, 251)) // TTFT 41
	s.add(stream(2, 300, 2, 340, 360)) // 50 tok/s
	s.add(stream(3, 400, 1, 410))      // no ITL
	s.add(stream(4, 500, 2, 510, 515)) // good
	opt := metric.Options{SLOs: []metric.SLO{{"time_to_first_token", 40}, {"output_token_throughput_per_user", 99}}}
	got := metric.Summarize(s.log(), nil, opt)
	near(t, "good_request_count", get(t, got, "good_request_count").Avg, 2)
	near(t, "good_request_fraction", get(t, got, "good_request_fraction").Avg, 0.4)
	short := set{records: s.records[3:4], stamps: s.stamps[3:4]}
	got = metric.Summarize(short.log(), nil, opt)
	near(t, "none could be judged", get(t, got, "good_request_fraction").Avg, 0)
	if _, ok := got.Get("good_request_count"); ok {
		t.Error("requests without the figure were counted as bad")
	}
	if err := opt.Validate(); err != nil {
		t.Error(err)
	}
	for _, tag := range []string{"", "goodput", "ttft", "inter_chunk_latency"} {
		if (metric.Options{SLOs: []metric.SLO{{tag, 1}}}).Validate() == nil {
			t.Errorf("an SLO for %q passed", tag)
		}
	}
}

func TestMissedOutputLengthIsAShareOrFiftyTokens(t *testing.T) {
	for _, c := range []struct{ requested, got, want int32 }{
		{100, 95, 0}, {100, 94, 1}, {100, 106, 1}, {2000, 1950, 0}, {2000, 1949, 1},
	} {
		var s set
		s.add(stream(0, 100, c.got, 110, 120))
		sum := metric.Summarize(s.log(), nil, metric.Options{RequestedTokens: c.requested})
		near(t, "osl_mismatch_count", get(t, sum, "osl_mismatch_count").Avg, float64(c.want))
	}
}

func TestWithoutStampsGapsArePooledAndSaidToBe(t *testing.T) {
	var s set
	s.add(stream(0, 100, 4, 110, 120, 140, 141))
	s.add(stream(1, 200, 3, 210, 220, 260))
	exact := metric.Summarize(s.log(), s.gaps(), metric.Options{})
	pooled := metric.Summarize(s.bare(), s.gaps(), metric.Options{})
	if exact.ApproximateGaps || !pooled.ApproximateGaps {
		t.Errorf("approximate: %v with stamps, %v without", exact.ApproximateGaps, pooled.ApproximateGaps)
	}
	if diff := gocmp(get(t, exact, "inter_chunk_latency"), get(t, pooled, "inter_chunk_latency")); diff != "" {
		t.Errorf("means and extremes differ (-exact +pooled):\n%s", diff)
	}
	near(t, "p50", math.Round(get(t, pooled, "inter_chunk_latency").P50), 10)
	if _, ok := metric.Summarize(s.bare(), nil, metric.Options{}).Get("inter_chunk_latency"); ok {
		t.Error("gaps out of nothing")
	}
	steady := metric.Options{Phases: []load.Phase{load.Steady}}
	if _, ok := metric.Summarize(s.bare(), s.gaps(), steady).Get("inter_chunk_latency"); ok {
		t.Error("the gaps of the whole stage passed for those of one phase")
	}
}

func gocmp(a, b metric.Distribution) string {
	return cmp.Diff(a, b, cmpopts.EquateApprox(1e-9, 0),
		cmpopts.IgnoreFields(metric.Distribution{}, "P1", "P5", "P10", "P25", "P50", "P75", "P90", "P95", "P99"))
}

func TestTimeWeightedFigures(t *testing.T) {
	var s set
	s.add(stream(0, 0, 11, 100, 199))   // in flight 0..200
	s.add(stream(1, 100, 11, 200, 299)) // in flight 100..300
	s.records[0].Intended, s.records[0].Sent = 1, 1
	got := metric.Summarize(s.bare(), nil, metric.Options{Start: 1, End: 400 * ms})
	c := get(t, got, "effective_concurrency")
	near(t, "average", math.Round(c.Avg*1e6)/1e6, 1)
	near(t, "max", c.Max, 2)
	near(t, "min", c.Min, 0)
	near(t, "p50", c.P50, 1)
	near(t, "p99", c.P99, 2)
	near(t, "decoding half of the time", math.Round(get(t, got, "effective_decode_throughput").Avg*1e3)/1e3, 50)
	near(t, "and 100 tokens/sec while at it", math.Round(get(t, got, "active_decode_throughput").Avg*1e3)/1e3, 100)
	near(t, "tokens in flight at most", get(t, got, "tokens_in_flight").Max, 10+11+10)
}

func TestPerRequestFiguresAreThoseOfTheSummary(t *testing.T) {
	var s set
	s.add(stream(0, 100, 5, 140, 150, 150, 190))
	opt := metric.Options{RequestedTokens: 5, SLOs: []metric.SLO{{"request_latency", 90}}}
	sum := metric.Summarize(s.log(), nil, opt)
	seen := map[string]bool{}
	for _, v := range metric.PerRequest(opt)(&s.records[0], nil) {
		seen[v.Tag] = true
		d := get(t, sum, v.Tag)
		if v.Unit != d.Unit || v.Number != d.Avg {
			t.Errorf("%s: %v %s alone, %v %s in the summary", v.Tag, v.Number, v.Unit, d.Avg, d.Unit)
		}
	}
	if !seen["good_request_count"] || len(seen) < 20 {
		t.Errorf("only %v", slices.Sorted(maps.Keys(seen)))
	}
	f := failed(1, 1, load.Reset)
	if got := metric.PerRequest(opt)(&f, nil); len(got) != 0 {
		t.Errorf("a failed request has %v", got)
	}
}

func TestSendLagTakesNumpysPercentile(t *testing.T) {
	var s set
	var lags []float64
	for i := range int64(77) {
		r := s.add(stream(i, 100+100*i, 2, 150+100*i, 160+100*i))
		r.Intended -= i*i*i*131 + i*7919 + 13
		lags = append(lags, float64(r.Sent-r.Intended)/ms)
	}
	got := get(t, metric.Summarize(s.log(), nil, metric.Options{}), "credit_to_start_latency")
	differ := 0
	for p, v := range map[float64]float64{1: got.P1, 5: got.P5, 10: got.P10, 25: got.P25, 50: got.P50, 75: got.P75, 90: got.P90, 95: got.P95, 99: got.P99} {
		if want := stats.Percentile(lags, p); v != want {
			t.Errorf("p%v: %v, want %v", p, v, want)
		}
		if stats.Percentile(lags, p) != stats.PercentileFromBelow(lags, p) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("these lags cannot tell the two percentiles apart")
	}
}
