package judge

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"aicr/internal/spec"
)

// waves is the record of a closed loop whose users all began at once, so that their
// requests of one lifetime each end together, with a pause for the prompts at the
// start of each: throughput swings as far as it can.
func waves(users int, life, lasts float64) *spec.EpisodeRecord {
	r := &spec.EpisodeRecord{Episode: spec.Episode{
		Point:   spec.OperatingPoint{Workers: 2, Concurrency: users, DurationS: lasts},
		LoadedS: lasts,
		Client:  spec.BenchClient{Valid: true, InFlight: number(float64(users))}}}
	ns := func(s float64) int64 { return int64(math.Round(s * 1e9)) }
	for begin := 0.0; begin < lasts; begin += life {
		for range users {
			r.Requests = append(r.Requests, spec.Request{Lane: "closed", Sent: ns(begin), First: ns(begin + life/2), Last: ns(begin + life),
				End: ns(begin + life), Gap: ns(life / 200), Tokens: 101, Class: spec.ClassOK})
		}
	}
	return r
}

func kneeThresholds() *spec.Thresholds {
	t, _ := spec.DefaultThresholds(spec.ProfileStandard)
	return &t
}

// However long the record is cut, a level's throughput is that of whole swings.
func TestALevelIsMeasuredInWholeLifetimes(t *testing.T) {
	const users, life = 40, 2.0
	want := users * 101 / life
	for _, lasts := range []float64{7, 7.5, 8.3, 9, 9.9, 13.7, 31} {
		l := KneeLevelOf(waves(users, life, lasts), kneeThresholds())
		if l.NotUsed != "" || l.Throughput.Value == nil {
			t.Fatalf("%v s: not used: %q", lasts, l.NotUsed)
		}
		if got := *l.Throughput.Value; math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%v s: throughput %.1f, want %.1f", lasts, got, want)
		}
		if l.Throughput.N < leastBatches || l.PerGPU != users/2 || *l.Held != users || math.Abs(*l.LifetimeS-life) > 1e-9 {
			t.Errorf("%v s: %+v", lasts, l)
		}
	}
}

func TestALevelThatSaysNothingDoesNotCount(t *testing.T) {
	tests := map[string]struct {
		change func(*spec.EpisodeRecord)
		want   string // the beginning of why
		client bool
	}{
		"it counts":                 {func(*spec.EpisodeRecord) {}, "", false},
		"too short":                 {func(r *spec.EpisodeRecord) { r.Episode.LoadedS = 5 }, "too short", false},
		"the ramp takes most of it": {func(r *spec.EpisodeRecord) { r.Episode.Point.RampS = 7 }, "too short", false},
		"the client": {func(r *spec.EpisodeRecord) {
			r.Episode.Client = spec.BenchClient{InFlight: number(20), Reasons: []spec.BenchReason{{Text: "held 20 of 40 in flight"}}}
		}, "the client was the limit: held 20", true},
		"a client without a reason": {func(r *spec.EpisodeRecord) { r.Episode.Client.Valid = false }, "the client was the limit: it failed", true},
		"one in twenty failed": {func(r *spec.EpisodeRecord) {
			for i := range r.Requests {
				if i%20 == 0 {
					r.Requests[i].Class = "http-status"
				}
			}
		}, "10 of 200 requests failed", false},
		"nothing served": {func(r *spec.EpisodeRecord) {
			for i := range r.Requests {
				r.Requests[i].Class = "http-status"
			}
		}, "nothing was served", false},
		"the load ended before its answers": {func(r *spec.EpisodeRecord) {
			for i := range r.Requests {
				if q := &r.Requests[i]; q.Sent >= 8e9 {
					q.Class, q.End = spec.ClassInterrupted, 11e9
				}
			}
		}, "", false},
		"answers never came": {func(r *spec.EpisodeRecord) {
			for i := range r.Requests {
				if q := &r.Requests[i]; q.Sent >= 8e9 && i%4 == 0 {
					q.Class, q.End = spec.ClassInterrupted, 40e9
				}
			}
		}, "20 of 200 requests failed", false},
		"requests outlast the load": {func(r *spec.EpisodeRecord) {
			r.Episode.Point.RampS = 1
			r.Requests = r.Requests[:40]
			for i := range r.Requests {
				q := &r.Requests[i]
				q.First, q.Last, q.End = q.Sent+1e9, q.Sent+15e9, q.Sent+15e9
			}
		}, "too short: a request takes 15.0 s", false},
		"nothing recorded": {func(r *spec.EpisodeRecord) { r.Requests = nil }, "nothing was served", false},
		"only the sentinel": {func(r *spec.EpisodeRecord) {
			for i := range r.Requests {
				r.Requests[i].Lane = spec.LaneSentinel
			}
		}, "nothing was served", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := waves(40, 2, 12)
			test.change(r)
			for i := range r.Requests {
				r.Requests[i].Resent = true
			}
			l := KneeLevelOf(r, kneeThresholds())
			if l.Resent != l.Sent {
				t.Errorf("%d of %d sent again", l.Resent, l.Sent)
			}
			if l.Failed > 0 && l.TTFT99 != nil {
				t.Errorf("%d of %d failed, and the p99 is %v: who is not answered waits for ever", l.Failed, l.Sent, *l.TTFT99)
			}
			if !strings.HasPrefix(l.NotUsed, test.want) || (l.NotUsed == "") != (test.want == "") || l.Client != test.client {
				t.Errorf("not used: %q, client %v; want %q, %v", l.NotUsed, l.Client, test.want, test.client)
			}
		})
	}
}

