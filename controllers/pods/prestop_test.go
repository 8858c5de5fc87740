package pods_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// preStopOf returns a hook that executes a command, or sleeps for some seconds if there is none.
func preStopOf(seconds int64, command ...string) *corev1.Lifecycle {
	if len(command) > 0 {
		return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}}
	}
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
}

// TestPreStopOfIdleContainers: the hook preStop of a container without a process delays its end, until the end of the grace period.
func TestPreStopOfIdleContainers(t *testing.T) {
	tests := []struct {
		name   string
		hook   *corev1.Lifecycle
		script string
		grace  int64 // of the deletion
		want   time.Duration
		code   int32
	}{
		{"sleeps", preStopOf(7), "", 30, 7 * time.Second, 143},
		{"sleeps-too-long", preStopOf(7), "", 4, 4 * time.Second, 143},
		{"sleeps-then-stops", preStopOf(7), "containers: [{stop: {after: 3s}}]", 30, 10 * time.Second, 0},
		{"sleeps-then-killed", preStopOf(7), "containers: [{stop: {after: 1m}}]", 8, 9 * time.Second, 137},
		{"ends-meanwhile", preStopOf(7), "containers: [{runs: [{steps: [{after: 15s, exit: {code: 3}}]}]}]", 30, 5 * time.Second, 3},
		{"shell", preStopOf(0, "sh", "-c", "sleep 7"), "", 30, 7 * time.Second, 143},
		{"shell-too-long", preStopOf(0, "sleep", "3600"), "", 10, 10 * time.Second, 143},
		{"function", preStopOf(0, "drain"), "", 30, 6 * time.Second, 143},
		{"unknown", preStopOf(0, "/usr/bin/nginx", "-s", "quit"), "", 30, 0, 143},
		{"one-second", preStopOf(7), "", 1, time.Second, 143},
	}
	withRuntime(t, func(w *world) {
		_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "drain"}, func(ctx context.Context, p *runtime.Process) int {
			select {
			case <-time.After(6 * time.Second):
				return 0
			case <-ctx.Done():
				return 1
			}
		})
		w.Must(err)
		for _, tt := range tests {
			p := idlePod(tt.name, tt.hook)
			if tt.script != "" {
				p.Annotations = map[string]string{pods.ScriptAnnotation: tt.script}
			}
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			w.CreateAll(p)
		}
		wait(10 * time.Second)
		deleted := time.Now().Truncate(time.Second)
		for _, tt := range tests {
			w.Must(w.Delete(w.Context(), w.Pod(tt.name), client.GracePeriodSeconds(tt.grace)))
		}
		wait(time.Minute)
		for _, tt := range tests {
			end := w.Pod(tt.name).Status.ContainerStatuses[0].State.Terminated
			if end == nil || end.FinishedAt.Sub(deleted) != tt.want || end.ExitCode != tt.code {
				t.Errorf("%s: the end after %v: %+v", tt.name, tt.want, end)
			}
			if n := len(w.counts(tt.name, "Killing")); n != 1 {
				t.Errorf("%s: %d events Killing", tt.name, n)
			}
			// A command that its container does not outlive has failed, and a sleep has not.
			if failed := w.counts(tt.name, "FailedPreStopHook"); (len(failed) == 1) != (tt.name == "shell-too-long") {
				t.Errorf("%s: failed hooks: %v", tt.name, failed)
			}
		}
	})
}

// TestPreStopThatFails: a hook that fails has an event, and the container ends.
func TestPreStopThatFails(t *testing.T) {
	withRuntime(t, func(w *world) {
		p := idlePod("p", preStopOf(0, "sh", "-c", "sleep 2; exit 1"))
		w.CreateAll(p)
		wait(3 * time.Second)
		w.Must(w.Delete(w.Context(), p))
		wait(time.Second)
		w.want("while the hook is executed", "p", "Running restarts=0 ready=true running")
		wait(4 * time.Second)
		w.want("after the hook", "p", "Failed restarts=0 ready=false Error=143")
		w.WantEvent("p", "Warning FailedPreStopHook", "PreStopHook failed")
	})
}

