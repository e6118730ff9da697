package judge

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// reading is what one episode adds to the sequential tests.
type reading struct {
	ratio   float64 // throughput over the reference; NaN: capability is not judged in it
	stalls  []stallEvent
	minutes float64  // of load
	slow    []string // workers below their share
	ttftBad bool     // the whole interval of its p99 lies above the guardrail
	noTTFT  bool     // what its p99 is cannot be told
}

// sequence is the two sequential tests and the rules beside them, over the episodes
// so far. It knows nothing of how an episode was measured, so that its error rates
// can be found by Monte Carlo.
type sequence struct {
	th       *spec.Thresholds
	sigma    float64 // ln-sd of an episode
	refers   float64 // episodes that the reference is the mean of; +Inf: it has no error
	episodes int
	judged   int     // episodes that told of capability
	evidence float64 // the sum of what each episode says of capability
	capacity float64 // the score that it makes
	capWalk  []float64
	stalls   stallTests
	slow     map[string]int
	ttftBad  int
	ttftTold int // episodes whose p99 can be told
}

func newSequence(p *spec.Plan) *sequence {
	s := &sequence{th: &p.Thresholds, sigma: p.Thresholds.Sigma, refers: math.Inf(1), stalls: newStallTests(p), slow: map[string]int{}}
	if ref := p.Reference; ref != nil {
		s.sigma = max(s.sigma, spreadOf(ref))
		if ref.N > 0 {
			s.refers = float64(ref.N)
		}
	}
	return s
}

// spreadConfidence is how sure it is that the episodes behind a reference did not differ
// by more than is reckoned with: the deviation of few of them is more often too small
// than too large. By more than a half, a reference of three episodes could clear no fleet.
const spreadConfidence = 0.5

// spreadOf is by how much episodes differ, by those that a reference is of; 0: unknown.
func spreadOf(ref *spec.ReferenceFigure) float64 {
	if upper := stats.SpreadUpper(ref.Dispersion, ref.N, spreadConfidence); !math.IsNaN(upper) {
		return upper
	}
	return ref.Dispersion
}

func (s *sequence) add(r reading) {
	s.episodes++
	if !math.IsNaN(r.ratio) {
		s.judged++
		// A fleet that made nothing at all is as bad as can be told.
		s.evidence += stats.NormalStep(math.Log(max(r.ratio, 1e-3)), s.th.RatioGood, s.th.RatioBad, s.sigma)
		// The mean of k episodes over that of n has the variance sigma²(1/k + 1/n): the error
		// of the reference is the same in each ratio, and no number of episodes averages it out.
		s.capacity = s.evidence / (1 + float64(s.judged)/s.refers)
	}
	s.capWalk = append(s.capWalk, s.capacity)
	s.stalls.add(r.stalls, r.minutes)
	for _, w := range r.slow {
		s.slow[w]++
	}
	if r.ttftBad {
		s.ttftBad++
	}
	if !r.noTTFT {
		s.ttftTold++
	}
}

func (s *sequence) capBounds() (low, high float64) {
	return stats.SPRTBounds(s.th.AlphaCap, s.th.BetaCap)
}

// enough says whether there are as many episodes as a word on capability takes.
func (s *sequence) enough() bool { return s.episodes >= s.th.MinEpisodes }

func (s *sequence) spent() bool { return s.episodes >= s.th.MaxEpisodes }

// capacityState is what the test of throughput has come to.
func (s *sequence) capacityState() spec.State {
	low, high := s.capBounds()
	switch {
	case s.judged == 0:
		return spec.NotJudged
	case s.enough() && s.capacity >= high:
		return spec.Fail
	case s.judged >= s.th.MinEpisodes && s.capacity <= low: // one lucky episode decides nothing
		return spec.Pass
	}
	return spec.Inconclusive
}

// rateState is what the tests of stalls have come to.
func (s *sequence) rateState() spec.State {
	if s.episodes == 0 {
		return spec.NotJudged
	}
	return s.stalls.state(s.spent())
}

// ttftState is what the guardrail has come to.
func (s *sequence) ttftState() spec.State {
	bad, all := float64(s.ttftBad), float64(s.episodes)
	switch {
	case s.episodes == 0:
		return spec.NotJudged
	case s.ttftBad >= 2 && bad >= s.th.TTFTBadShare*all:
		return spec.Fail
	case s.ttftTold >= s.th.MinEpisodes && bad <= s.th.TTFTPassShare*all:
		return spec.Pass
	}
	return spec.Inconclusive
}

// slowWorkers are those that the peer rule fails, and suspects are those that it
// cannot clear yet.
func (s *sequence) slowWorkers() (slow, suspects []string) {
	for w, n := range s.slow {
		switch {
		case s.enough() && n >= 2 && float64(n) >= s.th.PeerEpisodes*float64(s.episodes):
			slow = append(slow, w)
		case n >= 2 && float64(n) > suspectShare*float64(s.episodes), !s.enough():
			suspects = append(suspects, w)
		}
	}
	slices.SortFunc(slow, naturally)
	slices.SortFunc(suspects, naturally)
	return slow, suspects
}

// suspectShare is the share of the episodes with less than its share, below which a
// worker is cleared.
const suspectShare = 0.3

// state is what the tests come to together: PASS, FAIL, INCONCLUSIVE when the budget
// is spent, or nothing yet.
func (s *sequence) state(gate bool) (spec.State, bool) {
	slow, suspects := s.slowWorkers()
	rate := s.rateState()
	if !gate {
		rate = spec.Pass
	}
	switch {
	case len(slow) > 0, s.capacityState() == spec.Fail, rate == spec.Fail, s.ttftState() == spec.Fail:
		return spec.Fail, true
	case len(suspects) == 0 && s.capacityState() == spec.Pass && rate == spec.Pass && s.ttftState() == spec.Pass:
		return spec.Pass, true
	case s.spent():
		return spec.Inconclusive, true
	}
	return spec.Inconclusive, false
}

// naturally orders names as people do: 2 before 10.
func naturally(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
