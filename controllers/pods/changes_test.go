package pods_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// counts returns how often each event of a reason was recorded about a pod, by the message.
func (w *world) counts(pod, reason string) map[string]int32 {
	w.Helper()
	all := &corev1.EventList{}
	w.Must(w.List(w.Context(), all, client.MatchingFields{"involvedObject.name": pod}))
	counts := map[string]int32{}
	for _, e := range all.Items {
		if e.Reason == reason {
			counts[e.Message] += max(e.Count, 1)
		}
	}
	return counts
}

// slowHandler ends with an exit code some time after SIGTERM.
func slowHandler(code int, after time.Duration) runtime.Handler {
	return func(ctx context.Context, p *runtime.Process) int {
		<-ctx.Done()
		select {
		case <-time.After(after):
		case <-p.Killed:
		}
		return code
	}
}

// TestChangedContainersStop: a container with another image stops as it does when its pod is deleted: at once with the exit code 143,
// as its script says, or as its process does. The event Killing is there from the beginning of the stop.
func TestChangedContainersStop(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.handle(runtime.Selector{Image: "app:1"}, slowHandler(4, 7*time.Second))
		pod := controllerstest.Pod("p", "web:1")
		for name, image := range map[string]string{"slow": "web:1", "stuck": "web:1", "process": "app:1"} {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: image})
		}
		pod.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{name: slow, stop: {after: 5s, code: 3}}, {name: stuck, stop: {after: 5h}}]"}
		w.CreateAll(pod)
		wait(3 * time.Second)
		changed := w.Pod("p")
		for i := range changed.Spec.Containers {
			changed.Spec.Containers[i].Image = "other:1"
		}
		start := time.Now()
		w.Must(w.Update(w.Context(), changed))
		wait(time.Second)
		killings := map[string]int32{}
		for _, name := range []string{"web", "slow", "stuck", "process"} {
			killings["Container "+name+" definition changed, will be restarted"] = 1
		}
		w.wantKillings("at the beginning", killings)
		wait(time.Minute)
		w.wantKillings("at the end", killings)
		type end struct {
			code  int32
			after time.Duration
		}
		want := map[string]end{"web": {143, 0}, "slow": {3, 5 * time.Second}, "stuck": {137, 30 * time.Second}, "process": {4, 7 * time.Second}}
		for _, s := range w.Pod("p").Status.ContainerStatuses {
			last := s.LastTerminationState.Terminated
			if last == nil || s.State.Running == nil || s.RestartCount != 1 {
				t.Errorf("%s: %+v", s.Name, s)
				continue
			}
			if got := (end{last.ExitCode, last.FinishedAt.Sub(start).Round(time.Second)}); got != want[s.Name] || last.Reason != "Error" {
				t.Errorf("%s ends with %v, %s, want %v", s.Name, got, last.Reason, want[s.Name])
			}
		}
	})
}

// TestResizeThatRestarts: a resize of a container that restarts for it has completed when the container has stopped, and not before.
func TestResizeThatRestarts(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.handle(runtime.Selector{Image: "app:1"}, slowHandler(4, 7*time.Second))
		pod := controllerstest.Pod("p", "app:1")
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "web:1"})
		pod.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{name: other, runs: [{steps: [{after: 5s, ready: true}, {after: 1s, ready: false}]}]}]"}
		c := &pod.Spec.Containers[0]
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		w.CreateAll(pod)
		wait(3 * time.Second)
		resized := w.Pod("p")
		resized.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("2Gi")
		w.Must(w.SubResource("resize").Update(w.Context(), resized))
		wait(5 * time.Second) // meanwhile the other container has become ready and unready
		w.wantKillings("at the beginning", map[string]int32{"Container web resize requires restart": 1})
		if p := w.Pod("p"); podstate.Condition(p, corev1.PodResizeInProgress) == nil || podstate.Condition(p, corev1.PodResizeInProgress).ObservedGeneration != p.Generation {
			t.Errorf("while it stops, the conditions are %+v", p.Status.Conditions)
		}
		if got := w.counts("p", "ResizeCompleted"); len(got) != 0 {
			t.Errorf("while it stops: %v", got)
		}
		wait(time.Minute)
		w.wantKillings("at the end", map[string]int32{"Container web resize requires restart": 1})
		if c := podstate.Condition(w.Pod("p"), corev1.PodResizeInProgress); c != nil {
			t.Errorf("at the end, there is the condition %+v", c)
		}
		if started := w.counts("p", "ResizeStarted"); len(started) != 1 {
			t.Errorf("the starts: %v", started)
		}
		got := w.counts("p", "ResizeCompleted")
		for message, count := range got {
			if !strings.HasPrefix(message, "Pod resize completed: ") || count != 1 || len(got) != 1 {
				t.Errorf("at the end: %v", got)
			}
		}
		if s := w.Pod("p").Status.ContainerStatuses[0]; len(got) == 0 || s.RestartCount != 1 || s.Resources.Requests.Memory().String() != "2Gi" {
			t.Errorf("at the end: %v, %+v", got, s)
		}
	})
}

