package exporter

import (
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"aicr/internal/sim"
)

var update = flag.Bool("update", false, "rewrite golden files")

// source tells one Snapshot over and over, and counts how often.
type source struct {
	said  sim.Snapshot
	asked atomic.Int64
}

func (s *source) Snapshot() sim.Snapshot {
	s.asked.Add(1)
	return s.said
}

var options = Options{Model: "tiny", MaxSequences: 1024, MaxBatchedTokens: 8192, KVBlocks: 21900, ContextLength: 40960, Node: "node-a"}

const gib = 1 << 30

// moment is a fleet under load: worker 1 queues, GPU 1 throttles and is broken.
func moment() sim.Snapshot {
	return sim.Snapshot{
		At: 90 * time.Second,
		Workers: []sim.WorkerState{
			{
				ID: 0xd6482609b5ac09b5, Present: true, Running: 128, Held: 128, KVUsage: 0.25, Generated: 150312,
				PromptTokens: 153189, PrefixQueries: 153189, PrefixHits: 1600, Finished: 1170,
			},
			{
				ID: 0x6a331c8dd1c4e925, Present: true, Started: 30 * time.Second, Running: 1022, Waiting: 151, Held: 1173, KVUsage: 0.98, Generated: 4000,
				PromptTokens: 99000, PrefixQueries: 99000, Preemptions: 18, Finished: 3,
			},
		},
		GPUs: []sim.GPUState{
			{
				UUID: "GPU-0", Utilization: 0.97, PowerW: 640.5, EnergyJ: 57600, SMClockMHz: 1980, MemClockMHz: 2619,
				TemperatureC: 61, MemoryUsed: 70 * gib, MemoryTotal: 80 * gib,
			},
			{
				UUID: "GPU-1", Utilization: 0.05, PowerW: 130, EnergyJ: 11700, SMClockMHz: 990, MemClockMHz: 2619,
				TemperatureC: 88, MemoryUsed: 70 * gib, MemoryTotal: 80 * gib,
				XID: 79, DoubleBit: 2, RemapFailure: true, Throttle: []string{"sw_thermal", "hw_slowdown"},
			},
		},
		Node:     sim.NodeState{CPUWait: 1.5, MemoryWait: 0.25, IOWait: 0.5},
		Frontend: sim.FrontendState{InFlight: 1301, Queued: 152, Served: 1173, Failed: 3, Tokens: 154312, Stalls: 2, Stalled: 3 * time.Second},
	}
}

// observe tells one of everything that serve and a fleet can tell.
func observe(e *Exporter) {
	e.Started("chat_completions", "stream")
	e.Started("chat_completions", "unary")
	e.Started("completions", "stream")
	e.FirstToken(0, 0.125)
	e.Gap(0, 0.008)
	e.Gap(0, 0.5)
	e.FirstToken(1, 9)
	e.Finished(Finished{
		Worker: 0, Endpoint: "chat_completions", Kind: "stream", Status: "success", Model: "tiny",
		Duration: 1.25, Prompt: 130, Cached: 16, Output: 3,
	})
	e.Finished(Finished{Worker: 0, Endpoint: "completions", Kind: "stream", Status: "success", Model: "tiny", Duration: 0.5, Prompt: 500, Output: 1})
	e.Finished(Finished{
		Worker: 1, Endpoint: "chat_completions", Kind: "stream", Status: "error", ErrorType: "cancelled", Model: "tiny",
		Duration: 30, Prompt: 128, Output: 5,
	})
	e.Finished(Finished{Worker: 1, Endpoint: "chat_completions", Kind: "unary", Status: "error", ErrorType: "internal", Model: "tiny", Duration: 0.002})
	e.Finished(Finished{Worker: -1, Endpoint: "chat_completions", Kind: "unary", Status: "error", ErrorType: "overload", Model: "tiny", Duration: 0.001})
	e.Finished(Finished{Worker: -1, Endpoint: "chat_completions", Kind: "stream", Status: "error", ErrorType: "not_found", Model: "nobody/knows", Duration: 0.0005})

	const ms = time.Millisecond
	long := &sim.Stream{Queued: 1000 * ms, Admitted: 1250 * ms, Output: 3, Tag: EndsByLength}
	give(e, long, 2000*ms, 2008*ms, 2508*ms)
	e.Left(2508*ms, long, true)
	short := &sim.Stream{Queued: 3000 * ms, Admitted: 3000 * ms, Output: 1, Tag: EndsByStop}
	give(e, short, 3500*ms)
	e.Left(3500*ms, short, true)

	forsaken := &sim.Stream{Worker: 1, Queued: 1000 * ms, Admitted: 8500 * ms, Output: 9}
	give(e, forsaken, 10000*ms, 10016*ms)
	e.Left(31000*ms, forsaken, false)
	unheard := &sim.Stream{Worker: 1, Queued: 1000 * ms, Output: 9}
	e.Left(1002*ms, unheard, false)
	broken := &sim.Stream{Worker: 1, Queued: 3000 * ms, Admitted: 3000 * ms, Output: 9}
	give(e, broken, 3500*ms)
	e.Left(3500*ms, broken, false)
	empty := &sim.Stream{Worker: 1, Queued: 4000 * ms, Admitted: 4250 * ms, Output: 9, Made: 4500 * ms}
	e.Left(4500*ms, empty, false)
}

