package exporter

import (
	"flag"
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

var options = Options{Model: "tiny", MaxSequences: 1024, MaxBatchedTokens: 8192, KVBlocks: 21900, Node: "node-a"}

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
				ID: 0x6a331c8dd1c4e925, Present: true, Running: 1022, Waiting: 151, Held: 1173, KVUsage: 0.98, Generated: 4000,
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
		Frontend: sim.FrontendState{InFlight: 1301, Queued: 152, Served: 1173, Failed: 3, Tokens: 154312},
	}
}

// observe tells one of everything that serve can tell.
func observe(e *Exporter) {
	e.Started("chat_completions", "stream")
	e.Started("chat_completions", "unary")
	e.Started("completions", "stream")
	e.FirstToken(0, 0.125, 0.0625)
	e.Gap(0, 0.008)
	e.Gap(0, 0.5)
	e.FirstToken(1, 9, 7.5)
	e.Finished(Finished{
		Worker: 0, Endpoint: "chat_completions", Kind: "stream", Status: "success", Model: "tiny", FinishReason: "length",
		Duration: 1.25, Prefill: 0.0625, Decode: 1.125, Prompt: 130, Cached: 16, Output: 3,
	})
	e.Finished(Finished{
		Worker: 0, Endpoint: "completions", Kind: "stream", Status: "success", Model: "tiny", FinishReason: "stop",
		Duration: 0.5, Prefill: 0.5, Prompt: 500, Output: 1,
	})
	e.Finished(Finished{
		Worker: 1, Endpoint: "chat_completions", Kind: "stream", Status: "error", ErrorType: "cancelled", Model: "tiny",
		Duration: 30, Prompt: 128, Output: 5,
	})
	e.Finished(Finished{Worker: 1, Endpoint: "chat_completions", Kind: "unary", Status: "error", ErrorType: "internal", Model: "tiny", Duration: 0.002})
	e.Finished(Finished{Worker: -1, Endpoint: "chat_completions", Kind: "unary", Status: "error", ErrorType: "overload", Model: "tiny", Duration: 0.001})
	e.Finished(Finished{Worker: -1, Endpoint: "chat_completions", Kind: "stream", Status: "error", ErrorType: "not_found", Model: "nobody/knows", Duration: 0.0005})
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
		{"a first token makes its worker's latest", nil, func(e *Exporter) { e.FirstToken(1, 1, 1) }, []string{last}, []string{lastIn}},
		{
			"a worker that is gone takes its latest along", func(s *sim.Snapshot) { s.Workers[1].Present = false },
			func(e *Exporter) { e.FirstToken(1, 1, 1) }, []string{seqs}, []string{last},
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
		e.Finished(Finished{Worker: 0, Model: "tiny", Status: "error", ErrorType: "internal"})
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
		{"a worker has its own", w1, "vllm:time_to_first_token_seconds", nil, 1},
		{"and how long it queued", w1, "vllm:request_queue_time_seconds", nil, 1},
		{"gaps are their worker's", w0, "vllm:inter_token_latency_seconds", nil, 2},
		{"and no other's", w1, "vllm:inter_token_latency_seconds", nil, 0},
		{"the latest gap is kept", front, "dynamo_frontend_worker_last_inter_token_latency_seconds", []string{"worker_id", "15440633145584257461"}, 0.5},
		{"an unknown model has one name", front, "dynamo_frontend_requests_total", []string{"model", "unknown_model", "error_type", "not_found"}, 1},
		{"and was started too", front, "dynamo_frontend_requests_started_total", []string{"model", "unknown_model"}, 1},
		{"and nobody's request is in flight for it", front, "dynamo_frontend_active_requests", []string{"model", "unknown_model"}, 0},
		{"a client that went away is counted", front, "dynamo_frontend_disconnected_clients", nil, 1},
		{"by its endpoint", front, "dynamo_frontend_model_cancellation_total", []string{"endpoint", "chat_completions", "request_type", "stream"}, 1},
		{"a rejection is counted", front, "dynamo_frontend_model_rejection_total", nil, 1},
		{"a refusal has no length", front, "dynamo_frontend_output_sequence_tokens", nil, 3},
		{"but a duration", front, "dynamo_frontend_request_duration_seconds", []string{"model", "tiny"}, 5},
		{"a worker's handler has all that it had", w1, "dynamo_component_request_duration_seconds", []string{"worker_id", "6a331c8dd1c4e925"}, 2},
		{"its engine's times are of whole answers", w1, "vllm:e2e_request_latency_seconds", nil, 0},
		{"a cancellation is an abort", w1, "vllm:request_success_total", []string{"finished_reason", "abort"}, 1},
		{"and not an error", w1, "dynamo_component_errors_total", []string{"error_type", "generate"}, 1},
		{"reasons are kept apart: stop", w0, "vllm:request_success_total", []string{"finished_reason", "stop"}, 1},
		{"reasons are kept apart: length", w0, "vllm:request_success_total", []string{"finished_reason", "length"}, 1},
		{"one token has no time per token", w0, "vllm:request_time_per_output_token_seconds", nil, 1},
		{"a handler's requests are of the snapshot", w0, "dynamo_component_requests_total", []string{"dynamo_endpoint", "generate"}, 1170},
		{"and what it has is what runs and waits", w1, "dynamo_component_inflight_requests", nil, 1173},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := value(t, tc.page, tc.name, tc.labels...); got != tc.want {
				t.Errorf("%s%q = %v, want %v", tc.name, tc.labels, got, tc.want)
			}
		})
	}
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
}

func TestATokenCostsNoMemory(t *testing.T) {
	e := New(&source{said: moment()}, options)
	if n := testing.AllocsPerRun(100, func() { e.Gap(0, 0.01); e.FirstToken(1, 0.1, 0.05) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGap(b *testing.B) {
	e := New(&source{said: moment()}, options)
	b.ReportAllocs()
	for b.Loop() {
		e.Gap(1, 0.0123)
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
