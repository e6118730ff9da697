//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"aicr/internal/sim/truth"
)

// scriptFlags are the flags that make a script, for serve and for run.
func scriptFlags(fs *flag.FlagSet) *truth.Script {
	s := &truth.Script{}
	fs.Uint64Var(&s.Seed, "seed", 100, "seed of the script")
	fs.StringVar(&s.Model, "model", truth.DefaultModel, "model's name")
	fs.DurationVar(&s.TTFT, "ttft", 200*time.Millisecond, "time to first token")
	fs.DurationVar(&s.TTFTSpread, "ttft-spread", 20*time.Millisecond, "plus or minus, uniform")
	fs.DurationVar(&s.ITL, "itl", 20*time.Millisecond, "time between tokens")
	return s
}

// serveCommand runs a truth server until it is told to stop or its standing
// order ends, and then prints what it did.
func serveCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(stderr)
	script := scriptFlags(fs)
	addr := fs.String("addr", "127.0.0.1:0", "loopback address to listen on")
	core := fs.Int("core", -1, "core to pin this process to; -1 leaves it")
	limit := fs.Duration("max-time", time.Hour, "stop after this long")
	report := fs.Bool("truth", false, "print the truth at the end")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *core >= 0 {
		if err := pinSelf(*core); err != nil {
			return fmt.Errorf("pinning to core %d: %w", *core, err)
		}
	}
	// A collection would be lateness; what a bounded run leaves behind fits.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)

	server, err := truth.NewServer(*script)
	if err != nil {
		return err
	}
	if err := server.Start(ctx, *addr); err != nil {
		return err
	}
	fmt.Fprintln(stdout, server.URL())
	select {
	case <-ctx.Done():
	case <-time.After(*limit):
	}
	if err := server.Close(); err != nil {
		return err
	}
	if !*report {
		return nil
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(server.Truth())
}
