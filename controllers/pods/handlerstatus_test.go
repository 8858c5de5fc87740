package pods_test

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane/controllerstest"
)

// idlePod returns a pod that nothing executes. A finalizer keeps it after its end.
func idlePod(name string, hook *corev1.Lifecycle) *corev1.Pod {
	p := controllerstest.Pod(name, "app:1")
	p.Finalizers = []string{"example.com/stay"}
	p.Spec.Containers[0].Lifecycle = hook
	return p
}

// TestReadinessOfAHandler: a function makes its container ready and unready.
func TestReadinessOfAHandler(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.handle(runtime.Selector{}, func(ctx context.Context, p *runtime.Process) int {
			for _, ready := range []bool{false, true, false, true} {
				p.SetReady(ready)
				select {
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
					return 0
				}
			}
			return 1
		})
		w.CreateAll(controllerstest.Pod("p", "app:1"))
		wait(5 * time.Second)
		w.want("at first", "p", "Running restarts=0 ready=false running")
		for _, want := range []string{"ready=true", "ready=false", "ready=true"} {
			wait(10 * time.Second)
			w.want("later", "p", "Running restarts=0 "+want+" running")
		}
		wait(10 * time.Second)
		w.want("after a restart", "p", "Running restarts=1 ready=false running")
	})
}

// TestReadinessOfAHandlerWithAProbe: a container is ready if its probe and its handler say so.
func TestReadinessOfAHandlerWithAProbe(t *testing.T) {
	withRuntime(t, func(w *world) {
		says := make(chan bool)
		w.handle(runtime.Selector{}, func(ctx context.Context, p *runtime.Process) int {
			for {
				select {
				case ready := <-says:
					p.SetReady(ready)
				case <-ctx.Done():
					return 0
				}
			}
		})
		p := controllerstest.Pod("p", "app:1")
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/tmp/ready"}}}}
		w.CreateAll(p)
		shell := func(command ...string) {
			code, err := w.runtime.Exec(w.Context(), runtime.PodRef{Namespace: "default", Name: "p"}, "web", command, runtime.Streams{})
			if err != nil || code != 0 {
				t.Errorf("%q: %d, %v", command, code, err)
			}
		}
		check := func(when, want string) {
			t.Helper()
			wait(3 * time.Second)
			w.want(when, "p", "Running restarts=0 ready="+want+" running")
		}
		check("while the probe fails", "false")
		says <- true
		check("while only the function says so", "false")
		shell("touch", "/tmp/ready")
		check("when both say so", "true")
		says <- false
		check("while only the probe says so", "false")
		says <- true
		check("when both say so again", "true")
		shell("rm", "/tmp/ready")
		check("when the probe fails again", "false")
	})
}

// TestTerminationOfAHandler: a function decides the reason and the message of its end.
func TestTerminationOfAHandler(t *testing.T) {
	write := func(p *runtime.Process, text string) {
		f, err := p.FS.OpenFile("/dev/termination-log", os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			_, err = io.WriteString(f, text)
			f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	tests := map[string]struct {
		do              func(p *runtime.Process) int
		code            int32
		reason, message string
	}{
		"neither": {func(*runtime.Process) int { return 3 }, 3, "Error", ""},
		"both": {func(p *runtime.Process) int {
			write(p, "of the file")
			p.SetTermination("Wrong", "wrong")
			p.SetTermination("OOMKilled", "no memory")
			return 137
		}, 137, "OOMKilled", "no memory"},
		"reason": {func(p *runtime.Process) int {
			write(p, "of the file")
			p.SetTermination("Done", "")
			return 0
		}, 0, "Done", "of the file"},
		"message": {func(p *runtime.Process) int {
			p.SetTermination("", "done")
			return 0
		}, 0, "Completed", "done"},
		"killed": {func(p *runtime.Process) int {
			p.SetTermination("Done", "done")
			<-p.Killed
			p.SetTermination("Done", "done")
			return 0
		}, 137, "Error", ""},
	}
	withRuntime(t, func(w *world) {
		for name, tt := range tests {
			w.handle(runtime.Selector{Pod: name}, func(_ context.Context, p *runtime.Process) int { return tt.do(p) })
			p := idlePod(name, nil)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			w.CreateAll(p)
		}
		wait(3 * time.Second)
		w.Must(w.Delete(w.Context(), w.Pod("killed")))
		wait(time.Minute)
		for name, tt := range tests {
			end := w.Pod(name).Status.ContainerStatuses[0].State.Terminated
			if end == nil || end.ExitCode != tt.code || end.Reason != tt.reason || end.Message != tt.message {
				t.Errorf("%s: the end is %+v", name, end)
			}
		}
	})
}

// TestStatusOfACommand: a command does not change the status of the container that it is executed in.
func TestStatusOfACommand(t *testing.T) {
	withRuntime(t, func(w *world) {
		var called atomic.Int32 // by the probe and the script at the same time
		_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "drain"}, func(_ context.Context, p *runtime.Process) int {
			called.Add(1)
			p.SetReady(false)
			p.SetTermination("Drained", "drained")
			return 0
		})
		w.Must(err)
		p := controllerstest.Pod("p", "busybox:1")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Command = []string{"sleep", "10"}
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 2, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
		w.CreateAll(p)
		wait(5 * time.Second)
		code, err := w.runtime.Exec(w.Context(), runtime.PodRef{Namespace: "default", Name: "p"}, "web", []string{"sh", "-c", "drain"}, runtime.Streams{})
		if err != nil || code != 0 {
			t.Errorf("a script that calls the function: %d, %v", code, err)
		}
		w.want("after the commands", "p", "Running restarts=0 ready=true running")
		wait(10 * time.Second)
		w.want("at the end", "p", "Succeeded restarts=0 ready=false Completed=0")
		if end := w.Pod("p").Status.ContainerStatuses[0].State.Terminated; called.Load() < 4 || end == nil || end.Message != "" {
			t.Errorf("%d commands, and the end is %+v", called.Load(), end)
		}
	})
}
