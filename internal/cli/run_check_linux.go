package cli

import (
	"os/exec"
	"syscall"
)

// endsWithUs has a process killed when this one is: nobody would keep it any more. What all
// processes of a container are sent it does not hear itself: told twice to end, by that and
// by this one, it would end at once, and without a verdict.
func endsWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
