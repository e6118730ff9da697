package observe

// trtllm is TensorRT-LLM's own server, trtllm-serve, by itself or in Dynamo. What it
// counts of requests moves when one ends.
var trtllm = server{
	name: "TensorRT-LLM", prefix: "trtllm_", page: "server_trtllm.txt",
	values: []value{
		{field: fieldRunning, names: []string{"trtllm_num_requests_running"}},
		{field: fieldWaiting, names: []string{"trtllm_num_requests_waiting"}},
		{field: fieldKVUsage, names: []string{"trtllm_kv_cache_utilization"}, take: greatest},
		{field: fieldEndedTokens, names: []string{"trtllm_generation_tokens_total"}},
		{field: fieldEnded, names: []string{"trtllm_request_success_total"}, also: []string{"trtllm_request_error_total"}},
		{field: fieldFailed, names: []string{"trtllm_request_error_total"}},
	},
}
