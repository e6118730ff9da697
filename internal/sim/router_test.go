package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/spec"
)

func seeing(load ...int32) *view {
	v := &view{load: load, credit: 10, rng: chance{1, 1}.of(useRouting)}
	var all []int
	for i := range load {
		all = append(all, i)
		v.known = append(v.known, newPrefixes())
	}
	v.list(all)
	return v
}

// Whatever is counted and listed, the least loaded are those of the list with the
// least load.
func TestTheLeastLoadedAreFoundAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := seeing(make([]int32, rapid.IntRange(1, 6).Draw(t, "workers"))...)
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			w := rapid.IntRange(0, len(v.load)-1).Draw(t, "worker")
			switch by := rapid.Int32Range(-v.load[w], 3).Draw(t, "by"); {
			case by == 3:
				v.list(rapid.SliceOfNDistinct(rapid.IntRange(0, len(v.load)-1), 1, len(v.load), rapid.ID).Draw(t, "list"))
			default:
				v.count(w, by)
			}
			low := v.load[v.workers[0]]
			for _, w := range v.workers {
				low = min(low, v.load[w])
			}
			var want []int
			for _, w := range v.workers {
				if v.load[w] == low {
					want = append(want, w)
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(v.leastLoaded()))); diff != "" {
				t.Fatalf("of %v in %v (-want +got):\n%s", v.load, v.workers, diff)
			}
		}
	})
}

// picks counts whom a policy takes in many choices from the same view.
func picks(r router, v *view, n int) []int {
	count := make([]int, len(v.load))
	for range n {
		count[r.pick(v, &Stream{})]++
	}
	return count
}

func TestEveryPolicyOfAScenarioIsThere(t *testing.T) {
	var have []string
	for name := range policies() {
		have = append(have, name)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(spec.Routers())), slices.Sorted(slices.Values(have))); diff != "" {
		t.Errorf("scenarios know (-), the model has (+):\n%s", diff)
	}
}

func TestNoPolicyTakesAWorkerThatIsNotInTheList(t *testing.T) {
	for name, policy := range policies() {
		v := seeing(5, 0, 5, 0, 5)
		v.list([]int{0, 2, 4})
		got := picks(policy(), v, 300)
		if got[1] != 0 || got[3] != 0 {
			t.Errorf("%s took workers that are not there: %v", name, got)
		}
		v.list([]int{3})
		if got := picks(policy(), v, 10); got[3] != 10 {
			t.Errorf("%s did not take the only worker: %v", name, got)
		}
	}
}

func TestRoundRobinTakesTurnsWhateverTheLoad(t *testing.T) {
	r, v := &roundRobin{}, seeing(100, 0, 7)
	var order []int
	for range 7 {
		order = append(order, r.pick(v, &Stream{}))
	}
	if diff := cmp.Diff([]int{1, 2, 0, 1, 2, 0, 1}, order); diff != "" {
		t.Error(diff)
	}
}

func TestRandomTakesAllAlike(t *testing.T) {
	for w, n := range picks(random{}, seeing(100, 0, 7, 3), 4000) {
		within(t, "worker "+string(rune('0'+w)), n, 4000, 0.25)
	}
}

func TestLeastLoadedTakesOneOfTheLeast(t *testing.T) {
	got := picks(&leastLoaded{}, seeing(3, 1, 2, 1, 9), 1000)
	if got[0] != 0 || got[2] != 0 || got[4] != 0 {
		t.Errorf("it took more than the least: %v", got)
	}
	within(t, "the first of two equals", got[1], 1000, 0.5)
	if got := picks(&leastLoaded{}, seeing(4, 3, 2), 10); got[2] != 10 {
		t.Errorf("it took %v", got)
	}
}

// Of four, two different ones are drawn: the least is among them in half of the
// draws, the most is taken never.
func TestPowerOfTwoTakesTheLesserOfTwo(t *testing.T) {
	got := picks(powerOfTwo{}, seeing(0, 1, 2, 3), 6000)
	for w, share := range []float64{3. / 6, 2. / 6, 1. / 6, 0} {
		within(t, "worker "+string(rune('0'+w)), got[w], 6000, share)
	}
	for w, n := range picks(powerOfTwo{}, seeing(1, 1, 1), 3000) {
		within(t, "of equals, worker "+string(rune('0'+w)), n, 3000, 1./3)
	}
}

