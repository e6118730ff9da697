package report

import (
	"errors"
	"io"

	"aicr/internal/spec"
)

// GitHub is not written yet.
func GitHub(io.Writer, *spec.Report) error { return errors.New("not written yet") }