// give has a worker make a request's tokens at these times.
func give(e *Exporter, s *sim.Stream, at ...time.Duration) {
	for _, now := range at {
		e.Made(now, s)
		s.Made = now
	}
}

// scrape fetches a page.
func scrape(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Result()
}

func body(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// families fetches a page and reads it as Prometheus does.
func families(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	fs, err := parser.TextToMetricFamilies(strings.NewReader(body(t, h)))
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// value finds the value of the one series that has these labels, given as
// name, value, name, value.
func value(t *testing.T, fs map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	var found []float64
	for _, m := range fs[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		match := true
		for i := 0; i < len(labels); i += 2 {
			v, ok := has[labels[i]]
			match = match && ok && v == labels[i+1]
		}
		if match {
			found = append(found, m.GetGauge().GetValue()+m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s%q: %d series, want 1", name, labels, len(found))
	}
	return found[0]
}

func TestPagesAreWhatTheyWere(t *testing.T) {
	idle := moment()
	for i := range idle.Workers {
		idle.Workers[i].Present = false
	}
	idle.Frontend = sim.FrontendState{}
	quiet, told := New(&source{said: idle}, options), New(&source{said: moment()}, options)
	observe(told)
	for name, h := range map[string]http.Handler{
		"frontend_idle": quiet.Frontend(),
		"frontend":      told.Frontend(),
		"worker_quiet":  New(&source{said: moment()}, options).Worker(0),
		"worker":        told.Worker(0),
		"worker_errors": told.Worker(1),
		"gpus":          told.GPUs(),
		"node":          told.Node(),
	} {
		t.Run(name, func(t *testing.T) {
			got := body(t, h)
			families(t, h) // it can be read
			golden := filepath.Join("testdata", name+".golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASampleThatIsMissingIsNotDelivered(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		spoil func(*sim.Snapshot)
		page  func(*Exporter) http.Handler
		want  int
	}{
		{"a worker's", func(s *sim.Snapshot) { s.Workers[1].Missing = true }, func(e *Exporter) http.Handler { return e.Worker(1) }, 503},
		{"a worker's, while the others are", func(s *sim.Snapshot) { s.Workers[1].Missing = true }, func(e *Exporter) http.Handler { return e.Worker(0) }, 200},
		{"that of a worker that is not there", func(s *sim.Snapshot) { s.Workers[0].Present = false }, func(e *Exporter) http.Handler { return e.Worker(0) }, 503},
		{"one GPU's, while the others are", func(s *sim.Snapshot) { s.GPUs[0].Missing = true }, (*Exporter).GPUs, 200},
		{"all GPUs'", func(s *sim.Snapshot) { s.GPUs[0].Missing, s.GPUs[1].Missing = true, true }, (*Exporter).GPUs, 503},
		{"the node's", func(s *sim.Snapshot) { s.Node.Missing = true }, (*Exporter).Node, 503},
		{"the node's, and the GPUs' are", func(s *sim.Snapshot) { s.Node.Missing = true }, (*Exporter).GPUs, 200},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			said := moment()
			tc.spoil(&said)
			w := httptest.NewRecorder()
			tc.page(New(&source{said: said}, options)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if w.Code != tc.want {
				t.Errorf("status %d, want %d", w.Code, tc.want)
			}
			if empty := w.Body.Len() == 0; empty != (tc.want == 503) {
				t.Errorf("status %d with %d bytes", w.Code, w.Body.Len())
			}
		})
	}
}

func TestAMissingGPUHasNoSeries(t *testing.T) {
	said := moment()
	said.GPUs[0].Missing = true
	for name, f := range families(t, New(&source{said: said}, options).GPUs()) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "gpu" && l.GetValue() != "1" {
					t.Errorf("%s has GPU %s", name, l.GetValue())
				}
			}
		}
	}
}

func TestAPageIsOneSnapshot(t *testing.T) {
	src := &source{said: moment()}
	e := New(src, options)
	for name, h := range map[string]http.Handler{"frontend": e.Frontend(), "worker": e.Worker(0), "gpus": e.GPUs(), "node": e.Node()} {
		before := src.asked.Load()
		scrape(h)
		if n := src.asked.Load() - before; n != 1 {
			t.Errorf("%s: %d snapshots", name, n)
		}
	}
}

func TestSeriesAppearWhenTheRealOnesDo(t *testing.T) {
	const (
		ttft   = "dynamo_frontend_time_to_first_token_seconds"
		total  = "dynamo_frontend_requests_total"
		active = "dynamo_frontend_active_requests"
		seqs   = "dynamo_frontend_model_max_num_seqs"
		lastIn = "dynamo_frontend_worker_last_input_sequence_tokens"
		last   = "dynamo_frontend_worker_last_time_to_first_token_seconds"
		failed = "dynamo_component_errors_total"
	)
	nobody := func(s *sim.Snapshot) { s.Workers[0].Present, s.Workers[1].Present = false, false }
	for _, tc := range []struct {
		rule   string
		spoil  func(*sim.Snapshot)
		told   func(*Exporter)
		there  []string
		absent []string
	}{
		{"without workers no model is known", nobody, func(*Exporter) {}, nil, []string{seqs, active, ttft, total}},
		{"a worker makes its model known", nil, func(*Exporter) {}, []string{seqs}, []string{active, ttft, total, last}},
		{
			"the first request makes its model's series", nil, func(e *Exporter) { e.Started("completions", "unary") },
			[]string{active, ttft}, []string{total, last},
		},
		{
			"the end of the first counts requests", nil, func(e *Exporter) {
				e.Finished(Finished{Worker: 0, Model: "tiny", Status: "error", ErrorType: "internal"})
			},
			[]string{total}, []string{lastIn},
		},
		{"a first token makes its worker's latest", nil, func(e *Exporter) { e.FirstToken(1, 1) }, []string{last}, []string{lastIn}},
		{
			"a worker that is gone takes its latest along", func(s *sim.Snapshot) { s.Workers[1].Present = false },
			func(e *Exporter) { e.FirstToken(1, 1) }, []string{seqs}, []string{last},
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			said := moment()
			if tc.spoil != nil {
				tc.spoil(&said)
			}
			e := New(&source{said: said}, options)
			tc.told(e)
			fs := families(t, e.Frontend())
			for _, name := range tc.there {
				if fs[name] == nil {
					t.Errorf("%s is not there", name)
				}
			}
			for _, name := range tc.absent {
				if fs[name] != nil {
					t.Errorf("%s is there", name)
				}
			}
		})
	}
	t.Run("a worker's errors, with the first", func(t *testing.T) {
		e := New(&source{said: moment()}, options)
		if families(t, e.Worker(0))[failed] != nil {
			t.Error("there before it")
		}
		broken := &sim.Stream{}
		give(e, broken, time.Second)
		e.Left(time.Second, broken, false)
		if families(t, e.Worker(0))[failed] == nil {
			t.Error("not there after it")
		}
	})
}

func TestWhatIsToldIsCountedWhereItBelongs(t *testing.T) {
	e := New(&source{said: moment()}, options)
	observe(e)
	front, w0, w1 := families(t, e.Frontend()), families(t, e.Worker(0)), families(t, e.Worker(1))
	for _, tc := range []struct {
		rule   string
		page   map[string]*dto.MetricFamily
		name   string
		labels []string
		want   float64
	}{
		{"the frontend has every first token", front, "dynamo_frontend_time_to_first_token_seconds", nil, 2},
		{"and every gap", front, "dynamo_frontend_inter_token_latency_seconds", nil, 2},
		{"a worker has its own first tokens", w0, "vllm:time_to_first_token_seconds", nil, 2},
		{"and no other's", w1, "vllm:time_to_first_token_seconds", nil, 2},
		{"gaps are their worker's", w0, "vllm:inter_token_latency_seconds", nil, 2},
		{"and no other's", w1, "vllm:inter_token_latency_seconds", nil, 1},
		{"tokens are those that were made", w0, "vllm:generation_tokens_total", nil, 4},
		{"the latest gap is kept", front, "dynamo_frontend_worker_last_inter_token_latency_seconds", []string{"worker_id", "15440633145584257461"}, 0.5},
		{"an unknown model has one name", front, "dynamo_frontend_requests_total", []string{"model", "unknown_model", "error_type", "not_found"}, 1},
		{"and was started too", front, "dynamo_frontend_requests_started_total", []string{"model", "unknown_model"}, 1},
		{"and nobody's request is in flight for it", front, "dynamo_frontend_active_requests", []string{"model", "unknown_model"}, 0},
		{"a client that went away is counted", front, "dynamo_frontend_disconnected_clients", nil, 1},
		{"by its endpoint", front, "dynamo_frontend_model_cancellation_total", []string{"endpoint", "chat_completions", "request_type", "stream"}, 1},
		{"a rejection is counted", front, "dynamo_frontend_model_rejection_total", nil, 1},
		{"a refusal has no length", front, "dynamo_frontend_output_sequence_tokens", nil, 3},
		{"but a duration", front, "dynamo_frontend_request_duration_seconds", []string{"model", "tiny"}, 5},
		{"a worker's handler has all that it had", w1, "dynamo_component_request_duration_seconds", []string{"worker_id", "6a331c8dd1c4e925"}, 4},
		{"and counts them", w1, "dynamo_component_requests_total", []string{"dynamo_endpoint", "generate"}, 4},
		{"its engine's times are of whole answers", w0, "vllm:e2e_request_latency_seconds", nil, 2},
		{"an answer that broke is none", w1, "vllm:e2e_request_latency_seconds", nil, 1},
		{"who was taken away was aborted", w1, "vllm:request_success_total", []string{"finished_reason", "abort"}, 2},
		{"which is a cancellation", w1, "dynamo_component_cancellation_total", nil, 2},
		{"and not an error", w1, "dynamo_component_errors_total", []string{"error_type", "generate"}, 1},
		{"to its engine neither", w1, "vllm:request_success_total", []string{"finished_reason", "error"}, 1},
		{"to say nothing is to stop", w1, "vllm:request_success_total", []string{"finished_reason", "stop"}, 1},
		{"reasons are kept apart: stop", w0, "vllm:request_success_total", []string{"finished_reason", "stop"}, 1},
		{"reasons are kept apart: length", w0, "vllm:request_success_total", []string{"finished_reason", "length"}, 1},
		{"one token has no time per token", w0, "vllm:request_time_per_output_token_seconds", nil, 1},
		{"none neither", w1, "vllm:request_time_per_output_token_seconds", nil, 0},
		{"a process is as old as it is", w1, "dynamo_component_uptime_seconds", nil, 60},
		{"one that never ended, as the fleet", w0, "dynamo_component_uptime_seconds", nil, 90},
		{"the context is the served one", front, "dynamo_frontend_model_context_length", nil, 40960},
		{"and what it has is what runs and waits", w1, "dynamo_component_inflight_requests", nil, 1173},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := value(t, tc.page, tc.name, tc.labels...); got != tc.want {
				t.Errorf("%s%q = %v, want %v", tc.name, tc.labels, got, tc.want)
			}
		})
	}
}

