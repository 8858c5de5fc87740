package controller

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/client/interceptor"
	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
)

func TestIsProtected(t *testing.T) {
	for namespace, want := range map[string]bool{
		"default": true, "kube-system": true, "kube-public": true, "kube-anything": true,
		"defaults": false, "kubernetes": false, "my-kube-system": false, "shop": false,
	} {
		if got := isProtected(namespace); got != want {
			t.Errorf("isProtected(%q) = %t", namespace, got)
		}
	}
}

// newReconciler returns a reconciler for the objects, with a recorder of its events.
func newReconciler(t *testing.T, objects ...client.Object) (*ApplicationNamespaceReconciler, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, tenancyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&tenancyv1.ApplicationNamespace{}).Build()
	recorder := events.NewFakeRecorder(10)
	return &ApplicationNamespaceReconciler{Client: c, Live: c, Scheme: scheme, Recorder: recorder}, recorder
}

// TestProtectedWithoutTheDefinition reconciles an object that the definition of the kind would have
// refused.
func TestProtectedWithoutTheDefinition(t *testing.T) {
	app := &tenancyv1.ApplicationNamespace{ObjectMeta: metav1.ObjectMeta{Name: "greedy"},
		Spec: tenancyv1.ApplicationNamespaceSpec{NamespaceName: "kube-system"}}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	r, recorder := newReconciler(t, app, system)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(app)})
	if err != nil || !result.IsZero() {
		t.Fatalf("got %v, %v", result, err)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, tenancyv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != tenancyv1.ReasonProtected {
		t.Errorf("Ready is %v", ready)
	}
	after := &corev1.Namespace{}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(system), after); err != nil {
		t.Fatal(err)
	}
	if len(after.OwnerReferences) > 0 {
		t.Errorf("the owners of kube-system are %v", after.OwnerReferences)
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+tenancyv1.ReasonProtected) {
		t.Errorf("event %q", event)
	}
}

// TestReleaseWithAStaleCache deletes an ApplicationNamespace while the cache does not show that it
// owns the Namespace.
func TestReleaseWithAStaleCache(t *testing.T) {
	app := &tenancyv1.ApplicationNamespace{
		ObjectMeta: metav1.ObjectMeta{Name: "app", UID: "1", Finalizers: []string{Finalizer}},
		Spec:       tenancyv1.ApplicationNamespaceSpec{NamespaceName: "shop", DeletionPolicy: tenancyv1.Retain}}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	r, _ := newReconciler(t, app, ns)
	if err := ctrl.SetControllerReference(app, ns, r.Scheme); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if ns, ok := o.(*corev1.Namespace); ok {
				*ns = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(app)}); err != nil {
		t.Fatal(err)
	}
	if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
		t.Fatal(err)
	}
	if len(ns.OwnerReferences) > 0 {
		t.Errorf("the owners are %v, so the Namespace is garbage collected", ns.OwnerReferences)
	}
	if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(app), app); !apierrors.IsNotFound(err) {
		t.Errorf("the ApplicationNamespace: %v", err)
	}
}
