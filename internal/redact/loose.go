package redact

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// loose finds a secret in which each character but letters and digits may be written in any of
// the ways of addresses, JSON, messages and HTML. Programs differ in which characters they
// escape, so the forms of a whole word are not all that there are.
type loose struct {
	sign  string         // the longest run of letters and digits: a text without it has nothing to find
	whole *regexp.Regexp // the secret
	begin *regexp.Regexp // a beginning of it, at the end of a text
}

// longestLoose is how many characters of a secret a beginning at a cut is looked for.
const longestLoose = 200

// looseOf is nil for a secret of letters and digits alone.
func looseOf(word string) *loose {
	var parts []string
	sign, run := "", ""
	for _, r := range word {
		if isAlphanumeric(r) {
			run += string(r)
			parts = append(parts, string(r))
		} else {
			run = ""
			parts = append(parts, writtenAs(r))
		}
		if len(run) > len(sign) {
			sign = run
		}
	}
	if len(sign) == len(word) {
		return nil
	}
	begin := ""
	for i := min(len(parts), longestLoose) - 1; i > 0; i-- {
		begin = "(?:" + parts[i] + begin + ")?"
	}
	l := &loose{sign: sign}
	var err error
	if l.whole, err = regexp.Compile(strings.Join(parts, "")); err == nil {
		l.begin, err = regexp.Compile(parts[0] + begin + cutEscape + "$")
	}
	if err != nil { // it is too long for one; its forms are still known
		return nil
	}
	return l
}

// cutEscape is the beginning of a character that is written in one of these ways.
const cutEscape = `(?:(?:%[0-9a-fA-F]*)+|\\+[ux]?[0-9a-fA-F]*|&[a-z0-9#;]*)?`

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// entities are how HTML calls what it has a name for.
var entities = map[rune]string{'"': "quot", '&': "amp", '<': "lt", '>': "gt", '\'': "apos"}

// writtenAs is an expression for the ways in which a character may be written.
func writtenAs(r rune) string {
	plain := regexp.QuoteMeta(string(r))
	var percent strings.Builder
	for _, b := range utf8.AppendRune(nil, r) {
		fmt.Fprintf(&percent, "%%(?:25)*%02x", b)
	}
	entity := fmt.Sprintf("#0*%d|#x0*%x", r, r)
	if name := entities[r]; name != "" {
		entity += "|" + name
	}
	escaped := fmt.Sprintf(`\\+(?:u%04x|x%02x)`, r, r)
	ways := []string{plain, `\\+` + plain, "(?i:" + percent.String() + "|" + escaped + "|&(?:amp;)*(?:" + entity + ");)"}
	if r == ' ' {
		ways = append(ways, `\+`)
	}
	return "(?:" + strings.Join(ways, "|") + ")"
}

// hide takes the secret out of a text.
func (l *loose) hide(text string) string {
	if !strings.Contains(text, l.sign) {
		return text
	}
	return l.whole.ReplaceAllString(text, Hidden)
}

// begun is how many bytes at the end of a text could be the beginning of the secret.
func (l *loose) begun(text string) int {
	if at := l.begin.FindStringIndex(text); at != nil {
		return len(text) - at[0]
	}
	return 0
}
