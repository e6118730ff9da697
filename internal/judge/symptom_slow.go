package judge

import (
	"fmt"
	"math"
	"slices"
)

const (
	slowShare    = 0.7  // of the peers' median of tokens per running request
	slowSeconds  = 0.75 // of the seconds in which it must be so
	slowNoise    = 4.0  // standard deviations: the fewer requests ran, the clearer it must be
	hoardsWords  = 2.0  // times the peers' running, to be told
	slowOfTokens = 1.2  // times the peers' tokens/s: who makes more is loaded, not slow
	slowRates    = 4    // rates that a stretch has at the least
)

// slowLooks are the stretches that are looked at, in seconds: a short one that sees
// it soon, and a long one that sees it when little runs.
var slowLooks = []int{8, 30}

// pace is what a worker did in a stretch.
type pace struct {
	seconds         float64
	tokens, running float64 // summed over the seconds
}

func (p pace) perRequest() float64 { return p.tokens / p.running }

// slowWorkers finds workers that make fewer tokens for each request that runs than
// their peers. Requests do not tell: under least-loaded a slow worker has as many
// as its peers.
func slowWorkers(w *window) []Symptom {
	var all []Symptom
	done := make([]bool, len(w.workers))
	for _, look := range slowLooks {
		look = w.span(look, slowRates)
		paces := make([]pace, len(w.workers))
		by := map[group]*seen{}
		for i := range w.workers {
			if p := paceOf(w, i, look); p.seconds >= float64(look) && p.running >= p.seconds && p.tokens > 0 {
				paces[i] = p
				c := by[w.groupOf[i]]
				if c == nil {
					c = &seen{}
					by[w.groupOf[i]] = c
				}
				c.perRequest, c.tokens, c.running = append(c.perRequest, p.perRequest()), append(c.tokens, p.tokens/p.seconds), append(c.running, p.running/p.seconds)
			}
		}
		for _, c := range by {
			slices.Sort(c.perRequest)
			slices.Sort(c.tokens)
			slices.Sort(c.running)
		}
		for i, p := range paces {
			if p.seconds == 0 || done[i] || w.stall[i] != nil {
				continue
			}
			c := by[w.groupOf[i]]
			peers := medianBut(c.perRequest, p.perRequest())
			limit := min(slowShare, math.Exp(-slowNoise/math.Sqrt(p.running)))
			loaded := !(p.tokens/p.seconds < slowOfTokens*medianBut(c.tokens, p.tokens/p.seconds))
			if !(p.perRequest() < limit*peers) || loaded || !mostlySlow(w, i, look, limit) || stalledLately(w, i, look) {
				continue
			}
			done[i] = true
			t := w.workers[i]
			words := fmt.Sprintf("%s is slow: %s %s/s for each of %s over %d s, its peers %s (%s)",
				workerWord(t.name), amount(p.perRequest()), w.groupOf[i].makes(), counted(p.running/p.seconds, "running request"), look, amount(peers), percent(p.perRequest()/peers))
			if r := medianBut(c.running, p.running/p.seconds); p.running/p.seconds >= hoardsWords*r {
				words += fmt.Sprintf("; it hoards requests, its peers have %s", amount(r))
			}
			s := Symptom{Finding: "worker/slow", Severity: Fail, Workers: []string{t.name}, SinceS: float64(look)}
			w.addGPU(&s, &words, i)
			s.Words = words
			all = append(all, s)
		}
	}
	return all
}

// paceOf sums up the last seconds that worker i tells of.
func paceOf(w *window, i, look int) pace {
	from, ok := w.latest(i)
	if !ok {
		return pace{}
	}
	var p pace
	for k := from; k < min(lookS, from+look+w.span(bridges, bridges)) && p.seconds < float64(look); k++ {
		if s := w.told(i, k); s != nil && !math.IsNaN(s.tokens) && !math.IsNaN(s.ran) {
			p.seconds++
			p.tokens += s.tokens
			p.running += s.ran
		}
	}
	return p
}

// stalledLately says whether a worker stood still within the stretch and did not
// before: it is not slow for having stalled.
func stalledLately(w *window, i, look int) bool {
	from, _ := w.latest(i)
	low := 0
	for k := from; k < min(lookS, from+look+w.span(bridges, bridges)); k++ {
		s := w.told(i, k)
		if s == nil || !isLow(w, i, s, k, medianBut(w.at(i, k).tokens, s.tokens)) {
			low = 0
			continue
		}
		if low++; low >= stallRates {
			return hadAShare(w, i, k)
		}
	}
	return false
}

// mostlySlow says whether a worker is behind in most of the seconds: one bad one
// does not make it slow.
func mostlySlow(w *window, i, look int, limit float64) bool {
	from, _ := w.latest(i)
	slow, all := 0, 0
	for k := from; k < min(lookS, from+look+w.span(bridges, bridges)) && all < look; k++ {
		s := w.told(i, k)
		if s == nil || math.IsNaN(s.tokens) || math.IsNaN(s.ran) {
			continue
		}
		all++
		if !(s.ran > 0) {
			continue
		}
		// In one second the noise is greater: it must only be behind.
		if per := s.tokens / s.ran; per < max(limit, slowShare)*medianBut(w.at(i, k).perRequest, per) {
			slow++
		}
	}
	return float64(slow) >= slowSeconds*float64(all)
}
