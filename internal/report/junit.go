package report

import (
	"errors"
	"io"

	"aicr/internal/spec"
)

// JUnit is not written yet.
func JUnit(io.Writer, *spec.Report) error { return errors.New("not written yet") }
