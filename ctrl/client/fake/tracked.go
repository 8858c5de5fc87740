package fake

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/testing"

	"flyball.dev/ctrl/client"
)

// tracked keeps objects in a tracker of client-go, which sets their managed fields if it does so at
// all. Typed objects in it have no kind, as those that a clientset writes.
type tracked struct{ tracker testing.ObjectTracker }

func (t *tracked) get(i id) (client.Object, error) {
	obj, err := t.tracker.Get(i.resource(), i.Namespace, i.Name)
	if err != nil {
		return nil, err
	}
	return asObject(obj)
}

func (t *tracked) list(gvk schema.GroupVersionKind, namespace string) ([]client.Object, error) {
	list, err := t.tracker.List(resource(gvk), gvk, namespace)
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	all := make([]client.Object, len(items))
	for i, item := range items {
		if all[i], err = asObject(item); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t *tracked) create(i id, obj client.Object, options metav1.CreateOptions) error {
	return t.tracker.Create(i.resource(), withoutKind(obj), i.Namespace, options)
}

func (t *tracked) update(i id, obj client.Object, options metav1.UpdateOptions) error {
	return t.tracker.Update(i.resource(), withoutKind(obj), i.Namespace, options)
}

func (t *tracked) delete(i id) error { return t.tracker.Delete(i.resource(), i.Namespace, i.Name) }

// apply applies a configuration as the tracker does.
func (t *tracked) apply(
	i id, config *unstructured.Unstructured, options metav1.PatchOptions,
) error {
	return t.tracker.Apply(i.resource(), config, i.Namespace, options)
}

func (t *tracked) watch(
	ctx context.Context, gvk schema.GroupVersionKind, namespace string, s selected,
) (watch.Interface, error) {
	w, err := t.tracker.Watch(resource(gvk), namespace)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, w.Stop)
	if s.all {
		return w, nil
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		obj, ok := e.Object.(client.Object)
		return e, !ok || s.matches(obj)
	}), nil
}

func asObject(obj runtime.Object) (client.Object, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the tracker has a %T, which is no object with metadata", obj)
	}
	return o, nil
}

// withoutKind removes the kind of a typed object.
func withoutKind(obj client.Object) client.Object {
	if _, ok := obj.(runtime.Unstructured); !ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return obj
}
