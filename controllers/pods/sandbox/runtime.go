package sandbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
)

// LogFunc returns the lines of a scripted log from a number on, as a logSource.
type LogFunc func(from int) (lines []Line, next int, more <-chan struct{})

func (f LogFunc) read(from int) ([]Line, int, <-chan struct{}) { return f(from) }

// emptyLog is the log of a container that nothing executes. It ends with the container.
type emptyLog struct{ ended <-chan struct{} }

func (l emptyLog) read(int) ([]Line, int, <-chan struct{}) {
	select {
	case <-l.ended:
		return nil, 0, nil
	default:
		return nil, 0, l.ended
	}
}

// containerOf returns the specification and the status of a container.
func containerOf(pod *corev1.Pod, name string) (*corev1.Container, *corev1.ContainerStatus, error) {
	spec := podstate.Container(&pod.Spec, name)
	if spec == nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	s := &pod.Status
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		if i := slices.IndexFunc(list, func(c corev1.ContainerStatus) bool { return c.Name == name }); i >= 0 {
			return spec, &list[i], nil
		}
	}
	return spec, nil, nil
}

// HasLog implements [runtime.Runtime].
func (s *Sandboxes) HasLog(ctx context.Context, ref runtime.PodRef, container string) (bool, error) {
	pod, err := s.o.Pod(ctx, ref)
	if err != nil {
		return false, err
	}
	spec, _, err := containerOf(pod, container)
	if err != nil {
		return false, err
	}
	if s.o.Script != nil {
		if _, ok := s.o.Script(pod, container, false); ok {
			return true, nil
		}
	}
	return s.Runs(pod.UID)[container] != nil || s.Executes(pod, spec) != Nothing, nil
}

// Logs implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetKubeletContainerLogs
func (s *Sandboxes) Logs(ctx context.Context, ref runtime.PodRef, container string, o *corev1.PodLogOptions, w io.Writer) error {
	pod, err := s.o.Pod(ctx, ref)
	if err != nil {
		return err
	}
	_, status, err := containerOf(pod, container)
	if err != nil {
		return err
	}
	number, err := logNumber(pod, container, status, o.Previous)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if s.o.Script != nil {
		if log, ok := s.o.Script(pod, container, o.Previous); ok {
			return copyLog(ctx, log, o, w)
		}
	}
	if box := s.find(pod.UID); box != nil {
		if r := box.run(container, number); r != nil {
			return copyLog(ctx, r.log, o, w)
		}
	}
	ended := make(chan struct{})
	if o.Previous || status.State.Running == nil {
		close(ended)
	} else if box := s.sandboxOf(pod); box != nil {
		return copyLog(ctx, emptyLog{box.gone}, o, w)
	}
	return copyLog(ctx, emptyLog{ended}, o, w)
}

// logNumber returns the number of the run with the log of a container.
//
//upstream:pkg/kubelet.Kubelet.validateContainerLogStatus
func logNumber(pod *corev1.Pod, container string, s *corev1.ContainerStatus, previous bool) (int32, error) {
	switch {
	case s == nil:
		return 0, fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	case previous:
		if last := s.LastTerminationState.Terminated; last != nil && last.ContainerID != "" {
			return NumberOf(last.ContainerID), nil
		}
		return 0, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case s.State.Running != nil:
		return NumberOf(s.ContainerID), nil
	case s.State.Terminated != nil && s.State.Terminated.ContainerID != "":
		return NumberOf(s.State.Terminated.ContainerID), nil
	case s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ContainerID != "":
		return NumberOf(s.LastTerminationState.Terminated.ContainerID), nil
	case s.State.Terminated != nil || s.LastTerminationState.Terminated != nil:
		return 0, fmt.Errorf("container %q in pod %q is terminated", container, pod.Name)
	case s.State.Waiting != nil:
		why := s.State.Waiting.Reason
		switch why {
		case "ErrImagePull":
			why = "image can't be pulled"
		case "ImagePullBackOff":
			why = "trying and failing to pull image"
		}
		return 0, fmt.Errorf("container %q in pod %q is waiting to start: %v", container, pod.Name, why)
	}
	return 0, fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", container, pod.Name)
}

// ID returns the ID of a run of a container.
func ID(pod *corev1.Pod, container string, number int32) string {
	id := "flyball://" + string(pod.UID) + "/" + container
	if number > 0 {
		id += "/" + strconv.Itoa(int(number))
	}
	return id
}

// NumberOf returns the number of a run with an ID.
func NumberOf(id string) int32 {
	parts := strings.Split(strings.TrimPrefix(id, "flyball://"), "/")
	n, err := strconv.ParseInt(parts[len(parts)-1], 10, 32)
	if len(parts) < 3 || err != nil {
		return 0
	}
	return int32(n)
}

// running returns the container of a pod that runs, and its run if something executes it.
func (s *Sandboxes) running(ctx context.Context, ref runtime.PodRef, container string) (*sandbox, *made, *run, error) {
	pod, err := s.o.Pod(ctx, ref)
	if err != nil {
		return nil, nil, nil, err
	}
	spec, status, err := containerOf(pod, container)
	if err != nil {
		return nil, nil, nil, err
	}
	box := s.sandboxOf(pod)
	if box == nil {
		return nil, nil, nil, apierrors.NewServiceUnavailable("the control plane is shutting down")
	}
	r := box.live()[container]
	if r != nil {
		return box, r.made, r, nil
	}
	if status == nil || status.State.Running == nil {
		return nil, nil, nil, apierrors.NewBadRequest(fmt.Sprintf("container not found (%q)", container))
	}
	m, err := box.make(ctx, pod, spec, NumberOf(status.ContainerID))
	return box, m, nil, err
}

// Exec implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetExec
func (s *Sandboxes) Exec(ctx context.Context, ref runtime.PodRef, container string, command []string, streams runtime.Streams) (int, error) {
	if len(command) == 0 {
		return 0, apierrors.NewBadRequest("you must specify at least 1 argument for the command")
	}
	box, m, r, err := s.running(ctx, ref, container)
	if err != nil {
		return 0, err
	}
	return box.execute(ctx, m, r, command, streams)
}

// Attach implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetAttach
func (s *Sandboxes) Attach(ctx context.Context, ref runtime.PodRef, container string, streams runtime.Streams) error {
	box, _, r, err := s.running(ctx, ref, container)
	if err != nil {
		return err
	}
	if r == nil {
		select {
		case <-box.gone:
		case <-ctx.Done():
		}
		return nil
	}
	return r.attach.connect(ctx, streams, r.done)
}

// Dial implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetPortForward
func (s *Sandboxes) Dial(ctx context.Context, ref runtime.PodRef, port int32) (net.Conn, error) {
	pod, err := s.o.Pod(ctx, ref)
	if err != nil {
		return nil, err
	}
	if podstate.Finished(pod) || pod.Status.PodIP == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to forward port because pod is not running. Current status=%s", pod.Status.Phase))
	}
	return s.o.Handlers.Dial(ctx, pod, port)
}
