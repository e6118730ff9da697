package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// overlayDocument is an overlay as it is written.
type overlayDocument struct {
	Kind       string      `json:"kind"`
	APIVersion string      `json:"apiVersion"`
	Metadata   Metadata    `json:"metadata"`
	Spec       overlaySpec `json:"spec"`
}

type overlaySpec struct {
	Base          string             `json:"base,omitempty"` // the overlay below this one
	Criteria      *Criteria          `json:"criteria,omitempty"`
	Constraints   []RecipeConstraint `json:"constraints,omitzero"`
	ComponentRefs []Component        `json:"componentRefs,omitzero"`
	Mixins        []string           `json:"mixins,omitzero"` // parts that overlays share, by name
	Profile       *RecipeProfile     `json:"profile,omitempty"`
	Validation    RecipePhases       `json:"validation,omitzero"`
}

// mixinDocument is a mixin as it is written. It only adds: it has nothing that a
// recipe is chosen or judged by.
type mixinDocument struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   Metadata `json:"metadata"`
	Spec       struct {
		Constraints   []RecipeConstraint `json:"constraints,omitzero"`
		ComponentRefs []Component        `json:"componentRefs,omitzero"`
	} `json:"spec"`
}

// resultDocument is a whole recipe as it is written. What upstream always writes is
// always written, null where there is none.
type resultDocument struct {
	Kind            string               `json:"kind"`
	APIVersion      string               `json:"apiVersion"`
	Metadata        *Resolution          `json:"metadata,omitempty"`
	Criteria        *Criteria            `json:"criteria"`
	Constraints     []RecipeConstraint   `json:"constraints,omitzero"`
	ComponentRefs   wholeComponents      `json:"componentRefs"`
	DeploymentOrder []string             `json:"deploymentOrder" aicr:"unused"`
	Validation      RecipePhases         `json:"validation,omitzero"`
	Configuration   *RecipeConfiguration `json:"configuration,omitempty" aicr:"unused"`
}

// wholeComponents are the components of a whole recipe. Upstream writes the type and the
// source of each, empty where there is none, and its schema wants them.
type wholeComponents []Component

// MarshalJSON writes them so.
func (all wholeComponents) MarshalJSON() ([]byte, error) {
	type whole struct {
		Component
		Type   string `json:"type"`
		Source string `json:"source"`
	}
	if all == nil {
		return []byte("null"), nil
	}
	list := make([]any, len(all))
	for i, c := range all {
		if list[i] = c; c.Type == "" || c.Source == "" {
			list[i] = whole{c, c.Type, c.Source}
		}
	}
	return json.Marshal(list)
}

// DecodeRecipe reads a Recipe from YAML or JSON, of any of RecipeKinds. The error, if
// any, is a Mistakes with everything that is wrong with it.
func DecodeRecipe(data []byte) (*Recipe, error) {
	r, err := SalvageRecipe(data)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// SalvageRecipe is DecodeRecipe for somebody who has more to say of a recipe than it
// knows itself: beside the mistakes it gives back what could be made of it, or nil.
func SalvageRecipe(data []byte) (*Recipe, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	kind, other := recipeKindOf(root)
	if other != nil {
		return nil, other
	}
	r, d := recipeOf(root, kind)
	d.checkRecipe(r, kind)
	if err := d.err(); err != nil {
		return r, err
	}
	slices.SortStableFunc(d.unused, func(a, b Unused) int { return a.Line - b.Line })
	r.Unused = d.unused
	return r, nil
}

// recipeKindOf is the kind that a document is read as: the one that it names, the one
// that it means, or else the one that it has the shape of. A document that is known to
// be something else is not taken apart as a recipe.
func recipeKindOf(root *yaml.Node) (kind string, other Mistakes) {
	written := map[string]*yaml.Node{}
	if root.Kind == yaml.MappingNode {
		for _, m := range emptyDocument().members(root, "", 0) {
			written[m.name] = target(m.value)
		}
	}
	if n := written["kind"]; n != nil && n.Kind == yaml.ScalarNode {
		if slices.Contains([]string{SnapshotKind, CatalogKind, ConfigKind, VersionsKind, ScenarioKind}, n.Value) {
			return "", notThis(n, "a recipe", "a recipe is one of "+strings.Join(RecipeKinds(), ", "))
		}
		if near, ok := Nearest(n.Value, RecipeKinds()); ok {
			return near, nil
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return written[name] != nil })
	}
	switch {
	case has("spec"):
		return RecipeKind, nil
	case has("config"):
		return ValidationInputKind, nil
	case has("criteria", "constraints", "componentRefs", "deploymentOrder", "validation"):
		return RecipeResultKind, nil
	}
	return RecipeKind, nil
}

// notThis is what is wrong with a document that is something else: none of its fields.
func notThis(kind *yaml.Node, wanted, hint string) Mistakes {
	at := positionOf(kind)
	return Mistakes{{Path: "kind", Line: at.line, Column: at.column, Text: fmt.Sprintf("this is a %s, not %s", kind.Value, wanted), Hint: hint}}
}

