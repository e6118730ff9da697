package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wantCheck checks one constraint of a list; valued says whether its value is sound.
type wantCheck func(at string, w RecipeConstraint, valued bool)

// checkWants checks a list of constraints, each of which is there once.
func (d *document) checkWants(path string, all []RecipeConstraint, check wantCheck) {
	first := map[string]int{}
	for i, w := range all {
		at := element(path, i)
		if d.full {
			return
		}
		if !d.sound(at) {
			continue
		}
		name := join(at, "name")
		named := d.require(name, "name what is wanted, as inference-throughput") && d.sound(name)
		valued := d.require(join(at, "value"), "write what is wanted") && d.sound(join(at, "value"))
		if !named {
			continue
		}
		if w.Name == "" {
			d.wrong(name, "no value", "name what is wanted, as inference-throughput")
			continue
		}
		if earlier, twice := first[w.Name]; twice {
			d.twice(name, w.Name, join(element(path, earlier), "name"))
			continue
		}
		first[w.Name] = i
		check(at, w, valued)
	}
}

// checkOfCluster checks what is wanted of a fact.
func (d *document) checkOfCluster(at string, w RecipeConstraint, valued bool) {
	if slices.Contains(performanceNames(), w.Name) {
		d.wrong(join(at, "name"), w.Name+" is no fact of a cluster", "write it below validation.performance.constraints")
		return
	}
	d.takesNo(at, w.Name, "it is a fact of the cluster, which is so or is not: leave it out", "tolerance")
	if text, hint := ConstraintNameMistake(w.Name); text != "" {
		d.wrong(join(at, "name"), text, hint)
		return
	}
	if !valued || !d.sound(join(at, "unit")) {
		return
	}
	w.Tolerance = nil // told above, where it stands
	if text, hint := ConstraintMistake(w); text != "" {
		where := "value"
		if w.Unit != "" {
			if text, _ := ConstraintMistake(RecipeConstraint{Name: w.Name, Value: w.Value}); text == "" {
				where = "unit"
			}
		}
		d.wrong(join(at, where), text, hint)
	}
}

// versionPath is a fact that is a version: what is wanted of a component's is checked
// like what is wanted of it.
const versionPath = FactServerVersion

// checkOfDeployment checks what is wanted of a version that runs.
func (d *document) checkOfDeployment(r *Recipe) wantCheck {
	components := []string{"gpu-operator", "gpu-driver"}
	if p := r.Phases.Deployment; p != nil && len(r.Components)*len(p.Constraints) <= mostCompared {
		for _, c := range r.Components {
			components = append(components, c.Name)
		}
	}
	return func(at string, w RecipeConstraint, valued bool) {
		d.takesNo(at, w.Name, "a version has none: leave it out", "tolerance")
		if text, hint := versionNameMistake(w.Name, components); text != "" {
			d.wrong(join(at, "name"), text, hint)
		}
		if !valued {
			return
		}
		if text, hint := ConstraintMistake(RecipeConstraint{Name: versionPath, Value: w.Value}); text != "" {
			d.wrong(join(at, "value"), text, hint)
		}
	}
}

// versionNameMistake says what is wrong with the name of a version that runs: the name
// of a component and .version, or one of the two that upstream's checks look for.
func versionNameMistake(name string, components []string) (text, hint string) {
	const head, tail = "Deployment.", ".version"
	known := []string{head + "gpu-operator" + tail, head + "gpu-driver" + tail}
	component, isVersion := strings.CutSuffix(name, tail)
	switch {
	case slices.Contains(known, name):
		return "", ""
	case slices.Contains(performanceNames(), name):
		return name + " is not of the deployment", "write it below validation.performance.constraints"
	case !isVersion || !dnsLabel.MatchString(component):
		return quote(name) + " is no constraint that is known here", meant(name, known, "the name of a component and .version, or one of")
	case slices.Contains(components, component):
		return "", ""
	}
	if near, ok := Nearest(component, components); ok {
		return quote(component) + " is no component that is known here", fmt.Sprintf("did you mean %s?", near+tail)
	}
	return "", ""
}

