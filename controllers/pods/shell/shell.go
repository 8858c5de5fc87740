// Package shell executes the commands of containers: the scripts of a shell, and the programs that scripts and tests use.
// Nothing of the host is touched. Programs are Go functions, files are in the file system of the container
// ([runtime.FS]), and the environment, the working directory, the processes and their numbers are the container's own. The
// package imports nothing that opens a file, starts a process or connects, except net/http for the format of its messages.
//
// Scripts are parsed by mvdan.cc/sh/v3/syntax, and words are expanded by mvdan.cc/sh/v3/expand. The interpreter of that
// module is not used: it pipes by files of the operating system, which a bubble of testing/synctest cannot wait for, makes
// named pipes for process substitution, and looks commands up on the host. Here, everything waits on channels and
// timers.
//
// The language is the shell of POSIX with most extensions of Bash: arrays, [[, ((, process substitution, here-strings, brace
// expansion. Aliases, coprocesses, job control and history are missing. The programs have the usual options of busybox. A
// command that does not exist has the exit code 127; an option that a program does not know is an error.
//
// Concurrency: a [Shell] may be used by several goroutines at once. A process and the goroutines of its pipelines end
// before [Shell.Run] returns, except for one that reads the standard input, which ends with its next byte or
// error.
//
// nc, wget and curl are the only programs with a network: nc listens by runtime.Handlers, and the others connect to
// pods. TestShellReachesNoHost checks the imports.
//
//upstream:none It is a shell of our own.
package shell

import (
	"context"
	"io"
	"sync"

	"flyball.dev/controllers/pods/runtime"
)

// Options are the options of a shell.
type Options struct {
	// Limits bound each process. Zero fields have defaults.
	Limits Limits
	// Find returns the handler of a command, or nil. Its handlers go before the programs of this package.
	Find func(p *runtime.Process) runtime.Handler
	// Listen returns a listener for a port of the pod of a process. If it is nil, no port can be listened on.
	Listen func(p *runtime.Process, port int32) (Listener, error)
	// Dial connects a process to a port of a host in the network of the pods. Its errors wrap [ErrUnknownHost] or
	// [syscall.ECONNREFUSED] if that is the cause. If it is nil, there is no such network.
	Dial func(ctx context.Context, p *runtime.Process, host string, port int32) (io.ReadWriteCloser, error)
}

// Limits bound the processes of a container. A process that exceeds one fails with a message.
type Limits struct {
	// Steps is the number of commands, expansions, lines and KiB of output between two waits for time or for input. By
	// default, it is 5 million.
	Steps int
	// Memory is the size in bytes of the variables, functions and arguments of a shell, and of the output of a command
	// substitution. By default, it is 4 MiB.
	Memory int
	// Script is the size of a script in bytes, 256 KiB by default.
	Script int
	// Depth is the number of functions, subshells and scripts in each other, 200 by default.
	Depth int
	// Processes is the number of processes of a container at once, 100 by default.
	Processes int
}

// orDefaults returns the limits with defaults.
func (l Limits) orDefaults() Limits {
	set := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	set(&l.Steps, 5_000_000)
	set(&l.Memory, 4<<20)
	set(&l.Script, 256<<10)
	set(&l.Depth, 200)
	set(&l.Processes, 100)
	return l
}

// Shell executes processes.
type Shell struct {
	limits Limits
	find   func(p *runtime.Process) runtime.Handler
	listen func(p *runtime.Process, port int32) (Listener, error)
	dial   func(ctx context.Context, p *runtime.Process, host string, port int32) (io.ReadWriteCloser, error)

	mu       sync.Mutex
	machines map[runtime.FS]*machine // of the containers with processes
}

// New returns a shell.
func New(o Options) *Shell {
	return &Shell{limits: o.Limits.orDefaults(), find: o.Find, listen: o.Listen, dial: o.Dial, machines: map[runtime.FS]*machine{}}
}

var _ runtime.Handler = (*Shell)(nil).Run

// Run executes a process and returns its exit code. It is a [runtime.Handler]. A command without a path is searched
// among the programs of this package. Without arguments, Run executes the standard input as a script, or waits for the
// end of the context if there is no standard input.
//
// When the context ends, the process gets SIGTERM, or SIGHUP if it is executed in the container. Without a trap it
// ends with the exit code 143 or 129. It ends at once, with 137, when p.Killed is closed.
func (s *Shell) Run(ctx context.Context, p *runtime.Process) (exitCode int) {
	m := s.enter(p)
	defer s.leave(m, p.FS)
	root, err := m.start(context.WithoutCancel(ctx), p)
	if err != nil {
		if p.Stderr != nil {
			p.Stderr.Write([]byte("sh: " + err.Error() + "\n"))
		}
		return 2
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		stop := ctx.Done()
		for {
			select {
			case <-stop:
				stop = nil
				if p.Exec {
					root.signal(sigHUP)
				} else {
					root.signal(sigTERM)
				}
			case <-p.Killed:
				root.signal(sigKILL)
				return
			case <-ended:
				return
			}
		}
	})
	code := root.execute(p)
	close(ended)
	wg.Wait()
	return code
}

// enter returns the machine of a container.
func (s *Shell) enter(p *runtime.Process) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[p.FS]
	if m == nil {
		m = newMachine(s)
		s.machines[p.FS] = m
	}
	m.users++
	return m
}

// leave forgets the machine of a container without processes.
func (s *Shell) leave(m *machine, fs runtime.FS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.users--; m.users == 0 {
		delete(s.machines, fs)
	}
}
