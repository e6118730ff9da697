package load_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

// pipeNet is a network for virtual time: synctest knows nothing of sockets.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeNet() *pipeNet { return &pipeNet{make(chan net.Conn), make(chan struct{})} }

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipeNet) Close() error   { close(p.done); return nil }
func (p *pipeNet) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipeNet) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inVirtualTime runs f beside a handler that plays the script, with a target
// that reaches it. All of it lives in a synctest bubble, so that times are exact.
func inVirtualTime(t *testing.T, s truth.Script, f func(t *testing.T, h *truth.Handler, target *load.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, err := truth.NewHandler(s)
		if err != nil {
			t.Fatal(err)
		}
		network := newPipeNet()
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(network) }() // it ends by Close
		target, err := load.NewTarget(load.TargetOptions{URL: "http://truth.test", Dial: network.dial})
		if err != nil {
			t.Fatal(err)
		}
		f(t, h, target)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
}

// planTo is planFor for a target that is there already.
func planTo(t testing.TB, target *load.Target, main load.Schedule, tokens int) *load.Plan {
	t.Helper()
	return &load.Plan{Target: target, Work: worksOf(t, 32, tokens), Main: main,
		Timeout: 30 * time.Second, Grace: 10 * time.Second, Seed: 1, KeepTokens: true}
}

