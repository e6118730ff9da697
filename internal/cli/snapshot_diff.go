package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func newSnapshotDiff(a *app) *cobra.Command {
	var cluster clusterFlags
	var format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what changed from one snapshot to another",
		Long: `Compares two snapshots fact by fact: files, cm://NAMESPACE/NAME, or the word live for
the cluster as it is now. A fact that became unknown has changed too. When and by whom
a snapshot was taken is no fact. The text has the facts that matter of an item that came
or went, and many facts of one reason in one place; -o json has each whole.

Exit codes: 0 the same; 1 something changed; 2 bad usage, or a snapshot that cannot be
read; 3 the cluster could not be asked.`,
		Example: `  aicr snapshot diff passed.yaml live
  aicr snapshot diff monday.yaml tuesday.yaml -o json
  aicr snapshot diff cm://aicr/passed live --context prod`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return misuse(helpHint(cmd), "two snapshots are compared, %d were named", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.diffSnapshots(cmd.Context(), args[0], args[1], cluster, format)
		},
	}
	section(cmd, "Cluster", cluster.define)
	section(cmd, "Output", func(f *pflag.FlagSet) { outputFlag(f, &format) })
	alsoReads(cmd, "KUBECONFIG", "the files that say how to reach the cluster, as for kubectl")
	return cmd
}

func (a *app) diffSnapshots(ctx context.Context, was, now string, o clusterFlags, format string) error {
	if err := o.check(); err != nil {
		return err
	}
	// What is on paper is read first: a slip in it should not cost a look at a cluster.
	both, wrong := [2]*spec.Snapshot{}, [2]error{}
	for _, live := range []bool{false, true} {
		for i, place := range []string{was, now} {
			if (place == liveSnapshot) == live {
				both[i], wrong[i] = a.snapshotAt(ctx, place, o)
			}
		}
		if err := errors.Join(wrong[:]...); err != nil {
			return err
		}
	}
	changes := spec.DiffSnapshots(both[0], both[1])
	if format == outputJSON {
		if err := a.printJSON(changes); err != nil {
			return err
		}
	} else {
		var b bytes.Buffer
		writeChanges(&b, changes)
		if _, err := a.env.Stdout.Write(b.Bytes()); err != nil {
			return err
		}
	}
	if len(changes) > 0 {
		return Failed
	}
	return nil
}

func (a *app) snapshotAt(ctx context.Context, place string, o clusterFlags) (*spec.Snapshot, error) {
	if place != liveSnapshot {
		return a.readSnapshotOf(ctx, place, o)
	}
	c, err := a.connect(o)
	if err != nil {
		return nil, err
	}
	return a.takeSnapshot(ctx, c, o, 0)
}

// diffWidth is how many columns the text has; -o json has every fact whole.
const diffWidth = 100

// writeChanges writes the answer, then each change, and then those that are many of one
// reason: a right that is missing takes dozens of facts with it.
func writeChanges(b *bytes.Buffer, changes []spec.FactChange) {
	if len(changes) == 0 {
		b.WriteString("SAME  no fact changed\n")
		return
	}
	fmt.Fprintf(b, "CHANGED  %s\n", layout.Plural(len(changes), "fact"))
	together := map[string][]spec.FactChange{}
	for _, c := range changes {
		together[changeReason(c)] = append(together[changeReason(c)], c)
	}
	var reasons []string // in the order of the first of each
	for _, c := range changes {
		switch reason := changeReason(c); {
		case reason == "" || len(together[reason]) == 1:
			writeChange(b, c)
		case !slices.Contains(reasons, reason):
			reasons = append(reasons, reason)
		}
	}
	for _, reason := range reasons {
		writeTogether(b, reason, together[reason])
	}
}

// changeReason is why a fact is or was not known, in words; "" for one that was and is.
func changeReason(c spec.FactChange) string {
	was, now := c.Unknown()
	if !was && !now {
		return ""
	}
	side := func(text string, unknown bool) string {
		switch {
		case unknown:
			return text
		case text == "":
			return "not there"
		}
		return "known"
	}
	return side(c.Was, was) + " -> " + side(c.Now, now)
}

// writeChange writes one change, in a line where it fits.
func writeChange(b *bytes.Buffer, c spec.FactChange) {
	path := layout.Clean(c.Path)
	room := diffWidth - 4 - len("not there -> ") // of an item one side is not there
	both := changeSide(c, c.Was, room) + " -> " + changeSide(c, c.Now, room)
	if line := fmt.Sprintf("  %s: %s", path, both); layout.Width(line) <= diffWidth {
		b.WriteString(line + "\n")
		return
	}
	writeWrapped(b, 2, path+":")
	writeWrapped(b, 4, both)
}

// changeSide is what one of the snapshots says. Of an item it is as many facts as there is
// room for.
func changeSide(c spec.FactChange, text string, room int) string {
	if was, now := c.Unknown(); c.Item == nil || text == "" || was && text == c.Was || now && text == c.Now {
		return layout.Clean(layout.Clip(cmp.Or(text, "not there"), 3*diffWidth))
	}
	const more = " …"
	told := ""
	for i, fact := range c.Item {
		next := strings.TrimPrefix(told+" "+layout.Clean(layout.Clip(fact, diffWidth)), " ")
		if room := room - layout.Width(more); layout.Width(next) > room && told != "" && (i < len(c.Item)-1 || layout.Width(next) > room+layout.Width(more)) {
			return told + more
		}
		told = next
	}
	return told
}

// writeTogether writes changes of one reason. What became known is told with its value.
func writeTogether(b *bytes.Buffer, reason string, changes []spec.FactChange) {
	writeWrapped(b, 2, layout.Clean(layout.Clip(reason, 3*diffWidth))+": "+layout.Plural(len(changes), "fact"))
	var gone []string
	for _, c := range changes {
		if _, unknown := c.Unknown(); unknown || c.Now == "" {
			gone = append(gone, layout.Clean(c.Path))
			continue
		}
		writeWrapped(b, 4, layout.Clean(c.Path)+": "+changeSide(c, c.Now, diffWidth-4))
	}
	writeWrapped(b, 4, strings.Join(gone, ", "))
}

func writeWrapped(b *bytes.Buffer, indent int, text string) {
	if text == "" {
		return
	}
	for _, line := range layout.Wrapped(text, diffWidth-indent) {
		b.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
}
