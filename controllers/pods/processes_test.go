package pods_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sigs.k8s.io/yaml"

	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// world is a control plane with a runtime.
type world struct {
	controllerstest.Env
	runtime runtime.Runtime
}

// withRuntime runs a test in virtual time with a control plane and its runtime.
func withRuntime(t *testing.T, test func(w *world)) {
	t.Helper()
	w := &world{}
	o := controllers.Options{Pods: pods.Options{OnRuntime: func(r runtime.Runtime) { w.runtime = r }}}
	controllerstest.WithControlPlane(t, controlplane.Options{Controllers: o}, func(e controllerstest.Env) {
		w.Env = e
		test(w)
	})
}

// handle registers a handler of main processes.
func (w *world) handle(s runtime.Selector, h runtime.Handler) {
	w.Helper()
	_, err := w.Plane.Pods().Handle(s, h)
	w.Must(err)
}

// logs returns the log of a container.
func (w *world) logs(pod string, o corev1.PodLogOptions) string {
	w.Helper()
	var b strings.Builder
	w.Must(w.runtime.Logs(w.Context(), runtime.PodRef{Namespace: "default", Name: pod}, "web", &o, &b))
	return b.String()
}

// wait waits for a time, and until all is done then.
func wait(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// state describes the first container of a pod.
func (w *world) state(pod string) string {
	w.Helper()
	p := w.Pod(pod)
	c := p.Status.ContainerStatuses[0]
	text := fmt.Sprintf("%s restarts=%d ready=%v", p.Status.Phase, c.RestartCount, c.Ready)
	switch {
	case c.State.Running != nil:
		text += " running"
	case c.State.Waiting != nil:
		text += " " + c.State.Waiting.Reason
	case c.State.Terminated != nil:
		text += fmt.Sprintf(" %s=%d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	}
	return text
}

// want checks the state of the first container of a pod.
func (w *world) want(when, pod, state string) {
	w.Helper()
	if got := w.state(pod); got != state {
		w.Errorf("%s: %s is %q, want %q", when, pod, got, state)
	}
}

// TestNextOfAHandler: a handler for one pod calls the handler for all of them, which calls what executes a container without handlers.
func TestNextOfAHandler(t *testing.T) {
	withRuntime(t, func(w *world) {
		for _, s := range []runtime.Selector{{}, {Pod: "one"}} {
			w.handle(s, func(ctx context.Context, p *runtime.Process) int {
				code := p.Next(ctx, p)
				fmt.Fprintf(p.Stdout, "%q ends with %d\n", s.Pod, code)
				return code + 1
			})
		}
		for _, name := range []string{"one", "other", "idle"} {
			p := controllerstest.Pod(name, "app:1")
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			if name != "idle" {
				p.Spec.Containers[0].Command = []string{"sh", "-c", "echo shell; exit 3"}
			}
			w.CreateAll(p)
		}
		wait(time.Second)
		w.want("after its end", "one", "Failed restarts=0 ready=false Error=5")
		w.want("after its end", "other", "Failed restarts=0 ready=false Error=4")
		w.want("without a command", "idle", "Running restarts=0 ready=true running")
		if got := w.logs("one", corev1.PodLogOptions{}); got != "shell\n\"\" ends with 3\n\"one\" ends with 4\n" {
			t.Errorf("the log is %q", got)
		}
	})
}

// TestHandlerIsAContainer: a handler has arguments and environment, writes logs, and its exit code restarts it.
func TestHandlerIsAContainer(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.handle(runtime.Selector{Image: "app:*"}, func(ctx context.Context, p *runtime.Process) int {
			fmt.Fprintf(p.Stdout, "%q %v\n", p.Args, strings.Contains(strings.Join(p.Env, " "), "KUBERNETES_SERVICE_HOST="))
			select {
			case <-time.After(5 * time.Second):
				fmt.Fprintln(p.Stderr, "lost")
				return 3
			case <-ctx.Done():
				return 143
			}
		})
		pod := controllerstest.Pod("app", "app:1")
		pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = []string{"serve"}, []string{"--name=$(NAME)", "$$(NAME)"}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NAME", Value: "x"}}
		pod.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		w.CreateAll(pod)
		wait(3 * time.Second)
		w.want("after 3 s", "app", "Running restarts=0 ready=true running")
		wait(4 * time.Second)
		w.want("after 7 s", "app", "Running restarts=1 ready=true running")
		last := w.Pod("app").Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 3 || !strings.HasSuffix(last.Message, "lost\n") {
			t.Errorf("the last run: %+v", last)
		}
		const line = `["serve" "--name=x" "$(NAME)"] true` + "\n"
		if got := w.logs("app", corev1.PodLogOptions{}); got != line {
			t.Errorf("the log is %q", got)
		}
		if got := w.logs("app", corev1.PodLogOptions{Previous: true}); got != line+"lost\n" {
			t.Errorf("the log before is %q", got)
		}
		wait(4 * time.Second)
		w.want("after the second run", "app", "Running restarts=1 ready=false CrashLoopBackOff")
	})
}

// TestGracefulTermination: a process that ends after SIGTERM has its time, and another one is killed.
func TestGracefulTermination(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		code  int32
	}{"graceful": {5 * time.Second, 0}, "killed": {time.Hour, 137}} {
		t.Run(name, func(t *testing.T) {
			withRuntime(t, func(w *world) {
				w.handle(runtime.Selector{}, func(ctx context.Context, p *runtime.Process) int {
					<-ctx.Done()
					select {
					case <-time.After(tt.takes):
					case <-p.Killed:
					}
					return 0
				})
				pod := controllerstest.Pod("p", "app:1")
				pod.Finalizers = []string{"example.com/stay"}
				pod.Spec.TerminationGracePeriodSeconds = new(int64(20))
				w.CreateAll(pod)
				wait(time.Second)
				w.Must(w.Delete(w.Context(), pod))
				wait(4 * time.Second)
				w.want("while it ends", "p", "Running restarts=0 ready=true running")
				wait(20 * time.Second)
				end := w.Pod("p").Status.ContainerStatuses[0].State.Terminated
				if end == nil || end.ExitCode != tt.code {
					t.Errorf("it is %+v", w.Pod("p").Status)
				}
				pod = w.Pod("p")
				pod.Finalizers = nil
				w.Must(w.Update(w.Context(), pod))
				wait(time.Second)
				if err := w.Get(w.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
					t.Errorf("the pod still exists: %v", err)
				}
			})
		})
	}
}

