// Package runtime is the contract between the stand-in for kubelet, which starts and stops containers, and the parts
// that connect to them: the streams of exec, attach, logs and port-forward, the shell, and the handlers of tests.
//
// A container is a goroutine with a [Process]. It touches nothing of the host: its files are in memory ([FS]), its
// streams are Go readers and writers, and its connections are made by [Runtime].Dial. In virtual time, everything in this
// package waits on channels and timers only.
//
//upstream:none It is ours: kubelet's counterpart is a container runtime.
package runtime

import (
	"context"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Runtime has the containers of the pods on the nodes of this control plane. Its methods may be called from several
// goroutines at once. They return errors of k8s.io/apimachinery/pkg/api/errors with the messages of kubelet: NotFound if
// there is no such pod or container, BadRequest if the container has no log yet or does not run.
type Runtime interface {
	// HasLog reports whether something executes a container, or scripts its log. The log of another container is
	// empty.
	HasLog(ctx context.Context, pod PodRef, container string) (bool, error)
	// Logs writes the log of a container to w, as the options say. With Follow, it returns when the container has
	// terminated or ctx ends.
	Logs(ctx context.Context, pod PodRef, container string, o *corev1.PodLogOptions, w io.Writer) error
	// Exec executes a command in a container that runs, and returns its exit code. The command ends with ctx, and with
	// the container.
	Exec(ctx context.Context, pod PodRef, container string, command []string, s Streams) (exitCode int, err error)
	// Attach connects streams to the main process of a container that runs. It returns when the process has terminated
	// or ctx ends. The process goes on when ctx ends.
	Attach(ctx context.Context, pod PodRef, container string, s Streams) error
	// Dial connects to a port of a pod that runs: to a listener of [Handlers], or to a loopback address that whoever
	// started the control plane has mapped the port to. Otherwise the connection is refused.
	Dial(ctx context.Context, pod PodRef, port int32) (net.Conn, error)
}

// PodRef identifies a pod. An empty UID means the pod that has the name now.
type PodRef struct {
	Namespace, Name string
	UID             types.UID
}

// Streams are the standard streams of a process. A nil Stdin is empty, and a nil writer discards.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer // with TTY, Stderr is not used
	TTY            bool
	Resize         <-chan TerminalSize // closed or nil when there are no further sizes
}

// TerminalSize is the size of a terminal, in characters.
type TerminalSize struct{ Width, Height uint16 }

// Handler executes a process and returns its exit code, from 0 to 255.
//
// ctx ends when the process gets SIGTERM, or loses the client of its exec. A process that does not end within the grace
// period of its pod is killed: p.Killed is closed, its streams fail, and the exit code that it returns is ignored. A
// handler must return then, since a goroutine cannot be killed. A handler that panics has the exit code 2, and the
// panic is in its log.
type Handler func(ctx context.Context, p *Process) (exitCode int)

// Process is a running container, or a command that is executed in one.
type Process struct {
	// Pod is the pod as it was when the container started. It is shared, and must not be changed.
	Pod *corev1.Pod
	// Container is the specification of the container. It is shared, and must not be changed.
	Container *corev1.Container
	// Args is the command with its arguments. It is empty if the container has none and its image decides.
	Args []string
	// Env is the environment, as NAME=value.
	Env []string
	// Dir is the working directory, an absolute path.
	Dir string
	// FS is the file system of the container.
	FS FS
	Streams
	// Exec reports whether the process is not the main process of its container: a command of exec, of a probe or of a
	// lifecycle hook.
	Exec bool
	// Killed is closed when the process is killed.
	Killed <-chan struct{}
	// Next executes what would execute the process without the handler: the handler that was registered before, or the
	// shell.
	Next Handler
	// Status is what SetReady and SetTermination change. It is nil if Exec is set.
	Status Status
}

// Status changes the status of the container of a process. Its methods may be called from several goroutines at once, and have no
// effect after the end of the process.
type Status interface {
	SetReady(ready bool)
	SetTermination(reason, message string)
}

// SetReady makes the container ready or unready. A container is ready from its start, so a handler that takes time to become ready calls
// SetReady(false) first; only a readiness probe excludes that a client sees the container ready before. With a readiness probe that is
// executed, the container is ready if both say so. SetReady has no effect in a command. It may be called from several goroutines at once.
func (p *Process) SetReady(ready bool) {
	if p.Status != nil {
		p.Status.SetReady(ready)
	}
}

// SetTermination sets the reason and the message that the status of the container has after the handler has returned, for example
// OOMKilled with the exit code 137. An empty reason is Completed or Error, and an empty message is the termination message of the
// container: its file at the TerminationMessagePath, or the end of its log. SetTermination has no effect in a command, and none if the process
// is killed. It may be called from several goroutines at once, and the last call counts.
func (p *Process) SetTermination(reason, message string) {
	if p.Status != nil {
		p.Status.SetTermination(reason, message)
	}
}
