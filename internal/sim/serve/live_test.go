package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

// small is a fleet of two workers that says five words, with faults.
func small(t testing.TB, faults string) *spec.Scenario {
	t.Helper()
	s, ok := spec.NewScenario("small", "small")
	if !ok {
		t.Fatal("there is no profile small")
	}
	s.Fleet.Workers, s.Load.OutputTokens = 2, 5
	if faults != "" {
		all, err := spec.DecodeFaults([]byte(faults), s)
		if err != nil {
			t.Fatal(err)
		}
		s.Faults = all
	}
	return s
}

// beside runs f beside the frontend of a fleet, in virtual time.
func beside(t *testing.T, s *spec.Scenario, f func(t *testing.T, fleet *sim.Live, network *memnet.Net)) {
	t.Helper()
	besideServer(t, s, func(t *testing.T, fleet *sim.Live, _ *Server, network *memnet.Net) { f(t, fleet, network) })
}

func besideServer(t *testing.T, s *spec.Scenario, f func(t *testing.T, fleet *sim.Live, server *Server, network *memnet.Net)) {
	t.Helper()
	var fleet *sim.Live
	var server *Server
	var stop context.CancelFunc
	inVirtualTime(t, func(t *testing.T) http.Handler {
		fleet = sim.NewLive(s, 1, 0)
		server = New(fleet, s, Options{Model: testModel})
		var ctx context.Context
		ctx, stop = context.WithCancel(t.Context())
		go fleet.Run(ctx)
		return server.Frontend()
	}, func(t *testing.T, network *memnet.Net) {
		defer stop()
		f(t, fleet, server, network)
	})
}

// reading is the value of the one series of a page with that name and those labels.
func reading(t *testing.T, page http.Handler, series string) float64 {
	t.Helper()
	w := request(page, "/metrics", "")
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
	}
	t.Fatalf("%d, and no %s", w.Code, series)
	return 0
}

const ofTiny = `{engine="0",model_name="tiny"}`

// A frontend that freezes keeps tokens from its clients. The workers that made
// them in time say so.
func TestAFreezeIsTheFrontendsAlone(t *testing.T) {
	s := small(t, `[{kind: frontend-freeze, at: 200ms, lasts: 8s}]`)
	s.Load.OutputTokens = 200
	besideServer(t, s, func(t *testing.T, fleet *sim.Live, server *Server, network *memnet.Net) {
		done := make(chan string)
		go func() { done <- exchange(t, network, post(chatPath, streamed)) }()
		served, tokens := -1, 0.0
		for range 60 { // in the freeze and after it
			time.Sleep(200 * time.Millisecond)
			for i := range 2 {
				made := reading(t, server.Worker(i), "vllm:generation_tokens_total"+ofTiny)
				times := reading(t, server.Worker(i), "vllm:time_to_first_token_seconds_count"+ofTiny) +
					reading(t, server.Worker(i), "vllm:inter_token_latency_seconds_count"+ofTiny)
				if now := float64(fleet.Snapshot().Workers[i].Generated); made != now || times != now {
					t.Fatalf("worker %d: %v tokens and %v times of them, after %v", i, made, times, now)
				}
				if made > 0 {
					served, tokens = i, made
				}
			}
		}
		if answer := <-done; !strings.Contains(answer, "[DONE]") || tokens != 200 {
			t.Fatalf("%v tokens were made, and all that came is:\n%s", tokens, answer)
		}
		worker, front := server.Worker(served), server.Frontend()
		for _, sum := range []struct {
			name      string
			page      http.Handler
			series    string
			low, high float64
		}{
			{"the worker's gaps", worker, "vllm:inter_token_latency_seconds_sum" + ofTiny, 0, 7},
			{"the worker's request", worker, "vllm:e2e_request_latency_seconds_sum" + ofTiny, 0, 7},
			{"the frontend's gaps", front, `dynamo_frontend_inter_token_latency_seconds_sum{model="tiny"}`, 7, 20},
			{"the event loop's delays", front, "dynamo_frontend_event_loop_delay_seconds_sum", 8, 8},
			{"the event loop's stalls", front, "dynamo_frontend_event_loop_stall_total", 1, 1},
		} {
			if got := reading(t, sum.page, sum.series); got < sum.low || got > sum.high {
				t.Errorf("%s: %v, want %v to %v", sum.name, got, sum.low, sum.high)
			}
		}
	})
}

