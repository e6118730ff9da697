package layout

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// box stands for what cannot be shown.
const box = '□'

// Clean makes text of somebody else's fit to be shown: what would steer a terminal,
// turn the direction of what stands beside it, or is no character at all is shown as
// a box, and a line's end as a space.
func Clean(text string) string {
	if !strings.ContainsFunc(text, unfit) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unfit(r):
			return box
		}
		return r
	}, text)
}

// unfit reports whether a character does something else than to be seen. A byte that
// is no UTF-8 comes here as utf8.RuneError.
func unfit(r rune) bool {
	if r >= ' ' && r < unicode.MaxASCII { // nearly all there is; DEL is the last of ASCII
		return false
	}
	return r == utf8.RuneError || r == '\u2028' || r == '\u2029' || // the separators of lines and of paragraphs
		unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Noncharacter_Code_Point)
}

// Shown is text of somebody else's, clean, in one line and of about so many bytes.
// There may be much of it, so it is cut first; a box takes more bytes than what it
// stands for.
func Shown(text string, most int) string {
	clean := Clean(Clip(text, most))
	if len(clean) > most+Remark {
		clean = Clean(Clip(text, most/len(string(box))))
	}
	return clean
}

// Remark is more bytes than what Clip says of a text takes.
const Remark = 64

// Clip shortens text to about so many bytes, and says how much it was.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (cut here; it has %s bytes)", text[:end], Number(float64(len(text))))
}
