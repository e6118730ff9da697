package judge

import (
	"math"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Doubling is what more load brought: the one criterion by which a load is called past
// the knee, by a validation at its operating point, and by aicr knee at the point that
// it proposes.
type Doubling struct {
	From       int     `json:"from"` // in flight
	To         int     `json:"to"`
	Elasticity float64 `json:"elasticity"` // d ln(throughput) / d ln(in flight): 1 doubles it, 0 brings nothing
	Unsure     float64 `json:"unsure"`     // half of its interval, 95 %, by the batches of both
}

// kneeMargin is the one margin of elasticity. A point is proposed only where the curve
// of the levels is this much above the least that pays, and a load is called past the
// knee only where it was measured this much below, or below by more than it is unsure.
const kneeMargin = 0.05

// Past says whether the load is past the knee, by an elasticity that is at least so much
// below it.
func (d Doubling) Past(least float64) bool { return d.Elasticity+d.margin() < least }

// Pays says whether the load that was doubled to is worth it. NaN: it was not measured.
func (d Doubling) Pays(least float64) bool { return d.Elasticity >= least }

// Near says whether one more look could turn what is said of it.
func (d Doubling) Near(least float64) bool { return math.Abs(d.Elasticity-least) < kneeMargin }

func (d Doubling) margin() float64 { return max(kneeMargin, d.Unsure) }

// notDoubled is a load of which nothing is known at half of it.
func notDoubled() Doubling { return Doubling{Elasticity: math.NaN(), Unsure: math.NaN()} }

// doublingOf compares throughputs at two loads. Scatter is the ln-sd from one episode to
// the next, which the batches of one do not show; 0: not known.
func doublingOf(from, to int, half, full figure, scatter float64, th *spec.Thresholds) Doubling {
	c := float64(to) / float64(from)
	if from < 1 || c <= 1 || !(half.value > 0) || !(full.value > 0) {
		return notDoubled()
	}
	unsure := math.Hypot(half.relative(scatter, th), full.relative(scatter, th))
	return Doubling{From: from, To: to, Elasticity: math.Log(full.value/half.value) / math.Log(c), Unsure: unsure / math.Log(c)}
}

// relative is half of a figure's interval, of its logarithm, and no less than what episodes
// scatter by; what they usually scatter by where neither is known.
func (f figure) relative(scatter float64, th *spec.Thresholds) float64 {
	const deviations = 2 // of 95 %
	half := math.Log(f.high/f.low) / 2
	if !(half < deviations*th.Sigma) {
		half = deviations * th.Sigma
	}
	return max(half, deviations*scatter)
}

// Measure compares what was measured at a proposal with looks at half of it.
func (p *KneeProposal) Measure(looks, episodes []KneeLevel, th *spec.Thresholds) Doubling {
	if len(looks) == 0 {
		return notDoubled()
	}
	return doublingOf(looks[0].InFlight, p.InFlight, overLevels(looks), overLevels(episodes), 0, th)
}

// overLevels is the geometric mean of the levels that count, with the interval that their
// spread gives, or that of the only one.
func overLevels(levels []KneeLevel) figure {
	var logs []float64
	only := notMeasured()
	for i := range levels {
		if t := &levels[i].Throughput; levels[i].NotUsed == "" && t.Value != nil && *t.Value > 0 {
			logs = append(logs, math.Log(*t.Value))
			only = figure{*t.Value, valueOf(t.Low), valueOf(t.High), 1}
		}
	}
	if len(logs) < 2 {
		return only
	}
	mean, low, high := stats.MeanInterval(logs, confidence)
	return figure{math.Exp(mean), math.Exp(low), math.Exp(high), len(logs)}
}

// spoilt is why an episode's throughput is not that of the whole fleet at its load.
type spoilt uint8

const (
	unspoilt spoilt = iota
	spoiltByWorker
	spoiltByClient
	spoiltByStalls
	spoiltByErrors
)

func (s spoilt) words() string {
	return map[spoilt]string{spoiltByWorker: "lost a worker", spoiltByClient: "failed the client's audit",
		spoiltByStalls: "has too little steady time without a stall", spoiltByErrors: "has too many failed requests"}[s]
}

// spoiltBy says why: with a worker gone, or errors, its throughput is that of something else.
func (d *digest) spoiltBy(th *spec.Thresholds) spoilt {
	for _, w := range d.workers {
		if w.absent == left {
			return spoiltByWorker
		}
	}
	switch {
	case !d.client.Valid:
		return spoiltByClient
	case !d.judgeable(th):
		return spoiltByStalls
	case float64(d.errors.failed) > th.ErrorShare*float64(d.requests.Sent):
		return spoiltByErrors
	}
	return unspoilt
}

func (d *digest) comparable(th *spec.Thresholds) bool { return d.spoiltBy(th) == unspoilt }

// notDoubledBecause says which of the two loads could not be compared with the other.
func (ev *Evidence) notDoubledBecause() string {
	var parts []string
	for _, d := range []*digest{ev.half, ev.episodes[0]} {
		if why := d.spoiltBy(ev.th); why != unspoilt {
			parts = append(parts, d.title()+" "+why.words())
		}
	}
	if len(parts) == 0 {
		return "one of the two loads made no tokens"
	}
	return join(parts)
}
