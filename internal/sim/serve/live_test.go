package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim"
	"aicr/internal/spec"
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
func beside(t *testing.T, s *spec.Scenario, f func(t *testing.T, fleet *sim.Live, network *pipeNet)) {
	t.Helper()
	var fleet *sim.Live
	var stop context.CancelFunc
	inVirtualTime(t, func(t *testing.T) http.Handler {
		fleet = sim.NewLive(s, 1, 0)
		var ctx context.Context
		ctx, stop = context.WithCancel(t.Context())
		go fleet.Run(ctx)
		return New(fleet, s, Options{Model: testModel}).Frontend()
	}, func(t *testing.T, network *pipeNet) {
		defer stop()
		f(t, fleet, network)
	})
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
		{`[{kind: worker-dead, workers: [0, 1]}]`, []string{" 500 ", saysFailed}, nil},
		{`[{kind: worker-missing, workers: [0, 1]}]`, []string{"404 Not Found"}, []string{"message", "Content-Type"}},
		{`[{kind: discovery-panic}]`, []string{"404 Not Found"}, []string{"message", "Content-Type"}},
		{`[{kind: zero-tokens}]`, []string{"200 OK", `"finish_reason":"stop"`, `"completion_tokens":0`, "[DONE]"}, []string{`"content"`}},
		{`[{kind: stream-break, how: error-event, share: 1}]`, []string{"200 OK", `{"error":`, "[DONE]"}, []string{`"finish_reason":"`}},
		{`[{kind: stream-break, how: truncated, share: 1}]`, []string{"200 OK", "\r\n0\r\n"}, []string{`"finish_reason":"`, "[DONE]"}},
		{`[{kind: stream-break, how: reset, share: 1}]`, []string{"the connection broke"}, []string{`"finish_reason":"`, "[DONE]"}},
	} {
		t.Run(tt.faults, func(t *testing.T) {
			beside(t, small(t, tt.faults), func(t *testing.T, _ *sim.Live, network *pipeNet) {
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
	beside(t, small(t, `[{kind: worker-wedge, workers: [0, 1]}]`), func(t *testing.T, _ *sim.Live, network *pipeNet) {
		conn, err := network.dial(t.Context(), "", "")
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
	beside(t, s, func(t *testing.T, fleet *sim.Live, network *pipeNet) {
		var conns []net.Conn
		for range 4 {
			conn, err := network.dial(t.Context(), "", "")
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
	beside(t, small(t, `[{kind: worker-missing, workers: [0]}]`), func(t *testing.T, fleet *sim.Live, network *pipeNet) {
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
			beside(t, small(t, tt.faults), func(t *testing.T, fleet *sim.Live, network *pipeNet) {
				target, err := load.NewTarget(load.TargetOptions{URL: "http://sim.test", Dial: func(ctx context.Context) (net.Conn, error) { return network.dial(ctx, "", "") }})
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
