//go:build unix

package hostprocess

import (
	"os"
	"syscall"
)

func setGroup(a *syscall.SysProcAttr) { a.Setpgid = true }

// signalGroup sends a signal to the group that a process leads.
func signalGroup(p *os.Process, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.Pid, n) // it may have ended
	}
}

// exitSignal returns 128 and the number of the signal that has ended a process, or 0.
func exitSignal(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 0
}
