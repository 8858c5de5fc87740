package background

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestSeed checks that the objects in a new storage are valid, and equal to objects created with validation.
func TestSeed(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	serve := func() (c *Controllers, stop func(), _ storage.Store) {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { store.Close() })
		c, stop = start(t, store, Authentication{})
		return c, stop, store
	}
	get := func(c *Controllers, o bootstrapObject) metav1.Object {
		t.Helper()
		ctx := request.WithNamespace(context.Background(), o.object.GetNamespace())
		obj, err := c.objects.registry(o.resource).(rest.Getter).Get(ctx, o.object.GetName(), &metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", o.resource.Resource, err)
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	seeded, _, _ := serve()
	validated, stop, store := serve()
	stop() // it would create the deleted objects
	page, err := store.Range(t.Context(), storage.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range page.Records {
		if _, err := store.Delete(t.Context(), record.Key, storage.Any); err != nil {
			t.Fatal(err)
		}
	}
	objects := validated.bootstrapObjects()
	if len(objects) < 150 {
		t.Errorf("there are %d objects", len(objects))
	}
	for _, o := range objects {
		if err := create(validated, o.resource, o.object); err != nil {
			t.Fatalf("%s %s: %v", o.resource.Resource, o.object.GetName(), err)
		}
		got, want := get(seeded, o), get(validated, o)
		if got.GetUID() == "" || got.GetResourceVersion() == "" || got.GetCreationTimestamp().Time.Before(began) {
			t.Errorf("%s %s lacks metadata", o.resource.Resource, o.object.GetName())
		}
		for _, m := range []metav1.Object{got, want} {
			m.SetUID("")
			m.SetResourceVersion("")
			m.SetCreationTimestamp(metav1.Time{})
			fields := m.GetManagedFields()
			for i := range fields {
				fields[i].Time = nil
			}
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s %s: %s", o.resource.Resource, o.object.GetName(), diff.Diff(want, got))
		}
	}
}

// create creates an object of the server's own by its registry, with validation.
func create(c *Controllers, gvr schema.GroupVersionResource, obj kinds.Object) error {
	r, ok := c.config.Catalog.Snapshot().Lookup(gvr)
	if !ok {
		return errors.NewNotFound(gvr.GroupResource(), obj.GetName())
	}
	builtin.Scheme().Default(obj)
	r.ManagedFields.Update(nil, obj, managedfields.Write{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate})
	_, err := r.Storage.(rest.Creater).Create(request.WithNamespace(own(), obj.GetNamespace()),
		obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	return err
}

// TestPolicyIsReconciled checks that a server adds the missing parts of its policy to an existing storage, and keeps
// additions and objects with autoupdate=false.
func TestPolicyIsReconciled(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	bindings := rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	get := func(c *Controllers, gvr schema.GroupVersionResource, name string) runtime.Object {
		t.Helper()
		obj, err := c.objects.registry(gvr).(rest.Getter).Get(context.Background(), name, &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/mine"}}
	first, stop := start(t, store, Authentication{})
	change := func(gvr schema.GroupVersionResource, name string, f func(runtime.Object)) {
		t.Helper()
		if err := first.objects.replace(gvr, "", name, f); err != nil {
			t.Fatal(err)
		}
	}
	change(roles, "system:discovery", func(obj runtime.Object) {
		obj.(*rbacv1.ClusterRole).Rules = []rbacv1.PolicyRule{extra}
	})
	change(roles, "system:basic-user", func(obj runtime.Object) {
		r := obj.(*rbacv1.ClusterRole)
		r.Rules = nil
		r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	})
	change(bindings, "system:discovery", func(obj runtime.Object) { obj.(*rbacv1.ClusterRoleBinding).Subjects = nil })
	untouched := get(first, roles, "cluster-admin").(*rbacv1.ClusterRole).ResourceVersion
	stop()
	second, stop := start(t, store, Authentication{})
	defer stop()
	if got := get(second, roles, "system:discovery").(*rbacv1.ClusterRole).Rules; len(got) < 2 || len(got[0].NonResourceURLs) != 1 {
		t.Errorf("system:discovery has the rules %v", got)
	}
	if got := get(second, roles, "system:basic-user").(*rbacv1.ClusterRole).Rules; len(got) != 0 {
		t.Errorf("system:basic-user has the rules %v", got)
	}
	if got := get(second, bindings, "system:discovery").(*rbacv1.ClusterRoleBinding).Subjects; len(got) != 1 {
		t.Errorf("system:discovery is bound to %v", got)
	}
	if got := get(second, roles, "cluster-admin").(*rbacv1.ClusterRole).ResourceVersion; got != untouched {
		t.Errorf("cluster-admin was written")
	}
}

// TestRolesAreBootstrappedOnce: as in kube-apiserver, roles are created at the start only.
func TestRolesAreBootstrappedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, Authentication{})
		roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
		k.delete(roles, "", "cluster-admin")
		<-time.After(time.Hour)
		if k.get(roles, "", "cluster-admin") != nil {
			t.Error("cluster-admin has come back")
		}
	})
}
