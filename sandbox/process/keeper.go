package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Keeper keeps one process running.
type Keeper struct {
	Folder  string // with NAME.pid while it runs, and perhaps restart-after
	Name    string
	Command func() *exec.Cmd // a new one for each start
	Ready   <-chan struct{}  // closed once it has been of use
	Log     func(format string, values ...any)
}

const (
	// RestartFile, in the folder, says for how many seconds a process that has died
	// stays away: a test of an outage writes it there.
	RestartFile = "restart-after"

	usualPause = 500 * time.Millisecond
	attempts   = 3 // of a process that never was of use
	endWithin  = 15 * time.Second
)

// Run starts the process, again and again, until ctx ends. It gives up when the first
// few have ended before they were of any use.
func (k *Keeper) Run(ctx context.Context) error {
	// The system ends a process with the thread that has started it (Pdeathsig), so
	// this one is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for attempt := 1; ; attempt++ {
		err := k.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-k.Ready:
		default:
			if attempt == attempts {
				return fmt.Errorf("the %s does not start: %w", k.Name, err)
			}
		}
		pause := restartAfter(k.Folder)
		k.Log("the %s has ended (%v); it is started again in %v", k.Name, err, pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// once runs the process to its end.
func (k *Keeper) once(ctx context.Context) error {
	cmd := k.Command()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return err
	}
	file := filepath.Join(k.Folder, k.Name+".pid")
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	defer func() { _ = os.Remove(file) }()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(endWithin):
			_ = cmd.Process.Kill()
		}
	}()
	if err := cmd.Wait(); err != nil {
		return err
	}
	return errors.New("it ended without an error")
}

// restartAfter is how long a process stays away. What is no number of seconds, or more
// than an hour, is not heeded.
func restartAfter(folder string) time.Duration {
	text, err := os.ReadFile(filepath.Join(folder, RestartFile))
	if err != nil {
		return usualPause
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > 3600 {
		return usualPause
	}
	return time.Duration(seconds * float64(time.Second))
}
