package exporter

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aicr/internal/sim"
	"aicr/internal/spec"
)

// A worker's bounds. Every time that vLLM keeps of a whole request has the same.
var (
	workerTTFTBounds    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	workerGapBounds     = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	workerRequestBounds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	handlerBounds       = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// The names under which a worker registers.
const (
	namespace = "dynamo"
	component = "backend"
	endpoint  = "generate"
	engine    = "0" // of a worker without data parallelism
)

var (
	vllmRunning      = ofEngine("num_requests_running", "Requests in the batch.")
	vllmWaiting      = ofEngine("num_requests_waiting", "Requests that wait for the batch.")
	vllmWaitingBy    = ofEngine("num_requests_waiting_by_reason", "Requests that wait for the batch, by what keeps them.", "reason")
	vllmKVUsage      = ofEngine("kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.")
	vllmPreemptions  = ofEngine("num_preemptions_total", "Requests put back for want of KV blocks.")
	vllmQueries      = ofEngine("prefix_cache_queries_total", "Tokens looked up in the prefix cache.")
	vllmHits         = ofEngine("prefix_cache_hits_total", "Tokens found in the prefix cache.")
	vllmPrompt       = ofEngine("prompt_tokens_total", "Prompt tokens.")
	vllmPromptCached = ofEngine("prompt_tokens_cached_total", "Prompt tokens that were not computed.")
	vllmGenerated    = ofEngine("generation_tokens_total", "Tokens generated.")
	vllmSleep        = ofEngine("engine_sleep_state", "Whether the engine is in this state.", "sleep_state")
	vllmCacheConfig  = desc("vllm:cache_config_info", "The KV cache's settings.", "engine", "block_size", "num_gpu_blocks", "enable_prefix_caching")

	vllmTTFT     = ofEngine("time_to_first_token_seconds", "From arrival to the first token.")
	vllmGap      = ofEngine("inter_token_latency_seconds", "Between two tokens of a request.")
	vllmQueue    = ofEngine("request_queue_time_seconds", "From arrival to admission.")
	vllmPrefill  = ofEngine("request_prefill_time_seconds", "From admission to the first token.")
	vllmDecode   = ofEngine("request_decode_time_seconds", "From the first token to the last.")
	vllmWhole    = ofEngine("e2e_request_latency_seconds", "From arrival to the last token.")
	vllmPerToken = ofEngine("request_time_per_output_token_seconds", "Mean gap between the tokens of a request.")
	vllmFinished = ofEngine("request_success_total", "Requests that are over, by why.", "finished_reason")

	handlerInFlight  = ofHandler("inflight_requests", "Requests that the worker has.")
	handlerRequests  = ofHandler("requests_total", "Requests that the worker is done with.")
	handlerDuration  = ofHandler("request_duration_seconds", "How long the worker had a request.")
	handlerErrors    = ofHandler("errors_total", "Requests that failed.", "error_type")
	handlerCancelled = ofHandler("cancellation_total", "Requests whose client went away.")
)

func ofEngine(name, help string, labels ...string) *prometheus.Desc {
	return desc("vllm:"+name, help, append([]string{"engine", "model_name"}, labels...)...)
}

func ofHandler(name, help string, labels ...string) *prometheus.Desc {
	return desc("dynamo_component_"+name, help, append([]string{"dynamo_namespace", "dynamo_component", "dynamo_endpoint", "worker_id"}, labels...)...)
}

// writeWorker fills a worker's own page. Unlike the mocker's, an engine's series
// are there before its first request.
func (e *Exporter) writeWorker(p page, i int, s sim.WorkerState, at time.Duration) {
	o, seen := e.options, e.workers[i].all()

	p.gauge(vllmRunning, float64(s.Running), engine, o.Model)
	p.gauge(vllmWaiting, float64(s.Waiting), engine, o.Model)
	p.gauge(vllmWaitingBy, float64(s.Waiting), engine, o.Model, "capacity")
	p.gauge(vllmWaitingBy, 0, engine, o.Model, "deferred")
	p.gauge(vllmKVUsage, s.KVUsage, engine, o.Model)
	p.counter(vllmPreemptions, float64(s.Preemptions), engine, o.Model)
	p.counter(vllmQueries, float64(s.PrefixQueries), engine, o.Model)
	p.counter(vllmHits, float64(s.PrefixHits), engine, o.Model)
	p.counter(vllmPrompt, float64(s.PromptTokens), engine, o.Model)
	p.counter(vllmPromptCached, float64(s.PrefixHits), engine, o.Model)
	p.gauge(vllmSleep, 1, engine, o.Model, "awake")
	p.gauge(vllmSleep, 0, engine, o.Model, "weights_offloaded")
	p.gauge(vllmSleep, 0, engine, o.Model, "discard_all")
	p.gauge(vllmCacheConfig, 1, engine, strconv.Itoa(spec.KVBlockTokens), strconv.Itoa(o.KVBlocks), "True")

	p.counter(vllmGenerated, float64(seen.tokens()), engine, o.Model)
	p.histogram(vllmTTFT, &seen.ttft, engine, o.Model)
	p.histogram(vllmGap, &seen.gap, engine, o.Model)
	p.histogram(vllmQueue, &seen.queue, engine, o.Model)
	p.histogram(vllmPrefill, &seen.prefill, engine, o.Model)
	p.histogram(vllmDecode, &seen.decode, engine, o.Model)
	p.histogram(vllmWhole, &seen.whole, engine, o.Model)
	p.histogram(vllmPerToken, &seen.perToken, engine, o.Model)
	p.counter(vllmFinished, float64(seen.stopped), engine, o.Model, "stop")
	p.counter(vllmFinished, float64(seen.lengthy), engine, o.Model, "length")
	p.counter(vllmFinished, float64(seen.aborted), engine, o.Model, "abort")
	p.counter(vllmFinished, float64(seen.failed), engine, o.Model, "error")

	id, component := hexID(s.ID), component
	if s.Role != spec.RoleBoth { // as Dynamo's prefill workers register
		component = string(s.Role)
	}
	p.gauge(uptime, (at - s.Started).Seconds(), id)
	p.gauge(handlerInFlight, float64(s.Held), namespace, component, endpoint, id)
	p.counter(handlerRequests, float64(seen.handled.count), namespace, component, endpoint, id)
	p.histogram(handlerDuration, &seen.handled, namespace, component, endpoint, id)
	p.counter(handlerCancelled, float64(seen.aborted), namespace, component, endpoint, id)
	if seen.failed > 0 { // the first makes the series
		p.counter(handlerErrors, float64(seen.failed), namespace, component, endpoint, id, "generate")
	}
}
