package report

import (
	"errors"
	"io"

	"aicr/internal/spec"
)

// CSV is not written yet.
func CSV(io.Writer, *spec.Report) error { return errors.New("not written yet") }
