//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// pinSelf moves every thread of this process to one core. The runtime has
// started some already; those to come inherit it.
func pinSelf(core int) error {
	var set unix.CPUSet
	set.Set(core)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	runtime.GOMAXPROCS(1)
	return nil
}

// place says where and how a child runs.
type place struct {
	core int  // -1 is anywhere
	nice int  // niceness
	fifo bool // before everything of ordinary priority, where that is allowed
}

// start starts a command in its place from its first instruction on, as
// taskset, nice and chrt do: a child begins with the affinity and priority of
// the thread that forked it, and its GOMAXPROCS follows.
func (p place) start(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		// The thread is spoilt for others; locked for good, it ends with this.
		runtime.LockOSThread()
		done <- p.fork(cmd)
	}()
	return <-done
}

func (p place) fork(cmd *exec.Cmd) error {
	if p.core >= 0 {
		var set unix.CPUSet
		set.Set(p.core)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("pinning to core %d: %w", p.core, err)
		}
	}
	if p.nice != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.nice); err != nil {
			return fmt.Errorf("niceness %d: %w", p.nice, err)
		}
	}
	if p.fifo {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		// Only root may. Without it there are more readings to discard.
		_ = unix.SchedSetAttr(0, &attr, 0)
	}
	return cmd.Start()
}
