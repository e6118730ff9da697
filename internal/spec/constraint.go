package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PathGPUNodesLabel is a constraint on the labels of the GPU nodes. Its value is
// key=value, which every one of them must have, or !key, which none may have.
const PathGPUNodesLabel = "NodeTopology.gpu-nodes.label"

// ConstraintMistake says what is wrong with a constraint on a fact, before there is a
// snapshot to hold it against: its path, its comparator, its unit or its version. The
// hint says what was meant.
func ConstraintMistake(c RecipeConstraint) (text, hint string) {
	if text, hint := ConstraintNameMistake(c.Name); text != "" {
		return text, hint
	}
	if c.Tolerance != nil {
		return "a fact of the cluster takes no tolerance", "it is so or it is not: leave it out"
	}
	if c.Name == PathGPUNodesLabel {
		if c.Unit != "" {
			return "a label has no unit", "leave it out"
		}
		if _, wrong := parseLabelWanted(string(c.Value)); wrong != nil {
			return wrong.text, wrong.hint
		}
		return "", ""
	}
	kind, _, _ := factAt(c.Name)
	wanted, wrong := parseExpression(string(c.Value), c.Unit)
	if wrong == nil {
		wrong = wanted.fits(c.Name, kind)
	}
	if wrong != nil {
		return wrong.text, wrong.hint
	}
	return "", ""
}

// ConstraintNameMistake says what is wrong with the path of a constraint on a fact: no
// collector could ever find what it names.
func ConstraintNameMistake(name string) (text, hint string) {
	if name == PathGPUNodesLabel {
		return "", ""
	}
	if strings.HasPrefix(name, "NodeTopology.gpu-nodes") {
		return fmt.Sprintf("%s is no path of a fact", quote(name)), "did you mean " + PathGPUNodesLabel + "?"
	}
	_, text, hint = factAt(name)
	return text, hint
}

// fits says what of a wanted value can never hold for a fact of that kind.
func (e expression) fits(name string, kind factKind) *expressionMistake {
	for _, terms := range e {
		for _, t := range terms {
			hasUnit := t.number != nil && t.number.unit != ""
			switch {
			case kind == boolFact && t.orders():
				return mistaken("write true or false", "%s is true or false, which %s cannot be held against", name, t.comparator)
			case kind == boolFact && t.text != "true" && t.text != "false":
				return mistaken("write true or false", "%s is true or false, and not %s", name, quote(t.text))
			case kind == numberFact && t.number == nil:
				return mistaken(`write it as ">= 8"`, "%s is a number, and %s is none", name, quote(t.text))
			case hasUnit && (kind == numberFact || kind == versionFact):
				return mistaken("leave it out", "%s has no unit", name)
			case kind == versionFact && t.version == nil:
				return mistaken(`write it as ">= 1.34.1"`, "%s is a version, and %s is none", name, quote(t.text))
			}
		}
	}
	return nil
}

// Hold holds a constraint against a snapshot. Of a nil snapshot nothing is known, and
// what is not known is an error, never met.
func Hold(c RecipeConstraint, s *Snapshot) Held {
	return hold(c, c.Name, s)
}

func hold(c RecipeConstraint, path string, s *Snapshot) Held {
	h := Held{Name: c.Name, Want: wantedText(c), State: HeldError, Remediation: c.Remediation}
	asked := c
	asked.Name = path
	if text, hint := ConstraintMistake(asked); text != "" {
		if h.Reason = text; hint != "" {
			h.Reason += "; " + hint
		}
		return h
	}
	if path == PathGPUNodesLabel {
		wanted, _ := parseLabelWanted(string(c.Value))
		wanted.hold(&h, s)
		return h
	}
	fact, err := s.Fact(path)
	switch {
	case err != nil:
		h.Reason = err.Error()
		return h
	case !fact.Known:
		h.Reason = fmt.Sprintf("%s is not known: %s", path, fact.Unknown)
		return h
	}
	h.Value = fact.Value.String()
	wanted, _ := parseExpression(string(c.Value), c.Unit)
	kind, _, _ := factAt(path)
	switch met, err := wanted.holds(kind, fact.Value); {
	case err != nil:
		h.Reason = fmt.Sprintf("%s cannot be held against %s: %v", path, h.Want, err)
	case met:
		h.State = HeldMet
	default:
		h.State, h.Reason = HeldNotMet, fmt.Sprintf("%s is %s, and %s is wanted", path, shown(h.Value), h.Want)
	}
	return h
}

func wantedText(c RecipeConstraint) string {
	if c.Unit == "" || strings.HasSuffix(string(c.Value), c.Unit) {
		return string(c.Value)
	}
	return string(c.Value) + " " + c.Unit
}

func shown(value string) string {
	if value == "" {
		return "empty"
	}
	return shorten(value)
}

// HoldAll holds what a recipe wants of the cluster before anything runs.
func HoldAll(r *Recipe, s *Snapshot) []Held {
	all := []Held{}
	add := func(phase string, wants []RecipeConstraint) {
		for _, c := range wants {
			h := Hold(c, s)
			h.From = r.whereFrom(phase, c.Name)
			all = append(all, h)
		}
	}
	add("", r.Wants)
	if ready := r.Phases.Readiness; ready != nil {
		add("readiness", ready.Constraints)
	}
	return all
}

func (r *Recipe) whereFrom(phase, name string) string {
	o, ok := r.OriginOf(phase, name)
	switch {
	case ok && o.File != "":
		return o.Overlay + " (" + o.File + ")"
	case ok:
		return o.Overlay
	}
	return r.Name
}

// deploymentFacts are the versions that constraints of the deployment phase name.
func deploymentFacts() map[string]string {
	return map[string]string{
		"gpu-operator":    FactGPUOperator,
		"gpu-driver":      "GPU.hardware.driver-version",
		"dynamo-platform": FactDynamoChart,
		"dynamo-runtime":  FactDynamoRuntime,
		"kai-scheduler":   FactKAI,
		"grove":           FactGrove,
		"dcgm-exporter":   FactDCGM,
	}
}

func deploymentNames() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(deploymentFacts())) {
		all = append(all, "Deployment."+name+".version")
	}
	return all
}

// HoldDeployment holds a constraint of the deployment phase: Deployment.X.version, or
// X.version, is the version of X that runs.
func HoldDeployment(c RecipeConstraint, s *Snapshot) Held {
	name, isVersion := strings.CutSuffix(strings.TrimPrefix(c.Name, "Deployment."), ".version")
	path, known := deploymentFacts()[name]
	if !isVersion || !known {
		return Held{Name: c.Name, Want: wantedText(c), State: HeldError, Remediation: c.Remediation,
			Reason: fmt.Sprintf("no fact is known for %s; %s", quote(c.Name), meant(c.Name, deploymentNames(), "those that are:"))}
	}
	return hold(c, path, s)
}
