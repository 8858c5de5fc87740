package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/controllers"
	"flyball.dev/controllers/podgc"
	"flyball.dev/controllers/pods"
	"flyball.dev/ctrl/client"
)

func podOn(node, namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

func (e env) podNames(namespace string) []string {
	e.Helper()
	list := &corev1.PodList{}
	e.must(e.List(e.Context(), list, client.InNamespace(namespace)))
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

func (e env) wantPodNames(names ...string) {
	e.Helper()
	if got := e.podNames("default"); !slices.Equal(got, names) {
		e.Errorf("there is %v, want %v", got, names)
	}
}

// TestNamespaceWithOrphanedPod deletes a namespace with a pod that is bound to a nonexistent node.
func TestNamespaceWithOrphanedPod(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.create(ns)
		e.create(podOn("nowhere", "doomed", "orphan"))
		e.must(e.Delete(e.Context(), ns))
		e.waitIdle()
		if got := e.podNames("doomed"); len(got) != 1 {
			t.Errorf("before the quarantine is over there is %v", got)
		}
		time.Sleep(podgc.Quarantine) // virtual
		e.waitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v, %+v", err, ns.Status)
		}
	})
}

// TestOrphanedPods: a pod is deleted some time after its node, but not if the node is registered
// again.
func TestOrphanedPods(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		newNode := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		e.create(newNode("a"), newNode("b"), podOn("a", "default", "on-a"), podOn("b", "default", "on-b"), podOn(pods.NodeName, "default", "on-ours"))
		e.waitIdle()
		last, err := e.Watch(e.Context(), &corev1.PodList{}, client.InNamespace("default"))
		e.must(err)
		defer last.Stop()
		e.must(e.Delete(e.Context(), newNode("a")))
		e.must(e.Delete(e.Context(), newNode("b")))
		e.must(e.Delete(e.Context(), newNode(pods.NodeName))) // it is registered again
		e.waitIdle()
		e.create(newNode("b"))
		e.wantPodNames("on-a", "on-b", "on-ours")
		time.Sleep(podgc.Quarantine) // virtual
		e.waitIdle()
		e.wantPodNames("on-b", "on-ours")

		for e := range last.ResultChan() {
			if p := e.Object.(*corev1.Pod); e.Type == watch.Deleted && p.Name == "on-a" {
				if p.Status.Phase != corev1.PodFailed || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
				}) {
					t.Errorf("at last the pod was %+v", p.Status)
				}
				return
			}
		}
	})
}

func TestTerminatedPods(t *testing.T) {
	inVirtualTime(t, controllers.Options{PodGC: podgc.Options{TerminatedPodThreshold: 3}}, func(e env) {
		for i := range 6 {
			p := podOn(pods.NodeName, "default", fmt.Sprint("p", i))
			if i != 1 {
				p.Annotations, p.Spec.RestartPolicy = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}, corev1.RestartPolicyNever
			}
			e.create(p)
			e.waitIdle()
		}
		e.wantPodNames("p1", "p3", "p4", "p5")
	})
}
