package redact

import (
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// box stands for what cannot be shown.
const box = '□'

// Clean makes text of somebody else's fit to be shown on one line: what would steer a
// terminal, turn the direction of what stands beside it, cannot be seen, or is no
// character at all is shown as a box, a line's end as a space, and a command to the
// runner of a workflow is none any more.
func Clean(text string) string {
	if strings.ContainsFunc(text, unfit) {
		text = strings.Map(func(r rune) rune {
			switch {
			case r == '\n' || r == '\r' || r == '\t':
				return ' '
			case unfit(r):
				return box
			}
			return r
		}, text)
	}
	return inert(text)
}

// Lines is Clean for a text of several lines, which stay several.
func Lines(text string) string {
	if !strings.Contains(text, "\n") {
		return Clean(text)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n")
}

// All cleans each of several texts.
func All(texts []string) []string {
	clean := make([]string, len(texts))
	for i, text := range texts {
		clean[i] = Clean(text)
	}
	return clean
}

// Plain is a line of a log without its colours, clean.
func Plain(line string) string {
	if strings.Contains(line, "\x1b") {
		line = sequences.ReplaceAllString(line, "")
	}
	return Clean(line)
}

// sequences are what a terminal is told between the words: colours, titles, moves.
var sequences = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -~]?`)

// unfit reports whether a character does something else than to be seen. A byte that
// is no UTF-8 comes here as utf8.RuneError.
func unfit(r rune) bool {
	if r >= ' ' && r < unicode.MaxASCII { // nearly all there is; DEL is the last of ASCII
		return false
	}
	if r == '\u200c' || r == '\u200d' {
		return false // joiners, which some scripts cannot be written without
	}
	return r == utf8.RuneError || r == '\u2028' || r == '\u2029' || // the separators of lines and of paragraphs
		unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Noncharacter_Code_Point)
}

// inert makes commands to the runner of a workflow ordinary text. GitHub's runner takes
// one where a line begins with ::name, blanks aside, and the older form ##[name]
// anywhere; Azure's ##vso[ and TeamCity's ##teamcity[ are of that form too.
func inert(text string) string {
	if strings.Contains(text, "::") {
		text = colons.ReplaceAllString(text, "$1: :")
	}
	if strings.Contains(text, "##") {
		text = hashes.ReplaceAllString(text, "## $1")
	}
	return text
}

var (
	colons = regexp.MustCompile(`(^|[\s\pZ])::+`)
	hashes = regexp.MustCompile(`##+([A-Za-z]*\[)`)
)

// Writer gives text of this program to a stream of which nothing but text is expected.
// Sentences are clean when they come here; this is the last stand, which holds whoever
// forgot to clean a part of one. Colours and the moves of a status line pass where
// drawn says that there are any.
func Writer(w io.Writer, drawn func() bool) io.Writer { return &cleanWriter{w, drawn} }

type cleanWriter struct {
	w     io.Writer
	drawn func() bool
}

func (c *cleanWriter) Write(p []byte) (int, error) {
	if !suspicious(p) {
		return c.w.Write(p)
	}
	if _, err := io.WriteString(c.w, c.clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// suspicious says whether there is anything to look at: nearly all that is said is
// plain ASCII.
func suspicious(p []byte) bool {
	for i, b := range p {
		if b < ' ' && b != '\n' || b >= 0x7f || (b == ':' || b == '#') && i+1 < len(p) && p[i+1] == b {
			return true
		}
	}
	return false
}

func (c *cleanWriter) clean(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		for body != "" {
			if n := c.own(body); n > 0 {
				kept.WriteString(body[:n])
				body = body[n:]
				continue
			}
			next := len(body)
			if i := strings.IndexAny(body[1:], "\x1b\r"); i >= 0 {
				next = i + 1
			}
			kept.WriteString(Clean(body[:next]))
			body = body[next:]
		}
		if end {
			kept.WriteByte('\n')
		}
	}
	return kept.String()
}

// ownSequence is what this program itself tells a terminal: a colour, and the moves of
// a status that is drawn in place.
var ownSequence = regexp.MustCompile(`^(?:\x1b\[(?:[0-9;]*m|[0-9]+A|[JK])|\r)`)

// own is the length of such a sequence that a text begins with.
func (c *cleanWriter) own(text string) int {
	if !c.drawn() {
		return 0
	}
	return len(ownSequence.FindString(text))
}