// Where a worker's time goes: what it queued, computed and spoke is all of it.
func TestAWorkersTimesAreItsOwn(t *testing.T) {
	e := New(&source{said: moment()}, options)
	observe(e)
	w0 := families(t, e.Worker(0))
	for name, want := range map[string]float64{
		"vllm:time_to_first_token_seconds":           1 + 0.5,
		"vllm:inter_token_latency_seconds":           0.508,
		"vllm:request_queue_time_seconds":            0.25,
		"vllm:request_prefill_time_seconds":          0.75 + 0.5,
		"vllm:request_decode_time_seconds":           0.508,
		"vllm:e2e_request_latency_seconds":           1.508 + 0.5,
		"vllm:request_time_per_output_token_seconds": 0.254,
		"dynamo_component_request_duration_seconds":  1.508 + 0.5,
	} {
		if got := w0[name].GetMetric()[0].GetHistogram().GetSampleSum(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v seconds, want %v", name, got, want)
		}
	}
}

func TestWhatTheFrontendSeesIsNoWorkersMatter(t *testing.T) {
	e := New(&source{said: moment()}, options)
	before := body(t, e.Worker(0))
	e.Started("chat_completions", "stream")
	e.FirstToken(0, 9)
	e.Gap(0, 8)
	e.Finished(Finished{Worker: 0, Model: "tiny", Status: "error", ErrorType: "internal", Duration: 20, Output: 2})
	if diff := cmp.Diff(before, body(t, e.Worker(0))); diff != "" {
		t.Errorf("a worker's page changed:\n%s", diff)
	}
}

