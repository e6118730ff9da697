package spec

// PreflightSchema names the shape of Preflight.
const PreflightSchema = "aicr.run/preflight/v1alpha1"

// Preflight is what can be said of a recipe and a snapshot on paper: whether the
// cluster is what the recipe wants, and what would become of each check. Nothing
// was contacted for it.
type Preflight struct {
	Schema    string        `json:"schema"`
	Verdict   State         `json:"verdict"` // PASS, FAIL or SKIP
	Reason    string        `json:"reason"`
	Notes     []string      `json:"notes,omitempty"` // what decides nothing, and is worth a look
	Recipe    string        `json:"recipe"`
	Snapshot  string        `json:"snapshot,omitempty"`
	Readiness []Held        `json:"readiness"`
	Phases    []PhaseResult `json:"phases"`
	Unused    []Unused      `json:"unused,omitempty"`
}

// PhaseResult is what became of a phase. One in which everything was skipped is SKIP.
type PhaseResult struct {
	Name   string        `json:"name"`
	State  State         `json:"state"`
	Reason string        `json:"reason"`
	Checks []CheckResult `json:"checks"`
}

// CheckResult is what became of a check.
type CheckResult struct {
	Name     string `json:"name"`
	Declared bool   `json:"declared"` // the recipe asks for it
	State    State  `json:"state"`
	Reason   string `json:"reason"`
	Held     []Held `json:"constraints,omitempty"` // what it was decided by

	NeedsCluster bool `json:"needs_cluster,omitempty"` // nothing else can answer it
}

// Held is a constraint that was held against a snapshot.
type Held struct {
	Name        string    `json:"name"`
	Want        string    `json:"want"`
	Value       string    `json:"value,omitempty"` // what is there
	State       HeldState `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Remediation string    `json:"remediation,omitempty"`
	From        string    `json:"from,omitempty"`
}

// HeldState is what became of a constraint.
type HeldState string

// A constraint is met or not met, or it could not be held: the fact is not known, or
// is no number where one is wanted. That is an error, never a pass.
const (
	HeldMet    HeldState = "met"
	HeldNotMet HeldState = "not met"
	HeldError  HeldState = "error"
)

// PlannedCheck is a check in a plan: whether it runs, and why or why not. Of one that the
// recipe declares and that does not run, Verdict is what it comes to.
type PlannedCheck struct {
	Name     string          `json:"name"`
	Phase    string          `json:"phase"`
	Runs     bool            `json:"runs"`
	Why      string          `json:"why"` // the words of Reason
	TimeoutS float64         `json:"timeout_s,omitempty"`
	Declared bool            `json:"declared,omitempty"` // the recipe asks for it
	From     string          `json:"from,omitempty"`     // the overlay and file that ask for it, where they are known
	Verdict  State           `json:"verdict,omitempty"`  // NOT RUN, or what was decided without running it: FAIL, INCONCLUSIVE, SKIP
	Reason   CheckReason     `json:"reason,omitzero"`
	Evidence []CheckEvidence `json:"evidence,omitempty"`
}

// IsDeclared says whether the recipe asks for the check. Older plans say it by From alone.
func (c *PlannedCheck) IsDeclared() bool { return c.Declared || c.From != "" }

// Decide sets what a check comes to that does not run.
func (c *PlannedCheck) Decide(state State, why CheckReason) {
	c.Runs, c.Verdict, c.Reason, c.Why = false, state, why, why.Text()
}

// Run sets that a check runs.
func (c *PlannedCheck) Run(why CheckReason) {
	c.Runs, c.Verdict, c.Reason, c.Why = true, "", why, why.Text()
}

// PlannedObject is something that a run makes on the cluster, and takes away again.
type PlannedObject struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Image     string `json:"image,omitempty"` // that is pulled for it
	Why       string `json:"why"`
}
