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

// newHTMLData is that of a run and of the one that it is compared with, which may be nil.
func newHTMLData(run, against *htmlRun) htmlData {
	d := htmlData{htmlSeries: run.series, Marks: []spec.Mark{}, Lanes: run.lanes}
	if against != nil {
		d.Against = &against.series
	}
	for _, m := range run.Marks {
		if known(m.At) {
			m.Kind, m.Text, m.Worker = named(m.Kind), named(m.Text), named(m.Worker)
			d.Marks = append(d.Marks, m)
		}
	}
	return d
}

// newHTMLLanes are the lanes of a run, fit to be shown.
func newHTMLLanes(r *spec.Report) []spec.Lane {
	all := []spec.Lane{}
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
		all = append(all, l)
	}
	return all
}

func newHTMLSeries(r *spec.Report) htmlSeries {
	s := htmlSeries{Episodes: []htmlEpisodeData{}, Fleet: r.Fleet, Distributions: []htmlDistribution{}}
	s.Fleet.Stalls = knownSpans(r.Fleet.Stalls)
	for _, e := range r.Episodes {
		if !known(e.At) || !known(e.Until) {
			continue
		}
		d := htmlEpisodeData{Number: e.Number, At: e.At, Until: e.Until, Cut: measured(e.Cut), Counted: e.Counted}
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
		s.Distributions = append(s.Distributions, htmlDistribution{Distribution: d, P50: measured(&d.P50), P90: measured(&d.P90), P99: measured(&d.P99), Max: measured(&d.Max)})
	}
	return s
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
