package oldclient

import (
	"os/exec"
	"syscall"
)

// endWithThisThread makes the kernel kill a program when the thread that starts it ends.
func endWithThisThread(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
