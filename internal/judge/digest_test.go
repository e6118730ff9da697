package judge

import (
	"math"
	"testing"

	"aicr/internal/spec"
)

func TestTheStartIsCutWhereTheRestIsSteady(t *testing.T) {
	cases := map[string]struct {
		bout   bout
		cut    float64
		steady bool
	}{
		"the ramp":                     {bout{}, 4, true},
		"a slow start after the ramp":  {bout{pace: allAt(0, 3, 0.5)}, 5, true},
		"never more than a fifth":      {bout{pace: allAt(0, 12, 0.5)}, 4, false},
		"it never comes to rest":       {bout{pace: func(s, _ int) float64 { return 1 + float64(s)/10 }}, 3, false},
		"a stall hides it: the ramp":   {bout{pace: only(3, 20, 24, 0)}, 4, false},
		"a longer ramp":                {bout{ramp: 4}, 6, true},
		"shorter than the ramp itself": {bout{seconds: 2}, 2, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := digested(c.bout, 0); d.cutS != c.cut || d.steady != c.steady {
				t.Errorf("cut at %v s, steady %v; want %v s, %v", d.cutS, d.steady, c.cut, c.steady)
			}
		})
	}
}

func TestThroughputIsThatOfBatchesWithoutAStall(t *testing.T) {
	cases := map[string]struct {
		bout       bout
		batchS     float64
		kept, all  int
		judged     bool
		throughput float64
	}{
		"all of them":                     {bout{}, 6, 4, 4, true, handFleet},
		"a short stall costs two":         {bout{pace: only(3, 10, 12, 0)}, 6, 2, 4, true, handFleet},
		"a longer one costs too many":     {bout{pace: only(3, 10, 16, 0)}, 6, 1, 4, false, handFleet},
		"a freeze is not slowness":        {bout{pace: allAt(20, 23, 0)}, 6, 2, 4, true, handFleet},
		"neighbours are alike: doubled":   {bout{seconds: 50, pace: func(s, _ int) float64 { return 1 - 0.01*float64(s) }}, 10.39, 4, 4, true, 1140},
		"neighbours that differ are not":  {bout{pace: func(s, _ int) float64 { return 1 - 0.1*float64((s-3)/5%2) }}, 6.23, 4, 4, true, 1536},
		"one batch has no interval":       {bout{seconds: 9}, 4, 1, 1, true, handFleet},
		"less than one says nothing":      {bout{seconds: 7}, 5, 0, 0, false, math.NaN()},
		"a second that was not loaded":    {bout{seconds: 1}, 5, 0, 0, false, math.NaN()},
		"nothing made is zero, and known": {bout{pace: func(int, int) float64 { return 0 }}, 5, 5, 5, true, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := digested(c.bout, 0)
			th, _ := spec.DefaultThresholds(spec.ProfileStandard)
			if math.Abs(d.batchS-c.batchS) > 0.05 || len(d.batches) != c.kept || d.allBatches != c.all || d.judgeable(&th) != c.judged {
				t.Errorf("%d of %d batches of %v s, judged %v; want %d of %d of %v s, %v", len(d.batches), d.allBatches, d.batchS, d.judgeable(&th), c.kept, c.all, c.batchS, c.judged)
			}
			if got := d.throughput.value; math.IsNaN(got) != math.IsNaN(c.throughput) || math.Abs(got-c.throughput) > 0.01*handFleet {
				t.Errorf("%v tokens/s, want %v", got, c.throughput)
			}
			if len(d.batches) == 1 && !math.IsNaN(d.throughput.low) {
				t.Errorf("one batch has the interval %v", d.throughput)
			}
		})
	}
	if d := digested(bout{pace: allAt(10, 15, 0)}, 0); !(d.gross < 0.85*handFleet) {
		t.Errorf("gross throughput %v is not that of all, the freeze included", d.gross)
	}
}

