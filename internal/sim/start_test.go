package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"aicr/internal/spec"
)

// What a warm worker of the bare fleet needs for its first token and for all
// eight, when it is asked as the nth.
func firstOf(n int) time.Duration { return 300*us*time.Duration(n) + loneFirst + 7*us + network }

func lastOf(n int) time.Duration { return firstOf(n) + 7*13*ms }

func answerEvent(worker string, n int, cold time.Duration) spec.Event {
	return spec.Event{T: (lastOf(n) + cold).Seconds(), Kind: spec.EventAnswer, Worker: worker,
		Tokens: new(8), Seconds: new((firstOf(n) + cold).Seconds())}
}

func TestWhatIsSeenOfAStart(t *testing.T) {
	begin := func(free int, runtime, chart string) []spec.Event {
		return []spec.Event{
			{Kind: spec.EventStage, Stage: "start"},
			{Kind: spec.EventGPUs, Source: "node-0", Want: new(2), Have: &free},
			{Kind: spec.EventVersions, Runtime: runtime, Chart: chart},
		}
	}
	warm := func(have int) []spec.Event {
		return append(begin(2, version, version),
			spec.Event{Kind: spec.EventStage, Stage: "warm"},
			spec.Event{Kind: spec.EventWorkers, Want: new(2), Have: &have})
	}
	tests := map[string]struct {
		faults []spec.Fault
		want   []spec.Event
		ready  bool
	}{
		"all is well": {
			want: append(warm(2), answerEvent("0", 1, 0), answerEvent("1", 2, 0)), ready: true,
		},
		"what has a window has not begun": {
			faults: []spec.Fault{during(dead(0), 0, time.Hour), during(spec.Fault{Kind: spec.GPUsClaimed}, 0, time.Hour)},
			want:   append(warm(2), answerEvent("0", 1, 0), answerEvent("1", 2, 0)), ready: true,
		},
		"nor has what is of later episodes": {
			faults: []spec.Fault{{Kind: spec.DiscoveryPanic, Episodes: []int{2}}, {Kind: spec.WorkerDead, Workers: on(0), Episodes: []int{3}}},
			want:   append(warm(2), answerEvent("0", 1, 0), answerEvent("1", 2, 0)), ready: true,
		},
		"cold": {
			faults: []spec.Fault{{Kind: spec.ColdStart, Takes: long(42 * time.Second)}},
			want:   append(warm(2), answerEvent("0", 1, 42*time.Second), answerEvent("1", 2, 42*time.Second)), ready: true,
		},
		"one is missing": {
			faults: []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(0)}},
			want:   append(warm(1), answerEvent("1", 1, 0)), ready: true,
		},
		"all are missing": {
			faults: []spec.Fault{{Kind: spec.WorkerMissing, Workers: &spec.Workers{All: true}}},
			want:   append(warm(0), spec.Event{T: 300, Kind: spec.EventNotServed, Text: "no worker answered with a token"}),
		},
		"one is dead": {
			faults: []spec.Fault{dead(1)},
			want: append(warm(2), spec.Event{T: (600*us + refusedAfter + 7*us + network).Seconds(), Kind: spec.EventAnswer, Worker: "1", Reason: "http-status", Text: "HTTP 500", Tokens: new(0)},
				answerEvent("0", 1, 0)), ready: true,
		},
		"one is wedged": {
			faults: []spec.Fault{wedge("real", 0)},
			want: append(warm(2), answerEvent("1", 2, 0),
				spec.Event{T: 300, Kind: spec.EventAnswer, Worker: "0", Reason: "silent", Text: "no whole answer within 5m0s"}), ready: true,
		},
		"all are wedged": {
			faults: []spec.Fault{wedge("real", 0, 1)},
			want: append(warm(2),
				spec.Event{T: 300, Kind: spec.EventAnswer, Worker: "0", Reason: "silent", Text: "no whole answer within 5m0s"},
				spec.Event{T: 300, Kind: spec.EventAnswer, Worker: "1", Reason: "silent", Text: "no whole answer within 5m0s"},
				spec.Event{T: 300, Kind: spec.EventNotServed, Text: "no worker answered with a token"}),
		},
		"discovery has panicked": {
			faults: []spec.Fault{{Kind: spec.DiscoveryPanic, Panics: new(24), BucketMissing: new(97), Runtime: "0.9.0", Chart: "1.0.2"}},
			want: append(begin(2, "0.9.0", "1.0.2"),
				spec.Event{T: 1, Kind: spec.EventLog, Source: "frontend", Count: 24,
					Text: "thread 'tokio-runtime-worker' panicked: Unfold must not be polled after it returned Poll::Ready(None)"},
				spec.Event{T: 1, Kind: spec.EventLog, Source: "frontend", Count: 97,
					Text: "KVStoreDiscovery::list: bucket missing for query=AllEndpoints, bucket=v1/instances"},
				spec.Event{T: 120, Kind: spec.EventNotServed, Text: "the frontend is up and no completion came"}),
		},
		"discovery has panicked, silently and with the same versions": {
			faults: []spec.Fault{{Kind: spec.DiscoveryPanic, Panics: new(0), BucketMissing: new(0)}},
			want: append(begin(2, version, version),
				spec.Event{T: 120, Kind: spec.EventNotServed, Text: "the frontend is up and no completion came"}),
		},
		"the DRA plugin is stale": {
			faults: []spec.Fault{{Kind: spec.DRAStale}},
			want: append(begin(2, version, version),
				spec.Event{T: 1, Kind: spec.EventPod, Source: "worker-0", Worker: "0", Reason: "FailedPrepareDynamicResources", Text: StaleDRA},
				spec.Event{T: 1, Kind: spec.EventPod, Source: "worker-1", Worker: "1", Reason: "FailedPrepareDynamicResources", Text: StaleDRA},
				spec.Event{T: 120, Kind: spec.EventNotServed, Text: "pods stay in ContainerCreating"}),
		},
		"the GPUs are claimed": {
			faults: []spec.Fault{{Kind: spec.GPUsClaimed}},
			want:   begin(0, version, version),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := bare(2)
			s.Faults = tt.faults
			events, ready := Start(s, 1)
			if ready != tt.ready {
				t.Errorf("ready: %v", ready)
			}
			if diff := cmp.Diff(tt.want, events, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
