package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// notRun is the exit code of a part that lacks what it needs on this machine.
const notRun = 77

// runPart runs one part and keeps what came of it.
func runPart(ctx context.Context, name string, command []string) error {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(home, name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = io.MultiWriter(os.Stderr, log)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r := &row{Part: name, Began: time.Now()}
	if err := cmd.Start(); err != nil {
		return err
	}
	f := newFilter(os.Stdout)
	lines := bufio.NewReader(io.TeeReader(out, log))
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			f.line(line)
		}
		if err != nil {
			break // Wait says why it ended
		}
	}
	err = cmd.Wait()
	r.take(f, err)
	if err := r.write(home); err != nil {
		return err
	}
	if !r.passed() {
		return fmt.Errorf("%s: %s; its whole output is in %s", name, r.Result, log.Name())
	}
	return nil
}

// take takes in how the command ended and what its tests were. A command that
// fails closed on nothing: no test is no proof.
func (r *row) take(f *filter, err error) {
	r.Seconds = time.Since(r.Began).Seconds()
	r.Tests, r.Skipped, r.Busy = f.passed+f.failed, f.skipped, f.busy
	failed, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case exited && failed.ExitCode() == notRun:
		r.Result = resultNotRun
	case err != nil || f.failed > 0:
		r.Result = resultFail
	case f.json && f.passed == 0:
		r.Result = resultFail
	default:
		r.Result = resultPass
	}
}
