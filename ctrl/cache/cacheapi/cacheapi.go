// Package cacheapi declares the interfaces of a cache's informers, for packages that cannot import
// package cache itself.
package cacheapi

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// Object is a Kubernetes object: it has metadata and can be encoded and deep-copied. Every struct
// that embeds TypeMeta and ObjectMeta and has a generated DeepCopyObject is one. Lists are not; see
// client.ObjectList.
type Object interface {
	metav1.Object
	runtime.Object
}

// IndexerFunc returns the values under which an object is indexed. They do not contain the
// namespace: the cache adds it for namespaced objects. The function must not modify the object, and
// its result must depend on the object alone. Calls for one index are serialized.
type IndexerFunc func(Object) []string

// FieldIndexer adds indexes to the objects of a cache.
type FieldIndexer interface {
	// IndexField adds an index named field to the objects of obj's kind, by the values that
	// extractValue returns. A List with a field selector for exactly that field then uses the index.
	// If a function returns several values, an object matches if one of them does.
	IndexField(ctx context.Context, obj Object, field string, extractValue IndexerFunc) error
}

// InformerGetOptions are the options of GetInformer and GetInformerForKind.
type InformerGetOptions struct {
	// BlockUntilSynced makes the call wait until the informer has synced. Nil means true. Before the
	// cache is started no call waits.
	BlockUntilSynced *bool
}

// InformerGetOption modifies InformerGetOptions.
type InformerGetOption func(*InformerGetOptions)

// BlockUntilSynced sets InformerGetOptions.BlockUntilSynced.
func BlockUntilSynced(shouldBlock bool) InformerGetOption {
	return func(o *InformerGetOptions) { o.BlockUntilSynced = &shouldBlock }
}

// Informers manages informers, one per kind and representation (typed, unstructured, metadata
// only). All methods are safe for concurrent use.
type Informers interface {
	// GetInformer returns the informer of obj's kind. If there is none, it is created, and started if
	// the cache is.
	GetInformer(ctx context.Context, obj Object, opts ...InformerGetOption) (Informer, error)

	// GetInformerForKind returns the informer of the kind in the representation that the scheme has
	// for it.
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error)

	// RemoveInformer stops and removes the informer of obj's kind, if there is one, with its handlers,
	// indexes and settings. A read that waits for it starts another one, which has the same indexes and
	// settings.
	RemoveInformer(ctx context.Context, obj Object) error

	// Start runs all informers, present and future, until ctx is done, and returns when all of them
	// have ended.
	Start(ctx context.Context) error

	// WaitForCacheSync waits until every informer that exists has synced. It returns false if ctx was
	// done first.
	WaitForCacheSync(ctx context.Context) bool

	// FieldIndexer adds indexes to informers.
	FieldIndexer
}

// Informer notifies event handlers of the objects of one kind. All methods are safe for concurrent
// use. The informers of package cache are toolscache.SharedIndexInformers too.
type Informer interface {
	// AddEventHandler adds a handler with the cache's resync period. The handler is called with an add
	// for every existing object, then with changes, one call at a time and in order.
	AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)

	// AddEventHandlerWithResyncPeriod adds a handler with its own resync period. Zero disables
	// resyncs.
	AddEventHandlerWithResyncPeriod(
		handler toolscache.ResourceEventHandler, resyncPeriod time.Duration,
	) (toolscache.ResourceEventHandlerRegistration, error)

	// AddEventHandlerWithOptions adds a handler with options.
	AddEventHandlerWithOptions(
		handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
	) (toolscache.ResourceEventHandlerRegistration, error)

	// RemoveEventHandler removes a handler. Removing it again does nothing.
	RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error

	// AddIndexers adds indexes by name, also while the informer runs. If there is an index by one of
	// the names, none is added.
	AddIndexers(indexers toolscache.Indexers) error

	// HasSynced reports whether the initial list is complete.
	HasSynced() bool

	// HasSyncedChecker returns a DoneChecker for HasSynced.
	HasSyncedChecker() toolscache.DoneChecker

	// IsStopped reports whether the informer has stopped. It cannot be started again.
	IsStopped() bool
}
