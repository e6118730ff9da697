package judge

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// hand is a fleet made by hand: what each part says in each second. A worker's
// counters follow from its rates.
type hand struct {
	workers  int
	seconds  int
	cold     bool // no token was ever made before
	worker   func(s, w int) at
	frontend func(s int) *front
	gpu      func(s, g int) *spec.GPUSample
	node     func(s int) *spec.NodeSample
	sole     bool // the worker's page has no in_flight, as one of vLLM alone
}

// at is a worker in one second.
type at struct {
	tokens, running, waiting, inFlight, kv float64
	ended, failed, prompts                 float64
	aborted, preempted                     float64
	asleep                                 bool
	atEnd                                  bool // its tokens are counted when a request ends
	gap                                    string
}

// front is a frontend in one second.
type front struct {
	inFlight, tokens, served, failed float64
	outcomes                         map[string]float64
	gap                              string
}

func (h hand) series() []spec.Sample {
	var all []spec.Sample
	base := 1000.0
	if h.cold {
		base = 0
	}
	totals := make([]at, h.workers)
	var sums front
	kinds := map[string]float64{}
	for s := 1; s <= h.seconds; s++ {
		t := int64(s) * second
		for w := range h.workers {
			v := h.worker(s, w)
			sum := &totals[w]
			sum.tokens, sum.ended, sum.failed, sum.prompts = sum.tokens+v.tokens, sum.ended+v.ended, sum.failed+v.failed, sum.prompts+v.prompts
			sum.aborted, sum.preempted = sum.aborted+v.aborted, sum.preempted+v.preempted
			one := spec.Sample{T: t, Source: spec.SourceWorker, Name: fmt.Sprint(w), Instance: fmt.Sprintf("h%d:9090", w), Gap: v.gap}
			if v.gap == "" {
				one.Worker = &spec.WorkerSample{Running: &v.running, Waiting: &v.waiting, KVUsage: &v.kv, Generated: new(base + sum.tokens),
					PromptTokens: new(sum.prompts), GPU: fmt.Sprintf("GPU-%d", w)}
				one.Worker.Preemptions, one.Worker.Aborted, one.Worker.Asleep = new(sum.preempted), new(sum.aborted), new(0.0)
				if v.asleep {
					one.Worker.Asleep = new(1.0)
				}
				if v.atEnd {
					one.Worker.Generated, one.Worker.EndedTokens = nil, new(base)
				}
				if !h.sole {
					one.Worker.InFlight, one.Worker.Ended, one.Worker.Failed = &v.inFlight, new(sum.ended), new(sum.failed)
				}
			}
			all = append(all, one)
			if h.gpu != nil {
				g := spec.Sample{T: t, Source: spec.SourceGPU, Name: fmt.Sprintf("GPU-%d", w), GPU: h.gpu(s, w)}
				if g.GPU == nil {
					g.Gap = "no answer in 800ms"
				}
				all = append(all, g)
			}
		}
		if h.frontend != nil {
			if f := h.frontend(s); f != nil {
				sums.tokens, sums.served, sums.failed = sums.tokens+f.tokens, sums.served+f.served, sums.failed+f.failed
				one := spec.Sample{T: t, Source: spec.SourceFrontend, Name: "frontend", Gap: f.gap}
				if f.gap == "" {
					one.Frontend = &spec.FrontendSample{InFlight: &f.inFlight, Tokens: new(base + sums.tokens), Served: new(sums.served), Failed: new(sums.failed)}
					if f.outcomes != nil {
						one.Frontend.Outcomes = map[string]float64{}
						for kind, n := range f.outcomes {
							kinds[kind] += n
							one.Frontend.Outcomes[kind] = kinds[kind]
						}
					}
				}
				all = append(all, one)
			}
		}
		if h.node != nil {
			n := spec.Sample{T: t, Source: spec.SourceNode, Name: "node-0", Node: h.node(s)}
			if n.Node == nil {
				n.Gap = "status 500"
			}
			all = append(all, n)
		}
	}
	return all
}

// busy is a worker that does its share.
func busy(running float64) at {
	return at{tokens: 50 * running, running: running, inFlight: running, kv: 0.4, ended: running / 4, prompts: 64}
}

// told is what is off at the end of a series, each as "severity finding workers".
func told(p Picture) []string {
	lines := []string{}
	for _, s := range p.Symptoms {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Severity, s.Finding, strings.Join(s.Workers, ","))))
	}
	return lines
}

func atEnd(h hand) Picture {
	l := NewLive(time.Second)
	for _, s := range h.series() {
		l.Add(s)
	}
	return l.Picture(int64(h.seconds)*second + second/10)
}

// ruleCase is what a rule must say of a fleet at the end of its series: exactly
// this, with these words in it.
type ruleCase struct {
	fleet hand
	want  []string
	words []string
}

func testRule(t *testing.T, cases map[string]ruleCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := atEnd(c.fleet)
			if diff := cmp.Diff(append([]string{}, c.want...), told(p)); diff != "" {
				t.Errorf("%s%+v", diff, p.Symptoms)
			}
			for _, w := range c.words {
				if !slices.ContainsFunc(p.Symptoms, func(s Symptom) bool { return strings.Contains(s.Words, w) }) {
					t.Errorf("no %q in %+v", w, p.Symptoms)
				}
			}
		})
	}
}

// onlyOne makes the others busy and lets one worker be as it is told from a second
// on.
func onlyOne(who, from int, then at) func(s, w int) at {
	return func(s, w int) at {
		if w == who && s > from {
			return then
		}
		return busy(8)
	}
}

