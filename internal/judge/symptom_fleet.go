package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/stats"
)

const (
	fleetShare   = 0.25 // of the upper-quartile second: less is a stall
	fleetS       = 2    // seconds in a row, and periods
	fleetLook    = 60   // seconds that the upper quartile is of
	fleetLeast   = 8    // seconds of them that must be known
	fleetRates   = 4    // and periods
	fleetFlowed  = 0.5  // of the upper quartile: a stall is a fall from that, not a ramp
	fleetBefore  = 5    // seconds within which the fall is
	fleetKeeps   = 0.5  // of what was outstanding: when less is left, the load has ended
	fleetHeldBy  = 0.5  // of what is outstanding: when stalled workers have it, they are the cause
	fleetAloneS  = 5.0  // how long, when not one token comes and there is nothing to compare with
	fleetWorkers = 2
)

// fleetStall is everything standing still at once.
type fleetStall struct {
	where string // the workers, the frontend
	now   float64
	usual float64 // NaN: not known
	out   float64
	forS  float64
	cause string
}

const (
	notOneWorker  = "the frontend or the host, not one worker"
	unknownHolder = "they are in the frontend, or on a worker whose gauges read 0"
)

func fleetStalls(w *window) []Symptom {
	f := fleetStalled(w)
	if f == nil {
		return nil
	}
	s := Symptom{Finding: "fleet/stall", Severity: Fail, SinceS: f.forS}
	for _, t := range w.frontends {
		s.Frontends = append(s.Frontends, t.name)
	}
	s.Words = fmt.Sprintf("%s for %s with %s requests under way", f.where, lasted(f.forS), amount(f.out))
	if !math.IsNaN(f.usual) {
		s.Words = fmt.Sprintf("%s for %s with %s requests under way: %s tokens/s, %s in a good second before", f.where, lasted(f.forS), amount(f.out), amount(f.now), amount(f.usual))
	}
	for _, t := range w.frontends {
		if o := t.current(w.now); o != nil && o.busy >= 0.9 {
			s.Words += fmt.Sprintf("; the frontend's busiest thread is busy %s of the time", percent(o.busy))
		}
	}
	s.Words += ": " + f.cause
	return []Symptom{s}
}

// fleetStalled finds whether all stand still: by a fall from what was usual, or,
// when nothing usual is known any more, by no token at all.
func fleetStalled(w *window) *fleetStall {
	if !w.fleetDone {
		w.fleetDone = true
		w.fleet = findFleetStall(w)
	}
	return w.fleet
}

func findFleetStall(w *window) *fleetStall {
	held, stalled, flows, works := 0.0, 0.0, 0, 0
	barrenest, silent, cold := math.Inf(1), 0, false
	for i, t := range w.workers {
		s := t.current(w.now)
		if s == nil {
			silent++
			continue
		}
		held += s.holds()
		if w.stall[i] != nil {
			stalled += s.holds()
		}
		if s.tokens > 0 {
			flows++
		}
		if s.hasWork() {
			works++
			barrenest = min(barrenest, s.barrenS)
			cold = cold || !s.made
		}
	}
	if held > 0 && stalled >= fleetHeldBy*held || w.failsHalf() {
		return nil
	}
	var tokens, made, out, under [fleetLook]float64
	told := false
	for k := range fleetLook {
		tokens[k], out[k] = w.madeAt(k)
		made[k], under[k] = w.passedAt(k)
		told = told || k <= w.span(bridges, bridges) && !math.IsNaN(under[k])
	}
	for k := range out {
		// A frontend that counts is not mixed with what the workers have.
		if told || !math.IsNaN(under[k]) {
			out[k] = under[k]
		}
	}
	// One that still has work while the others have none is a worker's own matter.
	if len(w.workers) >= fleetWorkers && works != 1 {
		if forS, usual, ok := fell(w, tokens[:], out[:]); ok {
			n := float64(len(w.workers))
			return &fleetStall{"the workers together make next to no tokens", newestOf(tokens[:]) * n, usual * n, newestOf(out[:]), forS, notOneWorker}
		}
	}
	if works != 1 {
		if forS, usual, ok := fell(w, made[:], out[:]); ok {
			return &fleetStall{"the frontend passes next to no tokens on", newestOf(made[:]), usual, newestOf(out[:]), forS, notOneWorker}
		}
	}
	if works >= fleetWorkers && flows == 0 && silent == 0 && !cold && barrenest >= fleetAloneS {
		return &fleetStall{"no worker makes a token", 0, math.NaN(), held, barrenest, notOneWorker}
	}
	if len(w.workers) > silent && held == 0 && flows == 0 {
		for _, t := range w.frontends {
			if s := t.current(w.now); s != nil && s.made && s.tokens == 0 && s.barrenS >= fleetAloneS {
				return &fleetStall{"the frontend passes no token on and its workers have nothing to do", 0, math.NaN(), s.inFlight, s.barrenS, unknownHolder}
			}
		}
	}
	return nil
}

