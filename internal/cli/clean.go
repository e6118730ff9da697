package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/report/layout"
)

type cleanOptions struct {
	cluster   clusterFlags
	namespace string
	whole     string // the namespace that all of a run is in
	too       bool   // the namespace itself
	run       string
	dryRun    bool
	format    string
}

func newClean(a *app) *cobra.Command {
	var o cleanOptions
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what runs of validate have left on a cluster",
		Long: `Finds what 'aicr validate' made on a cluster and did not remove, because it was killed,
could not, or was told not to, and removes it: by label, and only what carries this
program's. A run that is evidently alive is left alone, and so is one of another team of
which you may not find that out, unless it is named.

The namespace that runs are kept in is never removed with them. --namespace-too lists
everything in it, of every kind that the cluster has, and removes it if a run made it and
nothing is in it.

Exit codes: 0 nothing is left, but for what was left alone; 2 bad usage, or no such
cluster is known; 3 the cluster could not be asked, or something could not be removed; 130
interrupted.`,
		Example: `  aicr clean --dry-run
  aicr clean
  aicr clean --namespace-too --dry-run
  aicr clean --run 20261116-015518-0123456789abcdef`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.clean(cmd.Context(), &o) },
	}
	section(cmd, "Cluster", o.cluster.define)
	section(cmd, "Clean", func(f *pflag.FlagSet) {
		f.StringVar(&o.namespace, "namespace", defaultNamespace, "`NAME` of the namespace that runs were kept in, for who may not look into all of them")
		f.StringVar(&o.whole, "namespaced", "", "`NAME` of the one namespace that runs were made in, with rights in it alone")
		f.BoolVar(&o.too, "namespace-too", false, "list all that is in that namespace, and remove it too if a run made it and nothing is in it")
		f.StringVar(&o.run, "run", "", "remove what the run `RUN` has left, by its id or its folder, and nothing else")
		f.BoolVar(&o.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) { outputFlag(f, &o.format) })
	alsoReads(cmd, "KUBECONFIG", "the files that say how to reach the cluster, as for kubectl")
	return cmd
}

// cleaned is -o json of aicr clean.
type cleaned struct {
	Run     string          `json:"run,omitempty"` // the only one that was asked for
	DryRun  bool            `json:"dryRun"`
	Removed []graph.Removed `json:"removed"` // or would be
	Left    []graph.Left    `json:"left"`
	Spared  []spared        `json:"spared"` // runs that were left alone

	Space *cleanedSpace `json:"space,omitempty"` // of --namespace-too
}

// cleanedSpace is what became of the namespace that runs share.
type cleanedSpace struct {
	graph.Space
	Reason *cleanedReason `json:"reason,omitempty"` // why it stays
}

type cleanedReason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// spared is a run that is alive, or of which that is not known, and what removes it all the
// same.
type spared struct {
	graph.Spared
	Command string `json:"command"`
}

