package replicaset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestEventsOfFailures runs against a server that rejects pods.
func TestEventsOfFailures(t *testing.T) {
	rejected := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota: few"))
	controllerstest.WithController(t, "replicaset-controller", func(controllerstest.Env) interceptor.Funcs {
		return interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if _, ok := obj.(*corev1.Pod); ok {
					return rejected
				}
				return c.Create(ctx, obj, opts...)
			},
		}
	}, func(e controllerstest.Env) {
		n := int32(1)
		e.CreateAll(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.ReplicaSetSpec{Replicas: &n, Template: controllerstest.Template("a"),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		})
		e.WaitIdle()
		e.WantEvents("ReplicaSet", "web", "Warning FailedCreate replicaset-controller: Error creating: "+rejected.Error())
	})
}

func TestReplicaSetAdoptsReleasesAndReplaces(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}, Spec: controllerstest.Template("a").Spec}
		e.CreateAll(stray)
		n := int32(3)
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: controllerstest.Template("a")},
		}
		e.CreateAll(rs)
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if !metav1.IsControlledBy(stray, rs) {
			t.Error("the stray pod was not adopted")
		}

		before := client.MergeFrom(stray.DeepCopy())
		stray.Labels = map[string]string{"app": "other"}
		e.Must(e.Patch(e.Context(), stray, before))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready", "a ready")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(stray), stray))
		if len(stray.OwnerReferences) > 0 {
			t.Error("the pod was not released")
		}
		e.Must(e.Delete(e.Context(), stray))

		list := &corev1.PodList{}
		e.Must(e.List(e.Context(), list, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
		e.Must(e.Delete(e.Context(), &list.Items[0]))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")

		e.Must(e.Delete(e.Context(), rs, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		e.WaitIdle()
		e.WantPods("a ready", "a ready", "a ready")
	})
}

// TestReplicationController creates, scales and updates a ReplicationController, orphans its pods and adopts them again.
func TestReplicationController(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		key := client.ObjectKey{Namespace: "default", Name: "web"}
		newController := func(image string) *corev1.ReplicationController {
			template := controllerstest.Template(image)
			return &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
				Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(2)), Template: &template}}
		}
		change := func(change func(*corev1.ReplicationController)) *corev1.ReplicationController {
			t.Helper()
			rc := &corev1.ReplicationController{}
			e.Must(e.Get(e.Context(), key, rc))
			before := client.MergeFrom(rc.DeepCopy())
			change(rc)
			e.Must(e.Patch(e.Context(), rc, before))
			e.WaitIdle()
			e.Must(e.Get(e.Context(), key, rc))
			return rc
		}
		e.CreateAll(newController("a"))
		e.WaitIdle()
		e.WantPods("a ready", "a ready")
		rc := change(func(rc *corev1.ReplicationController) {
			rc.Spec.Replicas, rc.Spec.Template.Spec.Containers[0].Image = new(int32(3)), "b"
		})
		e.WantPods("a ready", "a ready", "b ready")
		if s := rc.Status; s.Replicas != 3 || s.FullyLabeledReplicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.ObservedGeneration != rc.Generation {
			t.Errorf("status %+v", s)
		}
		change(func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32(1)) })
		pods := &corev1.PodList{}
		e.Must(e.List(e.Context(), pods, client.InNamespace("default")))
		if owner := metav1.GetControllerOf(&pods.Items[0]); len(pods.Items) != 1 || owner == nil || owner.Kind != "ReplicationController" || owner.APIVersion != "v1" {
			t.Errorf("%d pods, owner %+v", len(pods.Items), owner)
		}
		e.Must(e.Delete(e.Context(), rc, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		e.WaitIdle()
		e.CreateAll(newController("c"))
		e.WaitIdle()
		now := e.Pod(pods.Items[0].Name)
		if metav1.GetControllerOf(now) == nil || now.UID != pods.Items[0].UID {
			t.Errorf("the pod was not adopted: %+v", now.OwnerReferences)
		}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}}}
		e.CreateAll(quota)
		e.WaitIdle()
		rc = change(func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32(3)) })
		if c := rc.Status.Conditions; len(c) != 1 || c[0].Type != corev1.ReplicationControllerReplicaFailure || c[0].Reason != "FailedCreate" {
			t.Errorf("conditions %+v", c)
		}
		e.Must(e.Delete(e.Context(), quota))
		time.Sleep(10 * time.Minute) // virtual: the maximal backoff
		e.WaitIdle()
		if rc = change(func(*corev1.ReplicationController) {}); len(rc.Status.Conditions) != 0 || rc.Status.ReadyReplicas != 3 {
			t.Errorf("status %+v", rc.Status)
		}
		if events := e.Events("ReplicationController", "web"); len(events) == 0 || !strings.HasPrefix(events[0], "Normal SuccessfulCreate replication-controller: Created pod: web-") {
			t.Errorf("events %q", events)
		}
	})
}

// TestFaults scales a ReplicationController and a ReplicaSet while writes of their controllers fail and the controllers
// restart.
func TestFaults(t *testing.T) {
	selector := map[string]string{"app": "web"}
	template := controllerstest.Template("a")
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	for name, owner := range map[string]client.Object{
		"replicationcontroller-controller": &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}},
		"replicaset-controller": &appsv1.ReplicaSet{ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Template: template, Selector: &metav1.LabelSelector{MatchLabels: selector}}},
	} {
		t.Run(name, func(t *testing.T) {
			controllerstest.WithControlPlane(t, controlplane.Options{WithoutControllers: true}, func(e controllerstest.Env) {
				e.CreateAll(owner)
				replicas, step := 0, 0
				scale := func() *autoscalingv1.Scale {
					s := &autoscalingv1.Scale{}
					e.Must(e.SubResource("scale").Get(e.Context(), owner, s))
					return s
				}
				e.RunWithFaults(name, 1, func() {
					if step++; step%10 == 0 && step <= 100 {
						s := scale()
						replicas = (replicas + 7) % 10
						s.Spec.Replicas = int32(replicas)
						e.Must(e.SubResource("scale").Update(e.Context(), owner, client.WithSubResourceBody(s)))
					}
				}, func() bool {
					s := scale()
					return step > 100 && s.Spec.Replicas == s.Status.Replicas
				})
				if n := len(e.PodNames("default")); n != replicas || int(scale().Status.Replicas) != replicas {
					t.Errorf("there are %d pods, want %d; status %d", n, replicas, scale().Status.Replicas)
				}
			})
		})
	}
}
