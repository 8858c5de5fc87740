package store

import (
	"path"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"flyball.dev/storage"
)

// deleteWorkers is how many objects of a collection are deleted at once.
const deleteWorkers = 4

// RESTOptions makes upstream's generic registry, and what is built on it such as the storage of
// custom resources, keep objects in backend. codec returns the stored encoding of a resource; a
// caller may replace it in the StorageConfig of the options that it gets. Objects are under
// /GROUP/RESOURCE, or /core/RESOURCE in the core group. deletionDelay is that of [Config]. Nothing
// is started.
func RESTOptions(backend storage.Store, codec func(schema.GroupResource) runtime.Codec,
	deletionDelay time.Duration) generic.RESTOptionsGetter {
	return &restOptions{backend, codec, deletionDelay}
}

// restOptions implements generic.RESTOptionsGetter.
type restOptions struct {
	backend       storage.Store
	codec         func(schema.GroupResource) runtime.Codec
	deletionDelay time.Duration
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.Config{Codec: o.codec(resource)}
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               o.open,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		ResourcePrefix:          prefix(resource),
	}, nil
}

// prefix returns what the keys of a resource begin with, without the first slash.
func prefix(resource schema.GroupResource) string {
	group := resource.Group
	if group == "" {
		group = "core"
	}
	return group + "/" + resource.Resource
}

// Key returns the key of an object. The namespace of one without is "".
func Key(resource schema.GroupResource, namespace, name string) string {
	return path.Join("/", prefix(resource), namespace, name)
}

// open is the generic.StorageDecorator.
func (o *restOptions) open(config *storagebackend.ConfigForResource, prefix string,
	_ func(runtime.Object) (string, error),
	newObject, _ func() runtime.Object, _ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers,
) (apistorage.Interface, factory.DestroyFunc, error) {
	c := Config{Codec: config.Codec, Prefix: prefix, New: newObject, DeletionDelay: o.deletionDelay}
	return New(o.backend, c), func() {}, nil
}
