package cli

import (
	"os/exec"
	"syscall"
)

// endsWithUs has a process killed when this one is: nobody would keep it any more.
func endsWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
