package checks

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// PreflightOptions say which checks of a recipe are looked at.
type PreflightOptions struct {
	Phases     []string // of spec.Phases; none: all of them
	Skip       []string // checks to leave out
	SkipPlaces []string // where each of them is named; none: on the command line
	Only       []string // the only checks to look at; none: all of them
	OnlyPlaces []string // likewise
	FailFast   bool     // what comes after a phase that did not hold is skipped
	Skew       string   // why what would be deployed does not go with what is there; "": it does

	// Live is what a cluster was asked now, by a fact's path: it prevails over the snapshot.
	Live map[string]bool
}

// leftOut is by which flag the user left a check out; "": it was asked for.
func (o *PreflightOptions) leftOut(phase, check string) string {
	switch {
	case len(o.Phases) > 0 && !slices.Contains(o.Phases, phase):
		return "--phase"
	case len(o.Only) > 0 && !slices.Contains(o.Only, check):
		return "--check"
	case slices.Contains(o.Skip, check):
		return "--skip-check"
	}
	return ""
}

// Asked says whether a recipe declares a check and the user did not leave it out.
func Asked(r *spec.Recipe, o PreflightOptions, check string) bool {
	for _, phase := range spec.Phases() {
		if slices.Contains(declaredIn(r, phase), check) && o.leftOut(phase, check) == "" {
			return true
		}
	}
	return false
}

// NameMistake is something that is wrong with the names of checks, in the recipe or
// among the options.
type NameMistake struct{ Text, Hint string }

func (m *NameMistake) Error() string { return m.Text }

// Preflight says what can be said of a recipe and a snapshot on paper. What is wanted
// of the cluster comes first: where that is not there, no check is looked at.
func Preflight(r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) *spec.Preflight {
	p := &spec.Preflight{Schema: spec.PreflightSchema, Recipe: r.Name, Readiness: spec.HoldAll(r, s), Phases: []spec.PhaseResult{},
		Notes: OtherCluster(r.Criteria, s)}
	if n := countUnmet(p.Readiness); n > 0 {
		p.Verdict, p.Reason = spec.Fail, fmt.Sprintf("%d of %d readiness constraints are not met; no check was looked at", n, len(p.Readiness))
		if !slices.ContainsFunc(p.Readiness, func(h spec.Held) bool { return h.State == spec.HeldNotMet }) {
			p.Verdict, p.Reason = spec.Inconclusive, fmt.Sprintf("%d of %d readiness constraints cannot be held; no check was looked at", n, len(p.Readiness))
		}
		for _, phase := range asked(o.Phases) {
			p.Phases = append(p.Phases, preflightPhase(phase, spec.Because(spec.CheckClusterUnmet), r, s, c, o))
		}
		return p
	}
	p.Phases, _ = preflightPhases(r, s, c, o)
	p.Verdict, p.Reason = sumUp(p)
	return p
}

// preflightPhases is what becomes of each phase that is asked for, and why those that
// come after one that did not hold are not looked at.
func preflightPhases(r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) (all []spec.PhaseResult, why map[string]spec.CheckReason) {
	stopped, why := spec.CheckReason{}, map[string]spec.CheckReason{}
	for _, phase := range asked(o.Phases) {
		why[phase] = stopped
		result := preflightPhase(phase, stopped, r, s, c, o)
		if o.FailFast && stopped.Code == "" && (result.State == spec.Fail || result.State == spec.Inconclusive) {
			stopped = spec.Because(spec.FailFast, phase)
		}
		all = append(all, result)
	}
	return all, why
}

// OtherCluster says where a recipe is for another kind of cluster than the snapshot is
// of. A word that is only the user's own says nothing that a snapshot could, and the
// simulator stands for any cluster.
func OtherCluster(c spec.Criteria, s *spec.Snapshot) (notes []string) {
	if s == nil {
		return nil
	}
	anyKind := []string{"", "any", "generic", "sim"}
	_, told, _ := spec.InferCriteria(s)
	for _, e := range told {
		word := c.Named(e.Field)
		if word == e.Value || slices.Contains(anyKind, word) || slices.Contains(anyKind, e.Value) || !slices.Contains(spec.CriteriaWords(e.Field), word) {
			continue
		}
		notes = append(notes, fmt.Sprintf("the recipe is for %s %s, and the snapshot is of %s: %s is %s", e.Field, word, e.Value, e.Path, e.Found))
	}
	return notes
}

// Ready says whether everything that is wanted of the cluster is there.
func Ready(all []spec.Held) bool { return countUnmet(all) == 0 }

func countUnmet(all []spec.Held) (n int) {
	for _, h := range all {
		if h.State != spec.HeldMet {
			n++
		}
	}
	return n
}

