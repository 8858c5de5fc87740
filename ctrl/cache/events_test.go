package cache_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/testserver"
)

// events collects the objects of events.
func events(t *testing.T, c cache.Cache, of client.Object) <-chan client.Object {
	t.Helper()
	i, err := c.GetInformer(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	objs := make(chan client.Object, 10)
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { objs <- obj.(client.Object) },
		UpdateFunc: func(_, obj any) { objs <- obj.(client.Object) },
		DeleteFunc: func(obj any) { objs <- obj.(client.Object) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return objs
}

// The object of an event equals the response to the write, whether the event comes from the initial
// list, from the watch or from the store. Objects that are read have their kind set in addition.
func TestEventsEqualResponses(t *testing.T) {
	newSecret := map[string]func() client.Object{
		"typed": func() client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"a": nil}}
		},
		"unstructured": func() client.Object {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret",
				"metadata": map[string]any{"namespace": "default", "name": "s"},
				"data":     map[string]any{"a": ""},
			}}
		},
	}
	for name, obj := range newSecret {
		for _, listed := range []bool{true, false} {
			t.Run(map[bool]string{true: name + ", listed", false: name + ", watched"}[listed], func(t *testing.T) {
				testserver.Test(t, func(t *testing.T) {
					testEventsEqualResponses(t, obj(), listed)
				})
			})
		}
	}
}

// testEventsEqualResponses writes an object and compares events and reads with the responses.
func testEventsEqualResponses(t *testing.T, obj client.Object, listed bool) {
	c, informers := startControlPlane(t)
	var objs <-chan client.Object
	if !listed {
		objs = events(t, informers, obj)
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if listed {
		objs = events(t, informers, obj)
	}
	same := func(got client.Object) {
		t.Helper()
		if !reflect.DeepEqual(got, obj) {
			t.Errorf("event (-), response (+):\n%s", cmp.Diff(got, obj))
		}
	}
	same(<-objs)
	obj.SetLabels(map[string]string{"a": "b"})
	if err := c.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	same(<-objs)
	testserver.Wait()
	same(<-events(t, informers, obj)) // of a handler that is added later

	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	read.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	for _, opts := range [][]client.GetOption{nil, {client.UnsafeDisableDeepCopy}} {
		if err := informers.Get(t.Context(), client.ObjectKeyFromObject(obj), read, opts...); err != nil {
			t.Fatal(err)
		}
		if kind := read.GetObjectKind().GroupVersionKind(); kind != corev1.SchemeGroupVersion.WithKind("Secret") {
			t.Errorf("the object that was read has the kind %q", kind)
		}
	}
	same(<-events(t, informers, obj)) // after a read that shared the object

	version := obj.GetResourceVersion()
	if err := c.Delete(context.WithoutCancel(t.Context()), obj); err != nil {
		t.Fatal(err)
	}
	gone := <-objs
	if gone.GetResourceVersion() == version {
		t.Error("the deletion did not change the resource version")
	}
	obj.SetResourceVersion(gone.GetResourceVersion())
	same(gone)
}
