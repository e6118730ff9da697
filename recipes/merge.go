package recipes

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// Groups of what Origins are kept of, beside the phases.
const (
	OfComponents = "components"
	OfVersions   = "versions" // of components, where they are the pinned ones
	OfVerdict    = "verdict"
)

// Merge lays layers over each other, the lowest first, and makes the whole recipe of
// them. Components have the version that is pinned, where no layer says another.
func (l *Library) Merge(layers []Overlay, asked spec.Criteria) (*spec.Recipe, error) {
	r := &spec.Recipe{
		Kind: spec.RecipeResultKind, APIVersion: spec.RecipeVersion, Criteria: asked,
		Components: []spec.Component{}, DeploymentOrder: []string{},
		Resolution: &spec.Resolution{AppliedOverlays: []string{}},
		Origins:    map[string]spec.Origin{},
	}
	var chosen Overlay // whose profile is the one that holds
	for _, o := range layers {
		layer{r, o}.lay()
		if o.Profile != nil {
			chosen = o
		}
		if o.Kind != spec.RecipeMixinKind {
			r.Resolution.AppliedOverlays = append(r.Resolution.AppliedOverlays, o.Name)
			r.Name = o.Name
		}
		if o.folder > l.added { // the user's own file
			r.Unused = append(r.Unused, o.Unused...)
		}
	}
	layer{r, chosen}.layProfile()
	pinned, err := Versions()
	if err != nil {
		return nil, fmt.Errorf("the embedded versions: %w", err)
	}
	for i := range r.Components {
		c := &r.Components[i]
		chart, ok := pinned.Chart(c.Name)
		if !ok {
			continue
		}
		if c.Version == "" && c.Tag == "" {
			c.Version = chart.Version
			r.Origins[OfVersions+"/"+c.Name] = spec.Origin{Overlay: "versions", File: BuiltIn + "versions.yaml"}
		}
		if c.Chart == "" && chart.Name != c.Name {
			c.Chart = chart.Name
		}
		if c.Source == "" {
			c.Source = chart.Source
		}
		if c.Type == "" {
			c.Type = "Helm"
		}
	}
	if r.DeploymentOrder, err = order(r.Components); err != nil {
		return nil, err
	}
	return r, nil
}

// layer is one that is laid over what is there.
type layer struct {
	whole *spec.Recipe
	from  Overlay
}

func (l layer) origin(group, name string) {
	l.whole.Origins[group+"/"+name] = spec.Origin{Overlay: l.from.Name, File: l.from.File}
}

func (l layer) lay() {
	for _, w := range l.from.Wants {
		l.constraint(&l.whole.Wants, "", w)
	}
	for _, c := range l.from.Components {
		l.component(c)
	}
	p, above := &l.whole.Phases, l.from.Phases
	l.phase(&p.Readiness, above.Readiness, "readiness")
	l.phase(&p.Deployment, above.Deployment, spec.PhaseDeployment)
	l.phase(&p.Performance, above.Performance, spec.PhasePerformance)
	l.phase(&p.Conformance, above.Conformance, spec.PhaseConformance)
}

// layProfile lays the usual one of the ways over it in which the deployment may be
// configured: what it wants of the cluster is wanted.
func (l layer) layProfile() {
	if l.from.Recipe == nil || l.from.Profile.Default == "" {
		return
	}
	p := l.from.Profile
	way := p.Values[p.Default]
	for _, w := range way.Constraints {
		l.constraint(&l.whole.Wants, "", w)
	}
	for _, c := range way.ComponentRefs {
		l.component(c)
	}
	if len(way.ReadinessConstraints) > 0 {
		l.phase(&l.whole.Phases.Readiness, &spec.RecipePhase{Constraints: way.ReadinessConstraints}, "readiness")
	}
	l.whole.Resolution.SelectedProfile = &spec.SelectedProfile{Name: p.Name, Value: p.Default, Advertiser: way.Advertiser}
}

// constraint adds one, or puts it in the place of the one of its name. It replaces all
// of that one: a threshold means nothing beside another's unit.
func (l layer) constraint(all *[]spec.RecipeConstraint, group string, c spec.RecipeConstraint) {
	l.origin(group, c.Name)
	if i := slices.IndexFunc(*all, func(x spec.RecipeConstraint) bool { return x.Name == c.Name }); i >= 0 {
		(*all)[i] = c
		return
	}
	*all = append(*all, c)
}

func (l layer) phase(at **spec.RecipePhase, above *spec.RecipePhase, name string) {
	if above == nil {
		return
	}
	if *at == nil {
		*at = &spec.RecipePhase{}
	}
	p := *at
	if above.Checks != nil && len(above.Checks) == 0 {
		p.Checks = []string{}
	}
	for _, check := range above.Checks {
		if !slices.Contains(p.Checks, check) {
			p.Checks = append(p.Checks, check)
			l.origin(name, check)
		}
	}
	if above.Constraints != nil && len(above.Constraints) == 0 {
		p.Constraints = []spec.RecipeConstraint{}
	}
	for _, c := range above.Constraints {
		l.constraint(&p.Constraints, name, c)
	}
	replace(&p.Timeout, above.Timeout)
	replace(&p.NodeSelection, above.NodeSelection)
	replace(&p.Infrastructure, above.Infrastructure)
	l.verdict(&p.Verdict, above.Verdict)
}

