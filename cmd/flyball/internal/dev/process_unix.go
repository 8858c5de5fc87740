//go:build unix

package dev

import (
	"os"
	"syscall"
)

// newGroup makes a program the first of a new process group, so that Ctrl-C in the terminal does not
// reach it, and it can be signalled with the programs that it starts.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// interrupt interrupts a process group.
func interrupt(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGINT) }

// terminate asks a process group to end.
func terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends a process group at once.
func kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
