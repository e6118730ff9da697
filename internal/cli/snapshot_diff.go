package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

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
a snapshot was taken is no fact.

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

// writeChanges writes a line for each change, after the answer.
func writeChanges(b *bytes.Buffer, changes []spec.FactChange) {
	if len(changes) == 0 {
		b.WriteString("SAME  no fact changed\n")
		return
	}
	fmt.Fprintf(b, "CHANGED  %s\n", layout.Plural(len(changes), "fact"))
	none := func(s string) string { return layout.Clean(cmp.Or(s, "not there")) }
	for _, c := range changes {
		fmt.Fprintf(b, "  %s: %s -> %s\n", layout.Clean(c.Path), none(c.Was), none(c.Now))
	}
}
