package controllers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// events returns the type, reason, component, field path and message of each event about an object, ordered by
// component and first occurrence.
func (e env) events(kind, name string) []string {
	e.Helper()
	list := &corev1.EventList{}
	e.must(e.List(e.Context(), list, client.InNamespace("default"), client.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name}))
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int {
		return strings.Compare(b.ReportingController, a.ReportingController) // their names contain the time
	})
	var described []string
	for _, e := range list.Items {
		at := e.InvolvedObject.FieldPath
		if at != "" {
			at = " " + at
		}
		described = append(described, e.Type+" "+e.Reason+" "+e.ReportingController+at+": "+e.Message)
	}
	return described
}

func (e env) wantEvents(kind, name string, want ...string) {
	e.Helper()
	if d := cmp.Diff(want, e.events(kind, name)); d != "" {
		e.Errorf("events about %s (-want +got):\n%s", name, d)
	}
}

func TestEventsOfADeployment(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(deployment(2, "a:1"))
		e.waitIdle()
		sets, list := &appsv1.ReplicaSetList{}, &corev1.PodList{}
		e.must(e.List(e.Context(), sets, client.InNamespace("default")))
		e.must(e.List(e.Context(), list, client.InNamespace("default")))
		set, pod := sets.Items[0].Name, list.Items[0].Name
		e.wantEvents("Deployment", "web", "Normal ScalingReplicaSet deployment-controller: Scaled up replica set "+set+" from 0 to 2")
		created := e.events("ReplicaSet", set)
		slices.Sort(created)
		want := []string{
			"Normal SuccessfulCreate replicaset-controller: Created pod: " + list.Items[0].Name,
			"Normal SuccessfulCreate replicaset-controller: Created pod: " + list.Items[1].Name,
		}
		slices.Sort(want)
		if d := cmp.Diff(want, created); d != "" {
			t.Error(d)
		}
		e.wantEvents("Pod", pod,
			`Normal Pulled kubelet spec.containers{web}: Container image "a:1" already present on machine and can be accessed by the pod`,
			"Normal Created kubelet spec.containers{web}: Container created",
			"Normal Started kubelet spec.containers{web}: Container started",
			"Normal Scheduled default-scheduler: Successfully assigned default/"+pod+" to flyball")

		e.change(setReplicas(0))
		if got := e.events("Deployment", "web"); !slices.Contains(got, "Normal ScalingReplicaSet deployment-controller: Scaled down replica set "+set+" from 2 to 0") {
			t.Errorf("events %q", got)
		}
		if got := e.events("ReplicaSet", set); !slices.Contains(got, "Normal SuccessfulDelete replicaset-controller: Deleted pod: "+pod) {
			t.Errorf("events %q", got)
		}
		if got := e.events("Pod", pod); !slices.Contains(got, "Normal Killing kubelet spec.containers{web}: Stopping container web") {
			t.Errorf("events %q", got)
		}
	})
}

// TestEventsOfFailures runs against a server that rejects pods.
func TestEventsOfFailures(t *testing.T) {
	rejected := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota: few"))
	withController(t, "replicaset-controller", func(env) interceptor.Funcs {
		return interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if _, ok := obj.(*corev1.Pod); ok {
					return rejected
				}
				return c.Create(ctx, obj, opts...)
			},
		}
	}, func(e env) {
		n := int32(1)
		e.create(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.ReplicaSetSpec{Replicas: &n, Template: template("a"),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		})
		e.waitIdle()
		e.wantEvents("ReplicaSet", "web", "Warning FailedCreate replicaset-controller: Error creating: "+rejected.Error())
	})
}

func TestEventsOfAMissingImage(t *testing.T) {
	inVirtualTime(t, controllers.Options{}, func(e env) {
		e.create(one("bad", "webserver:404"))
		e.waitIdle()
		const failure = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/webserver:404": ` +
			`failed to resolve reference "docker.io/library/webserver:404": docker.io/library/webserver:404: not found`
		e.wantEvents("Pod", "bad",
			`Normal Pulling kubelet spec.containers{web}: Pulling image "webserver:404"`,
			`Warning Failed kubelet spec.containers{web}: Failed to pull image "webserver:404": `+failure,
			"Warning Failed kubelet spec.containers{web}: Error: ErrImagePull",
			`Normal BackOff kubelet spec.containers{web}: Back-off pulling image "webserver:404"`,
			"Warning Failed kubelet spec.containers{web}: Error: ImagePullBackOff",
			"Normal Scheduled default-scheduler: Successfully assigned default/bad to flyball")
		bad := e.pod("bad")
		if s := bad.Status.ContainerStatuses[0].State.Waiting; bad.Status.Phase != corev1.PodPending || s == nil || s.Reason != "ImagePullBackOff" {
			t.Errorf("status %+v", bad.Status)
		}

		before := client.MergeFrom(bad.DeepCopy())
		bad.Spec.Containers[0].Image = "webserver:1"
		e.must(e.Patch(e.Context(), bad, before))
		e.waitIdle()
		e.wantScheduled("bad", onFlyball)
		if s := e.pod("bad").Status.ContainerStatuses[0]; !s.Ready || s.RestartCount != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestWithoutEvents(t *testing.T) {
	inVirtualTime(t, controllers.Options{WithoutEvents: true}, func(e env) {
		e.create(deployment(2, "a"))
		e.waitIdle()
		e.wantPods("a ready", "a ready")
		list := &corev1.EventList{}
		e.must(e.List(e.Context(), list))
		if len(list.Items) != 0 {
			t.Errorf("%d events were recorded", len(list.Items))
		}
	})
}
