package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a document. Path is the value's place
// (faults[2].workers[0]), or "" for the document as a whole; Line and Column
// count from 1.
type Mistake struct {
	Path         string
	Line, Column int
	Text         string
	Hint         string // what to do about it, or ""
}

func (m Mistake) Error() string {
	if m.Path == "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.Text)
	}
	return fmt.Sprintf("line %d: %s: %s", m.Line, m.Path, m.Text)
}

// Mistakes is everything that is wrong with a document, in the order of its
// lines.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, one := range m {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each Mistake as an error of its own.
func (m Mistakes) Unwrap() []error {
	all := make([]error, len(m))
	for i, one := range m {
		all[i] = one
	}
	return all
}

func (m Mistakes) sort() {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// meant is a hint at one of the words that are known here: the one that is close
// to what was written, else all of them.
func meant(written string, known []string, otherwise string) string {
	if near, ok := Nearest(written, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise + " " + strings.Join(known, ", ")
}

// Nearest finds the word that a typing mistake could have come from. Case,
// dashes and underscores are not held against anybody.
func Nearest(written string, known []string) (string, bool) {
	const longest = 64 // what is longer is no slip, and costs time to compare
	if len(written) > longest {
		return "", false
	}
	plain := strings.NewReplacer("-", "", "_", "", " ", "")
	fold := func(s string) string { return plain.Replace(strings.ToLower(s)) }
	from := fold(written)
	best, least := "", 3
	for _, word := range known {
		to := fold(word)
		slips := edits(from, to)
		if slips > 1 && min(len(from), len(to)) < 5 { // two slips turn any short word into any other
			continue
		}
		if slips < least && slips < len(to) {
			best, least = word, slips
		}
	}
	return best, best != ""
}

// edits is how many letters have to be put in, taken out or changed to make one
// word of the other; two that swapped places are one.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			change := last[j]
			if x[i] != y[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
