package workload

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions here walk JSON that has passed syntax, and rely on it. They
// exist for the order of an object's fields and the bytes of its values, which
// encoding/json's maps lose, and for speed: a ShareGPT file has 600 MB.

// members yields the members of an object, or the elements of an array with a
// nil key. Keys are in their quotes; all alias raw.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		object := raw[0] == '{'
		for at := space(raw, 1); raw[at] != '}' && raw[at] != ']'; at = space(raw, at) {
			if raw[at] == ',' {
				at = space(raw, at+1)
			}
			var key []byte
			if object {
				end := skip(raw, at)
				key = raw[at:end]
				at = space(raw, space(raw, end)+1) // past the colon
			}
			end := skip(raw, at)
			if !yield(key, raw[at:end]) {
				return
			}
			at = end
		}
	}
}

// space is where the white space from at on ends.
func space(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r' {
		at++
	}
	return at
}

// skip is where the value that begins at at ends.
func skip(raw []byte, at int) int {
	depth := 0
	for {
		switch raw[at] {
		case '"':
			at = skipString(raw, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		default: // a number or a word; between values, what separates them
			at++
			for at < len(raw) && !endsScalar(raw[at]) {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
}

func endsScalar(b byte) bool {
	switch b {
	case ' ', '\t', '\n', '\r', ',', ':', '"', '{', '}', '[', ']':
		return true
	}
	return false
}

func skipString(raw []byte, at int) int {
	for at++; ; at++ {
		at += bytes.IndexByte(raw[at:], '"')
		slashes := 0
		for raw[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 { // else the quote is escaped
			return at + 1
		}
	}
}

// unquote reads a JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it has passed syntax
	return s
}
