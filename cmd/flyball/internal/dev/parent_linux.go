package dev

import "syscall"

// killWithParent makes the kernel kill a program when the thread that starts it has ended: an operator
// is not left behind if this process is killed.
func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
