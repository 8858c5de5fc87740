package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// The exit codes of processes that a signal ends.
const (
	exitKilled     = 137
	exitTerminated = 143
	exitPanic      = 2
)

// MinGrace is the time that a container has after SIGTERM in any case.
//
//upstream:pkg/kubelet/kuberuntime.minimumGracePeriodInSeconds
const MinGrace = 2 * time.Second

// errTerminated is the cause of a context that ends by SIGTERM.
var errTerminated = errors.New("terminated")

// run is a run of a container.
type run struct {
	box *sandbox
	*made
	log    *logBuffer
	attach attachments

	ctx       context.Context
	terminate context.CancelCauseFunc
	probing   []*probing
	killed    chan struct{}
	done      chan struct{} // the run has ended
	ready     chan struct{} // receives when the startup probe has succeeded

	// The lock of the sandbox protects these.
	state    Run
	probed   bool // the result of the readiness probe
	unready  bool // the process has said so
	reason   string
	why      string // the message that the process has set
	stopped  bool
	restarts bool      // its end is a restart, whatever the exit code is
	deadline time.Time // the earliest time at which a stop kills the process
	killings sync.Once
}

// newRun returns a run that is not started.
func newRun(b *sandbox, m *made, number int32) *run {
	r := &run{
		box: b, made: m, log: newLogBuffer(&b.owner.logBytes),
		killed: make(chan struct{}), done: make(chan struct{}), ready: make(chan struct{}, 1),
		probed: true, state: Run{Number: number, StartedAt: time.Now(), Started: true, Ready: true},
	}
	r.ctx, r.terminate = context.WithCancelCause(context.Background())
	r.attach.init(m.spec)
	if l := m.spec.Lifecycle; l != nil && l.PostStart != nil {
		r.state.Starting = true
	}
	r.probing = r.probes()
	return r
}

// set changes the state, and tells the owner of the change.
func (r *run) set(change func(s *Run)) {
	r.box.mu.Lock()
	before := r.state
	if r.state.End == nil {
		change(&r.state)
	}
	changed := before != r.state
	r.box.mu.Unlock()
	if changed {
		r.box.changed()
	}
}

// setReady changes the result of the readiness probe or what the process says of its readiness.
func (r *run) setReady(change func()) {
	r.set(func(s *Run) {
		change()
		s.Ready = r.probed && !r.unready
	})
}

// SetReady implements [runtime.Status].
func (r *run) SetReady(ready bool) { r.setReady(func() { r.unready = !ready }) }

// SetTermination implements [runtime.Status].
func (r *run) SetTermination(reason, message string) {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	r.reason, r.why = reason, message
}

// start starts the process, the hook postStart and the probes.
func (r *run) start() {
	owner := r.box.owner
	p := r.process()
	h := owner.mainHandler(p)
	result := make(chan int, 1)
	owner.spawn(func() { result <- r.call(r.ctx, h, p) })
	owner.spawn(func() {
		select {
		case code := <-result:
			r.end(code, true)
		case <-r.killed:
			r.end(exitKilled, false)
		}
	})
	if l := r.spec.Lifecycle; l == nil || l.PostStart == nil {
		r.probe()
		return
	}
	owner.spawn(func() {
		if r.postStart() {
			r.set(func(s *Run) { s.Starting = false })
			r.probe()
		}
	})
}

// process returns the main process.
func (r *run) process() *runtime.Process {
	return &runtime.Process{
		Pod: r.pod, Container: r.spec, Args: r.args, Env: r.env, Dir: r.dir(), FS: r.fs, Killed: r.killed, Status: r,
		Streams: runtime.Streams{
			Stdin: r.attach.stdin(), Stdout: &output{r, false}, Stderr: &output{r, true}, TTY: r.spec.TTY, Resize: r.attach.resize,
		},
	}
}