// checkOfConformance checks what is given to a conformance check. Upstream gives it
// names of its own, so that what is known is the comparator alone.
func (d *document) checkOfConformance(at string, w RecipeConstraint, valued bool) {
	if slices.Contains(performanceNames(), w.Name) {
		d.wrong(join(at, "name"), w.Name+" is not of conformance", "write it below validation.performance.constraints")
		return
	}
	d.takesNo(at, w.Name, "leave it out", "tolerance")
	if !valued {
		return
	}
	comparator, rest := compared(string(w.Value))
	switch value := join(at, "value"); {
	case comparator == "!" || comparator == "" && rest != "":
	case rest == "":
		d.wrong(value, quote(string(w.Value))+" says nothing", "write what is wanted")
	case !slices.Contains(comparators(), comparator):
		d.wrong(value, quote(comparator)+" is no comparator", meant(comparator, comparators(), "one of"))
	}
}

// takesNo notes fields that mean nothing in a constraint.
func (d *document) takesNo(at, name, hint string, fields ...string) {
	for _, field := range fields {
		if path := join(at, field); d.says(path) {
			d.wrong(path, fmt.Sprintf("%s takes no %s", name, field), hint)
		}
	}
}

// inputNames are the inputs of the performance phase.
func inputNames() []string {
	return []string{InputModel, InputConcurrency, InputRouting, InputStorageClass}
}

// otherFigures are the figures of upstream's other checks. They are read, and nothing
// is done with them.
func otherFigures() []figure {
	bandwidth := []unit{{UnitBandwidth, 1, false}}
	return []figure{
		{"nccl-all-reduce-bw", ">=", bandwidth, `">= 300"`},
		{"nccl-all-reduce-bw-net", ">=", bandwidth, `">= 40"`},
		{"nccl-all-reduce-bw-nvls", ">=", bandwidth, `">= 500"`},
		{"nccl-cre-all-reduce-bw", ">=", bandwidth, `">= 300"`},
		{"cre-training-goodput", ">=", nil, `">= 1"`},
	}
}

// otherInputs are the inputs of those checks.
func otherInputs() []string {
	return []string{"nccl-benchmark-profile", "nccl-benchmark-runtime-ref", "nccl-benchmark-runtime"}
}

// performanceNames are the constraints of the performance phase.
func performanceNames() []string {
	all := append(figureNames(), inputNames()...)
	for _, f := range otherFigures() {
		all = append(all, f.name)
	}
	return append(all, otherInputs()...)
}

func (d *document) checkOfPerformance(at string, w RecipeConstraint, valued bool) {
	if f, ok := figureNamed(w.Name); ok {
		d.checkFigure(at, f, w, valued)
		return
	}
	if slices.Contains(inputNames(), w.Name) {
		d.checkInput(at, w, valued)
		return
	}
	others := otherFigures()
	i := slices.IndexFunc(others, func(f figure) bool { return f.name == w.Name })
	if i < 0 && !slices.Contains(otherInputs(), w.Name) {
		d.wrong(join(at, "name"), quote(w.Name)+" is no constraint that is known here", meant(w.Name, performanceNames(), "one of"))
		return
	}
	d.unused = append(d.unused, Unused{at, d.written[at].line})
	switch f := (figure{}); {
	case i < 0:
		d.checkOtherInput(at, w, valued)
	default:
		if f = others[i]; len(f.units) > 0 {
			w.Value = Wanted(strings.TrimSuffix(string(w.Value), f.units[0].name))
		} else if w.Unit != "" {
			f.units = []unit{{w.Unit, 1, false}} // whatever it is in: nothing is held against it
		}
		d.checkFigure(at, f, w, valued)
	}
}

