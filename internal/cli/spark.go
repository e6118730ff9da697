package cli

import (
	"math"
	"strings"
)

// sparkline draws the last width values as one line of blocks, from nothing to
// the greatest of them. A value that is not a number leaves a gap: it was not
// measured, which is not the same as none.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-max(0, width)):]
	top := 0.0
	for _, v := range values {
		if !math.IsInf(v, 1) && !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	const blocks = "▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	var line strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			line.WriteByte(' ')
		case v <= 0 || top == 0:
			line.WriteRune(levels[0])
		default:
			line.WriteRune(levels[min(len(levels)-1, int(min(v/top, 1)*float64(len(levels))))])
		}
	}
	return line.String()
}
