//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// How long a lock is waited for. Who has it reads a file and writes a line.
const (
	lockTries = 500
	lockPause = 20 * time.Millisecond
)

// lock keeps a file from others who lock it too: alone to write, or together to
// read. It ends when the file is closed, or the program dies.
func lock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for range lockTries {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		time.Sleep(lockPause)
	}
	return fmt.Errorf("%s is locked by another program for %s", f.Name(), lockTries*lockPause)
}