func TestAWorkerStandsStill(t *testing.T) {
	quiet := func(s, g int) *spec.GPUSample { return gpuAt(560, 0.95) }
	lone := func(then at) func(s, w int) at {
		return func(s, w int) at {
			if s > 20 {
				return then
			}
			return busy(2)
		}
	}
	testRule(t, map[string]ruleCase{
		"two seconds without a token": {hand{workers: 4, seconds: 22, worker: onlyOne(3, 20, at{running: 8, inFlight: 8})},
			[]string{"fail worker/stall 3"}, []string{"worker 3 makes no tokens for 2 s with 8 running, its peers 400 tokens/s each"}},
		"one second is too soon": {hand{workers: 4, seconds: 21, worker: onlyOne(3, 20, at{running: 8, inFlight: 8})}, nil, nil},
		"14 % of the peers": {hand{workers: 4, seconds: 24, worker: onlyOne(3, 20, at{tokens: 56, running: 8, inFlight: 8})},
			[]string{"fail worker/stall 3"}, []string{"crawls"}},
		"16 % is not a stall":                           {hand{workers: 4, seconds: 24, worker: onlyOne(3, 20, at{tokens: 64, running: 8, inFlight: 8})}, nil, nil},
		"its runtime says that it has nothing: routing": {hand{workers: 4, seconds: 26, worker: onlyOne(3, 20, at{})}, nil, nil},
		"its gauge reads 0 and its runtime knows better": {hand{workers: 4, seconds: 23, worker: onlyOne(3, 20, at{inFlight: 8})},
			[]string{"fail worker/stall 3"}, []string{"8 in flight"}},
		"its gauge reads 0 and only the frontend knows better": {hand{workers: 4, seconds: 26, sole: true, worker: onlyOne(3, 20, at{}),
			frontend: func(s int) *front { return &front{inFlight: 32, tokens: 1200, served: 8} }},
			[]string{"fail worker/stall 3"}, []string{"8 under way are on no worker"}},
		"the frontend has no more than the others own up to": {hand{workers: 4, seconds: 26, sole: true, worker: onlyOne(3, 20, at{}),
			frontend: func(s int) *front { return &front{inFlight: 24, tokens: 1200, served: 8} }}, nil, nil},
		"one request may be in its prefill": {hand{workers: 4, seconds: 24, worker: onlyOne(3, 20, at{running: 1, inFlight: 1})}, nil, nil},
		"but not for ever":                  {hand{workers: 4, seconds: 26, worker: onlyOne(3, 20, at{running: 1, inFlight: 1})}, []string{"fail worker/stall 3"}, nil},
		"unless its GPU works":              {hand{workers: 4, seconds: 30, gpu: quiet, worker: onlyOne(3, 20, at{running: 1, inFlight: 1})}, nil, nil},
		"nobody to compare with, 5 s": {hand{workers: 1, seconds: 25, worker: lone(at{running: 2, inFlight: 2})},
			[]string{"fail worker/stall 0"}, []string{"makes no tokens for 5 s with 2 running"}},
		"nobody to compare with, 4 s":       {hand{workers: 1, seconds: 24, worker: lone(at{running: 2, inFlight: 2})}, nil, nil},
		"nobody to compare with, and idle":  {hand{workers: 1, seconds: 60, worker: lone(at{})}, nil, nil},
		"its counter began anew: a restart": {hand{workers: 4, seconds: 21, worker: onlyOne(3, 20, at{tokens: -6000, running: 8, inFlight: 8})}, []string{"note worker/absent 3"}, nil},
		"who hoards and crawls, peers dry": {hand{workers: 4, seconds: 40, worker: func(s, w int) at {
			if s > 20 && w == 3 {
				return at{tokens: 60, running: 1022, waiting: 151, inFlight: 1173}
			}
			if s > 20 {
				return busy(1.2)
			}
			return busy(8)
		}}, []string{"fail worker/stall 3"}, []string{"1022 running and 151 waiting"}},
		"far more requests at full speed: loaded": {hand{workers: 4, seconds: 40, worker: func(s, w int) at {
			if w == 3 {
				return at{tokens: 4000, running: 300, inFlight: 300}
			}
			return busy(2)
		}}, nil, nil},
	})
}

func gpuAt(power, use float64, reasons ...string) *spec.GPUSample {
	reasons = append([]string{}, reasons...)
	return &spec.GPUSample{PowerW: &power, Utilization: &use, Throttle: &reasons, XID: new(0.0), DoubleBit: new(0.0), RemapFailure: new(0.0)}
}

func TestAStallSaysWhatItsGPUDoes(t *testing.T) {
	beside := func(power, use float64, reasons ...string) hand {
		return hand{workers: 4, seconds: 25, worker: onlyOne(3, 20, at{running: 8, inFlight: 8}), gpu: func(s, g int) *spec.GPUSample {
			if s > 20 && g == 3 {
				return gpuAt(power, use, reasons...)
			}
			return gpuAt(560, 0.95, "power_cap")
		}}
	}
	unmeasured := beside(131, 0.03)
	was := unmeasured.gpu
	unmeasured.gpu = func(s, g int) *spec.GPUSample {
		v := was(s, g)
		v.Throttle = nil
		return v
	}
	stalled := []string{"fail worker/stall 3"}
	testRule(t, map[string]ruleCase{
		"starved":                 {beside(131, 0.03), stalled, []string{"its GPU: 131 W at 3 % use, peers 560 W, no throttle: starved, not broken"}},
		"hung":                    {beside(140, 1), stalled, []string{"140 W at 100 % use, peers 560 W, no throttle: hung in a kernel?"}},
		"working":                 {beside(540, 0.9), stalled, []string{"540 W at 90 % use, peers 560 W, no throttle"}},
		"no bits, no clean bits":  {unmeasured, stalled, []string{"131 W at 3 % use, peers 560 W: starved (throttling is not measured)"}},
		"a brake is not starving": {beside(131, 0.03, "hw_power_brake"), []string{"fail worker/stall 3", "fail gpu/throttle 3"}, []string{"throttled (hw_power_brake)"}},
	})
}

