// Package cli is the command line: commands, flags, streams, progress, colour
// and exit codes. It and main are the only users of package os; every other
// room is given readers, writers, times and contexts.
//
// Read Run first (run.go): it builds the command tree over an Env and turns
// what a command returns into an exit code. A command is one constructor in
// the list in commands.go. Its flags are defined with section (flags.go), get
// their values from flag, environment, file or default (settings.go), and show
// up in help.go's output and in docs/reference without further work. What goes
// wrong is returned as a Problem (problem.go); what a person watches meanwhile
// is drawn by a status (status.go).
package cli
