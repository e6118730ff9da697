// Command prove runs the parts of `make prove` and says how each ended.
//
//	prove part NAME COMMAND...   run COMMAND as the part NAME
//	prove all NAME[+NAME]...     run `make NAME` for each part, then print the table;
//	                             what stands behind a plus runs beside the part before
//	                             it, with the CPU time that the other leaves idle
//	prove table                  print the table of the last runs
//
// A part's output may be that of `go test -json`, in whole or in part: it is
// printed for people, its tests are counted, and every reading that a busy
// machine spoilt (package test/busy) is listed. What a part came to is kept below
// .cache/prove, the whole of its output too.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
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

var errUsage = errors.New("usage: prove part NAME COMMAND... | prove all NAME[+NAME]... | prove table")

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
func runAll(ctx context.Context, groups []string) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	var parts []string
	for _, group := range groups {
		names := strings.Split(group, "+")
		parts = append(parts, names...)
		if err := runGroup(ctx, names); err != nil {
			return err
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

// runGroup runs the first part as it is, and the others one after the other beside it at
// the lowest priority. What these print comes after it. The error is that of ctx alone.
func runGroup(ctx context.Context, names []string) error {
	var beside bytes.Buffer
	var done sync.WaitGroup
	done.Go(func() {
		for _, name := range names[1:] {
			runTarget(ctx, &beside, name, "nice", "-n", "19")
		}
	})
	runTarget(ctx, os.Stdout, names[0])
	done.Wait()
	_, _ = beside.WriteTo(os.Stdout)
	return context.Cause(ctx)
}

// runTarget runs make for one part. What became of the part is in the row that it leaves.
func runTarget(ctx context.Context, out io.Writer, name string, prefix ...string) {
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintf(out, "\n=== %s\n", name)
	command := append(prefix, "make", "--no-print-directory", name)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(out, "%s: %v\n", name, err)
	}
}