func TestAWorkerAdmitsNothing(t *testing.T) {
	offload := func(kv, running float64) func(s, w int) at {
		return func(s, w int) at {
			if s > 20 {
				return at{tokens: 20, running: running, waiting: 5, inFlight: 6, kv: kv}
			}
			return busy(8)
		}
	}
	testRule(t, map[string]ruleCase{
		"three wait, none runs, none is taken up": {hand{workers: 4, seconds: 24, worker: onlyOne(2, 20, at{waiting: 3, inFlight: 3})},
			[]string{"fail worker/stall 2"}, []string{"worker 2 admits nothing: 3 waiting, none running, KV 0 % used"}},
		"tokens of the one that runs flow": {hand{workers: 1, seconds: 35, worker: offload(0.64, 1)},
			[]string{"note worker/stall 0"}, []string{"has taken up no prompt for 15 s: 5 waiting, KV 64 % used, 1 running of the 8"}},
		"and long enough to act":        {hand{workers: 1, seconds: 55, worker: offload(0.64, 1)}, []string{"fail worker/stall 0"}, nil},
		"the KV cache is full":          {hand{workers: 1, seconds: 55, worker: offload(0.95, 1)}, nil, nil},
		"it runs as many as ever: busy": {hand{workers: 1, seconds: 55, worker: offload(0.64, 8)}, nil, nil},
	})
}

func TestAWorkerHasMadeNoTokenYet(t *testing.T) {
	cold := func(s, w int) at {
		if w == 1 {
			return at{running: 2, inFlight: 2}
		}
		return busy(8)
	}
	fresh := func(seconds int, worker func(s, w int) at) hand {
		return hand{workers: 2, seconds: seconds, worker: worker}
	}
	testRule(t, map[string]ruleCase{
		"it is cold":          {neverBefore(fresh(20, cold)), []string{"note start/cold 1"}, []string{"has made no token yet, 19 s after its first request"}},
		"too long for that":   {neverBefore(fresh(310, cold)), []string{"fail start/timeout 1"}, []string{"5 min"}},
		"it has none to make": {neverBefore(fresh(60, func(s, w int) at { return at{} })), nil, nil},
	})
}

// neverBefore lets the counters begin at nothing.
func neverBefore(h hand) hand {
	h.cold = true
	return h
}

func TestAWorkerDoesNotAnswer(t *testing.T) {
	gap := func(why string) at { return at{gap: why} }
	all := func(why string, from int, of int) func(s, w int) at {
		return func(s, w int) at {
			if s > from && w < of {
				return gap(why)
			}
			return busy(8)
		}
	}
	testRule(t, map[string]ruleCase{
		"once is a lost sample": {hand{workers: 4, seconds: 21, worker: onlyOne(3, 20, gap("no answer in 800ms"))}, nil, nil},
		"twice, and it had work": {hand{workers: 4, seconds: 22, worker: onlyOne(3, 20, gap("no answer in 800ms"))},
			[]string{"fail worker/stall 3"}, []string{"worker 3 has not answered for 2 s (no answer in 800ms): unknown, and suspect: it had 8 running when last seen"}},
		"it had none": {hand{workers: 4, seconds: 30, worker: func(s, w int) at {
			switch {
			case w == 3 && s > 20:
				return gap("no answer in 800ms")
			case w == 3:
				return at{}
			}
			return busy(1)
		}}, []string{"note telemetry/gap 3"}, []string{"unknown, and suspect"}},
		"nobody is there": {hand{workers: 4, seconds: 22, worker: onlyOne(3, 20, gap("connection refused"))},
			[]string{"fail worker/absent 3"}, []string{"it is not there; it had 8 running when last seen"}},
		"nobody ever was": {hand{workers: 4, seconds: 20, worker: onlyOne(3, 0, gap("connection refused"))},
			[]string{"fail worker/absent 3"}, []string{"has never answered"}},
		"it answers something else": {hand{workers: 4, seconds: 30, worker: onlyOne(3, 20, gap("status 500"))},
			[]string{"note telemetry/gap 3"}, []string{"has told nothing for 10 s (status 500): unknown"}},
		"so many at once is the watcher": {hand{workers: 4, seconds: 24, worker: all("no answer in 800ms", 20, 3)},
			[]string{"note telemetry/gap 0,1,2"}, []string{"3 of 4 workers"}},
		"half of them are not": {hand{workers: 4, seconds: 24, worker: all("no answer in 800ms", 20, 2)},
			[]string{"fail worker/stall 0", "fail worker/stall 1"}, nil},
	})
}

func TestAWorkerIsSlow(t *testing.T) {
	ratio := func(share, running float64) func(s, w int) at {
		return func(s, w int) at {
			if w == 3 {
				return at{tokens: 50 * share * running, running: running, inFlight: running}
			}
			return busy(running)
		}
	}
	testRule(t, map[string]ruleCase{
		"60 % of the peers' tokens for each request": {hand{workers: 4, seconds: 20, worker: ratio(0.6, 128)},
			[]string{"fail worker/slow 3"}, []string{"30 tokens/s for each of 128 running requests over 8 s, its peers 50 (60 %)"}},
		"75 % is not slow": {hand{workers: 4, seconds: 120, worker: ratio(0.75, 128)}, nil, nil},
		"7 s are too few":  {hand{workers: 4, seconds: 7, worker: ratio(0.6, 128)}, nil, nil},
		"10 times slow under least-loaded: as many requests": {hand{workers: 3, seconds: 20, worker: func(s, w int) at {
			if w == 2 {
				return at{tokens: 136, running: 8, inFlight: 8}
			}
			return at{tokens: 1333, running: 8, inFlight: 8}
		}}, []string{"fail worker/slow 2"}, []string{"17 tokens/s for each of 8 running requests"}},
		"10 times slow under round-robin: it hoards": {hand{workers: 3, seconds: 20, worker: func(s, w int) at {
			if w == 2 {
				return at{tokens: 340, running: 20, inFlight: 20}
			}
			return at{tokens: 333, running: 2, inFlight: 2}
		}}, []string{"fail worker/slow 2"}, []string{"it hoards requests, its peers have 2"}},
		"with few requests chance is greater": {hand{workers: 4, seconds: 20, worker: ratio(0.5, 2)}, nil, nil},
		"until it has been so for long":       {hand{workers: 4, seconds: 60, worker: ratio(0.5, 2)}, []string{"fail worker/slow 3"}, []string{"over 30 s"}},
		"more requests, and more tokens for it": {hand{workers: 4, seconds: 20, worker: func(s, w int) at {
			if w == 3 {
				return at{tokens: 9000, running: 303, inFlight: 303}
			}
			return busy(60)
		}}, nil, nil},
		"a stall that has ended does not make it slow": {hand{workers: 4, seconds: 31, worker: func(s, w int) at {
			if w == 3 && s > 20 && s <= 30 {
				return at{running: 128, inFlight: 128}
			}
			return busy(128)
		}}, nil, nil},
	})
}

