package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
)

func volume(name string, owners ...client.Object) *corev1.PersistentVolume {
	return owned(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"},
		},
	}}, owners...)
}

// invalidOwners are the events that say so, each as "namespace kind/name: message".
func (e env) invalidOwners() []string {
	e.Helper()
	events := &corev1.EventList{}
	e.must(e.List(e.Context(), events))
	var list []string
	for _, e := range events.Items {
		if e.Reason == "OwnerRefInvalidNamespace" && e.Type == corev1.EventTypeWarning && e.ReportingController == "garbage-collector-controller" {
			list = append(list, fmt.Sprintf("%s %s/%s: %s", e.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (e env) wantInvalid(want ...string) {
	e.Helper()
	if got := e.invalidOwners(); !slices.Equal(got, want) {
		e.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNamespacedOwnerOfClusterScoped: nothing that is in no namespace is collected because of an
// owner that would be in one, whether that exists, is deleted, or has never existed.
func TestNamespacedOwnerOfClusterScoped(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		owner, never := configMap("owner"), configMap("never")
		never.UID = "never-existed"
		e.create(owner)
		unserved := kindless("PersistentVolume", "v1")
		e.create(volume("of-owner", owner), volume("of-never", never), volume("of-never-and-unserved", never, unserved), volume("of-unserved", unserved))
		e.waitIdle()
		e.must(e.Delete(e.Context(), owner))
		e.waitIdle()

		list := &corev1.PersistentVolumeList{}
		e.must(e.List(e.Context(), list))
		var left []string
		for _, v := range list.Items {
			left = append(left, fmt.Sprint(v.Name, " ", len(v.OwnerReferences)))
		}
		if want := []string{"of-never 1", "of-never-and-unserved 2", "of-owner 1"}; !slices.Equal(left, want) {
			t.Errorf("there is %v, want %v", left, want)
		}
		message := func(name, uid string) string {
			return fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: , name: %s, uid: %s] does not exist in namespace ""`, name, uid)
		}
		e.wantInvalid(
			"default PersistentVolume/of-never-and-unserved: "+message("never", "never-existed"),
			"default PersistentVolume/of-never: "+message("never", "never-existed"),
			"default PersistentVolume/of-owner: "+message("owner", string(owner.UID)),
		)
	})
}

// TestNamespacedOwnerIsReleased: an owner that is deleted in a way that waits for its dependents
// does not wait for one that cannot be its dependent.
func TestNamespacedOwnerIsReleased(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		owner := configMap("owner")
		e.create(owner)
		e.create(volume("v", owner))
		e.waitIdle()
		e.must(e.Delete(e.Context(), owner, client.PropagationPolicy(foreground)))
		e.want()
		e.must(e.Get(e.Context(), client.ObjectKey{Name: "v"}, &corev1.PersistentVolume{}))
	})
}

// TestOwnerInAnotherNamespace: an owner in another namespace is none.
func TestOwnerInAnotherNamespace(t *testing.T) {
	inVirtualTime(t, onlyGC, func(e env) {
		e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		elsewhere := configMap("owner")
		elsewhere.Namespace = "other"
		owner := configMap("owner")
		e.create(elsewhere, owner)
		e.waitIdle()
		e.create(configMap("of-another", elsewhere), configMap("of-both", elsewhere, owner), configMap("of-owner", owner))
		e.want("of-both", "of-owner", "owner")

		both := configMap("of-both")
		e.must(e.Get(e.Context(), client.ObjectKeyFromObject(both), both))
		if len(both.OwnerReferences) != 1 || both.OwnerReferences[0].UID != owner.UID {
			t.Errorf("of-both has the owners %v", both.OwnerReferences)
		}
		message := fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: %s] does not exist in namespace "default"`, elsewhere.UID)
		e.wantInvalid("default ConfigMap/of-another: "+message, "default ConfigMap/of-both: "+message)
		if err := e.Get(e.Context(), client.ObjectKeyFromObject(elsewhere), elsewhere); apierrors.IsNotFound(err) {
			t.Error("the owner elsewhere was deleted")
		}
	})
}
