package controllers_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestEventsOfADeployment(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Deployment(2, "a:1"))
		e.WaitIdle()
		sets, list := &appsv1.ReplicaSetList{}, &corev1.PodList{}
		e.Must(e.List(e.Context(), sets, client.InNamespace("default")))
		e.Must(e.List(e.Context(), list, client.InNamespace("default")))
		set, pod := sets.Items[0].Name, list.Items[0].Name
		e.WantEvents("Deployment", "web", "Normal ScalingReplicaSet deployment-controller: Scaled up replica set "+set+" from 0 to 2")
		created := e.Events("ReplicaSet", set)
		slices.Sort(created)
		want := []string{
			"Normal SuccessfulCreate replicaset-controller: Created pod: " + list.Items[0].Name,
			"Normal SuccessfulCreate replicaset-controller: Created pod: " + list.Items[1].Name,
		}
		slices.Sort(want)
		if d := cmp.Diff(want, created); d != "" {
			t.Error(d)
		}
		e.WantEvents("Pod", pod,
			`Normal Pulled kubelet spec.containers{web}: Container image "a:1" already present on machine and can be accessed by the pod`,
			"Normal Created kubelet spec.containers{web}: Container created",
			"Normal Started kubelet spec.containers{web}: Container started",
			"Normal Scheduled default-scheduler: Successfully assigned default/"+pod+" to flyball")

		e.ChangeDeployment(controllerstest.SetReplicas(0))
		if got := e.Events("Deployment", "web"); !slices.Contains(got, "Normal ScalingReplicaSet deployment-controller: Scaled down replica set "+set+" from 2 to 0") {
			t.Errorf("events %q", got)
		}
		if got := e.Events("ReplicaSet", set); !slices.Contains(got, "Normal SuccessfulDelete replicaset-controller: Deleted pod: "+pod) {
			t.Errorf("events %q", got)
		}
		if got := e.Events("Pod", pod); !slices.Contains(got, "Normal Killing kubelet spec.containers{web}: Stopping container web") {
			t.Errorf("events %q", got)
		}
	})
}

func TestWithoutEvents(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{WithoutEvents: true}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Deployment(2, "a"))
		e.WaitIdle()
		e.WantPods("a ready", "a ready")
		list := &corev1.EventList{}
		e.Must(e.List(e.Context(), list))
		if len(list.Items) != 0 {
			t.Errorf("%d events were recorded", len(list.Items))
		}
	})
}
