// Package hostprocess runs programs of this machine as if they ran in a container: each has files and directories at
// paths of its own, in a mount namespace.
//
// A program with mounts is started by a helper, a second copy of this executable. The helper is the child in the new
// namespaces: it mounts, and then becomes the program. So an executable that starts such programs must call [Main] first.
//
// The program of a plan runs in a network namespace ([Program].Reach). The helper listens in the namespace at the
// address of the API server, and passes the socket on to this process, which accepts the connections.
package hostprocess

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"flyball.dev/cmd/flyball/internal/process"
)

// Program is a program to start.
type Program struct {
	// Path is the file of the program, and Args the arguments with the name of the program, as in [exec.Cmd].
	Path string
	Args []string
	Env  []string
	// Dir is the working directory; by default, the one of this process.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Mounts are visible to the program and its child processes alone.
	Mounts []Mount
	// Hidden are directories that are empty for the program, if they exist.
	Hidden []string
	// Reach, if not empty, is the only address that the program and its child processes reach: a port of 127.0.0.1. They have a
	// network namespace of their own, in which the port leads to the port of this machine.
	Reach string
	// Group starts the program in a process group of its own: a signal to the program reaches the group, and the group
	// is killed when the program has ended. Otherwise the program is in the group of this process, as a terminal needs
	// it.
	Group bool

	listener net.Listener // at Reach in the network namespace
}

// Mount makes a file or a directory visible at another path.
type Mount struct {
	// Source is an absolute path. Changes of its content are visible at the target.
	Source string
	// Target is an absolute path. If it does not exist, the next directory above it that exists is replaced by a copy
	// in memory with the entries of the directory. So nothing is created on this machine.
	Target string
}

// NamespaceError is the error of a program with mounts or Reach, if this system does not permit a namespace, or a mount in
// it. The program was not started.
type NamespaceError struct{ Err error }

// Error implements error.
func (e *NamespaceError) Error() string { return "cannot mount in a namespace: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NamespaceError) Unwrap() error { return e.Err }

// outputDelay is how long the processes that a program has left behind may keep its output open.
const outputDelay = time.Second

// Process is a running program. Its methods may be called from several goroutines at once.
type Process struct {
	cmd   *exec.Cmd
	group bool
	done  chan struct{} // closed when it has ended
}

// Start starts a program. The error is a *[NamespaceError] if mounts are not possible, and otherwise of package os or
// syscall. On Linux, the program is killed when this process ends, however that happens.
func Start(p *Program) (*Process, error) {
	cmd, started, err := p.command()
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Env = p.Dir, p.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	cmd.WaitDelay = outputDelay
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if p.Group {
		setGroup(cmd.SysProcAttr)
	}
	process.KillWithParent(cmd.SysProcAttr)
	running := &Process{cmd: cmd, group: p.Group, done: make(chan struct{})}
	result := make(chan error)
	go func() {
		// For the kernel, the parent of a process is a thread, which must not end before the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := started(cmd.Start())
		result <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state of the process says what matters
		if p.Group {
			_ = process.Kill(cmd.Process) // what it has left behind
		}
		close(running.done)
	}()
	if err := <-result; err != nil {
		return nil, err
	}
	if p.listener != nil {
		go running.forward(p.listener, p.Reach)
	}
	return running, nil
}

// forward passes connections on to an address of this machine, until the program has ended.
func (p *Process) forward(l net.Listener, address string) {
	var connections sync.WaitGroup
	defer connections.Wait()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-p.done:
			l.Close()
		case <-ended:
		}
	}()
	for {
		in, err := l.Accept()
		if err != nil {
			l.Close()
			return
		}
		connections.Go(func() { p.connect(in, address) })
	}
}

// connect passes on a connection.
func (p *Process) connect(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return // the program sees the connection close
	}
	defer out.Close()
	both := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // both connections end with either
			both <- struct{}{}
		}()
	}
	select {
	case <-both:
	case <-p.done:
	}
}

// Done returns a channel that is closed when the program has ended, and its output is written.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the ID of the process, and of its group if it has one.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// ExitCode returns the exit code of a program that has ended. After a signal, it is 128 and the number of the signal, as
// in shells.
func (p *Process) ExitCode() int {
	<-p.done
	state := p.cmd.ProcessState
	if code := exitSignal(state); code > 0 {
		return code
	}
	return state.ExitCode()
}

// Signal sends a signal to the program, or to its group. It does nothing if the program has ended.
func (p *Process) Signal(s os.Signal) {
	if p.group {
		signalGroup(p.cmd.Process, s)
		return
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
}

// Kill ends the program, or its group, at once.
func (p *Process) Kill() { p.Signal(os.Kill) }

// Find returns the file of a program, by the rules of shells. The exit code is the one of shells for an error: 127 if
// there is no such program, 126 if it cannot be executed.
func Find(name string) (path string, exitCode int, err error) {
	path, err = exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	switch {
	case err == nil:
		return path, 0, nil
	case errors.Is(err, os.ErrPermission):
		exitCode = 126
	default:
		exitCode = 127
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return "", exitCode, fmt.Errorf("cannot run %s: %w", name, err)
}