func (a *app) clean(ctx context.Context, o *cleanOptions) error {
	wrong := []error{o.cluster.check()}
	id := ""
	if a.settings.of("run").Source != FromDefault {
		var err error
		if _, id, err = attachedTo(o.run); err != nil {
			wrong = append(wrong, misuse("an id is written as 20261116-015518-0123456789abcdef; 'aicr clean --dry-run' lists those that have left something", "--run: %q is neither the id nor the folder of a run", o.run))
		}
	}
	if o.whole != "" {
		o.namespace = o.whole
	}
	if !namespaceName(o.namespace) {
		wrong = append(wrong, badNamespace(o.namespace))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	c, err := a.connect(o.cluster)
	if err != nil {
		return err
	}
	c.Trouble = func(text string) { a.say("%s", text) }
	told := graph.Told{Say: func(text string) { a.say("%s", text) }, Waiting: func(text string) {
		if text != "" {
			a.detail("%s", waitingFor(text))
		}
	}}
	alone := []spared{}
	told.Spared = func(s graph.Spared) {
		where := foundBy(s.Namespace, o.cluster.kubeconfig, c.Context)
		if o.whole != "" {
			where = " --namespaced " + o.whole + foundBy("", o.cluster.kubeconfig, c.Context)
		}
		alone = append(alone, spared{s, "aicr clean --run " + s.Run + where})
	}
	var removed []graph.Removed
	var left []graph.Left
	if o.whole != "" {
		removed, left, err = graph.CleanIn(ctx, c, o.whole, id, o.dryRun, told)
	} else {
		removed, left, err = graph.Clean(ctx, c, o.namespace, id, o.dryRun, told)
	}
	if err != nil && len(removed)+len(left)+len(alone) == 0 { // it is not known what there is
		return o.cluster.unasked(c, fmt.Errorf("cleaning: %w", err))
	}
	all := &cleaned{Run: id, Spared: alone, DryRun: o.dryRun, Removed: append([]graph.Removed{}, removed...), Left: append([]graph.Left{}, left...)}
	if err != nil {
		err = o.cluster.unasked(c, fmt.Errorf("cleaning: %w", err))
	} else if o.too {
		if all.Space, err = removeSpace(ctx, c, o, removed, told); err != nil {
			err = o.cluster.unasked(c, fmt.Errorf("looking into namespace %s: %w", o.namespace, err))
		}
	}
	printed := a.printCleaned(all, o.format)
	var end error
	if len(left) > 0 || all.Space.refused() {
		end = Unmeasured
	}
	return errors.Join(printed, err, end)
}

// removeSpace removes the namespace that runs share, if nothing is in it.
func removeSpace(ctx context.Context, c *kube.Cluster, o *cleanOptions, removed []graph.Removed, told graph.Told) (*cleanedSpace, error) {
	if !o.dryRun {
		removed = nil // what is gone is not in it
	}
	space, err := graph.RemoveSpace(ctx, c, o.namespace, removed, o.dryRun, told)
	if err != nil {
		return nil, err
	}
	s := &cleanedSpace{Space: *space}
	if s.Stays != "" {
		s.Reason = &cleanedReason{string(s.Stays), s.Why()}
	}
	return s, nil
}

// refused says that the namespace stays, against what was asked.
func (s *cleanedSpace) refused() bool {
	return s != nil && s.Stays != "" && s.Stays != graph.SpaceAbsent
}

// tell lists what is in the namespace, and then what becomes of it.
func (s *cleanedSpace) tell(t *layout.Page, dryRun, brief bool) {
	if s == nil {
		return
	}
	t.Blank()
	switch {
	case s.Removed && dryRun:
		t.Line(0, "", "namespace "+s.Namespace+" would be removed: nothing is in it")
	case s.Removed:
		t.Line(0, "", "namespace "+s.Namespace+" removed: nothing was in it")
	case s.Stays == graph.SpaceAbsent:
		t.Line(0, "", s.Why())
	default:
		t.Line(0, "", "namespace "+s.Namespace+" stays: "+s.Why())
	}
	if brief {
		return
	}
	var rows []layout.Row
	for _, o := range s.Objects {
		whose := "not of a run"
		if o.Run != "" {
			whose = "run " + o.Run
		}
		rows = append(rows, layout.Row{Cells: []string{o.Kind, layout.Shown(o.Name, 253), whose}})
	}
	for _, why := range s.Unlisted {
		rows = append(rows, layout.Row{Cells: []string{"not listed", "", ""}, Below: layout.Shown(why, 400)})
	}
	if len(rows) > 0 {
		t.Table(make([]layout.Column, 3), rows)
	}
	if s.Stays == graph.SpaceInUse || s.Stays == graph.SpaceUnlisted {
		t.Line(2, "", "'kubectl delete namespace "+s.Namespace+"' deletes it with all that is in it")
	}
}

// printCleaned tells what became of what was found, the answer first.
func (a *app) printCleaned(c *cleaned, format string) error {
	if format == outputJSON {
		return a.printJSON(c)
	}
	t := &layout.Page{Palette: a.stdoutPalette()}
	runs := map[string]bool{}
	for _, r := range c.Removed {
		if r.Run != "" {
			runs[r.Run] = true
		}
	}
	objects := layout.Plural(len(c.Removed), "object")
	if len(runs) > 0 {
		objects += " of " + layout.Plural(len(runs), "run")
	}
	switch {
	case len(c.Removed)+len(c.Left) == 0 && len(c.Spared) > 0:
		t.Line(0, "", "nothing to remove; left alone: "+layout.Plural(len(c.Spared), "run"))
	case len(c.Removed)+len(c.Left) == 0 && c.Run != "":
		t.Line(0, "", "nothing of run "+c.Run+" is on this cluster")
	case len(c.Removed)+len(c.Left) == 0:
		t.Line(0, "", "nothing of any run is on this cluster")
	case c.DryRun:
		t.Line(0, "", objects+" would be removed")
	case len(c.Left) > 0:
		t.Line(0, "", fmt.Sprintf("%s removed, and %s left", objects, layout.Plural(len(c.Left), "object")))
	default:
		t.Line(0, "", objects+" removed")
	}
	if !a.quiet {
		var rows []layout.Row
		for _, r := range c.Removed {
			rows = append(rows, layout.Row{Cells: []string{r.Run, r.Kind, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")}})
		}
		for _, l := range c.Left {
			rows = append(rows, layout.Row{Cells: []string{l.Run, l.Kind, strings.TrimPrefix(l.Namespace+"/"+l.Name, "/")}, Below: l.Why + "; " + l.Command})
		}
		for _, s := range c.Spared {
			row := layout.Row{Cells: []string{s.Run, "alive", s.Why}, Below: s.Command + " removes it all the same"}
			if !s.Alive {
				row.Cells[1], row.Below = "unknown", "if nobody does: "+s.Command
			}
			rows = append(rows, row)
		}
		if len(rows) > 0 {
			t.Blank()
			t.Table(make([]layout.Column, 3), rows)
		}
	}
	c.Space.tell(t, c.DryRun, a.quiet)
	_, err := a.env.Stdout.Write(t.Bytes())
	return err
}