func (d *document) checkFigure(at string, f figure, w RecipeConstraint, valued bool) {
	if unit := join(at, "unit"); w.Unit != "" && d.sound(unit) && !slices.Contains(f.unitNames(), w.Unit) {
		hint := "one of " + strings.Join(f.unitNames(), ", ")
		if near, ok := nearestUnit(f, w.Unit); ok {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		d.wrong(unit, quote(w.Unit)+" is not known here", hint)
	}
	if tolerance := join(at, "tolerance"); w.Tolerance != nil && d.sound(tolerance) && (*w.Tolerance < 0 || *w.Tolerance > mostTolerance) {
		d.wrong(tolerance, fmt.Sprintf("want 0 to %v, got %v", mostTolerance, *w.Tolerance), "a share of the threshold; 0.1 is a tenth")
	}
	if !valued {
		return
	}
	value := join(at, "value")
	said := f.wanted(w)
	comparator, v, isNumber, rest := said.comparator, said.value, said.isNumber, said.rest
	if isNumber && w.Unit != "" && said.unit != w.Unit {
		d.wrong(value, fmt.Sprintf("it is in %s, and unit: says %s", said.unit, w.Unit), "say one of them")
	}
	switch {
	case comparator == "":
		d.wrong(value, fmt.Sprintf("%s says no comparator", quote(string(w.Value))), "write it as "+f.example)
	case !slices.Contains(comparators(), comparator):
		d.wrong(value, fmt.Sprintf("%s is no comparator", quote(comparator)), fmt.Sprintf("%s takes %s, as %s", f.name, f.comparator, f.example))
	case comparator != f.comparator:
		d.wrong(value, fmt.Sprintf("%s cannot be held with %s", f.name, comparator), fmt.Sprintf("it takes %s alone, as %s", f.comparator, f.example))
	}
	switch number, unit := leadingAmount(rest); {
	case isNumber && (v <= 0 || v > mostAnything):
		d.wrong(value, fmt.Sprintf("want more than 0 and at most %s, got %s", decimals(mostAnything), decimals(v)), "")
	case isNumber:
	case number != "" && unit == "":
		d.wrong(value, quote(rest)+" is no number", fmt.Sprintf("write \"%s %s\"", f.comparator, number))
	case number != "" && len(f.units) > 0:
		d.wrong(value, quote(rest)+" is no number", fmt.Sprintf("write \"%s %s\", and the unit as unit: %s", f.comparator, number, meantUnit(f, unit)))
	default:
		d.wrong(value, quote(rest)+" is no number", "write it as "+f.example)
	}
}

// meantUnit is the unit that was written beside a number, or the usual one.
func meantUnit(f figure, written string) string {
	if near, ok := nearestUnit(f, written); ok {
		return near
	}
	return f.units[0].name
}

// nearestUnit is the unit of a figure that was meant, by another name for it or by a
// slip.
func nearestUnit(f figure, written string) (string, bool) {
	usual := map[string]string{
		"msec": UnitMS, "msecs": UnitMS, "millis": UnitMS, "millisecond": UnitMS, "milliseconds": UnitMS,
		"sec": UnitS, "secs": UnitS, "second": UnitS, "seconds": UnitS,
		"tok/s": UnitTokens, "tok/sec": UnitTokens, "tokens/sec": UnitTokens, "tokens/second": UnitTokens, "tps": UnitTokens,
		"tok/s/gpu": UnitTokensPerGPU, "tokens/sec/gpu": UnitTokensPerGPU, "tps/gpu": UnitTokensPerGPU,
	}
	if name, ok := usual[strings.ToLower(written)]; ok && slices.Contains(f.unitNames(), name) {
		return name, true
	}
	return Nearest(written, f.unitNames())
}

// bareValue is the value of an input, which has no comparator.
func (d *document) bareValue(at string, w RecipeConstraint, valued bool) (text string, ok bool) {
	d.takesNo(at, w.Name, "it is an input, not a figure: leave it out", "unit", "tolerance")
	text = string(w.Value)
	if !valued {
		return "", false
	}
	if comparator, rest := compared(text); comparator != "" {
		d.wrong(join(at, "value"), fmt.Sprintf("%s takes a bare value, got %s", w.Name, quote(text)), fmt.Sprintf("write %q", shorten(rest)))
		return "", false
	}
	return text, true
}

func (d *document) checkInput(at string, w RecipeConstraint, valued bool) {
	text, ok := d.bareValue(at, w, valued)
	if !ok {
		return
	}
	value, blank := join(at, "value"), text == "" || strings.ContainsAny(text, " \t\r\n")
	switch w.Name {
	case InputModel:
		if blank {
			d.wrong(value, quote(text)+" is no model's name", "write it as Qwen/Qwen3-8B")
		}
	case InputConcurrency:
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > mostInFlight || !digits.MatchString(text) {
			d.wrong(value, fmt.Sprintf("want a whole number from 1 to %d, got %s", mostInFlight, quote(text)), "requests in flight for each GPU")
		}
	case InputRouting:
		d.word(value, text, []string{"dynamo-router", "gateway-epp"})
	case InputStorageClass:
		if blank {
			d.wrong(value, quote(text)+" is no storage class", "write its name, as gp3")
		}
	}
}

// checkOtherInput checks an input that nothing is done with: a pair of accelerator and
// service, or a whole document that the check is run by.
func (d *document) checkOtherInput(at string, w RecipeConstraint, valued bool) {
	text, ok := d.bareValue(at, w, valued)
	if ok && strings.TrimSpace(text) == "" {
		d.wrong(join(at, "value"), quote(text)+" says nothing", "write it as h100/eks")
	}
}
