//go:build !linux

package process

import "syscall"

// KillWithParent does nothing: there is no such signal here.
func KillWithParent(*syscall.SysProcAttr) {}