// TestExecInAnIdleContainer: a container that nothing executes has files, and a handler executes commands in it.
func TestExecInAnIdleContainer(t *testing.T) {
	withRuntime(t, func(w *world) {
		_, err := w.Plane.Pods().HandleExec(runtime.Selector{Command: "read"}, func(_ context.Context, p *runtime.Process) int {
			f, err := p.FS.OpenFile(p.Args[1], os.O_RDONLY, 0)
			if err != nil {
				fmt.Fprintln(p.Stderr, err)
				return 1
			}
			defer f.Close()
			if _, err := io.Copy(p.Stdout, f); err != nil {
				return 1
			}
			return 0
		})
		w.Must(err)
		w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"k": "v1"}})
		pod := controllerstest.Pod("p", "app:1")
		pod.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "c", MountPath: "/config"}}
		w.CreateAll(pod)
		wait(time.Second)
		read := func(name string) string {
			var b strings.Builder
			code, err := w.runtime.Exec(w.Context(), runtime.PodRef{Namespace: "default", Name: "p"}, "web", []string{"read", name},
				runtime.Streams{Stdout: &b, Stderr: &b})
			w.Must(err)
			return fmt.Sprint(code, " ", b.String())
		}
		if got := read("/config/k"); got != "0 v1" {
			t.Errorf("the file has %q", got)
		}
		if got := read("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); got != "0 default" {
			t.Errorf("the namespace is %q", got)
		}
		if got := read("/var/run/secrets/kubernetes.io/serviceaccount/token"); !strings.HasPrefix(got, "0 ey") {
			t.Errorf("the token is %q", got)
		}
		if got := read("/no"); !strings.HasPrefix(got, "1 ") {
			t.Errorf("a missing file: %q", got)
		}
	})
}

