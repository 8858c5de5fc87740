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
