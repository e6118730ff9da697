package proof

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
	"aicr/test/busy"
)

const ms = time.Millisecond

// plainWires are the wires that speak plain HTTP/1.1.
var plainWires = map[load.WireKind]string{load.LoopWire: "loop", load.GoroutineWire: "goroutines"}

// serve starts a known-truth server in this process.
func serve(t *testing.T, s truth.Script) *truth.Server {
	t.Helper()
	srv, err := truth.NewServer(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// planFor is a plan without a schedule.
func planFor(ctx context.Context, url string, tokens int) (*load.Plan, error) {
	target, err := load.NewTarget(load.TargetOptions{URL: url})
	if err != nil {
		return nil, err
	}
	if err := target.Lookup(ctx); err != nil {
		return nil, err
	}
	work, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1, Fields: workload.AllFields(),
		InputTokens: workload.Length{Mean: 32}, OutputTokens: workload.Length{Mean: tokens}})
	if err != nil {
		return nil, err
	}
	return &load.Plan{Target: target, Work: work, Timeout: time.Minute, Grace: time.Minute, Seed: 1}, nil
}

func run(t *testing.T, url string, tokens int, change func(*load.Plan)) *load.Result {
	t.Helper()
	p, err := planFor(t.Context(), url, tokens)
	if err != nil {
		t.Fatal(err)
	}
	change(p)
	res, err := load.Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// latest is how late this process's timers were at worst while f ran.
func latest(f func()) (worst time.Duration) {
	const every = ms
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
			now := time.Now()
			worst = max(worst, now.Sub(last)-every)
			last = now
		}
	}()
	f()
	close(stop)
	<-ended
	return worst
}

// quiet is a lateness that no reading of a test here can be spoilt by.
const quiet = 5 * ms

// Stalled requests end at their time limit, and those beside them are served.
func TestStallsAreCountedExactly(t *testing.T) {
	const requests = 200
	for _, fault := range []truth.Fault{
		{Kind: truth.Stall, Share: 0.01}, {Kind: truth.Stall, Share: 0.10},
		{Kind: truth.Stall, Share: 0.5, After: -1}, // before any byte of the answer
	} {
		for wire, name := range plainWires {
			t.Run(fmt.Sprintf("%g after %d/%s", fault.Share, fault.After, name), func(t *testing.T) {
				srv := serve(t, truth.Script{Faults: []truth.Fault{fault}})
				busy.Measure(t, func() string {
					srv.Reset()
					var res *load.Result
					late := latest(func() {
						res = run(t, srv.URL(), 6, func(p *load.Plan) {
							p.Wire, p.Timeout = wire, time.Second
							p.Main = load.Schedule{Users: requests, Count: requests}
						})
					})
					got := map[load.Class]int{}
					for r := range res.Log.All() {
						got[r.Class]++
					}
					stalled := int(requests * fault.Share)
					diff := cmp.Diff(map[load.Class]int{load.OK: requests - stalled, load.Timeout: stalled}, got)
					if diff != "" && late < quiet {
						t.Fatalf("%v\n%s", res.Log.Details, diff)
					}
					if diff != "" {
						return fmt.Sprintf("timers were late by %v, and requests by a second: %v", late, got)
					}
					return ""
				})
			})
		}
	}
}

// The server's habit is found where the answers are quick enough to show it.
func TestProbeFindsNagle(t *testing.T) {
	tests := map[string]struct {
		script truth.Script
		want   load.Nagle
	}{
		"on":          {truth.Script{Nagle: true, TTFT: 2 * ms}, load.NagleOn},
		"off":         {truth.Script{HeadersFirst: true, TTFT: 2 * ms}, load.NagleOff},
		"too slow":    {truth.Script{Nagle: true, TTFT: 120 * ms, ITL: 60 * ms}, load.NagleUnknown},
		"slow, quick": {truth.Script{HeadersFirst: true, TTFT: 120 * ms, ITL: ms}, load.NagleOff},
	}
	spec := workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: 10, Fields: workload.AllFields(),
		InputTokens: workload.Length{Mean: 200}, OutputTokens: workload.Length{Mean: 64}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, tt.script)
			busy.Measure(t, func() string {
				target, err := load.NewTarget(load.TargetOptions{URL: srv.URL()})
				if err != nil {
					t.Fatal(err)
				}
				var p *load.Probe
				late := latest(func() {
					p, err = load.Examine(t.Context(), target, spec, time.Minute)
				})
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case p.Nagle == tt.want:
					return ""
				case late < quiet:
					t.Fatalf("found %v, want %v; timers were late by %v at most", p.Nagle, tt.want, late)
				}
				return fmt.Sprintf("found %v while timers were late by %v", p.Nagle, late)
			})
		})
	}
}

// On a connection in use, a server that leaves Nagle's algorithm on keeps its
// first token back until the client acknowledges the head. The load must not
// report the kernel's delay of that as the server's latency, as an ordinary
// client does.
func TestTheLoadIsFreeOfNagle(t *testing.T) {
	srv := serve(t, truth.Script{Nagle: true, TTFT: 2 * ms})
	const requests = 15
	for wire, name := range plainWires {
		t.Run(name, func(t *testing.T) {
			busy.Measure(t, func() string {
				var engine, ordinary []time.Duration
				late := latest(func() {
					ordinary = ordinaryFirsts(t, srv.URL(), requests)
					res := run(t, srv.URL(), 2, func(p *load.Plan) {
						p.Wire, p.Main = wire, load.Schedule{Users: 1, Count: requests}
					})
					for r := range res.Log.All() {
						if r.Has(load.Reused) {
							engine = append(engine, time.Duration(r.FirstContent-r.Sent))
						}
					}
				})
				at, later := median(engine), median(ordinary)
				switch {
				case at <= later/2:
					return ""
				case late < quiet:
					t.Fatalf("first token after %v, to an ordinary client after %v; timers were late by %v at most",
						at, later, late)
				}
				return fmt.Sprintf("first token after %v while timers were late by %v", at, late)
			})
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// ordinaryFirsts are the times to first token of net/http's client, on the
// connection of its first request.
func ordinaryFirsts(t *testing.T, url string, requests int) (firsts []time.Duration) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	const body = `{"model":"truth","stream":true,"max_tokens":2,"messages":[{"role":"user","content":"one two three"}]}`
	for i := range requests {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, `"content"`) {
			t.Fatalf("%q: %v", line, err)
		}
		if i > 0 {
			firsts = append(firsts, time.Since(sent))
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	return firsts
}
