package claim

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/reconcile"
)

// TestRequests: an object belongs to its controller, and an object without a controller to its adopters.
func TestRequests(t *testing.T) {
	sets, controllers := appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind(), corev1.SchemeGroupVersion.WithKind("ReplicationController").GroupKind()
	owner := func(version, kind, name string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: "1", Controller: ptr.To(controller)}
	}
	adopters := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "x", Name: "adopter"}}}
	}
	for name, tc := range map[string]struct {
		kind   schema.GroupKind
		owners []metav1.OwnerReference
		want   string
	}{
		"no owner":              {sets, nil, "adopter"},
		"an owner, no more":     {sets, []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "a", false)}, "adopter"},
		"its controller":        {sets, []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", "a", true)}, "a"},
		"another version":       {sets, []metav1.OwnerReference{owner("apps/v1beta2", "ReplicaSet", "a", true)}, "a"},
		"another group":         {sets, []metav1.OwnerReference{owner("extensions/v1beta1", "ReplicaSet", "a", true)}, ""},
		"no group":              {sets, []metav1.OwnerReference{owner("v1", "ReplicaSet", "a", true)}, ""},
		"another kind":          {sets, []metav1.OwnerReference{owner("apps/v1", "StatefulSet", "a", true)}, ""},
		"the second reference":  {sets, []metav1.OwnerReference{owner("v1", "Pod", "p", false), owner("apps/v1", "ReplicaSet", "a", true)}, "a"},
		"the core group":        {controllers, []metav1.OwnerReference{owner("v1", "ReplicationController", "a", true)}, "a"},
		"a group for core":      {controllers, []metav1.OwnerReference{owner("apps/v1", "ReplicationController", "a", true)}, ""},
		"a group named version": {controllers, []metav1.OwnerReference{owner("/v1", "ReplicationController", "a", true)}, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", OwnerReferences: tc.owners}}
		got := ""
		for _, r := range Requests(tc.kind, adopters)(t.Context(), pod) {
			if got += r.Name; r.Namespace != "x" {
				t.Errorf("%s: a request for %s", name, r)
			}
		}
		if got != tc.want {
			t.Errorf("%s: requests for %q, want %q", name, got, tc.want)
		}
	}
}

// TestClaimable: the update of an object without a controller matters if its labels have changed.
func TestClaimable(t *testing.T) {
	pod := func(label string, phase corev1.PodPhase, controlled bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": label}}, Status: corev1.PodStatus{Phase: phase}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "a", UID: "1", Controller: ptr.To(controlled)}}
		return p
	}
	for name, tc := range map[string]struct {
		was, is *corev1.Pod
		want    bool
	}{
		"the status of an orphan":      {pod("a", "", false), pod("a", corev1.PodRunning, false), false},
		"the labels of an orphan":      {pod("a", "", false), pod("b", "", false), true},
		"the status of an owned pod":   {pod("a", "", true), pod("a", corev1.PodRunning, true), true},
		"a pod that was adopted":       {pod("a", "", false), pod("a", "", true), true},
		"a pod that was released":      {pod("a", "", true), pod("a", "", false), true},
		"an orphan that was not there": {nil, pod("a", "", false), true},
		"an orphan that is gone":       {pod("a", "", false), nil, true},
	} {
		got := false
		switch {
		case tc.was == nil:
			got = Claimable.Create(event.CreateEvent{Object: tc.is})
		case tc.is == nil:
			got = Claimable.Delete(event.DeleteEvent{Object: tc.was})
		default:
			got = Claimable.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is})
		}
		if got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
