package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// classicErrors is how often such a gate is wrong, with where that is from.
const classicErrors = "In simulation (20,000 deployments a state, fitted to the published runs) a gate of one run like this one passed " +
	"99.9 % of the healthy deployments, and 71 to 100 % of those in seven of nine bad states: stalls at the published rate, missing " +
	"workers, slow GPUs. It caught a slow host path always, and three in four of those that were slow throughout."

// printPlan is the product of --dry-run.
func (a *app) printPlan(p *spec.Plan, format string, explain bool) error {
	if format == outputJSON {
		return a.printJSON(p)
	}
	text := &layout.Page{Palette: a.stdoutPalette()}
	text.Write(planText(p, a.stdoutPalette()))
	if explain {
		tellUnused(text, append([]spec.Unused{}, p.Unused...))
	}
	_, err := a.env.Stdout.Write(text.Bytes())
	return err
}

// planText is a plan for a person: what will be done, what it costs, and where each
// value came from.
func planText(p *spec.Plan, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	if judge.Loads(p) {
		tellLoad(t, p)
	} else {
		t.Line(0, paint.Bold("PLAN")+"  ", "no check runs, and nothing is loaded; "+strings.TrimSuffix(untouched(p), " or loaded"))
	}
	if len(p.Readiness) > 0 {
		tellReadiness(t, p.Readiness)
	}
	if len(p.Checks) > 0 {
		tellChecks(t, p)
	}
	tellNodes(t, p)
	tellCreates(t, p)
	t.Title("Inputs")
	t.Table(make([]layout.Column, 3), inputRows(p.Inputs))
	return t.Bytes()
}

func tellLoad(t *layout.Page, p *spec.Plan) {
	t.Line(0, t.Bold("PLAN")+"  ", fmt.Sprintf("profile %s, %s; %s", p.Profile, fleetOf(p), untouched(p)))
	t.Blank()
	row := func(name, text string) { t.Line(2, fmt.Sprintf("%-10s ", name), text) }
	row("load", layout.Point(p.Point))
	if p.Half != nil {
		row("first", fmt.Sprintf("%s in flight for %s: is the load past the knee?", layout.Number(float64(p.Half.Concurrency)), layout.Loaded(p.Half.DurationS)))
	}
	if p.Point.Requests > 0 {
		row("then", "one run, and no more")
	} else {
		row("then", fmt.Sprintf("episodes of %s until it is decided: %d at least, %d at most, and up to %d that did not count",
			layout.Loaded(p.Point.DurationS), p.Thresholds.MinEpisodes, p.Thresholds.MaxEpisodes, p.Thresholds.MaxRetries))
	}
	row("judged by", judgedBy(p))
	for _, h := range judge.CannotPass(p, judge.Known{}) {
		if h.Code != judge.ChecksNotPassed { // the table of checks says it
			row("mind", "this run cannot PASS: "+h.Words())
		}
	}
	row("takes", fmt.Sprintf("%s, %s, %s GPU-minutes when it is healthy", layout.Plural(p.Cost.ExpectedEpisodes, "episode"),
		wholeTime(p.Cost.ExpectedS), layout.Number(p.Cost.ExpectedGPUMinutes)))
	before := "until each worker answers comes before"
	if len(p.Creates) > 0 {
		before = "what is made on the cluster may take its longest"
	}
	row("at worst", fmt.Sprintf("%s, %s, %s GPU-minutes; %s", layout.Plural(p.Cost.WorstEpisodes, "episode"),
		wholeTime(p.Cost.WorstS), layout.Number(p.Cost.WorstGPUMinutes), before))
	if p.Scenario != nil {
		row("simulated", "in virtual time it is over in seconds")
	}
	if p.Profile == spec.ProfileClassic {
		row("mind", classicErrors)
	}
}

// untouched says what a dry run has left alone. Where anything is known from the cluster,
// that was asked.
func untouched(p *spec.Plan) string {
	const asked = "the cluster was asked, and nothing was made or loaded"
	node := p.Inputs["node"]
	switch {
	case node.From == fromCluster && node.Value == noNode:
		now := spec.Fail
		if p.NoFreeGPUs == spec.NoFreeGPUsSkip {
			now = spec.Skip
		}
		return fmt.Sprintf("no GPU is free, so that a run now would be %s; %s", now, asked)
	case node.From == fromCluster && node.Value == noNodeByRuns:
		return fmt.Sprintf("other runs have the GPUs, so that a run now would be %s; %s", spec.Inconclusive, asked)
	case len(p.Nodes) > 0:
		return fmt.Sprintf("on %s, one after the other; %s", layout.Plural(len(p.Nodes), "node"), asked)
	case node.From == fromCluster:
		return "on node " + node.Value + "; " + asked
	}
	for _, in := range p.Inputs {
		if in.From == fromCluster {
			return asked
		}
	}
	return "nothing was contacted or loaded"
}

