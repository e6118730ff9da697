package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/spec"
	"aicr/test/memnet"
)

// engines is a worker's page of so many engines.
func engines(n int) []byte {
	var page bytes.Buffer
	for i := range n {
		fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"%d\"} 1\nvllm:generation_tokens_total{engine=\"%d\"} %d\n", i, i, i)
	}
	return page.Bytes()
}

// gpus is a DCGM exporter's page of so many GPUs, whose names begin so.
func gpuPage(n int, prefix string) []byte {
	var page bytes.Buffer
	for i := range n {
		fmt.Fprintf(&page, "DCGM_FI_DEV_POWER_USAGE{gpu=\"%d\",UUID=\"%s-%d\"} 500\nDCGM_FI_DEV_POWER_VIOLATION{gpu=\"%d\",UUID=\"%s-%d\"} 1\n", i, prefix, i, i, prefix, i)
	}
	return page.Bytes()
}

func TestAPageIsPastALimit(t *testing.T) {
	lines := func(n int, format string) []byte {
		var page bytes.Buffer
		for i := range n {
			fmt.Fprintf(&page, format, i)
		}
		return page.Bytes()
	}
	readers := fresh()
	for name, c := range map[string]struct {
		reader pageReader
		page   []byte
		limit  Limit
		why    string
	}{
		"engines":             {&workerPage{}, engines(257), LimitEngines, "the page is past the limit of 256 engines"},
		"very many engines":   {&workerPage{}, engines(20_000), LimitSeries, "the page is past the limit of 8192 series"},
		"GPUs":                {readers["gpu"], gpuPage(513, "GPU"), LimitGPUs, "the page is past the limit of 512 GPUs"},
		"pods on a GPU":       {readers["gpu"], lines(257, "DCGM_FI_DEV_POWER_USAGE{UUID=\"a\",pod=\"p%d\"} 1\n"), LimitPods, "pods on one GPU"},
		"clock events":        {readers["gpu"], lines(65, "DCGM_EXP_CLOCK_EVENTS_COUNT{UUID=\"a\",clock_event=\"e%d\"} 1\n"), LimitEvents, "clock events of one GPU"},
		"outcomes":            {&frontendPage{}, lines(257, "dynamo_frontend_requests_total{status=\"error\",error_type=\"e%d\"} 1\n"), LimitOutcomes, "kinds of outcomes"},
		"a name":              {&workerPage{}, []byte("vllm:num_requests_running{pod=\"" + strings.Repeat("x", 1025) + "\"} 1\n"), LimitLabel, "1024 bytes in a label"},
		"one line many times": {&workerPage{}, lines(8193, "vllm:num_requests_running %d\n"), LimitSeries, "series"},
		"lines of one node":   {readers["node"], lines(8193, "node_load1 %d\n"), LimitSeries, "series"},
	} {
		t.Run(name, func(t *testing.T) {
			samples, err := c.reader.read(t.Context(), c.page)
			past, ok := errors.AsType[*LimitError](err)
			if !ok || past.Limit != c.limit || !strings.HasPrefix(err.Error(), spec.GapTooMuch) || !strings.Contains(err.Error(), c.why) || samples != nil {
				t.Errorf("%d samples, %v; want none, past %q", len(samples), err, c.why)
			}
		})
	}
	for name, c := range map[string]struct {
		reader pageReader
		page   []byte
		want   int
	}{
		"engines": {&workerPage{}, engines(256), 256},
		"GPUs":    {fresh()["gpu"], gpuPage(512, "GPU"), 512},
	} {
		if samples, err := c.reader.read(t.Context(), c.page); err != nil || len(samples) != c.want {
			t.Errorf("as many %s as there may be: %d samples, %v", name, len(samples), err)
		}
	}
}