// call calls a handler. A panic is an exit code.
func (r *run) call(ctx context.Context, h runtime.Handler, p *runtime.Process) (code int) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Fprintf(p.Stderr, "panic: %v\n\n%s", why, debug.Stack())
			code = exitPanic
		}
	}()
	return h(ctx, p)
}

// output is the standard output or the standard error of the main process.
type output struct {
	run    *run
	stderr bool
}

func (o *output) Write(p []byte) (int, error) {
	select {
	case <-o.run.done:
		return 0, io.ErrClosedPipe
	default:
	}
	o.run.log.write(o.stderr && !o.run.spec.TTY, p)
	o.run.attach.write(o.stderr && !o.run.spec.TTY, p)
	return len(p), nil
}

// end ends the run. returned reports whether the handler of the process has returned.
func (r *run) end(code int, returned bool) {
	r.terminate(context.Canceled)
	r.log.close()
	end := &End{At: time.Now(), ExitCode: int32(code & 0xff), Message: r.message(code)}
	r.box.mu.Lock()
	if returned {
		end.Reason, end.Message = r.reason, cmp.Or(r.why, end.Message)
	}
	end.Restarts = r.restarts
	r.state.End = end
	r.state.Starting, r.state.Started, r.state.Ready = false, false, false
	r.box.mu.Unlock()
	close(r.done)
	r.attach.close()
	r.box.changed()
}

// message returns the termination message.
//
//upstream:pkg/kubelet/kuberuntime.getTerminationMessage
func (r *run) message(code int) string {
	data, _ := readFile(r.fs, r.spec.TerminationMessagePath, 1<<20)
	if len(data) == 0 && code != 0 && r.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		return r.log.tail()
	}
	return string(data[max(0, len(data)-messageSize):])
}

// stop stops the run: it executes the hook preStop, waits for other runs, and sends SIGTERM. At the end of the grace period
// it kills the process. Later calls can only shorten the grace period.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.killContainer
func (r *run) stop(grace time.Duration, after []<-chan struct{}) {
	deadline := time.Now().Add(max(grace, MinGrace))
	r.box.mu.Lock()
	again := r.stopped
	ignored := r.state.End != nil || again && !deadline.Before(r.deadline)
	if !ignored {
		r.stopped, r.deadline = true, deadline
	}
	r.box.mu.Unlock()
	if ignored {
		return
	}
	if again {
		r.box.owner.spawn(func() { r.killAfter(max(grace, MinGrace)) })
		return
	}
	r.box.owner.spawn(func() {
		deadline := time.Now().Add(grace)
		if l := r.spec.Lifecycle; l != nil && l.PreStop != nil && grace > 0 {
			ctx, cancel := context.WithDeadline(r.ctx, deadline)
			r.preStop(ctx)
			cancel()
		}
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		for _, other := range after {
			select {
			case <-other:
				continue
			case <-r.done:
			case <-timer.C:
			}
			break
		}
		r.terminate(errTerminated)
		r.killAfter(max(time.Until(deadline), MinGrace))
	})
}

// killAfter kills the process after a time, unless it ends before.
func (r *run) killAfter(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		r.kill()
	}
}

// kill kills the process.
func (r *run) kill() {
	r.killings.Do(func() {
		r.terminate(errTerminated)
		close(r.killed)
		r.attach.close()
	})
}

// untilEnd returns a context that ends after a time, or with the run. SIGTERM does not end it, since a container that stops is probed
// too.
func (r *run) untilEnd(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	r.box.owner.spawn(func() {
		select {
		case <-r.done:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// hasEnded reports whether the run has ended.
func (r *run) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// graceOf returns the grace period of a container that is restarted by a probe.
//
//upstream:pkg/kubelet/kuberuntime.setTerminationGracePeriod
func (r *run) graceOf(p *corev1.Probe) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		seconds = *p.TerminationGracePeriodSeconds
	} else if r.pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *r.pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// record records an event about the container.
func (r *run) record(typ, reason, format string, args ...any) {
	r.box.owner.o.Record(r.pod, r.spec, typ, reason, fmt.Sprintf(format, args...))
}
