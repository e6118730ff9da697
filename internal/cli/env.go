package cli

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/term"
)

// Env is the world that a command runs in. Nothing in this package reads the
// process's own arguments, variables, streams or clock but through an Env, so
// that a test can be the process.
type Env struct {
	Args      []string // without the program's name
	Stdin     io.Reader
	Stdout    io.Writer // the product alone
	Stderr    io.Writer // everything else
	LookupEnv func(string) (string, bool)
	Environ   func() []string // every variable, as NAME=value; may be nil
	Now       func() time.Time

	StdoutTerm, StderrTerm Terminal

	// Signals brings the user's wishes to stop: the first cancels the command's
	// context, the second ends Run at once. Nil when there are none.
	Signals <-chan os.Signal

	Network Network

	Build Build

	// self runs this program beside itself, with other arguments, until it ends or ctx
	// does. Nil runs it as another process; tests in virtual time have no processes.
	self func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Terminal says what a stream is connected to. The zero value is a stream that
// nobody watches: a file or a pipe.
type Terminal struct {
	IsTerminal bool
	Size       func() (width, height int) // asked anew each time, since windows are resized; may be nil
}

// size gives the terminal's size, or 80 by 24 where it is not known.
func (t Terminal) size() (width, height int) {
	if t.Size != nil {
		if w, h := t.Size(); w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// Build says which program this is.
type Build struct {
	Version string // of the release, or "" when nobody said
	Commit  string
}

// System is the Env of this process.
func System(build Build, signals <-chan os.Signal) Env {
	return Env{
		Args:       os.Args[1:],
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		LookupEnv:  os.LookupEnv,
		Environ:    os.Environ,
		Now:        time.Now,
		StdoutTerm: terminalOf(os.Stdout),
		StderrTerm: terminalOf(os.Stderr),
		Signals:    signals,
		Build:      build.completed(debug.ReadBuildInfo()),
	}
}

func terminalOf(f *os.File) Terminal {
	fd := int(f.Fd())
	return Terminal{
		IsTerminal: term.IsTerminal(fd),
		Size: func() (int, int) {
			w, h, err := term.GetSize(fd)
			if err != nil {
				return 0, 0
			}
			return w, h
		},
	}
}

// completed fills what the linker was not told from what the go command noted.
func (b Build) completed(info *debug.BuildInfo, ok bool) Build {
	if ok && b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if ok && b.Commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	return b
}
