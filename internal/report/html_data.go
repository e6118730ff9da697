package report

import (
	"math"

	"aicr/internal/spec"
)

// htmlData is what the plots are drawn from. Every number in it is one, or null.
type htmlData struct {
	htmlSeries
	Marks   []spec.Mark `json:"marks"`
	Lanes   []spec.Lane `json:"lanes"`
	Against *htmlSeries `json:"against"`
}

// htmlSeries is what both of two runs have on the same axes.
type htmlSeries struct {
	Name          string             `json:"name"`
	Episodes      []htmlEpisodeData  `json:"episodes"`
	Fleet         spec.FleetTrack    `json:"fleet"`
	Distributions []htmlDistribution `json:"distributions"`
}

type htmlEpisodeData struct {
	Number  int      `json:"number"`
	At      float64  `json:"at"`
	Until   float64  `json:"until"`
	Ramp    float64  `json:"ramp"`
	Cut     *float64 `json:"cut"`
	Counted bool     `json:"counted"`
}

// htmlDistribution has quantiles that may be none.
type htmlDistribution struct {
	spec.Distribution
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P99 *float64 `json:"p99"`
	Max *float64 `json:"max"`
}

func newHTMLData(r *spec.Report) htmlData {
	d := htmlData{htmlSeries: newHTMLSeries(r), Marks: []spec.Mark{}, Lanes: []spec.Lane{}}
	for _, m := range r.Marks {
		if known(m.At) {
			m.Kind, m.Text, m.Worker = named(m.Kind), named(m.Text), named(m.Worker)
			d.Marks = append(d.Marks, m)
		}
	}
	for _, l := range r.Lanes {
		l.Worker, l.GPU, l.By = named(l.Worker), named(l.GPU), named(l.By)
		ids := make([]string, len(l.Findings))
		for i, id := range l.Findings {
			ids[i] = named(id)
		}
		l.Findings = ids
		if !known(l.Share) {
			l.Share, l.Known = 0, false
		}
		l.Stalls, l.Silent = knownSpans(l.Stalls), knownSpans(l.Silent)
		d.Lanes = append(d.Lanes, l)
	}
	if r.Against != nil {
		first := newHTMLSeries(r.Against)
		d.Against = &first
	}
	return d
}

func newHTMLSeries(r *spec.Report) htmlSeries {
	s := htmlSeries{Name: runName(r), Episodes: []htmlEpisodeData{}, Fleet: r.Fleet, Distributions: []htmlDistribution{}}
	s.Fleet.Stalls = knownSpans(r.Fleet.Stalls)
	for _, e := range r.Episodes {
		if !known(e.At) || !known(e.Until) {
			continue
		}
		d := htmlEpisodeData{Number: e.Number, At: e.At, Until: e.Until, Cut: knownOnly(e.Cut), Counted: e.Counted}
		if known(e.Point.RampS) {
			d.Ramp = e.Point.RampS
		}
		s.Episodes = append(s.Episodes, d)
	}
	for _, d := range r.Distributions {
		d.Name, d.Of, d.Unit = named(d.Name), named(d.Of), named(d.Unit)
		if d.Counts == nil {
			d.Counts = []int64{}
		}
		s.Distributions = append(s.Distributions, htmlDistribution{Distribution: d, P50: knownOnly(&d.P50), P90: knownOnly(&d.P90), P99: knownOnly(&d.P99), Max: knownOnly(&d.Max)})
	}
	return s
}

// knownOnly is a number, or none.
func knownOnly(v *float64) *float64 {
	if v == nil || !known(*v) {
		return nil
	}
	return v
}

// knownSpans are the stretches that have a beginning and an end.
func knownSpans(spans []spec.Span) []spec.Span {
	all := []spec.Span{}
	for _, s := range spans {
		if known(s.From) && known(s.Until) {
			all = append(all, s)
		}
	}
	return all
}

// total is how long the stretches are, together.
func total(spans []spec.Span) float64 {
	sum := 0.0
	for _, s := range knownSpans(spans) {
		sum += math.Max(0, s.Until-s.From)
	}
	return sum
}

// runName is what a run is called.
func runName(r *spec.Report) string {
	switch {
	case r.Run.ID != "":
		return named(r.Run.ID)
	case r.Kept != "":
		return named(r.Kept)
	case r.Bench != nil:
		return "bench"
	}
	return "run"
}