// What a worker counts of a request is how the request ended for the worker.
func TestAWorkerCountsWhatItSaw(t *testing.T) {
	for _, tt := range []struct {
		faults, body, reason string
		errors               bool
	}{
		{``, streamed, "stop", false},
		{``, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`, "length", false},
		{`[{kind: zero-tokens}]`, streamed, "stop", false},
		{`[{kind: stream-break, how: truncated, share: 1}]`, streamed, "error", true},
		{`[{kind: worker-dead, workers: [0, 1], at: 20ms, lasts: 1s}]`, streamed, "abort", false},
	} {
		t.Run(tt.reason+" "+tt.faults, func(t *testing.T) {
			besideServer(t, small(t, tt.faults), func(t *testing.T, fleet *sim.Live, server *Server, network *memnet.Net) {
				exchange(t, network, post(chatPath, tt.body))
				got := map[string]float64{}
				failed := false
				for i := range 2 {
					for _, reason := range []string{"stop", "length", "abort", "error"} {
						got[reason] += reading(t, server.Worker(i), `vllm:request_success_total{engine="0",finished_reason="`+reason+`",model_name="tiny"}`)
					}
					failed = failed || strings.Contains(request(server.Worker(i), "/metrics", "").Body.String(), "dynamo_component_errors_total")
				}
				want := map[string]float64{"stop": 0, "length": 0, "abort": 0, "error": 0}
				want[tt.reason] = 1
				if diff := cmp.Diff(want, got); diff != "" || failed != tt.errors {
					t.Errorf("errors: %v\n%s", failed, diff)
				}
			})
		})
	}
}

// Who comes back after it was missing is another process.
func TestAWorkerThatComesBackStartsAnew(t *testing.T) {
	besideServer(t, small(t, ""), func(t *testing.T, fleet *sim.Live, server *Server, network *memnet.Net) {
		without := func(worker int) {
			server.SetFaults(small(t, fmt.Sprintf(`[{kind: worker-missing, workers: [%d]}]`, worker)).Faults)
		}
		without(1)
		exchange(t, network, post(chatPath, streamed)) // served by worker 0
		if n := reading(t, server.Worker(0), "vllm:generation_tokens_total"+ofTiny); n != 5 {
			t.Fatalf("%v tokens, want 5", n)
		}
		time.Sleep(time.Minute)
		without(0)
		if w := request(server.Worker(0), "/metrics", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a worker that is missing has a page: %d", w.Code)
		}
		server.SetFaults(nil)
		time.Sleep(time.Second)
		for _, series := range []string{"vllm:generation_tokens_total", "vllm:e2e_request_latency_seconds_count", "vllm:prompt_tokens_total"} {
			if n := reading(t, server.Worker(0), series+ofTiny); n != 0 {
				t.Errorf("%s: %v", series, n)
			}
		}
		id := strconv.FormatUint(fleet.Snapshot().Workers[0].ID, 16)
		if up := reading(t, server.Worker(0), `dynamo_component_uptime_seconds{worker_id="`+id+`"}`); up > 30 {
			t.Errorf("up for %v s", up)
		}
	})
}

// Without pods there is nothing behind a worker's port.
func TestWithoutPodsWorkersAreNotUp(t *testing.T) {
	for kind, want := range map[string]int{"dra-stale": 503, "gpus-claimed": 503, "discovery-panic": 200} {
		besideServer(t, small(t, `[{kind: `+kind+`}]`), func(t *testing.T, _ *sim.Live, server *Server, _ *memnet.Net) {
			for _, path := range []string{"/health", "/metrics"} {
				if w := request(server.Worker(0), path, ""); w.Code != want {
					t.Errorf("%s: %s is %d, want %d", kind, path, w.Code, want)
				}
			}
		})
	}
}

// Every fault that a client can see is seen as it is.
func TestFaultsAreSeenByClients(t *testing.T) {
	for _, tt := range []struct {
		faults string
		has    []string
		hasNot []string
	}{
		{``, []string{"200 OK", `"content"`, `"finish_reason":"stop"`, "[DONE]"}, nil},
		{`[{kind: http-error, status: 529, share: 1}]`, []string{" 529 ", saysOverloaded}, nil},
		{`[{kind: http-error, status: 404, share: 1}]`, []string{"404 Not Found", "Content-Type: application/json", saysNotFound}, nil},
		{`[{kind: worker-dead, workers: [0, 1]}]`, []string{" 500 ", saysFailed}, nil},
		{`[{kind: worker-missing, workers: [0, 1]}]`, []string{"404 Not Found"}, []string{"message", "Content-Type"}},
		{`[{kind: discovery-panic}]`, []string{"404 Not Found"}, []string{"message", "Content-Type"}},
		{`[{kind: zero-tokens}]`, []string{"200 OK", `"finish_reason":"stop"`, `"completion_tokens":0`, "[DONE]"}, []string{`"content"`}},
		{`[{kind: stream-break, how: error-event, share: 1}]`, []string{"200 OK", `{"error":`, "[DONE]"}, []string{`"finish_reason":"`}},
		{`[{kind: stream-break, how: truncated, share: 1}]`, []string{"200 OK", "\r\n0\r\n"}, []string{`"finish_reason":"`, "[DONE]"}},
		{`[{kind: stream-break, how: reset, share: 1}]`, []string{"the connection broke"}, []string{`"finish_reason":"`, "[DONE]"}},
	} {
		t.Run(tt.faults, func(t *testing.T) {
			beside(t, small(t, tt.faults), func(t *testing.T, _ *sim.Live, network *memnet.Net) {
				got := exchange(t, network, post(chatPath, streamed))
				for _, words := range tt.has {
					if !strings.Contains(got, words) {
						t.Errorf("no %q in:\n%s", words, got)
					}
				}
				for _, words := range tt.hasNot {
					if strings.Contains(got, words) {
						t.Errorf("%q in:\n%s", words, got)
					}
				}
			})
		})
	}
}

// A wedged worker is healthy by its own account, and gives nothing.
func TestAWedgeLooksHealthy(t *testing.T) {
	beside(t, small(t, `[{kind: worker-wedge, workers: [0, 1]}]`), func(t *testing.T, _ *sim.Live, network *memnet.Net) {
		conn, err := network.Dial(t.Context(), "tcp", simAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, post(chatPath, streamed)); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err) // the head comes
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if b, err := in.ReadByte(); err == nil {
			t.Errorf("it gave %q", b)
		}
		if health := exchange(t, network, getting("/health")); strings.Count(health, `"endpoint":"generate"`) != 2 {
			t.Errorf("healthy workers are two, not:\n%s", health)
		}
	})
}

// What a client leaves behind is free for others at once.
func TestAClientThatLeavesFreesItsSlot(t *testing.T) {
	s := small(t, "")
	s.Load.OutputTokens = 1000
	beside(t, s, func(t *testing.T, fleet *sim.Live, network *memnet.Net) {
		var conns []net.Conn
		for range 4 {
			conn, err := network.Dial(t.Context(), "tcp", simAddress)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed
			if _, err := io.WriteString(conn, post(chatPath, streamed)); err != nil {
				t.Fatal(err)
			}
		}
		running := func() (n int, kv float64) {
			for _, w := range fleet.Snapshot().Workers {
				n += w.Running
				kv += w.KVUsage
			}
			return n, kv
		}
		time.Sleep(time.Second)
		if n, kv := running(); n != 4 || kv == 0 {
			t.Errorf("%d are running, of 4, on %v of the blocks", n, kv)
		}
		for _, conn := range conns {
			conn.Close()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if n, _ := running(); n != 0 || fleet.Snapshot().Frontend.InFlight != 0 {
			t.Errorf("%d are running, %d in flight", n, fleet.Snapshot().Frontend.InFlight)
		}
	})
}

// The worker that is named is the one that served.
func TestTheWorkerIsNamed(t *testing.T) {
	beside(t, small(t, `[{kind: worker-missing, workers: [0]}]`), func(t *testing.T, fleet *sim.Live, network *memnet.Net) {
		got := exchange(t, network, post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"nvext":{"extra_fields":["worker_id"]}}`))
		if id := fmt.Sprintf(`"decode_worker_id":%d}`, fleet.Snapshot().Workers[1].ID); !strings.Contains(got, id) {
			t.Errorf("no %s in:\n%s", id, got)
		}
	})
}

// The engine that judges real fleets understands this one: minutes of load in
// virtual time, every token counted, every failure in its class.
func TestTheLoadEngineUnderstandsIt(t *testing.T) {
	for _, tt := range []struct {
		faults string
		all    load.Class
	}{
		{``, load.OK},
		{`[{kind: http-error, status: 500, share: 1}]`, load.HTTPStatus},
		{`[{kind: stream-break, how: error-event, share: 1}]`, load.ErrorEvent},
		{`[{kind: stream-break, how: truncated, share: 1}]`, load.Truncated},
		{`[{kind: zero-tokens}]`, load.NoTokens},
	} {
		t.Run(tt.faults, func(t *testing.T) {
			const requests, in, out = 40, 32, 20
			beside(t, small(t, tt.faults), func(t *testing.T, fleet *sim.Live, network *memnet.Net) {
				target, err := load.NewTarget(load.TargetOptions{URL: "http://sim.test", Dial: network.To(simAddress)})
				if err != nil {
					t.Fatal(err)
				}
				work, err := workload.Synthetic(workload.Spec{Model: testModel, Seed: 1,
					InputTokens: workload.Length{Mean: in}, OutputTokens: workload.Length{Mean: out}, Fields: workload.AllFields()})
				if err != nil {
					t.Fatal(err)
				}
				res, err := load.Run(t.Context(), &load.Plan{Target: target, Work: work, Main: load.Schedule{Users: 8, Count: requests},
					Timeout: time.Minute, Grace: time.Minute, Seed: 1, KeepTokens: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]int{}
				for r := range res.Log.All() {
					got[r.Class.String()]++
					if tt.all == load.OK && (r.Tokens() != out || r.Chunks != out) {
						t.Errorf("%d tokens in %d events, want %d", r.Tokens(), r.Chunks, out)
					}
				}
				if diff := cmp.Diff(map[string]int{tt.all.String(): requests}, got); diff != "" {
					t.Errorf("%v\n%s", res.Log.Details, diff)
				}
			})
		})
	}
}
