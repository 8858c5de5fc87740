package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
)

// point is the state of a run of a container at some time.
type point struct {
	absent         bool      // a process has to be started for it
	startedAt      time.Time // when its process started, or zero
	starting       bool      // its hook postStart has not returned
	started, ready bool
	end            *runEnd
	next           time.Duration // until the next change by time, or zero
}

// runEnd is the end of a run.
type runEnd struct {
	exitCode        int32
	reason, message string    // the reason is Completed or Error by default
	at              time.Time // zero is now
	restarts        bool      // whatever the exit code is
}

// role is the role of a container in its pod.
type role uint8

const (
	mainRole role = iota
	initRole
	sidecarRole
	ephemeralRole
)

// roleOf returns the role of a container of a pod.
func roleOf(pod *corev1.Pod, c *corev1.Container) role {
	switch {
	case isMain(pod, c.Name):
		return mainRole
	case !isInit(pod, c.Name):
		return ephemeralRole
	case podstate.IsSidecar(c):
		return sidecarRole
	default:
		return initRole
	}
}

// courses are the courses of the containers of a pod. They are functions of the pod, of its processes and of the time.
type courses struct {
	pod      *corev1.Pod
	script   *Script
	executed map[string]executor
	runs     map[string][]sandbox.Run
	started  map[string]moment // the exact starts, which the status has in seconds
}

// executor is the executor of a container.
type executor uint8

const (
	nothing  executor = iota
	commands          // the shell, or a handler that probes the container
	handlers          // a handler of Go executes it
)

// moment is a time in a run.
type moment struct {
	number int32
	at     time.Time
}

// at returns the state of a run of a container that was started at some time.
func (c *courses) at(spec *corev1.Container, as role, number int32, startedAt, now time.Time) point {
	if r := c.runOf(spec.Name, number); r != nil {
		return pointOf(r)
	}
	if exact, ok := c.started[spec.Name]; ok && exact.number == number && exact.at.Truncate(time.Second).Equal(startedAt.Truncate(time.Second)) {
		startedAt = exact.at
	}
	script := c.script.container(c.pod, spec)
	by := c.executed[spec.Name]
	switch {
	case by == handlers:
		return point{absent: true}
	case script != nil && len(script.Runs) > 0:
		return scriptedPoint(script.run(c.pod, spec.Name, number), startedAt, now)
	case as == mainRole && hasOutcome(c.pod):
		return outcomeOf(c.pod).point(startedAt, now)
	case by == commands:
		return point{absent: true}
	case as == mainRole:
		return outcomeOf(c.pod).point(startedAt, now)
	case as == initRole:
		return point{end: &runEnd{}}
	default:
		return point{started: true, ready: true}
	}
}

// runOf returns the run of a process, or nil.
func (c *courses) runOf(container string, number int32) *sandbox.Run {
	runs := c.runs[container]
	if i := slices.IndexFunc(runs, func(r sandbox.Run) bool { return r.Number == number }); i >= 0 {
		return &runs[i]
	}
	return nil
}

// live reports whether a process of a container runs, or any process of the pod for the name "".
func (c *courses) live(container string) bool {
	for name, runs := range c.runs {
		if (container == "" || container == name) && slices.ContainsFunc(runs, func(r sandbox.Run) bool { return r.End == nil }) {
			return true
		}
	}
	return false
}

// pointOf returns the state of a run of a process.
func pointOf(r *sandbox.Run) point {
	p := point{startedAt: r.StartedAt, starting: r.Starting, started: r.Started, ready: r.Started && r.Ready}
	if r.End != nil {
		p.end = &runEnd{exitCode: r.End.ExitCode, reason: r.End.Reason, message: r.End.Message, at: r.End.At, restarts: r.End.Restarts}
	}
	return p
}

// point returns the state of a run with an outcome.
func (o outcome) point(startedAt, now time.Time) point {
	p := point{started: !o.unready, ready: !o.unready}
	if !o.terminates {
		return p
	}
	if since := now.Sub(startedAt); since < o.after {
		p.next = o.after - since
		return p
	}
	p.end = &runEnd{exitCode: o.exitCode, at: now}
	return p
}
