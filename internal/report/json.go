package report

import (
	"encoding/json"
	"io"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// JSON writes the document that scripts read: verdict.json, with the history's trend
// beside it where there is one; bench.json of a bench; the comparison of two runs.
func JSON(w io.Writer, r *spec.Report) error {
	switch {
	case r.Comparison != nil:
		return writeJSON(w, r.Comparison)
	case r.Bench != nil:
		return writeJSON(w, r.Bench)
	}
	return writeJSON(w, struct {
		*spec.Verdict
		History *spec.Trend `json:"history,omitempty"`
	}{r.Verdict, r.Trend})
}

// writeJSON writes a value so that a person can read it, too.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(redact.JSONWriter(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
