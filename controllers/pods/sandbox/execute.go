package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/memfs"
	"flyball.dev/controllers/pods/runtime"
)

// idle is the main process of a container that nothing executes: it runs until SIGTERM.
func idle(ctx context.Context, p *runtime.Process) int {
	<-ctx.Done()
	return exitTerminated
}

// Executor is the executor of the main process of a container.
type Executor uint8

const (
	// Nothing means that the container has no process.
	Nothing Executor = iota
	// ByShell means that the shell executes it, or that something answers its probes or its hook postStart.
	ByShell
	// ByHandler means that a handler executes it.
	ByHandler
)

// Executes returns the executor of the main process of a container.
func (s *Sandboxes) Executes(pod *corev1.Pod, c *corev1.Container) Executor {
	image := s.image(pod, c)
	args := image.argsOf(c)
	if !s.o.Handlers.Empty() && s.o.Handlers.Find(&runtime.Process{Pod: pod, Container: c, Args: args}, nil) != nil {
		return ByHandler
	}
	if s.knowsMain(pod, c, &image, args) || s.isTerminal(c, args) {
		return ByShell
	}
	if !s.o.Handlers.Empty() || len(image.Files) > 0 {
		for _, probe := range [...]*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe != nil && s.probes(pod, c, probe, noProgram) {
				return ByShell
			}
		}
	}
	// A container of a Job that has no process succeeds at once. A process for its hook would never end.
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && !podstate.OfJob(pod) && s.starts(pod, c, &image, c.Lifecycle.PostStart) {
		return ByShell
	}
	return Nothing
}

// isTerminal reports whether a container has no command and an open standard input. Its image has a shell.
func (s *Sandboxes) isTerminal(c *corev1.Container, args []string) bool {
	return c.Stdin && len(args) == 0 && s.knows(c, &Image{}, []string{"sh"}, false)
}

// knowsMain reports whether the shell knows the command of a container. Where a container succeeds at once if nothing executes
// it, a command that asks a server is not known: most servers of a cluster are not executed, and would refuse it.
func (s *Sandboxes) knowsMain(pod *corev1.Pod, c *corev1.Container, image *Image, args []string) bool {
	isInit := !podstate.IsSidecar(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
	return s.knows(c, image, args, !isInit && !podstate.OfJob(pod))
}

// knows reports whether the shell knows a command in a container of an image. asks says whether that is so for a command that
// asks a server.
func (s *Sandboxes) knows(c *corev1.Container, image *Image, args []string, asks bool) bool {
	return s.o.Shell != nil && len(args) > 0 && s.o.Shell.Knows(args,
		func(name string) bool { return image.has(c, name) }, func(name string) bool { return image.lacks(c, name) }, asks)
}

// mainHandler returns the handler of a main process.
func (s *Sandboxes) mainHandler(p *runtime.Process) runtime.Handler {
	otherwise := runtime.Handler(idle)
	if image := s.image(p.Pod, p.Container); s.knowsMain(p.Pod, p.Container, &image, p.Args) {
		otherwise = s.o.Shell.Run
	}
	if h := s.o.Handlers.Find(p, otherwise); h != nil {
		return h
	}
	return otherwise
}

// execHandler returns the handler of a command.
func (s *Sandboxes) execHandler(p *runtime.Process) runtime.Handler {
	otherwise := notFound
	if s.o.Shell != nil {
		otherwise = s.o.Shell.Run
	}
	if h := s.o.Handlers.Find(p, otherwise); h != nil {
		return h
	}
	return otherwise
}

// notFound is the handler of commands that nothing executes.
func notFound(_ context.Context, p *runtime.Process) int {
	const exitNotFound = 127
	if p.Stderr != nil {
		_, _ = io.WriteString(p.Stderr, p.Args[0]+": not found\n")
	}
	return exitNotFound
}

// execute executes a command in a container. The command ends with ctx, and is killed when the run of the container has ended, or its
// pod is gone.
func (b *sandbox) execute(ctx context.Context, m *made, ended <-chan struct{}, command []string, streams runtime.Streams) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	killed := make(chan struct{})
	gates := &gate{}
	p := &runtime.Process{
		Pod: m.pod, Container: m.spec, Args: command, Env: m.env, Dir: m.dir(), FS: m.fs, Exec: true, Killed: killed,
		Streams: gates.streams(streams),
	}
	result := make(chan int, 1)
	h := b.owner.execHandler(p)
	b.owner.spawn(func() { result <- (&run{made: m}).call(ctx, h, p) })
	var err error
	select {
	case code := <-result:
		return code, nil
	case <-ended:
	case <-b.gone:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel()
	gates.close()
	close(killed)
	return exitKilled, err
}

// gate closes streams: reads and writes fail afterwards.
type gate struct {
	mu     sync.RWMutex
	closed bool
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) isClosed() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed
}

// streams returns streams through the gate.
func (g *gate) streams(s runtime.Streams) runtime.Streams {
	if s.Stdin != nil {
		s.Stdin = &gatedReader{g, s.Stdin}
	}
	discard := func(w io.Writer) io.Writer {
		if w == nil {
			return io.Discard
		}
		return &gatedWriter{g, w}
	}
	s.Stdout, s.Stderr = discard(s.Stdout), discard(s.Stderr)
	return s
}

// gatedReader reads through a gate.
type gatedReader struct {
	g *gate
	r io.Reader
}

func (r *gatedReader) Read(p []byte) (int, error) {
	if r.g.isClosed() {
		return 0, io.ErrClosedPipe
	}
	return r.r.Read(p)
}

// gatedWriter writes through a gate.
type gatedWriter struct {
	g *gate
	w io.Writer
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	if w.g.isClosed() {
		return 0, io.ErrClosedPipe
	}
	return w.w.Write(p)
}

// mkdirAll creates a directory and the directories above it.
func mkdirAll(f runtime.FS, name string) error {
	at := ""
	for e := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		at += "/" + e
		if err := f.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// readFile returns the content of a file, limit bytes at most.
func readFile(f *memfs.FS, name string, limit int64) ([]byte, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}
