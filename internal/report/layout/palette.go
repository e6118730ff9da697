package layout

import "aicr/internal/spec"

// Palette colours text, or leaves it as it is. The zero value does the latter.
type Palette struct{ On bool }

// The colours.
func (p Palette) Red(s string) string    { return p.paint("1;31", s) }
func (p Palette) Green(s string) string  { return p.paint("1;32", s) }
func (p Palette) Yellow(s string) string { return p.paint("1;33", s) }
func (p Palette) Cyan(s string) string   { return p.paint("36", s) }
func (p Palette) Bold(s string) string   { return p.paint("1", s) }
func (p Palette) Dim(s string) string    { return p.paint("2", s) }

func (p Palette) paint(code, s string) string {
	if !p.On || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// State is how a state is shown: what is not known is not green.
func (p Palette) State(s spec.State) func(string) string {
	switch s {
	case spec.Pass:
		return p.Green
	case spec.Fail:
		return p.Red
	case spec.Inconclusive, spec.Invalid, spec.Skip, spec.NotJudged, spec.NotRun:
	}
	return p.Yellow
}
