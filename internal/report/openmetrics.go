package report

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// OpenMetrics writes what a run came to as gauges, so that one file is good for whoever
// reads OpenMetrics and for whoever reads the older text of Prometheus. Of what was not
// measured there is no series.
func OpenMetrics(w io.Writer, r *spec.Report) error {
	m := &metricPage{families: map[string]*dto.MetricFamily{}, seen: map[string]bool{},
		deployment: []label{{"target", targetName(r.Run.Target)}, {"model", r.Run.Target.Model}}}
	m.verdict(r.Verdict)
	m.checks(r.Verdict.Checks)
	m.expectations(r.Verdict.Expectations)
	m.performance(r)
	m.stalls(r)
	m.findings(r.Verdict.Findings)
	m.requests(r.Episodes)
	m.run(r)

	var b bytes.Buffer
	for _, name := range m.order {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&b, m.families[name]); err != nil {
			return err
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// labelBytes is how long a label's value may be.
const labelBytes = 200

type label struct{ name, value string }

// metricPage is a page of gauges.
type metricPage struct {
	deployment []label // on every series: whose it is
	families   map[string]*dto.MetricFamily
	order      []string
	seen       map[string]bool // names and labels
}

// set adds a series, or leaves it out where there is no value. One that is there already
// stays: two names may look alike when they are fit to be shown.
func (m *metricPage) set(name, help string, value *float64, labels ...label) {
	if measured(value) == nil {
		return
	}
	key := []string{name}
	metric := &dto.Metric{Gauge: &dto.Gauge{Value: value}}
	for _, l := range slices.Concat(m.deployment, labels) {
		if text := layout.Shown(l.value, labelBytes); text != "" {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &l.name, Value: &text})
			key = append(key, l.name, text)
		}
	}
	series := strings.Join(key, "\x00")
	if m.seen[series] {
		return
	}
	m.seen[series] = true
	f := m.families[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
		m.families[name] = f
		m.order = append(m.order, name)
	}
	f.Metric = append(f.Metric, metric)
}

// states sets one series a state, of which one is 1.
func (m *metricPage) states(name, help string, is spec.State, all []spec.State, labels ...label) {
	for _, s := range all {
		m.set(name, help, gaugeIf(s == is), slices.Concat(labels, []label{{"state", string(s)}})...)
	}
}

func (m *metricPage) verdict(v *spec.Verdict) {
	m.states("aicr_verdict", "The verdict of the last run: 1 for the state that it is in.", v.Verdict,
		[]spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.Invalid, spec.Skip})
	for _, l := range v.Ledgers {
		m.states("aicr_ledger", "The ledgers of the last run: 1 for the state that each is in.", l.State,
			[]spec.State{spec.Pass, spec.Fail, spec.Inconclusive, spec.NotJudged}, label{"ledger", l.Name})
	}
}

func (m *metricPage) expectations(all []spec.Expected) {
	for _, e := range all {
		labels := []label{{"name", e.Name}, {"unit", e.Unit}}
		m.set("aicr_expectation_value", "What was measured of an expectation, in its unit.", e.Value, labels...)
		m.set("aicr_expectation_low", "The lower end of the interval of an expectation.", e.Low, labels...)
		m.set("aicr_expectation_high", "The upper end of the interval of an expectation.", e.High, labels...)
		if measured(e.Value) != nil {
			m.set("aicr_expectation_samples", "How many samples an expectation was measured with.", gaugeOf(e.N), labels...)
		}
		if state := e.Judged(); state == spec.Pass || state == spec.Fail {
			m.set("aicr_expectation_met", "Whether an expectation was met. None: it could not be told.", gaugeIf(state == spec.Pass), labels...)
		}
	}
}

// performance is what people draw over months, in base units.
func (m *metricPage) performance(r *spec.Report) {
	for _, f := range r.Verdict.Figures {
		switch f.Name {
		case "throughput":
			m.throughput(f.Value, f.Low, f.High)
		case "ttft-p99":
			m.firstToken(f.Value, f.Low, f.High)
		}
	}
	if r.Bench == nil {
		return
	}
	judged := slices.ContainsFunc(r.Bench.Figures, func(f spec.BenchFigure) bool { return f.Name == "throughput" })
	for _, f := range r.Bench.Figures {
		switch {
		case f.Name == "throughput", f.Name == "output throughput" && !judged: // an open loop has no steady part
			m.throughput(f.Mean, nil, nil)
		case f.Name == "time to first token":
			m.firstToken(f.P99, nil, nil)
		}
	}
}

func (m *metricPage) throughput(value, low, high *float64) {
	m.set("aicr_throughput_tokens_per_second", "Tokens that the deployment made in a second of load.", value)
	m.set("aicr_throughput_low_tokens_per_second", "The lower end of the interval of the throughput.", low)
	m.set("aicr_throughput_high_tokens_per_second", "The upper end of the interval of the throughput.", high)
}

