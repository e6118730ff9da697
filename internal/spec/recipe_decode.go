package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// recipeDocument is a Recipe as it is written. What is ignored is of other checks
// than those of the verdict.
type recipeDocument struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   Metadata `json:"metadata"`
	Spec       struct {
		Base          ignored   `json:"base,omitzero"`
		Criteria      *Criteria `json:"criteria,omitempty"`
		Constraints   ignored   `json:"constraints,omitzero"`
		ComponentRefs ignored   `json:"componentRefs,omitzero"`
		Validation    struct {
			Readiness   ignored           `json:"readiness,omitzero"`
			Deployment  ignored           `json:"deployment,omitzero"`
			Performance recipePerformance `json:"performance"`
			Conformance ignored           `json:"conformance,omitzero"`
		} `json:"validation"`
	} `json:"spec"`
}

type recipePerformance struct {
	Timeout        ignored            `json:"timeout,omitzero"`
	Checks         []string           `json:"checks,omitempty"`
	Constraints    []RecipeConstraint `json:"constraints,omitempty"`
	NodeSelection  ignored            `json:"nodeSelection,omitzero"`
	Infrastructure ignored            `json:"infrastructure,omitzero"`
	Verdict        RecipeVerdict      `json:"verdict,omitzero"`
}

// ignored is a value that is known and not read.
type ignored struct{}

func (*ignored) fromDocument(*document, *yaml.Node, string) {}

const (
	atPerformance = "spec.validation.performance"
	atConstraints = atPerformance + ".constraints"
	atVerdict     = atPerformance + ".verdict"
	atThresholds  = atVerdict + ".thresholds"
)

// DecodeRecipe reads a Recipe from YAML or JSON. The error, if any, is a Mistakes
// with everything that is wrong with it.
func DecodeRecipe(data []byte) (*Recipe, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	var doc recipeDocument
	d := decode(root, &doc)
	d.constant("kind", doc.Kind, RecipeKind)
	if d.require("apiVersion", "write apiVersion: "+RecipeVersion) {
		d.word("apiVersion", doc.APIVersion, RecipeVersions())
	}
	if d.require("metadata.name", "write metadata: {name: a-name}") && d.sound("metadata.name") && !dnsLabel.MatchString(doc.Metadata.Name) {
		d.wrong("metadata.name", quote(doc.Metadata.Name)+" is no name", "lower-case letters, digits and dashes, at most 63, a letter or digit first and last")
	}
	r := &Recipe{Name: doc.Metadata.Name}
	if c := doc.Spec.Criteria; c != nil {
		r.Criteria = *c
		if d.says("spec.criteria.nodes") {
			d.within("spec.criteria.nodes", c.Nodes, 1, mostCounted)
		}
	}
	performance := doc.Spec.Validation.Performance
	r.Checks, r.Wants, r.Verdict = performance.Checks, performance.Constraints, performance.Verdict
	d.checkNames(atPerformance+".checks", r.Checks)
	d.checkWants(r.Wants)
	d.checkVerdict(r)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// EncodeRecipe writes a Recipe, with its comment before it. One that DecodeRecipe
// would not read is an error here.
func EncodeRecipe(r *Recipe) ([]byte, error) {
	var doc recipeDocument
	doc.Kind, doc.APIVersion, doc.Metadata.Name = RecipeKind, RecipeVersion, r.Name
	if r.Criteria != (Criteria{}) {
		doc.Spec.Criteria = &r.Criteria
	}
	doc.Spec.Validation.Performance = recipePerformance{Checks: r.Checks, Constraints: r.Wants, Verdict: r.Verdict}
	data, err := encodeYAML(doc, r.Comment)
	if err == nil {
		_, err = DecodeRecipe(data)
	}
	if err != nil {
		return nil, fmt.Errorf("a recipe that could not be read again: %w", err)
	}
	return data, nil
}

func (d *document) checkNames(path string, names []string) {
	for i, name := range names {
		switch at := element(path, i); {
		case !d.sound(at):
		case name == "":
			d.wrong(at, "no value", "write the name of a check")
		case slices.Contains(names[:i], name):
			d.wrong(at, quote(name)+" is there twice", "")
		}
	}
}

// passedOver reports whether a constraint is one of another check of upstream's.
func passedOver(name string) bool {
	return name == "inference-model-cache-storage-class" || name == "cre-training-goodput" || strings.HasPrefix(name, "nccl-")
}

func (d *document) checkWants(all []RecipeConstraint) {
	first := map[string]int{}
	for i, w := range all {
		at := element(atConstraints, i)
		if !d.sound(at) {
			continue
		}
		name := join(at, "name")
		named := d.require(name, "name what is wanted, as inference-throughput") && d.sound(name)
		valued := d.require(join(at, "value"), "write what is wanted") && d.sound(join(at, "value"))
		if !named {
			continue
		}
		if earlier, twice := first[w.Name]; twice {
			d.wrong(name, w.Name+" is there twice", fmt.Sprintf("it is at line %d already", d.written[join(element(atConstraints, earlier), "name")].line))
			continue
		}
		first[w.Name] = i
		f, isFigure := figureNamed(w.Name)
		switch {
		case isFigure:
			d.checkFigure(at, f, w, valued)
		case w.Name == InputModel || w.Name == InputConcurrency || w.Name == InputRouting:
			d.checkInput(at, w, valued)
		case !passedOver(w.Name):
			known := append(figureNames(), InputModel, InputConcurrency, InputRouting)
			d.wrong(name, fmt.Sprintf("%s is no constraint that is known here", quote(w.Name)), meant(w.Name, known, "one of"))
		}
	}
}

func (d *document) checkFigure(at string, f figure, w RecipeConstraint, valued bool) {
	d.word(join(at, "unit"), w.Unit, f.unitNames())
	if tolerance := join(at, "tolerance"); w.Tolerance != nil && d.sound(tolerance) && (*w.Tolerance < 0 || *w.Tolerance > mostTolerance) {
		d.wrong(tolerance, fmt.Sprintf("want 0 to %v, got %v", mostTolerance, *w.Tolerance), "a share of the threshold; 0.1 is a tenth")
	}
	if !valued {
		return
	}
	value := join(at, "value")
	comparator, rest := compared(string(w.Value))
	v, isNumber := amount(rest)
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
	case number != "":
		d.wrong(value, quote(rest)+" is no number", fmt.Sprintf("write \"%s %s\", and the unit as unit: %s", f.comparator, number, meantUnit(f, unit)))
	default:
		d.wrong(value, quote(rest)+" is no number", "write it as "+f.example)
	}
}

