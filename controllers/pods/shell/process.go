package shell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// signal is a number of a signal.
type signal int

const (
	sigHUP  signal = 1
	sigINT  signal = 2
	sigKILL signal = 9
	sigPIPE signal = 13
	sigTERM signal = 15
)

// signals are the names of the signals of Linux.
var signals = map[string]signal{
	"HUP": sigHUP, "INT": sigINT, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": sigKILL, "USR1": 10, "SEGV": 11,
	"USR2": 12, "PIPE": sigPIPE, "ALRM": 14, "TERM": sigTERM, "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22,
	"URG": 23, "WINCH": 28,
}

// ignoredSignals do nothing without a trap. Processes do not stop, so the signals that stop and continue are among them.
var ignoredSignals = []signal{17, 18, 19, 20, 21, 22, 23, 28}

// signalOf returns the signal with a name or number.
func signalOf(name string) (signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return signal(n), n >= 0 && n <= 64
	}
	s, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	return s, ok
}

// name returns the name of a signal.
func (s signal) name() string {
	for name, n := range signals {
		if n == s {
			return name
		}
	}
	return strconv.Itoa(int(s))
}

// killed is the cause for which the context of a process ends.
type killed signal

func (k killed) Error() string { return "killed by SIG" + signal(k).name() }

// unwind is the panic that ends a process.
type unwind struct{ code int }

// limitError is the error of a process that exceeds a limit.
type limitError struct{ what string }

func (e *limitError) Error() string { return e.what }

// machine has the processes of a container.
type machine struct {
	shell *Shell
	users int // of the machine; guarded by the lock of the shell

	mu        sync.Mutex
	processes map[int]*process
	lastID    int
	started   time.Time
}

func newMachine(s *Shell) *machine {
	return &machine{shell: s, processes: map[int]*process{}, started: time.Now()}
}

// process is a process: the root of a Run, a stage of a pipeline, or a command in the background. Subshells in the foreground
// and programs belong to the process of their shell.
type process struct {
	machine *machine
	id      int
	parent  int
	root    *process
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	code    int // when done is closed

	mu      sync.Mutex
	args    []string
	trapped map[signal]bool // the signals with a trap; false: ignored
	pending []signal
	woken   chan struct{} // has an element when a signal is pending

	// of the root
	spec     *runtime.Process
	identity identity
	steps    atomic.Int64
	children sync.WaitGroup
}

// identity is the user that a container runs as.
type identity struct {
	user, group int64
	groups      []int64
}

func identityOf(p *runtime.Process) (id identity) {
	if p.Pod == nil || p.Container == nil {
		return id
	}
	if c := p.Pod.Spec.SecurityContext; c != nil {
		if c.RunAsUser != nil {
			id.user = *c.RunAsUser
		}
		if c.RunAsGroup != nil {
			id.group = *c.RunAsGroup
		}
		if c.FSGroup != nil {
			id.groups = append(id.groups, *c.FSGroup)
		}
		id.groups = append(id.groups, c.SupplementalGroups...)
	}
	if c := p.Container.SecurityContext; c != nil {
		if c.RunAsUser != nil {
			id.user = *c.RunAsUser
		}
		if c.RunAsGroup != nil {
			id.group = *c.RunAsGroup
		}
	}
	return id
}

// hostname returns the host name of a process.
func hostname(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return "localhost"
	case pod.Spec.HostnameOverride != nil:
		return *pod.Spec.HostnameOverride
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name[:min(len(pod.Name), 63)]
}

// add adds a process. The first main process has the number 1.
func (m *machine) add(p *process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.processes) >= m.shell.limits.Processes {
		return &limitError{fmt.Sprintf("fork: the container has %d processes, and no more are allowed", len(m.processes))}
	}
	p.machine, p.done, p.woken = m, make(chan struct{}), make(chan struct{}, 1)
	if p.root != nil || p.spec.Exec || m.processes[1] != nil {
		m.lastID = max(m.lastID+1, 2)
		p.id = m.lastID
	} else {
		p.id, m.lastID = 1, max(m.lastID, 1)
	}
	if p.root == nil {
		p.root = p
	}
	m.processes[p.id] = p
	return nil
}