// TestScript: a script delays the pull, makes a container ready, ends it, and evicts the pod.
func TestScript(t *testing.T) {
	withRuntime(t, func(w *world) {
		pod := controllerstest.Pod("p", "app:1")
		pod.Annotations = map[string]string{pods.ScriptAnnotation: `
containers:
- name: web
  pull: {failures: 1, duration: 2s}
  runs:
  - steps:
    - {after: 3s, ready: true, log: listening}
    - {after: 10s, log: too much, exit: {reason: OOMKilled, message: no memory}}
  - steps:
    - {usage: {cpu: 100m}}
evict: {after: 1m, message: The node was low on resource}
`}
		w.CreateAll(pod)
		wait(time.Second)
		w.want("after 1 s", "p", "Pending restarts=0 ready=false ImagePullBackOff")
		wait(12 * time.Second)
		w.want("after 13 s", "p", "Running restarts=0 ready=false running")
		wait(4 * time.Second)
		w.want("after 17 s", "p", "Running restarts=0 ready=true running")
		if got := w.logs("p", corev1.PodLogOptions{}); got != "listening\n" {
			t.Errorf("the log is %q", got)
		}
		wait(10 * time.Second)
		w.want("after 27 s", "p", "Running restarts=1 ready=true running")
		last := w.Pod("p").Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 || last.Message != "no memory" {
			t.Errorf("the last run: %+v", last)
		}
		if got := w.logs("p", corev1.PodLogOptions{Previous: true}); got != "listening\ntoo much\n" {
			t.Errorf("the log before is %q", got)
		}
		if usage := pods.UsageOf(w.Pod("p"), "web", time.Now()); usage.Cpu().MilliValue() != 100 || usage.Memory().String() != "1Mi" {
			t.Errorf("the usage is %v", usage)
		}
		wait(40 * time.Second)
		if s := w.Pod("p").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || s.Message != "The node was low on resource" {
			t.Errorf("the status after the eviction: %s, %s, %s", s.Phase, s.Reason, s.Message)
		}
		w.WantEvent("p", "Warning Evicted", "The node was low on resource")
	})
}

// TestInvalidScript: a condition and an event have the error, and the pod runs.
func TestInvalidScript(t *testing.T) {
	withRuntime(t, func(w *world) {
		pod := controllerstest.Pod("p", "app:1")
		pod.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{runs: [{steps: [{exit: {code: 256}}]}]}]"}
		w.CreateAll(pod)
		wait(time.Second)
		w.want("with an invalid script", "p", "Running restarts=0 ready=true running")
		const message = "metadata.annotations[flyball.dev/script]: containers[0].runs[0].steps[0].exit.code: 256 is not an exit code"
		w.WantEvent("p", "Warning InvalidScript", message)
		before := w.Pod("p")
		found := false
		for _, c := range before.Status.Conditions {
			found = found || c.Type == pods.ScriptValid && c.Status == corev1.ConditionFalse && c.Message == message
		}
		if !found {
			t.Errorf("the conditions are %+v", before.Status.Conditions)
		}
		changed := before.DeepCopy()
		delete(changed.Annotations, pods.ScriptAnnotation)
		w.Must(w.Patch(w.Context(), changed, client.MergeFrom(before)))
		wait(time.Second)
		for _, c := range w.Pod("p").Status.Conditions {
			if c.Type == pods.ScriptValid {
				t.Errorf("the condition stays: %+v", c)
			}
		}
	})
}

