package metric

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/load"
	"aicr/internal/stats"
)

// curve is a step function of time: vals[i] holds from ts[i] on, and 0 before
// ts[0]. AIPerf's figures of concurrency and of throughput while it lasted are
// averages over such curves, weighted by time.
type curve struct{ ts, vals []float64 }

// step is a change of a curve.
type step struct {
	at, by float64
	order  int // among steps at one time
}

// noise is the share of a curve's peak below which a value is what rounding
// left of zero.
const noise = 1e-9

// newCurve adds up steps; at one time falls go first.
func newCurve(steps []step) curve {
	rises := func(s step) int {
		if s.by > 0 {
			return 1
		}
		return 0
	}
	slices.SortFunc(steps, func(a, b step) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return cmp.Or(cmp.Compare(rises(a), rises(b)), cmp.Compare(a.order, b.order))
	})
	c := curve{make([]float64, len(steps)), make([]float64, len(steps))}
	var level, peak float64
	for i, s := range steps {
		level += s.by
		c.ts[i], c.vals[i] = s.at, level
		peak = max(peak, math.Abs(level))
	}
	for i, v := range c.vals {
		if math.Abs(v) < noise*peak {
			c.vals[i] = 0
		}
	}
	return c
}

// reader gives the value of a curve at times that never go back.
type reader struct {
	curve
	next int
}

func (r *reader) at(t float64) float64 {
	for r.next < len(r.ts) && r.ts[r.next] <= t {
		r.next++
	}
	if r.next == 0 {
		return 0
	}
	return r.vals[r.next-1]
}

// after is the number of times up to and including t.
func after(ts []float64, t float64) int {
	i, _ := slices.BinarySearchFunc(ts, t, func(e, t float64) int {
		if e <= t {
			return -1
		}
		return 1
	})
	return i
}

// before is the number of times below t.
func before(ts []float64, t float64) int {
	i, _ := slices.BinarySearch(ts, t)
	return i
}

// over is one curve divided by another where the other is positive.
func (c curve) over(d curve) curve {
	if len(c.ts) == 0 || len(d.ts) == 0 {
		return curve{}
	}
	q := curve{ts: slices.Compact(merge(c.ts, d.ts))}
	q.vals = make([]float64, len(q.ts))
	above, below := reader{curve: c}, reader{curve: d}
	for i, t := range q.ts {
		if a, b := above.at(t), below.at(t); b > 0 {
			q.vals[i] = a / b
		}
	}
	return q
}

// merge joins two sorted lists into one.
func merge(a, b []float64) []float64 {
	out := make([]float64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0] < a[0] {
			a, b = b, a
		}
		out = append(out, a[0])
		a = a[1:]
	}
	return append(append(out, a...), b...)
}

// effective averages the curve over the stage.
func (c curve) effective(start, end float64) Distribution {
	if len(c.ts) == 0 || end <= start {
		return weighted(nil, nil, 0)
	}
	lo := max(0, after(c.ts, start)-1)
	hi := min(len(c.ts), before(c.ts, end)+1)
	level := 0.0
	if lo > 0 {
		level = c.vals[lo-1]
	}
	var durations, values []float64
	hold := func(from, to, v float64) {
		if d := min(to, end) - max(from, start); d > 0 {
			durations, values = append(durations, d), append(values, v)
		}
	}
	from := start
	for i := lo; i < hi; i++ {
		hold(from, c.ts[i], level)
		from, level = c.ts[i], c.vals[i]
	}
	hold(from, end, level)
	return weighted(durations, values, end-start)
}

// active averages the curve over the part of the stage in which gate is
// positive.
func (c curve) active(gate curve, start, end float64) Distribution {
	if end <= start || len(c.ts) == 0 || len(gate.ts) == 0 {
		return weighted(nil, nil, 0)
	}
	within := func(ts []float64) []float64 {
		lo, hi := after(ts, start), before(ts, end)
		return ts[lo:max(lo, hi)]
	}
	grid := merge([]float64{start, end}, merge(within(c.ts), within(gate.ts)))
	rate, open := reader{curve: c}, reader{curve: gate}
	var durations, values []float64
	for i := 1; i < len(grid); i++ {
		t := grid[i-1]
		v, on := rate.at(t), open.at(t) > 0
		if d := grid[i] - t; on && d > 0 {
			durations, values = append(durations, d), append(values, v)
		}
	}
	return weighted(durations, values, stats.Sum(durations))
}

