package report

import (
	"encoding/json"
	"io"

	"aicr/internal/spec"
)

// JSON writes the document that scripts read: verdict.json, with the history's trend
// beside it where there is one; bench.json of a bench; the comparison of two runs.
func JSON(w io.Writer, r *spec.Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	switch {
	case r.Comparison != nil:
		return e.Encode(r.Comparison)
	case r.Bench != nil:
		return e.Encode(r.Bench)
	}
	return e.Encode(struct {
		*spec.Verdict
		History *spec.Trend `json:"history,omitempty"`
	}{r.Verdict, r.Trend})
}