func TestAWorkerGetsNothingToDo(t *testing.T) {
	testRule(t, map[string]ruleCase{
		"it left discovery": {hand{workers: 3, seconds: 40, worker: onlyOne(2, 20, at{})},
			[]string{"note worker/absent 2"}, []string{"nothing to do for 20 s while its peers run 8 each"}},
		"it is shunned for some seconds": {hand{workers: 3, seconds: 30, worker: onlyOne(2, 20, at{})}, nil, nil},
		"nobody has much to do": {hand{workers: 3, seconds: 40, worker: func(s, w int) at {
			if w == 2 {
				return at{}
			}
			return busy(1)
		}}, nil, nil},
		"nothing but its gauges tells": {hand{workers: 3, seconds: 40, sole: true, worker: onlyOne(2, 20, at{})},
			[]string{"note worker/stall 2"}, []string{"wedged with a gauge that reads 0"}},
	})
}

func TestAWorkerFailsWhatItIsSent(t *testing.T) {
	hole := func(failed, ended, peers float64) func(s, w int) at {
		return func(s, w int) at {
			v := busy(8)
			if s > 20 {
				v.failed = peers
			}
			if w == 2 && s > 20 {
				v = at{ended: ended, failed: failed}
			}
			return v
		}
	}
	testRule(t, map[string]ruleCase{
		"all of many":            {hand{workers: 3, seconds: 25, worker: hole(100, 100, 0)}, []string{"fail worker/black-hole 2"}, []string{"failed 500 of the 500"}},
		"a third":                {hand{workers: 3, seconds: 25, worker: hole(33, 100, 0)}, nil, nil},
		"two in all":             {hand{workers: 3, seconds: 25, worker: hole(0.4, 0.4, 0)}, nil, nil},
		"its peers fail as well": {hand{workers: 3, seconds: 25, worker: hole(2, 2, 1.5)}, nil, nil},
		"only the frontend counts": {hand{workers: 3, seconds: 22, sole: true, worker: onlyOne(2, 20, at{}), frontend: func(s int) *front {
			if s > 20 {
				return &front{inFlight: 24, tokens: 800, served: 4, failed: 200}
			}
			return &front{inFlight: 24, tokens: 1200, served: 6}
		}}, []string{"fail worker/black-hole 2", "fail serving/errors"}, []string{"worker 2 alone stood empty"}},
		"the frontend fails, and nobody stands empty": {hand{workers: 3, seconds: 22, sole: true, worker: onlyOne(2, 20, busy(8)), frontend: func(s int) *front {
			if s > 20 {
				return &front{inFlight: 24, tokens: 800, served: 4, failed: 200}
			}
			return &front{inFlight: 24, tokens: 1200, served: 6}
		}}, []string{"fail serving/errors"}, nil},
	})
}

// What a load engine breaks off at its end is no failure of a server.
func TestAbortedRequestsAreNoBlackHole(t *testing.T) {
	broken := func(aborted float64) func(s, w int) at {
		return func(s, w int) at {
			if s > 20 {
				return at{ended: 8, failed: 8, aborted: aborted}
			}
			return busy(8)
		}
	}
	testRule(t, map[string]ruleCase{
		"its clients went away":      {hand{workers: 1, seconds: 23, worker: broken(8)}, nil, nil},
		"half of them, and it is so": {hand{workers: 1, seconds: 23, worker: broken(2)}, []string{"fail worker/black-hole 0"}, nil},
	})
}

func TestAWorkerRunsOutOfKVCache(t *testing.T) {
	full := func(preempted, kv float64) func(s, w int) at {
		return func(s, w int) at {
			a := busy(8)
			if w == 1 {
				a.preempted, a.kv = preempted, kv
			}
			return a
		}
	}
	testRule(t, map[string]ruleCase{
		"it puts requests back": {hand{workers: 2, seconds: 30, worker: full(3.6, 1)}, []string{"note load/kv-full 1"},
			[]string{"worker 1 put requests back 36 times in the last 10 s for want of KV cache, 100 % of which was used: with 8 running"}},
		"a full cache alone is load":  {hand{workers: 2, seconds: 30, worker: full(0, 1)}, nil, nil},
		"so is a cache that has room": {hand{workers: 2, seconds: 30, worker: full(3.6, 0.8)}, nil, nil},
		"once is chance": {hand{workers: 2, seconds: 30, worker: func(s, w int) at {
			a := full(0, 1)(s, w)
			a.preempted = float64(s / 25 % 2 * (26 - s) / 1 * w)
			if s != 25 {
				a.preempted = 0
			}
			return a
		}}, nil, nil},
		"it was so 20 s ago, and is not": {hand{workers: 2, seconds: 60, worker: func(s, w int) at {
			a := full(3.6, 1)(s, w)
			if s > 40 {
				a.preempted = 0
			}
			return a
		}}, nil, nil},
	})
}

