package fake

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/testing"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/client/interceptor"
)

// NewFakeClient returns a client of client-go's scheme that has these objects. It panics where
// [ClientBuilder.Build] does.
func NewFakeClient(initObjs ...runtime.Object) client.WithWatch {
	return NewClientBuilder().WithRuntimeObjects(initObjs...).Build()
}

// NewClientBuilder returns a builder of a client of client-go's scheme without objects.
func NewClientBuilder() *ClientBuilder { return &ClientBuilder{} }

// ClientBuilder builds one fake client. It must not be used by several goroutines at once. Its
// methods change it and return it.
type ClientBuilder struct {
	scheme         *runtime.Scheme
	mapper         meta.RESTMapper
	objects        []runtime.Object
	withStatus     []client.Object
	tracker        testing.ObjectTracker
	interceptors   *interceptor.Funcs
	converters     []managedfields.TypeConverter
	indexes        indexes
	managedFields  bool
	globalVersions bool
	collect        bool
	server         *rest.Config // of WithServer; nil without it
	built          bool
}

// WithScheme sets the scheme of the client. By default it is client-go's. The client does not
// change it: objects of kinds that are not registered must be unstructured or metadata-only.
func (b *ClientBuilder) WithScheme(scheme *runtime.Scheme) *ClientBuilder {
	b.scheme = scheme
	return b
}

// WithRESTMapper sets the mapper that the client returns, and by which it answers whether kinds are
// namespaced. By default it knows no kind, or with [ClientBuilder.WithServer] those that
// the server has.
func (b *ClientBuilder) WithRESTMapper(restMapper meta.RESTMapper) *ClientBuilder {
	b.mapper = restMapper
	return b
}

// WithObjects adds initial objects. [ClientBuilder.Build] sets the resource version of those that
// have none in place, to 999.
func (b *ClientBuilder) WithObjects(initObjs ...client.Object) *ClientBuilder {
	for _, obj := range initObjs {
		b.objects = append(b.objects, obj)
	}
	return b
}

// WithLists adds the items of lists, as [ClientBuilder.WithObjects] does.
func (b *ClientBuilder) WithLists(initLists ...client.ObjectList) *ClientBuilder {
	for _, list := range initLists {
		b.objects = append(b.objects, list)
	}
	return b
}

// WithRuntimeObjects adds objects, and the items of lists, as [ClientBuilder.WithObjects] does.
func (b *ClientBuilder) WithRuntimeObjects(initRuntimeObjs ...runtime.Object) *ClientBuilder {
	b.objects = append(b.objects, initRuntimeObjs...)
	return b
}

// WithStatusSubresource makes the status of these objects' kinds a subresource: only writes of
// Status() change it, and those change nothing else. Most built-in kinds that have a status have
// the subresource already.
func (b *ClientBuilder) WithStatusSubresource(o ...client.Object) *ClientBuilder {
	b.withStatus = append(b.withStatus, o...)
	return b
}

// WithObjectTracker makes the client keep its objects in a tracker, which it may share with a fake
// clientset of client-go. Managed fields and server-side apply are then up to the tracker, and so
// are watches, which have the objects as the tracker has them. It cannot be combined with
// WithTypeConverters, WithGarbageCollection and WithServer.
func (b *ClientBuilder) WithObjectTracker(ot testing.ObjectTracker) *ClientBuilder {
	b.tracker = ot
	return b
}

// WithGlobalResourceVersionCounter makes every write raise one counter, which begins at 1, instead
// of one for each object.
func (b *ClientBuilder) WithGlobalResourceVersionCounter() *ClientBuilder {
	b.globalVersions = true
	return b
}

// WithIndex adds an index, which a field selector for that field uses, as it would with a cache. It
// panics if the kind has an index of that name, or is not in the scheme that is set so far.
func (b *ClientBuilder) WithIndex(
	obj runtime.Object, field string, extractValue client.IndexerFunc,
) *ClientBuilder {
	gvk, err := apiutil.GVKForObject(obj, b.schemeOrDefault())
	if err == nil {
		err = b.indexes.add(gvk, field, extractValue)
	}
	if err != nil {
		panic(err)
	}
	return b
}

// WithInterceptorFuncs makes the client call these functions in place of its methods.
func (b *ClientBuilder) WithInterceptorFuncs(interceptorFuncs interceptor.Funcs) *ClientBuilder {
	b.interceptors = &interceptorFuncs
	return b
}

// WithTypeConverters sets the converters that server-side apply and managed fields use: for each
// object the first that does not return an error. By default these are one for the kinds of
// client-go, with their merge schemas, and one that deduces a schema from the object, which does
// not merge lists.
func (b *ClientBuilder) WithTypeConverters(
	typeConverters ...managedfields.TypeConverter,
) *ClientBuilder {
	b.converters = append(b.converters, typeConverters...)
	return b
}

