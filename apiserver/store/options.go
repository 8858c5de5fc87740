package store

import (
	"context"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
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
	// Default is [Config].Default for all resources. It may be nil.
	Default func(runtime.Object)
	// DeletionDelay is [Config].DeletionDelay for all resources.
	DeletionDelay time.Duration
	// Require is [Config].Require for all resources. It may be nil.
	Require Requirement
	// Transformers encrypt the stored objects. It may be nil.
	Transformers value.ResourceTransformers
	// CacheWeakly is [Config].CacheWeakly for all resources.
	CacheWeakly bool
	// Owners, if not nil, makes the stores share decoded objects with all stores of the same resources that have the same
	// Owners, in this server and in forks of it.
	Owners *Owners
}

// Owners makes stores over forks of one storage share the objects that they decode from shared records. The stores of a
// resource must have equivalent codecs. The zero value is ready to use.
type Owners struct{ owners sync.Map } // of *owner by ownerKey

// ownerKey identifies equivalent stores.
type ownerKey struct {
	prefix string
	object reflect.Type
}

// share makes a store use the owner of the stores that are equivalent to it.
func (o *Owners) share(s *Store) {
	if o == nil {
		return
	}
	shared, _ := o.owners.LoadOrStore(ownerKey{s.prefix, reflect.TypeOf(s.newObject())}, s.owner)
	s.owner = shared.(*owner)
}

// Requirement returns the conditions for the creation of an object; see [Config].
type Requirement func(ctx context.Context, resource schema.GroupResource, namespace, name string) ([]storage.Condition, error)

// RESTOptions makes the generic registry, and storages built on it such as the storage of custom resources, keep
// objects in a storage, under the keys of kube-apiserver. A caller may replace the codec in the StorageConfig of the
// returned options. RESTOptions starts no goroutines.
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

// root is the prefix of all keys. It is the default of kube-apiserver's flag --etcd-prefix.
const root = "/registry"

// Root is the path of all objects.
const Root = root + "/"

// builtinGroups are the groups of kube-apiserver itself. Keys of their resources do not contain the group.
var builtinGroups = sets.New("", "admissionregistration.k8s.io", "apps", "authentication.k8s.io",
	"authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io",
	"discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
	"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
	"scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io")

// specialPrefixes has the prefixes of resources that once had other names.
//
//upstream:pkg/kubeapiserver.SpecialDefaultResourcePrefixes
var specialPrefixes = map[schema.GroupResource]string{
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// prefix returns the prefix of the keys of a resource. The keys are the same as in kube-apiserver, kube-aggregator
// and apiextensions-apiserver.
//
//upstream:k8s.io/apiserver/pkg/server/storage.DefaultStorageFactory.ResourcePrefix
func prefix(resource schema.GroupResource) string {
	if special, ok := specialPrefixes[resource]; ok {
		return path.Join(root, special)
	}
	if builtinGroups.Has(resource.Group) {
		return path.Join(root, resource.Resource)
	}
	return path.Join(root, resource.Group, resource.Resource)
}

// Path returns the path of all objects of a resource.
func Path(resource schema.GroupResource) string { return prefix(resource) + "/" }

// Key returns the key of an object. The namespace of a cluster-scoped object is "".
func Key(resource schema.GroupResource, namespace, name string) string {
	return path.Join(prefix(resource), namespace, name)
}

// Transformer returns the transformer of a resource, or nil if there are no transformers. An object that it cannot read is
// corrupt.
func Transformer(all value.ResourceTransformers, resource schema.GroupResource) value.Transformer {
	if all == nil {
		return nil
	}
	t := all.TransformerForResource(resource)
	if t == nil || !tellsCorrupt() {
		return t
	}
	return interpreting{t}
}

// ResourceOf returns the resource of a key, and false for a key of no object. The group of a built-in resource is
// empty, because keys do not have it.
func ResourceOf(key string) (schema.GroupResource, bool) {
	for resource := range specialPrefixes {
		if strings.HasPrefix(key, Path(resource)) {
			return schema.GroupResource{Resource: resource.Resource}, true
		}
	}
	rest, ok := strings.CutPrefix(key, root+"/")
	if !ok {
		return schema.GroupResource{}, false
	}
	first, rest, ok := strings.Cut(rest, "/")
	if !strings.Contains(first, ".") {
		return schema.GroupResource{Resource: first}, ok
	}
	second, _, ok := strings.Cut(rest, "/")
	return schema.GroupResource{Group: first, Resource: second}, ok
}

// hasWatchCache reports whether kube-apiserver has a watch cache of a resource.
//
//upstream:pkg/kubeapiserver.DefaultWatchCacheSizes
func hasWatchCache(resource schema.GroupResource) bool {
	return resource != schema.GroupResource{Resource: "events"} && resource != schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
}

// open is the generic.StorageDecorator of the options.
func (o *restOptions) open(config *storagebackend.ConfigForResource, prefix string,
	_ func(runtime.Object) (string, error),
	newObject, _ func() runtime.Object, _ apistorage.AttrFunc, indexed apistorage.IndexerFuncs, _ *cache.Indexers,
) (apistorage.Interface, factory.DestroyFunc, error) {
	c := Config{Codec: config.Codec, Default: o.Default, Prefix: prefix, New: newObject, DeletionDelay: o.DeletionDelay,
		Resource: config.GroupResource, Transformer: Transformer(o.Transformers, config.GroupResource),
		Indexed: slices.Sorted(maps.Keys(indexed)), CacheWeakly: o.CacheWeakly, WatchCache: hasWatchCache(config.GroupResource)}
	if resource := config.GroupResource; o.Require != nil {
		c.Require = func(ctx context.Context, namespace, name string) ([]storage.Condition, error) {
			return o.Require(ctx, resource, namespace, name)
		}
	}
	s := New(storage.Partition(o.Storage, prefix+"/"), c)
	o.Owners.share(s)
	return s, func() {}, nil
}
