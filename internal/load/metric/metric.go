// Package metric turns the records of a run into figures. It is pure: records
// in, numbers out, nothing read and nothing printed.
//
// Read Summarize first: it computes what AIPerf would report of the same
// requests, bit for bit, and beside it the percentiles in which a failed request
// counts. The definitions of single figures are the table in definitions.go.
// Rosetta says what other tools would have called and computed.
//
// AIPerf's counts come from the server here (its --use-server-token-count), and
// only a request that load calls OK is a success: AIPerf would also count a
// stream that was cut after its first token.
package metric

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/load"
	"aicr/internal/stats"
)

// Distribution describes one figure. A statistic that is not defined is NaN,
// and N is 0 where a count makes no sense: a rate has a Unit and an Avg only.
type Distribution struct {
	Unit string
	N    int64

	Avg                                  float64
	P1, P5, P10, P25, P50, P75, P90, P95 float64
	P99                                  float64
	Min, Max, Std, Sum                   float64
}

// Scalar is the Distribution of a figure that has a single value.
func Scalar(unit string, v float64) Distribution {
	d := undefined(unit)
	d.Avg = v
	return d
}

func undefined(unit string) Distribution {
	d := Distribution{Unit: unit}
	for _, s := range d.stats() {
		*s = math.NaN()
	}
	return d
}

func (d *Distribution) stats() []*float64 {
	return append(d.percentiles(), &d.Avg, &d.Min, &d.Max, &d.Std, &d.Sum)
}

func (d *Distribution) percentiles() []*float64 {
	return []*float64{&d.P1, &d.P5, &d.P10, &d.P25, &d.P50, &d.P75, &d.P90, &d.P95, &d.P99}
}

// percents are the ranks of Distribution.percentiles.
func percents() [9]float64 { return [9]float64{1, 5, 10, 25, 50, 75, 90, 95, 99} }

func (d *Distribution) setPercentiles(at func(p float64) float64) {
	for i, s := range d.percentiles() {
		*s = at(percents()[i])
	}
}

// scale converts every statistic to another unit.
func (d *Distribution) scale(by float64) {
	if by == 1 {
		return
	}
	for _, s := range d.stats() {
		*s *= by
	}
}

// Figure is a Distribution under AIPerf's name for it.
type Figure struct {
	Tag string
	Distribution
}

// SLO is a limit that a good request keeps, in the unit in which the figure is
// reported: "time_to_first_token", 500 means 500 ms.
type SLO struct {
	Tag   string
	Limit float64
}

// Options say which requests are summarized, and against what.
type Options struct {
	Phases []load.Phase // nil: the main stage
	SLOs   []SLO        // what a good request keeps; none: no goodput

	// RequestedTokens is the output length that every request asked for, or 0
	// where they differ.
	RequestedTokens int32

	// Epoch is the wall-clock time of stamp 0 in nanoseconds. AIPerf keeps such
	// times as floating-point numbers, 256 ns apart; given an Epoch, the figures
	// which it takes from them are rounded alike. With 0 they are exact.
	Epoch int64

	// Start and End bound the stage, as stamps: rates are per second of it.
	// Where both are 0 the first Intended and the last End of any request are
	// taken.
	Start, End int64
}

// Validate reports an SLO for a figure that a single request does not have.
func (o Options) Validate() error {
	for _, s := range o.SLOs {
		if !slices.ContainsFunc(definitions(), func(d definition) bool { return d.tag == s.Tag }) {
			return fmt.Errorf("goodput: %q is not a figure of single requests", s.Tag)
		}
	}
	return nil
}

func (o Options) phases() []load.Phase {
	if o.Phases == nil {
		return mainStage()
	}
	return o.Phases
}

func mainStage() []load.Phase { return []load.Phase{load.Ramp, load.Steady, load.Drain} }

// Summary is what Summarize found.
type Summary struct {
	// Figures are AIPerf's, in the order of its export.
	Figures []Figure

	// WithFailures has the percentiles of time_to_first_token,
	// inter_token_latency and request_latency when each failed request counts as
	// infinitely slow. Interrupted requests are left out: stopping them was not
	// the server's doing.
	WithFailures []Figure

	Requests    int // summarized
	Failed      int // of them, neither OK nor interrupted
	Interrupted int
	Classes     map[load.Class]int

	// Uncounted is the number of served requests for which the server gave no
	// token count, so that events were counted in place of tokens.
	Uncounted int

	// ApproximateGaps says that inter_chunk_latency comes from the pooled
	// histogram, because the stamps of single events were not kept.
	ApproximateGaps bool

	// Swept says that the figures over step functions of time (effective_*,
	// active_*, tokens_in_flight) were computed; see maxSwept.
	Swept bool

	Start, End int64 // the stage's bounds, as used for rates
}

// maxSwept is the largest number of requests whose step functions are computed:
// they take several times the memory of the records themselves.
const maxSwept = 1_000_000

// Get finds a figure by its tag.
func (s *Summary) Get(tag string) (Distribution, bool) {
	i := slices.IndexFunc(s.Figures, func(f Figure) bool { return f.Tag == tag })
	if i < 0 {
		return Distribution{}, false
	}
	return s.Figures[i].Distribution, true
}

