package judge

import (
	"cmp"
	"slices"

	"aicr/internal/spec"
)

// diagnosis is one thing that a run can be found to have: a file of this package,
// a line of the list below, and a page of docs/diagnoses.
type diagnosis struct {
	id     string // of spec.FindingIDs
	ledger string // that it is entered in; "" where it is about the test, not the deployment
	look   func(*Evidence) []spec.Finding
}

// diagnoses lists them all. Where several fail a run, the first of them is the
// reason that is told: what explains others comes before what it explains.
func diagnoses() []diagnosis {
	return []diagnosis{
		{"cluster/removed", "", removedMeanwhile},
		{"cluster/no-free-gpus", spec.Integrity, noFreeGPUs},
		{"cluster/dra-stale", "", draStale},
		{"config/discovery-panic", spec.Integrity, discoveryPanic},
		{"config/version-skew", spec.Integrity, versionSkew},
		{"cluster/pods-failed", spec.Integrity, podsFailed},
		{"server/unsolicited", "", unsolicitedAnswers},
		{"server/tokens-implausible", "", tokensImplausible},
		{"serving/no-tokens", spec.Integrity, noTokensServed},
		{"start/timeout", spec.Integrity, startTimeout},
		{"start/cold", spec.Integrity, coldStart},
		{"gpu/error", spec.Integrity, gpuBroken},
		{"worker/black-hole", spec.Integrity, blackHole},
		{"worker/absent", spec.Integrity, workerAbsent},
		{"serving/restarted", spec.Integrity, servingRestarted},
		{"serving/errors", spec.Integrity, failedRequests},
		{"gpu/throttle", spec.Integrity, gpuThrottled},
		{"client/under-driven", "", clientUnderDriven},
		{"client/late", "", clientLate},
		{"load/prefix-affinity", "", prefixAffinity},
		{"load/wrong-length", "", wrongLength},
		{"load/past-knee", "", pastKnee},
		{"load/kv-full", "", kvFullest},
		{"worker/stall", spec.Stability, workerStall},
		{"fleet/stall", spec.Stability, fleetStands},
		{"worker/slow", spec.Capability, workerSlow},
		{"fleet/slow-host", spec.Capability, slowHost},
		{"fleet/slow", spec.Capability, fleetSlow},
		{"cluster/node-changed", "", nodeChanged},
		{"telemetry/gap", "", telemetryGap},
	}
}

// ledgerOf is the ledger that a finding is entered in.
func ledgerOf(id string) string {
	for _, d := range diagnoses() {
		if d.id == id {
			return d.ledger
		}
	}
	return ""
}

// findings looks for everything there is, those that decide first.
func findings(ev *Evidence) []spec.Finding {
	all := []spec.Finding{}
	for _, d := range diagnoses() {
		all = append(all, d.find(ev)...)
	}
	return all
}

func (d *diagnosis) find(ev *Evidence) (all []spec.Finding) {
	for _, f := range d.look(ev) {
		f.ID = d.id
		f.Workers = orderly(f.Workers)
		if f.Evidence == nil {
			f.Evidence = []string{}
		}
		if f.Advice == nil {
			f.Advice = []string{}
		}
		all = append(all, f)
	}
	return all
}

func orderly(names []string) []string {
	names = slices.Clone(names)
	slices.SortFunc(names, naturally)
	return slices.Compact(names)
}

// sorted puts what decided a verdict first.
func sorted(all []spec.Finding, v spec.State) []spec.Finding {
	weight := func(f spec.Finding) int {
		switch {
		case v == spec.Invalid && f.Severity == spec.SeverityInvalid:
			return 0
		case f.Severity == spec.SeverityFail:
			return 1
		case f.Severity == spec.SeverityInvalid:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(all, func(a, b spec.Finding) int { return cmp.Compare(weight(a), weight(b)) })
	return all
}