// tellNodes lists the turns of a fleet's nodes, and what each costs; the plan above them is
// that of the first.
func tellNodes(t *layout.Page, p *spec.Plan) {
	if len(p.Nodes) == 0 {
		return
	}
	t.Title("Nodes, one after the other; what is above is of the first")
	var rows []layout.Row
	var all spec.Cost
	workers := 0
	row := func(name string, workers int, by string, c spec.Cost) layout.Row {
		return layout.Row{Cells: []string{name, layout.Plural(workers, "worker"), by, wholeTime(c.ExpectedS), wholeTime(c.WorstS),
			layout.Number(c.ExpectedGPUMinutes), layout.Number(c.WorstGPUMinutes)}}
	}
	for _, n := range p.Nodes {
		rows = append(rows, row(n.Node, n.Workers, n.By, n.Cost))
		workers += n.Workers
		all.ExpectedS += n.Cost.ExpectedS
		all.WorstS += n.Cost.WorstS
		all.ExpectedGPUMinutes += n.Cost.ExpectedGPUMinutes
		all.WorstGPUMinutes += n.Cost.WorstGPUMinutes
	}
	if len(p.Nodes) > 1 {
		rows = append(rows, row("all", workers, "", all))
	}
	t.Table([]layout.Column{{}, {}, {}, {Head: "when healthy"}, {Head: "at worst"}, {Head: "GPU-minutes"}, {Head: "at worst"}}, rows)
}

// tellCreates lists what is made on the cluster, and what becomes of it.
func tellCreates(t *layout.Page, p *spec.Plan) {
	if len(p.Creates) > 0 {
		title := "Made on the cluster, and taken away again"
		if kept, err := strconv.ParseBool(p.Inputs[spec.KnobNoCleanup].Value); err == nil && kept {
			title = "Made on the cluster, and left there, as " + spec.KnobNoCleanup + " says"
		}
		t.Title(title)
		var rows []layout.Row
		for _, c := range p.Creates {
			row := layout.Row{Cells: []string{c.Kind, c.Name, c.Why}}
			if c.Image != "" {
				row.Below = "image " + c.Image
			}
			rows = append(rows, row)
		}
		t.Table(make([]layout.Column, 3), rows)
	}
}

// inputRows are each input, its value, and where it came from. Where they are too wide
// together, the places stand below, so that they break no name.
func inputRows(inputs map[string]spec.Input) []layout.Row {
	var rows []layout.Row
	names, values, places := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		from := strings.TrimSpace(in.From + " " + in.Place)
		rows = append(rows, layout.Row{Cells: []string{name, in.Value, from}})
		names, values, places = max(names, layout.Width(name)), max(values, layout.Width(in.Value)), max(places, layout.Width(from))
	}
	if names+values+places+len("      ") <= layout.Columns {
		return rows
	}
	for i, r := range rows {
		in := inputs[r.Cells[0]]
		rows[i].Cells[2], rows[i].Below = in.From, in.Place
	}
	return rows
}

// tellChecks lists the checks that run, those that the recipe asks for and that do not,
// and of a cluster the others.
func tellChecks(t *layout.Page, p *spec.Plan) {
	t.Title("Checks")
	var rows []layout.Row
	var unasked []string
	for _, c := range p.Checks {
		switch {
		case c.Runs && c.Reason.Code == spec.CheckOnCluster:
			rows = append(rows, layout.Row{Cells: []string{c.Phase, c.Name, "would run", c.Why}})
		case c.Runs:
			rows = append(rows, layout.Row{Cells: []string{c.Phase, c.Name, "runs", c.Why}})
		case c.IsDeclared():
			rows = append(rows, layout.Row{Cells: []string{c.Phase, c.Name, string(c.Verdict), c.Why}})
		default:
			unasked = append(unasked, c.Name)
		}
	}
	t.Table(make([]layout.Column, 4), rows)
	if len(unasked) > 0 && len(p.Creates) > 0 { // of an endpoint they say nothing
		t.Line(2, "", "the recipe does not ask for "+strings.Join(unasked, ", "))
	}
	if best := judge.BestEnd(p); best != nil {
		t.Line(2, "", fmt.Sprintf("a run of this plan is %s at best, by the checks above; %s", best.Verdict, report.ChooseChecks))
	}
}

func wholeTime(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func fleetOf(p *spec.Plan) string {
	switch {
	case len(p.Creates) > 0 && p.Point.Workers == 0:
		return "a deployment on a cluster, of an unknown number of GPUs"
	case len(p.Creates) > 0:
		return "a deployment on a cluster, with " + layout.Plural(p.Point.Workers, "worker")
	case p.Scenario != nil:
		return fmt.Sprintf("%s, simulated (%s)", layout.Plural(p.Point.Workers, "worker"), p.Scenario.Metadata.Name)
	case p.Point.Workers == 0:
		return "an endpoint with an unknown number of workers"
	}
	return "an endpoint with " + layout.Plural(p.Point.Workers, "worker")
}

func judgedBy(p *spec.Plan) string {
	var by []string
	if r := p.Reference; r != nil {
		by = append(by, fmt.Sprintf("a reference of %s tokens/s (%s)", layout.Number(r.Throughput), r.From))
	}
	for _, c := range p.Constraints {
		by = append(by, fmt.Sprintf("%s %s %s %s within %.0f %% (%s)", c.Name, c.Comparator, layout.Number(c.Threshold), c.Unit, 100*c.Tolerance, c.From))
	}
	if p.Reference == nil && len(p.Constraints) == 0 {
		by = append(by, "no reference and no floor")
	}
	if p.Profile != spec.ProfileClassic {
		by = append(by, "stalls: "+p.Stability)
	}
	if n := len(p.Prior); n > 0 {
		by = append(by, "stalls of earlier runs")
	}
	return strings.Join(by, "; ")
}
