package cli

import (
	"os/exec"
	"syscall"
)

// dieTogether ends a program when this one is killed: nothing of ours is left on
// somebody's machine.
func dieTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
