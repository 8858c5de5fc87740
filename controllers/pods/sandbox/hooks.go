package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// answers reports whether something answers a lifecycle hook of a container. A hook that sleeps needs nothing.
func (s *Sandboxes) answers(pod *corev1.Pod, c *corev1.Container, h *corev1.LifecycleHandler) bool {
	switch {
	case h.Exec != nil:
		process := &runtime.Process{Pod: pod, Container: c, Args: h.Exec.Command, Exec: true}
		image := s.image(pod, c)
		return s.knows(c, &image, h.Exec.Command, false) || s.o.Handlers.Find(process, nil) != nil
	case h.HTTPGet != nil:
		return s.serves(s.at(h.HTTPGet.Host, pod), c, h.HTTPGet.Port)
	}
	return h.Sleep != nil
}

// starts reports whether a container that nothing executes has a process because of its hook postStart. A command that the shell knows is
// not enough: it may wait for a program that is not executed.
func (s *Sandboxes) starts(pod *corev1.Pod, c *corev1.Container, image *Image, h *corev1.LifecycleHandler) bool {
	if h.Exec == nil {
		return s.answers(pod, c, h)
	}
	return s.o.Handlers.Find(&runtime.Process{Pod: pod, Container: c, Args: h.Exec.Command, Exec: true}, nil) != nil ||
		len(h.Exec.Command) > 0 && image.has(c, h.Exec.Command[0])
}

// hook executes a lifecycle hook. A hook that nothing would answer succeeds. message is the error in the words of a status.
//
//upstream:pkg/kubelet/lifecycle.handlerRunner.Run
func (r *run) hook(ctx context.Context, h *corev1.LifecycleHandler) (message string, err error) {
	if !r.box.owner.answers(r.pod, r.spec, h) {
		return "", nil
	}
	var what, output string
	switch {
	case h.Exec != nil:
		what = fmt.Sprintf("Exec lifecycle hook (%v)", h.Exec.Command)
		output, err = r.hookCommand(ctx, h.Exec.Command)
		output = fmt.Sprintf(", message: %q", output)
	case h.HTTPGet != nil:
		what = fmt.Sprintf("HTTP lifecycle hook (%s)", h.HTTPGet.Path)
		if _, err = r.get(ctx, h.HTTPGet, "kube-lifecycle/1.37"); err == errFailed {
			err = nil // kubelet does not look at the status code
		}
	case h.Sleep != nil:
		what = fmt.Sprintf("Sleep lifecycle hook (%d)", h.Sleep.Seconds)
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			err = errors.New("container terminated before sleep hook finished")
		}
	}
	if err == nil {
		return "", nil
	}
	return fmt.Sprintf("%s for Container %q in Pod \"%s_%s(%s)\" failed - error: %v%s", what, r.spec.Name, r.pod.Name, r.pod.Namespace, r.pod.UID, err, output), err
}

// hookCommand executes the command of a hook. The error has the exit code and the standard error, as the client of a container runtime
// returns it.
//
//upstream:k8s.io/cri-client/pkg.remoteRuntimeService.ExecSync
func (r *run) hookCommand(ctx context.Context, args []string) (output string, err error) {
	stdout, stderr := &limitedBuffer{limit: maxOutput}, &limitedBuffer{limit: maxOutput}
	code, err := r.box.execute(ctx, r.made, r.done, args, runtime.Streams{Stdout: stdout, Stderr: stderr})
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout.String() + stderr.String(), err
}

// postStart executes the hook postStart. If the hook fails, the container is killed.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.startContainer
func (r *run) postStart() bool {
	message, err := r.hook(r.ctx, r.spec.Lifecycle.PostStart)
	if err == nil {
		return true
	}
	if r.ctx.Err() == nil {
		r.box.mu.Lock()
		r.hookFailure = message
		r.box.mu.Unlock()
		r.record(corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		r.record(corev1.EventTypeNormal, "Killing", "FailedPostStartHook")
		r.stop(r.graceOf(nil), nil)
	}
	return false
}

// preStopUntil executes the hook preStop, and returns at the deadline at the latest. The hook goes on until the container has ended.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.executePreStopHook
func (r *run) preStopUntil(deadline time.Time) {
	returned := make(chan struct{})
	r.box.owner.spawn(func() {
		defer close(returned)
		ctx, cancel := r.untilEnd(math.MaxInt64)
		defer cancel()
		r.preStop(ctx)
	})
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
	}
}

// errEnded is the cause of a context that ends because its container does.
var errEnded = errors.New("the container has ended")

// preStop executes the hook preStop until ctx ends. A command that its container does not outlive has failed.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.executePreStopHook
func (r *run) preStop(ctx context.Context) {
	hook := r.spec.Lifecycle.PreStop
	_, err := r.hook(ctx, hook)
	if err != nil && (ctx.Err() == nil || hook.Exec != nil && context.Cause(ctx) == errEnded) {
		r.record(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
}

// PreStop is the state of the hook preStop of a container that has no process.
type PreStop struct {
	// Started reports whether the hook was started, for the run with the number.
	Started bool
	Number  int32
	// End is when the hook has ended, or zero.
	End time.Time
}

// preStop is a hook that was started.
type preStop struct {
	PreStop
	cancel context.CancelCauseFunc
	limit  *time.Timer // cancels the hook at the deadline, when the container ends
}

// PreStop returns the state of the hook preStop of a container that has no process. ok is false if the hook takes no time that a
// process decides: there is none, it sleeps, or nothing answers it.
//
//upstream:none A container runtime executes every container.
func (s *Sandboxes) PreStop(pod *corev1.Pod, c *corev1.Container) (state PreStop, ok bool) {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep != nil || !s.answers(pod, c, c.Lifecycle.PreStop) {
		return PreStop{}, false
	}
	box := s.find(pod.UID)
	if box == nil {
		return PreStop{}, true
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	if p := box.preStops[c.Name]; p != nil {
		state = p.PreStop
	}
	return state, true
}

// StartPreStop starts the hook preStop of a run of a container that has no process. The hook ends at the deadline at the latest, and a
// later call can move the deadline.
//
//upstream:none A container runtime executes every container.
func (s *Sandboxes) StartPreStop(ctx context.Context, pod *corev1.Pod, c *corev1.Container, number int32, deadline time.Time) {
	box := s.sandboxOf(pod)
	if box == nil {
		return
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	if p := box.preStops[c.Name]; p != nil && p.Number == number {
		if p.End.IsZero() {
			p.limit.Reset(time.Until(deadline))
		}
		return
	}
	if box.closed {
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &preStop{PreStop{Started: true, Number: number}, cancel, time.AfterFunc(time.Until(deadline), func() { cancel(errEnded) })}
	if box.preStops == nil {
		box.preStops = map[string]*preStop{}
	}
	box.preStops[c.Name] = p
	s.spawn(func() {
		defer cancel(nil)
		box.preStop(ctx, pod, c, p)
	})
}

// preStop executes the hook preStop of a container that has no process.
//
//upstream:none A container runtime executes every container.
func (b *sandbox) preStop(ctx context.Context, pod *corev1.Pod, c *corev1.Container, p *preStop) {
	m, err := b.make(ctx, pod, c, p.Number)
	if err != nil {
		m = &made{pod: pod, spec: c}
	}
	r := &run{box: b, made: m}
	if err == nil {
		r.preStop(ctx)
	} else if ctx.Err() == nil {
		r.record(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	b.mu.Lock()
	p.limit.Stop()
	p.End = time.Now()
	b.mu.Unlock()
	b.changed()
}
