package cli

import (
	"github.com/spf13/cobra"

	"aicr/internal/sim/scenarios"
)

func newSimShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print a scenario that is built in, to start one from",
		Example: `  aicr sim show one-worker-stall
  aicr sim show s5 > mine.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("see 'aicr sim list'", "one scenario is shown at a time, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: scenarioNames,
		RunE: func(_ *cobra.Command, args []string) error {
			e, ok := scenarios.Find(args[0])
			if !ok {
				return unknownScenario(args[0])
			}
			_, err := a.env.Stdout.Write(e.Data)
			return err
		},
	}
}
