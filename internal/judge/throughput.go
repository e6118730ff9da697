package judge

import (
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// The names of an episode's throughputs. Throughput is the figure that is judged, held
// against a reference, and printed wherever a throughput is named without a word more.
const (
	Throughput      = "throughput"
	GrossThroughput = "gross-throughput"
)

// measureThroughput is the one place where throughput is worked out; a level of a
// knee, a reference, an episode of a validation and a bench all come here.
//
// It is the tokens that reached the client, those of the sentinel and of streams that
// broke included, a second of the steady part that no stall touched. It is taken in
// batches of whole request lifetimes: requests that began together end together, so
// that tokens swing once a lifetime, and a batch of half a swing would tell where in it
// the batch began.
func (d *digest) measureThroughput(requests []spec.Request, stalled []bool, th *spec.Thresholds) {
	d.batchS = max(minBatchS, th.BatchS)
	if steady := d.loadedS - d.steadyFrom; d.lifeS > 0 && steady >= max(d.lifeS, th.BatchS) {
		lifetimes := max(1, math.Ceil(th.BatchS/d.lifeS-1e-9))
		d.batchS = d.lifeS * min(lifetimes, math.Floor(steady/d.lifeS))
	}
	d.inBatches(requests, stalled)
	if len(d.batches) >= 4 && stats.Lag1(d.batches) > th.Lag1 {
		d.batchS *= 2
		d.inBatches(requests, stalled)
	}
	if len(d.batches) == 0 || len(requests) == 0 {
		return
	}
	mean, low, high := stats.PositiveMeanInterval(d.batches, confidence)
	if len(d.batches) == 1 {
		mean = d.batches[0]
	}
	d.throughput = figure{mean, low, high, len(d.batches)}
}

// minBatchS keeps a batch from being nothing.
const minBatchS = 0.001

// inBatches fills the batches, which end with the load, and leaves out those that a
// stall touched.
func (d *digest) inBatches(requests []spec.Request, stalled []bool) {
	d.batches, d.allBatches = nil, max(0, int((d.loadedS-d.steadyFrom)/d.batchS+1e-9))
	if d.allBatches == 0 || d.allBatches > mostBatches {
		return
	}
	length := int64(d.batchS * float64(second))
	from := int64(d.loadedS*float64(second)) - int64(d.allBatches)*length
	d.batchedS = seconds(int64(d.allBatches) * length)
	tokens := make([]float64, d.allBatches)
	for i := range requests {
		requests[i].TokensOver(func(begin, until int64, rate float64) { addOver(tokens, begin-from, until-from, length, rate) })
	}
	for i, n := range tokens {
		begin := from + int64(i)*length
		if !anyWithin(stalled, begin, begin+length) {
			d.batches = append(d.batches, n/seconds(length))
		}
	}
}

// mostBatches is of a day in seconds.
const mostBatches = longestEpisode * 10

// addOver spreads a rate per nanosecond over stretches of a length.
func addOver(to []float64, from, until, length int64, rate float64) {
	for k := max(0, from) / length; k < int64(len(to)) && k*length < until; k++ {
		to[k] += float64(rate * float64(min(until, (k+1)*length)-max(from, k*length)))
	}
}

// anyWithin says whether any of the seconds of a stretch is marked.
func anyWithin(marked []bool, from, until int64) bool {
	first := max(0, from/second)
	last := min(int64(len(marked)), (until+second-1)/second)
	return first < last && slices.Contains(marked[first:last], true)
}

// lifetime is how long a request that was served was in flight, the median of those
// that the closed loop sent after its ramp. Where requests outlast the load, no user has
// sent another one, and it is that of those which were sent in the ramp; NaN: none was
// served.
func lifetime(r *spec.EpisodeRecord) float64 {
	ramp := int64(r.Episode.Point.RampS * float64(second))
	var first, later []float64
	for q := range closedLoop(r.Requests) {
		switch {
		case !q.Served():
		case q.Sent >= ramp:
			later = append(later, seconds(q.End-q.Sent))
		default:
			first = append(first, seconds(q.End-q.Sent))
		}
	}
	if len(later) == 0 {
		return median(first)
	}
	return median(later)
}

// figuresOf are the throughputs of an episode, under their names.
func (d *digest) figuresOf() []spec.BenchFigure {
	return []spec.BenchFigure{{Name: Throughput, Unit: unitRate, N: int64(d.throughput.n), Mean: number(d.throughput.value)},
		{Name: GrossThroughput, Unit: unitRate, Mean: number(d.gross)}}
}

const unitRate = "tokens/sec"

// ThroughputOf measures the throughputs of a record by itself, as a case with these
// thresholds would: steady, and gross.
func ThroughputOf(r *spec.EpisodeRecord, th *spec.Thresholds) []spec.BenchFigure {
	d, _, _ := beginDigest(&spec.Plan{Point: r.Episode.Point, Thresholds: *th}, r, &past{})
	return d.figuresOf()
}

// Throughputs are those of the episode that was added last.
func (c *Case) Throughputs() []spec.BenchFigure {
	if c.latest == nil {
		return nil
	}
	all := c.latest.figuresOf()
	if c.plan.Profile == spec.ProfileClassic { // the published gate judges what a client without a judge reports
		all[0].Mean = number(c.latest.whole.throughput)
	}
	return all
}