func TestKVTakesTheCachedUntilLoadOutweighsTheCredit(t *testing.T) {
	blocks := []uint64{1, 2, 3, 4}
	tests := map[string]struct {
		load  []int32
		known [][]uint64
		want  int
	}{
		"nothing is known: the least load":    {[]int32{2, 1, 3}, [][]uint64{nil, nil, nil}, 1},
		"equals: the first":                   {[]int32{1, 1, 1}, [][]uint64{nil, nil, nil}, 0},
		"a full hit is worth the credit":      {[]int32{9, 0, 0}, [][]uint64{blocks, nil, nil}, 0},
		"as much load as credit: first":       {[]int32{0, 10, 0}, [][]uint64{nil, blocks, nil}, 0},
		"more load than credit":               {[]int32{11, 0, 5}, [][]uint64{blocks, nil, nil}, 1},
		"half a hit is worth half the credit": {[]int32{4, 0, 0}, [][]uint64{blocks[:2], nil, nil}, 0},
		"and no more":                         {[]int32{6, 0, 0}, [][]uint64{blocks[:2], nil, nil}, 1},
		"a hit must begin at the start":       {[]int32{1, 0, 0}, [][]uint64{blocks[1:], nil, nil}, 1},
		"the longer of two hits":              {[]int32{0, 0, 0}, [][]uint64{blocks[:1], blocks[:3], nil}, 1},
	}
	for name, tt := range tests {
		v := seeing(tt.load...)
		for w, known := range tt.known {
			v.known[w].use(known)
		}
		if got := (kvAware{}).pick(v, &Stream{Blocks: blocks}); got != tt.want {
			t.Errorf("%s: worker %d, want %d", name, got, tt.want)
		}
	}
	if got := (kvAware{}).pick(seeing(3, 2), &Stream{}); got != 1 {
		t.Errorf("a prompt without a name went to worker %d", got)
	}
}

// One prompt that all share goes to one worker until its load is the credit,
// and only then to the others.
func TestKVConcentratesOneSharedPrompt(t *testing.T) {
	s := bare(3)
	s.Fleet.Router, s.Fleet.KVCredit = "kv", 8
	s.Fleet.Timing.Base = spec.Duration(100 * ms)
	f := virtual(s, 1, false)
	var asks []ask
	for i := range 12 {
		asks = append(asks, ask{at: us * 10 * time.Duration(i), prompt: 32, output: 5, blocks: promptOf(1, 32)})
	}
	streams, _ := drive(t, f, asks, nil)
	var went []int
	for _, s := range streams {
		went = append(went, s.Worker)
	}
	// The first has 8 when the ninth finds it no better than the second, which knows
	// the prompt from then on.
	if diff := cmp.Diff([]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}, went); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAProbeGoesToItsWorkerWhateverThePolicy(t *testing.T) {
	for _, policy := range spec.Routers() {
		s := bare(4)
		s.Fleet.Router = policy
		s.Faults = []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(2)}}
		var asks []ask
		for i := range 16 {
			asks = append(asks, ask{at: time.Duration(i) * us, prompt: 1, output: 1, pin: i%4 + 1})
		}
		streams, _ := drive(t, virtual(s, 1, false), asks, nil)
		for i, s := range streams {
			if want := i % 4; want == 2 && s.Worker == 2 || want != 2 && s.Worker != want {
				t.Errorf("%s sent the probe of worker %d to worker %d", policy, want, s.Worker)
			}
		}
	}
}

// The frontend's counts are its own: a request counts from the moment it is
// routed until its last token has passed the frontend.
func TestTheFrontendCountsWhatItHasRoutedAndNotYetPassed(t *testing.T) {
	f := virtual(bare(1), 1, false)
	f.submit(0, &Stream{Prompt: 20, Output: 1}, newTap())
	for _, tt := range []struct {
		at   int
		want int32
	}{{299, 0}, {300, 1}, {12_606, 1}, {12_607, 0}} {
		f.advance(us * time.Duration(tt.at))
		if got := f.view.load[0]; got != tt.want {
			t.Errorf("at %d us it counts %d, want %d", tt.at, got, tt.want)
		}
	}
	f = virtual(bare(1), 1, false)
	drive(t, f, oneByOne(6), nil) // five of which end in one step
	if got := f.view.load[0]; got != 0 {
		t.Errorf("when all is over it counts %d", got)
	}
}
