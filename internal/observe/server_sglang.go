package observe

// sglang is SGLang's server. Its gauges come once for each tensor-parallel rank where all
// schedulers tell, and once more for each priority: each time of the same requests. Its
// counters of tokens by request move when one ends; those of realtime_tokens as it works.
var sglang = server{
	name: "SGLang", prefix: "sglang:", page: "server_sglang.txt", engine: "dp_rank",
	values: []value{
		{field: fieldRunning, names: []string{"sglang:num_running_reqs"}, take: greatest},
		{field: fieldWaiting, names: []string{"sglang:num_queue_reqs"}, take: greatest},
		{field: fieldKVUsage, names: []string{"sglang:token_usage"}, take: greatest},
		{field: fieldEndedTokens, names: []string{"sglang:generation_tokens_total"}},
		{field: fieldPrompt, names: []string{"sglang:realtime_tokens_total"},
			take: anyRank("prefill_compute", "prefill_cache")},
		{field: fieldPrefixQueries, names: []string{"sglang:realtime_tokens_total"},
			take: anyRank("prefill_compute", "prefill_cache")},
		{field: fieldPrefixHits, names: []string{"sglang:realtime_tokens_total"}, take: anyRank("prefill_cache")},
		{field: fieldPreemptions, names: []string{"sglang:num_retracted_requests_total"}, take: greatest},
		{field: fieldEnded, names: []string{"sglang:num_requests_total"}},
		{field: fieldFailed, names: []string{"sglang:num_aborted_requests_total"}},
		{field: fieldAborted, names: []string{"sglang:num_aborted_requests_total"}},
	},
	firsts: value{names: []string{"sglang:time_to_first_token_seconds_count"}},
	gaps:   value{names: []string{"sglang:inter_token_latency_seconds_count"}},
}

// anyRank adds up the tokens of these modes, each as the rank tells it that has most.
func anyRank(modes ...string) func([]series) *float64 {
	return func(all []series) *float64 {
		var found []series
		for _, mode := range modes {
			var of []series
			for _, s := range all {
				if s.labels["mode"] == mode {
					of = append(of, s)
				}
			}
			if most := greatest(of); most != nil {
				found = append(found, series{value: *most})
			}
		}
		return sum(found)
	}
}
