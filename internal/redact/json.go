package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// JSON is a document of JSON in which what is unfit to be shown is escaped: it says the
// same to who parses it, and nothing to a terminal that it is written to, nor ##[command] to
// the runner of a workflow. What is not ASCII, and what is escaped here, stands in strings
// alone.
func JSON(document []byte) []byte { return jsonBehind(0, document) }

// Document is a document of JSON or YAML as it is written to a stream. In YAML, which has
// texts without quotation marks, a box stands for what cannot be shown.
func Document(text []byte) []byte {
	if json.Valid(text) {
		return JSON(text)
	}
	return bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unfit(r) {
			return box
		}
		return r
	}, text)
}

// jsonBehind is JSON for what follows a byte.
func jsonBehind(last byte, document []byte) []byte {
	at := firstUnfit(last, document)
	if at == len(document) {
		return document
	}
	clean := append(make([]byte, 0, len(document)+16), document[:at]...)
	for i := at; i < len(document); {
		r, size := utf8.DecodeRune(document[i:])
		if i > 0 {
			last = document[i-1]
		}
		if r == '#' && last == '#' || r >= ' ' && unfit(r) {
			clean = appendEscaped(clean, r)
		} else {
			clean = append(clean, document[i:i+size]...)
		}
		i += size
	}
	return clean
}

// firstUnfit is where JSON has something to do. Controls of ASCII stand between the
// parts of a document, and are escaped in its strings already.
func firstUnfit(last byte, document []byte) int {
	for i := 0; i < len(document); {
		if b := document[i]; b < 0x7f {
			if b == '#' && last == '#' {
				return i
			}
			last = b
			i++
			continue
		}
		r, size := utf8.DecodeRune(document[i:])
		if unfit(r) {
			return i
		}
		last = 0
		i += size
	}
	return len(document)
}

// appendEscaped writes a character as JSON's strings may have it.
func appendEscaped(b []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendUnit(appendUnit(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendUnit(b, r)
}

func appendUnit(b []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}

// JSONWriter passes documents of JSON on as JSON does. A character may come in parts.
func JSONWriter(w io.Writer) io.Writer { return &jsonWriter{w: w} }

type jsonWriter struct {
	w    io.Writer
	part []byte // of a character whose rest has not come
	last byte   // that was written
}

func (j *jsonWriter) Write(p []byte) (int, error) {
	text := p
	if len(j.part) > 0 {
		text = append(j.part, p...)
	}
	whole := len(text)
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-back:]) {
				whole = len(text) - back
			}
			break
		}
	}
	j.part = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	if _, err := j.w.Write(jsonBehind(j.last, text[:whole])); err != nil {
		return 0, err
	}
	j.last = text[whole-1]
	return len(p), nil
}
