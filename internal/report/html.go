package report

import (
	"errors"
	"io"

	"aicr/internal/spec"
)

// HTML is not written yet.
func HTML(io.Writer, *spec.Report) error { return errors.New("not written yet") }
