package checks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/spec"
)

// notRun is why a check that only a cluster can answer has no answer.
const notRun = "no-cluster: nothing was run"

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
		return []string{"K8s." + component + ".installed", version, "K8s.image." + component}
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

// dynamoPlatform is the component without which there is no inference to measure.
const dynamoPlatform = "dynamo-platform"

// decision is what became of a check.
type decision struct {
	State  spec.State
	Reason string
	Held   []spec.Held
	Runs   bool // a cluster is asked, whatever the paper says
}

// onPaper decides a declared check as far as a snapshot can.
func onPaper(check string, r *spec.Recipe, s *spec.Snapshot, skew string) decision {
	if check == spec.InferencePerf {
		if why := guardA(r); why != "" {
			return decision{State: spec.Skip, Reason: why}
		}
	}
	if strings.HasPrefix(check, "nccl-") || check == "cre-training-goodput" {
		if _, set := r.Input(check); !set {
			return decision{State: spec.Skip, Reason: "the recipe sets no " + check + " to hold it against"}
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
			return decision{State: spec.Fail, Reason: skew}
		}
	case "gpu-operator-version":
		return byConstraint(r, s, deployedOperator, "")
	case "check-nvidia-smi":
		return byConstraint(r, s, deployedDriver, "nvidia-smi was not run")
	}
	return decision{State: spec.Skip, Reason: notRun, Runs: true}
}

// guardA is why a benchmark would have nothing to hold its figures against.
func guardA(r *spec.Recipe) string {
	if len(r.Figures(1)) > 0 || r.Verdict().Reference != nil {
		return ""
	}
	return fmt.Sprintf("the recipe wants neither %s nor %s, and has no reference", spec.ConstraintThroughput, spec.ConstraintTTFT)
}

// required says whether what a check needs is there, and what becomes of the check
// where it is not. What could not be read is neither there nor absent: it never skips.
func required(check string, need requirement, r *spec.Recipe, s *spec.Snapshot) (decision, bool) {
	declared := need.component == "" || r.HasComponent(need.component)
	if !declared && (len(need.facts) == 0 || check == spec.InferencePerf) { // guard B
		return decision{State: spec.Skip, Reason: fmt.Sprintf("%s is not among the recipe's components", need.component)}, false
	}
	if len(need.facts) == 0 {
		return decision{}, true
	}
	found, err := shown(s, need.facts)
	switch {
	case err != nil:
		return decision{State: spec.Inconclusive, Reason: fmt.Sprintf("whether there is %s is not known: %v", need.what, err)}, false
	case found:
		return decision{}, true
	case !declared:
		return decision{State: spec.Skip, Reason: fmt.Sprintf("%s is not there, and %s is not among the recipe's components", need.what, need.component)}, false
	}
	return decision{State: spec.Fail, Reason: need.what + " is not there, and the recipe wants it"}, false // guard C
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
			return decision{State: spec.Skip, Reason: "the recipe sets no " + name}
		}
		return decision{State: spec.Skip, Reason: notRun, Runs: true}
	}
	d := decision{State: spec.Pass, Reason: fmt.Sprintf("%s is %s, wanted %s", name, held[0].Value, held[0].Want), Held: held, Runs: true}
	if undone != "" {
		d.State, d.Reason = spec.Skip, fmt.Sprintf("%s %s is met; %s", name, held[0].Want, undone)
	}
	for _, h := range held {
		switch h.State {
		case spec.HeldMet:
		case spec.HeldNotMet:
			return decision{State: spec.Fail, Reason: fmt.Sprintf("%s is %s, wanted %s", name, h.Value, h.Want), Held: held}
		default:
			return decision{State: spec.Inconclusive, Reason: fmt.Sprintf("%s cannot be held: %s", name, h.Reason), Held: held}
		}
	}
	return d
}
