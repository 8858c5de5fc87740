//go:build unix

package process

import (
	"os"
	"syscall"
)

// NewGroup makes a program the leader of a new process group. Ctrl-C in the terminal does not reach the group, and a
// signal to the group reaches all its processes.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Interrupt interrupts a process group.
func Interrupt(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGINT) }

// Terminate asks a process group to end.
func Terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Kill ends a process group at once.
func Kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