// weighted describes values that held for the given durations. AIPerf reports
// zeros where there are none.
func weighted(durations, values []float64, total float64) Distribution {
	d := undefined("")
	d.Avg, d.P50, d.P90, d.P95, d.P99, d.Min, d.Max, d.Std = 0, 0, 0, 0, 0, 0, 0, 0
	if len(values) == 0 || total <= 0 {
		return d
	}
	products := make([]float64, len(values))
	for i, v := range values {
		products[i] = v * durations[i]
	}
	d.Avg = stats.Sum(products) / total
	for i, v := range values {
		dev := v - d.Avg
		products[i] = durations[i] * (dev * dev)
	}
	d.Std = math.Sqrt(stats.Sum(products) / total)
	d.Min, d.Max = slices.Min(values), slices.Max(values)

	type held struct{ value, duration float64 }
	all := make([]held, len(values))
	for i, v := range values {
		all[i] = held{v, durations[i]}
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.value, b.value) })
	shares := make([]float64, len(all))
	sum := 0.0
	for i, h := range all {
		sum += h.duration
		shares[i] = sum
	}
	for i := range shares {
		shares[i] /= sum
	}
	reached := func(share float64) float64 {
		return all[min(before(shares, share), len(all)-1)].value
	}
	d.P50, d.P90, d.P95, d.P99 = reached(0.5), reached(0.9), reached(0.95), reached(0.99)
	return d
}

// addSweeps adds the figures that AIPerf takes from step functions of time:
// requests and tokens in flight, and throughput while it lasted. Without stamps
// tokens are spread evenly over each stream.
func addSweeps(found map[string]Distribution, records []*load.Record, stamps [][]int64, s *Summary, opt Options) {
	spans := make([]span, len(records))
	served := 0
	for i, r := range records {
		spans[i] = newSpan(r, opt)
		if r.OK() {
			if stamps != nil {
				spans[i].stamps = stamps[served]
			}
			served++
		}
	}
	start, end := opt.wall(s.Start), opt.wall(s.End)
	chunked := slices.ContainsFunc(spans, func(p span) bool { return len(p.stamps) > 1 })
	decodeRate, output := (*span).decodeRate, (*span).output
	if chunked {
		decodeRate, output = (*span).chunkRate, (*span).chunks
	}

	const nanos = 1e9
	concurrency := newCurve(gather(spans, (*span).whole))
	prefilling := newCurve(gather(spans, (*span).prefilling))
	decoding := newCurve(gather(spans, (*span).decoding))
	in := newCurve(gather(spans, (*span).prefillRate))
	out := newCurve(gather(spans, decodeRate))
	total := newCurve(gather(spans, (*span).prefillRate, (*span).decodeRate))
	held := newCurve(gather(spans, output, (*span).prompt, release(output)))
	inPerUser, outPerUser := in.over(prefilling), out.over(decoding)
	put := func(tag, unit string, scale float64, d Distribution) {
		d.Unit = unit
		d.scale(scale)
		found[tag] = d
	}
	put("effective_concurrency", "requests", 1, concurrency.effective(start, end))
	put("effective_decode_concurrency", "requests", 1, decoding.effective(start, end))
	put("effective_prefill_concurrency", "requests", 1, prefilling.effective(start, end))
	put("tokens_in_flight", "tokens", 1, held.effective(start, end))
	for _, x := range []struct {
		name, unit string
		rate, gate curve
	}{
		{"decode_throughput", "tokens/sec", out, decoding},
		{"prefill_throughput", "tokens/sec", in, prefilling},
		{"total_throughput", "tokens/sec", total, concurrency},
		{"decode_throughput_per_user", "tokens/sec/user", outPerUser, decoding},
		{"prefill_throughput_per_user", "tokens/sec/user", inPerUser, prefilling},
	} {
		put("effective_"+x.name, x.unit, nanos, x.rate.effective(start, end))
		put("active_"+x.name, x.unit, nanos, x.rate.active(x.gate, start, end))
	}
}