func TestGoodputCountsWhatFailedAndWhatWasSlow(t *testing.T) {
	r := waves(40, 2, 12)
	n := 0
	for i := range r.Requests {
		if r.Requests[i].Sent < 2e9 { // before the window
			continue
		}
		n++
		switch q := &r.Requests[i]; n % 4 {
		case 0:
			q.Class = "reset"
		case 1:
			q.Gap = 1_100_000_000
		case 2:
			q.First = q.Sent + 2_100_000_000
			q.Last, q.End = q.First+1, q.First+1
		}
	}
	l := KneeLevelOf(r, kneeThresholds())
	if l.Goodput == nil || math.Abs(*l.Goodput-0.25) > 0.01 {
		t.Errorf("goodput %v of %d sent, want a quarter", *l.Goodput, l.Sent)
	}
}

// onCurve are levels that lie on a curve.
func onCurve(c kneeCurve, at ...float64) []KneeLevel {
	var all []KneeLevel
	for _, n := range at {
		all = append(all, KneeLevel{InFlight: int(n), Held: number(n), Throughput: spec.Figure{Value: number(c.at(n))}})
	}
	return all
}

func doublings(from float64, n int) []float64 {
	var all []float64
	for i := range n {
		all = append(all, from*math.Pow(2, float64(i)))
	}
	return all
}

