package cli

import (
	"strings"

	"aicr/internal/spec"
)

// nearest is the candidate that the user most likely meant by name, or "" when
// none is close: one that a slip makes of it, or the beginning of just one.
func nearest(name string, candidates []string) string {
	if near, ok := spec.Nearest(name, candidates); ok {
		return near
	}
	var begun []string
	for _, c := range candidates {
		if len(name) >= 2 && strings.HasPrefix(c, name) {
			begun = append(begun, c)
		}
	}
	if len(begun) == 1 {
		return begun[0]
	}
	return ""
}
