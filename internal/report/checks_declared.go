package report

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// ChooseChecks says how to choose what is run.
const ChooseChecks = "choose what is run with --check NAME, --phase PHASE or --skip-check NAME"

// severalChecks are the results of the declared checks, where they say more than the run
// itself: there are several.
func severalChecks(v *spec.Verdict) []spec.CheckVerdict {
	if len(v.Checks) < 2 && v.Inference() != nil {
		return nil
	}
	return v.Checks
}

// missesChecks says whether declared checks were not run that the user did not leave out.
func missesChecks(v *spec.Verdict) bool {
	return slices.ContainsFunc(v.Checks, func(c spec.CheckVerdict) bool { return c.Verdict == spec.NotRun && !c.LeftOut() })
}

// ChecksText is a table of the results of declared checks. Those that the user left out
// share a line.
func ChecksText(all []spec.CheckVerdict, paint layout.Palette) []byte {
	t := &textPage{layout.Page{Palette: paint}}
	t.checkTable(all)
	return t.Bytes()
}

func (t *textPage) checks(v *spec.Verdict) {
	if all := severalChecks(v); len(all) > 0 {
		t.Title("Checks")
		t.checkTable(all)
	}
}

func (t *textPage) checkTable(all []spec.CheckVerdict) {
	var rows []layout.Row
	advise := false
	for _, c := range all {
		if c.LeftOut() {
			continue
		}
		advise = advise || c.Verdict == spec.NotRun
		rows = append(rows, layout.Row{Cells: []string{c.Phase, c.Name, string(c.Verdict), c.Reason.Text}})
	}
	t.Table([]layout.Column{{}, {}, {Paint: t.painted}, {}}, rows)
	for _, l := range leftOutOf(all) {
		t.Line(2, "", fmt.Sprintf("%s, %s: %s", spec.NotRun, l.why, strings.Join(l.names, ", ")))
	}
	if advise {
		t.Line(2, "", ChooseChecks)
	}
}

// leftOutChecks are the checks that the user left out by one flag.
type leftOutChecks struct {
	why   string
	names []string
}

func leftOutOf(all []spec.CheckVerdict) (by []leftOutChecks) {
	for _, c := range all {
		if !c.LeftOut() {
			continue
		}
		i := slices.IndexFunc(by, func(l leftOutChecks) bool { return l.why == c.Reason.Text })
		if i < 0 {
			by, i = append(by, leftOutChecks{why: c.Reason.Text}), len(by)
		}
		by[i].names = append(by[i].names, c.Name)
	}
	return by
}

// declaredChecks are the checks of a run whose recipe declares some: that of inference-perf
// stands for the run as a whole, as where there is no other.
func declaredChecks(r *spec.Report, taken map[string]int) (all []check) {
	for i := range r.Verdict.Checks {
		c := &r.Verdict.Checks[i]
		one := check{name: checkName(taken, c.Phase, c.Name), state: c.Verdict, reason: checkLine(c.Reason.Text), declared: c}
		if c.Detail != nil {
			one.declared = nil
			one.unended = checkUnended(r)
		}
		all = append(all, one)
	}
	return all
}

func checkUnended(r *spec.Report) string {
	if !r.Unended() {
		return ""
	}
	return checkLine(unendedLine(r))
}

// ctrfDeclared is what else there is to know of a declared check.
type ctrfDeclared struct {
	State      spec.State           `json:"state"`
	Code       string               `json:"code"`
	Reason     string               `json:"reason"`
	SkipReason string               `json:"skipReason,omitempty"`
	Evidence   []spec.CheckEvidence `json:"evidence,omitempty"`
}

func ctrfDeclaredOf(c check) ctrfDeclared {
	d := ctrfDeclared{State: ctrfState(c.state), Code: layout.Shown(c.declared.Reason.Code, checkNameBytes), Reason: c.reason}
	if c.outcome() == checkSkipped {
		d.SkipReason = c.reason
	}
	for _, e := range c.declared.Evidence {
		d.Evidence = append(d.Evidence, spec.CheckEvidence{What: checkLine(e.What), Value: checkLine(e.Value)})
	}
	return d
}

// checkAnnotations are those of a step for the checks other than inference-perf: one for
// each that did not pass, and one for all that were not run.
func checkAnnotations(v *spec.Verdict) (all []annotation) {
	var missing []string
	for _, c := range v.Checks {
		switch {
		case c.Detail != nil, c.LeftOut(), c.Verdict == spec.Pass, c.Verdict == spec.Skip:
		case c.Verdict == spec.NotRun:
			missing = append(missing, c.Name)
		default:
			all = append(all, annotation{verdictKind(c.Verdict), fmt.Sprintf("aicr: %s %s", c.Name, c.Verdict), layout.Shown(c.Reason.Text, annotationBytes)})
		}
	}
	if len(missing) > 0 {
		all = append(all, annotation{annotationWarning, fmt.Sprintf("aicr: %s NOT RUN", layout.Plural(len(missing), "declared check")),
			layout.Shown(strings.Join(missing, ", ")+"; "+ChooseChecks, annotationBytes)})
	}
	return all
}

func (p *markdownPage) checks(v *spec.Verdict) {
	all := severalChecks(v)
	if len(all) == 0 {
		return
	}
	p.heading("Checks")
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{proseCell(c.Phase), codeCell(c.Name), proseCell(string(c.Verdict)), proseCell(c.Reason.Text)})
	}
	p.table([]string{"phase", "check", "state", "why"}, make([]bool, 4), rows, ticketRows)
}

func (m *metricPage) checks(all []spec.CheckVerdict) {
	for _, c := range all {
		m.states("aicr_check", "The checks that the recipe of the last run declares: 1 for the state that each is in.", c.Verdict, spec.CheckStates(),
			label{"check", c.Name}, label{"phase", c.Phase})
	}
}

// Checks are the results that the page shows.
func (h *htmlRun) Checks() []spec.CheckVerdict { return first(severalChecks(h.Verdict), mostLines) }
