package cli

import (
	"bytes"
	"strings"
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
