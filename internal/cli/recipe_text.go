package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

// criteriaText is what a recipe is for, in few words.
func criteriaText(c spec.Criteria) string {
	var words []string
	for _, field := range spec.CriteriaFields() {
		if word := c.Named(field); word != "" {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return "every deployment"
	}
	return strings.Join(words, " ")
}

// listedRecipe is an overlay in a list.
type listedRecipe struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Base     string        `json:"base,omitempty"`
	Criteria spec.Criteria `json:"criteria"`
	Checks   int           `json:"checks"`  // with those of its bases
	Figures  []string      `json:"figures"` // what is wanted of it under load
}

// listRecipes is the product of --list.
func (a *app) listRecipes(l *recipes.Library, format string) error {
	var all []listedRecipe
	for _, o := range l.Overlays {
		layers, _ := l.LayersNamed(o.Name)
		r, err := l.Merge(layers, o.Criteria)
		if err != nil {
			return noRecipe(fmt.Errorf("%s: %w", o.File, err))
		}
		listed := listedRecipe{Name: o.Name, File: o.File, Base: o.Base, Criteria: o.Criteria, Figures: underLoad(r)}
		for _, name := range spec.Phases() {
			if p := r.Phases.Named(name); p != nil {
				listed.Checks += len(p.Checks)
			}
		}
		all = append(all, listed)
	}
	if format == outputJSON {
		return a.printJSON(all)
	}
	rows := [][]string{{"NAME", "FOR", "CHECKS", "UNDER LOAD"}}
	for _, r := range all {
		rows = append(rows, []string{r.Name, criteriaText(r.Criteria), fmt.Sprint(r.Checks), dash(strings.Join(r.Figures, ", "))})
	}
	for _, line := range layout.Aligned(rows, []bool{false, false, true, false}) {
		fmt.Fprintln(a.env.Stdout, strings.TrimPrefix(line, "  "))
	}
	return nil
}

// underLoad is what a recipe wants under load.
func underLoad(r *spec.Recipe) []string {
	figures := []string{}
	if p := r.Phases.Performance; p != nil {
		for _, c := range p.Constraints {
			if strings.ContainsAny(string(c.Value), "<>") {
				figures = append(figures, recipes.Wanted(c))
			}
		}
	}
	return figures
}

// explained is a value of a recipe and where it is from.
type explained struct {
	Of      string `json:"of"`
	Name    string `json:"name"`
	Value   string `json:"value"`
	Overlay string `json:"overlay,omitempty"`
	File    string `json:"file,omitempty"`
}

// unusedField is a field that is known and not used.
type unusedField struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Path string `json:"path"`
}

// explanation is the product of --explain.
type explanation struct {
	Criteria spec.Criteria `json:"criteria"`
	Layers   []spec.Origin `json:"layers"` // the lowest first
	Values   []explained   `json:"values"`
	Unused   []unusedField `json:"unused"`
}

// values are what a recipe says, in the order in which it is told.
func (m *madeRecipe) values() (all []explained) {
	add := func(of, group, name, value string) {
		o, ok := m.OriginOf(group, name)
		if !ok && len(m.layers) == 1 {
			o = spec.Origin{File: m.layers[0].File}
		}
		all = append(all, explained{of, name, value, o.Overlay, o.File})
	}
	for _, c := range m.Wants {
		add("cluster", "", c.Name, recipes.Wanted(c))
	}
	if p := m.Phases.Readiness; p != nil {
		for _, c := range p.Constraints {
			add("readiness", "readiness", c.Name, recipes.Wanted(c))
		}
	}
	for _, name := range spec.Phases() {
		p := m.Phases.Named(name)
		if p == nil {
			continue
		}
		for _, check := range p.Checks {
			add(name, name, check, "check")
		}
		for _, c := range p.Constraints {
			add(name, name, c.Name, recipes.Wanted(c))
		}
	}
	v := m.Verdict()
	for _, x := range [][2]string{{"profile", v.Profile}, {"stability", v.Stability}} {
		if x[1] != "" {
			add("verdict", recipes.OfVerdict, x[0], x[1])
		}
	}
	if v.Reference != nil {
		add("verdict", recipes.OfVerdict, "reference", recipes.ReferenceText(v.Reference))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Thresholds)) {
		add("verdict", recipes.OfVerdict, name, fmt.Sprint(v.Thresholds[name]))
	}
	for _, c := range m.Components {
		version := strings.TrimSpace(c.Version + " " + c.Tag)
		if version == "" {
			version = "no version"
		}
		group := recipes.OfComponents
		if _, pinned := m.OriginOf(recipes.OfVersions, c.Name); pinned {
			group = recipes.OfVersions
		}
		add("components", group, c.Name, version)
	}
	return all
}

// recipeText is a recipe for a person.
func recipeText(m *madeRecipe, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	m.head(t)
	writeValues(t, m.values(), func(v explained) []string { return []string{v.Name, v.Value} })
	return t.Bytes()
}

// writeValues writes a part for each kind of value, a row for each of them.
func writeValues(t *layout.Page, values []explained, cells func(explained) []string) {
	for len(values) > 0 {
		of := values[0].Of
		t.Title(of)
		var rows [][]string
		for len(values) > 0 && values[0].Of == of {
			rows = append(rows, cells(values[0]))
			values = values[1:]
		}
		writeAligned(t, rows)
	}
}

func writeAligned(t *layout.Page, rows [][]string) {
	for _, line := range layout.Aligned(rows, make([]bool, len(rows[0]))) {
		fmt.Fprintln(t, line)
	}
}

func (m *madeRecipe) head(t *layout.Page) {
	t.Line(0, t.Bold("RECIPE")+"  ", "for "+criteriaText(m.Criteria))
	for _, line := range m.comment {
		t.Line(8, "", line)
	}
}

// explainRecipe prints where everything is from.
func (a *app) explainRecipe(m *madeRecipe, format string) error {
	e := explanation{Criteria: m.Criteria, Layers: []spec.Origin{}, Values: m.values(), Unused: []unusedField{}}
	for _, o := range m.layers {
		e.Layers = append(e.Layers, spec.Origin{Overlay: o.Name, File: o.File})
		for _, u := range o.Unused {
			e.Unused = append(e.Unused, unusedField{o.File, u.Line, u.Path})
		}
	}
	if format == outputJSON {
		return a.printJSON(e)
	}
	t := &layout.Page{Palette: a.stdoutPalette()}
	m.head(t)
	writeValues(t, e.Values, func(v explained) []string { return []string{v.Name, v.Value, v.File} })
	if len(e.Unused) > 0 {
		t.Title("accepted and not used")
		rows := make([][]string, len(e.Unused))
		for i, u := range e.Unused {
			rows[i] = []string{fmt.Sprintf("%s:%d", u.File, u.Line), u.Path}
		}
		writeAligned(t, rows)
	}
	_, err := a.env.Stdout.Write(t.Bytes())
	return err
}
