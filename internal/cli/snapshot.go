package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/kube"
	"aicr/internal/redact"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

type snapshotOptions struct {
	cluster   clusterFlags
	mostNodes int
	format    string
	write     string
	output    *documentOutput
	rbac      bool
}

func newSnapshot(a *app) *cobra.Command {
	var o snapshotOptions
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Say what is on a cluster, as facts that a recipe can be held against",
		Long: `Asks a cluster what it is: version, nodes and their GPUs, DRA, GPU operator, Dynamo,
KAI, Grove, DCGM exporter and storage classes. It only reads, needs no more than the
role that --rbac prints, never looks at a Secret, and says first which cluster it asks.

A fact that could not be read is written down as unknown, with the reason: forbidden,
absent, timed out, unreachable, unreadable, or mixed where the nodes do not agree. A
constraint on it is then an error, and never holds.

Exit codes: 0 taken, whatever is unknown; 2 bad usage, or no such cluster is known;
3 the cluster could not be asked, or the snapshot not be written; 130 interrupted.`,
		Example: `  aicr snapshot -o table
  aicr snapshot --context prod --write passed.yaml
  aicr snapshot --write cm://aicr/passed
  aicr snapshot diff passed.yaml live
  aicr snapshot --rbac | kubectl apply -f -`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.snapshot(cmd.Context(), &o) },
	}
	section(cmd, "Cluster", o.cluster.define)
	section(cmd, "Snapshot", func(f *pflag.FlagSet) {
		f.IntVar(&o.mostNodes, "max-nodes-per-entry", 0, "name at most `N` nodes for each label and taint; 0 names all, which constraints on GPU nodes' labels need")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		o.output = documentFlags(f, &o.format, &o.write, ", or to cm://NAMESPACE/NAME on the cluster")
		f.BoolVar(&o.rbac, "rbac", false, "print the ClusterRole that a snapshot needs, and ask no cluster")
	})
	completesDocuments(cmd)
	alsoReads(cmd, "KUBECONFIG", "the files that say how to reach the cluster, as for kubectl")
	cmd.AddCommand(newSnapshotDiff(a))
	return cmd
}

func (a *app) snapshot(ctx context.Context, o *snapshotOptions) error {
	if o.rbac {
		_, err := a.env.Stdout.Write(kube.ClusterRole())
		return err
	}
	if err := errors.Join(o.output.settle(a, &o.write), o.check()); err != nil {
		return err
	}
	c, err := a.connect(o.cluster)
	if err != nil {
		return err
	}
	s, err := a.takeSnapshot(ctx, c, o.cluster, o.mostNodes)
	if err != nil {
		return err
	}
	text, err := o.encode(s)
	if err != nil {
		return err
	}
	a.sayForbidden(s)
	switch {
	case strings.HasPrefix(o.write, configMapScheme):
		return a.keepSnapshot(ctx, c, o, text)
	case o.write != "" && o.write != "-":
		if err := writePrivate(o.write, text); err != nil {
			return unmeasured("name another place with --write", "writing the snapshot: %w", err)
		}
		a.say("%s: %s", o.write, snapshotLine(s))
		return nil
	}
	_, err = a.env.Stdout.Write(redact.Document(text))
	return err
}

func (o *snapshotOptions) check() error {
	var wrong []error
	if o.mostNodes < 0 {
		wrong = append(wrong, misuse("0 names all of them", "--max-nodes-per-entry: %d is no number of nodes", o.mostNodes))
	}
	switch {
	case strings.HasPrefix(o.write, configMapScheme):
		if _, _, err := configMapPlace(o.write); err != nil {
			wrong = append(wrong, err)
		}
		if o.format == outputTable {
			wrong = append(wrong, misuse("write yaml or json", "--output table: a ConfigMap holds a snapshot that can be read again"))
		}
	case o.write != "" && o.write != "-":
		if err := filePlace(o.write, true); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(append(wrong, o.cluster.check())...)
}

func (o *snapshotOptions) encode(s *spec.Snapshot) ([]byte, error) {
	if o.format == outputTable {
		var b bytes.Buffer
		writeSnapshotTable(&b, s)
		return b.Bytes(), nil
	}
	return spec.EncodeSnapshot(s, o.format)
}

// keepSnapshot writes a snapshot into a ConfigMap.
func (a *app) keepSnapshot(ctx context.Context, c *kube.Cluster, o *snapshotOptions, text []byte) error {
	namespace, name, err := configMapPlace(o.write)
	if err != nil {
		return err
	}
	err = kube.WriteConfigMap(ctx, c, namespace, name, kube.Kept{Format: o.format, Data: text, Now: a.env.Now(), Version: a.env.Build.Version})
	hint := "it takes the rights to get, create and patch configmaps in " + namespace
	if _, ok := errors.AsType[*kube.TooLargeError](err); ok {
		hint = "write it to a file, or name fewer nodes with --max-nodes-per-entry"
	}
	if _, ok := errors.AsType[*kube.ForeignError](err); ok {
		hint = "name another one"
	}
	if err != nil {
		return unmeasured(hint, "writing %s: %w", o.write, err)
	}
	a.say("written to %s", o.write)
	return nil
}

// sayForbidden says what to do about facts that were not to be had.
func (a *app) sayForbidden(s *spec.Snapshot) {
	forbidden := 0
	for _, u := range unknownFacts(s) {
		if u.why.Reason == spec.ReasonForbidden {
			forbidden++
		}
	}
	if forbidden > 0 {
		a.say("%s could not be read for lack of rights; aicr snapshot --rbac prints the role that has them", layout.Plural(forbidden, "fact"))
	}
}

// writePrivate writes a file that only its owner can read, since labels may say more than
// everybody is to know.
func writePrivate(path string, text []byte) error {
	content := func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
	path = realPlace(path)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeFile(path, content) // a device or a pipe stays what it is
	}
	return writeWholeAs(path, 0o600, content)
}
