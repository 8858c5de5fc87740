//go:build !unix

package process

import (
	"os"
	"syscall"
)

// This platform has no process groups and signals. A process can only be killed.

// NewGroup does nothing.
func NewGroup() *syscall.SysProcAttr { return nil }

// Interrupt kills a process.
func Interrupt(p *os.Process) error { return p.Kill() }

// Terminate kills a process.
func Terminate(p *os.Process) error { return p.Kill() }

// Kill kills a process.
func Kill(p *os.Process) error { return p.Kill() }
