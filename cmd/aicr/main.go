// Command aicr says whether a GPU inference deployment on Kubernetes is
// healthy, and if not, why. Everything it does is in package internal/cli;
// here is only what a process owns: its signals and its exit.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // the certificates to trust where the system has none: the image is this binary alone

	"aicr/internal/cli"
)

// Set by the linker (see the Makefile); empty in a plain go build or go install.
var version, commit string

func main() {
	os.Exit(cli.Run(context.Background(), cli.System(cli.Build{Version: version, Commit: commit}, listen())))
}

// listen gives the signals that ask the program to end.
func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 2) // the second must not be lost while the first is handled
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it is: then it stays so
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader that has gone must not kill: what was begun, on a cluster too, is still to be
	// ended in good order. It is the write that tells of it, since this signal comes for
	// every connection to a server as well that was cut.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}