// TestProbesOfAListener: a listener answers the probes of a container that nothing else executes.
func TestProbesOfAListener(t *testing.T) {
	withRuntime(t, func(w *world) {
		l, err := w.Plane.Pods().Listen(runtime.Selector{Pod: "p"}, 8080)
		w.Must(err)
		answers := make(chan string, 1)
		answers <- "503 Service Unavailable"
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					var request [4096]byte
					if _, err := c.Read(request[:]); err != nil {
						return
					}
					answer := <-answers
					answers <- answer
					fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", answer)
				}()
			}
		}()
		defer l.Close()
		pod := controllerstest.Pod("p", "app:1")
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}
		w.CreateAll(pod)
		wait(3 * time.Second)
		w.want("while the answer is 503", "p", "Running restarts=0 ready=false running")
		w.WantEvent("p", "Warning Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
		<-answers
		answers <- "200 OK"
		wait(3 * time.Second)
		w.want("when the answer is 200", "p", "Running restarts=0 ready=true running")
	})
}

// TestShellIsAContainer: a known command ends as it says, with one write of the status if it ends at once.
func TestShellIsAContainer(t *testing.T) {
	withRuntime(t, func(w *world) {
		for name, tt := range map[string]struct {
			command []string
			want    string
			log     string
		}{
			"exit":     {[]string{"sh", "-c", "echo bye; exit 3"}, "Failed restarts=0 ready=false Error=3", "bye\n"},
			"true":     {[]string{"true"}, "Succeeded restarts=0 ready=false Completed=0", ""},
			"sleeps":   {[]string{"sleep", "3600"}, "Running restarts=0 ready=true running", ""},
			"env":      {[]string{"sh", "-c", "echo $HOSTNAME"}, "Succeeded restarts=0 ready=false Completed=0", "env\n"},
			"variable": {[]string{"sh", "-c", "echo $(NAME); echo $$(echo $NAME)"}, "Succeeded restarts=0 ready=false Completed=0", "value\nvalue\n"},
			"source":   {[]string{"sh", "-c", "echo $(POD)"}, "Succeeded restarts=0 ready=false Completed=0", "source\n"},
			"program":  {[]string{"sh", "-c", "$(NAME) x"}, "Running restarts=0 ready=true running", ""},
			"readonly": {[]string{"/bin/sh", "-c", "> /none/x"}, "Failed restarts=0 ready=false Error=1", "/bin/sh: can't create /none/x: No such file or directory\n"},
			"unknown":  {[]string{"/manager"}, "Running restarts=0 ready=true running", ""},
		} {
			pod := controllerstest.Pod(name, "busybox:1")
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Spec.Containers[0].Command = tt.command
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NAME", Value: "value"},
				{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}
			w.CreateAll(pod)
			wait(time.Second)
			w.want("after 1 s", name, tt.want)
			if got := w.logs(name, corev1.PodLogOptions{}); got != tt.log {
				t.Errorf("%s: the log is %q", name, got)
			}
		}
		wait(time.Hour)
		w.want("after an hour", "sleeps", "Succeeded restarts=0 ready=false Completed=0")
	})
}

