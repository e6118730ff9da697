package cli

import "aicr/internal/report/layout"

const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

func (a *app) stdoutPalette() layout.Palette { return layout.Palette{On: a.colored(a.env.StdoutTerm)} }
func (a *app) stderrPalette() layout.Palette { return layout.Palette{On: a.colored(a.env.StderrTerm)} }

// colored decides for one stream: a wish that names this program first, then
// the wishes that every program honours, then whether somebody looks at it.
func (a *app) colored(t Terminal) bool {
	wish := a.color
	if !a.settings.resolved { // a flag could not be parsed, or help was asked for
		if v, ok := a.env.LookupEnv(envName("color")); ok && wish == colorAuto {
			wish = v
		}
	}
	switch wish {
	case colorAlways:
		return true
	case colorNever:
		return false
	}
	_, refused := a.env.LookupEnv("NO_COLOR")
	return !refused && !a.dumb() && t.IsTerminal
}

func (a *app) dumb() bool {
	v, _ := a.env.LookupEnv("TERM")
	return v == "dumb"
}
