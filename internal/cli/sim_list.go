package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"aicr/internal/sim/scenarios"
)

func newSimList(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios that are built in",
		Long: `Lists the scenarios that are built in: their short name, their title, which is a
name too, and what goes wrong. s1 to s19 are what the judge is tested with, i1 to
i8 are published incidents.`,
		Example: `  aicr sim list
  aicr sim list -o json`,
		RunE: func(*cobra.Command, []string) error { return a.simList(format) },
	}
	outputFlag(cmd.Flags(), &format)
	return cmd
}

func (a *app) simList(format string) error {
	type line struct {
		Name  string `json:"name"`
		Title string `json:"title"`
		Line  string `json:"line"`
	}
	var all []line
	names, titles := 0, 0
	for _, e := range scenarios.All() {
		all = append(all, line{e.Name, e.Title, e.Line})
		names, titles = max(names, len(e.Name)), max(titles, len(e.Title))
	}
	if format == outputJSON {
		return a.printJSON(all)
	}
	for _, l := range all {
		fmt.Fprintf(a.env.Stdout, "%-*s  %-*s  %s\n", names, l.Name, titles, l.Title, l.Line)
	}
	return nil
}
