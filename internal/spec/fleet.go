package spec

// FleetSchema names the shape of FleetVerdict.
const FleetSchema = "aicr.run/fleet/v1alpha1"

// FleetVerdict is what the nodes of a cluster say of each other: each was validated by itself,
// one after the other.
type FleetVerdict struct {
	Schema  string      `json:"schema"`
	Verdict State       `json:"verdict"` // the worst of the nodes' and of Checks, FAIL where one is worse than its peers, INCONCLUSIVE at best where one was not validated
	Reason  string      `json:"reason"`
	Nodes   []FleetNode `json:"nodes"`
	Passed  []PassedBy  `json:"passedBy,omitempty"` // nodes with GPUs that were not validated
	Notes   []string    `json:"notes,omitempty"`

	// Checks are the results of all checks that the recipe declares. The nodes' own verdicts
	// are of inference-perf.
	Checks []CheckVerdict `json:"checks,omitempty"`

	// Together is how sure all the intervals are at once, Each each of them.
	Together float64 `json:"together"`
	Each     float64 `json:"each"`
}

// FleetNode is one node beside its peers.
type FleetNode struct {
	Node     string        `json:"node"`
	Run      string        `json:"run"`
	Verdict  State         `json:"verdict"`
	Reason   string        `json:"reason"`
	GPU      string        `json:"gpu,omitempty"` // its peers are those with the same; "": not known
	Workers  int           `json:"workers"`
	Episodes int           `json:"episodes"` // valid ones
	LoadedS  float64       `json:"loadedSeconds"`
	Figures  []FleetFigure `json:"figures"`
	Outside  []string      `json:"outside,omitempty"` // figures that are worse than its peers show
}

// FleetFigure is one figure of a node. Ratio is the node's to its peers', with its
// interval.
type FleetFigure struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Value   *float64 `json:"value,omitempty"`
	Ratio   *float64 `json:"ratio,omitempty"`
	Low     *float64 `json:"low,omitempty"`
	High    *float64 `json:"high,omitempty"`
	Outside bool     `json:"outside"`
}

// PassedBy is a node that was not validated, and why.
type PassedBy struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
	Held   string `json:"held,omitempty"` // by whom its GPUs are

	// LeftOut says that it was left out on purpose: by its labels, or since fewer nodes were
	// asked for. Any other one keeps the fleet from a PASS.
	LeftOut bool `json:"leftOut,omitempty"`
}
