package load

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Gaps pools the waits between neighbouring content events of every served
// stream of the main stage. The sums are exact; Quantile is within one part in
// a thousand, so that a run need not keep eight bytes a token.
type Gaps struct {
	Count      int64
	Min, Max   int64 // nanoseconds
	Sum, SumSq float64
	hist       *hdrhistogram.Histogram
}

// gapLimit is the longest wait that the histogram tells apart; Max stays exact.
const gapLimit = int64(4 * 3600 * 1e9)

// NewGaps returns an empty pool.
func NewGaps() *Gaps { return &Gaps{hist: hdrhistogram.New(1, gapLimit, 3)} }

// Add pools the gaps between the given stamps.
func (g *Gaps) Add(stamps []int64) {
	for i := 1; i < len(stamps); i++ {
		d := stamps[i] - stamps[i-1]
		if g.Count == 0 || d < g.Min {
			g.Min = d
		}
		g.Max = max(g.Max, d)
		g.Count++
		g.Sum += float64(d)
		g.SumSq += float64(d) * float64(d)
		_ = g.hist.RecordValue(min(d, gapLimit)) // cannot fail within the limit
	}
}

// Merge adds another pool.
func (g *Gaps) Merge(o *Gaps) {
	if o.Count == 0 {
		return
	}
	if g.Count == 0 || o.Min < g.Min {
		g.Min = o.Min
	}
	g.Max = max(g.Max, o.Max)
	g.Count += o.Count
	g.Sum += o.Sum
	g.SumSq += o.SumSq
	g.hist.Merge(o.hist)
}

// Mean is the mean gap in nanoseconds, or NaN without any.
func (g *Gaps) Mean() float64 { return g.Sum / float64(g.Count) }

// Std is the population standard deviation in nanoseconds.
func (g *Gaps) Std() float64 {
	m := g.Mean()
	return math.Sqrt(max(0, g.SumSq/float64(g.Count)-m*m))
}

// Quantile estimates the q-quantile, 0 <= q <= 1, in nanoseconds.
func (g *Gaps) Quantile(q float64) float64 {
	if g.Count == 0 {
		return math.NaN()
	}
	return min(float64(g.Max), float64(g.hist.ValueAtQuantile(q*100)))
}