func TestAWorkerThatSleepsIsSaidToSleep(t *testing.T) {
	testRule(t, map[string]ruleCase{
		"with requests": {hand{workers: 3, seconds: 30, worker: onlyOne(2, 20, at{waiting: 8, inFlight: 8, asleep: true})},
			[]string{"fail worker/stall 2"}, []string{"worker 2 is asleep with 0 running and 8 waiting: no tokens for 10 s, and none until POST /wake_up"}},
		"without": {hand{workers: 3, seconds: 40, worker: onlyOne(2, 20, at{asleep: true})},
			[]string{"note worker/absent 2"}, []string{"worker 2 is asleep, and has had nothing to do for"}},
		"before its first token": {hand{workers: 1, seconds: 20, cold: true, worker: func(s, w int) at { return at{waiting: 2, inFlight: 2, asleep: true} }},
			[]string{"note start/cold 0"}, []string{"worker 0 is asleep with 0 running and 2 waiting"}},
	})
}

// Who counts tokens when a request ends may make many until then.
func TestTokensThatAreCountedAtTheEndAreNoSignOfLife(t *testing.T) {
	long := func(s, w int) at { return at{running: 2, inFlight: 2, kv: 0.4, atEnd: true} }
	testRule(t, map[string]ruleCase{
		"a long request is no stall":         {hand{workers: 1, seconds: 60, worker: long}, nil, nil},
		"nor among peers":                    {hand{workers: 3, seconds: 60, worker: long}, nil, nil},
		"nor is the first of all a cold one": {hand{workers: 1, seconds: 60, cold: true, worker: long}, nil, nil},
	})
}

func TestTheFleetStandsStill(t *testing.T) {
	freeze := func(seconds, from int, left float64) hand {
		return hand{workers: 3, seconds: seconds,
			worker: func(s, w int) at {
				if s > from {
					return at{}
				}
				return busy(8)
			},
			frontend: func(s int) *front {
				if s > from {
					return &front{inFlight: left}
				}
				return &front{inFlight: 24, tokens: 1200, served: 6}
			}}
	}
	testRule(t, map[string]ruleCase{
		"the frontend freezes": {freeze(22, 20, 24), []string{"fail fleet/stall"}, []string{"for 2 s with 24 requests under way: 0 tokens/s, 1200 in a good second before"}},
		"one second":           {freeze(21, 20, 24), nil, nil},
		"the load has ended":   {freeze(24, 20, 0), nil, nil},
		"its tail":             {freeze(22, 20, 4), nil, nil},
		"for long":             {freeze(200, 20, 24), []string{"fail fleet/stall"}, []string{"for 3 min", "whose gauges read 0"}},
		"every worker at once": {hand{workers: 3, seconds: 23, worker: func(s, w int) at {
			if s > 20 {
				return at{tokens: 8, running: 8, inFlight: 8}
			}
			return busy(8)
		}}, []string{"fail fleet/stall"}, []string{"24 tokens/s, 1200 in a good second before"}},
		"watched from its middle": {hand{workers: 3, seconds: 10, worker: func(s, w int) at { return at{running: 8, inFlight: 8} }},
			[]string{"fail fleet/stall"}, []string{"no worker makes a token for 9 s with 24 requests under way"}},
		"a ramp": {hand{workers: 3, seconds: 14, worker: func(s, w int) at {
			if s < 12 {
				return at{}
			}
			return at{tokens: 1, running: 8, inFlight: 8}
		}}, nil, nil},
		"less to do, and it is done": {hand{workers: 3, seconds: 40, worker: func(s, w int) at {
			if s > 30 {
				return busy(1)
			}
			return busy(16)
		}}, nil, nil},
		"a long queue while tokens flow": {hand{workers: 3, seconds: 60, worker: func(s, w int) at {
			v := busy(32)
			v.waiting, v.inFlight, v.kv = 10*float64(s), 32+10*float64(s), 0.99
			return v
		}}, nil, nil},
	})
}

func TestRequestsFail(t *testing.T) {
	fails := func(failed float64, outcomes map[string]float64) hand {
		return hand{workers: 2, seconds: 30, worker: func(s, w int) at { return busy(8) }, frontend: func(s int) *front {
			return &front{inFlight: 16, tokens: 800, served: outcomes["success"], failed: failed, outcomes: outcomes}
		}}
	}
	testRule(t, map[string]ruleCase{
		"of several types": {fails(3, map[string]float64{"success": 50, "internal": 2, "overload": 1}), []string{"fail serving/errors"},
			[]string{"failed 30 of 530 requests in the last 10 s: 20 internal and 10 overload"}},
		"one in a hundred":         {fails(0.5, map[string]float64{"success": 49.5, "internal": 0.5}), nil, nil},
		"two in all":               {fails(0.2, map[string]float64{"success": 1, "internal": 0.2}), nil, nil},
		"clients that leave":       {fails(5, map[string]float64{"success": 50, "cancelled": 4, "validation": 1}), nil, nil},
		"a model that nobody has":  {fails(5, map[string]float64{"success": 50, "not_found": 5}), nil, nil},
		"no model at all is found": {fails(5, map[string]float64{"not_found": 5}), []string{"fail serving/errors"}, []string{"50 not_found"}},
	})
}

func TestNoTokensAreServed(t *testing.T) {
	stuck := func(seconds int, f front) hand {
		return hand{workers: 0, seconds: seconds, worker: nil, frontend: func(s int) *front {
			if s < 3 {
				return &front{inFlight: 0}
			}
			return &f
		}}
	}
	testRule(t, map[string]ruleCase{
		"and no worker can be asked": {stuck(14, front{inFlight: 3}), []string{"fail serving/no-tokens"}, []string{"no token on for 12 s; no worker tells why"}},
		"too soon":                   {stuck(8, front{inFlight: 3}), nil, nil},
		"nobody asks":                {stuck(60, front{}), nil, nil},
		"from the start: cold":       {neverBefore(stuck(14, front{inFlight: 3})), []string{"note serving/no-tokens"}, []string{"no token yet"}},
		"answers without content": {neverBefore(stuck(14, front{inFlight: 3, served: 5})), []string{"fail serving/no-tokens"},
			[]string{"served 50 requests in the last 10 s, and not one token"}},
		"the frontend is gone": {stuck(20, front{gap: "connection refused"}), []string{"fail serving/no-tokens"}, []string{"does not answer (connection refused)"}},
		"its page is slow":     {stuck(20, front{gap: "no answer in 800ms"}), []string{"note telemetry/gap"}, []string{"unknown, and suspect"}},
	})
}

