package controlplane_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// reader binds a user to a role that every cluster has.
var reader = &rbacv1.ClusterRoleBinding{
	ObjectMeta: metav1.ObjectMeta{Name: "reader"},
	RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
}

// readerOf returns a function that reports whether the user of the binding may read.
func readerOf(t testing.TB, plane *controlplane.ControlPlane) func() bool {
	t.Helper()
	config, err := plane.UserConfig(reader.Subjects[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	objects := controlplanetest.ClientFor(t, config).CoreV1().ConfigMaps("default")
	return func() bool {
		_, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		return err == nil
	}
}

// TestForkRoles: a fork shares the roles and bindings that its control plane has read, and each of the two follows its own changes.
func TestForkRoles(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	bind := func(plane *controlplane.ControlPlane) {
		t.Helper()
		if _, err := controlplanetest.ClientFor(t, plane.Config()).RbacV1().ClusterRoleBindings().Create(t.Context(), reader, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	release := func(plane *controlplane.ControlPlane) {
		t.Helper()
		if err := controlplanetest.ClientFor(t, plane.Config()).RbacV1().ClusterRoleBindings().Delete(t.Context(), reader.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(plane *controlplane.ControlPlane, what string, want bool) {
		t.Helper()
		if got := readerOf(t, plane)(); got != want {
			t.Errorf("%s: the user may read: %v, want %v", what, got, want)
		}
	}
	for i := range 3 { // with an index that was never, just now, and long ago built
		for range i {
			check(plane, "before the binding", false)
		}
		before := fork(t, plane, controlplane.ForkOptions{})
		bind(plane)
		unread := fork(t, plane, controlplane.ForkOptions{})
		for range i {
			check(plane, "with the binding", true)
		}
		with := fork(t, plane, controlplane.ForkOptions{})
		second := fork(t, with, controlplane.ForkOptions{})
		release(plane)
		check(before, "a fork from before the binding", false)
		check(unread, "a fork of a binding that nobody has read", true)
		check(with, "a fork", true)
		check(second, "a fork of a fork", true)
		release(with)
		bind(before)
		check(plane, "the control plane", false)
		check(with, "the fork without its binding", false)
		check(second, "the fork of the fork", true)
		check(before, "the fork with its own binding", true)
	}
}

// TestForkRolesWhileWriting forks while a binding comes and goes, and is read. The roles of each fork are the ones of its objects.
func TestForkRolesWhileWriting(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	bindings := controlplanetest.ClientFor(t, plane.Config()).RbacV1().ClusterRoleBindings()
	mayRead := readerOf(t, plane)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			_, err := bindings.Create(t.Context(), reader, metav1.CreateOptions{})
			for range 2 {
				mayRead()
			}
			if err == nil {
				err = bindings.Delete(t.Context(), reader.Name, metav1.DeleteOptions{})
			}
			for range 2 {
				mayRead()
			}
			select {
			case <-stop:
				done <- err
				return
			default:
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	seen := map[bool]int{}
	for i := range 60 {
		f := fork(t, plane, controlplane.ForkOptions{})
		_, err := controlplanetest.ClientFor(t, f.Config()).RbacV1().ClusterRoleBindings().Get(t.Context(), reader.Name, metav1.GetOptions{})
		if want, got := err == nil, readerOf(t, f)(); got != want {
			t.Fatalf("fork %d: the user may read: %v, but the fork has the binding: %v", i, got, want)
		}
		seen[err == nil]++
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Logf("forks with the binding: %d, without: %d", seen[true], seen[false])
}
