//go:build !unix

package hostprocess

import (
	"os"
	"syscall"
)

// This platform has no process groups and signals.

func setGroup(*syscall.SysProcAttr) {}

func signalGroup(p *os.Process, _ os.Signal) { _ = p.Kill() }

func exitSignal(*os.ProcessState) int { return 0 }
