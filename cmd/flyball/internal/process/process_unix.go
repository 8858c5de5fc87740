//go:build unix

package process

import (
	"os"
	"syscall"
)

// NewGroup makes a program the first of a new process group, so that Ctrl-C in the terminal does not
// reach it, and it can be signalled with the programs that it starts.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Interrupt interrupts a process group.
func Interrupt(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGINT) }

// Terminate asks a process group to end.
func Terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Kill ends a process group at once.
func Kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