// WithReturnManagedFields makes the client return objects with their managed fields.
func (b *ClientBuilder) WithReturnManagedFields() *ClientBuilder {
	b.managedFields = true
	return b
}

// WithGarbageCollection makes the deletion of an object delete those that it owns and that have no
// other owner, before the call returns, or make them orphans if that is the propagation policy.
func (b *ClientBuilder) WithGarbageCollection() *ClientBuilder {
	b.collect = true
	return b
}

// WithServer makes the client one of an API server, instead of a store in memory. Nothing then
// differs from that server: there are defaults, validation, admission, UIDs, generations and
// global resource versions. In a test that is a control plane in the process:
//
//	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
//	...
//	c := fake.NewClientBuilder().WithObjects(initial...).WithServer(plane.Config()).Build()
//
// Of the initial objects, CustomResourceDefinitions and namespaces are created first, and
// namespaces that are missing too. A kind of the scheme that the server does not have gets a
// definition that allows every field; it is namespaced unless the RESTMapper has it otherwise.
// Build sets initial objects to what the server has made of them: among others, their resource
// versions and UIDs are the server's. Lists with field selectors for which there are indexes use
// these.
//
// WithServer cannot be combined with WithObjectTracker, WithTypeConverters and
// WithGarbageCollection: whether dependents are collected depends on the controllers of the
// server.
func (b *ClientBuilder) WithServer(config *rest.Config) *ClientBuilder {
	if config == nil {
		panic("WithServer needs the configuration of a client of the server")
	}
	b.server = config
	return b
}

func (b *ClientBuilder) schemeOrDefault() *runtime.Scheme {
	if b.scheme == nil {
		return clientgoscheme.Scheme
	}
	return b.scheme
}

// Build returns the client. It panics if it was called before, if options contradict each other,
// and if an initial object cannot be added: one of a kind that is not registered, one that is there
// already, or one that is being deleted and has no finalizer.
func (b *ClientBuilder) Build() client.WithWatch {
	if b.built {
		panic("Build() must not be called multiple times when creating a ClientBuilder")
	}
	b.built = true
	if err := b.validate(); err != nil {
		panic(err)
	}
	b.scheme = b.schemeOrDefault()
	var result client.WithWatch
	var err error
	if b.server != nil {
		result, err = b.serverClient()
	} else {
		result, err = b.memoryClient()
	}
	if err != nil {
		panic(err)
	}
	if b.interceptors != nil {
		result = interceptor.NewClient(result, *b.interceptors)
	}
	return result
}

func (b *ClientBuilder) validate() error {
	switch {
	case b.tracker != nil && len(b.converters) > 0:
		return errors.New("WithObjectTracker and WithTypeConverters are incompatible")
	case b.tracker != nil && b.collect:
		return errors.New("WithObjectTracker and WithGarbageCollection are incompatible")
	case b.server != nil && (b.tracker != nil || len(b.converters) > 0 || b.collect):
		return errors.New("WithServer is incompatible with WithObjectTracker, WithTypeConverters and " +
			"WithGarbageCollection")
	}
	return nil
}

// memoryClient returns a client that keeps objects in memory.
func (b *ClientBuilder) memoryClient() (*fakeClient, error) {
	c := &fakeClient{
		scheme:        b.scheme,
		mapper:        b.mapper,
		indexes:       &b.indexes,
		managedFields: b.managedFields,
		collect:       b.collect,
	}
	if c.mapper == nil {
		c.mapper = meta.NewDefaultRESTMapper(nil)
	}
	var err error
	if c.withStatus, err = b.statusKinds(); err != nil {
		return nil, err
	}
	if b.globalVersions {
		c.versions = new(uint64)
	}
	if b.tracker != nil {
		c.objects = &tracked{tracker: b.tracker}
	} else {
		c.fields = newFieldManagers(c, b.converters)
		c.objects = &store{}
	}
	for _, obj := range b.objects {
		if err := c.add(obj); err != nil {
			return nil, fmt.Errorf("failed to add %T to the fake client: %w", obj, err)
		}
	}
	return c, nil
}

// statusKinds returns the kinds with a status subresource.
func (b *ClientBuilder) statusKinds() (sets.Set[schema.GroupVersionKind], error) {
	kinds := kindsWithStatus()
	for _, obj := range b.withStatus {
		gvk, err := apiutil.GVKForObject(obj, b.scheme)
		if err != nil {
			return nil, fmt.Errorf("failed to get the kind of %T: %w", obj, err)
		}
		kinds.Insert(gvk)
	}
	return kinds, nil
}
