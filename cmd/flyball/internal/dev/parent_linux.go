package dev

import "syscall"

// killWithParent makes the kernel kill a program when the thread that started it ends, so that the operator does not
// outlive this process if it is killed.
func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
