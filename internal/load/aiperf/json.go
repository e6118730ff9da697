package aiperf

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// appendNumber writes v the way orjson does: the shortest digits that read back
// as v, always with a fraction or an exponent.
func appendNumber(b []byte, v float64) []byte {
	start := len(b)
	b = strconv.AppendFloat(b, v, 'e', -1, 64)
	exp := len(b) - 1
	for b[exp] != 'e' {
		exp--
	}
	e, _ := strconv.Atoi(string(b[exp+1:])) // just written
	if v == 0 || (e >= -5 && e < 16) {
		b = strconv.AppendFloat(b[:start], v, 'f', -1, 64)
		if v == math.Trunc(v) {
			b = append(b, ".0"...)
		}
		return b
	}
	b = b[:exp+1]
	if e > 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(e), 10)
}

const hex = "0123456789abcdef"

// appendString writes s as a JSON string, escaping no more than JSON demands,
// which is what orjson does. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20:
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
