package spec

import "math"

// VerdictSchema names the shape of Verdict.
const VerdictSchema = "aicr.run/verdict/v1alpha1"

// NotJudged is the state of a ledger or an expectation that there was nothing to
// judge by. It is never a pass.
const NotJudged State = "NOT JUDGED"

// The ledgers, in the order in which they are always printed.
const (
	Integrity  = "integrity"  // workers, hardware, errors, versions
	Capability = "capability" // throughput, TTFT guardrail, peer shares
	Stability  = "stability"  // stalls
)

// Verdict is verdict.json: what a run means. It follows from the run's other
// files alone.
type Verdict struct {
	Schema  string `json:"schema"`
	Verdict State  `json:"verdict"`
	Reason  string `json:"reason"`
	Profile string `json:"profile"`

	Ledgers      []Ledger   `json:"ledgers"`
	Expectations []Expected `json:"expectations"`
	Findings     []Finding  `json:"findings"`
	Episodes     int        `json:"episodes"` // that counted
	LoadedS      float64    `json:"loadedSeconds"`

	Figures []Figure `json:"figures,omitempty"` // measured, and nothing wanted of them
	Tests   []Walk   `json:"tests,omitempty"`   // the sequential tests, on their way
	Stalls  []Stall  `json:"stalls,omitempty"`
	// Names are what workers are found by whose own names are a runtime's instance ids: a
	// pod, or host:port, by the id.
	Names map[string]string `json:"names,omitempty"`
	Parts []Part            `json:"parts,omitempty"` // of the episodes, that the figures are of
	Notes []string          `json:"notes,omitempty"`
	Plan  string            `json:"plan,omitempty"` // how another one than the run's own was asked for

	// Checks are the results of all checks that the recipe declares, in the catalog's order.
	// Verdict and Reason are of all of them then; what else stands here is of inference-perf.
	Checks []CheckVerdict `json:"checks,omitempty"`
}

// Ledger is one of the three accounts.
type Ledger struct {
	Name   string `json:"name"`
	State  State  `json:"state"` // PASS, FAIL, INCONCLUSIVE, NOT JUDGED
	Reason string `json:"reason"`
}

// Expected is something that was wanted, and what it came to. Effective is what
// was wanted after tolerance and scaling.
type Expected struct {
	Name      string   `json:"name"`
	Want      string   `json:"want"`
	Effective string   `json:"effective"`
	Value     *float64 `json:"value,omitempty"` // absent: not measured
	Low       *float64 `json:"low,omitempty"`
	High      *float64 `json:"high,omitempty"`
	N         int      `json:"n"`
	Unit      string   `json:"unit"`
	State     State    `json:"state"`
	Note      string   `json:"note,omitempty"`
	// Of a sequential test: the values that it decides between.
	Good *float64 `json:"good,omitempty"`
	Bad  *float64 `json:"bad,omitempty"`
}

// Judged is what an expectation came to. One that was not measured did not pass,
// whatever is said of it.
func (e *Expected) Judged() State {
	if e.State == Pass && (e.Value == nil || math.IsNaN(*e.Value) || math.IsInf(*e.Value, 0)) {
		return NotJudged
	}
	return e.State
}

// Figure is a number with its sample size and its interval. Which interval it is
// stands in By.
type Figure struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value,omitempty"` // absent: not measured
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
	N     int      `json:"n"`
	Unit  string   `json:"unit"`
	By    string   `json:"by,omitempty"`
}

// The severities of a Finding.
const (
	SeverityFail    = "fail"
	SeverityInvalid = "invalid"
	SeverityNote    = "note"
)

// The confidences of a Finding.
const (
	ConfidenceVeryHigh = "very high"
	ConfidenceHigh     = "high"
	ConfidenceMedium   = "medium"
	ConfidenceLow      = "low"
)

// Finding is a cause that was found, with its evidence.
type Finding struct {
	ID         string   `json:"id"` // of FindingIDs
	Severity   string   `json:"severity"`
	Confidence string   `json:"confidence"`
	Workers    []string `json:"workers,omitempty"`
	Shown      []string `json:"shown,omitempty"` // the workers as a person finds them, where their names are ids
	GPUs       []string `json:"gpus,omitempty"`
	Summary    string   `json:"summary"`
	Evidence   []string `json:"evidence"`
	Advice     []string `json:"advice"`
}

// Named are the workers as a person finds them.
func (f *Finding) Named() []string {
	if len(f.Shown) == len(f.Workers) {
		return f.Shown
	}
	return f.Workers
}

// Walk is a sequential test after each episode that it took in: it goes on while
// it is between its bounds. At Low or below it has decided for health, at High or
// above against it.
type Walk struct {
	Ledger string    `json:"ledger"`
	Of     string    `json:"of,omitempty"` // where a ledger has several tests: of what; "": of all
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Values []float64 `json:"values"`
}

// Named is what a worker is called to a person: by what it is found by, where its own name
// is a runtime's instance id.
func (v *Verdict) Named(worker string) string {
	if name := v.Names[worker]; name != "" {
		return name
	}
	return worker
}

// Stall is a stretch in which a worker, or the whole fleet, made no progress.
type Stall struct {
	Episode int      `json:"episode"`
	At      float64  `json:"at"` // seconds since the episode's start
	Seconds float64  `json:"seconds"`
	Open    bool     `json:"open,omitempty"`   // it had not ended when the load did
	Worker  string   `json:"worker,omitempty"` // none: the fleet
	GPU     string   `json:"gpu,omitempty"`
	By      []string `json:"by"` // the witnesses: telemetry, client
}

// Part is what counts of an episode: all from Cut on but its stalls, or nothing.
type Part struct {
	Episode int     `json:"episode"`
	Cut     float64 `json:"cut"`     // seconds since the episode's start
	Counted bool    `json:"counted"` // false: the client's audit failed, or nothing was served

	// Tokens a second: of the steady part that no stall touched, which is what is judged,
	// and of all of it; absent: not measured.
	Throughput *float64 `json:"throughput,omitempty"`
	Gross      *float64 `json:"gross,omitempty"`
}

// EpisodeRecord is a recorded episode, whole.
type EpisodeRecord struct {
	Episode  Episode
	Requests []Request
	Series   []Sample
}
