package judge

import (
	"fmt"
	"math"
	"slices"
)

const (
	stallShare    = 0.15 // of the peers' median: less is a stall
	noneShare     = 0.02 // of the peers' median: less is no tokens at all
	hadShare      = 0.5  // of the peers' median: who made so much had a share
	stallS        = 2.0  // how long, with peers
	stallRates    = 2    // and in how many rates in a row
	fewRequests   = 2    // who has no more may be in the prefill of one
	stallAloneS   = 5.0  // how long, without peers or with few requests
	prefillS      = 30.0 // how long, when the GPU says that it works
	worksPower    = 0.6  // of the greatest power in the window: a GPU that draws it works
	hoards        = 2.0  // times the peers' median of running requests
	hoardsTokens  = 1.2  // times the peers' median of tokens/s: who makes more is busy, not stalled
	gaugeZeroS    = 5    // how long, when only the sender's count says that there is work
	gaugeZeroOf   = 3    // and over how many periods: the counts are of different times
	gaugeZeroPart = 0.5  // of a fair share of the sender's requests, that no worker has
)

// stall is a worker that has work and makes no tokens.
type stall struct {
	worker int
	s      *workerState // the newest
	forS   float64
	peers  float64 // median tokens/s; NaN without peers
	hidden float64 // requests that its gauges do not show, when only the sender's count tells
}

// stallsOf finds, for each worker, whether it stands still.
func stallsOf(w *window) []*stall {
	all := make([]*stall, len(w.workers))
	for i := range w.workers {
		if all[i] = stallAmongPeers(w, i); all[i] == nil {
			all[i] = stallAlone(w, i)
		}
	}
	return all
}

// stallAmongPeers compares a worker with the others that have work, second by
// second.
func stallAmongPeers(w *window, i int) *stall {
	from, ok := w.latest(i)
	if !ok {
		return nil
	}
	newest := w.told(i, from)
	works := newest.hasWork()
	if !newest.made || !works && !math.IsNaN(newest.inFlight) {
		return nil // its runtime says that it has nothing: that is routing
	}
	found := &stall{worker: i, s: newest, peers: medianBut(w.at(i, from).tokens, newest.tokens)}
	rates, last := 0, (*workerState)(nil)
	best := 0.0 // its best second, as a share of the peers'
	k := from
	for ; k < lookS; k++ {
		s := w.told(i, k)
		if s == nil || s.hasWork() != works {
			break
		}
		peers := medianBut(w.at(i, k).tokens, s.tokens)
		if !isLow(w, i, s, k, peers) {
			break
		}
		if s != last {
			rates++
			last = s
		}
		best = max(best, s.tokens/peers)
	}
	if rates < stallRates {
		return nil
	}
	began := last.from
	if before := w.told(i, k); before == nil || before.hasWork() != works {
		began = last.t // it came by its work, or lost it, some time before
	}
	found.forS = max(seconds(newest.t-began), newest.barrenS)
	need := stallS
	switch {
	case !works:
		need = float64(w.span(gaugeZeroS, gaugeZeroOf))
		var only bool
		if found.hidden, only = hiddenWork(w, from, k); !(found.hidden > 0) || !only && !hadAShare(w, i, k) {
			return nil
		}
	case newest.holds() <= fewRequests:
		if need = stallAloneS; w.gpuWorks(i) || kvGrows(w.workers[i]) {
			need = prefillS
		}
	}
	// Who always made this little is slow; a stall is a fall, or nothing at all.
	if found.forS < need || best >= noneShare && !hadAShare(w, i, k) {
		return nil
	}
	return found
}

// isLow says whether a worker makes next to nothing in a second, in all and for
// each request that runs. One with far more requests than its peers need only make
// next to nothing for each.
func isLow(w *window, i int, s *workerState, k int, peers float64) bool {
	c := w.at(i, k)
	if s.ran > 0 {
		if per := s.tokens / s.ran; !(per < stallShare*medianBut(c.perRequest, per)) {
			return false
		}
		if s.ran >= hoards*medianBut(c.running, s.ran) {
			return s.tokens < hoardsTokens*peers
		}
	}
	return s.tokens < stallShare*peers
}

