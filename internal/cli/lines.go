package cli

import (
	"bytes"
	"strings"
	"time"

	"aicr/internal/report/layout"
)

// The summary is set for a window of some hundred columns, and is the same for
// every reader: what is compared between runs should not depend on a window.
const (
	textColumns  = 100
	entryColumn  = 12 // where what is told of a thing begins
	entryColumns = textColumns - entryColumn
)

// writeHanging writes lines, the first after a lead and the others below it.
func writeHanging(b *bytes.Buffer, lead string, hang int, lines []string) {
	for _, line := range lines {
		b.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", hang)
	}
}

// fill puts parts on lines, as many on each as fit.
func fill(parts []string, columns int) []string {
	var lines []string
	line := ""
	for _, p := range parts {
		switch {
		case p == "":
		case line == "":
			line = p
		case layout.Width(line)+layout.Width(" · ")+layout.Width(p)+layout.Width(" ·") > columns:
			lines = append(lines, line+" ·")
			line = p
		default:
			line += " · " + p
		}
	}
	return append(lines, line)
}

// ms writes milliseconds with three significant digits.
func ms(v *float64) string {
	if v == nil {
		return "–"
	}
	return layout.Short(time.Duration(*v * 1e6))
}
