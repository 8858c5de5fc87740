// Package cache keeps the objects that a program reads in memory, as the API
// server's watches tell of them.
//
// A kind is listed and then watched from its first use on. Its objects stand in
// one store, indexed by namespace, by the labels that are asked for and by the
// fields that IndexField names. Typed, unstructured and metadata-only readers of
// a kind each have a store of their own, holding objects in their form.
//
// What a read returns belongs to the caller, unless deep copies were switched
// off; only the text of managed fields is shared, so it is replaced by SetRawBytes
// or SetRawString and never written into. Objects in events are shared and must
// not be changed; typed ones have no apiVersion and kind there, as in the answers
// to writes, while those that are read have. The reads of a program that writes
// through a client over this cache see what was written at once, before the watch
// brings it back; package client says exactly what is included. For some writes the
// next read takes a request. Events come from the watch alone.
//
// Lists are ordered by namespace and name. Handlers are called one event at a
// time, in order, each on a goroutine of its own; what happens to an object
// while a handler is busy is merged into as few events as tell it all, but no
// deletion is ever left out. Start returns after everything that the cache
// started has ended.
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

// AllNamespaces, as the key of a namespace map, stands for every namespace
// that has no key of its own.
const AllNamespaces = metav1.NamespaceAll

// Cache reads objects from memory and tells of their changes. All methods may
// be called from several goroutines at once.
type Cache interface {
	// Reader reads from memory. A kind is watched from the first read on.
	client.Reader

	// Informers are the sources of what is in memory.
	Informers
}

// Names of cacheapi that belong to a cache's surface.
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

// NewCacheFunc makes a cache. New is one.
type NewCacheFunc func(config *rest.Config, opts Options) (Cache, error)

// Options says what a cache keeps and how. The zero Options keeps everything
// that is asked for, from all namespaces.
//
// Of the settings that exist on several levels, the most special one that is
// set applies: ByObject.Namespaces, ByObject, DefaultNamespaces, Default*.
type Options struct {
	// HTTPClient carries the requests. Nil makes one from the rest config.
	HTTPClient *http.Client

	// Scheme maps Go types to kinds. Nil means that of client-go.
	Scheme *runtime.Scheme

	// Mapper maps kinds to resources. Nil makes one that asks the server.
	Mapper meta.RESTMapper

	// SyncPeriod is the time, give or take 10 %, after which handlers are told
	// of every object again as an update from itself to itself. It does not
	// talk to the server. Nil means 10 hours, zero never.
	SyncPeriod *time.Duration

	// ReaderFailOnMissingInformer makes Get and List of a kind without an
	// informer fail with ErrResourceNotCached instead of starting one.
	ReaderFailOnMissingInformer bool

	// DefaultNamespaces, if not empty, restricts the cache to these namespaces.
	// Cluster-scoped kinds are not affected.
	DefaultNamespaces map[string]Config

	// DefaultLabelSelector restricts the cache to objects that match.
	DefaultLabelSelector labels.Selector

	// DefaultFieldSelector restricts the cache to objects that match. The
	// server must support the fields for every kind that is cached.
	DefaultFieldSelector fields.Selector

	// DefaultTransform changes every object before it is kept. It owns the
	// object that it is given and returns the one to keep. It must leave name,
	// namespace, UID and resource version alone, and labels as well if they are
	// to be selected by. For one kind it is called once at a time, whatever the
	// form and the namespace; a function that transforms several kinds, or for
	// several caches, is called for them at once and must be safe for that. It is
	// called on goroutines of the cache and of those who write, and should not
	// read or write objects of its own kind: it has to wait for itself then, and
	// gives up after a second.
	DefaultTransform toolscache.TransformFunc

	// DefaultWatchErrorHandler is told of every error of a list or watch,
	// before the cache backs off and tries again. Nil logs them. Its Reflector
	// carries the name and the type only; it must not be run.
	DefaultWatchErrorHandler toolscache.WatchErrorHandlerWithContext

	// DefaultUnsafeDisableDeepCopy hands out the objects that the cache itself
	// holds. Whoever changes one of them breaks everybody else's reads.
	DefaultUnsafeDisableDeepCopy *bool

	// DefaultKeepDecoded says what is kept of an object beside its packed form:
	// true keeps a Go value of every object, false keeps none. Nil, which suits
	// most, keeps those that were read without a deep copy until they change or
	// nobody has read them so for some minutes, and all of a kind for which deep
	// copies are off. A Go value takes about ten times the memory of the packed
	// form, and only reads without a deep copy gain by it: the others take less
	// time from the packed form. Flyball only.
	DefaultKeepDecoded *bool

	// OnMutation is told when an object is found to be changed that is shared: one
	// of an event, or of a read without a deep copy. PanicOnMutation is one. It is
	// meant for tests: the cache keeps a copy of each such object, and compares
	// when a handler returns, when the object is read again, and when the cache
	// stops. OnMutation is called from several goroutines at once. Nil looks for
	// nothing, at no cost, unless the environment variable
	// KUBE_CACHE_MUTATION_DETECTOR is true: then it panics. Flyball only.
	OnMutation func(Mutation)

	// DefaultEnableWatchBookmarks asks the server for bookmarks, which keep a
	// watch of a quiet kind from having to begin anew. Nil means true.
	DefaultEnableWatchBookmarks *bool

	// ByObject holds settings by kind. The keys are objects that carry their
	// kind, either by Go type or by a set apiVersion and kind; the settings
	// apply to all representations of the kind.
	ByObject map[client.Object]ByObject

	// NewInformer makes informers of another kind than the cache's own, as for a
	// test. Such an informer only tells the cache what there is: reads, handlers
	// and resyncs are the cache's own, and GetInformer does not return it.
	NewInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
}

// ByObject holds the settings of one kind. For the fields that Config has too,
// see there.
type ByObject struct {
	// Namespaces restricts the kind to these namespaces. Nil means those of
	// Options.DefaultNamespaces, an empty map all namespaces. It must be nil
	// for a cluster-scoped kind.
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

// Config holds the settings of one namespace. What is nil is taken from the
// next level; see Options, where the settings are described.
type Config struct {
	// LabelSelector is Options.DefaultLabelSelector for the namespace. Use
	// labels.Everything() to override a default by nothing.
	LabelSelector labels.Selector

	// FieldSelector is Options.DefaultFieldSelector for the namespace. Use
	// fields.Everything() to override a default by nothing.
	FieldSelector fields.Selector

	// Transform is Options.DefaultTransform for the namespace. Use a function
	// that returns its argument to override a default by nothing.
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

// TransformStripManagedFields returns a transform that drops
// metadata.managedFields, which take a large part of an object's memory and
// which few controllers read.
func TransformStripManagedFields() toolscache.TransformFunc {
	return func(in any) (any, error) {
		if obj, err := meta.Accessor(in); err == nil && obj.GetManagedFields() != nil {
			obj.SetManagedFields(nil)
		}
		return in, nil
	}
}