// Summarize computes the figures of the chosen requests, sentinels excepted.
// gaps may be nil; it stands in where the log kept no stamps, and only for the
// whole main stage, whose gaps it pools.
func Summarize(log *load.Log, gaps *load.Gaps, opt Options) *Summary {
	records := Select(log, opt)
	s := &Summary{Requests: len(records), Classes: map[load.Class]int{}, Start: opt.Start, End: opt.End}
	served := make([]*load.Record, 0, len(records))
	for _, r := range records {
		s.Classes[r.Class]++
		switch {
		case r.OK():
			served = append(served, r)
			if !r.Has(load.HasUsage) {
				s.Uncounted++
			}
		case r.Class == load.Interrupt:
			s.Interrupted++
		default:
			s.Failed++
		}
	}
	if s.Start == 0 && s.End == 0 {
		s.Start, s.End = bounds(records)
	}

	found := map[string]Distribution{}
	unserved := s.Failed + s.Interrupted
	for _, def := range definitions() {
		values := def.collect(served, &opt)
		if len(values) == 0 {
			continue
		}
		found[def.tag] = describe(values, def) // sorts them
		if !def.failuresCount {
			continue
		}
		if unserved > 0 {
			found["adj_"+def.tag] = adjusted(values, unserved, def)
		}
		if def.tag != "decode_duration" {
			s.WithFailures = append(s.WithFailures, Figure{def.tag, withFailures(values, s.Failed, def)})
		}
	}
	if len(served) == 0 && s.Failed > 0 {
		for _, def := range definitions() {
			if def.failuresCount && def.tag != "decode_duration" {
				s.WithFailures = append(s.WithFailures, Figure{def.tag, withFailures(nil, s.Failed, def)})
			}
		}
	}

	stamps := keptStamps(log, served)
	wholeStage := slices.Equal(opt.phases(), mainStage())
	switch {
	case stamps != nil:
		if values := chunkGaps(stamps); len(values) > 0 {
			found["inter_chunk_latency"] = describe(values, definition{unit: "ms", scale: perMilli})
		}
	case gaps != nil && gaps.Count > 0 && wholeStage:
		found["inter_chunk_latency"] = pooled(gaps)
		s.ApproximateGaps = true
	}

	derive(found, served, unserved, s, opt)
	if len(records) > 0 {
		if s.Swept = len(records) <= maxSwept; s.Swept {
			addSweeps(found, records, stamps, s, opt)
		}
		addScheduleLag(found, records, opt)
	}
	for _, tag := range exportOrder() {
		if d, ok := found[tag]; ok {
			s.Figures = append(s.Figures, Figure{tag, d})
		}
	}
	return s
}

// Select gives the requests that opt asks for, in the order of the log,
// sentinels left out.
func Select(log *load.Log, opt Options) []*load.Record {
	phases := opt.phases()
	var records []*load.Record
	for r := range log.All() {
		if r.Lane != load.Sentinel && slices.Contains(phases, r.Phase) {
			records = append(records, r)
		}
	}
	return records
}

func bounds(records []*load.Record) (start, end int64) {
	for i, r := range records {
		if i == 0 || r.Intended < start {
			start = r.Intended
		}
		end = max(end, r.End)
	}
	return start, end
}

// describe sorts values and computes their statistics, in the unit of def. The
// sum is taken before sorting and the deviation after, since the last bit
// depends on it.
func describe(values []float64, def definition) Distribution {
	d := undefined(def.unit)
	d.N = int64(len(values))
	d.Sum = stats.Sum(values)
	d.Avg = d.Sum / float64(len(values))
	slices.Sort(values)
	d.Min, d.Max = values[0], values[len(values)-1]
	d.Std = stats.Std(values)
	d.setPercentiles(func(p float64) float64 { return stats.PercentileFromBelow(values, p) })
	d.scale(def.scale)
	return d
}

// adjusted is AIPerf's own view of failures, adj_*: nearest rank, interrupted
// requests included.
func adjusted(sorted []float64, failures int, def definition) Distribution {
	all := slices.Grow(slices.Clone(sorted), failures)
	for range failures {
		all = append(all, math.Inf(1))
	}
	d := undefined(def.unit)
	d.N = int64(len(all))
	d.Min = all[0]
	d.setPercentiles(func(p float64) float64 { return stats.PercentileNearest(all, p) })
	d.Avg, d.Max, d.Sum = math.Inf(1), math.Inf(1), math.Inf(1)
	d.scale(def.scale)
	return d
}

func withFailures(sorted []float64, failures int, def definition) Distribution {
	d := undefined(def.unit)
	d.N = int64(len(sorted) + failures)
	d.setPercentiles(func(p float64) float64 { return stats.WithFailures(sorted, failures, p) })
	d.Min, d.Max = stats.WithFailures(sorted, failures, 0), stats.WithFailures(sorted, failures, 100)
	d.scale(def.scale)
	return d
}

// keptStamps gives the content stamps of each served request, or nil when the
// run did not keep those of every one.
func keptStamps(log *load.Log, served []*load.Record) [][]int64 {
	all := make([][]int64, len(served))
	for i, r := range served {
		if all[i] = log.Stamps(r); all[i] == nil {
			return nil
		}
	}
	return all
}

func chunkGaps(stamps [][]int64) []float64 {
	n := 0
	for _, s := range stamps {
		n += max(0, len(s)-1)
	}
	values := make([]float64, 0, n)
	for _, s := range stamps {
		for i := 1; i < len(s); i++ {
			values = append(values, float64(s[i]-s[i-1]))
		}
	}
	return values
}

func pooled(g *load.Gaps) Distribution {
	d := Distribution{
		Unit: "ms", N: g.Count,
		Avg: g.Mean(), Std: g.Std(), Sum: g.Sum, Min: float64(g.Min), Max: float64(g.Max),
	}
	d.setPercentiles(func(p float64) float64 { return g.Quantile(p / 100) })
	d.scale(perMilli)
	return d
}