func TestAProcessKnowsNothingOfTheOneBefore(t *testing.T) {
	for _, tc := range []struct {
		rule string
		by   func(*Exporter) http.Handler // the page by which the new one is found
	}{
		{"found by its own page", func(e *Exporter) http.Handler { return e.Worker(1) }},
		{"found by another", (*Exporter).Node},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			src := &source{said: moment()}
			restarted := New(src, options)
			observe(restarted)
			src.said.Workers[1].Started += time.Second
			scrape(tc.by(restarted))
			fresh := New(src, options)
			for _, e := range []*Exporter{restarted, fresh} {
				give(e, &sim.Stream{Worker: 1, Queued: 95 * time.Second}, 96*time.Second, 97*time.Second)
			}
			if diff := cmp.Diff(body(t, fresh.Worker(1)), body(t, restarted.Worker(1))); diff != "" {
				t.Errorf("-fresh +restarted:\n%s", diff)
			}
			if got := value(t, families(t, restarted.Worker(0)), "vllm:generation_tokens_total"); got != 4 {
				t.Errorf("the other has %v tokens, want 4", got)
			}
		})
	}
}

func TestWhatANewProcessHasSeenIsKeptWhenItIsFound(t *testing.T) {
	src := &source{said: moment()}
	e := New(src, options)
	observe(e)
	for _, step := range []struct {
		when    string
		started time.Duration
		made    []time.Duration
		tokens  float64
	}{
		{"as before", 30 * time.Second, nil, 3},
		{"it went away", 100 * time.Second, nil, 0},
		{"it came back, and has spoken since", 110 * time.Second, []time.Duration{111 * time.Second, 112 * time.Second}, 2},
		{"it spoke on", 110 * time.Second, []time.Duration{113 * time.Second}, 3},
		{"another came, and it is not known who spoke", 120 * time.Second, []time.Duration{114 * time.Second, 121 * time.Second}, 0},
	} {
		src.said.Workers[1].Started = step.started
		give(e, &sim.Stream{Worker: 1}, step.made...)
		if got := value(t, families(t, e.Worker(1)), "vllm:generation_tokens_total"); got != step.tokens {
			t.Errorf("%s: %v tokens, want %v", step.when, got, step.tokens)
		}
	}
}