// recipeOf reads a document of that kind.
func recipeOf(root *yaml.Node, kind string) (*Recipe, *document) {
	r := &Recipe{Kind: kind}
	var d *document
	var criteria *Criteria
	switch kind {
	case RecipeResultKind:
		var doc resultDocument
		d = decode(root, &doc)
		d.checkHead(kind, doc.Kind, doc.APIVersion)
		criteria = doc.Criteria
		r.APIVersion, r.Resolution, r.Wants, r.Components = doc.APIVersion, doc.Metadata, doc.Constraints, doc.ComponentRefs
		r.DeploymentOrder, r.Phases, r.Configuration = doc.DeploymentOrder, doc.Validation, doc.Configuration
	case ValidationInputKind:
		var doc ValidationInput
		d = decode(root, &doc)
		d.checkHead(kind, doc.Kind, doc.APIVersion)
		return doc.Recipe(), d
	case RecipeMixinKind:
		var doc mixinDocument
		d = decode(root, &doc)
		d.checkHead(kind, doc.Kind, doc.APIVersion)
		r.APIVersion, r.Name, r.Wants, r.Components = doc.APIVersion, doc.Metadata.Name, doc.Spec.Constraints, doc.Spec.ComponentRefs
	default:
		var doc overlayDocument
		d = decode(root, &doc)
		d.checkHead(kind, doc.Kind, doc.APIVersion)
		criteria = doc.Spec.Criteria
		r.APIVersion, r.Name, r.Base, r.Wants, r.Components = doc.APIVersion, doc.Metadata.Name, doc.Spec.Base, doc.Spec.Constraints, doc.Spec.ComponentRefs
		r.Mixins, r.Profile, r.Phases = doc.Spec.Mixins, doc.Spec.Profile, doc.Spec.Validation
	}
	if criteria != nil {
		r.Criteria = *criteria
	}
	return r, d
}

// EncodeRecipe writes a Recipe as a document of its kind, with its comment before it.
// What DecodeRecipe would not read, or what the kind has no place for, is an error.
func EncodeRecipe(r *Recipe) ([]byte, error) {
	kind := r.Kind
	if kind == "" {
		kind = RecipeKind
	}
	if !slices.Contains(RecipeKinds(), kind) {
		return nil, fmt.Errorf("no recipe is of the kind %s", quote(kind))
	}
	if field := r.outOfPlace(kind); field != "" {
		return nil, fmt.Errorf("a %s has no %s", kind, field)
	}
	data, err := encodeYAML(recipeDocument(r, kind), r.Comment)
	if err == nil {
		_, err = DecodeRecipe(data)
	}
	if err != nil {
		return nil, fmt.Errorf("a recipe that could not be read again: %w", err)
	}
	return data, nil
}

func recipeDocument(r *Recipe, kind string) any {
	version := r.APIVersion
	if version == "" {
		version = RecipeVersion
	}
	switch kind {
	case ValidationInputKind:
		return validationInputOf(r)
	case RecipeResultKind:
		return resultDocument{Kind: kind, APIVersion: version, Metadata: r.Resolution, Criteria: someCriteria(r), Constraints: r.Wants, ComponentRefs: r.Components,
			DeploymentOrder: r.DeploymentOrder, Validation: r.Phases, Configuration: r.Configuration}
	case RecipeMixinKind:
		doc := mixinDocument{Kind: kind, APIVersion: version, Metadata: Metadata{Name: r.Name}}
		doc.Spec.Constraints, doc.Spec.ComponentRefs = r.Wants, r.Components
		return doc
	}
	return overlayDocument{Kind: kind, APIVersion: version, Metadata: Metadata{Name: r.Name},
		Spec: overlaySpec{r.Base, someCriteria(r), r.Wants, r.Components, r.Mixins, r.Profile, r.Phases}}
}

// outOfPlace names something that the recipe has and a document of that kind has no
// place for; "" where there is no such thing.
func (r *Recipe) outOfPlace(kind string) string {
	overlay, result, input := kind == RecipeKind, kind == RecipeResultKind, kind == ValidationInputKind
	for _, part := range []struct {
		name        string
		there, fits bool
	}{
		{"base", r.Base != "", overlay},
		{"mixins", r.Mixins != nil, overlay},
		{"profile", r.Profile != nil, overlay},
		{"criteria", r.Criteria != Criteria{}, overlay || result || input},
		{"validation", r.Phases != RecipePhases{}, overlay || result || input},
		{"deployment order", r.DeploymentOrder != nil, result},
		{"configuration", r.Configuration != nil, result},
		{"GPU allocation policy", r.GPUPolicy != "", input},
		{"resolution", r.Resolution != nil, result || input && reflect.DeepEqual(r.Resolution, &Resolution{Version: r.madeBy()})},
	} {
		if part.there && !part.fits {
			return part.name
		}
	}
	return ""
}

// someCriteria is nil where the recipe has none.
func someCriteria(r *Recipe) *Criteria {
	if r.Criteria == (Criteria{}) {
		return nil
	}
	return &r.Criteria
}

// madeBy is the version of the program that made a whole recipe.
func (r *Recipe) madeBy() string {
	if r.Resolution == nil {
		return ""
	}
	return r.Resolution.Version
}

func (v *Wanted) fromDocument(d *document, n *yaml.Node, path string) {
	*v = Wanted(d.bareText(n, path))
}

// fromDocument takes a bare name too.
func (o *ExcludedOverlay) fromDocument(d *document, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		o.Name, _ = d.text(n, path)
		return
	}
	d.structure(n, path, reflect.ValueOf(o).Elem(), strings.Count(path, "."))
	if d.sound(path) {
		d.require(join(path, "name"), "name the overlay")
	}
}

// fromDocument reads thresholds by their names, and remembers which were said.
func (v *ThresholdValues) fromDocument(d *document, n *yaml.Node, path string) {
	var t Thresholds
	d.structure(n, path, reflect.ValueOf(&t).Elem(), strings.Count(path, "."))
	values := t.byName()
	for name := range values {
		if d.says(join(path, name)) {
			if *v == nil {
				*v = ThresholdValues{}
			}
			(*v)[name] = values[name]
		}
	}
}
