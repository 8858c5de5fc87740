package sandbox

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// hook executes a lifecycle hook. A hook that nothing would answer succeeds.
//
//upstream:pkg/kubelet/lifecycle.handlerRunner.Run
func (r *run) hook(ctx context.Context, h *corev1.LifecycleHandler) error {
	owner := r.box.owner
	switch {
	case h.Exec != nil:
		process := &runtime.Process{Pod: r.pod, Container: r.spec, Args: h.Exec.Command, Exec: true}
		image := owner.image(r.pod, r.spec)
		if !owner.knows(r.spec, &image, h.Exec.Command, false) && owner.o.Handlers.Find(process, nil) == nil {
			return nil
		}
		_, err := r.command(ctx, h.Exec.Command)
		return err
	case h.HTTPGet != nil:
		if !owner.serves(owner.at(h.HTTPGet.Host, r.pod), r.spec, h.HTTPGet.Port) {
			return nil
		}
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

// preStop executes the hook preStop until a deadline, or the end of the container.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.executePreStopHook
func (r *run) preStop(h *corev1.LifecycleHandler, deadline time.Time) {
	ctx, cancel := context.WithDeadline(r.ctx, deadline)
	defer cancel()
	if err := r.hook(ctx, h); err != nil && ctx.Err() == nil {
		r.record(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
}
