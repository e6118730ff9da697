package spec

import (
	"iter"
	"math"
	"strconv"
)

// Report is what every format is made from: what a run came to, and the evidence for
// it, small enough for a page however long the run was. A bench makes one too.
// Stamps are seconds since the run's start.
type Report struct {
	Run     Run
	Kept    string   // the run's folder, as the user names it; "": it was not kept
	Judge   string   // the command that judges the record as it is told here; "": it was not kept
	Page    string   // the command that makes a page of it
	Plan    *Plan    // nil of a bench
	Verdict *Verdict // always there; that of a bench says what it can
	Trend   *Trend   // beside the verdict, and no part of it; may be nil
	Bench   *Bench   // nil of a run

	Episodes      []ReportEpisode
	Marks         []Mark
	Lanes         []Lane // one a worker, by name
	Fleet         FleetTrack
	Distributions []Distribution
	Facts         []Fact
	Notes         []string // what was not as it should be when the record was read

	// Requests gives every request with the number of its episode, as recorded, in
	// order. There may be millions of them: they are read anew each time. Nil: they
	// are not at hand.
	Requests iter.Seq2[RequestOf, error]

	// Against is the first of two runs, and Comparison what they say of each other;
	// this is the second. Both are nil where there is one run.
	Against    *Report
	Comparison *Comparison
}

// Unended reports whether a run's record has a start and no end: it was killed, or it
// still runs. Of a run that was not kept nobody writes down the end.
func (r *Report) Unended() bool {
	return r.Bench == nil && r.Kept != "" && r.Run.Start != "" && r.Run.End == ""
}

// RequestOf is a request of an episode. It is good until the next one is asked for.
type RequestOf struct {
	Episode int
	*Request
}

// ReportEpisode is an episode on the run's clock.
type ReportEpisode struct {
	Episode
	At      float64  // its start
	Until   float64  // the end of its last request or sample
	Cut     *float64 // where what counts of it begins; nil: nobody has said
	Counted bool     // the verdict rests on it

	Throughput *float64 // tokens a second, as it is judged; nil: the judge did not measure it
}

// Lane is one worker over the run. Values on T are those of one scrape or, without
// telemetry, of a second of the client's own record; between two episodes there is
// a value that is none, so that no line joins them.
type Lane struct {
	Worker   string   `json:"worker"`
	GPU      string   `json:"gpu,omitempty"`
	By       string   `json:"by"`       // telemetry, client: who says it
	Findings []string `json:"findings"` // ids of those that name it
	Requests int      `json:"requests"` // by the client
	Failed   int      `json:"failed"`   // by the client
	Tokens   int64    `json:"tokens"`   // by the client
	Share    float64  `json:"share"`    // of the fleet's tokens times the workers: 1 is fair; NaN-free, 0 where nobody knows
	Known    bool     `json:"known"`    // the client knows what it served
	T        Values   `json:"t"`        // seconds since the run's start
	Running  Values   `json:"running"`  // requests
	Waiting  Values   `json:"waiting"`  // requests; all none where nobody tells
	Rate     Values   `json:"rate"`     // tokens/s
	PowerT   Values   `json:"powerT"`   // its GPU's scrapes have times of their own
	Power    Values   `json:"power"`    // watts
	Stalls   []Span   `json:"stalls"`   // when it stood still
	Silent   []Span   `json:"silent"`   // when nobody could tell
}

// Span is a stretch of time.
type Span struct {
	From  float64 `json:"from"`
	Until float64 `json:"until"`
	Open  bool    `json:"open,omitempty"` // it had not ended when the load did
}

// FleetTrack is the deployment as its clients see it, by the client's own record.
type FleetTrack struct {
	T        Values `json:"t"`
	Rate     Values `json:"rate"`     // tokens/s
	TTFT50   Values `json:"ttft50"`   // ms, of the requests sent then
	TTFT99   Values `json:"ttft99"`   // ms
	InFlight Values `json:"inFlight"` // requests
	Failed   Values `json:"failed"`   // requests/s
	Stalls   []Span `json:"stalls"`   // of the whole fleet
}

// Distribution is how often which value came: Counts[i] of them from Edges[i] to
// Edges[i+1]. What is of no episode's steady part is not in it.
type Distribution struct {
	Name   string  `json:"name"`
	Of     string  `json:"of"` // what a value is of
	Unit   string  `json:"unit"`
	N      int64   `json:"n"`
	Edges  Values  `json:"edges"` // rising by equal factors
	Counts []int64 `json:"counts"`
	P50    float64 `json:"p50"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Mark is something that happened at a time.
type Mark struct {
	At     float64 `json:"at"`
	Kind   string  `json:"kind"` // of an Event
	Text   string  `json:"text"`
	Worker string  `json:"worker,omitempty"`
}

// Fact is something about the environment that a reader may need.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Values are numbers of which some may be none, which is NaN here and null in JSON.
// As JSON they have five digits: more than a plot can show.
type Values []float64

// MarshalJSON writes the values short.
func (v Values) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+7*len(v))
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			b = append(b, "null"...)
		default:
			b = strconv.AppendFloat(b, shortened(x), 'f', -1, 64)
		}
	}
	return append(b, ']'), nil
}

// shortened keeps five digits of a number, and no thousandth of a thousandth.
func shortened(x float64) float64 {
	if x == 0 || math.Abs(x) < 1e-6 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-4)
	if unit >= 1 {
		return math.Round(x)
	}
	per := math.Round(1 / unit)
	return math.Round(x*per) / per
}
