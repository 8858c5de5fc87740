package store_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

// podStrategy is the least that the registry asks for.
type podStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (podStrategy) NamespaceScoped() bool                                                 { return true }
func (podStrategy) AllowCreateOnUpdate(context.Context) bool                              { return false }
func (podStrategy) AllowUnconditionalUpdate(context.Context) bool                         { return true }
func (podStrategy) Canonicalize(runtime.Object)                                           {}
func (podStrategy) PrepareForCreate(context.Context, runtime.Object)                      {}
func (podStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object)      {}
func (podStrategy) Validate(context.Context, runtime.Object) field.ErrorList              { return nil }
func (podStrategy) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList { return nil }
func (podStrategy) WarningsOnCreate(context.Context, runtime.Object) []string             { return nil }
func (podStrategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string      { return nil }

// TestRegistry completes the generic registry with our options and uses it like the handlers. Nothing may outlive its
// requests.
func TestRegistry(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	backend := memory.New(memory.Options{})
	defer backend.Close()
	strategy := podStrategy{clientscheme.Scheme, names.SimpleNameGenerator}
	pods := &registry.Store{
		NewFunc:                   func() runtime.Object { return &corev1.Pod{} },
		NewListFunc:               func() runtime.Object { return &corev1.PodList{} },
		DefaultQualifiedResource:  schema.GroupResource{Resource: "pods"},
		SingularQualifiedResource: schema.GroupResource{Resource: "pod"},
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            rest.NewDefaultTableConvertor(schema.GroupResource{Resource: "pods"}),
	}
	options := store.RESTOptions(store.Options{Storage: backend, Codec: func(schema.GroupResource) runtime.Codec { return podCodec }})
	if err := pods.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		t.Fatal(err)
	}
	defer pods.Destroy()

	ctx := request.WithNamespace(t.Context(), "default")
	w, err := pods.Watch(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	if _, err := pods.Create(ctx, pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := backend.Get(ctx, "/registry/pods/default/web"); err != nil {
		t.Errorf("in the backend: %v", err)
	}
	if _, err := pods.Create(ctx, pod.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created again: %v", err)
	}
	change := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		changed := old.DeepCopyObject().(*corev1.Pod)
		changed.Labels = map[string]string{"a": "b"}
		return changed, nil
	})
	if _, _, err := pods.Update(ctx, "web", change, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	list, err := pods.List(ctx, &metainternalversion.ListOptions{})
	if err != nil || len(list.(*corev1.PodList).Items) != 1 {
		t.Errorf("listed: %v, %v", list, err)
	}
	if _, err := pods.DeleteCollection(ctx, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := pods.Get(ctx, "web", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
	expectEvents(t, w, "ADDED web@2", "MODIFIED web@3", "DELETED web@4")
	w.Stop()
	for range w.ResultChan() {
	}
}

// TestKeys compares keys with the keys of kube-apiserver.
func TestKeys(t *testing.T) {
	for want, r := range map[string]schema.GroupResource{
		"/registry/pods/ns/a":                                           {Resource: "pods"},
		"/registry/minions/ns/a":                                        {Resource: "nodes"},
		"/registry/services/specs/ns/a":                                 {Resource: "services"},
		"/registry/services/endpoints/ns/a":                             {Resource: "endpoints"},
		"/registry/controllers/ns/a":                                    {Resource: "replicationcontrollers"},
		"/registry/deployments/ns/a":                                    {Group: "apps", Resource: "deployments"},
		"/registry/ingress/ns/a":                                        {Group: "networking.k8s.io", Resource: "ingresses"},
		"/registry/roles/ns/a":                                          {Group: "rbac.authorization.k8s.io", Resource: "roles"},
		"/registry/apiregistration.k8s.io/apiservices/ns/a":             {Group: "apiregistration.k8s.io", Resource: "apiservices"},
		"/registry/apiextensions.k8s.io/customresourcedefinitions/ns/a": {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		"/registry/example.com/widgets/ns/a":                            {Group: "example.com", Resource: "widgets"},
	} {
		if got := store.Key(r, "ns", "a"); got != want {
			t.Errorf("the key of %v is %s, want %s", r, got, want)
		}
		if got, ok := store.ResourceOf(want); !ok || got.Resource != r.Resource || got.Group != r.Group && got.Group != "" {
			t.Errorf("the resource of %s is %v, %v, want %v", want, got, ok, r)
		}
	}
}
