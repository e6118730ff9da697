package judge

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// floorOdds is what the floor says of deployments whose true throughput is so many times
// the floor, and whose episodes differ by an ln-sd: after each episode from the fewest that
// are taken in to the last.
func floorOdds(times, sd float64, first, last, draws int) (pass, fail, open float64) {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	rng := rand.New(rand.NewPCG(5, 20))
	for range draws {
		ev := &Evidence{th: &th, floor: &spec.Constraint{Comparator: ">=", Threshold: 1}}
		var throughputs []float64
		state := spec.Inconclusive
		for k := 1; k <= last && (state == spec.Inconclusive || state == spec.Pass && k <= first); k++ {
			throughputs = append(throughputs, times*math.Exp(sd*rng.NormFloat64()))
			ev.overall = over(throughputs)
			state = ev.floorState()
		}
		switch state {
		case spec.Pass:
			pass++
		case spec.Fail:
			fail++
		default:
			open++
		}
	}
	n := 100 / float64(draws)
	return pass * n, fail * n, open * n
}

// However much episodes differ, the floor is wrong as seldom as its interval says, and what
// is far above it is cleared by few of them.
func TestTheOperatingCharacteristicOfAFloor(t *testing.T) {
	const draws = 500
	for _, sd := range []float64{0.05, 0.2} {
		for _, times := range []float64{0.9, 1, 1.1, 6} {
			p2, f2, o2 := floorOdds(times, sd, 2, 2, draws)
			pass, fail, open := floorOdds(times, sd, 5, 11, draws)
			t.Logf("| %g | %g | %.1f / %.1f / %.1f | %.1f / %.1f / %.1f |", times, sd, p2, f2, o2, pass, fail, open)
			switch {
			case times <= 1 && p2 > 5, times <= 0.9 && pass > 3:
				t.Errorf("%g times the floor, ln-sd %g: PASS in %.1f %% of 2 episodes, in %.1f %% of up to 11", times, sd, p2, pass)
			case times >= 1 && f2 > 5, times >= 1.1 && fail > 5:
				t.Errorf("%g times the floor, ln-sd %g: FAIL in %.1f %% of 2 episodes, in %.1f %% of up to 11", times, sd, f2, fail)
			case times >= 6 && (p2 < 60 || pass < 99):
				t.Errorf("%g times the floor, ln-sd %g: PASS in %.1f %% of 2 episodes only, in %.1f %% of up to 11", times, sd, p2, pass)
			}
		}
	}
}

// What is open says by which interval: the floor lies in it.
func TestAThroughputNearTheFloorIsWordedByItsInterval(t *testing.T) {
	k := NewCase(handPlan(noReference, floorOf(1600/0.9*0.99), func(p *spec.Plan) { p.Thresholds.MaxEpisodes = 2 }))
	k.Add(bout{}.record())
	k.Add(bout{number: 2, pace: allAt(0, 99, 0.96)}.record())
	v, _ := k.Verdict()
	const want = "throughput is 1,568 tokens/s, 95 % between 1,210 and 2,032 by 2 episodes, and the floor of 1,584 lies in between"
	if !strings.Contains(v.Reason, want) {
		t.Errorf("reason %q, want %q", v.Reason, want)
	}
	k = NewCase(handPlan(noReference, floorOf(200), func(p *spec.Plan) { p.Thresholds.MaxEpisodes = 2 }))
	k.Add(bout{}.record())
	k.Add(bout{number: 2, pace: allAt(0, 99, 0.75)}.record())
	v, _ = k.Verdict()
	for _, e := range v.Expectations {
		if e.Name == spec.ConstraintThroughput && (e.State != spec.Pass || !(*e.Low > 200)) {
			t.Errorf("1,600 and 1,200 tokens/s against a floor of 180: %s, from %v to %v", e.State, *e.Low, *e.High)
		}
	}
}

// The note on a comparison that was not made names the load that was not clean.
func TestTheNoteOnTheHalfLookNamesWhatWasNotClean(t *testing.T) {
	half := bout{users: 16, ramp: 4.5}
	stalled := bout{pace: only(3, 10, 16, 0)}
	for name, c := range map[string]struct {
		episodes []*spec.EpisodeRecord
		want     string
	}{
		"episode 1 stalled":            {sequel0(half, times(2, stalled)), "was not measured: episode 1 has too little steady time without a stall"},
		"the look stalled":             {sequel0(with(half, func(b *bout) { b.pace = stalled.pace }), times(2, bout{})), "was not measured: half the load has too little steady time without a stall"},
		"requests failed in episode 1": {sequel0(half, times(2, bout{ends: oneIn(11, ending{class: "http-error", afterS: 3})})), "was not measured: episode 1 has too many failed requests"},
		"both":                         {sequel0(with(half, func(b *bout) { b.pace = stalled.pace }), times(2, stalled)), "half the load has too little steady time without a stall and episode 1 has"},
	} {
		t.Run(name, func(t *testing.T) {
			if notes := strings.Join(Judge(handPlan(), nil, c.episodes...).Notes, "\n"); !strings.Contains(notes, c.want) {
				t.Errorf("notes %q, want %q", notes, c.want)
			}
		})
	}
}
