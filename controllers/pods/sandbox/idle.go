package sandbox

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
)

// idleRun is a run of a container that nothing executes, for the clients that wait for its end.
type idleRun struct {
	number int32
	ended  chan struct{}
}

// idleEnd returns a channel that is closed when a run of a container that nothing executes has ended, or its pod is gone.
func (s *Sandboxes) idleEnd(ctx context.Context, pod *corev1.Pod, container string, number int32) (<-chan struct{}, error) {
	box := s.sandboxOf(pod)
	if box == nil {
		return nil, errStops
	}
	ended := box.idleEnd(container, number)
	// The pod may have changed before the box knew the run.
	now, err := s.o.Pod(ctx, runtime.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	if err != nil {
		return nil, err
	}
	s.Seen(now)
	return ended, nil
}

// idleEnd returns the channel of a run. A later run of the container ends the one before.
//
//upstream:none A container runtime executes every container.
func (b *sandbox) idleEnd(container string, number int32) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.idle[container]
	switch {
	case b.closed:
		return b.gone
	case r != nil && r.number == number:
		return r.ended
	}
	next := &idleRun{number, make(chan struct{})}
	switch {
	case r != nil && r.number > number:
		close(next.ended)
		return next.ended
	case r != nil:
		close(r.ended)
	case b.idle == nil:
		b.idle = map[string]*idleRun{}
	}
	b.idle[container] = next
	return next.ended
}

// Seen tells the clients of containers that nothing executes which runs have ended in the status of a pod. The status may be an old one.
func (s *Sandboxes) Seen(pod *corev1.Pod) {
	box := s.find(pod.UID)
	if box == nil {
		return
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	for container, r := range box.idle {
		if _, status, err := containerOf(pod, container); err == nil && status != nil && r.hasEnded(status) {
			close(r.ended)
			delete(box.idle, container)
		}
	}
}

// hasEnded reports whether a status shows the end of the run.
func (r *idleRun) hasEnded(s *corev1.ContainerStatus) bool {
	last := s.LastTerminationState.Terminated
	return s.RestartCount > r.number || s.RestartCount == r.number && (s.State.Terminated != nil ||
		s.State.Waiting != nil && last != nil && last.ContainerID != "" && NumberOf(last.ContainerID) == r.number)
}