// asked are the phases that were asked for, in the order in which they run.
func asked(phases []string) (ordered []string) {
	for _, p := range spec.Phases() {
		if len(phases) == 0 || slices.Contains(phases, p) {
			ordered = append(ordered, p)
		}
	}
	return ordered
}

// Names finds everything that is wrong with the names of checks: those that the recipe
// declares, in whichever phase, and those that are to be left out.
func Names(r *spec.Recipe, c *spec.Catalog, o PreflightOptions) (wrong []*NameMistake) {
	bad := func(hint, format string, args ...any) {
		wrong = append(wrong, &NameMistake{fmt.Sprintf(format, args...), hint})
	}
	var known []string
	phaseOf := map[string]string{}
	for _, e := range c.Validators {
		known = append(known, e.Name)
		phaseOf[e.Name] = e.Phase
	}
	for _, phase := range spec.Phases() {
		declared := declaredIn(r, phase)
		for i, name := range declared {
			switch where, ok := phaseOf[name]; {
			case !ok:
				bad(meantCheck(name, known), "%s: there is no check %q%s", phase, name, saidIn(r, phase, name))
			case where != phase:
				bad(fmt.Sprintf("write it below validation.%s.checks", where), "%s: %q is a check of the phase %s%s", phase, name, where, saidIn(r, phase, name))
			case slices.Contains(declared[:i], name):
				bad("leave one of them out", "%s: %q is there twice%s", phase, name, saidIn(r, phase, name))
			}
		}
	}
	if ready := r.Phases.Readiness; ready != nil {
		for _, name := range ready.Checks {
			hint := meantCheck(name, known)
			if where, ok := phaseOf[name]; ok {
				hint = fmt.Sprintf("write it below validation.%s.checks", where)
			}
			bad(hint, "readiness: %q would never run: readiness is no phase, and has constraints alone%s", name, saidIn(r, "readiness", name))
		}
	}
	for i, name := range o.Skip {
		if _, ok := phaseOf[name]; !ok {
			bad(meantCheck(name, known), "%s: there is no check %q", placeOf("--skip-check", o.SkipPlaces, i), name)
		}
	}
	for i, name := range o.Only {
		where := placeOf("--check", o.OnlyPlaces, i)
		switch phase, ok := phaseOf[name]; {
		case !ok:
			bad(meantCheck(name, known), "%s: there is no check %q", where, name)
		case !slices.Contains(declaredIn(r, phase), name):
			bad(declaredHint(r, name), "%s: the recipe does not declare %s", where, name)
		case slices.Contains(o.Skip, name):
			bad("leave one of them out", "%s and --skip-check both name %s", where, name)
		case len(o.Phases) > 0 && !slices.Contains(o.Phases, phase):
			bad(fmt.Sprintf("add --phase %s, or leave --phase out", phase), "%s: %s is a check of the phase %s, which --phase leaves out", where, name, phase)
		}
	}
	return wrong
}

func placeOf(flag string, places []string, i int) string {
	if i < len(places) {
		return places[i]
	}
	return flag
}

// declaredHint names the declared check that was meant, or all of them.
func declaredHint(r *spec.Recipe, name string) string {
	var declared []string
	for _, phase := range spec.Phases() {
		declared = append(declared, declaredIn(r, phase)...)
	}
	if near, ok := spec.Nearest(name, declared); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(declared) == 0 {
		return "the recipe declares no check; declare it below validation.PHASE.checks"
	}
	return "the recipe declares " + strings.Join(declared, ", ")
}

// Nothing is what is wrong where the recipe asks for no check of the phases that are
// asked for; nil: there is something to check.
func Nothing(r *spec.Recipe, o PreflightOptions) *NameMistake {
	for _, phase := range asked(o.Phases) {
		for _, name := range declaredIn(r, phase) {
			if o.leftOut(phase, name) == "" {
				return nil
			}
		}
	}
	return &NameMistake{fmt.Sprintf("there is nothing to check: the recipe asks for no check of %s%s", strings.Join(asked(o.Phases), ", "), lessSkipped(o.Skip)),
		"declare one in the recipe, below validation.PHASE.checks, or ask for another phase"}
}

func lessSkipped(skip []string) string {
	if len(skip) == 0 {
		return ""
	}
	return " beside those that --skip-check leaves out"
}

