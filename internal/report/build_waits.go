package report

import (
	"math"
	"time"

	"aicr/internal/spec"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// waits gathers how long the requests of an episode's steady part waited.
type waits struct{ ttft, itl *hdrhistogram.Histogram } // nanoseconds

func newWaits() *waits { return &waits{newHistogram(), newHistogram()} }

// newHistogram has three digits from a microsecond to an hour; what is longer is an hour.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(time.Hour), 3)
}

// waitCounts is what is kept of them when the episode is over.
type waitCounts struct{ ttft, itl []hdrhistogram.Bar }

func (w *waits) add(q *spec.Request) {
	if q.Phase != spec.PhaseSteady || q.Lane == spec.LaneSentinel || q.First == 0 {
		return
	}
	record(w.ttft, q.First-q.Sent, 1)
	if q.Served() && q.Tokens > 1 {
		record(w.itl, (q.Last-q.First)/int64(q.Tokens-1), 1)
	}
}

func record(h *hdrhistogram.Histogram, v, n int64) {
	_ = h.RecordValues(min(max(v, 0), int64(time.Hour)), n) // it is within
}

// take gives what there is, and begins anew.
func (w *waits) take() waitCounts {
	counts := waitCounts{bars(w.ttft), bars(w.itl)}
	w.ttft.Reset()
	w.itl.Reset()
	return counts
}

func bars(h *hdrhistogram.Histogram) []hdrhistogram.Bar {
	var some []hdrhistogram.Bar
	if h.TotalCount() == 0 {
		return nil
	}
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			some = append(some, b)
		}
	}
	return some
}

// distributions are of the episodes that counted or, where none did, of all.
func (b *Builder) distributions(v *spec.Verdict) []spec.Distribution {
	counted := map[int]bool{}
	for _, p := range v.Parts {
		counted[p.Episode] = p.Counted
	}
	total, any := newWaits(), false
	for _, e := range b.episodes {
		any = any || counted[e.Number]
	}
	for _, e := range b.episodes {
		if any && !counted[e.Number] {
			continue
		}
		for _, bar := range e.waits.ttft {
			record(total.ttft, bar.From, bar.Count)
		}
		for _, bar := range e.waits.itl {
			record(total.itl, bar.From, bar.Count)
		}
	}
	var all []spec.Distribution
	for _, d := range []struct {
		name, of string
		hist     *hdrhistogram.Histogram
	}{{"TTFT", "requests", total.ttft}, {"ITL", "requests, each the mean between its tokens", total.itl}} {
		if d.hist.TotalCount() > 0 {
			all = append(all, distribution(d.name, d.of, d.hist))
		}
	}
	return all
}

// binsPerDecade is how fine a distribution is drawn.
const binsPerDecade = 20

func distribution(name, of string, h *hdrhistogram.Histogram) spec.Distribution {
	at := func(q float64) float64 { return ms(h.ValueAtQuantile(q)) }
	d := spec.Distribution{Name: name, Of: of, Unit: "ms", N: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
	bin := func(v int64) int { return int(math.Floor(binsPerDecade * math.Log10(max(ms(v), 1e-3)))) }
	first, last := bin(h.Min()), bin(h.Max())
	d.Counts = make([]int64, last-first+1)
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			d.Counts[min(max(bin(bar.From)-first, 0), last-first)] += bar.Count
		}
	}
	for k := first; k <= last+1; k++ {
		d.Edges = append(d.Edges, math.Pow(10, float64(k)/binsPerDecade))
	}
	return d
}