// allocated is what a reader allocates for a page that it knows already. It is a count and
// no time: the same on any machine.
func allocated(t *testing.T, reader pageReader, page []byte) float64 {
	t.Helper()
	read := func() {
		if _, err := reader.read(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		read()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// Twice the page costs twice as much, and not four times: an engine is not looked for
// among all the others.
func TestTheCostOfAPageIsLinear(t *testing.T) {
	for name, c := range map[string]struct {
		fresh func() pageReader
		page  func(n int) []byte
	}{
		"engines": {func() pageReader { return &workerPage{} }, engines},
		"GPUs":    {func() pageReader { return &dcgmPage{clock: newTicking().now} }, func(n int) []byte { return gpuPage(n, "GPU") }},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := allocated(t, c.fresh(), c.page(120)), allocated(t, c.fresh(), c.page(240))
			if ratio := two / one; ratio > 2.6 {
				t.Errorf("120 of them allocate %.0f bytes a page and 240 %.0f: %.1f times as much", one, two, ratio)
			}
		})
	}
}

// counting is a context that counts how often it is asked whether it has ended, and has
// ended from some time on.
type counting struct {
	context.Context
	asked, ends int
}

func (c *counting) Err() error {
	if c.asked++; c.asked >= c.ends {
		return context.Canceled
	}
	return nil
}

func TestAPageIsGivenUpInItsMiddle(t *testing.T) {
	for name, page := range map[string][]byte{
		"wanted": engines(4000), "not wanted": bytes.Repeat([]byte("other_metric 1\n"), 100_000), "comments": bytes.Repeat([]byte("# x\n"), 100_000),
	} {
		ctx := &counting{Context: t.Context(), ends: 3}
		if _, err := (&workerPage{}).read(ctx, page); !errors.Is(err, context.Canceled) || ctx.asked != 3 {
			t.Errorf("%s: %v after it was asked %d times", name, err, ctx.asked)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := (&workerPage{}).read(late, engines(4000)); err == nil || err.Error() != "the page is past the limit of the time to read it in" {
		t.Errorf("one that takes too long is %v: who answered in time must not look silent", err)
	}
}

// What a server cannot have counted is no value, nor is the sum of what it may have.
func TestNoValueIsOneThatJSONCannotCarry(t *testing.T) {
	const huge = "1.7e308"
	for name, c := range map[string]struct {
		reader pageReader
		page   string
		left   []string // fields that are not measured
	}{
		"a sum of two": {&workerPage{}, "vllm:generation_tokens_total{a=\"1\"} " + huge + "\nvllm:generation_tokens_total{a=\"2\"} " + huge + "\n", []string{"generated_tokens"}},
		"a sum of two counts": {&workerPage{}, "vllm:time_to_first_token_seconds_count " + huge + "\nvllm:inter_token_latency_seconds_count " + huge + "\n",
			[]string{"generated_tokens"}},
		"one that is too large": {&workerPage{}, "vllm:num_requests_running " + huge + "\nvllm:num_requests_waiting -" + huge + "\n", []string{"running", "waiting"}},
		"outcomes that cancel out": {&frontendPage{}, "dynamo_frontend_requests_total{status=\"success\",m=\"1\"} " + huge + "\n" +
			"dynamo_frontend_requests_total{status=\"error\",m=\"2\"} -" + huge + "\ndynamo_frontend_requests_total{status=\"success\",m=\"3\"} " + huge + "\n" +
			"dynamo_frontend_requests_total{status=\"error\",m=\"4\"} -" + huge + "\n", []string{"served", "failed", "outcomes"}},
		"a GPU's":  {fresh()["gpu"], "DCGM_FI_DEV_POWER_USAGE{UUID=\"a\"} " + huge + "\nDCGM_FI_DEV_POWER_VIOLATION{UUID=\"a\"} -" + huge + "\n", []string{"power_w", "throttle"}},
		"a node's": {fresh()["node"], "node_load1{a=\"1\"} " + huge + "\nnode_load1{a=\"2\"} " + huge + "\n", []string{"load1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // a rate takes two
				samples, err := c.reader.read(t.Context(), []byte(c.page))
				if err != nil || len(samples) != 1 {
					t.Fatalf("%d samples, %v", len(samples), err)
				}
				if _, err := json.Marshal(samples[0]); err != nil {
					t.Fatal(err)
				}
				for _, field := range c.left {
					if samples[0].NotMeasured[field] == "" {
						t.Errorf("%s is not said to be missing: %v", field, samples[0].NotMeasured)
					}
				}
			}
		})
	}
}

// There is no less than nothing of what is counted: such a value is not measured, rather
// than that of a worker that makes no tokens.
func TestACountBelowNothingIsNotMeasured(t *testing.T) {
	for page, left := range map[string][]string{
		"vllm:num_requests_running -5\nvllm:generation_tokens_total -100\n":                             {"running", "generated_tokens"},
		"vllm:generation_tokens_total{a=\"1\"} 100\nvllm:generation_tokens_total{a=\"2\"} -100\n":       {"generated_tokens"},
		"vllm:time_to_first_token_seconds_count -100\nvllm:inter_token_latency_seconds_count 100\n":     {"generated_tokens"},
		"vllm:num_requests_running -0\nvllm:generation_tokens_total 0\nvllm:num_requests_waiting 0.5\n": {},
	} {
		samples, err := (&workerPage{}).read(t.Context(), []byte(page))
		if err != nil || len(samples) != 1 {
			t.Fatalf("%q: %v", page, err)
		}
		for _, field := range left {
			if why := samples[0].NotMeasured[field]; why == "" || strings.Contains(why, "before its first request") {
				t.Errorf("%q: %s is missing since %q", page, field, why)
			}
		}
		if w := samples[0].Worker; len(left) == 0 && (w.Running == nil || w.Generated == nil || w.Waiting == nil) {
			t.Errorf("%q: %+v", page, w)
		}
	}
	samples, err := (&frontendPage{}).read(t.Context(), []byte("dynamo_frontend_requests_total{status=\"success\"} -5\n"))
	if err != nil || samples[0].Frontend.Served != nil || samples[0].NotMeasured["served"] == "" {
		t.Errorf("%+v, %v", samples, err)
	}
}

// A page that names other GPUs each time fills no memory, and does not have a gap told
// for all that it ever named.
func TestWhatVanishedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &memnet.Net{}
		l := n.Listen("127.0.0.1:0")
		asked := 0
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_, _ = w.Write(gpuPage(50, fmt.Sprint("GPU-", asked)))
		})}
		go func() { _ = srv.Serve(l) }() // it ends by Close
		client := NewClient(&http.Transport{DialContext: n.Dial})
		k := &kept{}
		o := New(StartClock(), time.Second, k)
		o.Set(t.Context(), []Source{DCGM(client, "http://"+l.Addr().String()+"/metrics")})
		time.Sleep(5 * time.Minute)
		o.mu.Lock()
		owners := len(o.owners)
		for _, w := range o.sources {
			if n := len(w.names); n > mostMissed+50 {
				t.Errorf("%d GPUs are remembered", n)
			}
		}
		o.mu.Unlock()
		if owners > mostMissed+50 {
			t.Errorf("%d owners are remembered", owners)
		}
		o.Close()
		client.Close()
		_ = srv.Close()
		perPage := float64(len(k.samples)) / float64(asked)
		if perPage > mostMissed+100 {
			t.Errorf("%.0f samples and gaps for a page of 50 GPUs", perPage)
		}
	})
}