// TestRateOfRestartsOfAll: a process that ends at once and demands the restart of all runs once in a second.
func TestRateOfRestartsOfAll(t *testing.T) {
	withRuntime(t, func(w *world) {
		var starts atomic.Int32
		w.handle(runtime.Selector{Image: "app:1"}, func(ctx context.Context, p *runtime.Process) int {
			if starts.Add(1) > 100 {
				<-ctx.Done() // enough: otherwise the test would not end
			}
			return 7
		})
		pod := controllerstest.Pod("p", "app:1")
		c := &pod.Spec.Containers[0]
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{7}}}}
		w.CreateAll(pod)
		wait(10 * time.Second)
		if n := starts.Load(); n < 9 || n > 11 {
			t.Errorf("%d starts in 10 s", n)
		}
	})
}

// TestReconcilesDuringAStop: reconciles of a pod, while a changed container stops, leave no goroutines behind.
func TestReconcilesDuringAStop(t *testing.T) {
	withRuntime(t, func(w *world) {
		w.handle(runtime.Selector{Image: "app:1"}, slowHandler(4, 2*time.Hour))
		pod := controllerstest.Pod("p", "app:1")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(3600))
		w.CreateAll(pod)
		wait(3 * time.Second)
		change := func(f func(p *corev1.Pod)) {
			p := w.Pod("p")
			f(p)
			w.Must(w.Update(w.Context(), p))
			wait(time.Second)
		}
		change(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other:1" })
		before := goruntime.NumGoroutine()
		for i := range 100 {
			change(func(p *corev1.Pod) { p.Annotations = map[string]string{"a": fmt.Sprint(i)} })
		}
		if now := goruntime.NumGoroutine(); now > before+50 {
			t.Errorf("%d goroutines before, %d after 100 reconciles", before, now)
		}
		if s := w.Pod("p").Status.ContainerStatuses[0]; s.State.Running == nil || s.RestartCount != 0 {
			t.Errorf("it does not stop any more: %+v", s)
		}
	})
}

// TestDeferredResize: a resize that does not fit beside the other pods of the node waits, with kubelet's condition and event, and the
// pod keeps its resources until another one goes.
func TestDeferredResize(t *testing.T) {
	nodes := pods.Nodes(1)
	nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
	nodes[0].Status.Capacity = nodes[0].Status.Allocatable
	w := &world{}
	o := controllers.Options{Pods: pods.Options{Nodes: nodes, OnRuntime: func(r runtime.Runtime) { w.runtime = r }}}
	controllerstest.WithControlPlane(t, controlplane.Options{Controllers: o}, func(e controllerstest.Env) {
		w.Env = e
		for _, name := range []string{"p", "other"} {
			pod := controllerstest.Pod(name, "web:1")
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
			w.CreateAll(pod)
		}
		wait(3 * time.Second)
		resize := func(cpu string) {
			p := w.Pod("p")
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
			w.Must(w.SubResource("resize").Update(w.Context(), p))
			wait(2 * time.Second)
		}
		check := func(when, cpu, pending string) *corev1.Pod {
			t.Helper()
			p := w.Pod("p")
			got := ""
			if c := podstate.Condition(p, corev1.PodResizePending); c != nil {
				got = string(c.Status) + " " + c.Reason + ": " + c.Message
				if c.ObservedGeneration != p.Generation {
					t.Errorf("%s: the condition is of generation %d, and the pod of %d", when, c.ObservedGeneration, p.Generation)
				}
			}
			s := p.Status.ContainerStatuses[0]
			if got != pending || s.Resources.Requests.Cpu().String() != cpu || s.AllocatedResources.Cpu().String() != cpu || s.RestartCount != 0 {
				t.Errorf("%s: %s of CPU, pending: %q, want %s and %q", when, s.Resources.Requests.Cpu(), got, cpu, pending)
			}
			return p
		}
		resize("3")
		const why = "Node didn't have enough resource: cpu, requested: 3000, used: 1500, capacity: 4000"
		check("deferred", "1500m", "True Deferred: "+why)
		w.WantEvent("p", "Warning ResizeDeferred", `Pod resize Deferred: {"containers":[{"name":"web","resources":{"requests":{"cpu":"3"}}}],"generation":2,"error":"`+why+`"}`)
		if got := len(w.counts("p", "ResizeStarted")) + len(w.counts("p", "ResizeCompleted")); got != 0 {
			t.Errorf("%d events of a resize that has not started", got)
		}
		resize("1500m")
		check("reverted", "1500m", "")
		resize("3")
		check("deferred again", "1500m", "True Deferred: "+why)
		w.Must(w.Delete(w.Context(), w.Pod("other")))
		wait(5 * time.Second)
		check("when the other pod is gone", "3", "")
		ends := controllerstest.Pod("ends", "web:1")
		ends.Spec.RestartPolicy = corev1.RestartPolicyNever
		ends.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		ends.Annotations = map[string]string{pods.OutcomeAnnotation: pods.Succeeded, pods.DurationAnnotation: "10s"}
		w.CreateAll(ends)
		wait(time.Second)
		resize("3500m")
		check("while another pod runs", "3", "True Deferred: Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000")
		wait(10 * time.Second)
		check("when it has ended", "3500m", "")
		w.WantEvent("p", "Normal ResizeStarted", `Pod resize started: {"containers":[{"name":"web","resources":{"requests":{"cpu":"3"}}}],"generation":4}`)
		w.WantEvent("p", "Normal ResizeCompleted", `Pod resize completed: {"containers":[{"name":"web","resources":{"requests":{"cpu":"3"}}}],"generation":4}`)
	})
}
