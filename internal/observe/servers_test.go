package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// What each server's page comes to. A page that was recorded is so marked in docs/metrics.md
// and in testdata/README.md; the others are written after what is published.
func TestServersPages(t *testing.T) {
	noRuntime := func(name string, missing map[string]string) map[string]string {
		missing["in_flight"] = name + " does not tell it"
		return missing
	}
	want := map[string]spec.Sample{
		"Dynamo": {
			Name: "15440633145584257461",
			NotMeasured: map[string]string{
				"prefix_hits":    "the worker has no vllm:prefix_cache_hits_total or vllm:gpu_prefix_cache_hits_total",
				"prefix_queries": "the worker has no vllm:prefix_cache_queries_total or vllm:gpu_prefix_cache_queries_total",
				"prompt_tokens":  "the worker has no vllm:prompt_tokens_total",
			},
			Derived: map[string]string{"generated_tokens": firstAndGaps},
			Worker: &spec.WorkerSample{Running: f(2), Waiting: f(0), InFlight: f(2), KVUsage: f(0.00042724609375), Generated: f(303 + 37463), Preemptions: f(0),
				Ended: f(304), Failed: f(1)},
		},
		"vLLM": {
			NotMeasured: noRuntime("vLLM", map[string]string{}),
			Worker: &spec.WorkerSample{Started: f(1.79484718311e+09), Running: f(8), Waiting: f(4), Deferred: f(0), KVUsage: f(0.003662556464412159), Asleep: f(0), Generated: f(14934),
				PromptTokens: f(30512), PrefixQueries: f(30512), PrefixHits: f(9984), Preemptions: f(0), Rejected: f(0), Ended: f(133), Failed: f(0), Aborted: f(0)},
		},
		"SGLang": {
			NotMeasured: noRuntime("SGLang", map[string]string{}),
			Derived:     map[string]string{"generated_tokens": "the counts of the worker's first-token and inter-token times"},
			Worker: &spec.WorkerSample{Running: f(12), Waiting: f(3), KVUsage: f(0.28), Generated: f(62 + 3850), EndedTokens: f(3100), PromptTokens: f(8000),
				PrefixQueries: f(8000), PrefixHits: f(2000), Preemptions: f(5), Ended: f(50), Failed: f(2), Aborted: f(2)},
		},
		"TensorRT-LLM": {
			NotMeasured: noRuntime("TensorRT-LLM", untold("TensorRT-LLM", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions")),
			Worker:      &spec.WorkerSample{Running: f(7), Waiting: f(1), KVUsage: f(0.62), EndedTokens: f(5120), Ended: f(50), Failed: f(2)},
		},
		"Triton with TensorRT-LLM": {
			NotMeasured: noRuntime("Triton with TensorRT-LLM", untold("Triton with TensorRT-LLM", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions")),
			Worker:      &spec.WorkerSample{Running: f(6), Waiting: f(2), KVUsage: f(0.4875), EndedTokens: f(3840), Ended: f(31), Failed: f(1)},
		},
		"TGI": {
			NotMeasured: noRuntime("TGI", untold("TGI", "kv_usage", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions")),
			Worker:      &spec.WorkerSample{Running: f(3), Waiting: f(1), EndedTokens: f(4736), Ended: f(40), Failed: f(3)},
		},
		"llama.cpp": {
			NotMeasured: map[string]string{
				"kv_usage": "the worker has no llamacpp:kv_cache_usage_ratio", "in_flight": "llama.cpp does not tell it", "preemptions": "llama.cpp does not tell it",
				"prefix_queries": "llama.cpp does not tell it", "prefix_hits": "llama.cpp does not tell it", "ended": "llama.cpp does not tell it", "failed": "llama.cpp does not tell it",
			},
			Derived: map[string]string{"generated_tokens": "llamacpp:n_decode_total times llamacpp:n_busy_slots_per_decode"},
			Worker:  &spec.WorkerSample{Running: f(4), Waiting: f(2), Generated: f(1631), EndedTokens: f(0), PromptTokens: f(124)},
		},
		"NIM": {
			NotMeasured: map[string]string{
				"in_flight": "NIM does not tell it", "preemptions": "NIM does not tell it", "prefix_queries": "NIM does not tell it", "prefix_hits": "NIM does not tell it",
			},
			Worker: &spec.WorkerSample{Running: f(9), Waiting: f(4), KVUsage: f(0.45), Generated: f(4096), PromptTokens: f(8192), Ended: f(64), Failed: f(3)},
		},
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			want, ok := want[s.name]
			if !ok {
				t.Fatal("no page is expected of it")
			}
			want.Source = spec.SourceWorker
			got, err := (&workerPage{}).read(t.Context(), recorded(t, s.page))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]spec.Sample{want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// untold are values that a server does not tell, where it counts tokens when a request ends.
func untold(server string, fields ...string) map[string]string {
	m := all(server+" does not tell it", fields...)
	m["generated_tokens"] = server + " counts tokens when a request ends"
	return m
}

// The list of servers and docs/metrics.md say the same.
func TestServersAreInTheDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(recorded(t, "README.md"))
	_, rest, _ := strings.Cut(string(text), "\n## ")
	var titles []string
	sections := map[string]string{}
	for section := range strings.SplitSeq(rest, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		titles, sections[title] = append(titles, title), body
	}
	var names []string
	for _, s := range servers {
		names = append(names, s.name)
	}
	if diff := cmp.Diff(names, titles); diff != "" {
		t.Fatalf("servers and sections (-list +docs):\n%s", diff)
	}
	row := regexp.MustCompile(`(?m)^\| ` + "`" + `([a-z_]+)` + "`" + ` \| ([^|]*) \|`)
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			section := sections[s.name]
			if !strings.Contains(section, "Source: ") || !strings.Contains(section, "https://") {
				t.Error("no source is named")
			}
			mark := regexp.MustCompile("Tested with `" + regexp.QuoteMeta(s.page) + "`, (recorded|written)").FindStringSubmatch(section)
			if mark == nil {
				t.Fatalf("it does not say that %s is recorded or written", s.page)
			}
			before, after, _ := strings.Cut(readme, "Written after the real ones' shape")
			kept := map[string]string{"recorded": before, "written": after}[mark[1]]
			stem, _, _ := strings.Cut(s.page, "_")
			if !strings.Contains(kept, "`"+s.page+"`") && !strings.Contains(kept, "`"+stem+"_*.txt`") {
				t.Errorf("testdata/README.md does not say that %s is %s", s.page, mark[1])
			}
			var told, listed []string
			for _, m := range row.FindAllStringSubmatch(section, -1) {
				told = append(told, m[1]+": "+m[2])
			}
			for _, v := range s.values {
				listed = append(listed, v.field+": "+docNames(v))
			}
			if diff := cmp.Diff(listed, told); diff != "" {
				t.Errorf("values (-table +docs):\n%s", diff)
			}
		})
	}
}

// docNames are a value's names as the docs have them.
func docNames(v value) string {
	var names []string
	for _, name := range v.names {
		for label, is := range v.labels {
			name += fmt.Sprintf("{%s=%q}", label, is)
		}
		names = append(names, "`"+name+"`")
	}
	text := strings.Join(names, ", ")
	for _, name := range v.also {
		text += " + `" + name + "`"
	}
	return text
}

// A server of several engines tells of each what it can.
func TestEnginesOfAPage(t *testing.T) {
	for _, tc := range []struct {
		rule string
		page string
		want map[string]spec.WorkerSample
		why  map[string]string // of the first
	}{
		{
			"before the first request vLLM's gauges are missing with several API servers, and are not 0",
			string(recorded(t, "vllm_dp2_idle.txt")),
			map[string]spec.WorkerSample{
				"/0": {Asleep: f(0), Generated: f(0), PromptTokens: f(0), PrefixQueries: f(0), PrefixHits: f(0), Preemptions: f(0), Ended: f(0), Failed: f(0), Aborted: f(0)},
				"/1": {Asleep: f(0), Generated: f(0), PromptTokens: f(0), PrefixQueries: f(0), PrefixHits: f(0), Preemptions: f(0), Ended: f(0), Failed: f(0), Aborted: f(0)},
			},
			map[string]string{
				"running": "the worker has no vllm:num_requests_running", "waiting": "the worker has no vllm:num_requests_waiting",
				"kv_usage":  "the worker has no vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc",
				"in_flight": "vLLM does not tell it", "rejected": "the worker counts its engines together",
			},
		},
		{
			"before the first request vLLM tells all of it with one API server",
			string(recorded(t, "vllm_idle.txt")),
			map[string]spec.WorkerSample{"": {Started: f(1.79484308773e+09), Running: f(0), Waiting: f(0), Deferred: f(0), KVUsage: f(0), Asleep: f(0), Generated: f(0), PromptTokens: f(0),
				PrefixQueries: f(0), PrefixHits: f(0), Preemptions: f(0), Rejected: f(0), Ended: f(0), Failed: f(0), Aborted: f(0)}},
			map[string]string{"in_flight": "vLLM does not tell it"},
		},
		{
			"what ended is told of each engine, and what was not admitted of both",
			string(recorded(t, "vllm_dp2_load.txt")),
			map[string]spec.WorkerSample{
				"/0": {Running: f(3), Waiting: f(3), Deferred: f(0), KVUsage: f(0.0010987669393236477), Asleep: f(0), Generated: f(1276), PromptTokens: f(4065), PrefixQueries: f(4065),
					PrefixHits: f(0), Preemptions: f(0), Ended: f(17), Failed: f(0), Aborted: f(0)},
				"/1": {Running: f(4), Waiting: f(1), Deferred: f(0), KVUsage: f(0.0014650225857648635), Asleep: f(0), Generated: f(1271), PromptTokens: f(4102), PrefixQueries: f(4102),
					PrefixHits: f(0), Preemptions: f(0), Ended: f(16), Failed: f(0), Aborted: f(0)},
			},
			map[string]string{"in_flight": "vLLM does not tell it", "rejected": "the worker counts its engines together"},
		},
		{
			"SGLang counts the tokens of its ranks together",
			"sglang:num_running_reqs{dp_rank=\"0\"} 1\nsglang:num_running_reqs{dp_rank=\"1\"} 2\nsglang:generation_tokens_total 5\nsglang:time_to_first_token_seconds_count 3\n",
			map[string]spec.WorkerSample{"/0": {Running: f(1)}, "/1": {Running: f(2)}},
			nil,
		},
		{
			"SGLang's total of a queue is not added to those of its priorities",
			"sglang:num_running_reqs 5\nsglang:num_running_reqs{priority=\"0\"} 2\nsglang:num_running_reqs{priority=\"1\"} 3\n",
			map[string]spec.WorkerSample{"": {Running: f(5)}},
			nil,
		},
		{
			"an engine that sleeps says so, and how many aborted and failed is told apart",
			`vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0
vllm:engine_sleep_state{engine="0",sleep_state="weights_offloaded"} 1
vllm:num_requests_running{engine="0"} 0
vllm:num_requests_waiting{engine="0"} 3
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 2
vllm:request_success_total{engine="0",finished_reason="stop"} 10
vllm:request_success_total{engine="0",finished_reason="abort"} 4
vllm:request_success_total{engine="0",finished_reason="error"} 1
vllm:admission_rejections_total{reason="max_num_queued_reqs"} 6
`,
			map[string]spec.WorkerSample{"": {Running: f(0), Waiting: f(3), Deferred: f(2), Asleep: f(1), Rejected: f(6), Ended: f(15), Failed: f(5), Aborted: f(4)}},
			nil,
		},
		{
			"what an engine aborted is no part of what its runtime failed",
			`vllm:num_requests_running{engine="0"} 1
vllm:request_success_total{engine="0",finished_reason="abort"} 4
dynamo_component_requests_total{dynamo_endpoint="generate"} 9
dynamo_component_errors_total{dynamo_endpoint="generate"} 2
`,
			map[string]spec.WorkerSample{"": {Running: f(1), Ended: f(9), Failed: f(2)}},
			nil,
		},
		{
			"TGI's failures begin with the first one",
			"tgi_request_success 3\ntgi_batch_current_size 1\n",
			map[string]spec.WorkerSample{"": {Running: f(1), Ended: f(3), Failed: f(0)}},
			nil,
		},
		{
			"llama.cpp with speculative decoding does not tell its tokens as it makes them",
			"llamacpp:n_decode_total 10\nllamacpp:n_busy_slots_per_decode 2\nllamacpp:spec_decode_num_drafts_total 7\nllamacpp:requests_processing 2\nllamacpp:tokens_predicted_total 9\n",
			map[string]spec.WorkerSample{"": {Running: f(2), EndedTokens: f(9)}},
			nil,
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			samples, err := (&workerPage{}).read(t.Context(), []byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]spec.WorkerSample{}
			for _, s := range samples {
				got[s.Name] = *s.Worker
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.why, samples[0].NotMeasured); tc.why != nil && diff != "" {
				t.Errorf("not measured (-want +got):\n%s", diff)
			}
		})
	}
}

// The mean is rounded, so that the product of two pages may go down: the tokens do not.
func TestLlamaTokensDoNotGoDown(t *testing.T) {
	w := &workerPage{}
	var got []float64
	for _, page := range []string{
		"llamacpp:requests_processing 4\nllamacpp:n_decode_total 1000000\nllamacpp:n_busy_slots_per_decode 3.99999\n",
		"llamacpp:requests_processing 4\nllamacpp:n_decode_total 1000001\nllamacpp:n_busy_slots_per_decode 3.99998\n",
		"llamacpp:requests_processing 4\nllamacpp:n_decode_total 10\nllamacpp:n_busy_slots_per_decode 2\n", // it was started anew
	} {
		samples, err := w.read(t.Context(), []byte(page))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *samples[0].Worker.Generated)
	}
	if want := []float64{3999990, 3999990, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
