package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// peerRule is a rule by which a worker is slower than its peers.
type peerRule uint8

const (
	byShare peerRule = iota // its share of the fleet's tokens, while it makes less of each request
	byPace                  // what it makes of each request
)

func peerRules() []peerRule { return []peerRule{byShare, byPace} }

func (r peerRule) least(th *spec.Thresholds) float64 {
	if r == byPace {
		return th.PeerPerRequest
	}
	return th.PeerShare
}

// words are a figure of the rule, of so many workers.
func (r peerRule) words(figure float64, workers int) string {
	if r == byPace {
		return fmt.Sprintf("%.2f of %s peers' pace for each request", figure, verb(workers, "its", "their"))
	}
	return fmt.Sprintf("%.2f of a fair share of the tokens", figure)
}

// lagging is what each rule found of a worker in the episodes in which it called it slow.
type lagging [2][]float64

// lags says whether a worker's share or its pace in an episode is that of a slow one, and
// keeps what is. A pace that may be a healthy one's, so unsure as it is, is not.
func (ev *Evidence) lags(worker string, share, pace, unsure float64) bool {
	slow := [...]bool{byShare: share < ev.th.PeerShare && !(pace >= asFast), byPace: pace*(1+unsure) < ev.th.PeerPerRequest && !(share > 1.05)}
	if !slow[byShare] && !slow[byPace] {
		return false
	}
	at := ev.lagging[worker]
	if at == nil {
		at = &lagging{}
		ev.lagging[worker] = at
	}
	for r, figure := range [...]float64{byShare: share, byPace: pace} {
		if slow[r] {
			at[r] = append(at[r], figure)
		}
	}
	return true
}

// values are a rule's figures of each worker, an episode each.
func (ev *Evidence) values(r peerRule) map[string][]float64 {
	if r == byPace {
		return ev.speeds
	}
	return ev.shares
}

// slowBy are the figures by which a rule decided that a worker is slow: those of the
// episodes in which it called it so, where they are at least half of those in which any
// did; none: it is another rule's word.
func (ev *Evidence) slowBy(r peerRule, worker string) []float64 {
	if at := ev.lagging[worker]; at != nil && 2*len(at[r]) >= ev.tests.slow[worker] {
		return at[r]
	}
	return nil
}

// slowest is the worker for which a rule decided by the least figure; "": for none.
func (ev *Evidence) slowest(r peerRule, among []string) (worker string, by figure) {
	by = notMeasured()
	for _, w := range among {
		if f := over(ev.slowBy(r, w)); f.n > 0 && !(f.value >= by.value) {
			worker, by = w, f
		}
	}
	return worker, by
}

// leastOf is the worker whose figure is least, over all episodes; "": none was measured.
func leastOf(values map[string][]float64) (worker string, least float64) {
	least = math.Inf(1)
	for w, v := range values {
		if m := mean(v); m < least || m == least && naturally(w, worker) < 0 {
			worker, least = w, m
		}
	}
	return worker, least
}

// peerExpected is what is wanted of the slowest worker by a rule. State, value and worker
// are of one another: who is slow is shown by the figures that made it so.
func (ev *Evidence) peerExpected(r peerRule) spec.Expected {
	name, unit, least := "least-token-share", "of fair", r.least(ev.th)
	if r == byPace {
		name, unit = "least-pace", "of peers"
	}
	slow, suspects := ev.tests.slowWorkers()
	state := spec.Fail
	worker, f := ev.slowest(r, slow)
	if worker == "" {
		state = spec.Inconclusive
		worker, f = ev.slowest(r, suspects)
	}
	if worker == "" {
		worker, _ = leastOf(ev.values(r))
		f = over(ev.values(r)[worker])
		switch {
		case !ev.tests.enough():
		case f.value < least: // it was sent less, or more, or it was so in too few episodes
			state = spec.NotJudged
		default:
			state = spec.Pass
		}
	}
	e := expected(name, fmt.Sprintf(">= %.2f %s", least, unit), fmt.Sprintf(">= %.2f in more than %s of the episodes", least, percent(1-ev.th.PeerEpisodes)), f, unit, state)
	if worker != "" {
		e.Note = workerWord(worker)
		if state == spec.NotJudged && r == byShare && mean(ev.speeds[worker]) >= asFast {
			e.Note += " was sent less, and is as fast as its peers"
		}
	}
	if ev.plan.Point.Workers == 1 {
		e.Note = "one worker has no peers"
	}
	return e
}
