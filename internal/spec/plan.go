package spec

// PlanSchema names the shape of Plan.
const PlanSchema = "aicr.run/plan/v1alpha1"

// Plan is plan.yaml: what is measured, what is wanted of it, and how it is judged.
// A verdict is a function of the plan and of what was recorded, so that everything
// that a judge needs to know beside the record stands here.
type Plan struct {
	Schema  string         `json:"schema"`
	Profile string         `json:"profile"`
	Point   OperatingPoint `json:"point"`

	// Reference is what capability is held against; nil: there is none for this
	// hardware, and it is held against the floor and the peers alone.
	Reference   *ReferenceFigure `json:"reference,omitempty"`
	Constraints []Constraint     `json:"constraints"`
	Thresholds  Thresholds       `json:"thresholds"`
	Stability   string           `json:"stability"`            // StabilityGate, StabilityReport
	NoFreeGPUs  string           `json:"noFreeGPUs,omitempty"` // NoFreeGPUsFail, NoFreeGPUsSkip; "" is the first

	// Half asks for a short look at half the load before the first episode, which
	// tells whether the operating point is past the knee.
	Half *HalfLook `json:"half,omitempty"`

	Seed  uint64       `json:"seed"`            // of the bootstrap and the workload
	Prior []PriorStall `json:"prior,omitempty"` // stalls of earlier runs, by the stall ledger

	// PriorMinutes is how long those runs were under load, faded alike: counts mean
	// nothing without their time.
	PriorMinutes float64 `json:"prior_minutes,omitempty"`

	Cost   Cost             `json:"cost"`
	Inputs map[string]Input `json:"inputs"` // each with where it came from

	Scenario *Scenario `json:"scenario,omitempty"` // of a simulated target

	Checks    []PlannedCheck  `json:"checks,omitempty"`
	Readiness []Held          `json:"readiness,omitempty"` // what the recipe wants of the cluster, held against the snapshot
	Creates   []PlannedObject `json:"creates,omitempty"`   // on the cluster
	Nodes     []PlannedNode   `json:"nodes,omitempty"`     // of a fleet, in the order of their turns; the rest of the plan is the first one's
	Unused    []Unused        `json:"unused,omitempty"`    // fields of the recipe that nothing is done with
}

// Whether stalls decide, or are only told.
const (
	StabilityGate   = "gate"
	StabilityReport = "report"
)

// What it means that no GPU is free: a failure, unless the recipe says that there is
// nothing to do then.
const (
	NoFreeGPUsSkip = "skip"
	NoFreeGPUsFail = "fail"
)

// ReferenceFigure is a throughput that healthy hardware of this kind was measured
// to have at this operating point.
type ReferenceFigure struct {
	Throughput float64 `json:"throughput"`           // tokens/s, of the whole fleet
	Dispersion float64 `json:"dispersion,omitempty"` // ln-sd between episodes; 0: not known
	N          int     `json:"n,omitempty"`          // episodes that it is of
	From       string  `json:"from"`                 // a recipe's file, the simulator
}

// Constraint is what a recipe wants of a figure. Threshold is in Unit, scaled to
// the fleet in use; Tolerance is a share of it.
type Constraint struct {
	Name       string  `json:"name"` // inference-throughput, inference-ttft-p99
	Comparator string  `json:"comparator"`
	Threshold  float64 `json:"threshold"`
	Unit       string  `json:"unit"`
	Tolerance  float64 `json:"tolerance"`
	From       string  `json:"from"`
}

// The constraints that a figure is held against.
const (
	ConstraintThroughput = "inference-throughput"
	ConstraintTTFT       = "inference-ttft-p99"
)

// HalfLook is a short episode at half the load.
type HalfLook struct {
	Concurrency int     `json:"concurrency"`
	DurationS   float64 `json:"duration_s"`
}

// PriorStall is what earlier runs saw of one GPU or, without a name, of the
// fleet. Count is halved with every week that has passed.
type PriorStall struct {
	GPU    string  `json:"gpu,omitempty"`
	Worker string  `json:"worker,omitempty"`
	Count  float64 `json:"count"`
	Last   string  `json:"last"` // RFC 3339
}

// Cost is what a run takes.
type Cost struct {
	ExpectedEpisodes   int     `json:"expected_episodes"` // of a healthy deployment
	WorstEpisodes      int     `json:"worst_episodes"`
	ExpectedS          float64 `json:"expected_s"`
	WorstS             float64 `json:"worst_s"`
	ExpectedGPUMinutes float64 `json:"expected_gpu_minutes"`
	WorstGPUMinutes    float64 `json:"worst_gpu_minutes"`
}

// PlannedNode is a node of a fleet, and what its turn costs.
type PlannedNode struct {
	Node    string `json:"node"`
	Workers int    `json:"workers"`
	By      string `json:"by"` // how its GPUs are asked for
	Cost    Cost   `json:"cost"`
}

// Input is a value and where it came from.
type Input struct {
	Value string `json:"value"`
	From  string `json:"from"` // flag, env, recipe, scenario, default
	Place string `json:"place,omitempty"`
}
