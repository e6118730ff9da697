package layout

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Columns is how wide a Page may be: half of a wide screen, a whole sheet of paper.
const Columns = 100

// longest is how many bytes of one text a Page shows.
const longest = 2000

// Page is text in lines that are not too long. What is put on it may be anybody's: it
// is cleaned and clipped. Only a head may have colour, and is the caller's own word.
type Page struct {
	Palette
	bytes.Buffer
}

// Blank leaves a line out.
func (p *Page) Blank() { p.WriteByte('\n') }

// Line writes text behind a head, and goes on below itself where it is too long.
func (p *Page) Line(indent int, head, text string) {
	before := strings.Repeat(" ", indent) + head
	below := strings.Repeat(" ", Width(before))
	for i, part := range Wrapped(Shown(text, longest), max(20, Columns-len(below))) {
		if i > 0 {
			before = below
		}
		fmt.Fprintln(p, strings.TrimRight(before+part, " "))
	}
}

// Title begins a part.
func (p *Page) Title(text string) {
	p.Blank()
	fmt.Fprintln(p, p.Bold(text))
}

// Column is how the cells of a table's column are set.
type Column struct {
	Head  string
	Right bool
	Paint func(cell string) func(string) string // the colour of a cell; nil: none
}

// Row is a row of a table, and what is told below it.
type Row struct {
	Cells []string
	Below string
}

// Table sets rows in columns. Cells go on below themselves where there is no room.
func (p *Page) Table(columns []Column, rows []Row) {
	all := make([][]string, 0, 1+len(rows))
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	all = append(all, heads)
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, cell := range r.Cells {
			cells[i] = Shown(cell, longest)
		}
		all = append(all, cells)
	}
	widths := fitted(all, Columns-len(gap)*len(columns))
	for i, cells := range all {
		if i > 0 || strings.Join(heads, "") != "" {
			p.row(columns, widths, cells)
		}
		if i > 0 && rows[i-1].Below != "" {
			p.Line(6, "", rows[i-1].Below)
		}
	}
}

// gap stands before every column.
const gap = "  "

// row writes a row, in as many lines as its cells need.
func (p *Page) row(columns []Column, widths []int, cells []string) {
	parts := make([][]string, len(cells))
	lines := 0
	for i, cell := range cells {
		parts[i] = Wrapped(cell, widths[i])
		lines = max(lines, len(parts[i]))
	}
	for n := range lines {
		var line strings.Builder
		for i, c := range columns {
			part := ""
			if n < len(parts[i]) {
				part = parts[i][n]
			}
			coloured := part
			if c.Paint != nil {
				coloured = c.Paint(cells[i])(part)
			}
			line.WriteString(gap + padded(part, coloured, widths[i], c.Right))
		}
		fmt.Fprintln(p, strings.TrimRight(line.String(), " "))
	}
}

// longestWord is how long a word may be that is not broken while there is another
// column to take the room from.
const longestWord = 40

// fitted is how wide each column is, so that all of them have room: a column gives
// first what it can without a broken word, and the widest gives first.
func fitted(rows [][]string, room int) []int {
	widths := make([]int, len(rows[0]))
	words := slices.Repeat([]int{2}, len(rows[0])) // less would hold no Chinese
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], min(room, Width(cell)))
			for word := range strings.SplitSeq(cell, " ") {
				words[i] = max(words[i], min(longestWord, Width(word)))
			}
		}
	}
	none := make([]int, len(words))
	for sum(widths) > room {
		give := widestOver(widths, words)
		if give < 0 {
			give = widestOver(widths, none)
		}
		widths[give]--
	}
	return widths
}

// widestOver is the widest of the columns that are wider than their least, or -1.
func widestOver(widths, least []int) int {
	widest := -1
	for i, w := range widths {
		if w > least[i] && (widest < 0 || w > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func sum(all []int) int {
	total := 0
	for _, n := range all {
		total += n
	}
	return total
}
