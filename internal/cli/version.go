package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"aicr/internal/redact"
)

func newVersion(a *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which version of the program this is",
		Example: `  aicr version
  aicr version -o json`,
		RunE: func(*cobra.Command, []string) error {
			b := a.env.Build
			if format == outputJSON {
				return a.printJSON(struct {
					Version  string `json:"version"`
					Commit   string `json:"commit,omitempty"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{b.Version, b.Commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(a.env.Stdout, b.line())
			return err
		},
	}
	outputFlag(cmd.Flags(), &format)
	return cmd
}

// line is the version as people read it.
func (b Build) line() string {
	commit := ""
	if b.Commit != "" {
		commit = " (" + b.Commit + ")"
	}
	return fmt.Sprintf("aicr %s%s %s %s/%s", b.Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// printJSON writes a product as indented JSON.
func (a *app) printJSON(product any) error {
	e := json.NewEncoder(redact.JSONWriter(a.env.Stdout))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(product)
}
