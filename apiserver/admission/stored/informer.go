package stored

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

// Informer holds all objects of one resource, indexed by namespace. It has no goroutine: callers bring it up to date
// with [Informer.Sync] before they read it. It implements only the methods of [cache.SharedIndexInformer] that the
// plugins of k8s.io/apiserver call.
type Informer[T runtime.Object] struct {
	cache.SharedIndexInformer
	reader  *Reader[T]
	indexer cache.Indexer

	mu       sync.Mutex
	synced   bool // the indexer was filled after the last change
	some     bool // the indexer has objects
	handlers []cache.ResourceEventHandler
}

// NewInformer returns an informer of the objects of a resource.
func NewInformer[T runtime.Object](o Objects, r schema.GroupVersionResource) *Informer[T] {
	return &Informer[T]{
		reader:  NewReader[T](o, r),
		indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
}

// Sync reads the objects if any was written since the last call, calls the event handlers, and reports whether there
// are any objects.
func (i *Informer[T]) Sync(ctx context.Context) (some bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reader.changed() {
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

// read updates the indexer. The caller holds the lock.
func (i *Informer[T]) read(ctx context.Context) error {
	gone := map[string]any{}
	for _, obj := range i.indexer.List() {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		gone[key] = obj
	}
	var updates []func(cache.ResourceEventHandler)
	err := i.reader.Each(ctx, "", func(obj T) {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		old, known := gone[key]
		delete(gone, key)
		switch {
		case !known:
			updates = append(updates, func(h cache.ResourceEventHandler) { h.OnAdd(obj, false) })
		case VersionOf(old) != VersionOf(obj):
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

// VersionOf returns the UID and the resource version of an object. Objects with the same name and equal versions are
// equal.
func VersionOf(obj any) [2]string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return [2]string{}
	}
	return [2]string{string(m.GetUID()), m.GetResourceVersion()}
}

// AddEventHandler implements [cache.SharedIndexInformer]. Sync calls the handler.
func (i *Informer[T]) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	for _, obj := range i.indexer.List() {
		h.OnAdd(obj, true)
	}
	return registration{}, nil
}

func (i *Informer[T]) HasSynced() bool           { return true }
func (i *Informer[T]) GetIndexer() cache.Indexer { return i.indexer }
func (i *Informer[T]) GetStore() cache.Store     { return i.indexer }

// registration is the registration of an event handler. It has always synced.
type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

// Resource returns the resource of the objects.
func (i *Informer[T]) Resource() schema.GroupVersionResource { return i.reader.resource }

// Scope is [Reader.Scope].
func (i *Informer[T]) Scope(ctx context.Context, namespace string) context.Context {
	return i.reader.Scope(ctx, namespace)
}

// In returns the objects of a namespace, or of all namespaces if the namespace is empty, sorted by name.
func (i *Informer[T]) In(namespace string) []T {
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
