package observe

import "math"

// llamacpp is llama.cpp's own server. It counts a request's tokens when that ends, and its
// prompt's when that is read. What it makes meanwhile is its steps times the requests in
// each, but for speculative decoding, whose steps it does not count. The cache's use was
// dropped in May 2025.
var llamacpp = server{
	name: "llama.cpp", prefix: "llamacpp:", page: "server_llamacpp.txt",
	values: []value{
		{field: fieldRunning, names: []string{"llamacpp:requests_processing"}},
		{field: fieldWaiting, names: []string{"llamacpp:requests_deferred"}},
		{field: fieldKVUsage, names: []string{"llamacpp:kv_cache_usage_ratio"}},
		{field: fieldEndedTokens, names: []string{"llamacpp:tokens_predicted_total"}},
		{field: fieldPrompt, names: []string{"llamacpp:prompt_tokens_total"}},
	},
	estimate: &estimate{
		of:   []value{llamaSteps, llamaBusy, llamaDrafts},
		how:  "llamacpp:n_decode_total times llamacpp:n_busy_slots_per_decode",
		made: llamaMade,
	},
}

var (
	llamaSteps  = value{names: []string{"llamacpp:n_decode_total"}}
	llamaBusy   = value{names: []string{"llamacpp:n_busy_slots_per_decode"}}
	llamaDrafts = value{names: []string{"llamacpp:spec_decode_num_drafts_total"}}
)

// llamaMade is the tokens of all steps. The mean of requests is told with six digits, so
// that the product may go down by as much as it is rounded.
func llamaMade(p page, before float64) *float64 {
	steps, busy := sum(llamaSteps.in(p)), sum(llamaBusy.in(p))
	if drafts := sum(llamaDrafts.in(p)); steps == nil || busy == nil || drafts != nil && *drafts > 0 {
		return nil
	}
	const rounded = 1e-5
	made := math.Round(*steps * *busy)
	if made < before && made >= before*(1-rounded) {
		made = before
	}
	return number(made)
}
