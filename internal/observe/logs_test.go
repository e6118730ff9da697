package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func opened(text string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

func TestVLLMLog(t *testing.T) {
	samples, events, err := followed(t.Context(), Log(opened(string(recorded(t, "vllm.log"))), "worker-0.log", Labels{}).Follower)
	if !errors.Is(err, errLogEnded) {
		t.Errorf("it ended with %v", err)
	}
	counters := all("the log has no counters",
		"generated_tokens", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions", "in_flight", "ended", "failed")
	mean := map[string]string{"tokens_per_s": "the log's own mean since its line before"}
	want := []spec.Sample{
		{Worker: &spec.WorkerSample{Running: f(1), Waiting: f(14), KVUsage: f(0.765), TokensPerS: f(5.4)}},
		{Name: "worker-0.log/1", Worker: &spec.WorkerSample{Running: f(18), Waiting: f(33), KVUsage: f(0.877), TokensPerS: f(734.9)}},
		{Worker: &spec.WorkerSample{Running: f(1), Waiting: f(0), KVUsage: f(0), TokensPerS: f(0.2)}},
	}
	for i := range want {
		want[i].Source, want[i].NotMeasured, want[i].Derived = "worker", counters, mean
	}
	if diff := cmp.Diff(want, samples, nearly); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	wantEvents := []spec.Event{{
		Kind: "log", Source: "worker-0.log", Reason: "engine-dead",
		Text: "ERROR 01-16 17:16:49 [core_client.py:605] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
	}}
	if diff := cmp.Diff(wantEvents, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEngineLinesOfOtherVersions(t *testing.T) {
	for _, tc := range []struct {
		rule, line string
		want       *spec.WorkerSample
		missing    []string
	}{
		{"the order is free", "Engine 003: GPU KV cache usage: 50.0%, Waiting: 1 reqs, Running: 2 reqs", &spec.WorkerSample{Running: f(2), Waiting: f(1), KVUsage: f(0.5)}, []string{"tokens_per_s"}},
		{"a number that is cut short is none", "Engine 000: Avg generation throughput: 12.3 tokens/s, Running: 2 reqs, Waiting: 3 reqs, GPU KV cache usage: 1", &spec.WorkerSample{Running: f(2), Waiting: f(3), TokensPerS: f(12.3)}, []string{"kv_usage"}},
		{"the device may have another name", "(APIServer pid=14777) INFO 11-16 16:46:51 [loggers.py:335] Engine 000: Avg prompt throughput: 671.1 tokens/s, Avg generation throughput: 276.6 tokens/s, Running: 8 reqs, Waiting: 4 reqs, CPU KV cache usage: 0.3%, Prefix cache hit rate: 42.3%", &spec.WorkerSample{Running: f(8), Waiting: f(4), KVUsage: f(0.003), TokensPerS: f(276.6)}, nil},
		{"of a GPU's cache and the swap space in CPU memory, the GPU's is read", "Running: 2 reqs, Swapped: 0 reqs, Pending: 3 reqs, CPU KV cache usage: 90.0%, GPU KV cache usage: 25.0%.", &spec.WorkerSample{Running: f(2), Waiting: f(3), KVUsage: f(0.25)}, []string{"tokens_per_s"}},
		{"a GPU's that is no number is not that of the swap space", "Running: 2 reqs, Pending: 3 reqs, GPU KV cache usage: nan%, CPU KV cache usage: 90.0%.", &spec.WorkerSample{Running: f(2), Waiting: f(3)}, []string{"kv_usage", "tokens_per_s"}},
		{"colours do not matter", "\x1b[32mINFO\x1b[0m Engine 000: Running: \x1b[1m2\x1b[0m reqs, Waiting: 3 reqs", &spec.WorkerSample{Running: f(2), Waiting: f(3)}, []string{"kv_usage", "tokens_per_s"}},
		{"the words alone are no line of an engine", "INFO Running: 4 reqs through the migration", nil, nil},
		{"neither is a prompt", "INFO Received request cmpl-1: prompt: 'Engine 000: Running: 2 reqs, Waiting: 3 reqs'", nil, nil},
		{"a number beyond all numbers is none", "Running: 1" + strings.Repeat("0", 400) + " reqs, Waiting: 3 reqs", nil, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			samples, events, err := followed(t.Context(), Log(opened(tc.line+"\n"), "x", Labels{}).Follower)
			if !errors.Is(err, errLogEnded) || len(events) != 0 {
				t.Errorf("ended with %v and %v", err, events)
			}
			if tc.want == nil {
				if len(samples) != 0 {
					t.Errorf("got %v", samples[0].Worker)
				}
				return
			}
			if len(samples) != 1 {
				t.Fatalf("%d samples", len(samples))
			}
			if diff := cmp.Diff(tc.want, samples[0].Worker, nearly); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, field := range tc.missing {
				if samples[0].NotMeasured[field] != "the log's line does not tell it" {
					t.Errorf("%s: %q", field, samples[0].NotMeasured[field])
				}
			}
		})
	}
}

// One line at least for each class, and lines that look like it and are not.
func TestClassesOfLines(t *testing.T) {
	rows := []struct{ class, line string }{
		{"unfold-panic", "Unfold must not be polled after it returned `Poll::Ready(None)`"},
		{"unfold-panic", "thread 'tokio-runtime-worker' panicked at futures-util-0.3.31/src/stream/unfold.rs:108:21: Unfold must not be polled after it returned `Poll::Ready(None)`"},
		{"panic", "thread 'tokio-runtime-worker' panicked at /workspace/lib/llm/src/http/service/service_v2.rs:69:33:"},
		{"panic", "thread 'main' (4711) panicked at src/main.rs:2:5:"},
		{"discovery-bucket-missing", "DEBUG dynamo_runtime::discovery: KVStoreDiscovery::list: bucket missing for query=AllEndpoints, prefix=v1/instances, bucket=v1/instances"},
		{"discovery-empty", "DEBUG KubeDiscoveryClient::list returning 0 instances for query=AllModels"},
		{"model-not-added", "ERROR dynamo_llm::discovery::watcher: Error adding model from discovery model_name=\"m\" error=\"config.json is 29464 bytes, exceeds cap 29431\""},
		{"keep-alive-failed", "WARN dynamo_runtime::storage: FileStore::keep_alive failed opening owned file"},
		{"engine-dead", "(APIServer pid=92) ERROR 08-15 11:20:19 [serving.py:825] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."},
		{"engine-dead", "ERROR 04-28 02:37:03 [core.py:398] EngineCore encountered a fatal error."},
		{"engine-dead", "ERROR 01-16 17:16:49 [core_client.py:605] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."},
		{"engine-dead", "(EngineCore_DP0 pid=12) ERROR [multiproc_executor.py:230] Worker proc VllmWorker-1 died unexpectedly, shutting down executor."},
		{"cuda-out-of-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
		{"nccl-error", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled cuda error"},
		{"nccl-error", "[rank1]:[E] [PG ID 0 Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"},
		{"xid", "[Sun Jan 11 09:52:01 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."},
		{"cuda-error", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"},
		{"cuda-error", "RuntimeError: cudaErrorIllegalAddress"},
		{"cuda-error", "RuntimeError: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx"},
		{"cuda-out-of-memory", "thrust::system_error: cudaErrorMemoryAllocation"},
		{"nccl-error", "RuntimeError: ncclUnhandledCudaError: Call to CUDA function failed."},

		{"", "INFO [pynccl.py:111] vLLM is using nccl==2.27.3"},
		{"", "NCCL version 2.27.3+cuda12.9"},
		{"", "INFO [cuda.py:290] Using Flash Attention backend on V1 engine."},
		{"", "(EngineCore_0 pid=675221) INFO [core.py:193] init engine took 6.3 seconds"},
		{"", "DEBUG KubeDiscoveryClient::list returning 4 instances for query=AllModels"},
		{"", "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"},
		{"", "INFO Application startup complete."},
	}
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.class] = true
		if got := classOf(row.line); got != row.class {
			t.Errorf("%q is %q, want %q", row.line, got, row.class)
		}
	}
	for _, c := range logClasses {
		if !seen[c.name] {
			t.Errorf("no line of class %s is tested", c.name)
		}
	}
}

func TestWhatAUserWroteIsNoEvent(t *testing.T) {
	for _, line := range []string{
		"INFO [logger.py:39] Received request chatcmpl-1: prompt: 'why do I get CUDA error: out of memory?', params: SamplingParams(n=1)",
		`DEBUG body={"model":"m","messages":[{"role":"user","content":"EngineDeadError"}]}`,
		`DEBUG body={"model":"m", "prompt":"thread 'x' panicked at"}`,
	} {
		if _, events, _ := followed(t.Context(), Log(opened(line+"\n"), "x", Labels{}).Follower); len(events) != 0 {
			t.Errorf("%q becomes %v", line, events)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"CUDA error: Authorization: Bearer abc.def-123", "CUDA error: Authorization: Bearer ***"},
		{"CUDA error: argv --api-key hunter2 --port 1", "CUDA error: argv --api-key *** --port 1"},
		{`CUDA error: "api_key": ["hunter2"], x`, `CUDA error: "api_key": ["***"], x`},
		{`CUDA error: headers={"authorization": "Basic dXNlcjpwdw=="}`, `CUDA error: headers={"authorization": "Basic ***"}`},
		{"CUDA error: Authorization: abcdef", "CUDA error: Authorization: ***"},
		{"CUDA error: bearer abcdef, next", "CUDA error: bearer ***, next"},
		{"CUDA error: hf_AbCdEf123456 was used", "CUDA error: hf_*** was used"},
		{"CUDA error: sk-proj-AbC_dEf-123456", "CUDA error: sk-***"},
		{"CUDA error: nvapi-AbC_dEf-123456", "CUDA error: nvapi-***"},
		{"CUDA error: HF_TOKEN=hf_AbCdEf123456", "CUDA error: HF_TOKEN=***"},
		{"CUDA error: api_key: 'deadbeef'", "CUDA error: api_key: '***'"},
		{"CUDA error: https://user:pw@example.test/x?token=abc&x=1", "CUDA error: https://***@example.test/x?token=***&x=1"},
		{"CUDA error: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "CUDA error: ***"},
		{"CUDA error: h\x1b[1mf_AbCd\x1b[0mEf123456", "CUDA error: hf_***"},
		{"CUDA error: max_tokens: 512, prompt tokens: 3", "CUDA error: max_tokens: 512, prompt tokens: 3"},
	} {
		_, events, _ := followed(t.Context(), Log(opened(tc.line+"\n"), "x", Labels{}).Follower)
		if len(events) != 1 || events[0].Text != tc.want {
			t.Errorf("%q becomes %v, want %q", tc.line, events, tc.want)
		}
	}
}

func TestAnEventsTextIsShortAndClean(t *testing.T) {
	long := "CUDA error " + strings.Repeat("é", 400)
	for _, tc := range []struct{ rule, line, want string }{
		{"colours go", "\x1b[2m2026-11-15\x1b[0m \x1b[31mERROR\x1b[0m CUDA error: \x1b[3mx\x1b[0m", "2026-11-15 ERROR CUDA error: x"},
		{"a terminal's title goes", "\x1b]0;title\x07CUDA error", "CUDA error"},
		{"what moves the cursor becomes a space, and no character a box", "10%\r20%\tCUDA error\x00", "10% 20% CUDA error□"},
		{"what turns the writing is shown", "CUDA error \u202eevil", "CUDA error □evil"},
		{"broken characters are shown as such", "CUDA error \xff", "CUDA error □"},
		{"300 bytes are kept, and no half character", long, long[:11+2*143] + "…"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			_, events, _ := followed(t.Context(), Log(opened(tc.line+"\n"), "x", Labels{}).Follower)
			if len(events) != 1 || events[0].Text != tc.want {
				t.Errorf("got %+v, want %q", events, tc.want)
			}
		})
	}
}

func TestAFloodIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		start := time.Now()
		type told struct {
			At     time.Duration
			Reason string
			Count  int
			Text   string
		}
		var got []told
		done := make(chan error)
		go func() {
			done <- Log(func(context.Context) (io.ReadCloser, error) { return out, nil }, "x", Labels{}).Follower.Follow(t.Context(), Tell{
				Sample: func(spec.Sample) {},
				Event: func(e spec.Event) {
					got = append(got, told{time.Since(start), e.Reason, e.Count, e.Text})
				},
			})
		}()
		time.Sleep(100 * time.Millisecond)
		for i := range 500 { // for 2.5 s
			fmt.Fprintf(in, "CUDA error %d\n", i)
			if i == 10 {
				fmt.Fprintln(in, "thread 'x' panicked at y") // another class need not wait
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		fmt.Fprintln(in, "CUDA error again")
		fmt.Fprintln(in, "CUDA error last")
		in.Close() // what waits is told at the end
		if err := <-done; !errors.Is(err, errLogEnded) {
			t.Errorf("it ended with %v", err)
		}
		if len(got) < 6 || got[0] != (told{100 * time.Millisecond, "cuda-error", 0, "CUDA error 0"}) || got[1].Reason != "panic" || got[1].At != 150*time.Millisecond {
			t.Fatalf("the first of a class is told at once: %v", got)
		}
		lines, last := 0, time.Duration(-1)
		for _, e := range got {
			if e.Reason != "cuda-error" {
				continue
			}
			lines += max(1, e.Count)
			if last >= 0 && e.At-last < time.Second && e.Text != "CUDA error last" {
				t.Errorf("two events within %s", e.At-last)
			}
			last = e.At
		}
		if lines != 502 {
			t.Errorf("%d lines were told of, want 502", lines)
		}
		if tail := got[len(got)-2:]; tail[0].Text != "CUDA error again" || tail[0].Count != 0 || tail[1].Text != "CUDA error last" {
			t.Errorf("the end is %v", tail)
		}
		if quiet := slices.ContainsFunc(got, func(e told) bool { return e.At > 4*time.Second && e.At < 12*time.Second }); quiet {
			t.Error("something was told long after it happened")
		}
	})
}

func TestALineThatIsTooLongIsCut(t *testing.T) {
	text := "CUDA error " + strings.Repeat("x", 1<<20) + "\nEngine 000: Running: 1 reqs, Waiting: 2 reqs\n"
	samples, events, err := followed(t.Context(), Log(opened(text), "x", Labels{}).Follower)
	if !errors.Is(err, errLogEnded) || len(samples) != 1 || len(events) != 1 || len(events[0].Text) != 300 {
		t.Errorf("got %d samples, %v, %v", len(samples), events, err)
	}
}

func TestALogThatCannotBeOpenedOrIsNoLongerWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := Log(func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no such file") }, "x", Labels{})
		if _, _, err := followed(t.Context(), refused.Follower); err == nil || err.Error() != "the log: no such file" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, in := io.Pipe()
		if _, _, err := followed(ctx, Log(func(context.Context) (io.ReadCloser, error) { return out, nil }, "x", Labels{}).Follower); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := in.Write([]byte("x")); err == nil {
			t.Error("the log was not closed")
		}
	})
}