// The knee of n/(base+slope·n) can be worked out: where 2(base+slope·n/2)/(base+slope·n)
// is 2^0.55.
func TestTheKneeIsWhereTheLastDoublingPays(t *testing.T) {
	q := math.Pow(2, -0.45)
	smooth := kneeCurve{base: 1e-3, slope: 1e-6, top: math.Inf(1)}
	bend := smooth.base / smooth.slope * (1 - q) / (q - 0.5)
	full := kneeCurve{base: 1e-3, slope: 1e-6, top: smooth.at(400)}
	// Once full, the half of the knee is still on the line.
	half := full.top * math.Pow(2, -0.55)
	fullBend := 2 * half * full.base / (1 - half*full.slope)
	tests := map[string]struct {
		curve kneeCurve
		at    []float64
		want  float64
	}{
		"a smooth bend":                   {smooth, doublings(32, 8), bend},
		"the same, swept further":         {smooth, doublings(32, 10), bend},
		"the same, from another start":    {smooth, doublings(50, 7), bend},
		"an engine that is full":          {full, doublings(25, 7), fullBend},
		"the same, in other steps":        {full, []float64{10, 60, 150, 300, 390, 430, 500, 700}, fullBend},
		"in any order, and some repeated": {smooth, []float64{2048, 64, 64, 512, 1024, 128, 1024, 256}, bend},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := FindKnee(onCurve(test.curve, test.at...), kneeThresholds())
			if !k.Found || math.Abs(k.InFlight/test.want-1) > 0.01 {
				t.Fatalf("found %v at %.1f, want %.1f: %s", k.Found, k.InFlight, test.want, k.Reason)
			}
			if k.Low == nil || *k.Low > k.InFlight || *k.High < k.InFlight || k.Half() > 0.1 {
				t.Errorf("interval of levels without scatter: %v to %v around %.1f", *k.Low, *k.High, k.InFlight)
			}
			if !(k.Below < k.InFlight) || k.Below < k.InFlight/2 {
				t.Errorf("the point below is at %.1f of %.1f", k.Below, k.InFlight)
			}
			for _, o := range k.Opinions {
				// Kneedle's bend moves with the range: that is why it is only an opinion.
				if moved := o.By == "Kneedle" && name == "the same, swept further"; o.Agrees == moved {
					t.Errorf("%s agrees: %v, on a clean curve: %s", o.By, o.Agrees, o.Text)
				}
			}
		})
	}
}

func TestNoKneeIsGuessed(t *testing.T) {
	smooth := kneeCurve{base: 1e-3, slope: 1e-6, top: math.Inf(1)}
	limited := onCurve(smooth, doublings(32, 5)...)
	for range 2 { // throughput stands still, because the client does
		limited = append(limited, KneeLevel{InFlight: 1024, Held: number(520), Client: true, NotUsed: "the client was the limit",
			Throughput: spec.Figure{Value: number(smooth.at(520))}})
	}
	unknown := onCurve(smooth, doublings(32, 8)...)
	for i := range unknown[2:] {
		unknown[i+2].Throughput.Value = nil
	}
	dead := onCurve(smooth, doublings(32, 8)...)
	for i := range dead[3:] {
		dead[i+3].Throughput.Value = number(0)
	}
	tests := map[string]struct {
		levels  []KneeLevel
		limited bool
	}{
		"no levels":                          {nil, false},
		"three levels":                       {onCurve(smooth, 32, 256, 2048), false},
		"one level, again and again":         {onCurve(smooth, 500, 500, 500, 501, 502), false},
		"throughput that keeps on rising":    {onCurve(kneeCurve{base: 1e-3, top: math.Inf(1)}, doublings(8, 8)...), false},
		"throughput faster than the load":    {[]KneeLevel{onCurve(smooth, 1)[0], {InFlight: 2, Held: number(2), Throughput: spec.Figure{Value: number(5000)}}, {InFlight: 4, Held: number(4), Throughput: spec.Figure{Value: number(20000)}}, {InFlight: 8, Held: number(8), Throughput: spec.Figure{Value: number(90000)}}}, false},
		"a bend that is ahead":               {onCurve(smooth, doublings(32, 6)...), false}, // 1,024, and the knee is 1,155
		"the client is the limit":            {limited, true},
		"throughputs that were not measured": {unknown, false},
		"levels at which nothing came":       {dead, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := FindKnee(test.levels, kneeThresholds())
			if k.Found || k.Reason == "" || k.ClientLimited != test.limited {
				t.Errorf("found %v at %.0f, client limited %v: %q", k.Found, k.InFlight, k.ClientLimited, k.Reason)
			}
		})
	}
}