// gather lists the steps of every span, one kind after the other: where several
// happen at one time, that is the order in which AIPerf adds them up, and the
// last bit depends on it.
func gather(spans []span, kinds ...func(*span, []step) []step) []step {
	steps := make([]step, 0, 2*len(kinds)*len(spans))
	for _, kind := range kinds {
		for i := range spans {
			steps = kind(&spans[i], steps)
		}
	}
	for i := range steps {
		steps[i].order = i
	}
	return steps
}

// span is a request on the wall clock. What did not happen is NaN.
type span struct {
	start, first, end float64
	in, out           float64
	stamps            []int64
}

func newSpan(r *load.Record, opt Options) span {
	p := span{start: opt.wall(cmp.Or(r.Sent, r.Intended)), end: opt.wall(r.End), first: math.NaN(), in: math.NaN(), out: math.NaN()}
	if r.OK() {
		p.first = opt.wall(r.FirstContent)
		p.in, p.out = promptTokens(r), float64(r.Tokens())
	}
	return p
}

// flat adds a level that lasts from one time to another.
func flat(steps []step, from, to, level float64) []step {
	if math.IsNaN(from) || math.IsNaN(to) {
		return steps
	}
	return append(steps, step{at: from, by: level}, step{at: to, by: -level})
}

func (p *span) whole(steps []step) []step      { return flat(steps, p.start, p.end, 1) }
func (p *span) prefilling(steps []step) []step { return flat(steps, p.start, p.first, 1) }
func (p *span) decoding(steps []step) []step   { return flat(steps, p.first, p.end, 1) }

func (p *span) prefillRate(steps []step) []step {
	if d := p.first - p.start; d > 0 && !math.IsNaN(p.in) {
		return flat(steps, p.start, p.first, p.in/d)
	}
	return steps
}

func (p *span) decodeRate(steps []step) []step {
	if d := p.end - p.first; d > 0 && p.out >= 1 {
		return flat(steps, p.first, p.end, (p.out-1)/d)
	}
	return steps
}

// chunkRate spreads the tokens after the first over the gaps between events.
func (p *span) chunkRate(steps []step) []step {
	gaps := 0.0
	for i := 1; i < len(p.stamps); i++ {
		if p.stamps[i] > p.stamps[i-1] {
			gaps++
		}
	}
	if gaps == 0 || !(p.out >= 1) {
		return steps
	}
	for i := 1; i < len(p.stamps); i++ {
		if gap := float64(p.stamps[i] - p.stamps[i-1]); gap > 0 {
			to := p.first + float64(p.stamps[i]-p.stamps[0])
			steps = flat(steps, to-gap, to, (p.out-1)/gaps/gap)
		}
	}
	return steps
}

// What a request holds in the server's cache: its prompt from the start, its
// output with its events (or at once where their stamps are not known), and all
// of it until the end. In a run with stamps AIPerf leaves out the output of a
// stream of one event.

func (p *span) prompt(steps []step) []step {
	if p.first > p.start && !math.IsNaN(p.in) {
		steps = append(steps, step{at: p.start, by: p.in})
	}
	return steps
}

func (p *span) output(steps []step) []step {
	if p.end > p.first {
		steps = append(steps, step{at: p.first, by: p.out})
	}
	return steps
}

func (p *span) chunks(steps []step) []step {
	if len(p.stamps) < 2 || !(p.out >= 1) {
		return steps
	}
	steps = append(steps, step{at: p.first, by: 1})
	each := (p.out - 1) / float64(len(p.stamps)-1)
	for _, at := range p.stamps[1:] {
		to := p.first + float64(at-p.stamps[0])
		if to >= p.end {
			to = math.Nextafter(p.end, math.Inf(-1))
		}
		steps = append(steps, step{at: to, by: each})
	}
	return steps
}

// release undoes what prompt and the given kind of output added.
func release(output func(*span, []step) []step) func(*span, []step) []step {
	var scratch []step
	return func(p *span, steps []step) []step {
		held := 0.0
		scratch = p.prompt(scratch[:0])
		if len(scratch) > 0 {
			held = p.in
		}
		if scratch = output(p, scratch[:0]); len(scratch) > 0 {
			held += p.out
		}
		if held == 0 {
			return steps
		}
		return append(steps, step{at: p.end, by: -held})
	}
}
