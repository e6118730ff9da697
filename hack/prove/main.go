// Command prove runs the parts of `make prove` and says how each ended.
//
//	prove part NAME COMMAND...   run COMMAND as the part NAME
//	prove all NAME...            run `make NAME` for each part, then print the table
//	prove table                  print the table of the last runs
//
// A part's output may be that of `go test -json`, in whole or in part: it is
// printed for people, its tests are counted, and every reading that a busy
// machine spoilt (package test/busy) is listed. What a part came to is kept below
// .cache/prove, the whole of its output too.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const home = ".cache/prove"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: prove part NAME COMMAND... | prove all NAME... | prove table")

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) >= 3 && args[0] == "part":
		return runPart(ctx, args[1], args[2:])
	case len(args) >= 2 && args[0] == "all":
		return runAll(ctx, args[1:])
	case len(args) == 1 && args[0] == "table":
		rows, err := readRows(home)
		if err == nil {
			err = writeTable(os.Stdout, rows)
		}
		return err
	}
	return errUsage
}

// runAll runs each part, whatever becomes of the others, so that one look shows
// everything that is broken.
func runAll(ctx context.Context, parts []string) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	for _, name := range parts {
		fmt.Printf("\n=== %s\n", name)
		cmd := exec.CommandContext(ctx, "make", "--no-print-directory", name)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if err := cmd.Run(); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			fmt.Printf("%s: %v\n", name, err)
		}
	}
	rows, err := readRows(home)
	if err != nil {
		return err
	}
	rows = inOrder(rows, parts)
	fmt.Println()
	if err := writeTable(os.Stdout, rows); err != nil {
		return err
	}
	for _, r := range rows {
		if !r.passed() {
			return errors.New("not everything is proved")
		}
	}
	return nil
}
