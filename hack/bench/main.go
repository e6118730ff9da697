//go:build linux

// Command bench is the cost bench behind `make bench`: what a client of LLM
// endpoints costs, in CPU-seconds beside a program that only drains the
// sockets, and how far its TTFT is from the truth of the server it measured.
//
// Read run.go first: the harness, which pins a known-truth server
// (internal/sim/truth) to one core and each client in turn to another, and
// makes the table. The other subcommands are its parts, usable alone: serve,
// drain (one epoll thread: the floor) and drain-conn (a goroutine a
// connection). Everything stays on the loopback interface, and every run is
// bounded in count and in time.
//
//	go run ./hack/bench run --quick                 # two minutes
//	go run ./hack/bench run --aicr ./bin/aicr --md bench.md
//	go run ./hack/bench serve --core 0 --addr 127.0.0.1:8000
//	go run ./hack/bench drain --url http://127.0.0.1:8000 --concurrency 64 --request-count 512
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const usage = `usage: bench run|serve|drain|drain-conn [flags]   (-h shows the flags)
`

func bench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return flag.ErrHelp
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"run": runCommand, "serve": serveCommand, "drain": drainCommand, "drain-conn": drainConnCommand,
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(stderr, usage)
		return flag.ErrHelp
	}
	return command(ctx, args[1:], stdout, stderr)
}
