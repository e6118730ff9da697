package spec

import (
	"cmp"
	"slices"
	"strings"
)

// BenchSchema names the shape of Bench.
const BenchSchema = "aicr.run/bench/v1alpha1"

// State is how a judgement came out.
type State string

// The states. They are five different things: what could not be measured is
// never a pass.
const (
	Pass         State = "PASS"
	Fail         State = "FAIL"
	Inconclusive State = "INCONCLUSIVE"
	Invalid      State = "INVALID"
	Skip         State = "SKIP"
)

// Bench is the result of one load run. Times are in the unit that the field's
// name or Unit tells; a figure that does not exist is left out, never 0.
type Bench struct {
	Schema  string `json:"schema"`
	Verdict State  `json:"verdict"`
	Reason  string `json:"reason"`

	Version string `json:"version"` // of the program
	Command string `json:"command"` // without secrets
	Start   string `json:"start"`   // RFC 3339
	End     string `json:"end"`

	Target   BenchTarget    `json:"target"`
	Workload BenchWorkload  `json:"workload"`
	Schedule BenchSchedule  `json:"schedule"`
	Requests BenchRequests  `json:"requests"`
	Figures  []BenchFigure  `json:"figures"`
	Phases   []BenchPhase   `json:"phases"`
	Workers  []BenchWorker  `json:"workers,omitempty"`
	Rosetta  []BenchRosetta `json:"definitions,omitempty"`
	Sentinel []BenchFigure  `json:"sentinel,omitempty"`
	Client   BenchClient    `json:"client"`
	Notes    []string       `json:"notes,omitempty"`
	Files    []string       `json:"files,omitempty"`
}

// BenchTarget is the server, and what the probe found out about it.
type BenchTarget struct {
	URL           string         `json:"url"`
	Model         string         `json:"model"`
	Wire          string         `json:"wire"`
	ResolveMS     float64        `json:"resolve_ms"`
	FirstAnswerMS float64        `json:"first_answer_ms,omitempty"`
	ProbeRequests int            `json:"probe_requests"`
	Refused       []BenchRefusal `json:"refused_fields,omitempty"`
	NamesWorkers  bool           `json:"names_workers"`
	Nagle         string         `json:"nagle"`                        // on, off or unknown
	Closes        bool           `json:"closes_connections,omitempty"` // after each answer, without having said so
}

// BenchRefusal is a field of the request that the server does not take.
type BenchRefusal struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// BenchWorkload is what was asked, beside what came of it.
type BenchWorkload struct {
	Prompts string     `json:"prompts"` // unique, recycled N, a file
	Seed    uint64     `json:"seed"`
	SHA256  string     `json:"sha256"` // of the request sequence
	Input   BenchCount `json:"input_tokens"`
	Output  BenchCount `json:"output_tokens"`
	Tokens  string     `json:"tokens_by"` // usage, or chunks where the server does not count

	// The check of the server's count: what it counted, divided by the events with
	// content that it sent; and in how many answers it counted fewer than it sent.
	TokensPerChunk *float64 `json:"tokens_per_chunk,omitempty"`
	Undercounted   int      `json:"undercounted,omitempty"`
}

