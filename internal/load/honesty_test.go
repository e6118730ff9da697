package load_test

import (
	"fmt"
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
	"aicr/test/memnet"
)

// inVirtualTime runs f beside a handler that plays the script, with a target
// that reaches it. All of it lives in a synctest bubble, so that times are exact.
func inVirtualTime(t *testing.T, s truth.Script, f func(t *testing.T, h *truth.Handler, target *load.Target)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, err := truth.NewHandler(s)
		if err != nil {
			t.Fatal(err)
		}
		f(t, h, serveInBubble(t, &http.Server{Handler: h}, load.TargetOptions{URL: "http://truth.test"}))
	})
}

// serveInBubble makes the server's target one that reaches it through memory.
func serveInBubble(t *testing.T, srv *http.Server, o load.TargetOptions) *load.Target {
	t.Helper()
	const addr = "server.test:80"
	var network memnet.Net
	l := network.Listen(addr)
	go func() { _ = srv.Serve(l) }() // it ends by Close
	t.Cleanup(func() { _ = srv.Close() })
	o.Dial = network.To(addr)
	target, err := load.NewTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// planTo is planFor for a target that is there already.
func planTo(t testing.TB, target *load.Target, main load.Schedule, tokens int) *load.Plan {
	t.Helper()
	return &load.Plan{Target: target, Work: worksOf(t, 32, tokens), Main: main,
		Timeout: hang, Grace: hang, Seed: 1, KeepTokens: true}
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
	truth.HTTP500:    {load.HTTPStatus, "HTTP 500: Failed to generate completions"},
	truth.HTTP429:    {load.HTTPStatus, "HTTP 429: Too many requests"},
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

	truth.Endless:     {load.Oversized, "events, where 4192 is the most (6 output tokens were asked for)"},
	truth.Unsolicited: {load.Unsolicited, "no request asked for"},
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
// counted that was not. Stalls, which only time ends, have tests of their own.
func TestFailuresAreCountedExactly(t *testing.T) {
	const requests, tokens = 100, 6
	for _, kind := range truth.Kinds() {
		if kind == truth.Stall || kind == truth.Endless { // which takes long, and has a test of its own
			continue
		}
		for _, share := range []float64{0, 0.01, 0.10, 1} {
			if share == 0 && kind != truth.Kinds()[0] {
				continue // no fault is the same of every kind
			}
			for _, wire := range []load.WireKind{load.LoopWire, load.GoroutineWire} {
				t.Run(fmt.Sprintf("%s/%g/%s", kind, share, wireNames[wire]), func(t *testing.T) {
					s := truth.Script{Faults: []truth.Fault{{Kind: kind, Share: share}}}
					srv := serve(t, s)
					p := planFor(t, srv.URL(), 20, requests, tokens)
					p.Wire = wire
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

// A request whose answer stalls ends at its time limit, and no other does.
func TestStalledRequestsTimeOut(t *testing.T) {
	const requests, tokens, limit = 100, 6, time.Second
	for _, after := range []int{0, -1} { // in the middle of the answer, before any byte of it
		for _, share := range []float64{0.01, 0.10, 1} {
			t.Run(fmt.Sprintf("after %d/%g", after, share), func(t *testing.T) {
				s := truth.Script{TTFT: 20 * ms, Faults: []truth.Fault{{Kind: truth.Stall, Share: share, After: after}}}
				inVirtualTime(t, s, func(t *testing.T, _ *truth.Handler, target *load.Target) {
					p := planTo(t, target, load.Schedule{Users: 20, Count: requests}, tokens)
					p.Timeout = limit
					res := mustRun(t, p)
					checkVerdict(t, res.Log, truth.Stall, int(requests*share), requests, tokens)
					for r := range res.Log.All() {
						if took := time.Duration(r.End - r.Intended); r.Class == load.Timeout && took != limit {
							t.Errorf("ended after %v of %v", took, limit)
						}
					}
				})
			})
		}
	}
}

// The event loop's time limit. How many it catches while they connect is the
// machine's, so that only what must be of every request is looked at; a mix with
// served requests is in the proof.
func TestTheEventLoopHasATimeLimit(t *testing.T) {
	for _, after := range []int{0, -1} {
		t.Run(fmt.Sprintf("after %d", after), func(t *testing.T) {
			srv := serve(t, truth.Script{Faults: []truth.Fault{{Kind: truth.Stall, Share: 1, After: after}}})
			p := planFor(t, srv.URL(), 20, 40, 6)
			p.Wire, p.Timeout = load.LoopWire, 50*ms
			res := mustRun(t, p)
			for r := range res.Log.All() {
				want := load.Timeout
				if r.Sent == 0 {
					want = load.Connect
				}
				if message := res.Log.Details[r.Detail]; r.Class != want || !strings.Contains(message, "time limit") {
					t.Errorf("sent %v: %v, %q", r.Sent != 0, r.Class, message)
				}
			}
			if res.Log.Len() != 40 {
				t.Errorf("%d records", res.Log.Len())
			}
		})
	}
}

var wireNames = map[load.WireKind]string{load.LoopWire: "loop", load.GoroutineWire: "goroutines", load.HTTP2Wire: "http2"}

// A connection that breaks before any byte, and a stream that fails before any
// token, have classes of their own.
func TestFailuresBeforeTheFirstToken(t *testing.T) {
	for kind, want := range map[truth.Kind]load.Class{
		truth.Reset: load.Reset, truth.Cut: load.Reset,
		truth.ErrorEvent: load.ErrorEvent, truth.ErrorData: load.ErrorEvent, truth.Truncated: load.NoTokens,
	} {
		for _, wire := range []load.WireKind{load.LoopWire, load.GoroutineWire} {
			t.Run(string(kind)+"/"+wireNames[wire], func(t *testing.T) {
				srv := serve(t, truth.Script{Faults: []truth.Fault{{Kind: kind, Share: 0.5, After: -1}}})
				p := planFor(t, srv.URL(), 50, 100, 4)
				p.Wire, p.NoReuse = wire, true // on a kept connection it would be sent again
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
			p := planTo(t, target, load.Schedule{Rate: 1000. / 7, Count: requests}, tokens)
			p.Timeout = 10 * time.Second
			res := mustRun(t, p)
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