func TestTokensAreAsManyAsTheirTimes(t *testing.T) {
	e := New(&source{said: moment()}, options)
	var enough atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		s := &sim.Stream{}
		for n := 0; !enough.Load(); n++ {
			if n%3 == 2 {
				e.Left(s.Made, s, true)
				s = &sim.Stream{}
			}
			give(e, s, time.Duration(n+1)*time.Millisecond)
		}
	})
	last := 0.0
	for range 40 {
		fs := families(t, e.Worker(0))
		last = value(t, fs, "vllm:generation_tokens_total")
		if first, gaps := value(t, fs, "vllm:time_to_first_token_seconds"), value(t, fs, "vllm:inter_token_latency_seconds"); first+gaps != last {
			t.Errorf("%v tokens, of which %v first and %v others", last, first, gaps)
			break
		}
	}
	enough.Store(true)
	wg.Wait()
	if last == 0 {
		t.Error("no token was made meanwhile")
	}
}

// The canary sleeps 10 ms over and over. A freeze makes it late once.
func TestAFreezeIsOneLateWakeOfTheEventLoop(t *testing.T) {
	src := &source{said: moment()}
	src.said.Frontend = sim.FrontendState{}
	e := New(src, options)
	for _, step := range []struct {
		when             string
		at, stalled      time.Duration
		stalls           int64
		count, late, sum float64 // wakes, those that were a second late and more, and by how much in all
	}{
		{"at the start", 0, 0, 0, 0, 0, 0},
		{"in peace", 10 * time.Second, 0, 0, 1000, 0, 0},
		{"in a freeze it sleeps", 12 * time.Second, 2 * time.Second, 0, 1000, 0, 0},
		{"then it is late", 18 * time.Second, 8 * time.Second, 1, 1001, 1, 8},
		{"and again in time", 28 * time.Second, 8 * time.Second, 1, 2001, 1, 8},
		{"two between two looks are alike", 38 * time.Second, 12 * time.Second, 3, 2603, 3, 12},
		{"a short one is late by little", 48 * time.Second, 12*time.Second + 300*time.Millisecond, 4, 3574, 3, 12.3},
	} {
		src.said.At, src.said.Frontend.Stalled, src.said.Frontend.Stalls = step.at, step.stalled, step.stalls
		fs := families(t, e.Frontend())
		h := fs["dynamo_frontend_event_loop_delay_seconds"].GetMetric()[0].GetHistogram()
		inTime := 0.0
		for _, b := range h.GetBucket() {
			if b.GetUpperBound() == 1 {
				inTime = float64(b.GetCumulativeCount())
			}
		}
		type is struct{ Count, Late, Sum, Stalls float64 }
		got := is{float64(h.GetSampleCount()), float64(h.GetSampleCount()) - inTime, h.GetSampleSum(), value(t, fs, "dynamo_frontend_event_loop_stall_total")}
		if diff := cmp.Diff(is{step.count, step.late, step.sum, float64(step.stalls)}, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.when, diff)
		}
	}
}