// meantUnit is the unit that was written beside a number, or the usual one.
func meantUnit(f figure, written string) string {
	if near, ok := Nearest(written, f.unitNames()); ok {
		return near
	}
	return f.units[0].name
}

func (d *document) checkInput(at string, w RecipeConstraint, valued bool) {
	for _, field := range []string{"unit", "tolerance"} {
		if d.says(join(at, field)) {
			d.wrong(join(at, field), fmt.Sprintf("%s takes no %s", w.Name, field), "it is an input, not a figure: leave it out")
		}
	}
	if !valued {
		return
	}
	value, text := join(at, "value"), string(w.Value)
	if comparator, rest := compared(text); comparator != "" {
		d.wrong(value, fmt.Sprintf("%s takes a bare value, got %s", w.Name, quote(text)), fmt.Sprintf("write %q", shorten(rest)))
		return
	}
	switch w.Name {
	case InputModel:
		if strings.TrimSpace(text) != text || text == "" {
			d.wrong(value, quote(text)+" is no model's name", "write it as Qwen/Qwen3-8B")
		}
	case InputConcurrency:
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > mostInFlight || !digits.MatchString(text) {
			d.wrong(value, fmt.Sprintf("want a whole number from 1 to %d, got %s", mostInFlight, quote(text)), "requests in flight for each GPU")
		}
	case InputRouting:
		d.word(value, text, []string{"dynamo-router", "gateway-epp"})
	}
}

func (d *document) checkVerdict(r *Recipe) {
	if !d.sound(atVerdict) {
		return
	}
	v := r.Verdict
	d.word(join(atVerdict, "profile"), v.Profile, Profiles())
	d.word(join(atVerdict, "stability"), v.Stability, []string{StabilityGate, StabilityReport})
	if v.Reference != nil {
		d.checkReference(join(atVerdict, "reference"), v.Reference)
	}
	if !d.sound(atThresholds) {
		return
	}
	profile := v.Profile
	if profile == "" {
		profile = ProfileStandard
	}
	if t, ok := DefaultThresholds(profile); ok {
		r.Overlay(&t)
		d.checkThresholds(atThresholds, &t)
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

// fromDocument takes a number too: a value is text, and 256 is easily written
// without quotes.
func (v *Wanted) fromDocument(d *document, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") {
		*v = Wanted(n.Value)
		return
	}
	if text, ok := d.text(n, path); ok {
		*v = Wanted(text)
	}
}

// fromDocument reads thresholds by their names, and remembers which were said.
func (v *ThresholdValues) fromDocument(d *document, n *yaml.Node, path string) {
	var t Thresholds
	d.structure(n, path, reflect.ValueOf(&t).Elem(), strings.Count(path, "."))
	values := t.byName()
	*v = ThresholdValues{}
	for name := range values {
		if d.says(join(path, name)) {
			(*v)[name] = values[name]
		}
	}
}