// replace sets a value to one that is said.
func replace[T comparable](value *T, said T) bool {
	var unsaid T
	if said == unsaid {
		return false
	}
	*value = said
	return true
}

// verdict lays over how it is judged. Origins are kept of each value, and of the last
// layer that said any of it.
func (l layer) verdict(v *spec.RecipeVerdict, above spec.RecipeVerdict) {
	if above.Profile != "" || above.Stability != "" || above.NoFreeGPUs != "" || above.Reference != nil || len(above.Thresholds) > 0 {
		l.origin(spec.PhasePerformance, OfVerdict)
	}
	if replace(&v.Profile, above.Profile) {
		l.origin(OfVerdict, "profile")
	}
	if replace(&v.Stability, above.Stability) {
		l.origin(OfVerdict, "stability")
	}
	if replace(&v.NoFreeGPUs, above.NoFreeGPUs) {
		l.origin(OfVerdict, "noFreeGPUs")
	}
	if replace(&v.Reference, above.Reference) {
		l.origin(OfVerdict, "reference")
	}
	for name, value := range above.Thresholds {
		if v.Thresholds == nil {
			v.Thresholds = spec.ThresholdValues{}
		}
		v.Thresholds[name] = value
		l.origin(OfVerdict, name)
	}
}

// component lays a component's fields over those of the one of its name. Lists of names
// and files grow, as upstream's do; the others are replaced.
func (l layer) component(c spec.Component) {
	l.origin(OfComponents, c.Name)
	i := slices.IndexFunc(l.whole.Components, func(x spec.Component) bool { return x.Name == c.Name })
	if i < 0 {
		l.whole.Components = append(l.whole.Components, c)
		return
	}
	b := &l.whole.Components[i]
	replace(&b.Namespace, c.Namespace)
	replace(&b.Chart, c.Chart)
	replace(&b.Type, c.Type)
	replace(&b.Source, c.Source)
	replace(&b.Version, c.Version)
	replace(&b.Tag, c.Tag)
	replace(&b.ValuesFile, c.ValuesFile)
	replace(&b.Path, c.Path)
	replace(&b.Cleanup, c.Cleanup)
	replace(&b.HealthCheckAsserts, c.HealthCheckAsserts)
	replace(&b.HealthCheckSkip, c.HealthCheckSkip)
	b.Overrides = c.Overrides.Over(b.Overrides)
	if c.Patches != nil {
		b.Patches = c.Patches
	}
	if c.ExpectedResources != nil {
		b.ExpectedResources = c.ExpectedResources
	}
	union(&b.DependencyRefs, c.DependencyRefs)
	union(&b.ManifestFiles, c.ManifestFiles)
	union(&b.PreManifestFiles, c.PreManifestFiles)
}

func union(all *[]string, more []string) {
	for _, one := range more {
		if !slices.Contains(*all, one) {
			*all = append(slices.Clip(*all), one) // it may be the layer's own
		}
	}
}

// disabled says whether a component is named and not to be installed.
func disabled(c spec.Component) bool {
	values, _ := c.Overrides.Value().(map[string]any)
	return values["enabled"] == false || values["install"] == false
}

// order is the components so that each comes after those that it waits for. One that
// the recipe does not install is taken to be there.
func order(all []spec.Component) ([]string, error) {
	waits := map[string][]string{}
	for _, c := range all {
		if !disabled(c) {
			waits[c.Name] = c.DependencyRefs
		}
	}
	placed := map[string]bool{}
	ready := func(c spec.Component) bool {
		return !slices.ContainsFunc(c.DependencyRefs, func(d string) bool { _, installed := waits[d]; return installed && !placed[d] })
	}
	list := []string{}
	for len(list) < len(waits) {
		before := len(list)
		for _, c := range all {
			if _, installed := waits[c.Name]; installed && !placed[c.Name] && ready(c) {
				placed[c.Name] = true
				list = append(list, c.Name)
			}
		}
		if len(list) == before {
			return nil, fmt.Errorf("components wait for each other: %s", strings.Join(waiting(all, waits, placed), " -> "))
		}
	}
	return list, nil
}

// waiting is a circle of components that wait for each other.
func waiting(all []spec.Component, waits map[string][]string, placed map[string]bool) []string {
	var way []string
	at := all[slices.IndexFunc(all, func(c spec.Component) bool { _, installed := waits[c.Name]; return installed && !placed[c.Name] })].Name
	for !slices.Contains(way, at) {
		way = append(way, at)
		for _, next := range waits[at] {
			if _, installed := waits[next]; installed && !placed[next] {
				at = next
				break
			}
		}
	}
	return append(way[slices.Index(way, at):], at)
}