// A tally is a Prometheus histogram, bucket by bucket.
func TestATallyCountsAsPrometheusDoes(t *testing.T) {
	d := desc("x", "X.")
	for name, bounds := range map[string][]float64{
		"first tokens": workerTTFTBounds, "gaps": workerGapBounds, "requests": workerRequestBounds,
		"handlers": handlerBounds, "delays": loopDelayBounds,
	} {
		t.Run(name, func(t *testing.T) {
			theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "X.", Buckets: bounds})
			ours := tally{bounds: bounds}
			for _, b := range bounds {
				for _, v := range []float64{b, math.Nextafter(b, -1), math.Nextafter(b, math.Inf(1)), b} {
					theirs.Observe(v)
					ours.observe(v)
				}
			}
			want := body(t, pageOf(func(p page) { p.told(theirs) }))
			got := body(t, pageOf(func(p page) { p.histogram(d, &ours) }))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-theirs +ours:\n%s", diff)
			}
		})
	}
}

func pageOf(fill func(page)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, fill) })
}

func TestHexIdentitiesAreNotPadded(t *testing.T) {
	said := moment()
	said.Workers[0].ID = 0x00248d0700abcdef
	fs := families(t, New(&source{said: said}, options).Worker(0))
	value(t, fs, "dynamo_component_uptime_seconds", "worker_id", "248d0700abcdef")
}