func (m *metricPage) firstToken(value, low, high *float64) {
	m.set("aicr_ttft_p99_seconds", "The 99th percentile of the time to the first token.", inSeconds(value))
	m.set("aicr_ttft_p99_low_seconds", "The lower end of the interval of the time to the first token.", inSeconds(low))
	m.set("aicr_ttft_p99_high_seconds", "The upper end of the interval of the time to the first token.", inSeconds(high))
}

// stalls are those of the workers and of the whole fleet. Where stability was judged, a
// worker without one has zero; where it was not, only what was seen is told.
func (m *metricPage) stalls(r *spec.Report) {
	type sum struct {
		n, seconds float64
		gpu        string // as the first stall says that knows, or else the lane
	}
	sums := map[string]*sum{} // by worker; "" is the fleet
	of := func(worker string) *sum {
		worker = layout.Shown(worker, labelBytes)
		if sums[worker] == nil {
			sums[worker] = &sum{}
		}
		return sums[worker]
	}
	judged := slices.ContainsFunc(r.Verdict.Ledgers, func(l spec.Ledger) bool { return l.Name == spec.Stability && l.State != spec.NotJudged })
	if judged {
		of("")
		for _, l := range r.Lanes {
			of(l.Worker)
		}
	}
	for _, s := range r.Verdict.Stalls {
		all := of(r.Verdict.Named(s.Worker))
		all.n++
		all.seconds += s.Seconds
		all.gpu = cmp.Or(all.gpu, s.GPU)
	}
	for _, l := range r.Lanes {
		if s := sums[layout.Shown(l.Worker, labelBytes)]; s != nil {
			s.gpu = cmp.Or(s.gpu, l.GPU)
		}
	}
	for _, worker := range slices.Sorted(maps.Keys(sums)) {
		s := sums[worker]
		if worker == "" {
			m.set("aicr_fleet_stalls", "How often the whole fleet stood still in the last run.", &s.n)
			m.set("aicr_fleet_stall_seconds", "How long the whole fleet stood still in the last run.", &s.seconds)
			continue
		}
		labels := []label{{"worker", worker}, {"gpu", s.gpu}}
		m.set("aicr_stalls", "How often a worker stood still in the last run.", &s.n, labels...)
		m.set("aicr_stall_seconds", "How long a worker stood still in the last run.", &s.seconds, labels...)
	}
}

func (m *metricPage) findings(all []spec.Finding) {
	type key struct{ id, severity string }
	counts := map[key]int{}
	for _, f := range all {
		counts[key{f.ID, f.Severity}]++
	}
	for _, f := range all {
		m.set("aicr_findings", "What the last run found, by its page in the documentation.", gaugeOf(counts[key{f.ID, f.Severity}]),
			label{"id", f.ID}, label{"severity", f.Severity})
	}
}

// requests counts those of every episode, and the sentinel's too.
func (m *metricPage) requests(episodes []spec.ReportEpisode) {
	if len(episodes) == 0 {
		return
	}
	var all spec.RequestCounts
	for _, e := range episodes {
		for _, c := range []spec.RequestCounts{e.Requests, e.Sentinel} {
			all.Served += c.Served
			all.Failed += c.Failed
			all.Interrupted += c.Interrupted
		}
	}
	const name, help = "aicr_requests", "The requests of the last run, by how they ended."
	m.set(name, help, gaugeOf(all.Served), label{"outcome", "served"})
	m.set(name, help, gaugeOf(all.Failed), label{"outcome", "failed"})
	m.set(name, help, gaugeOf(all.Interrupted), label{"outcome", "interrupted"})
}

func (m *metricPage) run(r *spec.Report) {
	m.set("aicr_episodes", "The episodes that the verdict of the last run rests on.", gaugeOf(r.Verdict.Episodes))
	m.set("aicr_loaded_seconds", "How long those episodes were under load.", &r.Verdict.LoadedS)
	_, began := stampOf(r.Run.Start)
	_, ended := stampOf(r.Run.End)
	if began || ended { // a run that was killed grows old too
		_, end := checkSpan(r)
		at := float64(end.UnixMilli()) / 1e3
		m.set("aicr_run_timestamp_seconds", "When the last run ended; of one that did not end, when its last episode did.", &at)
	}
	m.set("aicr_run_info", "The last run.", gaugeIf(true), label{"run", r.Run.ID}, label{"version", r.Run.Version}, label{"profile", r.Verdict.Profile})
}

func gaugeIf(is bool) *float64 {
	v := 0.0
	if is {
		v = 1
	}
	return &v
}

func gaugeOf(n int) *float64 {
	v := float64(n)
	return &v
}

func inSeconds(ms *float64) *float64 {
	if ms == nil {
		return nil
	}
	v := math.Round(*ms*1e6) / 1e9 // to the nanosecond, without the crumbs of a division
	return &v
}
