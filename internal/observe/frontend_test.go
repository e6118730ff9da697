package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// The recorded pages are those of Dynamo's frontend.
func TestFrontendPage(t *testing.T) {
	for _, tc := range []struct {
		name string
		page string
		want spec.Sample
	}{
		{
			"under load, outcomes are told apart",
			string(recorded(t, "frontend_during_load.txt")),
			spec.Sample{Source: "frontend", Frontend: &spec.FrontendSample{
				InFlight: f(29), Queued: f(2), Served: f(1165), Failed: f(6), Tokens: f(150312), Stalls: f(254), Busy: f(1),
				Outcomes: map[string]float64{"success": 1165, "internal": 1, "not_found": 1, "validation": 4},
			}},
		},
		{
			"without a worker there is nothing in flight that could be told",
			string(recorded(t, "frontend_metrics_no_workers.txt")),
			spec.Sample{
				Source: "frontend",
				NotMeasured: map[string]string{
					"busy":      "the frontend has no dynamo_tokio_worker_busy_ratio",
					"in_flight": "the frontend has no dynamo_frontend_active_requests or dynamo_frontend_inflight_requests",
					"queued":    "the frontend has no dynamo_frontend_queued_requests",
					"tokens":    "the frontend has no dynamo_frontend_output_tokens_total or dynamo_frontend_output_sequence_tokens_sum",
					"served":    "the frontend has no dynamo_frontend_requests_total, as before its first request",
					"failed":    "the frontend has no dynamo_frontend_requests_total, as before its first request",
					"outcomes":  "the frontend has no dynamo_frontend_requests_total, as before its first request",
				},
				Frontend: &spec.FrontendSample{Stalls: f(0)},
			},
		},
		{
			"models are added up, and older names understood",
			"dynamo_frontend_inflight_requests{model=\"a\"} 3\ndynamo_frontend_inflight_requests{model=\"b\"} 4\n" +
				"dynamo_frontend_queued_requests{model=\"a\"} 1\ndynamo_frontend_output_sequence_tokens_sum{model=\"a\"} 100\n" +
				"dynamo_frontend_requests_total{model=\"a\",status=\"error\"} 5\ndynamo_frontend_event_loop_stall_total 1\n" +
				"dynamo_tokio_worker_busy_ratio{worker=\"0\"} 1000\ndynamo_tokio_worker_busy_ratio{worker=\"1\"} 20\n",
			spec.Sample{Source: "frontend", Frontend: &spec.FrontendSample{
				InFlight: f(7), Queued: f(1), Served: f(0), Failed: f(5), Tokens: f(100), Stalls: f(1), Busy: f(1),
				Outcomes: map[string]float64{"error": 5},
			}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := (&frontendPage{}).read(t.Context(), []byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]spec.Sample{tc.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