// start adds the root process of a Run.
func (m *machine) start(ctx context.Context, spec *runtime.Process) (*process, error) {
	p := &process{spec: spec, identity: identityOf(spec), args: spec.Args}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p, m.add(p)
}

// fork adds a child and calls run in its goroutine. The child ends with the context, and with its root at the latest.
func (p *process) fork(ctx context.Context, args []string, run func(child *process) int) (*process, error) {
	child := &process{root: p.root, parent: p.id, args: args}
	child.ctx, child.cancel = context.WithCancelCause(ctx)
	if err := p.machine.add(child); err != nil {
		child.cancel(nil)
		return nil, err
	}
	p.root.children.Add(1)
	go func() {
		defer p.root.children.Done()
		child.finish(run(child))
	}()
	return child, nil
}

// finish removes a process that has ended.
func (p *process) finish(code int) {
	p.machine.mu.Lock()
	delete(p.machine.processes, p.id)
	p.machine.mu.Unlock()
	p.code = code
	close(p.done)
	p.cancel(nil)
}

// execute executes the command of the root process, ends its children and returns the exit code.
func (p *process) execute(spec *runtime.Process) int {
	files, closeAll := p.standardFiles(spec)
	code := newInterpreter(p, spec, files).main(spec.Args)
	p.cancel(killed(sigKILL)) // ends the children
	p.children.Wait()
	closeAll()
	p.finish(code)
	return code
}

// check ends the process if it was killed.
func (p *process) check() {
	if p.ctx.Err() != nil {
		panic(unwind{exitOf(context.Cause(p.ctx))})
	}
}

// exitOf returns the exit code of a process by the cause of its end.
func exitOf(cause error) int {
	if k, ok := errors.AsType[killed](cause); ok {
		return 128 + int(k)
	}
	return 128 + int(sigKILL)
}

// step counts work, and ends the process if it was killed or does too much.
func (p *process) step(n int) {
	p.check()
	if total := p.root.steps.Add(int64(n)); total > int64(p.machine.shell.limits.Steps) {
		panic(&limitError{fmt.Sprintf("more than %d steps without waiting", p.machine.shell.limits.Steps)})
	}
}

// waited resets the count of steps.
func (p *process) waited() { p.root.steps.Store(0) }

// sleep waits for a time.
func (p *process) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		p.waited()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signal sends a signal to the process.
func (p *process) signal(s signal) {
	p.mu.Lock()
	runs, trapped := p.trapped[s]
	switch {
	case s == 0 || !trapped && slices.Contains(ignoredSignals, s) || trapped && !runs && s != sigKILL:
	case trapped && s != sigKILL:
		if !slices.Contains(p.pending, s) {
			p.pending = append(p.pending, s)
		}
		select {
		case p.woken <- struct{}{}:
		default:
		}
	default:
		p.mu.Unlock()
		p.cancel(killed(s))
		return
	}
	p.mu.Unlock()
}

// trap sets what the process does with a signal: nothing, or to wait until the shell takes it.
func (p *process) trap(s signal, set, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trapped == nil {
		p.trapped = map[signal]bool{}
	}
	if set {
		p.trapped[s] = runs
	} else {
		delete(p.trapped, s)
	}
}

// take returns a pending signal that has one of the traps.
func (p *process) take(traps map[string]string) (s signal, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.pending {
		if _, ok := traps[s.name()]; ok {
			p.pending = slices.Delete(p.pending, i, i+1)
			return s, true
		}
	}
	return 0, false
}

// keepTraps returns a function that restores what the process does with signals.
func (p *process) keepTraps() (restore func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := maps.Clone(p.trapped)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.trapped = before
	}
}

// setArgs sets the arguments that ps shows.
func (p *process) setArgs(args []string) (before []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.args = p.args, args
	return before
}

// find returns the process with a number, or nil.
func (m *machine) find(id int) *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.processes[id]
}

// list returns the processes, by their numbers.
func (m *machine) list() (all []*process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.processes {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *process) int { return a.id - b.id })
	return all
}
