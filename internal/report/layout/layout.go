// Package layout sets text for people: numbers, columns, lines and words. It knows
// nothing of what is told, so that the commands and the reports tell it alike.
package layout

import (
	"aicr/internal/spec"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Digits writes a number that is not negative with three significant digits,
// but no more than four places: what is smaller is next to nothing here.
func Digits(v float64) string {
	places := 0
	switch {
	case v >= 99.95 || v == 0:
	case v >= 9.995:
		places = 1
	case v >= 0.0995:
		places = 2
	case v >= 0.00995:
		places = 3
	default:
		places = 4
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// Number writes a number for people: groups of thousands, and no more digits
// than it needs.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 0:
		return "-" + Number(-v)
	case math.IsInf(v, 1):
		return "∞"
	case v < 999.5 && v != math.Trunc(v):
		return Digits(v)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Short writes a duration with three significant digits. The bounds are those
// of what is printed: 999.96 ms is a second, not 1000 ms.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Short(-d)
	case d == 0:
		return "0"
	case d < 999_500*time.Nanosecond:
		return Digits(float64(d)/1e3) + "µs"
	case d < 999_500*time.Microsecond:
		return Digits(float64(d)/1e6) + "ms"
	case d < 59_950*time.Millisecond:
		return Digits(d.Seconds()) + "s"
	}
	return d.Round(time.Second).String()
}

// Width counts the columns of a line, escape sequences left out.
func Width(line string) int {
	n := 0
	for line != "" {
		if e := EscapeLen(line); e > 0 {
			line = line[e:]
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		n++
	}
	return n
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
			pad := strings.Repeat(" ", widths[i]-Width(cell))
			b.WriteString("  ")
			if right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Noun is a word for so many.
func Noun(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

func Loaded(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// Wrapped breaks text into lines at its spaces.
func Wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(strings.ReplaceAll(text, " %", unbroken), " ") {
		word = strings.ReplaceAll(word, unbroken, " %")
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= max(width, 20):
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

func Listed(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return strings.Join(all, "")
}

func Quoted(value string) string {
	if strings.ContainsAny(value, " \t\n'\"$&;|<>()*?[]#~`\\{}!") {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

func Point(p spec.OperatingPoint) string {
	text := Number(float64(p.Concurrency)) + " in flight"
	if p.Workers > 1 {
		text += fmt.Sprintf(" (%d a worker)", p.Concurrency/p.Workers)
	}
	if p.RampS > 0 {
		text += ", started over " + Loaded(p.RampS)
	} else {
		text += ", all at once"
	}
	if p.Requests > 0 {
		text += fmt.Sprintf(", until %s requests are sent", Number(float64(p.Requests)))
	}
	text += fmt.Sprintf("; %d tokens in, %d out; prompts %s", p.InputTokens, p.OutputTokens, Prompts(p.Prompts))
	if p.SentinelRate > 0 {
		text += fmt.Sprintf("; %s a second beside it on a fixed schedule", Number(p.SentinelRate))
	}
	return text
}

func Prompts(p string) string {
	if p == spec.Prompts(0).String() {
		return p
	}
	return p + ", recycled"
}

// unbroken is a percent sign that stays with its number.
const unbroken = "\u00a0%"

// Clean makes text of somebody else's fit to be shown: what would steer a terminal,
// turn the direction of what stands beside it, or is no character at all is shown as
// a box, and a line's end as a space.
func Clean(text string) string {
	if !strings.ContainsFunc(text, unfit) && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unfit(r) || r == utf8.RuneError:
			return '\u25a1'
		}
		return r
	}, text)
}

// unfit reports whether a character does something else than to be seen.
func unfit(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// Clip shortens text to about so many bytes, and says how much it was.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (cut here; it has %s bytes)", text[:end], Number(float64(len(text))))
}
