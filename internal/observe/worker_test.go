package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var f = func(v float64) *float64 { return &v }

const firstAndGaps = "the counts of the worker's first-token and inter-token times, since it has no vllm:generation_tokens_total"

// The recorded pages are those of Dynamo's mocker; a real vLLM's values are
// told in its own words below.
func TestWorkerPage(t *testing.T) {
	for _, tc := range []struct {
		name string
		page string
		want []spec.Sample
	}{
		{
			"a mocker under load tells what it has, and its tokens are derived",
			string(recorded(t, "worker_during_load.txt")),
			[]spec.Sample{{
				Source: "worker", Name: "15440633145584257461",
				NotMeasured: map[string]string{
					"prefix_hits":    "the worker has no vllm:prefix_cache_hits_total or vllm:gpu_prefix_cache_hits_total",
					"prefix_queries": "the worker has no vllm:prefix_cache_queries_total or vllm:gpu_prefix_cache_queries_total",
					"prompt_tokens":  "the worker has no vllm:prompt_tokens_total",
				},
				Derived: map[string]string{"generated_tokens": firstAndGaps},
				Worker: &spec.WorkerSample{
					Running: f(2), Waiting: f(0), InFlight: f(2), KVUsage: f(0.00042724609375), Generated: f(303 + 37463), Preemptions: f(0),
					Ended: f(304), Failed: f(1),
				},
			}},
		},
		{
			"before its first request a worker is there, and nothing of its engine is known",
			string(recorded(t, "worker_before_first_request.txt")),
			[]spec.Sample{{
				Source: "worker", Name: "13886308762991187786",
				NotMeasured: all("the worker has no metrics of its engine, as before its first request",
					"running", "waiting", "kv_usage", "generated_tokens", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions"),
				Derived: map[string]string{"failed": "there is no dynamo_component_errors_total yet, which begins with the first error"},
				Worker:  &spec.WorkerSample{InFlight: f(0), Ended: f(0), Failed: f(0)},
			}},
		},
		{
			"vLLM by itself has counters, and no runtime around it",
			`vllm:num_requests_running{engine="0",model_name="m"} 7
vllm:num_requests_waiting{engine="0",model_name="m"} 3
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:generation_tokens_total{engine="0",model_name="m"} 1234
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1
vllm:prompt_tokens_total{engine="0",model_name="m"} 99
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 80
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 60
vllm:num_preemptions_total{engine="0",model_name="m"} 2
`,
			[]spec.Sample{{
				Source: "worker",
				NotMeasured: map[string]string{
					"in_flight": "vLLM does not tell it",
					"ended":     "the worker has no vllm:request_success_total",
					"failed":    "the worker has no vllm:request_success_total",
				},
				Worker: &spec.WorkerSample{
					Running: f(7), Waiting: f(3), KVUsage: f(0.5), Generated: f(1234), PromptTokens: f(99), PrefixQueries: f(80), PrefixHits: f(60), Preemptions: f(2),
				},
			}},
		},
		{
			"names of before 0.14 are understood",
			`vllm:num_requests_running{model_name="m"} 1
vllm:num_requests_waiting{model_name="m"} 0
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:generation_tokens_total{model_name="m"} 5
vllm:prompt_tokens_total{model_name="m"} 6
vllm:gpu_prefix_cache_queries_total{model_name="m"} 4
vllm:gpu_prefix_cache_hits_total{model_name="m"} 3
vllm:num_preemptions_total{model_name="m"} 0
dynamo_component_inflight_requests{dynamo_endpoint="generate",worker_id="ff",pod="decode-0"} 1
dynamo_component_requests_total{dynamo_endpoint="generate",worker_id="ff"} 9
dynamo_component_errors_total{dynamo_endpoint="generate",error_type="generate",worker_id="ff"} 2
dynamo_component_errors_total{dynamo_endpoint="generate",error_type="publish",worker_id="ff"} 1
`,
			[]spec.Sample{{
				Source: "worker", Name: "255",
				Worker: &spec.WorkerSample{
					Running: f(1), Waiting: f(0), InFlight: f(1), KVUsage: f(0.25), Generated: f(5), PromptTokens: f(6), PrefixQueries: f(4), PrefixHits: f(3),
					Preemptions: f(0), Ended: f(9), Failed: f(3), Pod: "decode-0",
				},
			}},
		},
		{
			"engines of one worker are told apart",
			`vllm:num_requests_running{engine="0"} 1
vllm:num_requests_running{engine="1"} 2
vllm:num_requests_waiting{engine="0"} 0
vllm:num_requests_waiting{engine="1"} 5
vllm:kv_cache_usage_perc{engine="0"} 0.1
vllm:kv_cache_usage_perc{engine="1"} 0.2
vllm:generation_tokens_total{engine="0"} 10
vllm:generation_tokens_total{engine="1"} 20
vllm:prompt_tokens_total{engine="0"} 1
vllm:prompt_tokens_total{engine="1"} 2
vllm:prefix_cache_queries_total{engine="0"} 0
vllm:prefix_cache_queries_total{engine="1"} 0
vllm:prefix_cache_hits_total{engine="0"} 0
vllm:prefix_cache_hits_total{engine="1"} 0
vllm:num_preemptions_total{engine="0"} 0
vllm:num_preemptions_total{engine="1"} 0
dynamo_component_inflight_requests{dynamo_endpoint="generate",worker_id="a"} 8
`,
			[]spec.Sample{
				{
					Source: "worker", Name: "10/0", NotMeasured: together,
					Worker: &spec.WorkerSample{
						Running: f(1), Waiting: f(0), KVUsage: f(0.1), Generated: f(10), PromptTokens: f(1), PrefixQueries: f(0), PrefixHits: f(0), Preemptions: f(0),
					},
				},
				{
					Source: "worker", Name: "10/1", NotMeasured: together,
					Worker: &spec.WorkerSample{
						Running: f(2), Waiting: f(5), KVUsage: f(0.2), Generated: f(20), PromptTokens: f(2), PrefixQueries: f(0), PrefixHits: f(0), Preemptions: f(0),
					},
				},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := (&workerPage{}).read(t.Context(), []byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

var together = map[string]string{
	"in_flight": "the worker counts its engines together",
	"ended":     "the worker has no dynamo_component_requests_total or vllm:request_success_total",
	"failed":    "the worker has no dynamo_component_errors_total or vllm:request_success_total",
}

func all(why string, fields ...string) map[string]string {
	m := map[string]string{}
	for _, name := range fields {
		m[name] = why
	}
	return m
}

func TestAPageThatIsNoneIsAReason(t *testing.T) {
	for _, tc := range []struct {
		name   string
		reader pageReader
		page   string
		want   string
	}{
		{"empty, of a worker", &workerPage{}, "", "nothing of Dynamo (dynamo_component_), vLLM (vllm:), SGLang (sglang:), "},
		{"empty, of a frontend", &frontendPage{}, "\n\n", "nothing begins with dynamo_frontend_"},
		{"another exporter's", &workerPage{}, "go_goroutines 7\n", "nothing of Dynamo (dynamo_component_), vLLM (vllm:), SGLang (sglang:), "},
		{"a frontend's, as a worker's", &workerPage{}, string(recorded(t, "frontend_during_load.txt")), "nothing of Dynamo (dynamo_component_), vLLM (vllm:), SGLang (sglang:), "},
		{"a vLLM's without statistics", &workerPage{}, "python_info 1\nhttp_request_duration_highr_seconds_count 0\n", "a vLLM that was started with --disable-log-stats tells none of its own"},
		{"cut in the middle of a line", &workerPage{}, "vllm:num_requests_running 7", "ends in the middle of a line"},
		{"HTML", &workerPage{}, "<!doctype html>\n<html>\n", "not a metrics page"},
		{"JSON", &workerPage{}, "{\"a\": 1}\n", "it is JSON; trtllm-serve has its page at /prometheus/metrics"},
		{"JSON, of a frontend", &frontendPage{}, "{\"a\": 1}\n", "not a metrics page"},
		{"a value that is none", &workerPage{}, "vllm:num_requests_running{engine=\"0\"} many\n", "not a metrics page: "},
		{"an endless line", &workerPage{}, "vllm:num_requests_running{engine=\"" + strings.Repeat("x", 70<<10) + "\"} 1\n", "longer than 64 KiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.reader.read(t.Context(), []byte(tc.page))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q; samples %v", err, tc.want, got)
			}
		})
	}
}

// No value of a server is infinite, and what is no number was not measured.
func TestWhatIsNoNumberIsNotMeasured(t *testing.T) {
	for _, v := range []string{"NaN", "+Inf", "-Inf"} {
		got, err := (&workerPage{}).read(t.Context(), []byte("vllm:num_requests_running "+v+"\nvllm:num_requests_waiting 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if w := got[0].Worker; w.Running != nil || *w.Waiting != 1 || got[0].NotMeasured["running"] == "" {
			t.Errorf("%s: running %v", v, w.Running)
		}
	}
}

// Dynamo's workers tell what they do by the component that they register as; those that
// decode are "backend", as those that do both.
func TestAWorkersPageTellsItsRole(t *testing.T) {
	page := string(recorded(t, "worker_during_load.txt"))
	for component, want := range map[string]spec.Role{"backend": spec.RoleBoth, "prefill": spec.RolePrefill, "decode": spec.RoleDecode} {
		got, err := new(workerPage).read(t.Context(), []byte(strings.ReplaceAll(page, `dynamo_component="backend"`, `dynamo_component="`+component+`"`)))
		if err != nil || len(got) != 1 || got[0].Worker.Role != want {
			t.Errorf("%s: %+v, %v, want %q", component, got, err, want)
		}
	}
}
