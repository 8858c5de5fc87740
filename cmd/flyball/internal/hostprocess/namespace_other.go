//go:build !linux

package hostprocess

import (
	"errors"
	"os/exec"
)

// Main does nothing: there are no helpers on this platform.
func Main() {}

// command returns the command of a program without mounts.
func (p *Program) command() (*exec.Cmd, func(error) error, error) {
	if len(p.Mounts) > 0 || p.Reach != "" {
		return nil, nil, &NamespaceError{errors.New("this system has no namespaces")}
	}
	return &exec.Cmd{Path: p.Path, Args: p.Args}, func(err error) error { return err }, nil
}
