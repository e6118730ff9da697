package layout

import (
	"fmt"
	"unicode/utf8"

	"aicr/internal/redact"
)

// Clean makes text of somebody else's fit to be shown: see redact.Clean.
func Clean(text string) string { return redact.Clean(text) }

// box is what stands there for a character that cannot be shown.
const box = '□'

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