// hadAShare says whether a worker made at least half of what its peers did, in a
// second further back than k.
func hadAShare(w *window, i, k int) bool {
	for ; k < lookS; k++ {
		s := w.told(i, k)
		if s == nil || !(s.tokens > 0) {
			continue
		}
		if peers := medianBut(w.at(i, k).tokens, s.tokens); s.tokens >= hadShare*peers && !isLow(w, i, s, k, peers) {
			return true
		}
	}
	return false
}

// hiddenWork is how many requests the sender has under way that no worker owns up
// to, at the least of the seconds from..to; 0 when it is no more than the two
// counts may differ by. Only says that no more than one worker stands empty now,
// which must then be the one.
func hiddenWork(w *window, from, to int) (hidden float64, only bool) {
	hidden = math.Inf(1)
	for k := from; k < min(to, fleetLook); k++ {
		all := w.loadAt(k)
		if !all.told {
			return 0, false
		}
		held, sent := all.held, all.sent
		if !(sent-held >= max(2, gaugeZeroPart*sent/float64(len(w.workers)))) {
			return 0, false
		}
		hidden = min(hidden, sent-held)
	}
	return hidden, w.loadAt(from).empty == 1
}

// stallAlone is for a worker with nobody to compare with: no other has work, or
// most of those that have it stand still as well.
func stallAlone(w *window, i int) *stall {
	s := w.workers[i].current(w.now)
	if s == nil || !s.made || !s.hasWork() || s.tokens != 0 {
		return nil
	}
	need := stallAloneS
	if w.gpuWorks(i) || s.holds() <= fewRequests && kvGrows(w.workers[i]) {
		need = prefillS
	}
	if s.barrenS < need {
		return nil
	}
	// It has work itself and makes none.
	if all := w.flowNow(); all.stands > 1 && all.flows == 0 {
		return nil // all of them together: that is the fleet's
	}
	return &stall{worker: i, s: s, forS: s.barrenS, peers: math.NaN()}
}

// kvGrows says whether a worker that makes no token still fills its KV cache: a long
// prompt is taken up chunk by chunk. It must have grown within the last seconds.
func kvGrows(t *workerTrack) bool {
	newest := t.newest()
	for i := range slices.Backward(t.states) {
		if s := &t.states[i]; s.gap == "" && seconds(newest.t-s.t) >= stallS {
			return newest.kv > s.kv
		}
	}
	return false
}

func workerStalls(w *window) []Symptom {
	fleet := fleetStalled(w) != nil
	var all []Symptom
	for _, st := range w.stall {
		if st == nil || fleet {
			continue
		}
		t := w.workers[st.worker]
		var words string
		switch {
		case st.hidden > 0:
			words = fmt.Sprintf("%s makes no tokens for %s and says that it has no requests, but %s under way are on no worker, so its gauge may read 0 in a wedge",
				workerWord(t.name), lasted(st.forS), amount(st.hidden))
		case st.s.asleep:
			words = fmt.Sprintf("%s is asleep with %s: no tokens for %s, and none until POST /wake_up", workerWord(t.name), st.s.requests(), lasted(st.forS))
		case st.s.waiting > 0 && st.s.running == 0:
			words = fmt.Sprintf("%s admits nothing: %s waiting, none running%s, no tokens for %s", workerWord(t.name), amount(st.s.waiting), kvWords(st.s), lasted(st.forS))
		case st.s.tokens == 0:
			words = fmt.Sprintf("%s makes no tokens for %s with %s", workerWord(t.name), lasted(st.forS), st.s.requests())
		default:
			words = fmt.Sprintf("%s crawls for %s: %s tokens/s with %s", workerWord(t.name), lasted(st.forS), amount(st.s.tokens), st.s.requests())
		}
		if !math.IsNaN(st.peers) {
			words += fmt.Sprintf(", its peers %s tokens/s each", amount(st.peers))
		}
		s := Symptom{Finding: "worker/stall", Severity: Fail, Workers: []string{t.name}, SinceS: st.forS}
		w.addGPU(&s, &words, st.worker)
		s.Words = words
		all = append(all, s)
	}
	return all
}

func kvWords(s *workerState) string {
	if math.IsNaN(s.kv) {
		return ""
	}
	return ", KV " + percent(s.kv) + " used"
}