func TestAGPUIsBroken(t *testing.T) {
	broken := func(change func(s int, g *spec.GPUSample)) hand {
		return hand{workers: 2, seconds: 20, worker: func(s, w int) at { return busy(8) }, gpu: func(s, g int) *spec.GPUSample {
			v := gpuAt(560, 0.95)
			if g == 1 {
				change(s, v)
			}
			return v
		}}
	}
	xid := func(x float64) hand { return broken(func(s int, g *spec.GPUSample) { g.XID = &x }) }
	fail := []string{"fail gpu/error 1"}
	testRule(t, map[string]ruleCase{
		"off the bus":                   {xid(79), fail, []string{"GPU 1 has XID 79 (the GPU has fallen off the bus); worker 1 is on it"}},
		"an application's fault":        {xid(13), nil, nil},
		"a row was remapped: no action": {xid(63), nil, nil},
		"it came and another hid it": {broken(func(s int, g *spec.GPUSample) {
			if g.XID = new(45.0); s == 10 {
				g.XID = new(95.0)
			}
		}), fail, []string{"XID 95"}},
		"double-bit errors that grow": {broken(func(s int, g *spec.GPUSample) {
			if s > 10 {
				g.DoubleBit = new(2.0)
			}
		}), fail, []string{"2 new double-bit memory errors"}},
		"double-bit errors of before": {broken(func(s int, g *spec.GPUSample) { g.DoubleBit = new(2.0) }), []string{"note gpu/error 1"}, []string{"from before this watch"}},
		"no row left":                 {broken(func(s int, g *spec.GPUSample) { g.RemapFailure = new(1.0) }), fail, []string{"could not be remapped"}},
		"not measured is not broken":  {broken(func(s int, g *spec.GPUSample) { g.XID, g.DoubleBit, g.RemapFailure = nil, nil, nil }), nil, nil},
	})
}

func TestAGPUThrottles(t *testing.T) {
	hot := func(reason string, every int) hand {
		return hand{workers: 2, seconds: 100, worker: func(s, w int) at { return busy(8) }, gpu: func(s, g int) *spec.GPUSample {
			v := gpuAt(560, 0.95)
			v.TemperatureC = new(88.0)
			if s%every == 0 {
				v.Throttle = &[]string{"power_cap", reason}
			}
			return v
		}}
	}
	both := []string{"fail gpu/throttle 0,1"}
	testRule(t, map[string]ruleCase{
		"by heat, now and then":     {hot("hw_thermal", 10), both, []string{"GPUs 0 and 1 throttle (hw_thermal) in 10 % of the last 100 samples, at up to 88 °C"}},
		"by its supply":             {hot("hw_power_brake", 10), both, nil},
		"by software, for heat":     {hot("sw_thermal", 10), both, nil},
		"in fewer than a twentieth": {hot("hw_thermal", 25), nil, nil},
		"a power cap is normal":     {hot("power_cap", 1), nil, nil},
	})
}

func TestANodeIsShortOfCPU(t *testing.T) {
	under := func(before, now float64) hand {
		return hand{workers: 1, seconds: 40, worker: func(s, w int) at { return busy(8) }, node: func(s int) *spec.NodeSample {
			if s > 30 {
				return &spec.NodeSample{CPUPressure: &now, Load1: new(70.0)}
			}
			return &spec.NodeSample{CPUPressure: &before}
		}}
	}
	testRule(t, map[string]ruleCase{
		"for ten seconds": {under(0, 0.3), []string{"note fleet/slow-host"}, []string{"node node-0 is short of CPU: some task waited 30 % of the last 10 s, load 70"}},
		"it was, before":  {under(0.9, 0.1), nil, nil},
	})
}

func TestASourceIsSilent(t *testing.T) {
	testRule(t, map[string]ruleCase{
		"an exporter of two GPUs": {hand{workers: 2, seconds: 23, worker: func(s, w int) at { return busy(8) }, gpu: func(s, g int) *spec.GPUSample {
			if s > 20 {
				return nil
			}
			return gpuAt(560, 0.9)
		}}, []string{"note telemetry/gap"}, []string{"nothing is known of GPUs 0 and 1 for 3 s (no answer in 800ms)"}},
		"twice is not yet": {hand{workers: 2, seconds: 22, worker: func(s, w int) at { return busy(8) }, gpu: func(s, g int) *spec.GPUSample {
			if s > 20 {
				return nil
			}
			return gpuAt(560, 0.9)
		}}, nil, nil},
		"a node": {hand{workers: 1, seconds: 23, worker: func(s, w int) at { return busy(8) }, node: func(s int) *spec.NodeSample {
			if s > 20 {
				return nil
			}
			return &spec.NodeSample{CPUPressure: new(0.0)}
		}}, []string{"note telemetry/gap"}, []string{"node node-0 for 3 s (status 500)"}},
	})
}