// BenchCount is a length in tokens. Observed is the mean of the served requests.
type BenchCount struct {
	Asked    *float64 `json:"asked,omitempty"`
	Observed *float64 `json:"observed,omitempty"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Cached   *float64 `json:"cached_share,omitempty"` // of the prompt tokens, where the server tells
}

// BenchSchedule is when requests were sent.
type BenchSchedule struct {
	Concurrency   int     `json:"concurrency,omitempty"`
	RampS         float64 `json:"ramp_s,omitempty"`
	Rate          float64 `json:"request_rate,omitempty"`
	Pattern       string  `json:"arrival_pattern,omitempty"`
	Smoothness    float64 `json:"arrival_smoothness,omitempty"`
	Count         int64   `json:"request_count,omitempty"`
	DurationS     float64 `json:"duration_s,omitempty"`
	WarmupCount   int64   `json:"warmup_request_count,omitempty"`
	SentinelRate  float64 `json:"sentinel_rate,omitempty"`
	NewConnection bool    `json:"connection_per_request,omitempty"`
}

// BenchRequests counts how requests ended.
type BenchRequests struct {
	Sent        int            `json:"sent"`
	Served      int            `json:"served"`
	Failed      int            `json:"failed"`
	Interrupted int            `json:"interrupted"`
	Classes     map[string]int `json:"classes"`
	Failures    []BenchFailure `json:"failures,omitempty"`

	// Resent were sent once more on a new connection, since the server had closed the kept
	// one without a byte of an answer. Their latencies count from the first time.
	Resent int `json:"resent,omitempty"`

	// Unsent were due and held back by the cap on requests in flight of an open
	// loop until its time was up.
	Unsent int64 `json:"unsent,omitempty"`

	SentinelSent   int `json:"sentinel_sent,omitempty"`
	SentinelFailed int `json:"sentinel_failed,omitempty"`
}

// BenchFailure is a message and how often it came.
type BenchFailure struct {
	Class   string `json:"class"`
	Status  int    `json:"status,omitempty"`
	Message string `json:"message"`
	Count   int    `json:"count"`
}

// BenchFigure is one figure. WithFailures has the percentiles in which a failed
// request counts as infinitely slow: one that is infinite is "inf".
type BenchFigure struct {
	Name         string         `json:"name"`
	Unit         string         `json:"unit"`
	N            int64          `json:"n,omitempty"`
	Mean         *float64       `json:"mean,omitempty"`
	P50          *float64       `json:"p50,omitempty"`
	P90          *float64       `json:"p90,omitempty"`
	P95          *float64       `json:"p95,omitempty"`
	P99          *float64       `json:"p99,omitempty"`
	Min          *float64       `json:"min,omitempty"`
	Max          *float64       `json:"max,omitempty"`
	WithFailures map[string]any `json:"with_failures,omitempty"`
	Approximate  bool           `json:"approximate,omitempty"` // percentiles within 0.1 %
}

// BenchPhase is a part of the run.
type BenchPhase struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
}

// BenchWorker is what one worker did, by the client's own clock.
type BenchWorker struct {
	Worker   string   `json:"worker"`
	Shown    string   `json:"shown,omitempty"` // what a person finds it by, where that is not its name
	Requests int      `json:"requests"`
	Failed   int      `json:"failed"`
	Tokens   int64    `json:"tokens"`
	Share    float64  `json:"token_share"`
	TTFT50MS *float64 `json:"ttft_p50_ms,omitempty"`
	ITLMS    *float64 `json:"itl_mean_ms,omitempty"`
	MaxGapMS float64  `json:"max_gap_ms"`
}

// Named is what the worker is called to a person.
func (w *BenchWorker) Named() string { return cmp.Or(w.Shown, w.Worker) }

// BenchRosetta is what another tool would have called and computed.
type BenchRosetta struct {
	Measure    string   `json:"measure"`
	Tool       string   `json:"tool"`
	Name       string   `json:"name,omitempty"`
	Definition string   `json:"definition"`
	Unit       string   `json:"unit,omitempty"`
	Mean       *float64 `json:"mean,omitempty"`
	P50        *float64 `json:"p50,omitempty"`
	P99        *float64 `json:"p99,omitempty"`
	Rank       string   `json:"percentiles_by,omitempty"`
	Caveat     string   `json:"caveat,omitempty"`
}

// BenchClient is the engine's audit of itself.
type BenchClient struct {
	Valid             bool          `json:"valid"`
	Reasons           []BenchReason `json:"reasons,omitempty"`
	InFlightAsked     int           `json:"in_flight_asked,omitempty"`
	InFlight          *float64      `json:"in_flight_mean,omitempty"`
	Little            *float64      `json:"in_flight_little,omitempty"`
	SteadyS           float64       `json:"steady_s"`
	SendLateness      BenchSpread   `json:"send_lateness_ms"`
	StampLag          BenchSpread   `json:"stamp_lag_ms"`
	StampLagBy        string        `json:"stamp_lag_by"`
	EventsPerRead     *float64      `json:"events_per_read,omitempty"`
	GCPauses          int64         `json:"gc_pauses"`
	GCPauseMaxMS      float64       `json:"gc_pause_max_ms"`
	SchedLatencyP99MS float64       `json:"sched_latency_p99_ms"`
	CPUSeconds        float64       `json:"cpu_s"`
	Cores             int           `json:"cores"`
	ThrottledPeriods  *int64        `json:"cpu_throttled_periods,omitempty"`
	ThrottledS        *float64      `json:"cpu_throttled_s,omitempty"`
	CPUPressure       *float64      `json:"cpu_pressure_some,omitempty"`
}

// Limited reports that the client was the limit. It is invalid too where a server sent what
// no request asked for, which is not the client's doing.
func (c *BenchClient) Limited() bool {
	ofTheClient := func(r BenchReason) bool { return !strings.HasPrefix(r.ID, "server/") }
	return !c.Valid && (len(c.Reasons) == 0 || slices.ContainsFunc(c.Reasons, ofTheClient))
}

// BenchReason is why the figures are not the server's.
type BenchReason struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// BenchSpread sums up a distribution of times.
type BenchSpread struct {
	N   int64   `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}
