package judge

import (
	"maps"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// stallEvent is who stalled: a worker, or the whole fleet. With neither it is a part of
// the fleet, and it is unknown which.
type stallEvent struct {
	worker string
	fleet  bool
}

// stallTests are the sequential tests of how often something stalls.
//
//   - All stalls together. Rates are those of a fleet of Thresholds.RateWorkers; a larger
//     fleet may have as many for each worker, a smaller one is held to the same: what
//     could be seen of a lone worker's share of the rates would take half an hour.
//   - Stalls of the whole fleet. A frontend does not freeze more often because more
//     workers are behind it, so that these rates do not grow with the fleet.
//   - Stalls of any one worker. In a large fleet the first test is blind to one worker
//     that stalls all the time. This one asks how much better the stalls are explained
//     by a sick worker, whichever of them it is, than by the rate of the others. Each
//     worker has the same weight, one over their number: that pays for looking at all.
//
// In a fleet of up to RateWorkers the first test is at least as strict as the others and
// stands alone.
type stallTests struct {
	th      *spec.Thresholds
	workers int // that should be there; 0: unknown

	minutes float64 // of load
	all     int     // stalls, of whomever
	fleet   int     // of the whole fleet
	by      map[string]int
	single  int // the sum of by

	// Of earlier runs.
	priorMinutes      float64
	prior, priorFleet float64
	priorBy           map[string]float64 // of the same GPU or worker

	walkAll, walkFleet, walkAny []float64
}

func newStallTests(p *spec.Plan) stallTests {
	t := stallTests{th: &p.Thresholds, workers: p.Point.Workers, by: map[string]int{}, priorMinutes: p.PriorMinutes}
	for _, prior := range p.Prior {
		t.prior += prior.Count
		if prior.GPU == "" && prior.Worker == "" {
			t.priorFleet += prior.Count
		}
	}
	return t
}

func (t *stallTests) add(events []stallEvent, minutes float64) {
	t.minutes += minutes
	for _, e := range events {
		t.all++
		switch {
		case e.fleet:
			t.fleet++
		case e.worker != "":
			t.by[e.worker]++
			t.single++
		}
	}
	t.walkAll = append(t.walkAll, t.allScore())
	t.walkFleet = append(t.walkFleet, t.fleetScore())
	t.walkAny = append(t.walkAny, t.anyScore())
}

func (t *stallTests) bounds() (low, high float64) {
	return stats.SPRTBounds(t.th.AlphaRate, t.th.BetaRate)
}

// large says whether the fleet is larger than the one that the rates are of.
func (t *stallTests) large() bool { return t.th.RateWorkers > 0 && t.workers > t.th.RateWorkers }

// rates are the tolerated and the bad rate of all stalls, a minute.
func (t *stallTests) rates() (ok, bad float64) {
	scale := 1.0
	if t.large() {
		scale = float64(t.workers) / float64(t.th.RateWorkers)
	}
	return t.th.RateOK * scale, t.th.RateBad * scale
}

// workerOK is the tolerated rate of one worker, a minute.
func (t *stallTests) workerOK() float64 {
	return t.th.RateOK / float64(max(1, t.th.RateWorkers))
}

// ahead is the score that earlier runs give. They may speak against a deployment, never
// for it: one that was well last week has still to show it, and one that was repaired is
// not held for what it was. No more than one bound is given ahead.
func (t *stallTests) ahead(count, ok, bad, high float64) float64 {
	return min(max(0, stats.PoissonLLR(count, t.priorMinutes, ok, bad)), high)
}

// allScore is the test of all stalls: above 0 speaks for a bad rate.
func (t *stallTests) allScore() float64 {
	ok, bad := t.rates()
	_, high := t.bounds()
	return t.ahead(t.prior, ok, bad, high) + stats.PoissonLLR(float64(t.all), t.minutes, ok, bad)
}

// fleetScore is the test of the whole fleet's stalls.
func (t *stallTests) fleetScore() float64 {
	_, high := t.bounds()
	return t.ahead(t.priorFleet, t.th.RateOK, t.th.RateBad, high) + stats.PoissonLLR(float64(t.fleet), t.minutes, t.th.RateOK, t.th.RateBad)
}

// usual is the rate of the others, of whom so many stalls are: their own, to which one
// stall at the tolerated rate is added, so that a rate is known before there is a stall.
func (t *stallTests) usual(others int) float64 {
	return (float64(others) + 1) / (float64(t.workers-1)*t.minutes + 1/t.workerOK())
}

// workerScore is how much better the stalls of a worker are explained by a sick one than
// by the rate of the others.
func (t *stallTests) workerScore(worker string) float64 {
	n := t.by[worker]
	ok := t.usual(t.single - n)
	if ok >= t.th.RateBad {
		return 0 // all of them stall: none stands out
	}
	score := stats.PoissonLLR(float64(n), t.minutes, ok, t.th.RateBad)
	if worker == "" {
		return score
	}
	_, high := t.bounds()
	return score + t.ahead(t.priorBy[worker], t.workerOK(), t.th.RateBad, high+math.Log(float64(t.workers)))
}

// anyScore is the logarithm of the mean over all workers of the odds that it is the sick
// one.
func (t *stallTests) anyScore() float64 {
	scores := make([]float64, 0, len(t.by)+1)
	weights := make([]float64, 0, len(t.by)+1)
	for _, w := range t.stalled() {
		scores, weights = append(scores, t.workerScore(w)), append(weights, 1)
	}
	if rest := t.workers - len(scores); rest > 0 {
		scores, weights = append(scores, t.workerScore("")), append(weights, float64(rest))
	}
	if len(scores) == 0 {
		return 0
	}
	most, sum, all := slices.Max(scores), 0.0, 0.0
	for i, s := range scores {
		sum += weights[i] * math.Exp(s-most)
		all += weights[i]
	}
	return most + math.Log(sum/all)
}

// stalled are the workers that stalled, in their order.
func (t *stallTests) stalled() []string {
	var all []string
	for w := range t.by {
		all = append(all, w)
	}
	slices.SortFunc(all, naturally)
	return all
}

// allState is what the test of all stalls has come to. One stall alone never fails: one
// may be chance.
func (t *stallTests) allState() spec.State {
	return t.stateOf(t.allScore(), float64(t.all), t.prior)
}

// fleetState is what the test of the whole fleet's stalls has come to.
func (t *stallTests) fleetState() spec.State {
	if !t.large() {
		return t.allState()
	}
	return t.stateOf(t.fleetScore(), float64(t.fleet), t.priorFleet)
}

func (t *stallTests) stateOf(score, n, prior float64) spec.State {
	low, high := t.bounds()
	switch {
	case score >= high && n+prior >= float64(t.th.MinStalls) && n > 0:
		return spec.Fail
	case score <= low:
		return spec.Pass
	}
	return spec.Inconclusive
}

// sick are the workers of a large fleet that stall by themselves more often than one
// may: the stalls are those of a sick worker at odds of 19 to 1, and theirs are.
func (t *stallTests) sick() []string {
	_, high := t.bounds()
	if !t.large() || t.anyScore() < high {
		return nil
	}
	return slices.DeleteFunc(t.stalled(), func(w string) bool {
		return t.workerScore(w) < high || float64(t.by[w])+t.priorBy[w] < float64(t.th.MinStalls)
	})
}

// anyState is what the test of any one worker's stalls has come to. In hundreds of
// workers that stall as often as they may, one stalls twice by chance, which takes longer
// to clear than a budget is. With the last episode, odds of lastOdds are enough: of sick
// workers that lets pass one in a hundred more.
func (t *stallTests) anyState(last bool) spec.State {
	low, _ := t.bounds()
	if last {
		low = max(low, -math.Log(lastOdds))
	}
	switch {
	case len(t.sick()) > 0:
		return spec.Fail
	case t.anyScore() <= low:
		return spec.Pass
	}
	return spec.Inconclusive
}

// lastOdds are the odds against a sick worker that are enough with the last episode.
const lastOdds = 4

// state is what the tests come to together; last says that the budget is spent.
func (t *stallTests) state(last bool) spec.State {
	states := []spec.State{t.allState()}
	if t.large() {
		states = append(states, t.fleetState(), t.anyState(last))
	}
	for _, decisive := range []spec.State{spec.Fail, spec.Inconclusive} {
		if slices.Contains(states, decisive) {
			return decisive
		}
	}
	return spec.Pass
}

// mostMinutes bounds the search for the end of a test.
const mostMinutes = 1e6

// left is how many more minutes without a stall it takes to pass. It is infinite where
// no time does.
func (t *stallTests) left() float64 {
	passes := func(more float64) bool {
		later := *t
		later.minutes += more
		return later.state(false) == spec.Pass
	}
	if passes(0) {
		return 0
	}
	low, high := 0.0, 1.0
	for !passes(high) {
		if low, high = high, 2*high; high > mostMinutes {
			return math.Inf(1)
		}
	}
	for range 60 {
		if middle := (low + high) / 2; passes(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// mostStalls bounds the search for the stalls that would fail a run.
const mostStalls = 9

// wouldFail is how many more stalls would fail the run now, of any kind in a fleet that
// has one test, else of the whole fleet; 0: more than are looked for.
func (t *stallTests) wouldFail() int {
	for more := 1; more <= mostStalls; more++ {
		later := *t
		later.all, later.fleet = t.all+more, t.fleet+more
		if later.allState() == spec.Fail || later.fleetState() == spec.Fail {
			return more
		}
	}
	return 0
}

// workerWouldFail is how many more stalls of the worker that has most would fail a run
// of a large fleet; 0: more than are looked for.
func (t *stallTests) workerWouldFail() int {
	worst := t.worst()
	if worst == "" {
		worst = "one of them"
	}
	for more := 1; more <= mostStalls; more++ {
		later := *t
		later.by, later.single = maps.Clone(t.by), t.single+more
		later.by[worst] += more
		if len(later.sick()) > 0 {
			return more
		}
	}
	return 0
}

// worst is the worker with most stalls; "" where none has any.
func (t *stallTests) worst() string {
	worst := ""
	for _, w := range t.stalled() {
		if t.by[w] > t.by[worst] {
			worst = w
		}
	}
	return worst
}

// HealthyMinutes is how long the load of a plan takes until no stall at all has shown
// that the deployment is stable.
func HealthyMinutes(p *spec.Plan) float64 {
	t := newStallTests(&spec.Plan{Thresholds: p.Thresholds, Point: p.Point})
	return t.left()
}