func worksOf(t testing.TB, in, out int) *workload.Workload {
	t.Helper()
	w, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1,
		InputTokens: workload.Length{Mean: in}, OutputTokens: workload.Length{Mean: out}, Fields: workload.AllFields()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func countClasses(l *load.Log) map[load.Class]int {
	n := map[load.Class]int{}
	for r := range l.All() {
		n[r.Class]++
	}
	return n
}

// verdicts says how each kind of fault is to be reported, and which words of the
// server, or else of the engine, must be in the message.
var verdicts = map[truth.Kind]struct {
	class load.Class
	words string
}{
	truth.HTTP500:    {load.HTTPStatus, "HTTP 500: {\"message\":\"Failed to generate completions\""},
	truth.HTTP429:    {load.HTTPStatus, "HTTP 429: {\"message\":\"Too many requests\""},
	truth.Empty500:   {load.HTTPStatus, "HTTP 500: (empty body)"},
	truth.HTML200:    {load.BadStream, "(a page of HTML)"},
	truth.Reset:      {load.Reset, "connection reset by peer"},
	truth.Cut:        {load.Truncated, "closed in the middle of the answer"},
	truth.Truncated:  {load.Truncated, "without a finish reason"},
	truth.NoDone:     {load.OK, ""},
	truth.ErrorEvent: {load.ErrorEvent, "Internal server error"},
	truth.ErrorData:  {load.ErrorEvent, "Internal server error"},
	truth.ZeroTokens: {load.NoTokens, "without any content"},
	truth.Stall:      {load.Timeout, "time limit"},
}

// checkVerdict holds a log against the faults that were played.
func checkVerdict(t *testing.T, l *load.Log, kind truth.Kind, faults, requests, tokens int) {
	t.Helper()
	want := map[load.Class]int{}
	want[load.OK] += requests - faults
	want[verdicts[kind].class] += faults
	for class, n := range want {
		if n == 0 {
			delete(want, class)
		}
	}
	if diff := cmp.Diff(want, countClasses(l)); diff != "" {
		t.Errorf("%v\n%s", l.Details, diff)
	}
	for r := range l.All() {
		switch message := l.Details[r.Detail]; {
		case r.OK() && (message != "" || r.Tokens() != int32(tokens) || r.Chunks != int32(tokens)):
			t.Fatalf("a served request has message %q, %d tokens, %d events", message, r.Tokens(), r.Chunks)
		case !r.OK() && !strings.Contains(message, verdicts[kind].words):
			t.Fatalf("message %q has no %q", message, verdicts[kind].words)
		}
	}
}

// Every failure is counted, in its class, with what the server said; none is
// counted that was not.
func TestFailuresAreCountedExactly(t *testing.T) {
	const requests, tokens = 200, 6
	for _, kind := range truth.Kinds() {
		for _, share := range []float64{0, 0.01, 0.10, 1} {
			for _, wire := range []load.WireKind{load.LoopWire, load.GoroutineWire} {
				t.Run(fmt.Sprintf("%s/%g/%s", kind, share, wireNames[wire]), func(t *testing.T) {
					s := truth.Script{Faults: []truth.Fault{{Kind: kind, Share: share}}}
					srv := serve(t, s)
					p := planFor(t, srv.URL(), 20, requests, tokens)
					p.Wire = wire
					if kind == truth.Stall && share > 0 {
						p.Timeout, p.Main.Users = time.Second, requests
					}
					res := mustRun(t, p)
					checkVerdict(t, res.Log, kind, int(requests*share), requests, tokens)
					if got := srv.Truth(); got.Requests != requests {
						t.Errorf("the server saw %d requests", got.Requests)
					}
				})
			}
		}
	}
}

var wireNames = map[load.WireKind]string{load.LoopWire: "loop", load.GoroutineWire: "goroutines", load.HTTP2Wire: "http2"}

// A connection that breaks before any byte, and a stream that fails before any
// token, have classes of their own.
func TestFailuresBeforeTheFirstToken(t *testing.T) {
	for kind, want := range map[truth.Kind]load.Class{
		truth.Reset: load.Reset, truth.Cut: load.Reset, truth.Stall: load.Timeout,
		truth.ErrorEvent: load.ErrorEvent, truth.ErrorData: load.ErrorEvent, truth.Truncated: load.NoTokens,
	} {
		for _, wire := range []load.WireKind{load.LoopWire, load.GoroutineWire} {
			t.Run(string(kind)+"/"+wireNames[wire], func(t *testing.T) {
				srv := serve(t, truth.Script{Faults: []truth.Fault{{Kind: kind, Share: 0.5, After: -1}}})
				p := planFor(t, srv.URL(), 50, 100, 4)
				p.Wire = wire
				if kind == truth.Stall {
					p.Timeout = time.Second
				}
				res := mustRun(t, p)
				if diff := cmp.Diff(map[load.Class]int{load.OK: 50, want: 50}, countClasses(res.Log)); diff != "" {
					t.Errorf("%v\n%s", res.Log.Details, diff)
				}
			})
		}
	}
}

// What failed must not move the figures of what did not. In virtual time they
// are equal to the nanosecond.
func TestFailuresLeaveTheOthersFiguresAlone(t *testing.T) {
	const requests, tokens = 100, 6
	script := truth.Script{Seed: 3, TTFT: 80 * time.Millisecond, TTFTSpread: 40 * time.Millisecond,
		ITL: 10 * time.Millisecond, ITLSpread: 5 * time.Millisecond, RoleFirst: true}

	// Arrivals 7 ms apart keep the server's numbers those of the sequence, with
	// about twenty in flight.
	figures := func(t *testing.T, s truth.Script, check func(*load.Log)) map[int64][]int64 {
		all := map[int64][]int64{}
		inVirtualTime(t, s, func(t *testing.T, _ *truth.Handler, target *load.Target) {
			res := mustRun(t, planTo(t, target, load.Schedule{Rate: 1000. / 7, Count: requests}, tokens))
			check(res.Log)
			for r := range res.Log.All() {
				if !r.OK() {
					continue
				}
				f := []int64{int64(r.Tokens()), r.End - r.Sent, r.FirstChoice - r.Sent, r.MaxGap}
				for _, at := range res.Log.Stamps(r) {
					f = append(f, at-r.Sent)
				}
				all[r.Seq] = f
			}
		})
		return all
	}

	healthy := figures(t, script, func(l *load.Log) { checkVerdict(t, l, truth.NoDone, 0, requests, tokens) })
	for i := range int64(requests) {
		if got, want := time.Duration(healthy[i][4]), script.FirstAfter(i); got != want {
			t.Fatalf("request %d: first token after %v, want %v", i, got, want)
		}
	}
	for _, kind := range truth.Kinds() {
		for _, share := range []float64{0.01, 0.10, 1} {
			t.Run(fmt.Sprintf("%s/%g", kind, share), func(t *testing.T) {
				s := script
				s.Faults = []truth.Fault{{Kind: kind, Share: share}}
				got := figures(t, s, func(l *load.Log) {
					if kind == truth.Reset {
						kind = truth.Cut // a pipe has no RST
					}
					checkVerdict(t, l, kind, int(requests*share), requests, tokens)
				})
				for seq, want := range healthy {
					if f, ok := got[seq]; ok && !slices.Equal(f, want) {
						t.Errorf("request %d: %v, without faults %v", seq, f, want)
					}
				}
			})
		}
	}
}

// A connection that breaks at the very moment at which its time is up is one
// failure, whichever comes first. Both at once have brought the engine down.
func TestFailureAtTheTimeLimit(t *testing.T) {
	s := truth.Script{TTFT: 100 * time.Millisecond, Faults: []truth.Fault{{Kind: truth.Cut, Share: 1, After: -1}}}
	inVirtualTime(t, s, func(t *testing.T, _ *truth.Handler, target *load.Target) {
		p := planTo(t, target, load.Schedule{Users: 50, Count: 1000}, 2)
		p.Timeout = s.TTFT
		res := mustRun(t, p)
		if n := countClasses(res.Log); n[load.Timeout]+n[load.Reset] != 1000 {
			t.Errorf("%v %v", n, res.Log.Details)
		}
	})
}