// Every row of the published incidents, as the pages would have shown it.
func TestPublishedIncidentsAreSeen(t *testing.T) {
	idleThenHung := func(s, w int) at {
		switch {
		case s <= 20:
			return busy(4)
		case s <= 80:
			return at{}
		}
		return at{running: 1, inFlight: 1}
	}
	empty := hand{workers: 2, seconds: 30, worker: func(s, w int) at { return at{} }, frontend: func(s int) *front {
		return &front{failed: 2, outcomes: map[string]float64{"not_found": 2}}
	}}
	uncounted := empty
	uncounted.frontend = func(s int) *front { return &front{} }
	testRule(t, map[string]ruleCase{
		"vLLM 46811: wedged, the gauge reads 0, hours": {hand{workers: 4, seconds: 400, worker: onlyOne(3, 20, at{inFlight: 6})},
			[]string{"fail worker/stall 3"}, []string{"makes no tokens for 6 min"}},
		"vLLM 46811 without a runtime that counts": {hand{workers: 4, seconds: 400, sole: true, worker: onlyOne(3, 20, at{}),
			frontend: func(s int) *front { return &front{inFlight: 32, tokens: 1200, served: 8} }}, []string{"fail worker/stall 3"}, nil},
		"vLLM 39863: the engine died, the API lives": {hand{workers: 1, seconds: 30, worker: onlyOne(0, 20, at{waiting: 3, inFlight: 3})},
			[]string{"fail worker/stall 0"}, []string{"3 waiting, none running, KV 0 % used"}},
		"Fastllm-proxy 19: a deadlock": {hand{workers: 1, seconds: 30, worker: onlyOne(0, 20, at{running: 2, inFlight: 2})},
			[]string{"fail worker/stall 0"}, []string{"with 2 running"}},
		"cluster 4593, LLMKube 1624: a slow KV offload": {hand{workers: 1, seconds: 60, worker: onlyOne(0, 20, at{tokens: 5, running: 1, waiting: 5, inFlight: 6, kv: 0.64})},
			[]string{"fail worker/stall 0"}, []string{"5 waiting, KV 64 % used"}},
		"the same, with no token either": {hand{workers: 1, seconds: 30, worker: onlyOne(0, 20, at{running: 1, waiting: 5, inFlight: 6, kv: 0.64})},
			[]string{"fail worker/stall 0"}, []string{"1 running and 5 waiting"}},
		"vLLM 51921: for ever, after a minute idle": {hand{workers: 1, seconds: 90, worker: idleThenHung}, []string{"fail worker/stall 0"}, nil},
		"gpustack 3189: busy is not down": {hand{workers: 2, seconds: 90, worker: func(s, w int) at {
			return at{tokens: 1600, running: 32, waiting: 480, inFlight: 512, kv: 0.5, ended: 10, prompts: 1280}
		}, frontend: func(s int) *front { return &front{inFlight: 1024, tokens: 3200, served: 20} }}, nil, nil},
		"AICR 1197: 1022 and 151 on one of eight": {hand{workers: 8, seconds: 30, worker: func(s, w int) at {
			switch {
			case s > 20 && w == 2:
				return at{tokens: 640, running: 1022, waiting: 151, inFlight: 1173}
			case s > 20:
				return busy(125)
			}
			return busy(256)
		}, gpu: func(s, g int) *spec.GPUSample {
			if s > 20 && g == 2 {
				return gpuAt(130, 0.03)
			}
			return gpuAt(600, 0.95, "power_cap")
		}}, []string{"fail worker/stall 2"}, []string{"1022 running and 151 waiting", "starved, not broken"}},
		"Dynamo 9200, 11178: an empty model list, counted": {empty, []string{"fail serving/errors"}, []string{"not_found"}},
		// A 404 without any worker is not in Dynamo's counters: no page shows it.
		"the same, as Dynamo does not count it": {uncounted, nil, nil},
	})
}

func TestAPictureTellsWhatIsKnown(t *testing.T) {
	h := hand{workers: 3, seconds: 40, worker: func(s, w int) at {
		if w == 2 && s > 38 {
			return at{gap: "no answer in 800ms"}
		}
		return busy(float64(4 * (w + 1)))
	}, gpu: func(s, g int) *spec.GPUSample { return gpuAt(500, 0.9) }, frontend: func(s int) *front {
		return &front{inFlight: 24, tokens: 600, served: 3, failed: 0, outcomes: map[string]float64{"success": 3}}
	}, node: func(s int) *spec.NodeSample { return &spec.NodeSample{CPUPressure: new(0.1)} }}
	p := atEnd(h)
	if got := []string{p.Workers[0].Name, p.Workers[1].Name, p.Workers[2].Name}; !slices.Equal(got, []string{"2", "0", "1"}) {
		t.Errorf("not the worst first, then by name: %v", got)
	}
	silent := p.Workers[0]
	if silent.Gap != "no answer in 800ms" || math.Abs(silent.GapS-2.1) > 1e-9 || silent.TokensPerS != nil || silent.Running != nil || silent.FairShare != nil {
		t.Errorf("who does not answer has values: %+v", silent)
	}
	w := p.Workers[1]
	if *w.TokensPerS != 200 || *w.PerRequest != 50 || math.Abs(*w.FairShare-200.0/300) > 1e-12 || w.GPU != "GPU-0" || w.Gap != "" {
		t.Errorf("%+v", w)
	}
	if n := len(w.History); n != 30 || w.History[n-1] != 200 || !math.IsNaN(silent.History[n-1]) || silent.History[n-3] != 600 {
		t.Errorf("%v %v", w.History, silent.History)
	}
	if g := p.GPUs[0]; g.Worker != "2" || len(g.Symptoms) != 1 || *g.PowerW != 500 || *g.Throttle == nil || g.SMClockMHz != nil || g.History[29] != 500 {
		t.Errorf("%+v", g)
	}
	if f := p.Frontends[0]; *f.ServedPerS != 3 || *f.TokensPerS != 600 || f.OutcomesPerS["success"] != 3 || f.Queued != nil {
		t.Errorf("%+v", f)
	}
	if n := p.Nodes[0]; *n.CPUPressure != 0.1 || n.Load1 != nil {
		t.Errorf("%+v", n)
	}
}