func TestTTFTIsThatOfTheCleanPart(t *testing.T) {
	d := digested(bout{pace: allAt(10, 15, 0), wait: func(s int) float64 { return map[int]float64{9: 3}[s] }}, 0)
	if d.ttft.value != 20 || d.ttft.low != 20 || d.ttft.high != 20 {
		t.Errorf("%v ms of the clean part, want 20", d.ttft)
	}
	if d.ttftGross < 3000 {
		t.Errorf("%v ms with the freeze, want more than 3,000", d.ttftGross)
	}
	if d := digested(bout{workers: 1, users: 1}, 0); !math.IsNaN(d.ttft.value) || d.ttft.n != 0 {
		t.Errorf("a p99 of 13 requests: %+v", d.ttft)
	}
	slow := digested(bout{seconds: 50, ramp: 3, wait: func(s int) float64 {
		if s >= 30 && s < 31 {
			return 1
		}
		return 0
	}}, 0)
	if slow.ttft.low >= slow.ttft.value || slow.ttft.value < 900 {
		t.Errorf("one bad second of 50: %+v; the bootstrap must doubt it", slow.ttft)
	}
}

func TestGoodputHasTheFailuresInItsDenominator(t *testing.T) {
	all := digested(bout{}, 0).over
	cases := map[string]struct {
		bout bout
		bad  int // requests that no user would call served
		over int // as a change of all
	}{
		"all are good":                  {bout{}, 0, 0},
		"one in ten is refused":         {bout{ends: oneIn(11, ending{class: "http-error", afterS: 2})}, 44, 0},
		"one in ten breaks":             {bout{ends: oneIn(11, ending{class: "truncated", tokens: 100})}, 44, 0},
		"one in ten is empty":           {bout{ends: oneIn(11, ending{class: "no-tokens", afterS: 2})}, 44, 0},
		"a gap of 6 s in eight streams": {bout{pace: only(3, 10, 16, 0)}, 8, -24},
		"a gap of 0.9 s":                {bout{spoil: func(q *spec.Request) { q.Gap = second * 9 / 10 }}, 0, 0},
		"a gap of 1.1 s":                {bout{spoil: func(q *spec.Request) { q.Gap = second * 11 / 10 }}, 480, 0},
		"the sentinel is not counted":   {bout{sentinel: func(int) float64 { return math.NaN() }}, 0, 0},
		"first tokens after 2.1 s":      {bout{spoil: func(q *spec.Request) { q.First = q.Sent + 2100e6; q.Last = q.First }}, 480, 0},
		"what hangs at the end is bad":  {bout{pace: only(3, 24, 99, 0)}, 8, -24},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := digested(c.bout, 0); d.over != all+c.over || d.over-d.good != c.bad {
				t.Errorf("%d of %d are not good, want %d of %d", d.over-d.good, d.over, c.bad, all+c.over)
			}
		})
	}
}

func TestTheSentinelCountsFromTheIntendedSend(t *testing.T) {
	d := digested(bout{sentinel: func(n int) float64 {
		if n == 7 {
			return math.NaN()
		}
		return 0.25
	}}, 0)
	if len(d.sentinel) != 30 || d.sentinel[0] != 250 || !math.IsInf(d.sentinel[7], 1) {
		t.Errorf("%v", d.sentinel)
	}
}

func TestWhatWasDeclaredIsHeldAgainstWhatCame(t *testing.T) {
	counters := func(queries, hits float64) func(s, w int, p *spec.Sample) {
		return func(s, w int, p *spec.Sample) {
			p.Worker.PrefixQueries, p.Worker.PrefixHits = new(5000+queries*float64(s)), new(4000+hits*float64(s))
		}
	}
	cases := map[string]struct {
		bout                  bout
		input, output, cached float64
	}{
		"as declared":                   {bout{}, 128, 100, math.NaN()},
		"by the client's count":         {bout{spoil: cachedShare(0.5)}, 128, 100, 0.5},
		"by the workers' counters":      {bout{page: counters(1000, 940)}, 128, 100, 0.94},
		"the client's word comes first": {bout{page: counters(1000, 940), spoil: cachedShare(0.25)}, 128, 100, 0.25},
		"half are told":                 {bout{spoil: func(q *spec.Request) { q.Cached = map[bool]*int{true: new(64)}[q.Seq%2 == 0] }}, 128, 100, 0.5},
		"who failed has no length":      {bout{ends: oneIn(11, ending{class: "http-error", afterS: 2})}, 128, 100, math.NaN()},
		"the sentinel has none either":  {bout{sentinel: func(int) float64 { return 0.1 }}, 128, 100, math.NaN()},
		"nobody was served":             {bout{ends: oneIn(1, ending{class: "http-error", afterS: 2})}, math.NaN(), math.NaN(), math.NaN()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := digested(c.bout, 0)
			for what, v := range map[string][2]float64{"prompt": {d.inputMean, c.input}, "output": {d.outputMean, c.output}, "cached": {d.cached, c.cached}} {
				if got, want := v[0], v[1]; math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-9 {
					t.Errorf("%s is %v, want %v", what, got, want)
				}
			}
		})
	}
}