// TestInitContainersAndSidecars: init containers run one after another, and a sidecar ends after the main container and the sidecars
// behind it.
func TestInitContainersAndSidecars(t *testing.T) {
	withRuntime(t, func(w *world) {
		pod := controllerstest.Pod("p", "busybox:1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		mounts := []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
		always := corev1.ContainerRestartPolicyAlways
		script := func(name, text string) corev1.Container {
			return corev1.Container{Name: name, Image: "busybox:1", Command: []string{"sh", "-c", text}, VolumeMounts: mounts}
		}
		sidecar := func(name string) corev1.Container {
			c := script(name, `trap 'sleep 1; echo `+name+` >>/d/log; exit 0' TERM; while true; do sleep 1; done`)
			c.RestartPolicy = &always
			return c
		}
		pod.Spec.InitContainers = []corev1.Container{script("one", "sleep 2; echo one >>/d/log"), sidecar("sidecar"),
			script("two", "sleep 2; echo two >>/d/log"), sidecar("inner")}
		pod.Spec.Containers = []corev1.Container{script("web", "echo web >>/d/log; sleep 5; cat /d/log")}
		w.CreateAll(pod)
		wait(3 * time.Second)
		if s := w.Pod("p").Status; s.Phase != corev1.PodPending || s.InitContainerStatuses[0].State.Terminated == nil || s.InitContainerStatuses[2].State.Running == nil {
			t.Errorf("after 3 s: %+v", s)
		}
		wait(2 * time.Second)
		w.want("after 5 s", "p", "Running restarts=0 ready=true running")
		wait(10 * time.Second)
		w.want("after 15 s", "p", "Succeeded restarts=0 ready=false Completed=0")
		statuses := w.Pod("p").Status.InitContainerStatuses
		outer, inner := statuses[1].State.Terminated, statuses[3].State.Terminated
		if outer == nil || inner == nil || outer.ExitCode != 0 || inner.ExitCode != 0 || !inner.FinishedAt.Before(&outer.FinishedAt) {
			t.Errorf("the sidecars: %+v, %+v", outer, inner)
		}
		w.WantEvent("p", "Normal Killing", "Stopping container sidecar")
		if got := w.logs("p", corev1.PodLogOptions{}); got != "one\ntwo\nweb\n" {
			t.Errorf("the log is %q", got)
		}
	})
}

// trapped is a command that ends with 0 after SIGTERM.
var trapped = []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"}

// TestSidecarsStopLast: the processes of sidecars stop after the containers without a process that they serve, and each container
// has one event Killing, when the stop begins.
func TestSidecarsStopLast(t *testing.T) {
	withRuntime(t, func(w *world) {
		always := corev1.ContainerRestartPolicyAlways
		pod := controllerstest.Pod("p", "none:1")
		pod.Finalizers = []string{"example.com/f"}
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "busybox:1", Command: trapped, RestartPolicy: &always},
			{Name: "t", Image: "none:1", RestartPolicy: &always}}
		pod.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{name: web, stop: {after: 10s}}, {name: t, stop: {after: 5s}}]"}
		w.CreateAll(pod)
		wait(3 * time.Second)
		start := time.Now()
		w.Must(w.Delete(w.Context(), pod))
		wait(time.Second)
		want := map[string]int32{"Stopping container web": 1, "Stopping container s": 1, "Stopping container t": 1}
		w.wantKillings("at the beginning", want)
		wait(time.Minute)
		w.wantKillings("at the end", want)
		p := w.Pod("p")
		var ends []time.Duration
		for _, s := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses[1], p.Status.InitContainerStatuses[0]) {
			if end := s.State.Terminated; end == nil || end.ExitCode != 0 {
				t.Fatalf("%s: %+v", s.Name, s.State)
			}
			ends = append(ends, s.State.Terminated.FinishedAt.Sub(start).Round(time.Second))
		}
		if ends[0] != 10*time.Second || ends[1] != 15*time.Second || ends[2] < 15*time.Second || ends[2] > 17*time.Second {
			t.Errorf("the ends of web, t and s: %v", ends)
		}
		p.Finalizers = nil
		w.Must(w.Update(w.Context(), p))
	})
}

// TestSidecarsOfEndedPod: each sidecar that is stopped because the main container has ended has one event Killing.
func TestSidecarsOfEndedPod(t *testing.T) {
	withRuntime(t, func(w *world) {
		always := corev1.ContainerRestartPolicyAlways
		pod := controllerstest.Pod("p", "none:1")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "none:1", RestartPolicy: &always},
			{Name: "t", Image: "busybox:1", Command: trapped, RestartPolicy: &always}, {Name: "u", Image: "none:1", RestartPolicy: &always}}
		pod.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{name: web, runs: [{steps: [{after: 3s, exit: {}}]}]}, {name: s, stop: {after: 5s}}]"}
		w.CreateAll(pod)
		wait(4500 * time.Millisecond)
		want := map[string]int32{"Stopping container s": 1, "Stopping container t": 1, "Stopping container u": 1}
		w.wantKillings("while s stops", want)
		wait(time.Minute)
		w.wantKillings("at the end", want)
		w.want("at the end", "p", "Succeeded restarts=0 ready=false Completed=0")
	})
}