// TestPreStopOfAnIdleSidecar: the hooks of all containers begin at once, and a sidecar still ends after the main container.
func TestPreStopOfAnIdleSidecar(t *testing.T) {
	withRuntime(t, func(w *world) {
		p := idlePod("p", preStopOf(5))
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{
			{Name: "short", Image: "app:1", RestartPolicy: &always, Lifecycle: preStopOf(3)},
			{Name: "long", Image: "app:1", RestartPolicy: &always, Lifecycle: preStopOf(0, "sleep", "8")},
		}
		w.CreateAll(p)
		wait(3 * time.Second)
		deleted := time.Now().Truncate(time.Second)
		w.Must(w.Delete(w.Context(), p))
		wait(time.Minute)
		s := w.Pod("p").Status
		for i, want := range map[int]time.Duration{0: 8 * time.Second, 1: 8 * time.Second} {
			if end := s.InitContainerStatuses[i].State.Terminated; end == nil || end.FinishedAt.Sub(deleted) != want {
				t.Errorf("%s ends with %+v, want the end after %v", s.InitContainerStatuses[i].Name, end, want)
			}
		}
		if end := s.ContainerStatuses[0].State.Terminated; end == nil || end.FinishedAt.Sub(deleted) != 5*time.Second {
			t.Errorf("web ends with %+v", end)
		}
	})
}

// TestPreStopOfAChangedContainer: a container with another image restarts after its hook.
func TestPreStopOfAChangedContainer(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.CreateAll(idlePod("sleeps", preStopOf(7)), idlePod("shell", preStopOf(0, "sleep", "7")))
		wait(3 * time.Second)
		check := func(when string, restarts int32) {
			t.Helper()
			for _, name := range []string{"sleeps", "shell"} {
				if s := w.Pod(name).Status.ContainerStatuses[0]; s.RestartCount != restarts || s.State.Running == nil {
					t.Errorf("%s: %s is %+v", when, name, s)
				}
			}
		}
		for restarts := int32(0); restarts < 2; restarts++ {
			for _, name := range []string{"sleeps", "shell"} {
				p := w.Pod(name)
				p.Spec.Containers[0].Image = "app:" + string('2'+rune(restarts))
				w.Must(w.Update(w.Context(), p))
			}
			wait(6 * time.Second)
			check("during the hook", restarts)
			wait(3 * time.Second)
			check("after the hook", restarts+1)
		}
	})
}

// TestPreStopOfARemovedPod: a hook ends with its pod.
func TestPreStopOfARemovedPod(t *testing.T) {
	withRuntime(t, func(w *world) {
		ended := make(chan error, 1)
		_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "drain"}, func(ctx context.Context, p *runtime.Process) int {
			<-ctx.Done()
			ended <- ctx.Err()
			return 0
		})
		w.Must(err)
		p := idlePod("p", preStopOf(0, "drain"))
		p.Finalizers = nil
		w.CreateAll(p)
		wait(3 * time.Second)
		w.Must(w.Delete(w.Context(), p))
		wait(2 * time.Second)
		w.Must(w.Delete(w.Context(), p, client.GracePeriodSeconds(0)))
		wait(time.Second)
		select {
		case <-ended:
		default:
			t.Error("the hook goes on")
		}
	})
}