func meantCheck(name string, known []string) string {
	if near, ok := spec.Nearest(name, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "the catalog has " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

func saidIn(r *spec.Recipe, phase, name string) string {
	if o, ok := r.OriginOf(phase, name); ok {
		return fmt.Sprintf(" (overlay %s, %s)", o.Overlay, o.File)
	}
	return ""
}

func declaredIn(r *spec.Recipe, phase string) []string {
	if p := r.Phases.Named(phase); p != nil {
		return p.Checks
	}
	return nil
}

// preflightPhase is what becomes of a phase. Stopped is why none of its checks is looked
// at; without a code they are.
func preflightPhase(phase string, stopped spec.CheckReason, r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) spec.PhaseResult {
	result := spec.PhaseResult{Name: phase, Checks: []spec.CheckResult{}}
	for _, e := range c.Validators {
		if e.Phase != phase {
			continue
		}
		declared := slices.Contains(declaredIn(r, phase), e.Name)
		check := spec.CheckResult{Name: e.Name, Declared: declared, State: spec.Skip}
		why := stopped
		switch by := o.leftOut(phase, e.Name); {
		case !declared:
			why = spec.Because(spec.CheckUndeclared)
		case by != "":
			why = spec.Because(spec.NotAsked, by)
		case stopped.Code == "":
			decided := onPaper(e.Name, r, seen{s, o.Live}, o.Skew)
			why, check.State, check.Held = decided.Why, decided.State, decided.Held
			check.NeedsCluster = decided.Runs && decided.State == spec.Skip
		}
		check.Reason = why.Text()
		result.Checks = append(result.Checks, check)
	}
	for _, name := range declaredIn(r, phase) { // Names tells it with its place; who did not ask is not to be told that all is well
		if e, ok := c.Named(name); !ok || e.Phase != phase {
			result.Checks = append(result.Checks, spec.CheckResult{Name: name, Declared: true, State: spec.Fail, Reason: spec.Because(spec.CheckMisnamed).Text()})
		}
	}
	result.State, result.Reason = phaseState(result.Checks)
	return result
}

// phaseState is the worst of a phase's checks. A phase in which everything was skipped
// did not pass.
func phaseState(all []spec.CheckResult) (spec.State, string) {
	count := map[spec.State]int{}
	var first string
	for _, worst := range []spec.State{spec.Fail, spec.Inconclusive} {
		for _, c := range all {
			if c.State == worst && first == "" {
				first = c.Name + ": " + c.Reason
			}
		}
	}
	for _, c := range all {
		count[c.State]++
	}
	switch {
	case count[spec.Fail] > 0:
		return spec.Fail, first
	case count[spec.Inconclusive] > 0:
		return spec.Inconclusive, first
	case count[spec.Pass] > 0:
		return spec.Pass, fmt.Sprintf("%d passed, %d skipped", count[spec.Pass], count[spec.Skip])
	case len(all) == 0:
		return spec.Skip, "the catalog has no check of this phase"
	}
	return spec.Skip, fmt.Sprintf("all %d checks were skipped", len(all))
}

// sumUp is the worst of the phases. What the recipe does not ask for is not counted.
func sumUp(p *spec.Preflight) (spec.State, string) {
	var declared, passed, open int
	var bad []string
	worst := spec.Skip
	rank := []spec.State{spec.Skip, spec.Pass, spec.Inconclusive, spec.Fail}
	for _, phase := range p.Phases {
		if slices.Index(rank, phase.State) > slices.Index(rank, worst) {
			worst = phase.State
		}
		for _, c := range phase.Checks {
			switch {
			case !c.Declared:
				continue
			case c.State == spec.Pass:
				passed++
			case c.NeedsCluster:
				open++
			}
			declared++
		}
	}
	for _, phase := range p.Phases {
		for _, c := range phase.Checks {
			if c.State == worst && (worst == spec.Fail || worst == spec.Inconclusive) {
				bad = append(bad, c.Name+": "+c.Reason)
			}
		}
	}
	ready := "the recipe wants nothing of the cluster itself"
	if n := len(p.Readiness); n > 0 {
		ready = allOf(n, "readiness constraint") + agreeing(n, " is", " are") + " met"
	}
	switch {
	case len(bad) > 0:
		more := ""
		if len(bad) > 1 {
			more = fmt.Sprintf(", and %d more", len(bad)-1)
		}
		return worst, bad[0] + more
	case worst == spec.Pass:
		return worst, fmt.Sprintf("on paper: %s; %s", ready, counted(declared, passed, open))
	}
	return spec.Skip, fmt.Sprintf("%s, and every check was skipped: nothing was validated", ready)
}

// counted says what became of the checks that the recipe asks for.
func counted(declared, passed, open int) string {
	said := fmt.Sprintf("%d of %d checks passed", passed, declared)
	if passed == declared {
		said = allOf(declared, "check") + " passed"
	}
	if open > 0 {
		said += fmt.Sprintf(", %d %s the cluster", open, agreeing(open, "needs", "need"))
	}
	if left := declared - passed - open; left > 0 {
		said += fmt.Sprintf(", %d %s skipped", left, agreeing(left, "was", "were"))
	}
	return said
}

// allOf names all of so many things.
func allOf(n int, thing string) string {
	switch n {
	case 1:
		return "the " + thing
	case 2:
		return "both " + thing + "s"
	}
	return fmt.Sprintf("all %d %ss", n, thing)
}

func agreeing(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
