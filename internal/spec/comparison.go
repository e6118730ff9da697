package spec

// ComparisonSchema names the shape of Comparison.
const ComparisonSchema = "aicr.run/comparison/v1alpha1"

// What a comparison says of the second run.
const (
	IsBetter   = "better"
	IsWorse    = "worse"
	IsMixed    = "mixed" // better in one thing, worse in another
	CannotTell = "cannot tell"
)

// Comparison is what two runs say of each other.
type Comparison struct {
	Schema  string     `json:"schema"`
	Says    string     `json:"says"` // of the second run
	Reason  string     `json:"reason"`
	Runs    []Side     `json:"runs"`
	Figures []Compared `json:"figures"`
	Notes   []string   `json:"notes,omitempty"`

	// Together is how sure all the figures' intervals are at once, Each each of them.
	Together float64 `json:"together"`
	Each     float64 `json:"each"`
}

// Side is one of the two.
type Side struct {
	Run      string  `json:"run"`
	Verdict  State   `json:"verdict"`
	Episodes int     `json:"episodes"` // valid ones
	LoadedS  float64 `json:"loadedSeconds"`
	Stalls   int     `json:"stalls"`
}

// Compared is one figure of both. Ratio is the second to the first.
type Compared struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	First  *float64 `json:"first,omitempty"`
	Second *float64 `json:"second,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Says   string   `json:"says"`
}