// TestPostStartOfIdleContainers: the hook postStart of a container without a process delays its start if it sleeps, or if a function or a
// program of the image answers it.
func TestPostStartOfIdleContainers(t *testing.T) {
	const program = "containers: [{files: {/bin/warm: \"#!/bin/sh\\nsleep 5; echo warm > /tmp/state\"}}]"
	withRuntime(t, func(w *world) {
		_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "join"}, func(context.Context, *runtime.Process) int {
			time.Sleep(6 * time.Second) // virtual
			return 0
		})
		w.Must(err)
		_, err = w.Plane.Pods().HandleExec(runtime.Selector{Command: "fail"}, func(context.Context, *runtime.Process) int { return 1 })
		w.Must(err)
		tests := []struct {
			name, script string
			hook         *corev1.LifecycleHandler
			want         []string // after 3, 8 and 20 s
		}{
			{"sleeps", "", &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}}, []string{"ContainerCreating", "running", "running"}},
			{"function", "", execHook("join"), []string{"ContainerCreating", "running", "running"}},
			{"program", program, execHook("/bin/warm"), []string{"ContainerCreating", "running", "running"}},
			{"fails", "", execHook("fail"), []string{"CrashLoopBackOff", "CrashLoopBackOff", "CrashLoopBackOff"}},
			{"shell", "", execHook("sh", "-c", "until [ -e /ready ]; do sleep 1; done"), []string{"running", "running", "running"}},
			{"unknown", "", execHook("/usr/bin/register"), []string{"running", "running", "running"}},
			{"scripted", "containers: [{runs: [{steps: [{after: 1m, log: x}]}]}]", execHook("join"), []string{"running", "running", "running"}},
		}
		for _, tt := range tests {
			p := idlePod(tt.name, &corev1.Lifecycle{PostStart: tt.hook})
			if tt.script != "" {
				p.Annotations = map[string]string{pods.ScriptAnnotation: tt.script}
			}
			w.CreateAll(p)
		}
		for i, after := range []time.Duration{3 * time.Second, 5 * time.Second, 12 * time.Second} {
			wait(after)
			for _, tt := range tests {
				got := "running"
				if waiting := w.Pod(tt.name).Status.ContainerStatuses[0].State.Waiting; waiting != nil {
					got = waiting.Reason
				}
				if got != tt.want[i] {
					t.Errorf("%s: %s after %s more, want %s", tt.name, got, after, tt.want[i])
				}
			}
		}
	})
}

// execHook returns a hook that executes a command.
func execHook(command ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

// TestPostStartRunsOnce: a container that runs is not started again for its hook postStart: not when the control plane restarts, and not
// when something answers the hook only later.
func TestPostStartRunsOnce(t *testing.T) {
	for name, command := range map[string][]string{"without a process": nil, "with a process": {"sh", "-c", "sleep 6000"}} {
		t.Run("restart, "+name, func(t *testing.T) {
			withObjects(t, func(e controllerstest.Env) {
				p := controllerstest.PodOn(pods.NodeName, "default", "p")
				p.Spec.Containers[0].Command = command
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 20}}}
				e.CreateAll(p)
				none := controllerstest.NewFaults(0)
				none.End()
				for _, running := range []time.Duration{50 * time.Second, 5 * time.Second} {
					e.RunController("pods", none, running)
					e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(p), p))
					if s := p.Status; s.Phase != corev1.PodRunning || s.ContainerStatuses[0].State.Running == nil || !s.ContainerStatuses[0].Ready {
						t.Errorf("after %s, the status is %s, %+v", running, s.Phase, s.ContainerStatuses[0])
					}
				}
			})
		})
	}
	t.Run("an answer later", func(t *testing.T) {
		withRuntime(t, func(w *world) {
			w.CreateAll(idlePod("p", &corev1.Lifecycle{PostStart: execHook("join")}))
			wait(5 * time.Second)
			before := w.Pod("p").Status.ContainerStatuses[0]
			_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "join"}, func(context.Context, *runtime.Process) int {
				time.Sleep(20 * time.Second) // virtual
				return 0
			})
			w.Must(err)
			wait(5 * time.Second)
			if after := w.Pod("p").Status.ContainerStatuses[0]; after.State.Running == nil || !after.Ready || after.RestartCount != before.RestartCount {
				t.Errorf("the status is %+v, and was %+v", after, before)
			}
			wait(20 * time.Second)
		})
	})
}
