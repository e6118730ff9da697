package layout

import (
	"fmt"
	"strings"
	"unicode"

	"aicr/internal/spec"
)

// Plural counts things.
func Plural(n int, one string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, one))
}

// Noun is a word for so many.
func Noun(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// Listed names all.
func Listed(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return strings.Join(all, "")
}

// longestName is how much of a name Some shows.
const longestName = 100

// Some names the first few, and says how many more there are.
func Some(all []string, most int) string {
	few := all[:min(most, len(all))]
	names := make([]string, len(few))
	for i, name := range few {
		names[i] = Clip(name, longestName)
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(few); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Quoted is a value as a shell takes it for one word.
func Quoted(value string) string {
	if value == "" || strings.ContainsAny(value, "'\"$&;|<>()*?[]#~`\\{}!^") || strings.ContainsFunc(value, unicode.IsSpace) ||
		strings.ContainsFunc(value, unicode.IsControl) {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

// Point tells what load was asked for.
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
		text += fmt.Sprintf("; %s a second of them on a fixed schedule", Number(p.SentinelRate))
	}
	return text
}

// Prompts tells whether prompts come again.
func Prompts(p string) string {
	if p == spec.Prompts(0).String() {
		return p
	}
	return p + ", recycled"
}
