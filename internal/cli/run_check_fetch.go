package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/checks/graph"
)

func newRunFetch(a *app) *cobra.Command {
	var results string
	var stop, received bool
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Write the record of the load's Job to standard output, as a tar.gz",
		Long: `'aicr validate' runs this inside the pod of the load's Job. The record is written as
an archive once there is a verdict; before that it is refused. With --stop the load is
told to end, and the archive has what was measured by then. With --received the Job is
told that the archive has arrived, and ends.`,
		Example: `  aicr run fetch --results /results > record.tar.gz
  aicr run fetch --results /results --stop > record.tar.gz
  aicr run fetch --results /results --received`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if received {
				return mark(results, fetchedMark)
			}
			if stop {
				if err := stopLoad(cmd.Context(), results); err != nil {
					return err
				}
			}
			return a.fetchRecord(results)
		},
	}
	section(cmd, "Record", func(f *pflag.FlagSet) {
		f.StringVar(&results, "results", "/results", "`DIR` that the record was kept in")
		f.BoolVar(&stop, "stop", false, "tell the load to end, and wait for its record")
		f.BoolVar(&received, "received", false, "say that the record has arrived")
	})
	return cmd
}

func (a *app) fetchRecord(results string) error {
	if _, err := os.Stat(filepath.Join(results, finishedMark)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return unmeasured("its log says how far it is", "the run is not finished")
		}
		return unmeasured("", "%w", err)
	}
	if err := graph.WriteArchive(a.env.Stdout, os.DirFS(filepath.Join(results, recordFolder))); err != nil {
		return unmeasured("", "writing the archive: %w", err)
	}
	return nil
}

// stopLoad tells the load to end, and waits until there is a verdict. That it takes too
// long is told by who wants the record then.
func stopLoad(ctx context.Context, results string) error {
	if err := mark(results, stopMark); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	for !marked(results, finishedMark) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lookForMarks):
		}
	}
	return nil
}

// mark leaves a mark beside the record.
func mark(results, name string) error {
	if err := os.WriteFile(filepath.Join(results, name), nil, 0o644); err != nil {
		return unmeasured("--results is the folder that the load keeps its record in", "%w", err)
	}
	return nil
}

func marked(results, name string) bool {
	_, err := os.Stat(filepath.Join(results, name))
	return err == nil
}
