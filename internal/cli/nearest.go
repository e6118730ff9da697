package cli

import "strings"

// nearest is the candidate that the user most likely meant by name, or "" when
// none is close: at most a third of its letters wrong, or the beginning of
// just one candidate.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+1
	var begun []string
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
		if len(name) >= 2 && strings.HasPrefix(c, name) {
			begun = append(begun, c)
		}
	}
	if best == "" && len(begun) == 1 {
		return begun[0]
	}
	return best
}

// editDistance counts the letters to insert, drop, replace or swap with their
// neighbour to turn a into b.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
