package layout

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Width counts the columns that a line takes on a terminal, colour sequences left out.
func Width(line string) int {
	n := 0
	for line != "" {
		if e := EscapeLen(line); e > 0 {
			line = line[e:]
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		n += columns(r)
	}
	return n
}

// columns is how many a character takes: two in Chinese, none for a mark that is set
// on the one before it.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), r >= 0x1160 && r <= 0x11ff: // marks, and the rest of a Hangul syllable
		return 0
	case unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// EscapeLen is the length of the colour sequence that s begins with, or 0.
func EscapeLen(s string) int {
	code, ok := strings.CutPrefix(s, "\x1b[")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(code, func(r rune) bool { return r != ';' && (r < '0' || r > '9') })
	if end < 0 || code[end] != 'm' {
		return 0
	}
	return len("\x1b[") + end + len("m")
}

// Wrapped breaks text into lines of so many columns, at its spaces. Only a word that
// is longer than a line is broken itself.
func Wrapped(text string, columns int) []string {
	columns = max(columns, 2) // the widest character must fit
	var lines []string
	line, used := "", 0
	for more := true; more; {
		var word string
		word, text, more = firstWord(text)
		wide := Width(word)
		if line != "" {
			if used+1+wide <= columns {
				line, used = line+" "+word, used+1+wide
				continue
			}
			lines = append(lines, line)
		}
		for wide > columns {
			part := start(word, columns)
			for strings.HasPrefix(word[len(part):], "::") && len(part) > 1 && !strings.Contains(part, "\x1b") {
				part = start(part, Width(part)-1) // a line that begins so is a command to GitHub's runner
			}
			lines = append(lines, part)
			word, wide = word[len(part):], wide-Width(part)
		}
		line, used = word, wide
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// firstWord is all up to a space, but that a percent sign stays with its number.
func firstWord(text string) (word, rest string, more bool) {
	word, rest, more = strings.Cut(text, " ")
	if sign, after, further := strings.Cut(rest, " "); slices.Contains([]string{"%", "%,", "%.", "%;", "%:", "%)"}, sign) {
		return word + " " + sign, after, further
	}
	return word, rest, more
}

// start is as much of a line as fits into so many columns.
func start(line string, most int) string {
	n, end := 0, 0
	for end < len(line) {
		if e := EscapeLen(line[end:]); e > 0 {
			end += e
			continue
		}
		r, size := utf8.DecodeRuneInString(line[end:])
		if n += columns(r); n > most {
			break
		}
		end += size
	}
	return line[:end]
}

// Aligned sets a table; the first row is its head.
func Aligned(rows [][]string, right []bool) []string {
	if len(rows) == 0 {
		return nil
	}
	widths := make([]int, len(right))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			b.WriteString("  " + padded(cell, cell, widths[i], right[i]))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// padded puts spaces beside what is shown of a text, up to so many columns.
func padded(text, shown string, columns int, right bool) string {
	pad := strings.Repeat(" ", max(0, columns-Width(text)))
	if right {
		return pad + shown
	}
	return shown + pad
}

// Filled puts parts on lines, as many on each as fit. A dot at a line's end says that
// it goes on.
func Filled(parts []string, columns int) []string {
	const dot = " ·"
	parts = slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" })
	if len(parts) == 0 {
		return nil
	}
	var lines []string
	line := parts[0]
	for i, p := range parts[1:] {
		joined := line + dot + " " + p
		room := columns
		if i+2 < len(parts) {
			room -= Width(dot)
		}
		if Width(joined) > room {
			lines = append(lines, line+dot)
			joined = p
		}
		line = joined
	}
	return append(lines, line)
}

// Bar draws a share of a whole, to an eighth of a column. What is not a number is
// drawn as none.
func Bar(share float64, width int) string {
	if width <= 0 {
		return ""
	}
	if !(share > 0) { // also NaN
		share = 0
	}
	eighths := int(min(share, 1) * float64(width*8))
	line := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		line += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return line + strings.Repeat(" ", width-(eighths+7)/8)
}
