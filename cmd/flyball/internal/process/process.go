// Package process runs programs together with their child processes.
package process

import (
	"context"
	"os/exec"
	"time"
)

// interruptDelay is how long a program that was interrupted may take to end.
const interruptDelay = 5 * time.Second

// Command returns a command in a new process group. When ctx ends, the group is interrupted, and killed 5 seconds later
// if it is still running.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = NewGroup()
	cmd.Cancel = func() error { return Interrupt(cmd.Process) }
	cmd.WaitDelay = interruptDelay
	return cmd
}
