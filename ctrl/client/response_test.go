package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// TestKindOfUnstructuredLists checks that an unstructured list has the kind of the list afterwards, as
// with controller-runtime, even if it had that of the items, and that a metadata list keeps its own.
func TestKindOfUnstructuredLists(t *testing.T) {
	s := responding(map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": []any{}})
	c := newClient(t, s)
	for _, kind := range []string{"Pod", "PodList"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if got := list.GetKind(); got != "PodList" {
			t.Errorf("%s: the kind is %s", kind, got)
		}
	}
	s.Fail(errors.New("refused"))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := c.List(t.Context(), list); err == nil || list.GetKind() != "Pod" {
		t.Errorf("after the error %v, the kind is %s", err, list.GetKind())
	}
}

// TestResponseReplaces checks that a response replaces the content of an object completely, and
// that the object's kind is preserved.
func TestResponseReplaces(t *testing.T) {
	ctx := context.Background()
	key := client.ObjectKey{Namespace: "a", Name: "x"}
	podKind := corev1.SchemeGroupVersion.WithKind("Pod")
	s := responding(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x", "labels": map[string]any{"new": "1"}}})
	c := newClient(t, s)

	typed := pod("a", "x")
	typed.Labels = map[string]string{"old": "1"}
	typed.Spec.NodeName = "old"
	if err := c.Get(ctx, key, typed); err != nil {
		t.Fatal(err)
	}
	if typed.Spec.NodeName != "" || len(typed.Labels) != 1 || !typed.GroupVersionKind().Empty() {
		t.Errorf("typed: %v", typed)
	}
	typed.SetGroupVersionKind(podKind)
	if err := c.Get(ctx, key, typed); err != nil {
		t.Fatal(err)
	}
	if typed.GroupVersionKind() != podKind {
		t.Errorf("typed: kind is now %v", typed.GroupVersionKind())
	}

	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(podKind)
	u.SetLabels(map[string]string{"old": "1"})
	if err := c.Get(ctx, key, u); err != nil {
		t.Fatal(err)
	}
	if got := u.GetLabels(); len(got) != 1 || got["new"] != "1" || u.GroupVersionKind() != podKind {
		t.Errorf("unstructured: %v", u)
	}

	m := podMetadata("a", "x")
	m.Labels = map[string]string{"old": "1"}
	if err := c.Get(ctx, key, m); err != nil {
		t.Fatal(err)
	}
	if len(m.Labels) != 1 || m.Labels["new"] != "1" || m.GroupVersionKind() != podKind {
		t.Errorf("metadata: %v", m)
	}

	ac := corev1ac.Pod("x", "a").WithLabels(map[string]string{"old": "1"})
	if err := c.Apply(ctx, ac, client.FieldOwner("me")); err != nil {
		t.Fatal(err)
	}
	if len(ac.Labels) != 1 || ac.Labels["new"] != "1" {
		t.Errorf("apply configuration: %v", ac.Labels)
	}

	uac := u.DeepCopy()
	uac.SetLabels(map[string]string{"old": "1"})
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(uac), client.FieldOwner("me")); err != nil {
		t.Fatal(err)
	}
	if got := uac.GetLabels(); len(got) != 1 || got["new"] != "1" {
		t.Errorf("unstructured apply configuration: %v", got)
	}
}

// TestListOfMetadata checks that items of a metadata-only list have their kind.
func TestListOfMetadata(t *testing.T) {
	item := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	item.Name = "x"
	s := responding(&metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "9"},
		Items:    []metav1.PartialObjectMetadata{item},
	})
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := newClient(t, s).List(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if l.ResourceVersion != "9" || len(l.Items) != 1 || l.Items[0].Kind != "Pod" || l.Kind != "PodList" {
		t.Errorf("got %+v", l)
	}
}

// TestErrors checks that the server's errors arrive, and change nothing.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	podResource := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name string
		err  *apierrors.StatusError
		is   func(error) bool
	}{
		{"not found", apierrors.NewNotFound(podResource, "x"), apierrors.IsNotFound},
		{"conflict", apierrors.NewConflict(podResource, "x", errors.New("changed")), apierrors.IsConflict},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), apierrors.IsInvalid},
		{"exists", apierrors.NewAlreadyExists(podResource, "x"), apierrors.IsAlreadyExists},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{}
			s.Fail(tt.err)
			c := newClient(t, s)
			for _, obj := range []client.Object{pod("a", "x"), podMetadata("a", "x"), widget("a", "x")} {
				before := obj.DeepCopyObject()
				for verb, call := range map[string]func() error{
					"get":    func() error { return c.Get(ctx, client.ObjectKeyFromObject(obj), obj) },
					"patch":  func() error { return c.Patch(ctx, obj, client.Merge) },
					"delete": func() error { return c.Delete(ctx, obj) },
					"status": func() error { return c.Status().Patch(ctx, obj, client.Merge) },
				} {
					if err := call(); !tt.is(err) {
						t.Errorf("%s of %T: %v", verb, obj, err)
					}
				}
				if !equal(before, obj) {
					t.Errorf("%T changed to %v", obj, obj)
				}
			}
			ac := corev1ac.Pod("x", "a")
			if err := c.Apply(ctx, ac, client.FieldOwner("me")); !tt.is(err) {
				t.Errorf("apply: %v", err)
			}
		})
	}
}

// TestLostResource checks that a client finds a resource that has moved: one
// whose definition was deleted and created again.
func TestLostResource(t *testing.T) {
	plural := "widgets"
	m := &movingMapper{RESTMapper: mapper(), plural: &plural}
	s := &server{}
	s.Respond = func(r fakeapi.Request) (*http.Response, error) {
		if r.Path != "/apis/example.com/v1/namespaces/a/"+plural+"/x" {
			return fakeapi.JSON(http.StatusNotFound, "404 page not found"), nil
		}
		return fakeapi.JSON(http.StatusOK, widget("a", "x")), nil
	}
	c := newClient(t, s, func(o *client.Options) { o.Mapper = m })
	get := func() error {
		return c.Get(context.Background(), client.ObjectKey{Namespace: "a", Name: "x"}, widget("", ""))
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	plural = "gadgets"
	if err := get(); !apierrors.IsNotFound(err) {
		t.Fatalf("error %v, want not found", err)
	}
	if err := get(); err != nil || m.resets != 1 {
		t.Fatalf("error %v after %d resets", err, m.resets)
	}

	// That an object does not exist does not concern the resource.
	s.Fail(apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: plural}, "x"))
	if err := get(); !apierrors.IsNotFound(err) || m.resets != 1 {
		t.Errorf("error %v after %d resets", err, m.resets)
	}
}

type movingMapper struct {
	meta.RESTMapper
	plural *string
	resets int
}

func (m *movingMapper) Reset() { m.resets++ }

func (m *movingMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(gk, versions...)
	if err == nil {
		mapping.Resource.Resource = *m.plural
	}
	return mapping, err
}