// A level that the client limited lies where a bend would: it must not make one.
func TestAClientsLimitIsNoKnee(t *testing.T) {
	smooth := kneeCurve{base: 1e-3, slope: 1e-7, top: math.Inf(1)} // its knee is far
	levels := onCurve(smooth, doublings(16, 6)...)
	for _, n := range []int{1024, 2048, 4096} {
		levels = append(levels, KneeLevel{InFlight: n, Held: number(float64(n)), Throughput: spec.Figure{Value: number(smooth.at(512))}})
	}
	if k := FindKnee(levels, kneeThresholds()); !k.Found {
		t.Fatalf("these levels show a bend when they count, or this test shows nothing: %s", k.Reason)
	}
	for i := range levels[6:] {
		levels[6+i].Client, levels[6+i].NotUsed = true, "the client was the limit"
	}
	if k := FindKnee(levels, kneeThresholds()); k.Found || !k.ClientLimited {
		t.Errorf("found %v at %.0f, client limited %v", k.Found, k.InFlight, k.ClientLimited)
	}
}

func TestAKneeThatLevelsDoNotShowIsTakenBack(t *testing.T) {
	smooth := kneeCurve{base: 1e-3, slope: 1e-6, top: math.Inf(1)}
	levels := onCurve(smooth, doublings(64, 6)...)
	for i := range levels {
		*levels[i].Throughput.Value *= 1 + 0.25*float64(i%2*2-1)
	}
	k := FindKnee(levels, kneeThresholds())
	if !k.Found || k.Half() < kneeVague {
		t.Fatalf("found %v within %.2f: this test wants one that is found and vague", k.Found, k.Half())
	}
	if k.Settle(); k.Found || !strings.Contains(k.Reason, "scatter") {
		t.Errorf("after it was settled: found %v: %s", k.Found, k.Reason)
	}
	sure := FindKnee(onCurve(smooth, doublings(32, 8)...), kneeThresholds())
	if sure.Settle(); !sure.Found {
		t.Errorf("a sure knee was taken back: %s", sure.Reason)
	}
}