func TestClockEventReasonsAreDCGMBits(t *testing.T) {
	for event, bits := range map[string]float64{
		"gpu_idle": 0x1, "power_cap": 0x4, "hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80,
	} {
		said := moment()
		said.GPUs[0].Throttle = []string{event, event}
		fs := families(t, New(&source{said: said}, options).GPUs())
		if got := value(t, fs, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gpu", "0"); got != bits {
			t.Errorf("%s: bits %v, want %v", event, got, bits)
		}
		if got := value(t, fs, "DCGM_EXP_CLOCK_EVENTS_COUNT", "gpu", "0", "clock_event", event); got != 1 {
			t.Errorf("%s: count %v", event, got)
		}
	}
	t.Run("another is an error, not silence", func(t *testing.T) {
		said := moment()
		said.GPUs[0].Throttle = []string{"gremlins"}
		if got := scrape(New(&source{said: said}, options).GPUs()).StatusCode; got != http.StatusInternalServerError {
			t.Errorf("status %d", got)
		}
	})
}

func TestScrapesAndObservationsAtOnce(t *testing.T) {
	e := New(&source{said: moment()}, options)
	const tellers, rounds = 4, 50
	var wg sync.WaitGroup
	for range tellers {
		wg.Go(func() {
			for range rounds {
				observe(e)
			}
		})
		wg.Go(func() {
			for range rounds / 5 {
				for _, h := range []http.Handler{e.Frontend(), e.Worker(0), e.Worker(1), e.GPUs(), e.Node()} {
					if status := scrape(h).StatusCode; status != http.StatusOK {
						t.Errorf("status %d", status)
					}
				}
			}
		})
	}
	wg.Wait()
	fs := families(t, e.Frontend())
	if got := value(t, fs, "dynamo_frontend_inter_token_latency_seconds"); got != 2*tellers*rounds {
		t.Errorf("%v gaps, want %d", got, 2*tellers*rounds)
	}
	if got := value(t, families(t, e.Worker(0)), "vllm:generation_tokens_total"); got != 4*tellers*rounds {
		t.Errorf("%v tokens, want %d", got, 4*tellers*rounds)
	}
}

func TestATokenCostsNoMemory(t *testing.T) {
	e := New(&source{said: moment()}, options)
	s := &sim.Stream{Output: 2}
	if n := testing.AllocsPerRun(100, func() {
		e.Gap(0, 0.01)
		e.FirstToken(1, 0.1)
		s.Made = 0
		e.Made(time.Second, s)
		s.Made = time.Second
		e.Made(2*time.Second, s)
		e.Left(3*time.Second, s, true)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMade(b *testing.B) {
	e := New(&source{said: moment()}, options)
	s := &sim.Stream{Made: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		e.Made(time.Second+12*time.Millisecond, s)
	}
}

func BenchmarkFrontendScrape(b *testing.B) {
	e := New(&source{said: moment()}, options)
	observe(e)
	b.ReportAllocs()
	for b.Loop() {
		scrape(e.Frontend())
	}
}
