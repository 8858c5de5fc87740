package admission

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// informer has all objects of one resource, for upstream's plugins. It has no goroutine: it is
// brought up to date by sync, before it is read, so that a plugin never decides by stale objects.
// Of [cache.SharedIndexInformer] it has only the methods that these plugins use.
type informer[T runtime.Object] struct {
	cache.SharedIndexInformer
	stored  *stored[T]
	indexer cache.Indexer

	mu       sync.Mutex
	synced   bool // the indexer was filled after the last change
	some     bool // the indexer has objects
	handlers []cache.ResourceEventHandler
}

func newInformer[T runtime.Object](o Objects, r schema.GroupVersionResource) *informer[T] {
	return &informer[T]{
		stored:  newStored[T](o, r),
		indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
}

// sync reads the objects if any was written since the last call, calls the event handlers, and
// reports whether there are any objects.
func (i *informer[T]) sync(ctx context.Context) (some bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stored.changed() {
		i.synced = false
	}
	if !i.synced {
		if err := i.read(context.WithoutCancel(ctx)); err != nil {
			return false, err
		}
		i.synced, i.some = true, len(i.indexer.ListKeys()) > 0
	}
	return i.some, nil
}

// read updates the indexer. The lock is held.
func (i *informer[T]) read(ctx context.Context) error {
	gone := map[string]any{}
	for _, obj := range i.indexer.List() {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		gone[key] = obj
	}
	var updates []func(cache.ResourceEventHandler)
	err := i.stored.each(ctx, "", func(obj T) {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		old, known := gone[key]
		delete(gone, key)
		switch {
		case !known:
			updates = append(updates, func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
		case versionOf(old) != versionOf(obj):
			updates = append(updates, func(h cache.ResourceEventHandler) { h.OnUpdate(old, obj) })
		default:
			return
		}
		_ = i.indexer.Update(obj) // fails only for objects without metadata
	})
	if err != nil {
		return err
	}
	for _, obj := range gone {
		_ = i.indexer.Delete(obj)
		updates = append(updates, func(h cache.ResourceEventHandler) { h.OnDelete(obj) })
	}
	for _, update := range updates {
		for _, h := range i.handlers {
			update(h)
		}
	}
	return nil
}

// versionOf returns what is different in two objects of the same name.
func versionOf(obj any) [2]string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return [2]string{}
	}
	return [2]string{string(m.GetUID()), m.GetResourceVersion()}
}

// AddEventHandler implements [cache.SharedIndexInformer]. The handler is called by sync.
func (i *informer[T]) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	for _, obj := range i.indexer.List() {
		h.OnAdd(obj, true)
	}
	return registration{}, nil
}

func (i *informer[T]) HasSynced() bool           { return true }
func (i *informer[T]) GetIndexer() cache.Indexer { return i.indexer }
func (i *informer[T]) GetStore() cache.Store     { return i.indexer }

// registration is that of an event handler of a synced informer.
type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

// in returns the objects of a namespace in the order of their names.
func (i *informer[T]) in(namespace string) []T {
	found, _ := i.indexer.ByIndex(cache.NamespaceIndex, namespace) // fails only without the index
	list := make([]T, len(found))
	for n, obj := range found {
		list[n] = obj.(T)
	}
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return list
}

func nameOf(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}
