//go:build !linux

package stack

import (
	"os/exec"
	"syscall"
)

// dieWithParent gives the program a process group of its own, so that a terminal's Ctrl-C
// reaches only the stack. Elsewhere than on Linux nothing ends it when the stack is killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
