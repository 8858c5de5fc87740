// Package cacheapi holds the interfaces of a cache's informers apart from the cache itself, for
// those who need to name them without importing it.
package cacheapi

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// Object is a Kubernetes object: something with metadata that can be encoded and deep-copied. Every
// struct that embeds TypeMeta and ObjectMeta and has a generated DeepCopyObject is one. Lists are
// not; see client.ObjectList.
type Object interface {
	metav1.Object
	runtime.Object
}

// IndexerFunc gives the values under which an object is filed in an index. Values carry no
// namespace: the cache adds it for namespaced objects. The function must not change the object and
// must depend on nothing else. For one index it is called once at a time.
type IndexerFunc func(Object) []string

// FieldIndexer adds indexes to the objects of a cache.
type FieldIndexer interface {
	// IndexField files every object of obj's kind under the values that extractValue gives for it, in
	// the index named field. A List with a field selector for exactly that field is then answered from
	// the index. When a function gives several values, an object matches if one of them does.
	IndexField(ctx context.Context, obj Object, field string, extractValue IndexerFunc) error
}

// InformerGetOptions says how an informer is obtained.
type InformerGetOptions struct {
	// BlockUntilSynced makes the call wait until the informer holds everything that the server held
	// when it began. Nil means true. Before the cache is started no call waits.
	BlockUntilSynced *bool
}

// InformerGetOption changes InformerGetOptions.
type InformerGetOption func(*InformerGetOptions)

// BlockUntilSynced sets InformerGetOptions.BlockUntilSynced.
func BlockUntilSynced(shouldBlock bool) InformerGetOption {
	return func(o *InformerGetOptions) { o.BlockUntilSynced = &shouldBlock }
}

// Informers makes, keeps and drops informers, one for each kind and representation (typed,
// unstructured, metadata only). All methods may be called from several goroutines at once.
type Informers interface {
	// GetInformer returns the informer of obj's kind, made and, once the cache runs, started if need
	// be.
	GetInformer(ctx context.Context, obj Object, opts ...InformerGetOption) (Informer, error)

	// GetInformerForKind returns the informer of the kind in the form that the scheme has for it.
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error)

	// RemoveInformer stops and forgets the informer of obj's kind, if there is one.
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

// Informer tells about the objects of one kind. All methods may be called from several goroutines
// at once.
type Informer interface {
	// AddEventHandler adds a handler with the cache's resync period. The handler hears of every object
	// that is there as an add, then of changes, one call at a time and in order.
	AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)

	// AddEventHandlerWithResyncPeriod adds a handler with a resync period of its own. Zero means no
	// resync.
	AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resyncPeriod time.Duration) (toolscache.ResourceEventHandlerRegistration, error)

	// AddEventHandlerWithOptions adds a handler with options.
	AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error)

	// RemoveEventHandler removes a handler. Removing it again does nothing.
	RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error

	// AddIndexers adds indexes by name, also while the informer runs.
	AddIndexers(indexers toolscache.Indexers) error

	// HasSynced tells whether the informer holds everything that the server held when it began.
	HasSynced() bool

	// HasSyncedChecker is HasSynced as something to wait for.
	HasSyncedChecker() toolscache.DoneChecker

	// IsStopped tells whether the informer has ended for good.
	IsStopped() bool
}
