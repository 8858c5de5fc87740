package stages_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"flyball.dev/controllers"
	"flyball.dev/controllers/stages"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// kwokStages returns stages of kwok's repository, from the module cache.
func kwokStages(t *testing.T, dirs ...string) (all []*v1alpha1.Stage) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		list, err := stages.Load(filepath.Join(strings.TrimSpace(string(dir)), "kustomize/stage", d))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
}

// library is the model: kwok's library in a loop, over an object that nobody stores.
type library struct {
	*testing.T
	stages lifecycle.Lifecycle
	render gotpl.Renderer
}

func newLibrary(t *testing.T, list []*v1alpha1.Stage) *library {
	var all lifecycle.Lifecycle
	for _, s := range list {
		internal, err := internalversion.ConvertToInternalStage(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lifecycle.NewStage(internal))
	}
	address := func(...any) string { return "ADDRESS" }
	addresses := func(...any) []string { return []string{"ADDRESS"} }
	return &library{t, all, gotpl.NewRenderer(gotpl.FuncMap{"NodeIPWith": address, "NodeIPsWith": addresses, "PodIPWith": address, "PodIPsWith": addresses,
		"NodeIP": address, "NodeName": func() string { return "fake" }, "NodePort": func() int { return 0 }})}
}

// step returns the object after its next stage, and the range of the delay before. The object is nil if none is next or if
// it is deleted.
func step[T client.Object](l *library, o T) (next T, shortest, longest time.Duration, ok bool) {
	l.Helper()
	event := &lifecycle.Event{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Data: o}
	s, err := l.stages.Match(l.Context(), event)
	if err != nil {
		l.Fatal(err)
	}
	if s == nil {
		return next, 0, 0, false
	}
	delays, _, err := s.DelayRangePossible(l.Context(), event, time.Now())
	if err != nil {
		l.Fatal(err)
	}
	if len(delays) > 0 {
		shortest, longest = max(delays[0], 0), max(delays[len(delays)-1], 0)
	}
	next = o.DeepCopyObject().(T)
	gone := false
	_, err = s.DoSteps(0, o.GetFinalizers(), o, l.render,
		func(*internalversion.StageEvent) error { return nil },
		func() error { gone = true; return nil },
		func(p *lifecycle.Patch) error {
			before, err := json.Marshal(next)
			if err != nil || p.Type != types.StrategicMergePatchType {
				l.Fatal(p.Type, err)
			}
			after, err := strategicpatch.StrategicMergePatch(before, p.Data, next)
			if err != nil {
				return err
			}
			next = reflect.New(reflect.TypeOf(next).Elem()).Interface().(T)
			return json.Unmarshal(after, next)
		}, func(*lifecycle.Apply) error { l.Fatal("apply"); return nil })
	if err != nil {
		l.Fatal(err)
	}
	if gone {
		var none T
		next = none
	}
	return next, shortest, longest, true
}

// normal returns a status without times and addresses.
func normal(t *testing.T, status any) string {
	t.Helper()
	content, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(content, &v); err != nil {
		t.Fatal(err)
	}
	strip(v)
	content, err = json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, value any) bool {
			return value == nil || slices.Contains([]string{"lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "startedAt", "finishedAt", "startTime",
				"podIP", "podIPs", "hostIP", "hostIPs", "address", "observedGeneration", "qosClass"}, key)
		})
		for _, value := range v {
			strip(value)
		}
	case []any:
		for _, value := range v {
			strip(value)
		}
	}
}

// TestPodsAsKwok lets the control plane and kwok's library play kwok's own stages for the same pods: the transitions are the
// same, in the same order, after a delay that the stages allow.
func TestPodsAsKwok(t *testing.T) {
	job := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "1"}}
	for _, dir := range []string{"pod/fast", "pod/general"} {
		list := kwokStages(t, dir)
		for _, test := range []struct {
			name string
			pod  func(p *corev1.Pod)
		}{
			{"plain", func(*corev1.Pod) {}},
			{"two containers and an init container", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "d"})
			}},
			{"of a Job", func(p *corev1.Pod) { p.OwnerReferences = job }},
			{"of a Job, with readiness gates", func(p *corev1.Pod) {
				p.OwnerReferences = job
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
			}},
			{"annotated delays", func(p *corev1.Pod) {
				p.Annotations = map[string]string{"pod-create.stage.kwok.x-k8s.io/delay": "7s", "pod-create.stage.kwok.x-k8s.io/jitter-delay": "7s",
					"pod-ready.stage.kwok.x-k8s.io/delay": "1h"}
			}},
			{"host network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		} {
			t.Run(dir+"/"+test.name, func(t *testing.T) {
				o := controllers.Options{Stages: stages.New(list...), Without: []string{"garbage-collector-controller", "job-controller", "pod-garbage-collector-controller"}}
				controllerstest.InVirtualTime(t, o, func(e controllerstest.Env) {
					w, err := e.Watch(e.Context(), &corev1.PodList{}, client.InNamespace("default"))
					e.Must(err)
					defer w.Stop()
					pod := controllerstest.PodOn("flyball", "default", "p")
					test.pod(pod)
					e.CreateAll(pod)
					compare(e, w, newLibrary(e.T, list), pod)
				})
			})
		}
	}
}

