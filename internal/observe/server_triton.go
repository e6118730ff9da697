package observe

// triton is Triton with the TensorRT-LLM backend. Of an ensemble each model counts every
// request; the one with the engine is that which has nv_trt_llm metrics.
var triton = server{
	name: "Triton with TensorRT-LLM", prefix: "nv_trt_llm_", page: "server_triton.txt",
	sign: "nv_trt_llm_request_metrics", engine: "model",
	values: []value{
		{field: fieldRunning, names: []string{"nv_trt_llm_request_metrics"}, labels: only("request_type", "active")},
		{field: fieldWaiting, names: []string{"nv_trt_llm_request_metrics"}, labels: only("request_type", "waiting")},
		{field: fieldKVUsage, names: []string{"nv_trt_llm_kv_cache_block_metrics"},
			labels: only("kv_cache_block_type", "fraction"), take: greatest},
		{field: fieldEndedTokens, names: []string{"nv_llm_output_token_len_sum"}},
		{field: fieldEnded, names: []string{"nv_inference_request_success"}, also: []string{"nv_inference_request_failure"}},
		{field: fieldFailed, names: []string{"nv_inference_request_failure"}},
	},
}
