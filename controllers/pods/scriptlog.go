package pods

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
)

// scriptedLog returns the log of a run of a container with a script, which is a function of the time. ok is false if
// nothing scripts the log.
func (o *Options) scriptedLog(pod *corev1.Pod, container string, previous bool) (log sandbox.LogFunc, ok bool) {
	spec := podstate.Container(&pod.Spec, container)
	if spec == nil {
		return nil, false
	}
	s, _ := o.scriptOf(pod)
	c := s.container(pod, spec)
	if c == nil || len(c.Runs) == 0 {
		return nil, false
	}
	var status corev1.ContainerStatus
	for spec, found := range statusesOf(pod, &pod.Status) {
		if spec.Name == container {
			status = *found
		}
	}
	last, running, ended := status.LastTerminationState.Terminated, status.State.Running, status.State.Terminated
	switch {
	case !previous && running != nil:
		return scriptLog(c.run(pod, container, sandbox.NumberOf(status.ContainerID)), running.StartedAt.Time, time.Time{}), true
	case !previous && ended != nil:
		last = ended
	case last == nil:
		return nil, false
	}
	return scriptLog(c.run(pod, container, sandbox.NumberOf(last.ContainerID)), last.StartedAt.Time, last.FinishedAt.Time), true
}

// scriptLog returns the log of the steps of a run. end is the end of the run, or zero.
func scriptLog(steps []timedStep, begin, end time.Time) sandbox.LogFunc {
	return func(from int) (lines []sandbox.Line, next int, more <-chan struct{}) {
		now := time.Now()
		for _, s := range steps {
			at := begin.Add(s.at)
			if !end.IsZero() && at.After(end.Add(time.Second)) {
				return lines, next, nil // it ended before
			}
			if at.After(now) {
				changed := make(chan struct{})
				time.AfterFunc(at.Sub(now), func() { close(changed) })
				return lines, next, changed
			}
			if s.Log != "" {
				for line := range strings.Lines(strings.TrimSuffix(s.Log, "\n") + "\n") {
					if next >= from {
						lines = append(lines, sandbox.Line{At: at, Text: line})
					}
					next++
				}
			}
			if s.Exit != nil {
				return lines, next, nil
			}
		}
		if end.IsZero() {
			more = make(chan struct{}) // it runs on
		}
		return lines, next, more
	}
}