// One GPU that is gone is missed, and for so long that it is seen.
func TestAGPUThatIsGoneIsMissedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := Source{Kind: spec.SourceGPU, Instance: "dcgm", Reader: &answering{answers: func(_ context.Context, nth int) ([]spec.Sample, error) {
			watts := 500.0
			all := []spec.Sample{{Name: "a", GPU: &spec.GPUSample{PowerW: &watts}}, {Name: "b", GPU: &spec.GPUSample{PowerW: &watts}}}
			return all[:2-min(1, nth/10)], nil
		}}}
		k := observe(t, 5*time.Minute, source)
		gaps := 0
		for _, s := range k.of("b") {
			if s.Gap == spec.GapOffPage {
				gaps++
			}
		}
		if gaps < 115 || gaps > 125 {
			t.Errorf("%d gaps of a GPU that is gone", gaps)
		}
	})
}

// A log that names another engine on every line fills no memory.
func TestEnginesOfALogAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, w := io.Pipe()
		k := &kept{}
		o := New(StartClock(), time.Second, k)
		o.Set(t.Context(), []Source{Log(func(context.Context) (io.ReadCloser, error) { return from, nil }, "x", Labels{})})
		for i := range 2000 {
			fmt.Fprintf(w, "Engine %06d: Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs\n", i)
		}
		synctest.Wait()
		o.mu.Lock()
		for _, w := range o.sources {
			if n := len(w.names); n > mostMissed+1 {
				t.Errorf("%d engines are remembered", n)
			}
		}
		o.mu.Unlock()
		_ = w.Close()
		o.Close()
	})
}
