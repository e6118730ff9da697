package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// mostCompared is how many pairs of names are compared for a slip. No recipe has as
// many; a document that was made to keep the program busy has.
const mostCompared = 1 << 16

const nameHint = "lower-case letters, digits and dashes, at most 63, a letter or digit first and last"

// checkHead checks what kind of document it says to be. A ValidationInput that is a
// part of another object says nothing.
func (d *document) checkHead(kind, written, version string) {
	versions := RecipeVersions()
	if kind == ValidationInputKind {
		if versions = []string{CatalogVersion}; !d.says("kind") && !d.says("apiVersion") && !d.misnamed["kind"] && !d.misnamed["apiVersion"] {
			return
		}
	}
	if d.require("kind", "write kind: "+kind) {
		d.word("kind", written, RecipeKinds())
	}
	if d.require("apiVersion", "write apiVersion: "+versions[0]) {
		d.word("apiVersion", version, versions)
	}
}

// checkRecipe checks what a document of that kind says.
func (d *document) checkRecipe(r *Recipe, kind string) {
	head, phases := "spec", "spec.validation"
	switch kind {
	case RecipeResultKind:
		head, phases = "", "validation"
	case ValidationInputKind:
		head, phases = "", "config"
	default:
		if d.require("metadata.name", "write metadata: {name: a-name}") {
			d.checkName("metadata.name", r.Name)
		}
	}
	in := func(field string) string { return join(head, field) }
	d.checkCriteria(in("criteria"), r.Criteria)
	d.checkWants(in("constraints"), r.Wants, d.checkOfCluster)
	d.checkComponents(in("componentRefs"), r.Components)
	if r.Base != "" {
		d.checkName(in("base"), r.Base)
	}
	d.checkNames(in("mixins"), r.Mixins)
	d.checkProfile(in("profile"), r.Profile)
	d.checkOrder(in("deploymentOrder"), r)
	if r.GPUPolicy != "" {
		d.word(in("gpuAllocationPolicy"), r.GPUPolicy, []string{PolicyDevicePlugin, PolicyDRAClaim, PolicyDRAExtended, PolicyUnspecified})
	}
	d.checkPhases(phases, r)
}

func (d *document) checkName(at, name string) {
	if d.sound(at) && !dnsLabel.MatchString(name) {
		d.wrong(at, quote(name)+" is no name", nameHint)
	}
}

func (d *document) checkCriteria(at string, c Criteria) {
	for _, field := range CriteriaFields() {
		path := join(at, field)
		if text, hint := CriteriaMistake(field, c.Named(field)); text != "" && d.sound(path) {
			d.wrong(path, text, hint)
		}
	}
	if nodes := join(at, "nodes"); d.says(nodes) {
		d.within(nodes, c.Nodes, 1, mostCounted)
	}
}

// checkComponents checks what is deployed. A type is whatever upstream calls one, in
// capitals or not, but not one of those that are known with a slip in it.
func (d *document) checkComponents(path string, all []Component) {
	first := map[string]int{}
	for i, c := range all {
		at := element(path, i)
		if d.full {
			return
		}
		if !d.sound(at) {
			continue
		}
		types := []string{"Helm", "Kustomize"}
		if near, ok := Nearest(c.Type, types); ok && !strings.EqualFold(c.Type, near) && d.sound(join(at, "type")) {
			d.wrong(join(at, "type"), quote(c.Type)+" is not known here", fmt.Sprintf("did you mean %s?", near))
		}
		name := join(at, "name")
		if !d.require(name, "name the component") || !d.sound(name) {
			continue
		}
		if earlier, twice := first[c.Name]; twice {
			d.twice(name, c.Name, join(element(path, earlier), "name"))
			continue
		}
		first[c.Name] = i
		d.checkName(name, c.Name)
	}
}

// twice notes a name that another place has already.
func (d *document) twice(at, name, earlier string) {
	d.wrong(at, quote(name)+" is there twice", fmt.Sprintf("it is at line %d already", d.written[earlier].line))
}

// checkNames checks a list of names, each of which is there once.
func (d *document) checkNames(path string, names []string) {
	first := map[string]int{}
	for i, name := range names {
		at := element(path, i)
		if d.full {
			return
		}
		if !d.sound(at) {
			continue
		}
		if earlier, twice := first[name]; twice {
			d.twice(at, name, element(path, earlier))
			continue
		}
		first[name] = i
		if name == "" {
			d.wrong(at, "no value", "write a name, or take the line out")
			continue
		}
		d.checkName(at, name)
	}
}

