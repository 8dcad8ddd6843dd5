package stack

import (
	"os/exec"
	"syscall"
)

// dieWithParent gives the program a process group of its own, so that a terminal's Ctrl-C
// reaches only the stack, and ends the program when the stack itself is killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
