// Package cache keeps the objects that a program reads in memory and up to date by watching the API
// server.
//
// A kind is listed and watched from its first use on. Its objects are kept in one store, which is
// indexed by namespace, by the labels that reads select by, and by the fields of IndexField. Typed,
// unstructured and metadata-only readers of a kind each have a store of their own.
//
// The caller owns the objects that a read returns, unless deep copies are disabled. Only the text
// of managed fields is shared, so replace it with SetRawBytes or SetRawString and never write into
// it. The objects of events are shared and must not be modified. Typed ones have no apiVersion and
// kind there, as in responses to writes; the objects of reads have both. Programs that write
// through a client with this cache read their own writes immediately, before the watch delivers
// them; see package client for the exact guarantee. After some writes the next read takes a
// request. Events come from the watch alone.
//
// Lists are ordered by namespace and name. Each event handler is called with one event at a time,
// in order, on a goroutine of its own. While a handler is busy, further changes of an object
// coalesce into its pending notification, but no deletion is ever omitted. Start returns after all
// goroutines of the cache have ended.
//
// An informer of the cache is a SharedIndexInformer of client-go, so client-go's listers read its
// GetIndexer. The objects that these return are shared and must not be modified, as in client-go; a
// write of this process is in them immediately. The store of an informer is read-only.
//
// # Structure
//
//	server → internal/wire → internal/reflector → internal/store (internal/compact) → internal/listener → handler
//
// Package wire decodes, package reflector decides about lists and watches, and a partition is its sink: the share of an
// informer that one list and watch covers, one namespace or all namespaces. Package store keeps the objects, packed by
// package compact, and package listener calls an event handler.
//
// There is no switch between hot and cold kinds. Packed objects are faster to read than decoded ones, except for short
// slices and maps of plain values, and for reads without a deep copy. For these, a decoded value is kept beside the
// packed one as long as it is read every few minutes. KeepDecoded overrides this.
package cache

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/cacheapi"
	"flyball.dev/ctrl/client"
)

// AllNamespaces, as a key of a map of namespaces, means all namespaces without a key of their own.
const AllNamespaces = metav1.NamespaceAll

// Cache reads objects from memory and notifies event handlers of their changes. All methods are
// safe for concurrent use.
type Cache interface {
	// Reader reads from memory. A kind is watched from the first read on.
	client.Reader

	// Informers manages the informers, which keep the objects in memory.
	Informers
}

// Types of cacheapi that are part of the API of this package.
type (
	// Informers is cacheapi.Informers.
	Informers = cacheapi.Informers
	// Informer is cacheapi.Informer.
	Informer = cacheapi.Informer
	// InformerGetOptions is cacheapi.InformerGetOptions.
	InformerGetOptions = cacheapi.InformerGetOptions
	// InformerGetOption is cacheapi.InformerGetOption.
	InformerGetOption = cacheapi.InformerGetOption
)

// BlockUntilSynced is cacheapi.BlockUntilSynced.
func BlockUntilSynced(shouldBlock bool) InformerGetOption {
	return cacheapi.BlockUntilSynced(shouldBlock)
}

// NewCacheFunc creates a cache. New is one.
type NewCacheFunc func(config *rest.Config, opts Options) (Cache, error)

