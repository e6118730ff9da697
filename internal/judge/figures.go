package judge

import (
	"math"

	"aicr/internal/spec"
)

// Figures is all that is known of a run whose record nobody has, such as one that
// was published. NaN is not known.
type Figures struct {
	Throughput float64 // tokens/s of the whole run, its start and its end too
	TTFT99     float64 // ms
	InFlight   float64 // of what was to be in flight
}

// AddFigures takes such a run as an episode. No batch, no worker and no second of it
// is known, so that it gives no interval, clears nobody and has no minute in which a
// stall would have been seen: nothing passes by figures alone.
func (c *Case) AddFigures(f Figures) {
	unknown := math.NaN()
	d := &digest{number: len(c.all) + 1, point: c.plan.Point, throughput: notMeasured(), ttft: notMeasured(), gross: f.Throughput,
		ttft50: unknown, ttftMax: unknown, ttftGross: f.TTFT99, inputMean: unknown, outputMean: unknown, cached: unknown,
		host: hostDigest{unknown, unknown, unknown, unknown}, whole: wholeDigest{throughput: f.Throughput, ttft99: f.TTFT99},
		asked: 1, lost: 1} // of the workers' telemetry nothing came
	if !math.IsNaN(f.Throughput) { // all of it stands for the one batch that there is
		d.throughput = figure{f.Throughput, unknown, unknown, 1}
		d.batches, d.allBatches, d.cleanS = []float64{f.Throughput}, 1, c.plan.Thresholds.MinSteadyS
	}
	if !math.IsNaN(f.TTFT99) {
		d.ttft = figure{f.TTFT99, unknown, unknown, 1}
	}
	d.client.Valid = true // unless it is known better
	if !math.IsNaN(f.InFlight) {
		d.client = spec.BenchClient{InFlightAsked: c.plan.Point.Concurrency, InFlight: number(f.InFlight)}
		d.client.Reasons = Audit(&d.client, &c.plan.Thresholds)
		d.client.Valid = len(d.client.Reasons) == 0
	}
	c.all = append(c.all, d)
}
