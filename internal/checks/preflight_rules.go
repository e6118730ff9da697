package checks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/spec"
)

// requirement is what a check needs of the cluster: a component that the recipe
// declares, and the facts that show it there. A recipe that does not declare the
// component does not want the check, whatever it is called; one that does has it fail
// where the component is not there.
type requirement struct {
	checks    []string
	component string   // "": any recipe that asks for the check wants it
	facts     []string // the first that the snapshot speaks of; none: no snapshot shows it
	what      string
}

// requirements is the one place that says it. A check that is not here needs nothing
// that can be seen on paper.
func requirements() []requirement {
	installed := func(component, version string) []string {
		return []string{InstalledFact(component), version, "K8s.image." + component}
	}
	return []requirement{
		{[]string{"operator-health", "gpu-operator-version", "gpu-operator-health"}, "gpu-operator", installed("gpu-operator", spec.FactGPUOperator), "the GPU operator"},
		{[]string{"accelerator-metrics"}, "gpu-operator", installed("dcgm-exporter", spec.FactDCGM), "a DCGM exporter"},
		{[]string{"gke-gpu-nic-networks"}, "gke-nccl-tcpxo", nil, ""},
		{[]string{"dra-support"}, "nvidia-dra-driver-gpu", []string{spec.FactDRAAPI}, "the API resource.k8s.io"},
		{[]string{"dra-support"}, "nvidia-dra-driver-gpu", []string{"K8s.device-classes.count"}, "a device class"},
		{[]string{"gang-scheduling"}, "kai-scheduler", installed("kai-scheduler", spec.FactKAI), "the KAI scheduler"},
		{[]string{spec.InferencePerf}, dynamoPlatform, []string{spec.FactGraphCRD}, "the resource dynamographdeployments.nvidia.com"},
		{[]string{spec.InferencePerf, "check-nvidia-smi", "secure-accelerator-access", "nccl-all-reduce-bw", "nccl-all-reduce-bw-net",
			"nccl-all-reduce-bw-nvls", "nccl-cre-all-reduce-bw"}, "", []string{spec.FactGPUCount}, "a GPU"},
	}
}

// InstalledFact is the path of whether a component is installed.
func InstalledFact(component string) string { return "K8s." + component + ".installed" }

// dynamoPlatform is the component without which there is no inference to measure.
const dynamoPlatform = "dynamo-platform"

// decision is what became of a check.
type decision struct {
	State spec.State
	Why   spec.CheckReason
	Held  []spec.Held
	Runs  bool // a cluster is asked, whatever the paper says
}

// seen is what is known of a cluster: a snapshot of it and, of a run on it, what it was
// asked now. That prevails, by the fact's path.
type seen struct {
	snapshot *spec.Snapshot
	live     map[string]bool
}

// onPaper decides a declared check as far as a snapshot can.
func onPaper(check string, r *spec.Recipe, s seen, skew string) decision {
	if check == spec.InferencePerf && !hasFigures(r) {
		return decision{State: spec.Skip, Why: spec.Because(spec.NothingToHold)}
	}
	if strings.HasPrefix(check, "nccl-") || check == "cre-training-goodput" {
		if _, set := r.Input(check); !set {
			return decision{State: spec.Skip, Why: spec.Because(spec.InputMissing, check)}
		}
	}
	for _, need := range requirements() {
		if !slices.Contains(need.checks, check) {
			continue
		}
		if d, ok := required(check, need, r, s); !ok {
			return d
		}
	}
	switch check {
	case spec.InferencePerf:
		if skew != "" {
			return decision{State: spec.Fail, Why: spec.Because(spec.VersionSkew, skew)}
		}
	case "gpu-operator-version":
		return byConstraint(r, s.snapshot, deployedOperator, "")
	case "check-nvidia-smi":
		return byConstraint(r, s.snapshot, deployedDriver, "nvidia-smi was not run")
	}
	return decision{State: spec.Skip, Why: spec.Because(spec.CheckOnPaper), Runs: true}
}

// hasFigures says whether a benchmark has something to hold its figures against: guard A.
func hasFigures(r *spec.Recipe) bool { return len(r.Figures(1)) > 0 || r.Verdict().Reference != nil }

