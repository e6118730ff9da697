package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// fleetTruth is how often a fleet of so many workers really stalls, a loaded minute.
type fleetTruth struct {
	name    string
	workers int
	each    float64 // of each worker, all alike
	sick    float64 // of worker 3, besides
	freezes float64 // of the whole fleet
}

// draw is an episode of such a fleet, of which nothing but stalls is of interest.
func (f *fleetTruth) draw(rng *rand.Rand, th *spec.Thresholds) reading {
	r := reading{ratio: math.Exp(noise * rng.NormFloat64()), minutes: th.EpisodeS / 60}
	stream := func(rate float64, of func() stallEvent) {
		for t := rng.ExpFloat64(); t < rate*r.minutes; t += rng.ExpFloat64() {
			if rng.Float64() < stallSeen {
				r.stalls = append(r.stalls, of())
			}
		}
	}
	stream(f.each*float64(f.workers), func() stallEvent { return stallEvent{worker: fmt.Sprint(rng.IntN(f.workers))} })
	stream(f.sick, func() stallEvent { return stallEvent{worker: "3"} })
	stream(f.freezes, func() stallEvent { return stallEvent{fleet: true} })
	return r
}

// fleetOdds is what becomes of many such fleets.
type fleetOdds struct {
	pass, fail, inconclusive, named int // of draws
	draws                           int
	episodes                        []float64
}

func (f *fleetTruth) odds(draws int, seed uint64) fleetOdds {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	rng := rand.New(rand.NewPCG(seed, 20))
	o := fleetOdds{draws: draws}
	for range draws {
		plan := &spec.Plan{Thresholds: th}
		plan.Point.Workers = f.workers
		tests := newSequence(plan)
		for {
			tests.add(f.draw(rng, &th))
			state, done := tests.state(true)
			if !done {
				continue
			}
			o.episodes = append(o.episodes, float64(tests.episodes))
			switch {
			case state == spec.Pass:
				o.pass++
			case state == spec.Inconclusive:
				o.inconclusive++
			default:
				o.fail++
				if slices.Contains(tests.stalls.sick(), "3") {
					o.named++
				}
			}
			break
		}
	}
	slices.Sort(o.episodes)
	return o
}

// share is a part of the draws in percent, with its interval.
func (o *fleetOdds) share(n int) string {
	low, high := stats.ClopperPearson(n, o.draws, confidence)
	return fmt.Sprintf("%.1f (%.1f–%.1f)", 100*float64(n)/float64(o.draws), 100*low, 100*high)
}

// fleetRow is a row of the table, and what has to hold of it: at most so many percent
// wrong, at the upper end of the interval.
type fleetRow struct {
	fleetTruth
	never string  // the verdict that is wrong
	most  float64 // percent
	named bool    // worker 3 has to be named in 99 of 100 FAIL: all stalls together fail small fleets first
}

// hiccups is how often a healthy worker of the model pauses for 2 s and more, a minute:
// 0.013 times in a fleet of eight.
const hiccups = 0.013 / 8

func fleetRows(workers int) []fleetRow {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	scale := max(1, float64(workers)/float64(th.RateWorkers))
	each := func(total float64) float64 { return total / float64(workers) }
	rows := []fleetRow{
		{fleetTruth{name: "nothing stalls"}, "FAIL", 0.2, false},
		{fleetTruth{name: "the model's hiccups", each: hiccups}, "FAIL", 2, false},
		{fleetTruth{name: "workers at the tolerated rate", each: each(th.RateOK * scale)}, "FAIL", 5, false},
		{fleetTruth{name: "freezes of the fleet at the tolerated rate", freezes: th.RateOK}, "FAIL", 5, false},
		{fleetTruth{name: "workers at the bad rate", each: each(th.RateBad * scale)}, "PASS", 7, false},
		{fleetTruth{name: "freezes of the fleet at the bad rate", freezes: th.RateBad}, "PASS", 7, false},
	}
	if workers > 1 {
		rows = append(rows,
			fleetRow{fleetTruth{name: "one sick worker at 0.8 a minute", sick: 0.8}, "PASS", 7, workers >= 64},
			fleetRow{fleetTruth{name: "the same, beside hiccups", sick: 0.8, each: hiccups}, "PASS", 7, workers >= 64},
			fleetRow{fleetTruth{name: "the same, the others as tolerated", sick: 0.8, each: each(th.RateOK * scale)}, "PASS", 7, false},
			fleetRow{fleetTruth{name: "one sick worker at 1.5 a minute, the others as tolerated", sick: 1.5, each: each(th.RateOK * scale)}, "PASS", 1, false})
	}
	for i := range rows {
		rows[i].workers = workers
	}
	return rows
}

// The error rates are those of the thresholds in a fleet of one as in one of 512, a
// healthy one costs no more, and one sick worker is found among 511.
func TestTheErrorRatesOfStallsHoldFrom1To512Workers(t *testing.T) {
	const draws = 2000
	var table strings.Builder
	seed := uint64(100)
	table.WriteString("| workers | true state | stalls a minute | PASS % | FAIL % | INCONCLUSIVE % | worker 3 named, of FAIL | episodes, mean | 95 of 100 within |\n|---|---|---|---|---|---|---|---|---|\n")
	shown := []int{1, 8, 64, 512}
	for _, workers := range append([]int{2, 9, 16, 128}, shown...) {
		for _, r := range fleetRows(workers) {
			seed++
			o := r.odds(draws, seed)
			wrong := map[string]int{"FAIL": o.fail, "PASS": o.pass}[r.never]
			if _, high := stats.ClopperPearson(wrong, draws, confidence); 100*high > r.most {
				t.Errorf("%d workers, %s: %s in %s %%, want at most %g", workers, r.name, r.never, o.share(wrong), r.most)
			}
			if r.named && float64(o.named) < 0.99*float64(o.fail) {
				t.Errorf("%d workers, %s: worker 3 named in %d of %d FAIL", workers, r.name, o.named, o.fail)
			}
			named := "–"
			if r.sick > 0 && workers > 8 {
				named = fmt.Sprintf("%d of %d", o.named, o.fail)
			}
			if !slices.Contains(shown, workers) {
				continue
			}
			fmt.Fprintf(&table, "| %d | %s | %.3f | %s | %s | %s | %s | %.1f | %.0f |\n", workers, r.name, r.each*float64(workers)+r.sick+r.freezes,
				o.share(o.pass), o.share(o.fail), o.share(o.inconclusive), named, stats.Mean(o.episodes), stats.Percentile(o.episodes, 95))
		}
	}
	golden(t, "testdata/characteristic_fleets.md", table.String())
}
