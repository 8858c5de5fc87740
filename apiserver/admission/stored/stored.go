// Package stored gives admission plugins access to the objects in the store.
//
// A read sees all earlier writes, so that no plugin decides by stale objects.
//
// The package does not import client-go's informer factories, because it would compile over a thousand functions then, and
// so would each package that imports it.
//
// The objects of a resource are cached until the next write of that resource.
//
//upstream:none Kubernetes gives its plugins client-go's informers, which this package replaces.
package stored

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Objects gives access to stored objects.
type Objects interface {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage(schema.GroupVersionResource) rest.Storage
	// Status returns the storage of a resource's status, or nil if there is none.
	Status(schema.GroupVersionResource) rest.Storage
	// Changed returns a function that reports whether any object of a resource may have been written since its last
	// call; the first call returns true. The function is safe for concurrent use.
	Changed(schema.GroupResource) func() bool
	// Kind returns the resource of a kind, or false if it is not served.
	Kind(schema.GroupVersionKind) (Kind, bool)
}

// Kind is a served kind.
type Kind struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// TypeConverter converts objects of the kind, for server-side apply.
	TypeConverter managedfields.TypeConverter
}

// maxCached is the maximum number of cached objects of a resource.
const maxCached = 1024

// Reader reads objects of one resource, and caches them until any object of the resource is written.
type Reader[T runtime.Object] struct {
	objects  Objects
	resource schema.GroupVersionResource
	changed  func() bool
	// info replaces the RequestInfo of the context, so that errors name the object that is read.
	info *request.RequestInfo

	mu    sync.Mutex
	cache map[types.NamespacedName]T
}

// NewReader returns a reader of the objects of a resource.
func NewReader[T runtime.Object](o Objects, r schema.GroupVersionResource) *Reader[T] {
	return &Reader[T]{
		objects: o, resource: r, changed: o.Changed(r.GroupResource()), cache: map[types.NamespacedName]T{},
		info: &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: r.Group, APIVersion: r.Version,
			Resource: r.Resource},
	}
}

// Namespaces reads namespaces.
type Namespaces struct{ *Reader[*corev1.Namespace] }

// NewNamespaces returns a reader of namespaces.
func NewNamespaces(o Objects) Namespaces {
	return Namespaces{NewReader[*corev1.Namespace](o, corev1.SchemeGroupVersion.WithResource("namespaces"))}
}

// Resource returns the resource of the objects.
func (s *Reader[T]) Resource() schema.GroupVersionResource { return s.resource }

// Storage returns the storage of the resource, or nil if the resource is not served.
func (s *Reader[T]) Storage() rest.Storage { return s.objects.Storage(s.resource) }

// Scope returns the context for a call to the storage. The call is independent of the current request.
func (s *Reader[T]) Scope(ctx context.Context, namespace string) context.Context {
	return request.WithNamespace(request.WithRequestInfo(ctx, s.info), namespace)
}

// Get returns an object. The object is shared and must not be changed.
func (s *Reader[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return s.Cached(types.NamespacedName{Namespace: namespace, Name: name}, func() (T, error) {
		var none T
		storage, ok := s.objects.Storage(s.resource).(rest.Getter)
		if !ok {
			return none, errors.NewNotFound(s.resource.GroupResource(), name)
		}
		obj, err := storage.Get(s.Scope(ctx, namespace), name, &metav1.GetOptions{})
		if err != nil {
			return none, err
		}
		return obj.(T), nil
	})
}

// Cached returns the cached object for key, or loads and caches it.
func (s *Reader[T]) Cached(key types.NamespacedName, load func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed() || len(s.cache) >= maxCached {
		clear(s.cache)
	}
	if obj, ok := s.cache[key]; ok {
		return obj, nil
	}
	obj, err := load()
	if err == nil {
		s.cache[key] = obj
	}
	return obj, err
}

// Each calls yield with every object in a namespace. An empty namespace means all namespaces. The objects must not be
// changed.
func (s *Reader[T]) Each(ctx context.Context, namespace string, yield func(T)) error {
	storage, ok := s.objects.Storage(s.resource).(rest.Lister)
	if !ok {
		return nil
	}
	list, err := storage.List(s.Scope(ctx, namespace), &internalversion.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		yield(obj.(T))
		return nil
	})
}

// Await waits until an object exists. It returns NotFound if ctx ends first.
func (s *Reader[T]) Await(ctx context.Context, namespace, name string) (T, error) {
	var none T
	notFound := errors.NewNotFound(s.resource.GroupResource(), name)
	storage, ok := s.objects.Storage(s.resource).(rest.Watcher)
	if !ok {
		return none, notFound
	}
	// The watch begins with ADDED events for the existing objects.
	w, err := storage.Watch(s.Scope(ctx, namespace),
		&internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return none, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return none, notFound
		case event, ok := <-w.ResultChan():
			switch {
			case !ok:
				return none, notFound
			case event.Type == watch.Error:
				return none, errors.FromObject(event.Object)
			case event.Type != watch.Added:
				continue
			}
			obj, err := s.Get(ctx, namespace, name)
			if !errors.IsNotFound(err) {
				return obj, err
			}
		}
	}
}
