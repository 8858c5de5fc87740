package admission

import (
	"context"
	"sync"

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
	// Changed returns a function that reports whether any object of a resource may have been
	// written since its last call; the first call returns true. It is safe for concurrent use.
	Changed(schema.GroupResource) func() bool
	// Kind returns the resource of a kind, or false if it is not served.
	Kind(schema.GroupVersionKind) (Kind, bool)
}

// Kind is a kind that is served.
type Kind struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// TypeConverter converts objects of the kind, for server-side apply.
	TypeConverter managedfields.TypeConverter
}

// maxCached bounds how many objects of a resource are cached.
const maxCached = 1024

// stored reads objects of one resource. It caches them until any object of the resource is written,
// and a read always sees the writes before it.
type stored[T runtime.Object] struct {
	objects  Objects
	resource schema.GroupVersionResource
	changed  func() bool
	// info is put into the context of reads, so that errors name the object that is read and not
	// that of the request.
	info *request.RequestInfo

	mu    sync.Mutex
	cache map[types.NamespacedName]T
}

func newStored[T runtime.Object](o Objects, r schema.GroupVersionResource) *stored[T] {
	return &stored[T]{
		objects: o, resource: r, changed: o.Changed(r.GroupResource()), cache: map[types.NamespacedName]T{},
		info: &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: r.Group, APIVersion: r.Version,
			Resource: r.Resource},
	}
}

func (s *stored[T]) scope(ctx context.Context, namespace string) context.Context {
	return request.WithNamespace(request.WithRequestInfo(ctx, s.info), namespace)
}

// get returns an object, which is shared and must not be changed.
func (s *stored[T]) get(ctx context.Context, namespace, name string) (T, error) {
	return s.cached(types.NamespacedName{Namespace: namespace, Name: name}, func() (T, error) {
		var none T
		storage, ok := s.objects.Storage(s.resource).(rest.Getter)
		if !ok {
			return none, errors.NewNotFound(s.resource.GroupResource(), name)
		}
		obj, err := storage.Get(s.scope(ctx, namespace), name, &metav1.GetOptions{})
		if err != nil {
			return none, err
		}
		return obj.(T), nil
	})
}

// cached returns the object that is cached under the key, or else loads it.
func (s *stored[T]) cached(key types.NamespacedName, load func() (T, error)) (T, error) {
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

// each calls yield with every object in a namespace, or in all. The objects must not be changed.
func (s *stored[T]) each(ctx context.Context, namespace string, yield func(T)) error {
	storage, ok := s.objects.Storage(s.resource).(rest.Lister)
	if !ok {
		return nil
	}
	list, err := storage.List(s.scope(ctx, namespace), &internalversion.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		yield(obj.(T))
		return nil
	})
}

// await waits for an object to exist. It returns NotFound when ctx ends first.
func (s *stored[T]) await(ctx context.Context, namespace, name string) (T, error) {
	var none T
	notFound := errors.NewNotFound(s.resource.GroupResource(), name)
	storage, ok := s.objects.Storage(s.resource).(rest.Watcher)
	if !ok {
		return none, notFound
	}
	// The watch begins with ADDED events for the objects that exist already.
	w, err := storage.Watch(s.scope(ctx, namespace),
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
			obj, err := s.get(ctx, namespace, name)
			if !errors.IsNotFound(err) {
				return obj, err
			}
		}
	}
}
