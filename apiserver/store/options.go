package store

import (
	"context"
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

// deleteWorkers is the number of objects that DeleteCollection deletes concurrently.
const deleteWorkers = 4

// Options configure the stores of all resources.
type Options struct {
	// Storage keeps the objects.
	Storage storage.Store
	// Codec returns the stored encoding of a resource.
	Codec func(schema.GroupResource) runtime.Codec
	// DeletionDelay is [Config].DeletionDelay for all resources.
	DeletionDelay time.Duration
	// Require is [Config].Require for all resources. It may be nil.
	Require Requirement
}

// Requirement returns the conditions for the creation of an object; see [Config].
type Requirement func(ctx context.Context, resource schema.GroupResource, namespace, name string) ([]storage.Condition, error)

// RESTOptions makes the generic registry, and storages built on it such as the storage of custom resources, keep
// objects in a storage. Objects are under /GROUP/RESOURCE, or /core/RESOURCE in the core group. A caller may replace
// the codec in the StorageConfig of the returned options. RESTOptions starts no goroutines.
func RESTOptions(o Options) generic.RESTOptionsGetter { return &restOptions{o} }

// restOptions implements generic.RESTOptionsGetter.
type restOptions struct{ Options }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.Config{Codec: o.Codec(resource)}
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               o.open,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		ResourcePrefix:          prefix(resource),
	}, nil
}

// prefix returns the prefix of the keys of a resource, without the leading slash.
func prefix(resource schema.GroupResource) string {
	group := resource.Group
	if group == "" {
		group = "core"
	}
	return group + "/" + resource.Resource
}

// Path returns the path of all objects of a resource.
func Path(resource schema.GroupResource) string { return "/" + prefix(resource) + "/" }

// Key returns the key of an object. The namespace of a cluster-scoped object is "".
func Key(resource schema.GroupResource, namespace, name string) string {
	return path.Join("/", prefix(resource), namespace, name)
}

// open is the generic.StorageDecorator of the options.
func (o *restOptions) open(config *storagebackend.ConfigForResource, prefix string,
	_ func(runtime.Object) (string, error),
	newObject, _ func() runtime.Object, _ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers,
) (apistorage.Interface, factory.DestroyFunc, error) {
	c := Config{Codec: config.Codec, Prefix: prefix, New: newObject, DeletionDelay: o.DeletionDelay}
	if resource := config.GroupResource; o.Require != nil {
		c.Require = func(ctx context.Context, namespace, name string) ([]storage.Condition, error) {
			return o.Require(ctx, resource, namespace, name)
		}
	}
	return New(o.Storage, c), func() {}, nil
}
