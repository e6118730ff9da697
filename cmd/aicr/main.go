// Command aicr says whether a GPU inference deployment on Kubernetes is
// healthy, and if not, why. Everything it does is in package internal/cli;
// here is only what a process owns: its signals and its exit.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"aicr/internal/cli"
)

// Set by the linker (see the Makefile); empty in a plain go build or go install.
var version, commit string

func main() {
	signals := make(chan os.Signal, 2) // the second must not be lost while the first is handled
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it is: then it stays so
		signal.Notify(signals, syscall.SIGHUP)
	}
	os.Exit(cli.Run(context.Background(), cli.System(cli.Build{Version: version, Commit: commit}, signals)))
}
