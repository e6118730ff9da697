package metric

import (
	"math"
	"slices"

	"aicr/internal/load"
	"aicr/internal/stats"
)

// What a nanosecond and a byte are in the units of the report.
const (
	perMilli  = 1e-6
	perSecond = 1e-9
	perKilo   = 1.0 / 1024
)

// definition says how one figure of a served request is computed, in
// nanoseconds, bytes, tokens or per second, and how it is reported.
type definition struct {
	tag   string
	unit  string
	scale float64
	value func(r *load.Record, opt *Options) float64 // NaN: the request has none

	whole          bool // counted rather than measured
	failuresCount  bool // AIPerf reports adj_* of it
	largerIsBetter bool
}

func (d definition) collect(served []*load.Record, opt *Options) []float64 {
	values := make([]float64, 0, len(served))
	for _, r := range served {
		if v := d.value(r, opt); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}

// definitions are the figures of single requests.
//
// AIPerf also has http_req_blocked, _sending, _waiting, _receiving and
// _chunks_*. They are left out: a Record does not stamp the end of sending nor
// the first byte of the body, and the engine has no pool to wait for.
func definitions() []definition {
	ms := func(tag string, v func(*load.Record, *Options) float64) definition {
		return definition{tag: tag, unit: "ms", scale: perMilli, value: v}
	}
	counted := func(tag string, v func(*load.Record, *Options) float64) definition {
		return definition{tag: tag, unit: "tokens", scale: 1, value: v, whole: true, largerIsBetter: true}
	}
	perUser := func(tag string, v func(*load.Record, *Options) float64) definition {
		return definition{tag: tag, unit: "tokens/sec/user", scale: 1, value: v, largerIsBetter: true}
	}
	failing := func(d definition) definition {
		d.failuresCount = true
		return d
	}
	usage := func(v func(*load.Record) int32) func(*load.Record, *Options) float64 {
		return func(r *load.Record, _ *Options) float64 {
			if !r.Has(load.HasUsage) {
				return math.NaN()
			}
			return float64(v(r))
		}
	}
	// A server that counts no reasoning tokens and one that counts none of them
	// look alike in a Record.
	reasoning := func(r *load.Record, _ *Options) float64 {
		if !r.Has(load.HasUsage) || r.ReasoningTokens == 0 {
			return math.NaN()
		}
		return float64(r.ReasoningTokens)
	}
	return []definition{
		failing(ms("request_latency", latency)),
		failing(ms("time_to_first_token", ttft)),
		ms("time_to_second_token", func(r *load.Record, _ *Options) float64 {
			if r.SecondContent == 0 {
				return math.NaN()
			}
			return float64(r.SecondContent - r.FirstContent)
		}),
		ms("time_to_first_output_token", func(r *load.Record, _ *Options) float64 {
			if r.FirstAnswer == 0 {
				return math.NaN()
			}
			return float64(r.FirstAnswer - r.Sent)
		}),
		failing(ms("decode_duration", func(r *load.Record, _ *Options) float64 {
			return float64(r.LastContent - r.FirstContent)
		})),
		failing(ms("inter_token_latency", itl)),
		perUser("output_token_throughput_per_user", func(r *load.Record, opt *Options) float64 {
			return ratio(1, itl(r, opt)*perSecond)
		}),
		perUser("e2e_output_token_throughput", func(r *load.Record, opt *Options) float64 {
			return ratio(float64(r.Tokens()), latency(r, opt)*perSecond)
		}),
		perUser("prefill_throughput_per_user", func(r *load.Record, opt *Options) float64 {
			return ratio(promptTokens(r), ttft(r, opt)*perSecond)
		}),
		counted("output_sequence_length", func(r *load.Record, _ *Options) float64 { return float64(r.Tokens()) }),
		counted("input_sequence_length", func(r *load.Record, _ *Options) float64 { return promptTokens(r) }),
		counted("output_token_count", func(r *load.Record, _ *Options) float64 {
			if n := r.Tokens() - r.ReasoningTokens; n > 0 {
				return float64(n)
			}
			return math.NaN()
		}),
		counted("reasoning_token_count", reasoning),
		counted("usage_prompt_tokens", usage(func(r *load.Record) int32 { return r.PromptTokens })),
		counted("usage_completion_tokens", usage(func(r *load.Record) int32 { return r.CompletionTokens })),
		counted("usage_total_tokens", func(r *load.Record, _ *Options) float64 {
			if !r.Has(load.HasUsage) {
				return math.NaN()
			}
			return float64(r.PromptTokens) + float64(r.CompletionTokens)
		}),
		counted("usage_reasoning_tokens", reasoning),
		counted("usage_prompt_cache_read_tokens", func(r *load.Record, _ *Options) float64 {
			if !r.Has(load.HasCached) {
				return math.NaN()
			}
			return float64(r.CachedTokens)
		}),
		{tag: "osl_mismatch_diff_pct", unit: "%", scale: 1, value: func(r *load.Record, opt *Options) float64 {
			if opt.RequestedTokens == 0 {
				return math.NaN()
			}
			return float64(r.Tokens()-opt.RequestedTokens) / float64(opt.RequestedTokens) * 100
		}},
		ms("http_req_duration", func(r *load.Record, _ *Options) float64 { return float64(r.End - r.Sent) }),
		ms("http_req_connecting", func(r *load.Record, _ *Options) float64 { return float64(r.Connect + r.TLS) }),
		ms("http_req_dns_lookup", func(r *load.Record, _ *Options) float64 { return float64(r.Resolve) }),
		ms("http_req_connection_overhead", func(r *load.Record, _ *Options) float64 { return float64(opening(r)) }),
		ms("http_req_total", func(r *load.Record, _ *Options) float64 { return float64(opening(r) + r.End - r.Sent) }),
		{tag: "http_req_connection_reused", unit: "ratio", scale: 1, whole: true, value: func(r *load.Record, _ *Options) float64 {
			if r.Has(load.Reused) {
				return 1
			}
			return 0
		}},
		{tag: "http_req_data_sent", unit: "KB", scale: perKilo, value: func(r *load.Record, _ *Options) float64 { return float64(r.BytesOut) }},
		{tag: "http_req_data_received", unit: "KB", scale: perKilo, value: func(r *load.Record, _ *Options) float64 { return float64(r.BytesIn) }},
	}
}

func latency(r *load.Record, _ *Options) float64 { return float64(r.LastContent - r.Sent) }

func ttft(r *load.Record, _ *Options) float64 { return float64(r.FirstContent - r.Sent) }

// itl is the mean time of an output token after the first.
func itl(r *load.Record, _ *Options) float64 {
	if r.Tokens() < 2 {
		return math.NaN()
	}
	return float64(r.LastContent-r.FirstContent) / float64(r.Tokens()-1)
}

func promptTokens(r *load.Record) float64 {
	if !r.Has(load.HasUsage) {
		return math.NaN()
	}
	return float64(r.PromptTokens)
}

// opening is what the request paid for its connection.
func opening(r *load.Record) int64 { return r.Resolve + r.Connect + r.TLS }

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// The limits beyond which AIPerf says that the requested output length was
// missed: a share of it, or a number of tokens, whichever is less.
const (
	mismatchShare  = 0.05
	mismatchTokens = 50
)

// derive adds the figures of the whole run: counts, totals and rates.
func derive(found map[string]Distribution, served []*load.Record, unserved int, s *Summary, opt Options) {
	total := func(tag, of string) {
		if d, ok := found[of]; ok {
			found[tag] = Scalar("tokens", d.Sum)
		}
	}
	total("total_osl", "output_sequence_length")
	total("total_isl", "input_sequence_length")
	total("total_output_tokens", "output_token_count")
	total("total_reasoning_tokens", "reasoning_token_count")
	total("total_usage_prompt_tokens", "usage_prompt_tokens")
	total("total_usage_completion_tokens", "usage_completion_tokens")
	total("total_usage_total_tokens", "usage_total_tokens")
	total("total_usage_reasoning_tokens", "usage_reasoning_tokens")
	total("total_usage_prompt_cache_read_tokens", "usage_prompt_cache_read_tokens")
	if read, ok := found["total_usage_prompt_cache_read_tokens"]; ok {
		if prompt := found["total_usage_prompt_tokens"].Avg; prompt > 0 {
			found["overall_usage_prompt_cache_read_pct"] = Scalar("%", read.Avg/prompt*100)
		}
	}

	all := float64(len(served) + unserved)
	if unserved > 0 {
		found["error_request_count"] = Scalar("requests", float64(unserved))
	}
	if all > 0 {
		found["completed_request_count"] = Scalar("requests", all)
		found["request_error_rate"] = Scalar("%", 100*float64(unserved)/all)
	}
	good, judged := 0, 0
	judge := newJudge(opt)
	for _, r := range served {
		kept, ok := judge(r)
		if ok {
			judged++
		}
		if kept && ok {
			good++
		}
	}
	if all > 0 && len(opt.SLOs) > 0 {
		found["good_request_fraction"] = Scalar("ratio", float64(good)/all)
	}
	if len(served) == 0 {
		return
	}
	found["request_count"] = Scalar("requests", float64(len(served)))
	if opt.RequestedTokens > 0 {
		found["osl_mismatch_count"] = Scalar("requests", float64(countMismatches(served, opt)))
	}
	if judged > 0 {
		found["good_request_count"] = Scalar("requests", float64(good))
	}
	if d := benchmarkDuration(served, opt); d > 0 {
		found["benchmark_duration"] = Scalar("sec", d*perSecond)
	}

	stage := float64(s.End-s.Start) * perSecond
	rate := func(tag, unit string, amount float64, ok bool) {
		if ok && stage > 0 {
			found[tag] = Scalar(unit, amount/stage)
		}
	}
	in, hasIn := found["total_isl"]
	out, hasOut := found["total_osl"]
	rate("request_throughput", "requests/sec", float64(len(served)), true)
	rate("output_token_throughput", "tokens/sec", out.Avg, hasOut)
	rate("input_token_throughput", "tokens/sec", in.Avg, hasIn)
	rate("total_token_throughput", "tokens/sec", in.Avg+out.Avg, hasIn && hasOut)
	rate("goodput", "requests/sec", float64(good), judged > 0)
}

// newJudge returns a function that says whether a request kept every SLO, and
// whether it had all the figures that they limit.
func newJudge(opt Options) func(r *load.Record) (good, ok bool) {
	type limit struct {
		definition
		at float64
	}
	var limits []limit
	for _, s := range opt.SLOs {
		for _, d := range definitions() {
			if d.tag == s.Tag {
				limits = append(limits, limit{d, s.Limit * math.Round(1/d.scale)})
			}
		}
	}
	return func(r *load.Record) (good, ok bool) {
		good = true
		for _, l := range limits {
			v := l.value(r, &opt)
			if math.IsNaN(v) {
				return false, false
			}
			if l.largerIsBetter {
				good = good && v >= l.at
			} else {
				good = good && v <= l.at
			}
		}
		return good, len(limits) > 0
	}
}

func countMismatches(served []*load.Record, opt Options) int {
	limit := min(float64(opt.RequestedTokens)*mismatchShare, mismatchTokens)
	n := 0
	for _, r := range served {
		if math.Abs(float64(r.Tokens()-opt.RequestedTokens)) > limit {
			n++
		}
	}
	return n
}

// benchmarkDuration is from the first request sent to the last content, in
// nanoseconds, over served requests.
func benchmarkDuration(served []*load.Record, opt Options) float64 {
	first, last := math.Inf(1), math.Inf(-1)
	for _, r := range served {
		first = min(first, opt.wall(r.Sent))
		last = max(last, opt.wall(r.LastContent))
	}
	return last - first
}

// wall is a stamp as AIPerf keeps it: see Options.Epoch.
func (o Options) wall(stamp int64) float64 { return float64(o.Epoch + stamp) }

// addScheduleLag adds how late requests were sent, and their latency as seen by
// who wanted them sent on time. Failed requests count with the time at which
// they were given up.
func addScheduleLag(found map[string]Distribution, records []*load.Record, opt Options) {
	lag := func(tag string, until func(*load.Record) int64) {
		values := make([]float64, 0, len(records))
		for _, r := range records {
			if until(r) == 0 {
				continue // never sent
			}
			values = append(values, max(0, opt.wall(until(r))-opt.wall(r.Intended))/1e6)
		}
		if len(values) == 0 {
			return
		}
		d := undefined("ms")
		d.N = int64(len(values))
		d.Sum, d.Avg, d.Std = stats.Sum(values), stats.Mean(values), stats.Std(values)
		slices.Sort(values)
		d.Min, d.Max = values[0], values[len(values)-1]
		d.setPercentiles(func(p float64) float64 { return stats.Percentile(values, p) })
		found[tag] = d
	}
	lag("credit_to_start_latency", func(r *load.Record) int64 { return r.Sent })
	lag("effective_latency", func(r *load.Record) int64 { return r.End })
}

// exportOrder is the order of AIPerf's export: first the figures that its
// schema names, then the others. AIPerf's order of the latter changes from run
// to run; this is one that it has written.
func exportOrder() []string {
	return []string{
		"request_throughput", "request_latency", "request_count",
		"time_to_first_token", "time_to_second_token", "inter_token_latency",
		"output_token_throughput", "output_token_throughput_per_user",
		"output_sequence_length", "input_sequence_length",
		"goodput", "good_request_count",
		"output_token_count", "reasoning_token_count", "inter_chunk_latency",
		"total_output_tokens", "total_reasoning_tokens", "benchmark_duration",
		"total_isl", "total_osl", "error_request_count",

		"http_req_connection_reused", "http_req_connecting", "http_req_dns_lookup",
		"http_req_data_received", "http_req_data_sent", "http_req_duration",
		"usage_prompt_tokens", "usage_completion_tokens", "usage_total_tokens",
		"usage_reasoning_tokens", "usage_prompt_cache_read_tokens",
		"time_to_first_output_token",
		"http_req_connection_overhead", "http_req_total",
		"e2e_output_token_throughput", "osl_mismatch_diff_pct", "decode_duration",
		"prefill_throughput_per_user", "osl_mismatch_count",
		"total_usage_prompt_tokens", "completed_request_count", "request_error_rate",
		"total_usage_completion_tokens", "total_usage_total_tokens",
		"total_usage_reasoning_tokens", "total_usage_prompt_cache_read_tokens",
		"overall_usage_prompt_cache_read_pct",
		"input_token_throughput", "total_token_throughput", "good_request_fraction",
		"adj_request_latency", "adj_time_to_first_token", "adj_decode_duration", "adj_inter_token_latency",
		"effective_concurrency", "effective_decode_throughput", "effective_prefill_throughput",
		"effective_decode_concurrency", "effective_prefill_concurrency", "effective_total_throughput",
		"effective_decode_throughput_per_user", "effective_prefill_throughput_per_user", "tokens_in_flight",
		"active_decode_throughput", "active_prefill_throughput",
		"active_decode_throughput_per_user", "active_prefill_throughput_per_user", "active_total_throughput",
		"credit_to_start_latency", "effective_latency",
	}
}
