package spec

import "slices"

// NotRun is the state of a declared check that was not carried out. It is never a pass:
// only one that the user left out (NotAsked) goes with a PASS of the others.
const NotRun State = "NOT RUN"

// CheckVerdict is what became of one check that the recipe declares.
type CheckVerdict struct {
	Name     string          `json:"name"`
	Phase    string          `json:"phase"`
	Verdict  State           `json:"verdict"`           // PASS, FAIL, INCONCLUSIVE, INVALID, SKIP, NOT RUN
	Seconds  float64         `json:"seconds,omitempty"` // 0: it was not run
	Reason   Reason          `json:"reason"`
	Evidence []CheckEvidence `json:"evidence,omitempty"`
	Detail   *Verdict        `json:"detail,omitempty"` // of inference-perf: its own verdict
}

// Reason is why something is in its state: a code for programs, and words for people.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// CheckEvidence is one thing that a check was decided by.
type CheckEvidence struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

// CheckStates are the states of a CheckVerdict.
func CheckStates() []State { return append(verdicts(), NotRun) }

// LeftOut says whether the user left the check out.
func (c *CheckVerdict) LeftOut() bool { return c.Verdict == NotRun && c.Reason.Code == NotAsked }

// WorstOfChecks is the overall verdict of several checks. A check that was not run counts
// as INCONCLUSIVE unless the user left it out, and so does a state that is unknown. Without
// any check that decides it is INCONCLUSIVE: no result is no pass.
func WorstOfChecks(all []CheckVerdict) State {
	worst := len(severityOrder())
	for i := range all {
		if !all[i].LeftOut() {
			worst = min(worst, severityOf(all[i].Verdict))
		}
	}
	if worst == len(severityOrder()) {
		return Inconclusive
	}
	return severityOrder()[worst]
}

// severityOrder has the worst state first.
func severityOrder() []State { return []State{Fail, Invalid, Inconclusive, Pass, Skip} }

func severityOf(s State) int {
	if at := slices.Index(severityOrder(), s); at >= 0 {
		return at
	}
	return slices.Index(severityOrder(), Inconclusive)
}

// Inference is the verdict on inference-perf alone: v itself where the recipe declares no
// checks, and nil where inference-perf was not run.
func (v *Verdict) Inference() *Verdict {
	if v == nil || len(v.Checks) == 0 {
		return v
	}
	for _, c := range v.Checks {
		if c.Detail != nil {
			return c.Detail
		}
	}
	return nil
}