// compare compares the transitions of a pod with the model's, deletes it at the end, and compares its end.
func compare(e controllerstest.Env, w watch.Interface, l *library, pod *corev1.Pod) {
	e.Helper()
	steps, deleted := 0, false
	for event := <-w.ResultChan(); ; steps++ { // the creation
		before := event.Object.(*corev1.Pod)
		began := time.Now()
		want, shortest, longest, ok := step(l, before)
		if !ok {
			if deleted {
				e.Fatalf("the library has no stage for a deleted pod")
			}
			e.WaitIdle()
			if len(w.ResultChan()) > 0 {
				e.Fatalf("the library has no next stage, but the pod changes: %s", normal(e.T, (<-w.ResultChan()).Object))
			}
			e.Must(e.Delete(e.Context(), pod))
			event, deleted = <-w.ResultChan(), true
			continue
		}
		event = <-w.ResultChan()
		if p := event.Object.(*corev1.Pod); p.DeletionTimestamp != nil && *p.DeletionGracePeriodSeconds == 0 && event.Type == watch.Modified {
			event = <-w.ResultChan() // the API server has shortened the grace period before
		}
		if took := time.Since(began); took < shortest || took > longest {
			e.Errorf("step %d came after %v, want %v to %v", steps, took, shortest, longest)
		}
		if want == nil || event.Type == watch.Deleted {
			if (want == nil) != (event.Type == watch.Deleted) {
				e.Fatalf("step %d: %s, and the library's pod is %v", steps, event.Type, want)
			}
			break
		}
		if diff := cmp.Diff(normal(e.T, want.Status), normal(e.T, event.Object.(*corev1.Pod).Status)); diff != "" {
			e.Fatalf("step %d: + the control plane, - kwok's library: %s", steps, diff)
		}
	}
	if steps < 2 {
		e.Errorf("there were %d steps", steps)
	}
}

// TestNodesAsKwok does the same for a node that only kwok's stages make ready, and for its heartbeats.
func TestNodesAsKwok(t *testing.T) {
	list := kwokStages(t, "node/fast", "node/heartbeat")
	controllerstest.InVirtualTime(t, controllers.Options{Stages: stages.New(list...), Without: []string{"node-ipam-controller", "node-lifecycle-controller", "ttl-controller"}}, func(e controllerstest.Env) {
		w, err := e.Watch(e.Context(), &corev1.NodeList{}, client.MatchingFields{"metadata.name": "fake"})
		e.Must(err)
		defer w.Stop()
		e.CreateAll(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fake", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}})
		l := newLibrary(e.T, list)
		node := (<-w.ResultChan()).Object.(*corev1.Node)
		for i := range 10 {
			began := time.Now()
			want, shortest, longest, ok := step(l, node)
			if !ok {
				t.Fatal("the library has no stage")
			}
			node = (<-w.ResultChan()).Object.(*corev1.Node)
			if took := time.Since(began); took < shortest || took > longest {
				t.Errorf("step %d came after %v, want %v to %v", i, took, shortest, longest)
			}
			if diff := cmp.Diff(normal(t, want.Status), normal(t, node.Status)); diff != "" {
				t.Fatalf("step %d: + the control plane, - kwok's library: %s", i, diff)
			}
		}
		lease := &coordinationv1.Lease{}
		if err := e.Get(e.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "fake"}, lease); err != nil || time.Since(lease.Spec.RenewTime.Time) > 15*time.Second {
			t.Errorf("the lease of the node is %v, %v", lease.Spec.RenewTime, err)
		}
	})
}