// wantKillings reports an error unless these are the events Killing, with their counts.
func (w *world) wantKillings(when string, want map[string]int32) {
	events, got := &corev1.EventList{}, map[string]int32{}
	w.Must(w.List(w.Context(), events, client.InNamespace("default")))
	for _, e := range events.Items {
		if e.Reason == "Killing" {
			got[e.Message] += e.Count
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s: %s", when, d)
	}
}

// TestLivenessAndHooks: a failing liveness probe restarts a container, after the hook preStop.
func TestLivenessAndHooks(t *testing.T) {
	withRuntime(t, func(w *world) {
		pod := controllerstest.Pod("p", "busybox:1")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(10))
		c := &pod.Spec.Containers[0]
		c.Command = []string{"sh", "-c", "sleep 100000"}
		c.Lifecycle = &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 2; touch /healthy"}}},
			PreStop:   &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}},
		}
		c.LivenessProbe = &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 2, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"cat", "/healthy"}}}}
		w.CreateAll(pod)
		wait(time.Second)
		w.want("during postStart", "p", "Pending restarts=0 ready=false ContainerCreating")
		wait(9 * time.Second)
		w.want("after postStart", "p", "Running restarts=0 ready=true running")
		var b strings.Builder
		if code, err := w.runtime.Exec(w.Context(), runtime.PodRef{Namespace: "default", Name: "p"}, "web", []string{"rm", "/healthy"}, runtime.Streams{Stderr: &b}); err != nil || code != 0 {
			t.Fatal(code, err, b.String())
		}
		wait(5 * time.Second)
		w.want("during preStop", "p", "Running restarts=0 ready=true running")
		w.WantEvent("p", "Normal Killing", "Container web failed liveness probe, will be restarted")
		w.WantEvent("p", "Warning Unhealthy", "Liveness probe failed: cat: ")
		wait(8 * time.Second)
		w.want("after the restart", "p", "Running restarts=1 ready=true running")
	})
}

// TestScriptOfThePage: the example of docs/pods.md does what the page says.
func TestScriptOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/pods.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Scripts\n")
	_, example, _ := strings.Cut(section, "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(example), pod); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = "default"
	withRuntime(t, func(w *world) {
		w.CreateAll(pod)
		wait(time.Second)
		w.want("after 1 s", "scripted", "Pending restarts=0 ready=false ImagePullBackOff")
		wait(13 * time.Second)
		w.want("after 14 s", "scripted", "Running restarts=0 ready=false running")
		wait(2 * time.Second)
		w.want("after 16 s", "scripted", "Running restarts=0 ready=true running")
		wait(14 * time.Second)
		w.want("after 30 s", "scripted", "Running restarts=1 ready=true running")
		wait(time.Minute)
		if s := w.Pod("scripted").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" {
			t.Errorf("after the eviction: %s, %s", s.Phase, s.Reason)
		}
	})
}

// TestVolumeThatCannotBeUpdated: a pod keeps the files of an object that is gone, and ends as usual.
func TestVolumeThatCannotBeUpdated(t *testing.T) {
	withRuntime(t, func(w *world) {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"key": "value\n"}}
		pod := controllerstest.Pod("p", "busybox:1")
		source := corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: []corev1.KeyToPath{{Key: "key", Path: "key"}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ConfigMap: &source}}}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "trap 'cat /v/key; exit 0' TERM; while true; do sleep 1; done"}
		w.CreateAll(config, pod)
		wait(3 * time.Second)
		w.want("at first", "p", "Running restarts=0 ready=true running")
		w.Must(w.Delete(w.Context(), config))
		wait(2 * time.Minute)
		w.want("without the ConfigMap", "p", "Running restarts=0 ready=true running")
		w.Must(w.Delete(w.Context(), w.Pod("p")))
		wait(time.Minute)
		w.WantPodNames()
	})
}