// failsHalf says whether the frontends fail most of what they end: tokens are then
// few because requests fail, which is told as such.
func (w *window) failsHalf() bool {
	var ended, failed float64
	for k := range holeS {
		e, f := w.endedAt(k)
		ended, failed = ended+orZero(e), failed+orZero(f)
	}
	return failed >= holeLeast && failed >= holeShare*ended
}

// madeAt is what the workers made in a second, each on average, and what they had.
// It is not known when less than half of them tell.
func (w *window) madeAt(k int) (perWorker, held float64) {
	n := 0
	for i := range w.workers {
		if s := w.told(i, k); s != nil && !math.IsNaN(s.generated) {
			n++
			perWorker += s.generated
			held += s.holds()
		}
	}
	if n == 0 || 2*n < len(w.workers) {
		return math.NaN(), math.NaN()
	}
	return perWorker / float64(n), held * float64(len(w.workers)) / float64(n)
}

// passedAt is what the frontends passed on in a second, and what they had under
// way.
func (w *window) passedAt(k int) (tokens, inFlight float64) {
	tokens, inFlight = math.NaN(), math.NaN()
	middle := w.now - int64(k)*second - second/2
	for _, t := range w.frontends {
		i := t.since(middle - 1)
		if i == len(t.states) {
			continue
		}
		s := &t.states[i]
		if s.gap != "" || s.from >= middle || s.t-middle > bridges*t.period {
			continue
		}
		if !math.IsNaN(s.tokens) {
			tokens = orZero(tokens) + s.tokens
		}
		if !math.IsNaN(s.inFlight) {
			inFlight = orZero(inFlight) + s.inFlight
		}
	}
	return tokens, inFlight
}

// fell says whether a rate, newest second first, has fallen while as much is
// outstanding as before, and stays low.
func fell(w *window, rates, out []float64) (forS, usual float64, ok bool) {
	var all, each []float64
	for k, r := range rates {
		if math.IsNaN(r) || math.IsNaN(out[k]) {
			continue
		}
		all = append(all, r)
		if out[k] > 0 {
			each = append(each, r/out[k])
		}
	}
	if len(all) < w.span(fleetLeast, fleetRates) {
		return 0, 0, false
	}
	slices.Sort(all)
	slices.Sort(each)
	usual, usualEach := stats.Percentile(all, 75), stats.Percentile(each, 75)
	k := 0
	for k < len(rates) && math.IsNaN(rates[k]+out[k]) { // the newest second may not be told yet
		k++
	}
	newest := k
	for ; k < len(rates); k++ {
		// In the tail of a load few requests make few tokens: each still gets its own.
		few := math.IsNaN(out[k]) || out[k] > 0 && rates[k]/out[k] < fleetShare*usualEach
		if !(rates[k] < fleetShare*usual && few) {
			break
		}
	}
	need := w.span(fleetS, fleetS)
	if newest < len(out) && out[newest] < float64(max(len(w.workers), fewRequests+1)) { // those few may be in their prefill
		need = max(need, int(fleetAloneS))
	}
	if newest > w.span(bridges, bridges) || k-newest < need || k == len(rates) {
		return 0, 0, false
	}
	fall := false
	var had []float64 // outstanding while it flowed
	for before := k; before < len(rates); before++ {
		if rates[before] >= fleetFlowed*usual {
			if fall = fall || before < k+w.span(fleetBefore, fleetS); !math.IsNaN(out[before]) {
				had = append(had, out[before])
			}
		}
	}
	if !fall || !(out[newest] >= fleetKeeps*median(had)) {
		return 0, 0, false
	}
	return float64(k - newest), usual, true
}

func newestOf(values []float64) float64 {
	for _, v := range values {
		if !math.IsNaN(v) {
			return v
		}
	}
	return math.NaN()
}
