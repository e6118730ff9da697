package layout

import (
	"math"
	"strconv"
	"time"
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

// Number writes a number for people: groups of thousands, and no more digits than it
// needs. What would be a row of zeros is written with an exponent.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == 0: // there is one below 0, too
		return "0"
	case v < 0:
		return "-" + Number(-v)
	case math.IsInf(v, 1):
		return "∞"
	case v >= 1e15 || v > 0 && v < 0.00005:
		return strconv.FormatFloat(v, 'e', 1, 64)
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
	case d == math.MinInt64: // it has no opposite
		return Short(d + 1)
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

// Loaded writes a number of seconds as a time.
func Loaded(s float64) string {
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return "an unknown time"
	case math.Abs(s) >= 1e9: // more than a Duration is sure to hold
		return Number(s) + "s"
	}
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// Millis is a time that may not have been measured, in milliseconds.
func Millis(v *float64) string {
	switch {
	case v == nil || math.IsNaN(*v):
		return "–"
	case math.IsInf(*v, 0):
		return Number(*v)
	case math.Abs(*v) >= 9e12: // more than a Duration holds
		return Number(*v) + "ms"
	}
	return Short(time.Duration(*v * 1e6))
}
