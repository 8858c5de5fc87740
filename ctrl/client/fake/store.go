package fake

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
)

// id identifies an object.
type id struct {
	gvk schema.GroupVersionKind
	types.NamespacedName
}

// resource returns the resource of a kind, as far as its name tells.
func resource(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural
}

func (i id) resource() schema.GroupVersionResource { return resource(i.gvk) }

func (i id) notFound() error { return apierrors.NewNotFound(i.resource().GroupResource(), i.Name) }

// objects keep the objects of a client: in memory, or in a tracker. The client serializes writes,
// and excludes reads meanwhile. Objects that are passed and returned belong to the receiver.
type objects interface {
	// get returns an object, or the error that it was not found.
	get(i id) (client.Object, error)
	// list returns the objects of a kind in a namespace, or in all if it is empty, ordered by namespace
	// and name.
	list(gvk schema.GroupVersionKind, namespace string) ([]client.Object, error)
	// create adds an object, or returns the error that it exists.
	create(i id, obj client.Object, options metav1.CreateOptions) error
	// update replaces an object that exists.
	update(i id, obj client.Object, options metav1.UpdateOptions) error
	// delete deletes an object that exists.
	delete(i id) error
	// watch returns the events of a kind that a watch selects, from now on.
	watch(ctx context.Context, gvk schema.GroupVersionKind, namespace string, s selected) (watch.Interface, error)
}

// selected is what a watch selects, and how its events represent the objects.
type selected struct {
	all     bool // matches is not needed
	matches func(client.Object) bool
	convert func(client.Object) client.Object
}

// store keeps objects in memory. What it keeps is never changed.
type store struct {
	kinds map[schema.GroupVersionKind]*collection
}

// collection has the objects and the watchers of one kind.
type collection struct {
	objects  map[types.NamespacedName]client.Object
	watchers []*watcher
}

func (s *store) collection(gvk schema.GroupVersionKind) *collection {
	c := s.kinds[gvk]
	if c == nil {
		c = &collection{objects: map[types.NamespacedName]client.Object{}}
		if s.kinds == nil {
			s.kinds = map[schema.GroupVersionKind]*collection{}
		}
		s.kinds[gvk] = c
	}
	return c
}

func (s *store) get(i id) (client.Object, error) {
	if c := s.kinds[i.gvk]; c != nil && c.objects[i.NamespacedName] != nil {
		return copyOf(c.objects[i.NamespacedName]), nil
	}
	return nil, i.notFound()
}

func (s *store) list(gvk schema.GroupVersionKind, namespace string) ([]client.Object, error) {
	c := s.kinds[gvk]
	if c == nil {
		return nil, nil
	}
	var all []client.Object
	for _, key := range slices.SortedFunc(maps.Keys(c.objects), compareKeys) {
		if namespace == "" || key.Namespace == namespace {
			all = append(all, copyOf(c.objects[key]))
		}
	}
	return all, nil
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (s *store) create(i id, obj client.Object, _ metav1.CreateOptions) error {
	c := s.collection(i.gvk)
	if c.objects[i.NamespacedName] != nil {
		return apierrors.NewAlreadyExists(i.resource().GroupResource(), i.Name)
	}
	c.put(i.NamespacedName, obj)
	return nil
}

func (s *store) update(i id, obj client.Object, _ metav1.UpdateOptions) error {
	s.collection(i.gvk).put(i.NamespacedName, obj)
	return nil
}

func (s *store) delete(i id) error {
	c := s.kinds[i.gvk]
	if c == nil || c.objects[i.NamespacedName] == nil {
		return i.notFound()
	}
	last := c.objects[i.NamespacedName]
	delete(c.objects, i.NamespacedName)
	c.notify(last, nil)
	return nil
}

// put sets an object and notifies the watchers.
func (c *collection) put(key types.NamespacedName, obj client.Object) {
	before := c.objects[key]
	c.objects[key] = obj
	c.notify(before, obj)
}

func (s *store) watch(
	ctx context.Context, gvk schema.GroupVersionKind, namespace string, what selected,
) (watch.Interface, error) {
	w := newWatcher(ctx, namespace, what)
	c := s.collection(gvk)
	c.watchers = append(c.watchers, w)
	return w, nil
}

// notify sends the event of a write to the watchers that have not ended. before is nil for a
// creation, and now for a deletion.
func (c *collection) notify(before, now client.Object) {
	c.watchers = slices.DeleteFunc(c.watchers, (*watcher).ended)
	for _, w := range c.watchers {
		was, is := w.selects(before), w.selects(now)
		switch {
		case was && is:
			w.send(watch.Modified, now)
		case is:
			w.send(watch.Added, now)
		case was && now == nil:
			w.send(watch.Deleted, before)
		case was: // the selector does not match any more
			last := copyOf(before)
			last.SetResourceVersion(now.GetResourceVersion())
			w.send(watch.Deleted, last)
		}
	}
}

func copyOf(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }
