package observe

// tgi is Hugging Face's Text Generation Inference. Its histograms of tokens have one entry
// a request, when it ends; their sums are tokens.
var tgi = server{
	name: "TGI", prefix: "tgi_", page: "server_tgi.txt", begins: true,
	values: []value{
		{field: fieldRunning, names: []string{"tgi_batch_current_size"}},
		{field: fieldWaiting, names: []string{"tgi_queue_size"}},
		{field: fieldEndedTokens, names: []string{"tgi_request_generated_tokens_sum"}},
		{field: fieldEnded, names: []string{"tgi_request_success"}, also: []string{"tgi_request_failure"}},
		{field: fieldFailed, names: []string{"tgi_request_failure"}},
	},
}
