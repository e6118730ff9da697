package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

const fleetFile = "fleet.json"

// fleetOfNodes validates node after node, each in a folder of its own, and then says which
// of them its peers do not look like. A node's run is gone before the next begins.
func (j *validateJob) fleetOfNodes(ctx context.Context, dir string) error {
	a := j.app
	var sides []*judge.FleetSide
	var wrong []error
	missing := j.missing()
	if missing != "" {
		a.say("%s", missing)
	}
	queue := slices.Clone(j.choice.Nodes)
	for i := 0; i < len(queue); i++ { // which grows where a node was taken meanwhile
		node := queue[i]
		side := &judge.FleetSide{Node: node.Node, GPU: node.Product, Workers: node.Workers, GPUs: node.GPUs, Reason: "it could not be validated"}
		side.Verdict = spec.NotJudged
		sides = append(sides, side)
		if ctx.Err() != nil {
			side.Reason = "interrupted before its turn"
			continue
		}
		if missing != "" && j.options.early {
			side.Verdict, side.Reason = spec.Inconclusive, "ended before its load, since the fleet could not pass"
			continue
		}
		a.say("node %d of %d: %s", i+1, len(queue), node.Node)
		place := filepath.Join(dir, node.Node)
		side.Run = place
		v, err := j.nodeOf(ctx, place, side)
		if taken, ok := errors.AsType[*graph.TakenError](err); ok {
			if other := j.inPlace(ctx, queue); other != nil {
				a.say("%v; choosing %s in its place", taken, other.Node)
				queue, sides = append(slices.Delete(queue, i, i+1), *other), sides[:len(sides)-1]
				i--
				continue
			}
			side.Verdict, side.Reason, side.Run = spec.Inconclusive, taken.Error(), ""
			continue
		}
		if err != nil {
			wrong = append(wrong, err)
		}
		if v != nil {
			v = ofInference(v)
			side.Verdict, side.Reason, side.LoadedS, side.Stalls = v.Verdict, v.Reason, v.LoadedS, len(v.Stalls)
			if err := takeEpisodes(side, place, v.Parts); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	fleet := judge.CompareFleet(sides, j.passedBy()...)
	judge.ConcludeFleet(j.plan, fleet)
	_ = os.MkdirAll(dir, 0o777) // what cannot be made cannot be written into
	if err := writeJSONFile(filepath.Join(dir, fleetFile), fleet); err != nil {
		wrong = append(wrong, unwritten(err))
	}
	failOn := j.options.failOn
	end := cmp.Or(endIn(fleet.Verdict, false, failOn), endOfMissing(fleet.Checks, failOn))
	return errors.Join(append([]error{j.printFleet(fleet, dir)}, append(wrong, end)...)...)
}

// ofInference is the verdict of inference-perf: what nodes are compared by. Where it was not
// run it is the verdict on all checks.
func ofInference(v *spec.Verdict) *spec.Verdict {
	if own := v.Inference(); own != nil {
		return own
	}
	return v
}

// nodeOf plans for a node, which may have other room than the one before, and runs there.
// Its turn may come an hour after the first one's, so that it is looked again what is free.
// The error is a *graph.TakenError where another run is on it by then.
func (j *validateJob) nodeOf(ctx context.Context, dir string, side *judge.FleetSide) (*spec.Verdict, error) {
	wish := j.options.on.wish
	wish.Node, wish.Nodes = side.Node, 0
	one, err := j.planAgain(ctx, wish)
	if err != nil {
		return nil, err
	}
	if byRuns := one.choice.OfRuns(); len(byRuns) > 0 {
		return nil, byRuns[0].Taken()
	}
	if len(one.choice.Nodes) == 0 {
		return one.nothingFree(ctx, dir, side.Node, false)
	}
	node := one.choice.Nodes[0]
	side.Workers, side.GPUs = node.Workers, node.GPUs
	s, taken, err := one.reserve(ctx, node)
	if err != nil {
		return nil, err
	}
	if taken != nil {
		return nil, taken
	}
	return one.runOn(ctx, dir, s, node, false)
}

// takeEpisodes takes in what is compared of a node's run.
func takeEpisodes(side *judge.FleetSide, dir string, parts []spec.Part) error {
	run, err := spec.ReadRun(runFiles(dir))
	if err != nil {
		return badRecord(dir, err)
	}
	for _, number := range run.Numbers() {
		e, err := run.Summary(number)
		if err != nil {
			return badRecord(dir, err)
		}
		side.Take(e, parts)
	}
	return nil
}

// printFleet tells what the nodes came to, the answer first.
func (j *validateJob) printFleet(f *spec.FleetVerdict, dir string) error {
	a := j.app
	if j.options.format == outputJSON {
		return a.printJSON(f)
	}
	if a.quiet {
		_, err := fmt.Fprintf(a.env.Stdout, "%s  %s\n", f.Verdict, layout.Clean(f.Reason))
		return err
	}
	_, err := a.env.Stdout.Write(fleetText(f, dir, a.stdoutPalette()))
	return err
}

func fleetText(f *spec.FleetVerdict, dir string, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	t.Line(0, paint.State(f.Verdict)(string(f.Verdict))+"  ", f.Reason)
	t.Title("Nodes")
	var rows []layout.Row
	for _, n := range f.Nodes {
		row := layout.Row{Cells: []string{n.Node, string(n.Verdict), layout.Plural(n.Workers, "GPU")}, Below: n.Reason}
		for _, x := range n.Figures {
			row.Cells = append(row.Cells, figureBeside(x))
		}
		rows = append(rows, row)
	}
	t.Table([]layout.Column{{}, {Paint: func(cell string) func(string) string { return paint.State(spec.State(cell)) }}, {},
		{Head: "tokens/s a GPU"}, {Head: "ttft p99"}, {Head: "stalls a minute"}}, rows)
	if len(f.Checks) > 1 {
		t.Title("Checks")
		t.Write(report.ChecksText(f.Checks, paint))
	}
	if len(f.Passed) > 0 {
		t.Title("Not validated")
		rows = nil
		for _, p := range f.Passed {
			rows = append(rows, layout.Row{Cells: []string{p.Node, p.Reason}, Below: p.Held})
		}
		t.Table(make([]layout.Column, 2), rows)
	}
	t.Blank()
	for _, note := range f.Notes {
		t.Line(2, "note: ", note)
	}
	t.Line(2, "", fmt.Sprintf("beside each figure: its ratio to the peers', %.0f %% sure of all at once", 100*f.Together))
	t.Line(2, "kept in ", dir)
	return t.Bytes()
}

// figureBeside is a figure and how it stands to the peers'.
func figureBeside(x spec.FleetFigure) string {
	if x.Value == nil {
		return "–"
	}
	value := layout.Number(*x.Value)
	if x.Unit == "ms" {
		value = layout.Millis(x.Value)
	}
	switch {
	case x.Ratio == nil:
		return value
	case x.Low == nil || x.High == nil:
		return fmt.Sprintf("%s (x %.2f)", value, *x.Ratio)
	}
	mark := ""
	if x.Outside {
		mark = " !"
	}
	return fmt.Sprintf("%s (x %.2f, %.2f–%.2f)%s", value, *x.Ratio, *x.Low, *x.High, mark)
}
