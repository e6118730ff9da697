package report

import (
	"io"

	"aicr/internal/spec"
)

// Format is a way to tell a report.
type Format struct {
	Name    string
	Summary string // a line for the help
	Write   func(io.Writer, *spec.Report) error
	Two     bool // it tells a comparison of two runs as well
}

// Formats lists them. Each has a page in docs/reports.
func Formats() []Format {
	return []Format{
		{Name: "text", Summary: "what the commands print", Write: Text, Two: true},
		{Name: "html", Summary: "one page that needs nothing else, to look at and to send", Write: HTML, Two: true},
		{Name: "markdown", Summary: "to paste into a ticket", Write: Markdown, Two: true},
		{Name: "json", Summary: "verdict.json, for scripts", Write: JSON, Two: true},
		{Name: "ctrf", Summary: "the Common Test Report Format", Write: CTRF},
		{Name: "junit", Summary: "what GitLab and Jenkins read", Write: JUnit},
		{Name: "github", Summary: "annotations of a GitHub Actions step; its summary gets a table", Write: GitHub},
		{Name: "openmetrics", Summary: "for the textfile collector or a push gateway", Write: OpenMetrics},
		{Name: "csv", Summary: "a row a declared check, an episode and a request, for a spreadsheet", Write: CSV},
	}
}