// required says whether what a check needs is there, and what becomes of the check
// where it is not. What could not be read is neither there nor absent: it never skips.
func required(check string, need requirement, r *spec.Recipe, s seen) (decision, bool) {
	declared := need.component == "" || r.HasComponent(need.component)
	if !declared && (len(need.facts) == 0 || check == spec.InferencePerf) { // guard B
		return decision{State: spec.Skip, Why: spec.Because(spec.ComponentUnwanted, need.component)}, false
	}
	if len(need.facts) == 0 {
		return decision{}, true
	}
	found, err := s.shows(need.facts)
	switch {
	case err != nil:
		return decision{State: spec.Inconclusive, Why: spec.Because(spec.PresenceUnknown, need.what, err.Error())}, false
	case found:
		return decision{}, true
	case !declared:
		return decision{State: spec.Skip, Why: spec.Because(spec.AbsentUnwanted, need.what, need.component)}, false
	}
	return decision{State: spec.Fail, Why: spec.Because(spec.AbsentWanted, need.what)}, false // guard C
}

// shows is shown, by what the cluster was asked now before what the snapshot says.
func (s seen) shows(facts []string) (bool, error) {
	for _, path := range facts {
		if there, asked := s.live[path]; asked {
			return there, nil
		}
	}
	return shown(s.snapshot, facts)
}

// shown says whether a snapshot shows a thing there: the first of the facts decides
// that is known or known to be absent. Nothing, none and 0 are absent; the error says
// why it is not known.
func shown(s *spec.Snapshot, facts []string) (bool, error) {
	if s == nil {
		return false, errors.New("there is no snapshot")
	}
	var unknown error
	for _, path := range facts {
		f, err := s.Fact(path)
		switch {
		case err != nil:
			return false, fmt.Errorf("%s: %w", path, err)
		case f.Known:
			return saysThere(f.Value), nil
		case f.Unknown.Reason == spec.ReasonAbsent && f.Looked:
			return false, nil
		case unknown != nil: // the first reason is the nearest
		case f.Unknown.Reason == spec.ReasonAbsent:
			unknown = fmt.Errorf("the snapshot does not say %s", path)
		default:
			unknown = fmt.Errorf("%s: %s", path, f.Unknown)
		}
	}
	return false, unknown
}

// saysThere says whether a fact's value stands for a thing that is there.
func saysThere(v spec.Scalar) bool {
	text := strings.ToLower(strings.TrimSpace(v.String()))
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n > 0
	}
	return !slices.Contains([]string{"", "false", "no", "none"}, text)
}

// The constraints of the deployment phase that a snapshot answers.
const (
	deployedOperator = "Deployment.gpu-operator.version"
	deployedDriver   = "Deployment.gpu-driver.version"
)

// byConstraint decides a check by a constraint of the deployment phase. Undone is what
// the check would do beside it; where that is something, a constraint that is met is
// not yet a check that passed.
func byConstraint(r *spec.Recipe, s *spec.Snapshot, name, undone string) decision {
	var held []spec.Held
	if p := r.Phases.Deployment; p != nil {
		for _, c := range p.Constraints {
			if strings.TrimPrefix(c.Name, "Deployment.") == strings.TrimPrefix(name, "Deployment.") { // both are written
				held = append(held, spec.HoldDeployment(c, s))
			}
		}
	}
	if len(held) == 0 {
		if undone == "" {
			return decision{State: spec.Skip, Why: spec.Because(spec.ConstraintAbsent, name)}
		}
		return decision{State: spec.Skip, Why: spec.Because(spec.CheckOnPaper), Runs: true}
	}
	d := decision{State: spec.Pass, Why: spec.Because(spec.ConstraintMet, name, held[0].Value, held[0].Want), Held: held, Runs: true}
	if undone != "" {
		d.State, d.Why = spec.Skip, spec.Because(spec.ConstraintPartly, name, held[0].Want, undone)
	}
	for _, h := range held {
		switch h.State {
		case spec.HeldMet:
		case spec.HeldNotMet:
			return decision{State: spec.Fail, Why: spec.Because(spec.ConstraintNotMet, name, h.Value, h.Want), Held: held}
		default:
			return decision{State: spec.Inconclusive, Why: spec.Because(spec.ConstraintUnknown, name, h.Reason), Held: held}
		}
	}
	return d
}
