package cli

const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// palette colours text, or leaves it as it is.
type palette struct{ on bool }

func (p palette) red(s string) string    { return p.paint("1;31", s) }
func (p palette) green(s string) string  { return p.paint("1;32", s) }
func (p palette) yellow(s string) string { return p.paint("1;33", s) }
func (p palette) cyan(s string) string   { return p.paint("36", s) }
func (p palette) bold(s string) string   { return p.paint("1", s) }
func (p palette) dim(s string) string    { return p.paint("2", s) }

func (p palette) paint(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *app) stdoutPalette() palette { return palette{a.colored(a.env.StdoutTerm)} }
func (a *app) stderrPalette() palette { return palette{a.colored(a.env.StderrTerm)} }

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
