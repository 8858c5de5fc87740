package pods_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
)

// onSmallNode runs a test with a node with 4 CPUs.
func onSmallNode(t *testing.T, test func(w *world)) {
	t.Helper()
	nodes := pods.Nodes(1)
	nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
	nodes[0].Status.Capacity = nodes[0].Status.Allocatable
	o := controllers.Options{Pods: pods.Options{Nodes: nodes}}
	controllerstest.WithControlPlane(t, controlplane.Options{Controllers: o}, func(e controllerstest.Env) {
		test(&world{Env: e})
	})
}

// cpuPod returns a pod that requests CPU.
func cpuPod(name, cpu string) *corev1.Pod {
	p := controllerstest.Pod(name, "web:1")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// slowToResize returns a pod that requests CPU, and restarts for a resize, after 20 s.
func slowToResize(name, cpu string) *corev1.Pod {
	p := cpuPod(name, cpu)
	p.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{stop: {after: 20s}}]"}
	p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	return p
}

// duringResize runs a test with a node with 4 CPUs and two pods that request a CPU each, while a resize of pod a is in progress.
func duringResize(t *testing.T, cpu string, test func(w *world)) {
	t.Helper()
	onSmallNode(t, func(w *world) {
		w.CreateAll(slowToResize("a", "1"), cpuPod("b", "1"))
		wait(3 * time.Second)
		w.resizeCPU("a", cpu)
		wait(3 * time.Second)
		test(w)
	})
}

func (w *world) resizeCPU(name, cpu string) {
	w.Helper()
	p := w.Pod(name)
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	w.Must(w.SubResource("resize").Update(w.Context(), p))
}

// wantCPU checks which CPU a pod has, and whether a resize of it waits.
func (w *world) wantCPU(when, name, cpu string, waits bool) {
	w.Helper()
	p := w.Pod(name)
	s := p.Status.ContainerStatuses[0]
	if got := s.Resources.Requests.Cpu().String(); got != cpu || (podstate.Condition(p, corev1.PodResizePending) != nil) != waits {
		w.Errorf("%s: %s has %s of CPU, want %s: %+v", when, name, got, cpu, p.Status.Conditions)
	}
}

