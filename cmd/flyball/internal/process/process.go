// Package process runs programs with the programs that they start in turn.
package process

import (
	"context"
	"os/exec"
	"time"
)

// interruptDelay is how long a program that was interrupted may take to end.
const interruptDelay = 5 * time.Second

// Command returns a command in a process group of its own, which is interrupted when ctx ends, and
// killed if it has not ended 5 seconds later.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = NewGroup()
	cmd.Cancel = func() error { return Interrupt(cmd.Process) }
	cmd.WaitDelay = interruptDelay
	return cmd
}
