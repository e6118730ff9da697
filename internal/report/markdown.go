package report

import (
	"errors"
	"io"

	"aicr/internal/spec"
)

// Markdown is not written yet.
func Markdown(io.Writer, *spec.Report) error { return errors.New("not written yet") }
