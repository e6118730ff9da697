package recipes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// CheckNames finds the checks that layers ask for and no catalog has in that phase, and
// those of readiness, which is no phase. The error joins a spec.BadFile for each.
func (l *Library) CheckNames(layers []Overlay) error {
	var wrong []error
	for _, o := range layers {
		if ready := o.Phases.Readiness; ready != nil {
			for i, check := range ready.Checks {
				wrong = append(wrong, o.wrongAt(fmt.Sprintf("%s.readiness.checks[%d]", validationOf(o), i), l.phaseMeant(validationOf(o), check), "readiness: %q would never run: readiness is no phase, and has constraints alone", check))
			}
		}
		for _, phase := range spec.Phases() {
			p := o.Phases.Named(phase)
			if p == nil {
				continue
			}
			for i, check := range p.Checks {
				if check != "" && !slices.Contains(l.checksOf(phase), check) {
					wrong = append(wrong, o.wrongAt(fmt.Sprintf("%s.%s.checks[%d]", validationOf(o), phase, i), l.meant(phase, check), "there is no check %q in this phase", check))
				}
			}
		}
	}
	return errors.Join(wrong...)
}

// validationOf is where a document has its phases.
func validationOf(o Overlay) string {
	switch o.Kind {
	case spec.RecipeResultKind:
		return "validation"
	case spec.ValidationInputKind:
		return "config"
	}
	return "spec.validation"
}

// meant is a hint at the check that somebody could have meant.
func (l *Library) meant(phase, check string) string {
	for _, e := range l.Catalog.Validators {
		if e.Name == check {
			return fmt.Sprintf("it is one of the %s phase", e.Phase)
		}
	}
	return closest(check, l.checksOf(phase), "one of "+strings.Join(l.checksOf(phase), ", ")+"; --data adds checks of your own")
}

// phaseMeant is a hint at where a check belongs.
func (l *Library) phaseMeant(validation, check string) string {
	var known []string
	for _, e := range l.Catalog.Validators {
		if e.Name == check {
			return fmt.Sprintf("write it below %s.%s.checks", validation, e.Phase)
		}
		known = append(known, e.Name)
	}
	return closest(check, known, "write it below the checks of "+strings.Join(spec.Phases(), ", "))
}

func (l *Library) checksOf(phase string) (names []string) {
	for _, e := range l.Catalog.Validators {
		if e.Phase == phase {
			names = append(names, e.Name)
		}
	}
	return names
}
