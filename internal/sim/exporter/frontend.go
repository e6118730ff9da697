package exporter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aicr/internal/sim"
	"aicr/internal/spec"
)

// The frontend's bounds, which Dynamo rounds to two digits.
var (
	frontendTTFTBounds     = []float64{0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480}
	frontendGapBounds      = []float64{0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2}
	frontendDurationBounds = []float64{0, 2, 4, 8, 16, 32, 64, 130, 260, 510}
	frontendInputBounds    = []float64{0, 100, 210, 430, 870, 1800, 3600, 7400, 15000, 31000, 63000, 130000}
	frontendOutputBounds   = []float64{0, 100, 210, 430, 880, 1800, 3700, 7600, 16000, 32000}
	loopDelayBounds        = []float64{0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}
)

var (
	frontendActive       = desc("dynamo_frontend_active_requests", "Requests in flight.", "model")
	frontendInFlight     = desc("dynamo_frontend_inflight_requests", "Requests in flight, by its older name.", "model")
	frontendQueued       = desc("dynamo_frontend_queued_requests", "Requests without a first token.", "model")
	frontendTokens       = desc("dynamo_frontend_output_tokens_total", "Tokens given to clients.", "model")
	frontendDisconnected = desc("dynamo_frontend_disconnected_clients", "Clients that went away before the end.")
	frontendStalls       = desc("dynamo_frontend_event_loop_stall_total", "Stalls of the event loop.")
	frontendLoopDelay    = desc("dynamo_frontend_event_loop_delay_seconds", "How late the event loop wakes from a sleep of 10 ms.")
	requestPlaneInFlight = desc("dynamo_request_plane_inflight_requests", "Requests in flight between frontend and workers.")

	modelKVBlocks         = desc("dynamo_frontend_model_total_kv_blocks", "KV blocks of a worker.", "model")
	modelMaxSequences     = desc("dynamo_frontend_model_max_num_seqs", "Most sequences in a worker's batch.", "model")
	modelMaxBatchedTokens = desc("dynamo_frontend_model_max_num_batched_tokens", "Most tokens in a worker's step.", "model")
	modelBlockSize        = desc("dynamo_frontend_model_kv_cache_block_size", "Tokens in a KV block.", "model")
	modelContextLength    = desc("dynamo_frontend_model_context_length", "Longest context, in tokens.", "model")
	modelMigrationLimit   = desc("dynamo_frontend_model_migration_limit", "Most moves of a request to another worker.", "model")

	workerLastTTFT  = desc("dynamo_frontend_worker_last_time_to_first_token_seconds", "Latest time to first token of a worker.", "worker_id", "dp_rank", "worker_type")
	workerLastGap   = desc("dynamo_frontend_worker_last_inter_token_latency_seconds", "Latest gap between two tokens of a worker.", "worker_id", "dp_rank", "worker_type")
	workerLastInput = desc("dynamo_frontend_worker_last_input_sequence_tokens", "Prompt tokens of the latest request of a worker.", "worker_id", "dp_rank", "worker_type")

	uptime = desc("dynamo_component_uptime_seconds", "Age of the process.", "worker_id")
)

// frontend is what the frontend has been told.
type frontend struct {
	id        string
	asked     atomic.Bool // someone asked for the fleet's model
	strangers atomic.Bool // someone asked for another
	left      atomic.Int64

	started, finished, cancelled, rejected *prometheus.CounterVec

	ttft, gap, input, output, cached prometheus.Histogram
	duration                         *prometheus.HistogramVec
	latest                           []latest // by worker

	freezes
}

// freezes are the stalls of the frontend's thread that have ended.
type freezes struct {
	mu      sync.Mutex
	count   int64
	stalled time.Duration // in all
	delays  tally
}

func newFrontend(o Options, workers int) *frontend {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynamo_frontend_" + name, Help: help}, labels)
	}
	ofModel := func(name, help string, bounds []float64) prometheus.Histogram {
		return histogram("dynamo_frontend_"+name, help, prometheus.Labels{"model": o.Model}, bounds)
	}
	t := &frontend{
		id:        hexID(frontendID(o)),
		started:   counter("requests_started_total", "Requests accepted.", "model", "endpoint", "request_type"),
		finished:  counter("requests_total", "Requests that are over.", "model", "endpoint", "request_type", "status", "error_type"),
		cancelled: counter("model_cancellation_total", "Requests whose client went away.", "model", "endpoint", "request_type"),
		rejected:  counter("model_rejection_total", "Requests turned away for want of room.", "model", "endpoint"),
		ttft:      ofModel("time_to_first_token_seconds", "From arrival to the first token.", frontendTTFTBounds),
		gap:       ofModel("inter_token_latency_seconds", "Between two tokens of a request.", frontendGapBounds),
		input:     ofModel("input_sequence_tokens", "Prompt tokens of a request.", frontendInputBounds),
		output:    ofModel("output_sequence_tokens", "Tokens given for a request.", frontendOutputBounds),
		cached:    ofModel("cached_tokens", "Prompt tokens of a request found in a prefix cache.", frontendInputBounds),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dynamo_frontend_request_duration_seconds", Help: "From arrival to the end.", Buckets: frontendDurationBounds,
		}, []string{"model"}),
		freezes: freezes{delays: tally{bounds: loopDelayBounds}},
	}
	for range workers {
		t.latest = append(t.latest, latest{newLast(), newLast(), newLast()})
	}
	return t
}