func TestReasonsHoldUntilTheyAreToldAnew(t *testing.T) {
	l := NewLive(time.Second)
	one := func(s int64, notMeasured, derived map[string]string) {
		l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "a", Worker: &spec.WorkerSample{}, NotMeasured: notMeasured, Derived: derived})
	}
	one(1, map[string]string{"kv_usage": "absent"}, nil)
	one(2, nil, nil)
	if got := l.Picture(2 * second).Workers[0]; got.NotMeasured["kv_usage"] != "absent" {
		t.Errorf("forgotten: %+v", got)
	}
	one(3, nil, map[string]string{"generated_tokens": "counted"})
	if got := l.Picture(3 * second).Workers[0]; got.NotMeasured != nil || got.Derived["generated_tokens"] != "counted" {
		t.Errorf("not replaced: %+v", got)
	}
}

func TestAWorkerAndItsGPUAreJoinedByPod(t *testing.T) {
	l := NewLive(time.Second)
	l.Add(spec.Sample{T: 1, Source: spec.SourceGPU, Name: "GPU-x", GPU: &spec.GPUSample{Pod: "w-0", Index: "3", Node: "n"}})
	l.Add(spec.Sample{T: 1, Source: spec.SourceWorker, Name: "a", Worker: &spec.WorkerSample{Pod: "w-0"}})
	l.Add(spec.Sample{T: 1, Source: spec.SourceWorker, Name: "b", Worker: &spec.WorkerSample{Pod: "w-1"}})
	p := l.Picture(2)
	if p.Workers[0].GPU != "GPU-x" || p.GPUs[0].Worker != "a" || p.Workers[1].GPU != "" {
		t.Errorf("%+v", p)
	}
	l.Add(spec.Sample{T: 2, Source: spec.SourceGPU, Name: "GPU-y", GPU: &spec.GPUSample{Pod: "w-0"}})
	if got := l.Picture(3).Workers[0].GPU; got != "GPU-x, GPU-y" {
		t.Errorf("a worker alone in a pod with two GPUs holds %s", got)
	}
	l.Add(spec.Sample{T: 3, Source: spec.SourceWorker, Name: "c", Worker: &spec.WorkerSample{Pod: "w-0"}})
	if p := l.Picture(4); p.Workers[0].GPU != "" || p.Workers[2].GPU != "" {
		t.Errorf("two workers in a pod with two GPUs: which is whose is guessed to be %s, %s", p.Workers[0].GPU, p.Workers[2].GPU)
	}
}

func TestAGapThatKnowsOnlyWhereItAsked(t *testing.T) {
	l := NewLive(time.Second)
	gap := func(s int64) {
		l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: "h:9090", Instance: "h:9090", Gap: "connection refused"})
	}
	gap(1)
	if got := l.Picture(second).Workers; len(got) != 1 || got[0].Name != "h:9090" {
		t.Errorf("%+v", got)
	}
	good := func(s int64, name string) {
		l.Add(spec.Sample{T: s * second, Source: spec.SourceWorker, Name: name, Instance: "h:9090", Worker: &spec.WorkerSample{Running: new(1.0)}})
	}
	good(2, "77")
	if got := l.Picture(2 * second).Workers; len(got) != 1 || got[0].Name != "77" || got[0].Gap != "" {
		t.Errorf("the name it had before its name was known is still there: %+v", got)
	}
	gap(3)
	if got := l.Picture(3 * second).Workers; len(got) != 1 || got[0].Name != "77" || got[0].Gap == "" {
		t.Errorf("the gap is not the worker's: %+v", got)
	}
	good(4, "78")
	if got := l.Picture(4 * second).Workers; len(got) != 1 || got[0].Name != "78" {
		t.Errorf("who was started anew is there twice: %+v", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := NewLive(time.Second)
	for s := range int64(3 * mostNames) {
		l.Add(spec.Sample{T: s * second / 100, Source: spec.SourceWorker, Name: fmt.Sprint("pod-", s), Worker: &spec.WorkerSample{}})
		l.Add(spec.Sample{T: s * second / 100, Source: spec.SourceGPU, Name: "g", GPU: gpuAt(1, 1)})
	}
	if n := len(l.workers); n > mostNames {
		t.Errorf("%d names", n)
	}
	if n := len(l.gpus["g"].states); n > mostOf {
		t.Errorf("%d states of one source", n)
	}
	last := int64(3*mostNames) * second / 100
	if n := len(l.Picture(last + lookNS + second).Workers); n != 0 {
		t.Errorf("%d workers that nobody has heard of for long", n)
	}
}

func TestTimeThatDoesNotAdvanceIsPassedOver(t *testing.T) {
	l := NewLive(time.Second)
	for _, s := range []struct {
		t      int64
		tokens float64
	}{{1, 100}, {2, 200}, {2, 900}, {1, 50}, {3, 300}} {
		l.Add(spec.Sample{T: s.t * second, Source: spec.SourceWorker, Name: "a", Worker: &spec.WorkerSample{Generated: &s.tokens}})
	}
	if got := *l.Picture(3 * second).Workers[0].TokensPerS; got != 100 {
		t.Errorf("%v tokens/s", got)
	}
}

// The list of rules, the ids that they may tell, and the guide agree.
func TestEveryRuleIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/symptoms.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range rules() {
		want = append(want, r.name)
		_, section, ok := strings.Cut(string(text), "\n## "+r.name+"\n")
		if !ok {
			continue
		}
		got = append(got, r.name)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, id := range r.findings {
			if !slices.Contains(spec.FindingIDs(), id) {
				t.Errorf("%s: %s is no finding", r.name, id)
			}
			if !strings.Contains(section, "`"+id+"`") {
				t.Errorf("the section of %q does not name %s", r.name, id)
			}
		}
		for _, part := range []string{"**Says.**", "**Rule.**", "**Means.**", "**Do.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the section of %q has no %s", r.name, part)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for title := range strings.SplitSeq(string(text), "\n## ") {
		title, _, _ = strings.Cut(title, "\n")
		if !slices.Contains(want, title) && !slices.Contains([]string{"What is not seen", "How the rules look"}, strings.TrimPrefix(title, "# ")) && !strings.HasPrefix(title, "# ") {
			t.Errorf("there is no rule %q", title)
		}
	}
}
