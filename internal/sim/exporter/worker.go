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

	handlerInFlight = desc("dynamo_component_inflight_requests", "Requests that the worker has.", "dynamo_namespace", "dynamo_component", "dynamo_endpoint", "worker_id")
	handlerRequests = desc("dynamo_component_requests_total", "Requests that the worker is done with.", "dynamo_namespace", "dynamo_component", "dynamo_endpoint", "worker_id")
)

func ofEngine(name, help string, labels ...string) *prometheus.Desc {
	return desc("vllm:"+name, help, append([]string{"engine", "model_name"}, labels...)...)
}

// worker is what one worker has been told.
type worker struct {
	ttft, gap, queue             prometheus.Histogram
	whole, prefill, decode       prometheus.Histogram
	perToken                     prometheus.Histogram
	handled                      prometheus.Histogram
	finished, errors             *prometheus.CounterVec
	cancelled                    prometheus.Counter
	lastTTFT, lastGap, lastInput *last
}

func newWorker(o Options, id uint64) *worker {
	ofModel := prometheus.Labels{"engine": engine, "model_name": o.Model}
	ofHandler := prometheus.Labels{"dynamo_namespace": namespace, "dynamo_component": component, "dynamo_endpoint": endpoint, "worker_id": hexID(id)}
	w := &worker{
		ttft:     histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", ofModel, workerTTFTBounds),
		gap:      histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.", ofModel, workerGapBounds),
		queue:    histogram("vllm:request_queue_time_seconds", "From arrival to admission.", ofModel, workerRequestBounds),
		whole:    histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", ofModel, workerRequestBounds),
		prefill:  histogram("vllm:request_prefill_time_seconds", "From admission to the first token.", ofModel, workerRequestBounds),
		decode:   histogram("vllm:request_decode_time_seconds", "From the first token to the last.", ofModel, workerRequestBounds),
		perToken: histogram("vllm:request_time_per_output_token_seconds", "Mean gap between the tokens of a request.", ofModel, workerGapBounds),
		handled:  histogram("dynamo_component_request_duration_seconds", "How long the worker had a request.", ofHandler, handlerBounds),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vllm:request_success_total", Help: "Requests that are over, by why.", ConstLabels: ofModel,
		}, []string{"finished_reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dynamo_component_errors_total", Help: "Requests that failed.", ConstLabels: ofHandler,
		}, []string{"error_type"}),
		cancelled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dynamo_component_cancellation_total", Help: "Requests whose client went away.", ConstLabels: ofHandler,
		}),
		lastTTFT: newLast(), lastGap: newLast(), lastInput: newLast(),
	}
	for _, reason := range []string{"stop", "length", "abort", "error"} { // vLLM has them from its start
		w.finished.WithLabelValues(reason)
	}
	return w
}

// finish counts a request that the worker is done with.
func (w *worker) finish(f Finished) {
	w.handled.Observe(f.Duration)
	if f.Output > 0 {
		w.lastInput.set(float64(f.Prompt))
	}
	switch {
	case f.ErrorType == errorCancelled:
		w.cancelled.Inc()
		w.finished.WithLabelValues("abort").Inc()
		return
	case f.Status != statusSuccess:
		w.errors.WithLabelValues("generate").Inc()
		w.finished.WithLabelValues("error").Inc()
		return
	case f.FinishReason == "stop":
		w.finished.WithLabelValues("stop").Inc()
	default:
		w.finished.WithLabelValues("length").Inc()
	}
	w.whole.Observe(f.Duration)
	w.prefill.Observe(f.Prefill)
	w.decode.Observe(f.Decode)
	if f.Output > 1 {
		w.perToken.Observe(f.Decode / float64(f.Output-1))
	}
}

// write fills the worker's own page. Unlike the mocker's, an engine's series
// are there before its first request.
func (w *worker) write(p page, s sim.WorkerState, at time.Duration, o Options) {
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
	p.counter(vllmGenerated, float64(s.Generated), engine, o.Model)
	p.gauge(vllmSleep, 1, engine, o.Model, "awake")
	p.gauge(vllmSleep, 0, engine, o.Model, "weights_offloaded")
	p.gauge(vllmSleep, 0, engine, o.Model, "discard_all")
	p.gauge(vllmCacheConfig, 1, engine, strconv.Itoa(spec.KVBlockTokens), strconv.Itoa(o.KVBlocks), "True")
	p.told(w.ttft, w.gap, w.queue, w.whole, w.prefill, w.decode, w.perToken, w.finished)

	id := hexID(s.ID)
	p.gauge(uptime, at.Seconds(), id)
	p.gauge(handlerInFlight, float64(s.Held), namespace, component, endpoint, id)
	p.counter(handlerRequests, float64(s.Finished), namespace, component, endpoint, id)
	p.told(w.handled, w.errors, w.cancelled)
}

// writeLast puts what the frontend keeps of the worker, each once it has one.
func (w *worker) writeLast(p page, id string) {
	for _, latest := range []struct {
		desc  *prometheus.Desc
		value *last
	}{{workerLastTTFT, w.lastTTFT}, {workerLastGap, w.lastGap}, {workerLastInput, w.lastInput}} {
		if v, ok := latest.value.get(); ok {
			p.gauge(latest.desc, v, id, "none", "decode")
		}
	}
}