// Options are the options of a cache. The zero Options caches all kinds that are used, in all
// namespaces.
//
// Of the settings that exist on several levels, the most specific one that is set applies:
// ByObject.Namespaces, ByObject, DefaultNamespaces, Default*.
type Options struct {
	// HTTPClient sends the requests. Nil creates one from the rest config.
	HTTPClient *http.Client

	// Scheme maps Go types to kinds. Nil means client-go's scheme.
	Scheme *runtime.Scheme

	// Mapper maps kinds to resources. Nil creates one that uses discovery.
	Mapper meta.RESTMapper

	// SyncPeriod is the resync period, with a jitter of 10 %: how often handlers are called with every
	// object again, as an update from itself to itself. A resync makes no requests. Nil means 10
	// hours, zero disables resyncs.
	SyncPeriod *time.Duration

	// ReaderFailOnMissingInformer makes Get and List of a kind without an informer fail with
	// ErrResourceNotCached instead of starting one.
	ReaderFailOnMissingInformer bool

	// DefaultNamespaces, if not empty, restricts the cache to these namespaces. Cluster-scoped kinds
	// are not affected.
	DefaultNamespaces map[string]Config

	// DefaultLabelSelector restricts the cache to objects that match.
	DefaultLabelSelector labels.Selector

	// DefaultFieldSelector restricts the cache to objects that match. The server must support the
	// fields for every kind that is cached.
	DefaultFieldSelector fields.Selector

	// DefaultTransform transforms every object before it is stored. It owns the object that is passed
	// to it and returns the one to store. It must not change name, namespace, UID and resource
	// version, nor labels that are used in selectors. Calls for one kind are serialized, across
	// representations and namespaces; calls for different kinds or caches are concurrent. It is called
	// on goroutines of the cache and of writers. It should not read or write objects of its own kind:
	// such a call waits for the transform itself, and gives up after one second.
	DefaultTransform toolscache.TransformFunc

	// DefaultWatchErrorHandler is called with every error of a list or watch, before the cache backs
	// off. Nil logs the errors. The Reflector that it gets has a name and a type only and must not be
	// run.
	DefaultWatchErrorHandler toolscache.WatchErrorHandlerWithContext

	// DefaultUnsafeDisableDeepCopy makes reads return the objects that the cache itself holds. They
	// are shared with all other readers and must not be modified.
	DefaultUnsafeDisableDeepCopy *bool

	// DefaultKeepDecoded selects the objects that are kept as decoded Go values beside the packed
	// ones: true keeps all, false keeps none. Nil, the recommended setting, keeps three sorts of
	// objects: objects that are read without a deep copy, until they change or have not been read this
	// way for some minutes; objects that consist of long lists of structs for the most part, as long as they
	// are read; and all objects of a kind with deep copies disabled. A Go value takes about ten times the
	// memory of the packed object, and benefits only reads without a deep copy: the others are faster
	// from the packed object. Flyball only.
	DefaultKeepDecoded *bool

	// OnMutation enables the mutation detector. It is called when a shared object was modified: one of
	// an event, or of a read without a deep copy. PanicOnMutation is one. It is meant for tests: the
	// cache keeps a copy of each such object, and compares both when a handler returns, when the
	// object is read again, and when the cache stops. OnMutation is called from several goroutines
	// concurrently. Nil disables the detector, unless the environment variable
	// KUBE_CACHE_MUTATION_DETECTOR is true: then mutations panic. Flyball only.
	OnMutation func(Mutation)

	// DefaultEnableWatchBookmarks requests watch bookmarks, so that the watch of a kind that changes
	// rarely can be resumed without a new list. Nil means true.
	DefaultEnableWatchBookmarks *bool

	// ByObject holds settings by kind. The keys are objects that carry their kind, either by Go type
	// or by a set apiVersion and kind; the settings apply to all representations of the kind.
	ByObject map[client.Object]ByObject

	// NewInformer creates custom informers, for example in tests. A custom informer replaces the lists
	// and watches of the cache only: reads, handlers and resyncs do not use it, and GetInformer does
	// not return it.
	NewInformer func(
		toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
	) toolscache.SharedIndexInformer
}

// ByObject holds the settings of one kind. Config describes the fields that it shares.
type ByObject struct {
	// Namespaces restricts the kind to these namespaces. Nil means Options.DefaultNamespaces, an empty
	// map all namespaces. It must be nil for a cluster-scoped kind.
	Namespaces map[string]Config

	// Label is Config.LabelSelector.
	Label labels.Selector

	// Field is Config.FieldSelector.
	Field fields.Selector

	Transform             toolscache.TransformFunc
	UnsafeDisableDeepCopy *bool
	EnableWatchBookmarks  *bool
	SyncPeriod            *time.Duration

	// KeepDecoded is Options.DefaultKeepDecoded for the kind. Flyball only.
	KeepDecoded *bool
}

// Config holds the settings of one namespace. Nil fields are taken from the next level. Options
// describes the settings.
type Config struct {
	// LabelSelector is Options.DefaultLabelSelector for the namespace. labels.Everything() removes the
	// default.
	LabelSelector labels.Selector

	// FieldSelector is Options.DefaultFieldSelector for the namespace. fields.Everything() removes the
	// default.
	FieldSelector fields.Selector

	// Transform is Options.DefaultTransform for the namespace. A function that returns its argument
	// removes the default.
	Transform toolscache.TransformFunc

	UnsafeDisableDeepCopy *bool
	EnableWatchBookmarks  *bool
	SyncPeriod            *time.Duration
}

// ErrCacheNotStarted is returned by reads before Start.
type ErrCacheNotStarted struct{}

func (*ErrCacheNotStarted) Error() string {
	return "the cache is not started, can not read objects"
}

// ErrResourceNotCached is returned by reads of a kind without an informer if
// Options.ReaderFailOnMissingInformer is set.
type ErrResourceNotCached struct {
	GVK schema.GroupVersionKind
}

func (e ErrResourceNotCached) Error() string {
	return e.GVK.String() + " is not cached"
}

// TransformStripManagedFields returns a transform that removes metadata.managedFields, which few
// controllers read.
func TransformStripManagedFields() toolscache.TransformFunc {
	return func(in any) (any, error) {
		if obj, err := meta.Accessor(in); err == nil && obj.GetManagedFields() != nil {
			obj.SetManagedFields(nil)
		}
		return in, nil
	}
}
