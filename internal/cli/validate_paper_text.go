package cli

import (
	"fmt"
	"strconv"

	"aicr/internal/checks"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// printPreflight is what can be said on paper.
func (a *app) printPreflight(p *spec.Preflight, format string) error {
	if format == outputJSON {
		return a.printJSON(p)
	}
	text := preflightText(p, a.stdoutPalette())
	if a.quiet {
		noted := ""
		if n := len(p.Notes); n > 0 {
			noted = "; " + layout.Plural(n, "note")
		}
		text = fmt.Appendf(nil, "%s  %s%s\n", p.Verdict, layout.Shown(p.Reason, 2000), noted)
	}
	_, err := a.env.Stdout.Write(text)
	return err
}

// preflightText tells it to a person: the answer, what is wanted of the cluster, and
// what became of each check.
func preflightText(p *spec.Preflight, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	t.Line(0, paint.State(p.Verdict)(string(p.Verdict))+"  ", p.Reason)
	t.Blank()
	t.Line(2, "", fmt.Sprintf("recipe %s, snapshot %s; nothing was contacted", p.Recipe, p.Snapshot))
	for _, note := range p.Notes {
		t.Line(2, "note: ", note)
	}
	tellReadiness(t, p.Readiness)
	if !checks.Ready(p.Readiness) {
		tellUnused(t, p.Unused)
		return t.Bytes()
	}
	for _, phase := range p.Phases {
		t.Title(phase.Name)
		t.Line(2, paint.State(phase.State)(string(phase.State))+"  ", phase.Reason)
		var rows []layout.Row
		for _, c := range phase.Checks {
			rows = append(rows, layout.Row{Cells: []string{c.Name, string(c.State), c.Reason}})
		}
		t.Table([]layout.Column{{}, {Paint: func(cell string) func(string) string { return paint.State(spec.State(cell)) }}, {}}, rows)
	}
	tellUnused(t, p.Unused)
	return t.Bytes()
}

// tellReadiness sets what is wanted of the cluster.
func tellReadiness(t *layout.Page, all []spec.Held) {
	t.Title("Readiness")
	if len(all) == 0 {
		t.Line(2, "", "the recipe wants nothing of the cluster itself")
		return
	}
	var rows []layout.Row
	for _, h := range all {
		row := layout.Row{Cells: []string{h.Name, h.Want, h.Value, string(h.State)}, Below: h.Reason}
		if h.State != spec.HeldMet && h.Remediation != "" {
			row.Below = layout.Shown(h.Reason+" advice: "+h.Remediation, 2000)
		}
		rows = append(rows, row)
	}
	t.Table([]layout.Column{{}, {Head: "wanted"}, {Head: "there"}, {Paint: func(cell string) func(string) string {
		if cell == string(spec.HeldMet) {
			return t.State(spec.Pass)
		}
		return t.State(spec.Fail)
	}}}, rows)
}

// tellUnused lists the fields that nothing is done with; nil: nobody asked.
func tellUnused(t *layout.Page, all []spec.Unused) {
	if all == nil {
		return
	}
	t.Title("Known, and not used here")
	if len(all) == 0 {
		t.Line(2, "", "none")
	}
	for _, u := range all {
		t.Line(2, "line "+strconv.Itoa(u.Line)+"  ", u.Path)
	}
}
