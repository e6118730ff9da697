package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

func newVersions(a *app) *cobra.Command {
	var format, snapshot string
	var live bool
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "versions",
		Short: "Print which images, charts and tools are pinned, and how a cluster differs",
		Long: `Prints every chart, image and tool that is pinned, with the images as they would be
pulled, and whether the pinned versions go together.

With --snapshot or --cluster, it prints how a cluster differs instead: what is pinned
beside what was found there, and the runtime there against the chart there. Of two
minor versions, a frontend may never serve. Of what Dynamo does not depend on, a
difference is told and fails nothing.

Exit codes: 0 nothing breaks; 1 the pins, or Dynamo's versions there, do not go
together; 2 bad usage, or a snapshot or variable that cannot be read; 3 a version of
Dynamo's is not known, or the cluster could not be asked; 130 interrupted.`,
		Example: `  aicr versions
  aicr versions --snapshot cluster.yaml
  aicr versions --cluster --context prod
  AICR_VALIDATOR_IMAGE_REGISTRY=mirror.example:5000/gpu aicr versions -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			there, err := a.versionsThere(cmd.Context(), snapshot, live, cluster)
			if err != nil {
				return err
			}
			return a.tellVersions(format, there)
		},
	}
	section(cmd, "What runs", func(f *pflag.FlagSet) {
		f.StringVarP(&snapshot, "snapshot", "s", "", "`FILE` with what was found on the cluster, to hold what is pinned against")
		f.BoolVar(&live, "cluster", false, "look at the cluster itself instead, as aicr snapshot does")
		cluster.define(f)
	})
	outputFlag(cmd.Flags(), &format)
	alsoReads(cmd, spec.KnobRegistry, "registry, and path, that every image is pulled from")
	alsoReads(cmd, spec.KnobTag, "tag of this program's own images")
	return cmd
}

// versionsThere is what was found on the cluster; nil when nobody asked.
func (a *app) versionsThere(ctx context.Context, snapshot string, live bool, o clusterFlags) (*spec.Snapshot, error) {
	if snapshot != "" && live {
		return nil, misuse("leave one of them out", "--snapshot and --cluster are both given")
	}
	if err := a.onlyOfCluster(snapshot, live); err != nil {
		return nil, err
	}
	switch {
	case snapshot != "":
		return a.readSnapshotOf(ctx, snapshot, o)
	case !live:
		return nil, nil
	}
	c, err := a.connect(o)
	if err != nil {
		return nil, err
	}
	return a.takeSnapshot(ctx, c, o, 0)
}

// onlyOfCluster finds the flags that say which cluster is asked where none is. What a
// variable or a file says of it is for other calls too.
func (a *app) onlyOfCluster(snapshot string, live bool) error {
	if live || strings.HasPrefix(snapshot, configMapScheme) {
		return nil
	}
	var wrong []error
	for _, flag := range []string{"kubeconfig", "context", "timeout"} {
		switch {
		case a.settings.of(flag).Source != FromFlag:
		case snapshot != "":
			wrong = append(wrong, misuse("leave one of them out", "--%s means nothing: no cluster is asked, since --snapshot %s is a file", flag, snapshot))
		default:
			wrong = append(wrong, misuse("ask one with --cluster", "--%s means nothing: no cluster is asked", flag))
		}
	}
	return errors.Join(wrong...)
}

// versionsTold is what aicr versions has to say.
type versionsTold struct {
	Pins     []pinTold          `json:"pins"`
	Registry string             `json:"registry,omitempty"`
	Tag      string             `json:"tag,omitempty"`
	Drift    []recipes.Drift    `json:"drift"`
	Skew     []recipes.SkewLine `json:"skew,omitempty"`
}

type pinTold struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Version    string `json:"version"` // of an image: its reference
	PullPolicy string `json:"pullPolicy,omitempty"`
	Source     string `json:"source"`
}

// tellVersions tells what is pinned and, of a snapshot that is not nil, how that
// differs. A snapshot that was just taken of a cluster will do as well.
func (a *app) tellVersions(format string, there *spec.Snapshot) error {
	v, err := recipes.Versions()
	if err != nil {
		return err
	}
	told := versionsTold{Drift: recipes.CheckVersions(v)}
	told.Registry, _ = a.env.LookupEnv(spec.KnobRegistry)
	told.Tag, _ = a.env.LookupEnv(spec.KnobTag)
	images, err := recipes.Images(v, recipes.Build(a.env.Build), recipes.Overrides{Registry: told.Registry, Tag: told.Tag})
	if err != nil {
		return misuse("", "%w", err)
	}
	told.Pins = pinsTold(v, images)
	if there != nil {
		told.Skew = recipes.Skew(v, there)
	}
	if told.Drift == nil {
		told.Drift = []recipes.Drift{} // so that it is written as an empty list
	}
	if format == outputJSON {
		err = a.printJSON(told)
	} else {
		_, err = a.env.Stdout.Write(told.text(v))
	}
	if err != nil {
		return err
	}
	return told.end()
}

// end is how the command ends: a break is one, whatever else is not known.
func (t *versionsTold) end() error {
	breaks, open := t.sorted()
	switch {
	case len(t.Drift) > 0 || len(breaks) > 0:
		return Failed
	case len(open) > 0:
		return Unmeasured
	}
	return nil
}

func (t *versionsTold) sorted() (breaks, open []recipes.SkewLine) {
	for _, l := range t.Skew {
		switch {
		case l.Breaks():
			breaks = append(breaks, l)
		case l.Open():
			open = append(open, l)
		}
	}
	return breaks, open
}

func pinsTold(v *spec.Versions, images []recipes.Image) []pinTold {
	var all []pinTold
	for _, c := range v.Charts {
		all = append(all, pinTold{Kind: "chart", Name: c.Name, Version: c.Version, Source: c.Source})
	}
	for i, image := range images {
		source := "built from this repository"
		if !v.Images[i].Ours {
			source = "not bound to a chart"
		}
		if chart := v.Images[i].Follows; chart != "" {
			source = "follows " + chart
		}
		all = append(all, pinTold{"image", image.Name, image.Ref, image.PullPolicy, source})
	}
	for _, t := range v.Tools {
		all = append(all, pinTold{Kind: "tool", Name: t.Name, Version: t.Version, Source: strings.Join(t.Locked, ", ")})
	}
	return all
}

// text tells it to a person: the answer, and then either how the cluster differs or
// what is pinned. Who asks about a cluster has the pins beside what was found there.
func (t *versionsTold) text(v *spec.Versions) []byte {
	p := &layout.Page{}
	p.Line(0, "", t.answer(v))
	for _, d := range t.Drift {
		p.Line(2, "", fmt.Sprintf("%s:%d: %s (%s)", recipes.VersionsFile, d.Line, d.Text, d.Rule))
	}
	if t.Skew != nil {
		t.tellSkew(p)
	} else {
		t.tellPins(p)
	}
	return p.Bytes()
}

func (t *versionsTold) tellSkew(p *layout.Page) {
	var rows []layout.Row
	for _, l := range t.Skew {
		mark := ""
		switch {
		case l.Breaks():
			mark = "BREAKS "
		case l.Open():
			mark = "OPEN "
		}
		rows = append(rows, layout.Row{Cells: []string{l.Name, dash(l.Pinned), dash(l.Found), mark + string(l.State)}, Below: l.Reason})
	}
	p.Blank()
	p.Table([]layout.Column{{}, {Head: "pinned"}, {Head: "found"}, {}}, rows)
}

// tellPins lists what is pinned, a part for each kind. Addresses and references are
// never broken: they are there to be copied.
func (t *versionsTold) tellPins(p *layout.Page) {
	for _, kind := range []string{"chart", "image", "tool"} {
		p.Title(kind + "s")
		var rows [][]string
		var below []string
		for _, pin := range t.Pins {
			if pin.Kind != kind {
				continue
			}
			row, about := []string{pin.Name, layout.Clean(pin.Version)}, ""
			switch kind {
			case "chart":
				row = append(row, pin.Source)
			case "image":
				about = pin.PullPolicy + "; " + pin.Source
			}
			rows, below = append(rows, row), append(below, about)
		}
		for i, line := range layout.Aligned(rows, make([]bool, 3)) {
			fmt.Fprintln(p, line)
			if below[i] != "" {
				p.Line(6, "", below[i])
			}
		}
	}
	p.Blank()
	p.Line(2, "", "-o json has the files too that each tool is locked in")
	if t.Registry != "" {
		p.Line(2, "", fmt.Sprintf("every image is pulled from %s, as %s says", layout.Clean(t.Registry), spec.KnobRegistry))
	}
	if t.Tag != "" {
		p.Line(2, "", fmt.Sprintf("this program's own image has the tag %s, as %s says; the others keep theirs", layout.Clean(t.Tag), spec.KnobTag))
	}
}

// answer is the first line: what breaks, else what is not known, else that all is well.
func (t *versionsTold) answer(v *spec.Versions) string {
	breaks, open := t.sorted()
	switch {
	case len(t.Drift) > 0:
		return fmt.Sprintf("the pinned versions do not go together: %s", t.Drift[0].Text)
	case recipes.Broken(t.Skew) != "":
		return layout.Clean(recipes.Broken(t.Skew))
	case len(breaks) > 0:
		return fmt.Sprintf("version skew: %s is at %s there, and pinned to %s", breaks[0].Name, layout.Clean(breaks[0].Found), breaks[0].Pinned)
	case len(open) > 0:
		return fmt.Sprintf("not known: %s: %s", open[0].Name, layout.Clean(open[0].Reason))
	case t.Skew != nil:
		return "what runs there goes with what is pinned"
	}
	chart, _ := v.Chart(recipes.DynamoChart)
	release, _ := recipes.ReleaseOf(v, chart.Version)
	return fmt.Sprintf("the pinned versions go together: Dynamo %s with vLLM %s, DynamoGraphDeployment %s, router %s", chart.Version, release.VLLM, v.Uses.GraphAPI, v.Uses.RouterMode)
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