// A counter that begins anew has grown by all that it has since, and not by less
// than nothing.
func TestARestartedWorkerHasGrown(t *testing.T) {
	d := digested(bout{nameless: true, page: func(s, w int, p *spec.Sample) {
		if w == 3 && s >= 15 {
			p.Worker.Generated = new(*p.Worker.Generated - 1e6 - 5600)
		}
	}}, 0)
	if got := d.worker("3").told; math.Abs(got-10000) > 800 {
		t.Errorf("a worker that restarted made %v tokens of the clean part, want about 10,000", got)
	}
	if len(d.stalls) != 0 {
		t.Errorf("%+v", d.stalls)
	}
}

func TestTheElasticityIsOfTheFirstEpisodeToTheHalf(t *testing.T) {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	half := func(pace float64) *digest { return digested(bout{users: 16, pace: allAt(0, 99, pace)}, 0) }
	full := digested(bout{}, 0)
	between := func(half, full *digest) Doubling {
		return doublingOf(half.point.Concurrency, full.point.Concurrency, half.throughput, full.throughput, 0, &th)
	}
	for pace, want := range map[float64]float64{1: 1, math.Sqrt2: 0.5, 2: 0} {
		if got := between(half(pace), full).Elasticity; math.Abs(got-want) > 0.02 {
			t.Errorf("%v times as fast at half the load: %v, want %v", pace, got, want)
		}
	}
	for _, half := range []*digest{full, digested(bout{users: 64}, 0)} {
		if got := between(half, full).Elasticity; !math.IsNaN(got) {
			t.Errorf("of %d in flight to %d: %v", half.point.Concurrency, full.point.Concurrency, got)
		}
	}
}

// What is called past the knee is below it by the margin, and by more than it is unsure.
func TestOneMarginOfTheKnee(t *testing.T) {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	x := func(v, half float64) figure { return figure{v, v * (1 - half), v * (1 + half), 9} }
	for name, c := range map[string]struct {
		half, full figure
		past, pays bool
	}{
		"at the knee":                   {x(1000, 0.001), x(1000*math.Pow(2, 0.55), 0.001), false, true},
		"a little below the least":      {x(1000, 0.001), x(1000*math.Pow(2, 0.51), 0.001), false, false},
		"below it by the margin":        {x(1000, 0.001), x(1000*math.Pow(2, 0.49), 0.001), true, false},
		"by less than it is unsure":     {x(1000, 0.05), x(1000*math.Pow(2, 0.49), 0.05), false, false},
		"nothing more, however unsure":  {x(1000, 0.09), x(1000, 0.09), true, false},
		"nothing more, of one batch":    {figure{1000, math.NaN(), math.NaN(), 1}, figure{1000, math.NaN(), math.NaN(), 1}, true, false},
		"nothing was measured at half":  {notMeasured(), x(1000, 0.01), false, false},
		"nothing was measured at twice": {x(1000, 0.01), notMeasured(), false, false},
	} {
		d := doublingOf(32, 64, c.half, c.full, 0, &th)
		if d.Past(th.Elasticity) != c.past || d.Pays(th.Elasticity) != c.pays {
			t.Errorf("%s: past %v, pays %v: %+v", name, d.Past(th.Elasticity), d.Pays(th.Elasticity), d)
		}
	}
}
