// Command faithful holds the simulator against what it is meant to be faithful
// to: the published runs, and the reference model that was calibrated on them.
//
// It prints two tables. The first has the rows that verdict.md ends with, as they
// were published, as the reference model gives them, and as this simulator does.
// The second plays the simulator on the reference's own draws, seed by seed, and
// compares means and distributions. reference.py records what the reference says;
// cases.go has the same cases as scenarios.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	seeds := flag.Int("seeds", 100, "play so many of the recorded seeds of each case")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, seeds int) error {
	if err := published(ctx, w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	all, err := compareAll(ctx, seeds)
	if err != nil {
		return err
	}
	writeComparison(w, all)
	return nil
}
