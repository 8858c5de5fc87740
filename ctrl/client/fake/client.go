package fake

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/reflectutil"
)

// fakeClient is a client with its objects in memory, or in a tracker.
type fakeClient struct {
	scheme        *runtime.Scheme
	mapper        meta.RESTMapper
	indexes       *indexes
	withStatus    sets.Set[schema.GroupVersionKind] // with a status subresource
	managedFields bool                              // are returned
	collect       bool                              // dependents

	mu       sync.RWMutex
	objects  objects
	fields   *fieldManagers // nil if a tracker sets the managed fields
	versions *uint64        // the global resource version; nil if each object has its own
}

var _ client.WithWatch = (*fakeClient)(nil)

// Scheme implements [client.Client].
func (c *fakeClient) Scheme() *runtime.Scheme { return c.scheme }

// RESTMapper implements [client.Client].
func (c *fakeClient) RESTMapper() meta.RESTMapper { return c.mapper }

// GroupVersionKindFor implements [client.Client].
func (c *fakeClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.scheme)
}

// IsObjectNamespaced implements [client.Client].
func (c *fakeClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, c.scheme, c.mapper)
}

func (c *fakeClient) indexer() *indexes { return c.indexes }

// Get implements [client.Reader].
func (c *fakeClient) Get(
	_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption,
) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	stored, err := c.read(id{gvk, key})
	if err != nil {
		return err
	}
	return c.show(stored, obj, gvk)
}

func (c *fakeClient) read(i id) (client.Object, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects.get(i)
}

// List implements [client.Reader].
func (c *fakeClient) List(
	_ context.Context, list client.ObjectList, opts ...client.ListOption,
) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	listKind, err := c.kindOf(list)
	if err != nil {
		return err
	}
	gvk := itemKind(listKind)
	newItem, err := itemsOf(list)
	if err != nil {
		return err
	}
	all, err := c.readAll(gvk, o.Namespace)
	if err != nil {
		return err
	}
	matches, err := c.indexes.selector(gvk, o.FieldSelector, nil)
	if err != nil {
		return err
	}
	items := make([]client.Object, 0, len(all))
	for _, stored := range all {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(stored.GetLabels())) {
			continue
		}
		item := newItem()
		if err := c.show(stored, item, gvk); err != nil {
			return err
		}
		if matches(item) {
			items = append(items, item)
		}
	}
	zero(list)
	setKind(list, listKind)
	return setItems(list, items)
}

func (c *fakeClient) readAll(
	gvk schema.GroupVersionKind, namespace string,
) ([]client.Object, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objects.list(gvk, namespace)
}

// Watch implements [client.WithWatch]. The events are the events of writes from now on.
func (c *fakeClient) Watch(
	ctx context.Context, list client.ObjectList, opts ...client.ListOption,
) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	listKind, err := c.kindOf(list)
	if err != nil {
		return nil, err
	}
	what, err := c.selected(itemKind(listKind), list, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects.watch(ctx, itemKind(listKind), o.Namespace, what)
}

// selected returns what a watch with these selectors selects. The objects of the watch are like the
// items of the list.
func (c *fakeClient) selected(
	gvk schema.GroupVersionKind, list client.ObjectList, l labels.Selector, f fields.Selector,
) (selected, error) {
	newItem, err := itemsOf(list)
	if err != nil {
		return selected{}, err
	}
	if _, typed := newItem().(runtime.Unstructured); !typed && !isMetadata(list) {
		newItem = func() client.Object { return c.newObject(gvk) }
	}
	matches, err := c.indexes.selector(gvk, f, metadataFields)
	if err != nil {
		return selected{}, err
	}
	if l == nil {
		l = labels.Everything()
	}
	allFields := f == nil || f.Empty()
	s := selected{all: l.Empty() && allFields}
	s.convert = func(stored client.Object) client.Object {
		item := newItem()
		stored = copyOf(stored)
		if c.show(stored, item, gvk) != nil {
			return stored // what cannot be represented otherwise
		}
		return item
	}
	s.matches = func(stored client.Object) bool {
		return l.Matches(labels.Set(stored.GetLabels())) && (allFields || matches(s.convert(stored)))
	}
	return s, nil
}

// kindOf returns the kind of an object or list that is not nil.
func (c *fakeClient) kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	if reflectutil.IsNil(obj) {
		return schema.GroupVersionKind{}, fmt.Errorf("the object must not be nil, but is a %T", obj)
	}
	return apiutil.GVKForObject(obj, c.scheme)
}

// itemKind returns the kind of the items of a list. gvk may be this kind already.
func itemKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return gvk
}

// newObject returns an empty object of the Go type that objects of a kind are stored in: the
// type of the scheme, or unstructured if there is none.
func (c *fakeClient) newObject(gvk schema.GroupVersionKind) client.Object {
	if obj, err := c.scheme.New(gvk); err == nil {
		if o, ok := obj.(client.Object); ok && !isMetadata(obj) {
			return o
		}
	}
	return &unstructured.Unstructured{}
}

func isMetadata(obj runtime.Object) bool {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return true
	}
	return false
}

// stored returns a copy of an object as it is stored, with its kind.
func (c *fakeClient) stored(
	obj runtime.Object, gvk schema.GroupVersionKind,
) (client.Object, error) {
	to := c.newObject(gvk)
	if err := convert(obj, to); err != nil {
		return nil, err
	}
	to.GetObjectKind().SetGroupVersionKind(gvk)
	return to, nil
}

// show sets obj to what a client sees of a stored object, which it takes over.
func (c *fakeClient) show(stored, obj client.Object, gvk schema.GroupVersionKind) error {
	from, to := reflect.ValueOf(stored), reflect.ValueOf(obj)
	if c.fields != nil && from.Type() == to.Type() {
		to.Elem().Set(from.Elem())
	} else {
		stored.GetObjectKind().SetGroupVersionKind(gvk)
		if err := convert(stored, obj); err != nil {
			return err
		}
	}
	if !c.managedFields {
		obj.SetManagedFields(nil)
	}
	setKind(obj, gvk)
	return nil
}

// setKind sets the kind of an object or list, or removes it if that is typed.
func setKind(obj runtime.Object, gvk schema.GroupVersionKind) {
	if _, ok := obj.(runtime.Unstructured); !ok && !isMetadata(obj) {
		gvk = schema.GroupVersionKind{}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
}
