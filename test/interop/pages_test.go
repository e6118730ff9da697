//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// pageDifferences are families that only one side has, or has in another shape,
// and why. internal/sim/exporter holds its pages against recorded ones by a list
// of its own; this one is held against the real processes.
var pageDifferences = []allowed{
	{"frontend *", "real only: dynamo_component_router_*", "of kv routing; zero otherwise"},
	{"frontend *", "real only: dynamo_router_*", "of kv routing; zero otherwise"},
	{"frontend *", "real only: dynamo_frontend_audio_per_request *", "the fleet is asked for text only"},
	{"frontend *", "real only: dynamo_frontend_image*", "the fleet is asked for text only"},
	{"frontend *", "real only: dynamo_frontend_videos_per_request *", "the fleet is asked for text only"},
	{"frontend *", "real only: dynamo_frontend_detokenize_*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"frontend *", "real only: dynamo_frontend_stage_*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"frontend *", "real only: dynamo_frontend_template_seconds *", "the frontend's cost is one figure a request and one a token, without stages"},
	{"frontend *", "real only: dynamo_frontend_tokenize*", "the frontend's cost is one figure a request and one a token, without stages"},
	{"frontend *", "real only: dynamo_request_plane_*", "nothing travels between frontend and workers"},
	{"frontend *", "real only: dynamo_transport_*", "nothing travels between frontend and workers"},
	{"frontend *", "real only: dynamo_tokio_*", "of Dynamo's own runtime"},

	{"worker *", "real only: dynamo_component_kv_publisher_*", "workers publish no KV events"},
	{"worker *", "real only: dynamo_component_request_bytes_total *", "nothing travels between frontend and workers"},
	{"worker *", "real only: dynamo_component_response_bytes_total *", "nothing travels between frontend and workers"},
	{"worker *", "real only: dynamo_engine_request *", "of a limit that is off by default"},
	{"worker *", "real only: dynamo_rejection_request_total *", "of a limit that is off by default"},
	{"worker *", "real only: dynamo_request_queue *", "of a limit that is off by default"},
	{"worker *", "real only: dynamo_work_handler_*", "of Dynamo's own runtime"},
	{"worker served *", "real only: vllm:gpu_cache_usage_perc *", "the mocker's alias; vLLM has dropped it"},

	// The simulated worker is vLLM's, which has more families than the mocker.
	{"worker unused *", "simulated only: vllm:*", "vLLM has its families from the start, the mocker from its first request on"},
	{"worker served *", "simulated only: vllm:cache_config_info *", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:engine_sleep_state *", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:generation_tokens_total *", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:num_requests_waiting_by_reason *", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:prefix_cache_*", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:prompt_tokens_*", "of vLLM; the mocker has it not"},
	{"worker served *", "simulated only: vllm:request_*", "of vLLM; the mocker has it not"},
}

// The simulator's metrics pages against those of the real frontend and mocker,
// after one request and under load: every family with its type, its labels and
// its buckets.
func TestSimulatorsPagesAreThoseOfTheRealProcesses(t *testing.T) {
	real := bringUp(t, plan{router: "round-robin", workers: alike(3)})
	sim := simulate(t)
	warm := exchange{path: "/v1/chat/completions", body: `{` + hello + `}`}
	if _, err := warm.ask(t.Context(), sim.URL); err != nil { // the real one was asked to see that it serves
		t.Fatal(err)
	}
	theirPages := map[string]string{"frontend": real.url + "/metrics"}
	for i, w := range real.workers {
		theirPages[fmt.Sprintf("worker %d", i)] = w.metrics
	}
	ourPages := map[string]string{"frontend": sim.URL + "/metrics"}
	for i, w := range sim.Workers {
		ourPages[fmt.Sprintf("worker %d", i)] = w.Metrics
	}

	var found []difference
	compare := func(when string, pages ...string) {
		theirs, ours := shapesOf(t, theirPages), shapesOf(t, ourPages)
		for _, page := range pages {
			if theirs[page] == nil || ours[page] == nil {
				t.Fatalf("%s: no %s page on one side", when, page)
			}
			for _, what := range apart(theirs[page], ours[page]) {
				found = append(found, difference{page + " " + when, what})
			}
		}
	}
	compare("after one request", "frontend", "worker served", "worker unused")

	for _, e := range exchanges { // so that errors are counted
		for _, url := range []string{real.url, sim.URL} {
			if _, err := e.ask(t.Context(), url); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	for _, url := range []string{real.url, sim.URL} {
		for range 8 {
			streams.Go(func() {
				long := exchange{path: "/v1/chat/completions",
					body: `{"model":"tiny","messages":[{"role":"user","content":"the king"}],"max_tokens":60,"stream":true}`}
				for ctx.Err() == nil {
					if _, err := long.ask(ctx, url); err != nil && ctx.Err() == nil {
						t.Errorf("under load: %v", err)
						return
					}
				}
			})
		}
	}
	eventually(t, patience, func(ctx context.Context) error { // every worker of both has something to do
		for _, pages := range []map[string]string{theirPages, ourPages} {
			for name, url := range pages {
				page, err := fetch(ctx, http.MethodGet, url, "")
				if err != nil {
					return err
				}
				if name != "frontend" && !hasRunning(t, page) {
					return fmt.Errorf("%s is idle", url)
				}
			}
		}
		return nil
	})
	compare("under load", "frontend", "worker served")
	cancel()
	streams.Wait()
	judgeDifferences(t, found, pageDifferences)
}

func hasRunning(t *testing.T, page string) bool {
	t.Helper()
	running := familiesOf(t, page)["vllm:num_requests_running"]
	return running != nil && running.GetMetric()[0].GetGauge().GetValue() > 0
}

// shapesOf reads pages, and puts those of the workers that have served together,
// and those of the others.
func shapesOf(t *testing.T, pages map[string]string) map[string]map[string]bool {
	t.Helper()
	shapes := map[string]map[string]bool{}
	for name, url := range pages {
		page, err := fetch(t.Context(), http.MethodGet, url, "")
		if err != nil {
			t.Fatal(err)
		}
		families := familiesOf(t, page)
		kind := name
		if kind != "frontend" {
			kind = "worker unused"
			if hasServed(families["dynamo_component_requests_total"]) {
				kind = "worker served"
			}
		}
		if shapes[kind] == nil {
			shapes[kind] = map[string]bool{}
		}
		for _, f := range families {
			shapes[kind][shapeOf(f)] = true
		}
	}
	return shapes
}

// hasServed tells it by the worker's count of requests.
func hasServed(requests *dto.MetricFamily) bool {
	return slices.ContainsFunc(requests.GetMetric(), func(m *dto.Metric) bool { return m.GetCounter().GetValue() > 0 })
}

func familiesOf(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// shapeOf is what a reader of a family relies on.
func shapeOf(f *dto.MetricFamily) string {
	var labels, bounds []string
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName())
		}
	}
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
	}
	slices.Sort(labels)
	shape := fmt.Sprintf("%s %s {%s}", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(slices.Compact(labels), ","))
	if len(bounds) > 0 {
		shape += " le " + strings.Join(bounds, " ")
	}
	return shape
}
