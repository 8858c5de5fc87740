package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/examples/internal/example"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1beta1"
	"flyball.dev/examples/versions/config"
	"flyball.dev/examples/versions/internal/controller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// objects is the number of Proxies of the tests: three pages.
const objects = 5

var request = ctrl.Request{NamespacedName: types.NamespacedName{Name: controller.ProxyDefinition}}

// newWorld starts a control plane with Proxies that are stored in v1beta1, and makes v1 the storage
// version. Their fields have the same names in both, so that no webhook is needed.
func newWorld(t *testing.T) (*example.World, context.Context) {
	t.Helper()
	ctx := t.Context()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	builder := runtime.NewSchemeBuilder(apiextensionsv1.AddToScheme, v1beta1.AddToScheme, v1.AddToScheme)
	w, err := example.NewWorld(ctx, &example.Example{Name: "migration", Config: config.Files, AddToScheme: builder.AddToScheme}, plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	store(ctx, t, w, "v1beta1")
	for i := range objects {
		proxy := &v1beta1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("p-%d", i)}}
		proxy.Spec.Host = "host"
		if err := w.Client.Create(ctx, proxy); err != nil {
			t.Fatal(err)
		}
	}
	store(ctx, t, w, "v1")
	return w, ctx
}

// definition reads the definition.
func definition(ctx context.Context, t *testing.T, w *example.World) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.Client.Get(ctx, request.NamespacedName, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// store makes a version the storage version.
func store(ctx context.Context, t *testing.T, w *example.World, version string) {
	t.Helper()
	crd := definition(ctx, t, w)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
	}
	if err := w.Client.Update(ctx, crd); err != nil {
		t.Fatal(err)
	}
}

// reconciler returns a reconciler and its events. A function changes the patches of the reconciler.
func reconciler(w *example.World, before func(client.Object) error) (*controller.StorageVersionReconciler, *events.FakeRecorder) {
	c := interceptor.NewClient(w.Client, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object,
		patch client.Patch, opts ...client.PatchOption) error {
		if before != nil {
			if err := before(obj); err != nil {
				return err
			}
		}
		return c.Patch(ctx, obj, patch, opts...)
	}})
	recorder := events.NewFakeRecorder(10)
	return &controller.StorageVersionReconciler{Client: c, APIReader: w.Client, Recorder: recorder, PageSize: 2}, recorder
}

// versionsOf returns the resource versions of all Proxies by name.
func versionsOf(ctx context.Context, t *testing.T, w *example.World) map[string]string {
	t.Helper()
	list := &v1.ProxyList{}
	if err := w.Client.List(ctx, list); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range list.Items {
		all[p.Name] = p.ResourceVersion
	}
	return all
}

// TestMigrate has a user who writes one object and deletes another while they are rewritten.
func TestMigrate(t *testing.T) {
	w, ctx := newWorld(t)
	if got := definition(ctx, t, w).Status.StoredVersions; !slices.Contains(got, "v1beta1") || !slices.Contains(got, "v1") {
		t.Fatalf("the stored versions are %v", got)
	}
	before := versionsOf(ctx, t, w)
	rewritten := 0
	r, recorder := reconciler(w, func(obj client.Object) error {
		rewritten++
		other := &v1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
		switch obj.GetName() {
		case "p-1":
			return w.Client.Patch(ctx, other, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		case "p-2":
			return w.Client.Delete(ctx, other)
		}
		return nil
	})
	if _, err := r.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	if got := definition(ctx, t, w).Status.StoredVersions; !slices.Equal(got, []string{"v1"}) || rewritten != objects {
		t.Errorf("the stored versions are %v, %d objects were rewritten", got, rewritten)
	}
	after := versionsOf(ctx, t, w)
	for name, version := range after {
		if version == before[name] {
			t.Errorf("%s was not rewritten", name)
		}
	}
	if len(after) != objects-1 {
		t.Errorf("there are %d objects", len(after))
	}
	if want := fmt.Sprintf("%s StorageVersionMigrated %d objects are stored in version v1, and none in another version",
		corev1.EventTypeNormal, objects); <-recorder.Events != want {
		t.Errorf("the event is not %q", want)
	}
	// Nothing is left to be done.
	if _, err := r.Reconcile(ctx, request); err != nil || rewritten != objects {
		t.Errorf("%v, %d objects were rewritten", err, rewritten)
	}
}

// TestMigrateAgain has an error in the middle of a migration, and a storage version that changes
// during the next one: no version is removed before all objects are stored in another one.
func TestMigrateAgain(t *testing.T) {
	w, ctx := newWorld(t)
	unavailable := apierrors.NewServiceUnavailable("the API server is down")
	r, _ := reconciler(w, func(obj client.Object) error {
		if obj.GetName() == "p-3" {
			return unavailable
		}
		return nil
	})
	stored := func(want ...string) {
		t.Helper()
		got := slices.Sorted(slices.Values(definition(ctx, t, w).Status.StoredVersions))
		if !slices.Equal(got, want) {
			t.Errorf("the stored versions are %v, want %v", got, want)
		}
	}
	if _, err := r.Reconcile(ctx, request); err != unavailable {
		t.Errorf("got %v", err)
	}
	stored("v1", "v1beta1")
	middle := versionsOf(ctx, t, w)

	r, _ = reconciler(w, func(obj client.Object) error {
		if obj.GetName() == "p-4" {
			store(ctx, t, w, "v1beta1")
		}
		return nil
	})
	if _, err := r.Reconcile(ctx, request); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	stored("v1", "v1beta1")
	if after := versionsOf(ctx, t, w); after["p-0"] != middle["p-0"] || after["p-3"] == middle["p-3"] {
		t.Errorf("the resource versions were %v and are %v", middle, after)
	}

	r, _ = reconciler(w, nil)
	if _, err := r.Reconcile(ctx, request); err != nil {
		t.Error(err)
	}
	stored("v1beta1")
}
