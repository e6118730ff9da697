package layout

import (
	"bytes"
	"fmt"
	"strings"
)

// Columns is how wide a Page may be: half of a wide screen, a whole sheet of paper.
const Columns = 100

// Page is text in lines that are not too long.
type Page struct {
	Palette
	bytes.Buffer
}

// Blank leaves a line out.
func (p *Page) Blank() { p.WriteByte('\n') }

// Line writes text behind a head, and goes on below itself where it is too long.
func (p *Page) Line(indent int, head, text string) {
	room := Columns - indent - Width(head)
	for i, part := range Wrapped(Clean(text), room) {
		if i > 0 {
			head = strings.Repeat(" ", Width(head))
		}
		fmt.Fprintf(p, "%s\n", strings.TrimRight(strings.Repeat(" ", indent)+head+part, " "))
	}
}

// Title begins a part.
func (p *Page) Title(text string) {
	p.Blank()
	fmt.Fprintln(p, p.Bold(text))
}

// Table sets rows whose last cell is text, which goes on below itself.
func (p *Page) Table(rows [][]string, right []bool) {
	var heads [][]string
	for _, r := range rows {
		heads = append(heads, r[:len(r)-1])
	}
	wide := 0
	lines := Aligned(heads, right)
	for _, l := range lines {
		wide = max(wide, Width(l))
	}
	for i, l := range lines {
		p.Line(0, l+strings.Repeat(" ", wide-Width(l)+2), rows[i][len(rows[i])-1])
	}
}
