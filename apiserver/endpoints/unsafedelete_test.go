package endpoints_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/controlplane"
)

// TestUnsafeDelete requests the deletion of an object as unreadable. As it can be read, it must not
// be deleted, and not without its finalizer.
func TestUnsafeDelete(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	configMaps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "readable", Finalizers: []string{"example.com/finalizer"}}}
	if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	yes := true
	err := configMaps.Delete(t.Context(), "readable", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes})
	if !apierrors.IsConflict(err) {
		t.Errorf("Delete: %v", err)
	}
	if got, err := configMaps.Get(t.Context(), "readable", metav1.GetOptions{}); err != nil || got.DeletionTimestamp != nil {
		t.Errorf("Get: %v, %v", got, err)
	}
}

// TestUnsafeDeleteNeedsItsVerb requests an unsafe deletion as users with and without the verb for it.
func TestUnsafeDeleteNeedsItsVerb(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{"token": {Name: "ann"}}})
	admin := controlplanetest.ClientFor(t, plane.Config())
	ann := plane.Config()
	ann.BearerToken = "token"
	allow := func(name string, verbs ...string) {
		t.Helper()
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() error {
		return controlplanetest.ClientFor(t, ann).CoreV1().ConfigMaps("default").Delete(t.Context(), "none",
			metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)})
	}
	allow("delete", "delete", "get", "list", "deletecollection", "update")
	if err := remove(); !apierrors.IsForbidden(err) {
		t.Errorf("without the verb: %v", err)
	}
	allow("unsafe", "unsafe-delete-ignore-read-errors")
	if err := remove(); !apierrors.IsNotFound(err) {
		t.Errorf("with the verb: %v", err)
	}
}

// TestHistory requests an old resource version, which is available, and again when it is compacted.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
		configMaps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
		create := func(name string) {
			t.Helper()
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("a")
		create("b")
		first, err := configMaps.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		create("c")
		exactly := metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		next := metav1.ListOptions{Limit: 1, Continue: first.Continue}
		after := metav1.ListOptions{ResourceVersion: first.ResourceVersion}
		watched := func() watch.Event {
			t.Helper()
			w, err := configMaps.Watch(t.Context(), after)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			return <-w.ResultChan()
		}

		time.Sleep(4 * time.Minute)
		if list, err := configMaps.List(t.Context(), exactly); err != nil || len(list.Items) != 2 {
			t.Errorf("list at a resource version: %d items, %v", len(list.Items), err)
		}
		if list, err := configMaps.List(t.Context(), next); err != nil || len(list.Items) != 1 || list.Continue != "" {
			t.Errorf("second page: %v, %v", list, err)
		}
		if e := watched(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "c" {
			t.Errorf("watch: %+v", e)
		}

		time.Sleep(7 * time.Minute)
		gone := func(err error) bool {
			status, ok := err.(apierrors.APIStatus)
			return ok && status.Status().Code == http.StatusGone && status.Status().Reason == metav1.StatusReasonExpired
		}
		if _, err := configMaps.List(t.Context(), exactly); !gone(err) {
			t.Errorf("list at a resource version that is too old: %v", err)
		}
		_, err = configMaps.List(t.Context(), next)
		if !gone(err) {
			t.Fatalf("second page that is too old: %v", err)
		}
		next.Continue = err.(apierrors.APIStatus).Status().Continue
		if list, err := configMaps.List(t.Context(), next); err != nil || len(list.Items) != 1 || *list.RemainingItemCount != 1 {
			t.Errorf("continuing at the latest resource version: %v, %v", list, err)
		}
		if e := watched(); e.Type != watch.Error || !gone(apierrors.FromObject(e.Object)) {
			t.Errorf("watch from a resource version that is too old: %+v", e)
		}
	})
}
