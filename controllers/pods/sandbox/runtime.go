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

// emptyLog is the log of a container that nothing executes.
type emptyLog struct{}

func (emptyLog) read(int) ([]Line, int, <-chan struct{}) { return nil, 0, make(chan struct{}) }

// errStops is the error of a request that comes when the control plane stops.
var errStops = apierrors.NewServiceUnavailable("the control plane is shutting down")

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
	source := logSource(emptyLog{})
	log, scripted := LogFunc(nil), false
	if s.o.Script != nil {
		log, scripted = s.o.Script(pod, container, o.Previous)
	}
	if scripted {
		source = log
	} else if box := s.find(pod.UID); box != nil {
		if r := box.run(container, number); r != nil {
			return copyLog(ctx, r.log, nil, o, w)
		}
	}
	if o.Previous || status.State.Running == nil || !o.Follow {
		return copyLog(ctx, source, closed, o, w)
	}
	ended, err := s.idleEnd(ctx, pod, container, number)
	if err != nil {
		return err
	}
	return copyLog(ctx, source, ended, o, w)
}

// closed is a channel that is closed.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

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

// running is a container that runs. Its run is nil if nothing executes it.
type running struct {
	box *sandbox
	*made
	*run
	ended <-chan struct{}
}

// running returns the container of a pod that runs. missing is the error if it does not run.
func (s *Sandboxes) running(ctx context.Context, ref runtime.PodRef, container string, missing func(pod *corev1.Pod) string) (*running, error) {
	pod, err := s.o.Pod(ctx, ref)
	if err != nil {
		return nil, err
	}
	spec, status, err := containerOf(pod, container)
	if err != nil {
		return nil, err
	}
	box := s.sandboxOf(pod)
	if box == nil {
		return nil, errStops
	}
	if r := box.live()[container]; r != nil {
		return &running{box, r.made, r, r.done}, nil
	}
	if status == nil || status.State.Running == nil {
		return nil, apierrors.NewBadRequest(missing(pod))
	}
	number := NumberOf(status.ContainerID)
	m, err := box.make(ctx, pod, spec, number)
	if err != nil {
		return nil, err
	}
	ended, err := s.idleEnd(ctx, pod, container, number)
	return &running{box, m, nil, ended}, err
}

// Exec implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetExec
func (s *Sandboxes) Exec(ctx context.Context, ref runtime.PodRef, container string, command []string, streams runtime.Streams) (int, error) {
	if len(command) == 0 {
		return 0, apierrors.NewBadRequest("you must specify at least 1 argument for the command")
	}
	c, err := s.running(ctx, ref, container, func(*corev1.Pod) string { return fmt.Sprintf("container not found (%q)", container) })
	if err != nil {
		return 0, err
	}
	return c.box.execute(ctx, c.made, c.ended, command, streams)
}

// Attach implements [runtime.Runtime].
//
//upstream:pkg/kubelet.Kubelet.GetAttach
func (s *Sandboxes) Attach(ctx context.Context, ref runtime.PodRef, container string, streams runtime.Streams) error {
	c, err := s.running(ctx, ref, container, func(pod *corev1.Pod) string {
		return fmt.Sprintf("container %s not found in pod %s_%s", container, pod.Name, pod.Namespace)
	})
	if err != nil {
		return err
	}
	if c.run == nil {
		select {
		case <-c.ended:
		case <-ctx.Done():
		}
		return nil
	}
	return c.run.attach.connect(ctx, streams, c.ended)
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
