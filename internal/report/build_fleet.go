package report

import (
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// fleetBins is an episode as the client had it.
type fleetBins struct {
	tokens, inFlight, failed bins
	waits                    [][]float32 // ms for the first token, of the closed loop's requests sent then
	wait50, wait99           []float64   // of those, when the episode is over
}

func (f *fleetBins) add(width int64, q *spec.Request) {
	if !q.RefusedAtOnce() {
		f.inFlight.spread(width, q.Sent, q.End, 1/float64(second))
	}
	q.TokensOver(func(from, until int64, rate float64) { f.tokens.spread(width, from, until, rate) })
	if q.Failed() {
		f.failed.count(width, q.End-1)
	}
	if q.Lane == spec.LaneSentinel || q.First == 0 {
		return
	}
	k := int(max(q.Sent, 0) / width)
	f.waits = reach(f.waits, k)
	f.waits[k] = append(f.waits[k], float32(ms(q.First-q.Sent)))
}

// widen makes one bin of two.
func (f *fleetBins) widen() {
	for _, v := range []*bins{&f.tokens, &f.inFlight, &f.failed} {
		v.widen()
	}
	n := len(f.waits)
	for k, waits := range f.waits {
		if k%2 == 0 {
			f.waits[k/2] = waits
		} else {
			f.waits[k/2] = append(f.waits[k/2], waits...)
		}
	}
	clear(f.waits[(n+1)/2:])
	f.waits = f.waits[:(n+1)/2]
}

// settle sums the waits up.
func (f *fleetBins) settle() {
	for _, v := range []*bins{&f.tokens, &f.inFlight, &f.failed} {
		v.settle()
	}
	var sorted []float64
	for _, waits := range f.waits {
		slices.Sort(waits)
		sorted = sorted[:0]
		for _, w := range waits {
			sorted = append(sorted, float64(w))
		}
		f.wait50 = append(f.wait50, stats.Percentile(sorted, 50))
		f.wait99 = append(f.wait99, stats.Percentile(sorted, 99))
	}
	f.waits = nil
}

// clientCount is how many tokens the load engine had counted, and when.
type clientCount struct {
	at    []int64
	total []float64
}

func (c *clientCount) add(s *spec.Sample) {
	if n := len(c.at); s.Client != nil && (n == 0 || s.T > c.at[n-1]) {
		c.at, c.total = append(c.at, s.T), append(c.total, float64(s.Client.Tokens))
	}
}

// recount puts what the engine counted as it came in the place of what was spread, as
// the judge does: it shows a trickle, which spreading hides. Tokens is how many all
// requests had.
func (f *fleetBins) recount(width int64, c *clientCount, tokens float64) {
	n := len(c.at)
	if n < 2 || c.total[n-1] <= 0 {
		return
	}
	// The engine counts events, and an event may have several tokens in it.
	scale := tokens / c.total[n-1]
	if scale < 0.5 || scale > 8 {
		return
	}
	f.tokens.amounts = reach(f.tokens.amounts, f.length()-1)
	before := 0.0
	for k := range f.tokens.amounts {
		after := c.by(int64(k+1) * width)
		if d := (after - before) * scale; d >= 0 { // one that began anew says nothing of that second
			f.tokens.amounts[k] = d
		}
		before = after
	}
}

// by is the count at a time, NaN where the samples are too far apart to say.
func (c *clientCount) by(when int64) float64 {
	i, _ := slices.BinarySearch(c.at, when) // the first sample that is not before
	switch {
	case i == 0: // from nothing at the start
		return c.total[0] * float64(when) / float64(max(1, c.at[0]))
	case i == len(c.at) || c.at[i]-c.at[i-1] > 5*second/2:
		return math.NaN()
	}
	share := float64(when-c.at[i-1]) / float64(c.at[i]-c.at[i-1])
	return c.total[i-1] + float64(share*(c.total[i]-c.total[i-1]))
}

// length is for how many bins there is anything.
func (f *fleetBins) length() int {
	return max(len(f.tokens.amounts), len(f.inFlight.amounts), len(f.failed.amounts), len(f.wait50))
}

// drawn is an episode that is over.
func (f *fleetBins) drawn(e *episodeTrack) stretch {
	s := stretch{t: e.middles(), rows: make([][]float64, 5)}
	for k := range e.bins {
		wait50, wait99 := math.NaN(), math.NaN()
		if k < len(f.wait50) {
			wait50, wait99 = f.wait50[k], f.wait99[k]
		}
		for i, v := range []float64{f.tokens.rate(k, e.width), wait50, wait99, f.inFlight.rate(k, e.width), f.failed.rate(k, e.width)} {
			s.rows[i] = append(s.rows[i], v)
		}
	}
	return s
}

func (b *Builder) fleetTrack() spec.FleetTrack {
	var all track
	for _, e := range b.episodes {
		all = append(all, e.drawn)
	}
	t, rows := all.thinned(5, mostFleetPoints)
	return spec.FleetTrack{T: t, Rate: rows[0], TTFT50: rows[1], TTFT99: rows[2], InFlight: rows[3], Failed: rows[4]}
}

// middles are the middles of an episode's bins.
func (e *episodeTrack) middles() []float64 {
	t := make([]float64, e.bins)
	for k := range t {
		t[k] = min(e.At+(float64(k)+0.5)*seconds(e.width), e.Until)
	}
	return t
}
