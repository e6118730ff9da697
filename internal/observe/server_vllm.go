package observe

// vllm is vLLM's engine, by itself or in Dynamo, and Dynamo's mocker. gpu_ was dropped
// from the names of the cache between 0.11.0 and 0.14.1; the mocker has both names of the
// cache's use, and none of the counters of tokens and of the prefix cache.
var vllm = server{
	name: "vLLM", prefix: "vllm:", page: "server_vllm.txt", engine: "engine", load: "/load",
	values: []value{
		{field: fieldRunning, names: []string{"vllm:num_requests_running"}},
		{field: fieldWaiting, names: []string{"vllm:num_requests_waiting"}},
		{field: fieldDeferred, names: []string{"vllm:num_requests_waiting_by_reason"},
			labels: only("reason", "deferred")},
		{field: fieldKVUsage, names: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, take: greatest},
		{field: fieldAsleep, names: []string{"vllm:engine_sleep_state"},
			labels: only("sleep_state", "awake"), take: notSo},
		{field: fieldGenerated, names: []string{"vllm:generation_tokens_total"}},
		{field: fieldPrompt, names: []string{"vllm:prompt_tokens_total"}},
		{field: fieldPrefixQueries,
			names: []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}},
		{field: fieldPrefixHits, names: []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}},
		{field: fieldPreemptions, names: []string{"vllm:num_preemptions_total"}},
		{field: fieldRejected, names: []string{"vllm:admission_rejections_total"}},
		{field: fieldEnded, names: []string{"vllm:request_success_total"}},
		{field: fieldFailed, names: []string{"vllm:request_success_total"}, take: among("finished_reason", "abort", "error")},
		{field: fieldAborted, names: []string{"vllm:request_success_total"}, take: among("finished_reason", "abort")},
	},
	firsts: value{names: []string{"vllm:time_to_first_token_seconds_count"}},
	gaps:   value{names: []string{"vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"}},
}

// notSo turns a gauge that is 1 when something is so into one that is 1 when it is not.
func notSo(all []series) *float64 {
	v := greatest(all)
	if v == nil || *v != 0 && *v != 1 {
		return nil
	}
	return number(1 - *v)
}
