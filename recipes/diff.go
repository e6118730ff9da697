package recipes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// Change is one thing that two recipes do not agree on. "" is that one of them does not
// say it.
type Change struct {
	Of   string `json:"of"` // criteria, constraint, check, component, verdict, order
	Name string `json:"name"`
	A    string `json:"a,omitempty"`
	B    string `json:"b,omitempty"`
}

// said is what a recipe says, in the order in which it is compared.
type said struct {
	keys   []Change
	values map[Change]string
}

func (s *said) add(of, name, value string) {
	key := Change{Of: of, Name: name}
	if _, there := s.values[key]; !there {
		s.keys = append(s.keys, key)
	}
	s.values[key] = value
}

// Diff is everything that two recipes do not agree on: what they are for, what they want
// of the cluster and of each phase, what they check and deploy, and how they judge.
func Diff(a, b *spec.Recipe) []Change {
	x, y := saidBy(a), saidBy(b)
	changes := []Change{}
	for _, key := range append(x.keys, slices.DeleteFunc(slices.Clone(y.keys), func(k Change) bool { _, both := x.values[k]; return both })...) {
		if x.values[key] != y.values[key] {
			changes = append(changes, Change{key.Of, key.Name, x.values[key], y.values[key]})
		}
	}
	kinds := []string{"criteria", "constraint", "check", "component", "verdict", "order"}
	slices.SortStableFunc(changes, func(p, q Change) int { return slices.Index(kinds, p.Of) - slices.Index(kinds, q.Of) })
	return changes
}

func saidBy(r *spec.Recipe) said {
	s := said{values: map[Change]string{}}
	for _, c := range criteria(r.Criteria) {
		s.add("criteria", c.name, c.value)
	}
	if r.Criteria.Nodes > 0 {
		s.add("criteria", "nodes", fmt.Sprint(r.Criteria.Nodes))
	}
	for _, c := range r.Wants {
		s.add("constraint", c.Name, Wanted(c))
	}
	phases := []struct {
		name  string
		phase *spec.RecipePhase
	}{{"readiness", r.Phases.Readiness}, {spec.PhaseDeployment, r.Phases.Deployment}, {spec.PhaseConformance, r.Phases.Conformance}, {spec.PhasePerformance, r.Phases.Performance}}
	for _, p := range phases {
		if p.phase == nil {
			continue
		}
		for _, c := range p.phase.Constraints {
			s.add("constraint", p.name+"/"+c.Name, Wanted(c))
		}
	}
	for _, p := range phases {
		if p.phase == nil {
			continue
		}
		for _, check := range p.phase.Checks {
			s.add("check", p.name+"/"+check, "checked")
		}
	}
	for _, c := range r.Components {
		s.add("component", c.Name, componentText(c))
	}
	v := r.Verdict()
	for _, x := range [][2]string{{"profile", v.Profile}, {"stability", v.Stability}, {"noFreeGPUs", v.NoFreeGPUs}} {
		if x[1] != "" {
			s.add("verdict", x[0], x[1])
		}
	}
	if v.Reference != nil {
		s.add("verdict", "reference", ReferenceText(v.Reference))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Thresholds)) {
		s.add("verdict", name, fmt.Sprint(v.Thresholds[name]))
	}
	if len(r.DeploymentOrder) > 0 {
		s.add("order", "deploymentOrder", strings.Join(r.DeploymentOrder, ", "))
	}
	return s
}

// Wanted is a constraint's value in words: ">= 6250 tokens/s/GPU, tolerance 5 %".
func Wanted(c spec.RecipeConstraint) string {
	text := strings.TrimSpace(string(c.Value) + " " + c.Unit)
	if c.Tolerance != nil {
		text += fmt.Sprintf(", tolerance %.4g %%", 100**c.Tolerance)
	}
	return text
}

// ReferenceText is a reference in words.
func ReferenceText(r *spec.RecipeReference) string {
	text := fmt.Sprintf("%.0f tokens/s of %d GPUs at %d a GPU, %d/%d tokens", r.Throughput, r.GPUs, r.ConcurrencyPerGPU, r.InputTokens, r.OutputTokens)
	if r.Dispersion > 0 {
		text += fmt.Sprintf(", ln-sd %.4g", r.Dispersion)
	}
	if r.N > 0 {
		text += fmt.Sprintf(" of %d", r.N)
	}
	if r.Measured != "" {
		text += ", " + r.Measured
	}
	return text
}

// componentText is everything of a component but its name: its version first, then what
// else there is.
func componentText(c spec.Component) string {
	first := strings.TrimSpace(strings.Join([]string{c.Version, c.Tag}, " "))
	if first == "" {
		first = "no version"
	}
	c.Name, c.Version, c.Tag = "", "", ""
	text, _ := json.Marshal(c)
	rest := map[string]json.RawMessage{}
	_ = json.Unmarshal(text, &rest)
	delete(rest, "name")
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		first += fmt.Sprintf(", %s %s", name, strings.Trim(string(rest[name]), `"`))
	}
	return first
}
