//go:build !linux

package dev

import "syscall"

// killWithParent does nothing: there is no such signal here.
func killWithParent(*syscall.SysProcAttr) {}
