//go:build !linux

package oldclient

import "os/exec"

// endWithThisThread does nothing: there is no such signal here.
func endWithThisThread(*exec.Cmd) {}
