package judge

import (
	"maps"
	"math"
	"slices"

	"aicr/internal/spec"
)

// Tally sums up an observation as it goes: of everything that was asked how
// often it answered, and within what bounds its values moved. It is not safe for
// concurrent use.
type Tally struct {
	rows map[string]*TallyRow // by source and name
}

// TallyRow is what a Tally has of one worker, GPU, node or frontend.
type TallyRow struct {
	Source, Name, Instance string
	Samples, Gaps          int
	LastGap                string // the latest reason
	FirstT, LastT          int64
	Values                 map[string]Bounds  // gauges, by the value's name in its sample
	Grown                  map[string]float64 // counters: by how much, across resets
	Throttle               map[string]int     // reasons, by how many samples had them; nil when never measured
	NotMeasured            map[string]string
	Derived                map[string]string

	counts map[string]float64
	silent int // gaps in a row, up to the latest sample
}

// Silent says that there was no answer, or none any more at the end, or that what answered
// told no value at all, or of a worker neither what it runs nor what it makes.
func (r *TallyRow) Silent() bool {
	return !r.Measured() || r.silent >= 2 || r.Source == spec.SourceWorker && !r.work()
}

// work reports whether it is known what a worker runs, or what it makes.
func (r *TallyRow) work() bool {
	for _, name := range []string{"running", "in_flight", "tokens_per_s"} {
		if r.Values[name].N > 0 {
			return true
		}
	}
	_, told := r.Grown["generated_tokens"]
	return told
}

// Measured says whether any value was ever told.
func (r *TallyRow) Measured() bool { return len(r.Values)+len(r.Grown) > 0 || r.Throttle != nil }

// Bounds are the least, the greatest and the mean of a value.
type Bounds struct {
	N              int
	Min, Max, Mean float64
}

// NewTally makes an empty one.
func NewTally() *Tally { return &Tally{rows: map[string]*TallyRow{}} }

// Rows lists what was observed, by source and name.
func (t *Tally) Rows() []*TallyRow {
	var rows []*TallyRow
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		rows = append(rows, t.rows[key])
	}
	return rows
}

// Add counts a sample.
func (t *Tally) Add(s spec.Sample) {
	key := s.Source + "\x00" + s.Name
	r := t.rows[key]
	if r == nil {
		if len(t.rows) >= mostRows {
			t.forgetOldest()
		}
		r = &TallyRow{Source: s.Source, Name: s.Name, FirstT: s.T, Values: map[string]Bounds{}, Grown: map[string]float64{}, counts: map[string]float64{}}
		t.rows[key] = r
	}
	r.Instance, r.LastT = s.Instance, s.T
	if s.NotMeasured != nil || s.Derived != nil {
		r.NotMeasured, r.Derived = maps.Clone(s.NotMeasured), s.Derived
	}
	if s.Gap == "" {
		r.silent = 0
		t.settle(&s, r)
	} else {
		r.silent++
		r.Gaps++
		r.LastGap = s.Gap
		if ofProxy(&s) { // what it told before was of no worker
			r.Samples, r.Values, r.Grown = 0, map[string]Bounds{}, map[string]float64{}
		}
		return
	}
	r.Samples++
	switch {
	case s.Worker != nil:
		w := s.Worker
		r.gauge("running", w.Running)
		r.gauge("waiting", w.Waiting)
		r.gauge("deferred", w.Deferred)
		r.gauge("asleep", w.Asleep)
		r.gauge("in_flight", w.InFlight)
		r.gauge("kv_usage", w.KVUsage)
		r.gauge("tokens_per_s", w.TokensPerS)
		r.counter("generated_tokens", w.Generated)
		r.counter("ended_tokens", w.EndedTokens)
		r.counter("prompt_tokens", w.PromptTokens)
		r.counter("prefix_queries", w.PrefixQueries)
		r.counter("prefix_hits", w.PrefixHits)
		r.counter("preemptions", w.Preemptions)
		r.counter("ended", w.Ended)
		r.counter("failed", w.Failed)
		r.counter("aborted", w.Aborted)
		r.counter("rejected", w.Rejected)
	case s.GPU != nil:
		g := s.GPU
		r.gauge("utilization", g.Utilization)
		r.gauge("power_w", g.PowerW)
		r.gauge("sm_clock_mhz", g.SMClockMHz)
		r.gauge("temperature_c", g.TemperatureC)
		r.gauge("memory_used_mib", g.MemoryUsed)
		r.gauge("xid", g.XID)
		r.gauge("row_remap_failure", g.RemapFailure)
		r.counter("ecc_double_bit", g.DoubleBit)
		if g.Throttle != nil {
			if r.Throttle == nil {
				r.Throttle = map[string]int{}
			}
			for _, why := range *g.Throttle {
				if _, known := r.Throttle[why]; !known && len(r.Throttle) >= mostReasons {
					why = otherReasons
				}
				r.Throttle[why]++
			}
		}
	case s.Node != nil:
		n := s.Node
		r.gauge("cpu_pressure", n.CPUPressure)
		r.gauge("memory_pressure", n.MemoryPressure)
		r.gauge("io_pressure", n.IOPressure)
		r.gauge("load1", n.Load1)
	case s.Frontend != nil:
		f := s.Frontend
		r.gauge("in_flight", f.InFlight)
		r.gauge("queued", f.Queued)
		r.gauge("busy", f.Busy)
		r.counter("served", f.Served)
		r.counter("failed", f.Failed)
		r.counter("tokens", f.Tokens)
		r.counter("stalls", f.Stalls)
	}
}

// mostReasons is how many reasons of a GPU's low clocks are told apart: an exporter has a
// dozen, and one that has others each time must not fill the memory.
const (
	mostReasons  = 64
	otherReasons = "other reasons"
)

// mostRows is how many things are told apart. Where names change all the time, who
// was heard longest ago goes.
const mostRows = 4096

func (t *Tally) forgetOldest() {
	oldest := ""
	for key, r := range t.rows {
		if o := t.rows[oldest]; o == nil || r.LastT < o.LastT || r.LastT == o.LastT && key < oldest {
			oldest = key
		}
	}
	delete(t.rows, oldest)
}

// settle gives a thing that has a name now the gaps of the time when only its place
// was known.
func (t *Tally) settle(s *spec.Sample, r *TallyRow) {
	key := s.Source + "\x00" + s.Instance
	if before := t.rows[key]; before != nil && before != r && before.Samples == 0 && s.Instance != "" {
		r.Gaps += before.Gaps
		r.FirstT = min(r.FirstT, before.FirstT)
		delete(t.rows, key)
	}
}

func (r *TallyRow) gauge(name string, v *float64) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return
	}
	delete(r.NotMeasured, name) // as a rate, which takes two samples
	b := r.Values[name]
	if b.N == 0 {
		b.Min, b.Max = *v, *v
	}
	b.N++
	b.Min, b.Max = min(b.Min, *v), max(b.Max, *v)
	b.Mean += *v/float64(b.N) - b.Mean/float64(b.N) // the difference itself may be no number
	r.Values[name] = b
}

// counter adds what a counter has grown by. One that went down has begun anew,
// and all that it has now is new.
func (r *TallyRow) counter(name string, v *float64) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return
	}
	delete(r.NotMeasured, name)
	last, known := r.counts[name]
	r.counts[name] = *v
	grown := 0.0
	switch {
	case !known:
	case *v < last:
		grown = *v
	default:
		grown = *v - last
	}
	if sum := r.Grown[name] + grown; !math.IsInf(sum, 0) {
		r.Grown[name] = sum
	}
}
