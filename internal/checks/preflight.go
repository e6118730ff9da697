package checks

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// PreflightOptions say which checks of a recipe are looked at.
type PreflightOptions struct {
	Phases   []string // of spec.Phases; none: all of them
	Skip     []string // checks to leave out
	FailFast bool     // what comes after a phase that did not hold is skipped
	Skew     string   // why what would be deployed does not go with what is there; "": it does
}

// NameMistake is something that is wrong with the names of checks, in the recipe or
// among the options.
type NameMistake struct{ Text, Hint string }

func (m *NameMistake) Error() string { return m.Text }

// Preflight says what can be said of a recipe and a snapshot on paper. What is wanted
// of the cluster comes first: where that is not there, no check is looked at.
func Preflight(r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) *spec.Preflight {
	p := &spec.Preflight{Schema: spec.PreflightSchema, Recipe: r.Name, Readiness: spec.HoldAll(r, s), Phases: []spec.PhaseResult{}}
	if n := countUnmet(p.Readiness); n > 0 {
		p.Verdict, p.Reason = spec.Fail, fmt.Sprintf("%d of %d readiness constraints are not met; no check was looked at", n, len(p.Readiness))
		if !slices.ContainsFunc(p.Readiness, func(h spec.Held) bool { return h.State == spec.HeldNotMet }) {
			p.Verdict, p.Reason = spec.Inconclusive, fmt.Sprintf("%d of %d readiness constraints cannot be held; no check was looked at", n, len(p.Readiness))
		}
		return p
	}
	stopped := ""
	for _, phase := range asked(o.Phases) {
		result := preflightPhase(phase, stopped, r, s, c, o)
		if o.FailFast && stopped == "" && (result.State == spec.Fail || result.State == spec.Inconclusive) {
			stopped = phase
		}
		p.Phases = append(p.Phases, result)
	}
	p.Verdict, p.Reason = sumUp(p)
	return p
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
	for _, name := range o.Skip {
		if _, ok := phaseOf[name]; !ok {
			bad(meantCheck(name, known), "--skip-check: there is no check %q", name)
		}
	}
	return wrong
}

// Nothing is what is wrong where the recipe asks for no check of the phases that are
// asked for; nil: there is something to check.
func Nothing(r *spec.Recipe, o PreflightOptions) *NameMistake {
	for _, phase := range asked(o.Phases) {
		for _, name := range declaredIn(r, phase) {
			if !slices.Contains(o.Skip, name) {
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

func preflightPhase(phase, stopped string, r *spec.Recipe, s *spec.Snapshot, c *spec.Catalog, o PreflightOptions) spec.PhaseResult {
	result := spec.PhaseResult{Name: phase, Checks: []spec.CheckResult{}}
	for _, e := range c.Validators {
		if e.Phase != phase {
			continue
		}
		declared := slices.Contains(declaredIn(r, phase), e.Name)
		check := spec.CheckResult{Name: e.Name, Declared: declared, State: spec.Skip}
		switch {
		case !declared:
			check.Reason = "the recipe does not ask for it"
		case slices.Contains(o.Skip, e.Name):
			check.Reason = "left out by --skip-check"
		case stopped != "":
			check.Reason = fmt.Sprintf("--fail-fast: the phase %s did not hold", stopped)
		default:
			decided := onPaper(e.Name, r, s, o.Skew)
			check.State, check.Reason, check.Held = decided.State, decided.Reason, decided.Held
		}
		result.Checks = append(result.Checks, check)
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

// sumUp is the worst of the phases.
func sumUp(p *spec.Preflight) (spec.State, string) {
	count := map[spec.State]int{}
	var bad []string
	worst := spec.Skip
	rank := []spec.State{spec.Skip, spec.Pass, spec.Inconclusive, spec.Fail}
	for _, phase := range p.Phases {
		if slices.Index(rank, phase.State) > slices.Index(rank, worst) {
			worst = phase.State
		}
		for _, c := range phase.Checks {
			count[c.State]++
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
		ready = fmt.Sprintf("all %d readiness constraints are met", n)
		if n == 1 {
			ready = "the readiness constraint is met"
		}
	}
	switch {
	case len(bad) > 0:
		more := ""
		if len(bad) > 1 {
			more = fmt.Sprintf(", and %d more", len(bad)-1)
		}
		return worst, bad[0] + more
	case worst == spec.Pass:
		return worst, fmt.Sprintf("on paper: %s, %d passed; %d were skipped and tell nothing", ready, count[spec.Pass], count[spec.Skip])
	}
	return spec.Skip, fmt.Sprintf("%s, and every check was skipped: nothing was validated", ready)
}