// finish counts a request that is over.
func (t *frontend) finish(f Finished, known bool) {
	if !known {
		t.strangers.Store(true)
		t.started.WithLabelValues(f.Model, f.Endpoint, f.Kind).Inc()
	}
	t.finished.WithLabelValues(f.Model, f.Endpoint, f.Kind, f.Status, f.ErrorType).Inc()
	t.duration.WithLabelValues(f.Model).Observe(f.Duration)
	switch f.ErrorType {
	case errorCancelled:
		t.left.Add(1)
		t.cancelled.WithLabelValues(f.Model, f.Endpoint, f.Kind).Inc()
	case errorOverload:
		t.rejected.WithLabelValues(f.Model, f.Endpoint).Inc()
	}
	if f.Output > 0 { // lengths are of answers; a refusal has none
		t.latest[f.Worker].input.set(float64(f.Prompt))
		t.input.Observe(float64(f.Prompt))
		t.output.Observe(float64(f.Output))
		t.cached.Observe(float64(f.Cached))
	}
}

// canary is how long a task of the frontend sleeps over and over, to see how
// late it wakes.
const canary = 10 * time.Millisecond

// loopDelay is how late the canary has woken: on time, since nothing but a freeze
// keeps the model's thread from it, and once a freeze by all of that. Of freezes
// that ended between two scrapes only the sum is known; they are taken for alike.
func (f *freezes) loopDelay(at time.Duration, s sim.FrontendState) tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := s.Stalls - f.count; n > 0 {
		each := (s.Stalled - f.stalled).Seconds() / float64(n)
		for range n {
			f.delays.observe(each)
		}
		f.count, f.stalled = s.Stalls, s.Stalled
	}
	all := f.delays
	onTime := uint64((at - s.Stalled) / canary)
	all.counts[0] += onTime
	all.count += onTime
	return all
}

func (e *Exporter) writeFrontend(p page, s sim.Snapshot) {
	t, model := e.frontend, e.options.Model

	p.gauge(uptime, s.At.Seconds(), t.id)
	p.gauge(frontendDisconnected, float64(t.left.Load()))
	p.counter(frontendStalls, float64(s.Frontend.Stalls))
	delays := t.loopDelay(s.At, s.Frontend)
	p.histogram(frontendLoopDelay, &delays)
	p.gauge(requestPlaneInFlight, float64(s.Frontend.InFlight))
	p.told(t.started, t.finished, t.cancelled, t.rejected, t.duration)

	if t.asked.Load() { // the first request for a model makes its series
		p.gauge(frontendActive, float64(s.Frontend.InFlight), model)
		p.gauge(frontendInFlight, float64(s.Frontend.InFlight), model)
		p.gauge(frontendQueued, float64(s.Frontend.Queued), model)
		p.counter(frontendTokens, float64(s.Frontend.Tokens), model)
		p.told(t.ttft, t.gap, t.input, t.output, t.cached)
	}
	if t.strangers.Load() { // and is over at once where no such model is served
		p.gauge(frontendActive, 0, unknownModel)
		p.gauge(frontendInFlight, 0, unknownModel)
		p.gauge(frontendQueued, 0, unknownModel)
	}

	registered := false
	for i, w := range s.Workers {
		if !w.Present {
			continue
		}
		registered = true
		t.latest[i].write(p, decimalID(w.ID))
	}
	if registered { // a model is known by its workers' cards
		p.gauge(modelKVBlocks, float64(e.options.KVBlocks), model)
		p.gauge(modelMaxSequences, float64(e.options.MaxSequences), model)
		p.gauge(modelMaxBatchedTokens, float64(e.options.MaxBatchedTokens), model)
		p.gauge(modelBlockSize, spec.KVBlockTokens, model)
		p.gauge(modelContextLength, float64(e.options.ContextLength), model)
		p.gauge(modelMigrationLimit, 0, model)
	}
}

// write puts the latest of a worker, each once there is one.
func (l *latest) write(p page, id string) {
	for _, of := range []struct {
		desc  *prometheus.Desc
		value *last
	}{{workerLastTTFT, l.ttft}, {workerLastGap, l.gap}, {workerLastInput, l.input}} {
		if v, ok := of.value.get(); ok {
			p.gauge(of.desc, v, id, "none", "decode")
		}
	}
}
