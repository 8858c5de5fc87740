package gc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func volume(name string, owners ...client.Object) *corev1.PersistentVolume {
	return controllerstest.Owned(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"},
		},
	}}, owners...)
}

// invalidOwners are the events that say so, each as "namespace kind/name: message".
func invalidOwners(e controllerstest.Env) []string {
	e.Helper()
	events := &corev1.EventList{}
	e.Must(e.List(e.Context(), events))
	var list []string
	for _, e := range events.Items {
		if e.Reason == "OwnerRefInvalidNamespace" && e.Type == corev1.EventTypeWarning && e.ReportingController == "garbage-collector-controller" {
			list = append(list, fmt.Sprintf("%s %s/%s: %s", e.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func wantInvalid(e controllerstest.Env, want ...string) {
	e.Helper()
	if got := invalidOwners(e); !slices.Equal(got, want) {
		e.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNamespacedOwnerOfClusterScoped: nothing that is in no namespace is collected because of an
// owner that would be in one, whether that exists, is deleted, or has never existed.
func TestNamespacedOwnerOfClusterScoped(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		owner, never := controllerstest.ConfigMap("owner"), controllerstest.ConfigMap("never")
		never.UID = "never-existed"
		e.CreateAll(owner)
		unserved := controllerstest.Kindless("PersistentVolume", "v1")
		e.CreateAll(volume("of-owner", owner), volume("of-never", never), volume("of-never-and-unserved", never, unserved), volume("of-unserved", unserved))
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), owner))
		e.WaitIdle()

		list := &corev1.PersistentVolumeList{}
		e.Must(e.List(e.Context(), list))
		var left []string
		for _, v := range list.Items {
			left = append(left, fmt.Sprint(v.Name, " ", len(v.OwnerReferences)))
		}
		if want := []string{"of-never 1", "of-never-and-unserved 2", "of-owner 1"}; !slices.Equal(left, want) {
			t.Errorf("there is %v, want %v", left, want)
		}
		wantInvalid(e, "default PersistentVolume/of-owner: "+fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: , name: owner, uid: %s] does not exist in namespace ""`, owner.UID))
	})
}

// TestNamespacedOwnerWaits: an owner that is deleted in the foreground also waits for what cannot be its dependent, as in a
// cluster: for an object in no namespace, and for itself.
func TestNamespacedOwnerWaits(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		owner := controllerstest.ConfigMap("owner")
		e.CreateAll(owner)
		e.CreateAll(volume("v", owner))
		e.WaitIdle()
		self := controllerstest.ConfigMap("self")
		e.CreateAll(self)
		controllerstest.Owned(self, self)
		e.Must(e.Update(e.Context(), self))
		e.WaitIdle()
		e.Must(e.Delete(e.Context(), owner, client.PropagationPolicy(foreground)))
		e.Must(e.Delete(e.Context(), self, client.PropagationPolicy(foreground)))
		wantConfigMaps(e, "owner", "self")
		e.Must(e.Delete(e.Context(), volume("v")))
		wantConfigMaps(e, "self")
	})
}

// TestOwnerInAnotherNamespace: an owner in another namespace is none.
func TestOwnerInAnotherNamespace(t *testing.T) {
	controllerstest.InVirtualTime(t, controllerstest.OnlyGC, func(e controllerstest.Env) {
		e.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		elsewhere := controllerstest.ConfigMap("owner")
		elsewhere.Namespace = "other"
		owner := controllerstest.ConfigMap("owner")
		e.CreateAll(elsewhere, owner)
		e.WaitIdle()
		e.CreateAll(controllerstest.ConfigMap("of-another", elsewhere), controllerstest.ConfigMap("of-both", elsewhere, owner), controllerstest.ConfigMap("of-owner", owner))
		wantConfigMaps(e, "of-both", "of-owner", "owner")

		both := controllerstest.ConfigMap("of-both")
		e.Must(e.Get(e.Context(), client.ObjectKeyFromObject(both), both))
		if len(both.OwnerReferences) != 1 || both.OwnerReferences[0].UID != owner.UID {
			t.Errorf("of-both has the owners %v", both.OwnerReferences)
		}
		message := fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: %s] does not exist in namespace "default"`, elsewhere.UID)
		wantInvalid(e, "default ConfigMap/of-another: "+message, "default ConfigMap/of-both: "+message)
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(elsewhere), elsewhere); apierrors.IsNotFound(err) {
			t.Error("the owner elsewhere was deleted")
		}
	})
}