// TestResizesAtOnce: resizes at the same time do not get the same room.
func TestResizesAtOnce(t *testing.T) {
	onSmallNode(t, func(w *world) {
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprint("p", i))
			w.CreateAll(cpuPod(names[i], "250m"))
		}
		wait(3 * time.Second)
		var resizes sync.WaitGroup
		for _, name := range names {
			p := w.Pod(name)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2") // one of them has room beside the others
			resizes.Go(func() {
				if err := w.SubResource("resize").Update(w.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
		resizes.Wait()
		wait(3 * time.Second)
		granted := 0
		for _, name := range names {
			if w.Pod(name).Status.ContainerStatuses[0].Resources.Requests.Cpu().String() == "2" {
				granted++
			}
		}
		if granted != 1 {
			t.Errorf("%d resizes are granted", granted)
		}
	})
}

// TestResizeBesideAnother: a resize that is in progress has its resources already.
func TestResizeBesideAnother(t *testing.T) {
	duringResize(t, "3", func(w *world) {
		w.resizeCPU("b", "2")
		wait(time.Minute)
		w.wantCPU("after a minute", "a", "3", false)
		w.wantCPU("after a minute", "b", "1", true)
	})
}

// TestResizeDuringAnother: a second resize of a pod has to fit too, and waits while the first one is completed. A resize that fits
// after all needs another restart.
func TestResizeDuringAnother(t *testing.T) {
	duringResize(t, "2", func(w *world) {
		w.resizeCPU("a", "4")
		wait(3 * time.Second)
		w.wantCPU("while it stops", "a", "1", true)
		if podstate.Condition(w.Pod("a"), corev1.PodResizeInProgress) == nil {
			t.Error("while it stops: the first resize is not in progress")
		}
		wait(time.Minute)
		w.wantCPU("after the first resize", "a", "2", true)
		if p := w.Pod("a"); podstate.Condition(p, corev1.PodResizeInProgress) != nil || len(w.counts("a", "ResizeCompleted")) != 1 {
			t.Errorf("after the first resize: %+v, completed: %v", p.Status.Conditions, w.counts("a", "ResizeCompleted"))
		}
		w.Must(w.Delete(w.Context(), w.Pod("b")))
		wait(time.Minute)
		w.wantCPU("when the other pod is gone", "a", "4", false)
		if n := w.Pod("a").Status.ContainerStatuses[0].RestartCount; n != 2 {
			t.Errorf("%d restarts", n)
		}
	})
}

// TestCrashDuringADeferredResize: a container with a resize that waits starts again with its old resources, which are in its environment.
func TestCrashDuringADeferredResize(t *testing.T) {
	onSmallNode(t, func(w *world) {
		p := cpuPod("p", "1")
		p.Spec.Containers[0].Image = "app:1"
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CPU", ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}}}
		w.handle(runtime.Selector{Image: "app:1"}, func(ctx context.Context, p *runtime.Process) int {
			if !slices.Contains(p.Env, "CPU=1") {
				t.Errorf("the environment of a process is %v", p.Env)
			}
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return 1
		})
		w.CreateAll(p, cpuPod("other", "2"))
		wait(3 * time.Second)
		w.resizeCPU("p", "3")
		for range 10 {
			wait(20 * time.Second)
			w.wantCPU("after crashes", "p", "1", true)
		}
		if n := w.Pod("p").Status.ContainerStatuses[0].RestartCount; n < 2 {
			t.Errorf("%d restarts", n)
		}
	})
}

// TestOrderOfDeferredResizes: released resources go to the pod with the highest priority first, then to the one that waits for the longest
// time. A resize that increases nothing does not wait for them.
func TestOrderOfDeferredResizes(t *testing.T) {
	onSmallNode(t, func(w *world) {
		w.CreateAll(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
		names := []string{"f", "e", "d", "c", "b", "a"}
		for _, name := range names {
			p := cpuPod(name, "100m")
			if name == "a" {
				p.Spec.PriorityClassName = "high"
			}
			w.CreateAll(p)
		}
		w.CreateAll(cpuPod("large", "3"))
		wait(3 * time.Second)
		for _, name := range names {
			w.resizeCPU(name, "1500m")
			wait(2 * time.Second)
		}
		w.resizeCPU("large", "1900m") // 1500m are free, and 1400m are needed
		wait(time.Minute)
		w.wantCPU("with room for one", "a", "1500m", false)
		for _, name := range names[:5] {
			w.wantCPU("with room for one", name, "100m", true)
		}
		w.resizeCPU("large", "500m")
		wait(time.Minute)
		w.wantCPU("with room for another one", "f", "1500m", false)
		for _, name := range names[1:5] {
			w.wantCPU("with room for another one", name, "100m", true)
		}
	})
}

// TestGenerationsOfResizes: the conditions of a resize have the generation of the pod with that resize, also if it follows another one.
func TestGenerationsOfResizes(t *testing.T) {
	onSmallNode(t, func(w *world) {
		w.CreateAll(slowToResize("a", "1"), cpuPod("b", "500m"))
		wait(3 * time.Second)
		check := func(when string, progress, pending int64, started, deferred int) {
			t.Helper()
			p := w.Pod("a")
			for kind, want := range map[corev1.PodConditionType]int64{corev1.PodResizeInProgress: progress, corev1.PodResizePending: pending} {
				got := int64(0)
				if c := podstate.Condition(p, kind); c != nil {
					got = c.ObservedGeneration
				}
				if got != want {
					t.Errorf("%s: %s is of generation %d, want %d", when, kind, got, want)
				}
			}
			if s, d := len(w.counts("a", "ResizeStarted")), len(w.counts("a", "ResizeDeferred")); s != started || d != deferred {
				t.Errorf("%s: %d events ResizeStarted and %d ResizeDeferred, want %d and %d", when, s, d, started, deferred)
			}
		}
		resize := func(cpu string) int64 {
			w.resizeCPU("a", cpu)
			wait(3 * time.Second)
			return w.Pod("a").Generation
		}
		first := resize("2")
		check("the first one", first, 0, 1, 0)
		second := resize("3")
		check("the second one, while the first one is in progress", second, 0, 2, 0)
		third := resize("3900m")
		check("the third one has to wait", second, third, 2, 1)
		fourth := resize("3800m")
		check("the fourth one has to wait too", second, fourth, 2, 2)
		wait(time.Minute)
		check("when the second one has completed", 0, fourth, 2, 2)
		fifth := resize("3200m")
		check("the fifth one", fifth, 0, 3, 2)
	})
}

// podLevel returns a pod with resources of its own, and none of its container.
func podLevel(name, cpu string) *corev1.Pod {
	p := controllerstest.Pod(name, "web:1")
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	return p
}

func (w *world) resizePod(name, cpu string) {
	w.Helper()
	p := w.Pod(name)
	p.Spec.Resources.Requests[corev1.ResourceCPU], p.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu), resource.MustParse(cpu)
	w.Must(w.SubResource("resize").Update(w.Context(), p))
}

// wantPodCPU checks the resources of a pod as a whole, and which conditions of a resize it has.
func (w *world) wantPodCPU(when, name, cpu, allocated string, inProgress, pending bool) {
	w.Helper()
	p := w.Pod(name)
	s := &p.Status
	if s.Resources == nil || s.Resources.Requests.Cpu().String() != cpu || s.Resources.Limits.Cpu().String() != cpu || s.AllocatedResources.Cpu().String() != allocated {
		w.Errorf("%s: %s has %+v and %v, want %s and %s", when, name, s.Resources, s.AllocatedResources, cpu, allocated)
	}
	if (podstate.Condition(p, corev1.PodResizeInProgress) != nil) != inProgress || (podstate.Condition(p, corev1.PodResizePending) != nil) != pending {
		w.Errorf("%s: %s has the conditions %+v", when, name, s.Conditions)
	}
}

// TestPodLevelResize: a resize of the resources of a pod as a whole takes effect at once if it fits, and waits otherwise.
func TestPodLevelResize(t *testing.T) {
	onSmallNode(t, func(w *world) {
		w.CreateAll(podLevel("a", "1"), cpuPod("b", "1500m"))
		wait(3 * time.Second)
		w.wantPodCPU("at first", "a", "1", "1", false, false)
		w.resizePod("a", "2")
		wait(3 * time.Second)
		w.wantPodCPU("after a resize", "a", "2", "2", false, false)
		if s, c := w.counts("a", "ResizeStarted"), w.counts("a", "ResizeCompleted"); len(s) != 1 || len(c) != 1 {
			t.Errorf("the events of the resize: %v, %v", s, c)
		}
		w.resizePod("a", "3")
		wait(3 * time.Second)
		w.wantPodCPU("after a resize that does not fit", "a", "2", "2", false, true)
		w.resizeCPU("b", "2")
		wait(3 * time.Second)
		w.wantCPU("beside the allocation of the other one", "b", "2", false)
		w.Must(w.Delete(w.Context(), w.Pod("b")))
		wait(time.Minute)
		w.wantPodCPU("when it fits", "a", "3", "3", false, false)
		w.want("after all", "a", "Running restarts=0 ready=true running")
	})
}

// TestPodLevelResizeThatRestarts: a container without a limit restarts for a new limit of its pod, if its policy says so, and a container
// with a limit does not.
func TestPodLevelResizeThatRestarts(t *testing.T) {
	onSmallNode(t, func(w *world) {
		p := podLevel("a", "1")
		p.Annotations = map[string]string{pods.ScriptAnnotation: "containers: [{name: web, stop: {after: 20s}}]"}
		restart := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		p.Spec.Containers[0].ResizePolicy = restart
		limited := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "fast", Image: "web:1", ResizePolicy: restart},
			corev1.Container{Name: "limited", Image: "web:1", ResizePolicy: restart, Resources: limited})
		w.CreateAll(p)
		wait(3 * time.Second)
		check := func(when string, want ...int32) {
			t.Helper()
			for i, s := range w.Pod("a").Status.ContainerStatuses {
				if s.RestartCount != want[i] || s.State.Running == nil {
					t.Errorf("%s: %s has %d restarts, want %d: %+v", when, s.Name, s.RestartCount, want[i], s.State)
				}
			}
		}
		w.resizePod("a", "2")
		wait(10 * time.Second)
		w.wantPodCPU("while a container stops", "a", "1", "2", true, false)
		check("while a container stops", 0, 1, 0)
		wait(time.Minute)
		w.wantPodCPU("after the restart", "a", "2", "2", false, false)
		check("after the restart", 1, 1, 0)
	})
}
