package cli

import (
	"aicr/internal/report"
	"aicr/internal/spec"
)

// printReport is the product of a command that has a verdict.
func (a *app) printReport(r *spec.Report, format string) error {
	if format == outputJSON {
		return report.JSON(a.env.Stdout, r)
	}
	return report.TextIn(a.stdoutPalette())(a.env.Stdout, r)
}
