//go:build !unix

package dev

import (
	"os"
	"syscall"
)

func newGroup() *syscall.SysProcAttr { return nil }

// There are no signals here: a process can only be killed.
func interrupt(p *os.Process) error { return p.Kill() }
func terminate(p *os.Process) error { return p.Kill() }
func kill(p *os.Process) error      { return p.Kill() }
