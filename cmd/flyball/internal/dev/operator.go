package dev

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"

	"flyball.dev/cmd/flyball/internal/process"
	"flyball.dev/cmd/flyball/internal/terminal"
)

// operator is a running operator.
type operator struct {
	cmd  *exec.Cmd
	out  *lineWriter
	done chan struct{} // closed when it has ended
	err  error         // written before done is closed
}

// startOperator starts an operator, and folds the stack traces in its log unless stacks is nil.
func startOperator(program string, args, env []string, out *output, stacks *stacks) (*operator, error) {
	lines := &lineWriter{output: out, prefix: fromOperator, colour: terminal.Green, stacks: stacks}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = lines, lines
	cmd.SysProcAttr = process.NewGroup()
	process.KillWithParent(cmd.SysProcAttr)
	// The operator's child processes may keep the output open.
	cmd.WaitDelay = time.Second
	op := &operator{cmd: cmd, out: lines, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent of a process is a thread here, and the thread must not end before the operator.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(op.done)
		op.err = cmd.Wait()
		lines.flush()
		_ = process.Kill(cmd.Process) // child processes that it has left behind
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return op, nil
}

// stop asks the operator to end, kills it if it does not end in time, and reports whether it had to be killed.
func (op *operator) stop(grace time.Duration) (killed bool) {
	_ = process.Terminate(op.cmd.Process) // it may have ended
	select {
	case <-op.done:
		return false
	case <-time.After(grace):
	}
	_ = process.Kill(op.cmd.Process)
	<-op.done
	return true
}

// exitCode returns the exit code of an operator that has ended, or -1 after a signal.
func (op *operator) exitCode() int {
	var exit *exec.ExitError
	if errors.As(op.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