// checkOrder checks the names in which components are deployed: a slip in one of them
// would leave its component out.
func (d *document) checkOrder(at string, r *Recipe) {
	d.checkNames(at, r.DeploymentOrder)
	known := map[string]bool{}
	var names []string
	for _, c := range r.Components {
		known[c.Name] = true
		names = append(names, c.Name)
	}
	if len(names)*len(r.DeploymentOrder) > mostCompared {
		return
	}
	for i, name := range r.DeploymentOrder {
		if near, ok := Nearest(name, names); ok && !known[name] && d.sound(element(at, i)) && !slices.Contains(r.DeploymentOrder, near) {
			d.wrong(element(at, i), quote(name)+" is no component of this recipe", fmt.Sprintf("did you mean %s?", near))
		}
	}
}

func (d *document) checkProfile(at string, p *RecipeProfile) {
	if p == nil || !d.sound(at) {
		return
	}
	values := join(at, "values")
	names := slices.Sorted(maps.Keys(p.Values))
	if p.Default != "" && len(names) > 0 && d.sound(values) {
		d.word(join(at, "default"), p.Default, names)
	}
	for _, name := range names {
		in := keyed(values, name)
		d.checkComponents(join(in, "componentRefs"), p.Values[name].ComponentRefs)
		d.checkWants(join(in, "constraints"), p.Values[name].Constraints, d.checkOfCluster)
		d.checkWants(join(in, "readinessConstraints"), p.Values[name].ReadinessConstraints, d.checkOfCluster)
	}
}

func (d *document) checkPhases(path string, r *Recipe) {
	for _, one := range []struct {
		name  string
		phase *RecipePhase
		check wantCheck
	}{
		{"readiness", r.Phases.Readiness, d.checkOfCluster},
		{PhaseDeployment, r.Phases.Deployment, d.checkOfDeployment(r)},
		{PhaseConformance, r.Phases.Conformance, d.checkOfConformance},
		{PhasePerformance, r.Phases.Performance, d.checkOfPerformance},
	} {
		at := join(path, one.name)
		if one.phase == nil || !d.sound(at) {
			continue
		}
		d.checkNames(join(at, "checks"), one.phase.Checks)
		d.checkWants(join(at, "constraints"), one.phase.Constraints, one.check)
		d.span(join(at, "timeout"), one.phase.Timeout)
		if s := one.phase.NodeSelection; s != nil {
			d.within(join(at, "nodeSelection.maxNodes"), s.MaxNodes, 0, mostCounted)
		}
		verdict := join(at, "verdict")
		switch {
		case one.name == PhasePerformance:
			d.checkVerdict(verdict, one.phase.Verdict)
		case d.says(verdict):
			d.wrong(verdict, "only the performance phase has a verdict", "write it below "+join(path, PhasePerformance))
		}
	}
}

func (d *document) checkVerdict(at string, v RecipeVerdict) {
	if !d.sound(at) {
		return
	}
	d.word(join(at, "profile"), v.Profile, Profiles())
	d.word(join(at, "stability"), v.Stability, []string{StabilityGate, StabilityReport})
	d.word(join(at, "noFreeGPUs"), v.NoFreeGPUs, []string{NoFreeGPUsSkip, NoFreeGPUsFail})
	if v.Reference != nil {
		d.checkReference(join(at, "reference"), v.Reference)
	}
	thresholds := join(at, "thresholds")
	if !d.sound(thresholds) {
		return
	}
	profile := v.Profile
	if profile == "" {
		profile = ProfileStandard
	}
	if t, ok := DefaultThresholds(profile); ok {
		for name, value := range v.Thresholds {
			t.set(name, value)
		}
		d.checkThresholds(thresholds, &t)
	}
}

func (d *document) checkReference(at string, r *RecipeReference) {
	in := func(field string) string { return join(at, field) }
	if !d.sound(at) {
		return
	}
	for _, n := range []struct {
		field string
		value int
		most  int
	}{{"gpus", r.GPUs, mostWorkers}, {"concurrencyPerGPU", r.ConcurrencyPerGPU, mostInFlight}, {"inputTokens", r.InputTokens, mostTokens}, {"outputTokens", r.OutputTokens, mostTokens}} {
		if d.require(in(n.field), "a reference holds at the point at which it was measured") {
			d.within(in(n.field), n.value, 1, n.most)
		}
	}
	if d.require(in("throughput"), "tokens/s, of all the GPUs") {
		d.above(in("throughput"), r.Throughput)
	}
	if d.says(in("prompts")) {
		d.within(in("prompts"), r.Prompts, 1, mostCounted)
	}
	d.between(in("dispersion"), r.Dispersion, 0, mostJitter)
	if d.says(in("n")) {
		d.within(in("n"), r.N, 1, mostCounted)
	}
	if d.says(in("measured")) && d.sound(in("measured")) {
		_, day := time.Parse(time.DateOnly, r.Measured)
		if _, moment := time.Parse(time.RFC3339, r.Measured); day != nil && moment != nil {
			d.wrong(in("measured"), quote(r.Measured)+" is no date", `write it as "2026-06-04"`)
		}
	}
}
