package podgc_test

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
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// TestNamespaceWithOrphanedPod deletes a namespace with a pod that is bound to a nonexistent node.
func TestNamespaceWithOrphanedPod(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
		e.CreateAll(ns)
		e.CreateAll(controllerstest.PodOn("nowhere", "doomed", "orphan"))
		e.Must(e.Delete(e.Context(), ns))
		e.WaitIdle()
		if got := e.PodNames("doomed"); len(got) != 1 {
			t.Errorf("before the quarantine is over there is %v", got)
		}
		time.Sleep(podgc.Quarantine) // virtual
		e.WaitIdle()
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v, %+v", err, ns.Status)
		}
	})
}

// TestOrphanedPods: a pod is deleted some time after its node, but not if the node is registered
// again.
func TestOrphanedPods(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		newNode := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		e.CreateAll(newNode("a"), newNode("b"), controllerstest.PodOn("a", "default", "on-a"), controllerstest.PodOn("b", "default", "on-b"), controllerstest.PodOn(pods.NodeName, "default", "on-ours"))
		e.WaitIdle()
		last, err := e.Watch(e.Context(), &corev1.PodList{}, client.InNamespace("default"))
		e.Must(err)
		defer last.Stop()
		e.Must(e.Delete(e.Context(), newNode("a")))
		e.Must(e.Delete(e.Context(), newNode("b")))
		e.WaitIdle()
		e.CreateAll(newNode("b"))
		e.WantPodNames("on-a", "on-b", "on-ours")
		time.Sleep(podgc.Quarantine) // virtual
		e.WaitIdle()
		e.WantPodNames("on-b", "on-ours")

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
	controllerstest.InVirtualTime(t, controllers.Options{PodGC: podgc.Options{TerminatedPodThreshold: 3}}, func(e controllerstest.Env) {
		for i := range 6 {
			p := controllerstest.PodOn(pods.NodeName, "default", fmt.Sprint("p", i))
			if i != 1 {
				p.Annotations, p.Spec.RestartPolicy = map[string]string{pods.OutcomeAnnotation: pods.Succeeded}, corev1.RestartPolicyNever
			}
			e.CreateAll(p)
			e.WaitIdle()
		}
		e.WantPodNames("p1", "p3", "p4", "p5")
	})
}
