package load_test

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

// closings are the ways in which a server ends a connection behind an answer, of which it
// has said nothing.
var closings = map[string]truth.Close{
	"FIN after each answer": {After: 1},
	"FIN soon after it":     {After: 1, Delay: 2 * ms},
	"FIN before a write":    {After: 1, Delay: time.Microsecond},
	"half-closed":           {After: 1, Half: true},
	"RST after each answer": {After: 1, Reset: true},
	"keep-alive max=3":      {After: 3},
	"every second":          {After: 2, Reset: true},
}

// A server that closes kept connections serves every request, each once by its own count;
// what was sent twice is counted.
func TestServersMayCloseKeptConnections(t *testing.T) {
	const users, count = 4, 60
	for name, how := range closings {
		for wayName, way := range ways {
			if way.wire == load.HTTP2Wire && how.After > 1 {
				continue // its users share connections: the other one of HTTP/2 does
			}
			t.Run(name+"/"+wayName, func(t *testing.T) {
				script := truth.Script{Close: how}
				var target *load.Target
				var seen func(truth.Filter) truth.Truth
				if way.speaks == plainHTTP {
					srv := serve(t, script)
					target, seen = newTarget(t, load.TargetOptions{URL: srv.URL()}), srv.TruthOf
				} else {
					f := newFront(t, way.speaks, script, nil)
					target, seen = newTarget(t, f.options(way.speaks)), f.truth.TruthOf
				}
				p := planTo(t, target, load.Schedule{Users: users, Count: count}, 2)
				p.Wire = way.wire
				res := mustRun(t, p)
				again, late := 0, 0
				for r := range res.Log.All() {
					if r.Class == load.Reset && r.End-r.Sent >= int64(time.Second) {
						late++ // a busy machine let it wait until it is no longer sent again
					}
					if !r.Has(load.Resent) {
						continue
					}
					reused := r.Has(load.Reused) && r.Connect == 0 && r.TLS == 0
					opened := (way.speaks == tlsHTTP2 || way.speaks == plainH2) && !r.Has(load.Reused) // and others used it before
					if again++; !reused && !opened || r.FirstByte < r.Sent {
						t.Errorf("%+v", r)
					}
				}
				if again >= count {
					t.Errorf("%d requests were sent again", again)
				}
				if got, n := countClasses(res.Log), seen(truth.Filter{}).Requests; got[load.OK] != count-late || n != got[load.OK] {
					t.Errorf("%v %v, %d of them late; the server saw %d requests", got, res.Log.Details, late, n)
				}
			})
		}
	}
}

// What is sent again is sent once more, on a new connection, and only where no byte of an
// answer came.
func TestARequestIsSentAgainOnce(t *testing.T) {
	type want struct {
		class  load.Class
		resent bool
		asked  int64 // times that the server got the second request
	}
	for name, c := range map[string]struct {
		then  string // on the first connection, to the second request
		fresh string // on any other
		want  want
	}{
		"served the second time":       {"", twoTokensAnswer, want{load.OK, true, 2}},
		"not served the second time":   {"", "", want{load.Reset, true, 2}},
		"a byte of an answer came":     {"H", twoTokensAnswer, want{load.Truncated, false, 1}},
		"a head of an answer came":     {twoTokensAnswer[:60], twoTokensAnswer, want{load.Truncated, false, 1}},
		"a part of the new one's came": {"", twoTokensAnswer[:60], want{load.Truncated, true, 2}},
	} {
		for _, wire := range plainWires {
			t.Run(name+"/"+wireNames[wire], func(t *testing.T) {
				var conns, asked atomic.Int64
				url := rawServer(t, func(c1 net.Conn) {
					eachRequest(c1, func(n int) error {
						if n == 0 && conns.Add(1) == 1 {
							_, err := io.WriteString(c1, twoTokensAnswer)
							return err
						}
						asked.Add(1)
						answer := c.fresh
						if n > 0 {
							answer = c.then
						}
						_, _ = io.WriteString(c1, answer)
						return io.EOF
					})
				})
				p := planTo(t, newTarget(t, load.TargetOptions{URL: url}), load.Schedule{Users: 1, Count: 2}, 2)
				p.Wire = wire
				res := mustRun(t, p)
				for r := range res.Log.All() {
					if r.Seq == 0 {
						continue
					}
					if got := (want{r.Class, r.Has(load.Resent), asked.Load()}); got != c.want {
						t.Errorf("%+v, want %+v: %q", got, c.want, res.Log.Details[r.Detail])
					}
				}
			})
		}
	}
}

// A request that is sent again took as long as its user waited. A server that had it for
// long and then closed its connection has lost it, and the words tell what to try.
func TestARequestThatTheServerHadIsNotSentAgain(t *testing.T) {
	for late, want := range map[time.Duration]load.Class{900 * ms: load.OK, 1100 * ms: load.Reset} {
		t.Run(late.String(), func(t *testing.T) {
			script := truth.Script{Close: truth.Close{After: 1, Delay: late}}
			inVirtualTime(t, script, func(t *testing.T, h *truth.Handler, target *load.Target) {
				res := mustRun(t, planTo(t, target, load.Schedule{Users: 1, Count: 2}, 2))
				for r := range res.Log.All() {
					if r.Seq == 0 {
						continue
					}
					if wait := time.Duration(r.End - r.Sent); r.Class != want || r.Has(load.Resent) != (want == load.OK) || wait != late {
						t.Errorf("it took %v: %+v", wait, r)
					}
					if words := res.Log.Details[r.Detail]; want != load.OK && !strings.Contains(words, "--connection-reuse-strategy never") {
						t.Errorf("%q", words)
					}
				}
			})
		})
	}
}

// The probe finds a server that keeps no connection, and takes one that keeps some for
// what it is.
func TestProbeFindsAServerThatKeepsNoConnection(t *testing.T) {
	for name, c := range map[string]struct {
		how  truth.Close
		want bool
	}{
		"keeps them":            {truth.Close{}, false},
		"FIN after each answer": {truth.Close{After: 1}, true},
		"half-closed":           {truth.Close{After: 1, Half: true}, true},
		"RST after each answer": {truth.Close{After: 1, Reset: true}, true},
		"every second":          {truth.Close{After: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, truth.Script{Close: c.how})
			spec := workload.Spec{InputTokens: workload.Length{Mean: 64}, OutputTokens: workload.Length{Mean: 8}, Fields: workload.AllFields()}
			p, err := load.Examine(t.Context(), newTarget(t, load.TargetOptions{URL: srv.URL()}), spec, hang)
			if err != nil {
				t.Fatal(err)
			}
			if p.Closes != c.want {
				t.Errorf("closes %v, want %v", p.Closes, c.want)
			}
		})
	}
}
