package observe

// nim is NVIDIA's NIM for LLMs. Its names have no prefix and some may be anybody's, so the
// count of running requests must be there.
var nim = server{
	name: "NIM", page: "server_nim.txt", sign: "num_requests_running",
	values: []value{
		{field: fieldRunning, names: []string{"num_requests_running"}},
		{field: fieldWaiting, names: []string{"num_requests_waiting"}},
		{field: fieldKVUsage, names: []string{"gpu_cache_usage_perc"}, take: greatest},
		{field: fieldGenerated, names: []string{"generation_tokens_total"}},
		{field: fieldPrompt, names: []string{"prompt_tokens_total"}},
		{field: fieldEnded, names: []string{"request_success_total"}, also: []string{"request_failure_total"}},
		{field: fieldFailed, names: []string{"request_failure_total"}},
	},
}
