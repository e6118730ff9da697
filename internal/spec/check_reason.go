package spec

import (
	"fmt"
	"strings"
)

// CheckReason is why a check is in its state: a code and the arguments of its words. A plan
// keeps it, so that whoever judges the record later comes to the same words.
type CheckReason struct {
	Code string   `json:"code"`
	Args []string `json:"args,omitempty"`
}

// Because makes a CheckReason.
func Because(code string, args ...string) CheckReason { return CheckReason{code, args} }

// The codes of a check that is NOT RUN.
const (
	NotAsked = "not-asked" // the user left it out; by which flag
	NotBuilt = "not-built" // this program cannot run it on such a target; TargetCluster or TargetEndpoint
	FailFast = "fail-fast" // an earlier phase did not hold and the user asked to stop there; which phase
)

// The targets of NotBuilt.
const (
	TargetCluster  = "cluster"
	TargetEndpoint = "endpoint"
)

// The other codes of a CheckReason.
const (
	CheckDeclared      = "declared"               // it runs: the recipe declares it
	CheckOnCluster     = "declared-for-a-cluster" // it would run on the cluster, and nothing is contacted now
	CheckOfTarget      = "target"                 // it runs: the target is loaded for it
	CheckUndeclared    = "undeclared"
	CheckOnPaper       = "on-paper"            // only a cluster can answer it
	CheckClusterUnmet  = "cluster-not-ready"   // nothing was looked at
	CheckMisnamed      = "misnamed"            // the catalog has no such check in this phase
	NothingToHold      = "nothing-to-hold"     // guard A
	InputMissing       = "input-missing"       // which one
	ComponentUnwanted  = "component-unwanted"  // which component: guard B
	AbsentUnwanted     = "absent-unwanted"     // what, of which component
	AbsentWanted       = "absent"              // what: guard C
	PresenceUnknown    = "presence-unknown"    // of what, and why
	ConstraintMet      = "constraint-met"      // name, value, want
	ConstraintPartly   = "constraint-met-only" // name, want, what was not done
	ConstraintNotMet   = "constraint-not-met"  // name, value, want
	ConstraintUnknown  = "constraint-unknown"  // name, why
	ConstraintAbsent   = "constraint-absent"   // name
	VersionSkew        = "version-skew"        // the sentence of the versions
	ClusterGuard       = "guard"               // the sentences of the guards
	TakenByRuns        = "taken"               // which nodes other runs of this program have
	InferenceNotLoaded = "not-loaded"          // it should have run, and there is no result
)

// Text is the reason in words. This is the only place that words it.
func (r CheckReason) Text() string {
	arg := func(i int) string {
		if i < len(r.Args) {
			return r.Args[i]
		}
		return "(unknown)"
	}
	switch r.Code {
	case NotAsked:
		return "left out by " + arg(0)
	case NotBuilt:
		if arg(0) == TargetEndpoint {
			return "it needs a cluster; this run loads an endpoint"
		}
		return "this version of aicr cannot run it on a cluster"
	case FailFast:
		return fmt.Sprintf("--fail-fast: the phase %s did not hold", arg(0))
	case CheckDeclared:
		return "the recipe asks for it"
	case CheckOnCluster:
		return "on the cluster; with --no-cluster nothing is run"
	case CheckOfTarget:
		return "it is what the target is loaded for"
	case CheckUndeclared:
		return "the recipe does not ask for it"
	case CheckOnPaper:
		return "no-cluster: nothing was run"
	case CheckClusterUnmet:
		return "not looked at: the cluster is not ready"
	case CheckMisnamed:
		return "the catalog has no such check in this phase"
	case InferenceNotLoaded:
		return "nothing was loaded"
	case VersionSkew, ClusterGuard, TakenByRuns:
		return strings.Join(r.Args, "; ")
	}
	return r.onPaperText(arg)
}

// onPaperText words what a snapshot and a recipe decide.
func (r CheckReason) onPaperText(arg func(int) string) string {
	switch r.Code {
	case NothingToHold:
		return fmt.Sprintf("the recipe wants neither %s nor %s, and has no reference", ConstraintThroughput, ConstraintTTFT)
	case InputMissing:
		return fmt.Sprintf("the recipe sets no %s to hold it against", arg(0))
	case ComponentUnwanted:
		return arg(0) + " is not among the recipe's components"
	case AbsentUnwanted:
		return fmt.Sprintf("%s is not there, and %s is not among the recipe's components", arg(0), arg(1))
	case AbsentWanted:
		return arg(0) + " is not there, and the recipe wants it"
	case PresenceUnknown:
		return fmt.Sprintf("whether there is %s is not known: %s", arg(0), arg(1))
	case ConstraintMet, ConstraintNotMet:
		return fmt.Sprintf("%s is %s, wanted %s", arg(0), arg(1), arg(2))
	case ConstraintPartly:
		return fmt.Sprintf("%s %s is met; %s", arg(0), arg(1), arg(2))
	case ConstraintUnknown:
		return fmt.Sprintf("%s cannot be held: %s", arg(0), arg(1))
	case ConstraintAbsent:
		return "the recipe sets no " + arg(0)
	}
	return "no reason was recorded"
}

// checkReasonCodes are the codes that a plan may have.
func checkReasonCodes() []string {
	return []string{NotAsked, NotBuilt, FailFast, CheckDeclared, CheckOnCluster, CheckOfTarget, CheckUndeclared, CheckOnPaper, CheckClusterUnmet,
		CheckMisnamed, NothingToHold, InputMissing, ComponentUnwanted, AbsentUnwanted, AbsentWanted, PresenceUnknown, ConstraintMet,
		ConstraintPartly, ConstraintNotMet, ConstraintUnknown, ConstraintAbsent, VersionSkew, ClusterGuard, TakenByRuns, InferenceNotLoaded}
}
