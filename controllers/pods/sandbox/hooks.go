package sandbox

import (
	"context"
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

// hook executes a lifecycle hook. A hook that nothing would answer succeeds.
//
//upstream:pkg/kubelet/lifecycle.handlerRunner.Run
func (r *run) hook(ctx context.Context, h *corev1.LifecycleHandler) error {
	if !r.box.owner.answers(r.pod, r.spec, h) {
		return nil
	}
	switch {
	case h.Exec != nil:
		_, err := r.command(ctx, h.Exec.Command)
		return err
	case h.HTTPGet != nil:
		if _, err := r.get(ctx, h.HTTPGet, "kube-lifecycle/1.37"); err != nil && err != errFailed {
			return err // kubelet does not look at the status code
		}
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// postStart executes the hook postStart. If the hook fails, the container is killed.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.startContainer
func (r *run) postStart() bool {
	err := r.hook(r.ctx, r.spec.Lifecycle.PostStart)
	if err == nil {
		return true
	}
	if r.ctx.Err() == nil {
		r.record(corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		r.record(corev1.EventTypeNormal, "Killing", "FailedPostStartHook")
		r.stop(r.graceOf(nil), nil)
	}
	return false
}

// preStop executes the hook preStop until ctx ends.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.executePreStopHook
func (r *run) preStop(ctx context.Context) {
	if err := r.hook(ctx, r.spec.Lifecycle.PreStop); err != nil && ctx.Err() == nil {
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
	cancel context.CancelFunc
	limit  *time.Timer // cancels the hook at the deadline
}

// PreStop returns the state of the hook preStop of a container that has no process. ok is false if the hook takes no time that a
// process decides: there is none, it sleeps, or nothing answers it.
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &preStop{PreStop{Started: true, Number: number}, cancel, time.AfterFunc(time.Until(deadline), cancel)}
	if box.preStops == nil {
		box.preStops = map[string]*preStop{}
	}
	box.preStops[c.Name] = p
	s.spawn(func() {
		defer cancel()
		box.preStop(ctx, pod, c, p)
	})
}

// preStop executes the hook preStop of a container that has no process.
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