func TestElasticityIsTakenOverALever(t *testing.T) {
	levels := onCurve(kneeCurve{base: 1e-3, top: math.Inf(1)}, 10, 16, 18, 20, 40) // throughput is the load
	*levels[3].Throughput.Value = *levels[0].Throughput.Value                      // a doubling that brings nothing
	FindKnee(levels, kneeThresholds())
	var got []float64
	for _, l := range levels {
		if l.Elasticity == nil {
			got = append(got, math.NaN())
			continue
		}
		got = append(got, *l.Elasticity)
	}
	// From 10 to 16 is too near; 18 and 20 look at 10; 40 looks at 20.
	if diff := cmp.Diff([]float64{math.NaN(), math.NaN(), 1, 0, 2}, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

func TestAnOpinionThatDiffersIsSaid(t *testing.T) {
	smooth := kneeCurve{base: 1e-3, slope: 1e-6, top: math.Inf(1)}
	used := usableLevels(onCurve(smooth, doublings(32, 8)...))
	at, _ := smooth.knee(0.55, 4096)
	if o := kneedleOpinion(used, at*4); o.Agrees || o.InFlight == nil {
		t.Errorf("Kneedle about a knee four times as high: %+v", o)
	}
	if o := uslOpinion(used, at*1.5, 4096, 0.55); o.Agrees || o.InFlight == nil {
		t.Errorf("USL about a knee half as high again: %+v", o)
	}
	if o := uslOpinion(used[:3], at, 4096, 0.55); o.Agrees || o.InFlight != nil || o.Text == "" {
		t.Errorf("USL of three levels: %+v", o)
	}
	straight := usableLevels(onCurve(kneeCurve{base: 1e-3, top: math.Inf(1)}, doublings(32, 8)...))
	if o := kneedleOpinion(straight, at); o.Agrees || o.InFlight != nil || o.Text == "" {
		t.Errorf("Kneedle of a straight line: %+v", o)
	}
}

func TestWhatIsProposedIsBelowTheKnee(t *testing.T) {
	smooth := kneeCurve{base: 1e-3, slope: 1e-6, top: math.Inf(1)}
	full := kneeCurve{base: 1e-3, slope: 1e-6, top: smooth.at(400)}
	th := kneeThresholds()
	for name, test := range map[string]struct {
		curve  kneeCurve
		gpus   int
		change func(*Knee)
		want   int // a GPU; 0: none
	}{
		"smooth: the elasticity's margin": {smooth, 8, func(*Knee) {}, 112},
		"full: well below":                {full, 8, func(*Knee) {}, 48},
		"an unsure knee: its lower end":   {smooth, 8, func(k *Knee) { k.Low = number(520) }, 64},
		"of unknown sureness: half":       {smooth, 8, func(k *Knee) { k.Low, k.High = nil, nil }, 72},
		"less than one a GPU":             {smooth, 4000, func(*Knee) {}, 0},
		"no knee":                         {smooth, 8, func(k *Knee) { k.Found = false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			levels := onCurve(test.curve, append(doublings(25, 8), 350, 420, 500)...)
			k := FindKnee(levels, th)
			test.change(k)
			p := ProposeBelow(k, levels, test.gpus, th)
			if test.want == 0 {
				if p != nil {
					t.Errorf("proposed %+v, want nothing", p)
				}
				return
			}
			if p == nil || p.PerGPU != test.want || p.InFlight != test.want*test.gpus || p.Why == "" || p.Elasticity < th.Elasticity+kneeMargin-1e-9 {
				t.Errorf("proposed %+v, want %d a GPU (knee %.0f)", p, test.want, k.InFlight)
			}
		})
	}
}

func TestAReferenceIsOfWhatCounts(t *testing.T) {
	episode := func(x, p99 float64) KneeLevel {
		return KneeLevel{TTFT99: number(p99), Throughput: spec.Figure{Value: number(x)}}
	}
	bad := episode(9e9, 9e9)
	bad.NotUsed = "the client was the limit"
	p := KneeProposal{}
	p.Refer([]KneeLevel{episode(1000, 50), bad, episode(1100, 60)}, "a test", kneeThresholds())
	if p.Reference != nil || p.Floor != 0 || p.GuardrailMS != 0 {
		t.Errorf("two episodes that count gave %+v", p)
	}
	p.Refer([]KneeLevel{episode(1000, 50), bad, episode(1100, 60), episode(1210, 900)}, "a test", kneeThresholds())
	want := &spec.ReferenceFigure{Throughput: 1100, Dispersion: 0.0953, N: 3, From: "a test"}
	if diff := cmp.Diff(want, p.Reference); diff != "" {
		t.Fatal(diff)
	}
	if p.Floor != 880 || p.GuardrailMS != 2700 || !(p.Low < 1100 && 1100 < p.High) {
		t.Errorf("floor %v, guardrail %v, %v to %v", p.Floor, p.GuardrailMS, p.Low, p.High)
	}
	quick := KneeProposal{}
	quick.Refer([]KneeLevel{episode(1000, 50), episode(1000, 60), episode(1000, 90)}, "a test", kneeThresholds())
	if quick.GuardrailMS != 2000 || quick.Reference.Dispersion != 0 {
		t.Errorf("guardrail %v, dispersion %v", quick.GuardrailMS, quick.Reference.Dispersion)
	}
}

// A knee whose levels scatter is an interval and not a number, and one that could be
// anywhere is none.
func TestAKneeThatScattersIsAnInterval(t *testing.T) {
	for name, c := range map[string]struct {
		low, high    float64
		vague, found bool
	}{
		"known":    {84, 99, false, true},
		"vague":    {66, 126, true, true},
		"anywhere": {40, 200, true, false},
	} {
		k := &Knee{Found: true, InFlight: 91, Low: &c.low, High: &c.high, Scatter: 0.07}
		k.Settle()
		if k.Vague != c.vague || k.Found != c.found {
			t.Errorf("%s: vague %v, found %v", name, k.Vague, k.Found)
		}
		if named := strings.Contains(k.Reason, "scatter around the curve by 7.0 %"); named != c.vague {
			t.Errorf("%s: %q", name, k.Reason)
		}
	}
	unknown := &Knee{Found: true, InFlight: 91}
	if unknown.Settle(); !unknown.Vague || unknown.Found || unknown.MoreLevels(10, 0.1) != 0 {
		t.Errorf("without an interval: %+v", unknown)
	}
}
