package kinds

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	endpoint "k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/resource"
)

var metadataPath = field.NewPath("metadata")

// Options configure the resources of the built-in kinds.
type Options struct {
	// Scheme has the Go types of the kinds, with their defaults, and Codecs their encodings.
	Scheme *runtime.Scheme
	Codecs runtime.NegotiatedSerializer
	// Storage returns the storage of a resource.
	Storage generic.RESTOptionsGetter
	// TypeConverter is for managed fields and server-side apply.
	TypeConverter upstream.TypeConverter
	// Authorizer is for handlers that check a second permission.
	Authorizer authorizer.UnconditionalAuthorizer
	// Guards return an error if the user of a request may not write an object of a resource,
	// because of what it contains. On create, old is nil or an empty object.
	Guards map[schema.GroupResource]func(ctx context.Context, obj, old runtime.Object) error
	// Warnings, if not nil, returns further warnings for a write of an object; old is nil on create.
	Warnings func(obj, old runtime.Object) []string
	// More are further subresources, by resource and name.
	More map[schema.GroupResource]map[string]rest.Storage
	// MaxRequestBodyBytes bounds a request's body.
	MaxRequestBodyBytes int64
	// FieldManagers, if not nil, shares the field managers with other servers that have the same options.
	FieldManagers *FieldManagers
	// OnReset, if not nil, is called with functions that must be called when the storage has returned
	// to an earlier state, while there are no writes. It must be safe for concurrent use.
	OnReset func(reset func())
}

// Resources returns the resources of the kinds. Each kind must be registered in o.Scheme.
func Resources(o Options, kinds []Kind) ([]*resource.Resource, error) {
	return newInstaller(o).install(kinds)
}

// installer makes resources of kinds.
type installer struct {
	Options
	parameters  runtime.ParameterCodec
	equivalents runtime.EquivalentResourceRegistry
	resources   []*resource.Resource
}

func newInstaller(o Options) *installer {
	return &installer{Options: o, parameters: runtime.NewParameterCodec(o.Scheme), equivalents: runtime.NewEquivalentResourceRegistry()}
}

// install returns the resources of the kinds.
func (i *installer) install(kinds []Kind) ([]*resource.Resource, error) {
	i.resources = nil
	for _, kind := range kinds {
		if err := kind.install(i); err != nil {
			return nil, err
		}
	}
	return i.resources, nil
}

// StoredAs returns the resource that the objects of a kind are stored as, and false if the kind has no stored objects.
func StoredAs(kind Kind, scheme *runtime.Scheme) (schema.GroupResource, bool) {
	if k, ok := kind.(interface {
		storedAs(*runtime.Scheme) (schema.GroupResource, bool)
	}); ok {
		return k.storedAs(scheme)
	}
	return schema.GroupResource{}, false
}

func (k Of[T]) storedAs(scheme *runtime.Scheme) (schema.GroupResource, bool) {
	gvks, _, err := scheme.ObjectKinds(k.Type)
	if err != nil {
		return schema.GroupResource{}, false
	}
	return schema.GroupResource{Group: gvks[0].Group, Resource: k.Plural}, true
}

// install adds the resources of the kind and of its aliases, with their subresources.
func (k Of[T]) install(i *installer) error { return k.erased().install(i) }

// install adds the resources of the kind and of its aliases, with their subresources.
func (k *kind) install(i *installer) error {
	gvk, err := i.kindOf(k.Type)
	if err != nil {
		return err
	}
	group := schema.GroupResource{Group: gvk.Group, Resource: k.Plural}
	main := &strategy{
		ObjectTyper: i.Scheme, NameGenerator: names.SimpleNameGenerator,
		kind: k, layout: layoutOf(reflect.TypeOf(k.Type).Elem()),
		drop: dropperOf(reflect.TypeOf(k.Type).Elem()), version: gvk.GroupVersion(), more: i.Warnings,
	}
	versions := []schema.GroupVersionKind{gvk}
	for _, other := range k.AlsoServed {
		alias, err := i.kindOf(other.Type)
		if err != nil {
			return err
		}
		versions = append(versions, alias)
		main.aliases = append(main.aliases, alias.GroupVersion())
	}
	reset := k.Reset
	if k.Status {
		reset = append(slices.Clone(reset), "status")
	}
	main.reset = main.resetFields(reset)
	store, err := k.store(i, group, gvk.Kind, main)
	if err != nil {
		return fmt.Errorf("storage of %s: %w", group, err)
	}
	for _, v := range versions {
		r, err := k.resource(i, v, gvk, store, main)
		if err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
		i.resources = append(i.resources, r)
	}
	return nil
}

// store returns the registry of the kind's objects.
func (k *kind) store(i *installer, group schema.GroupResource, kind string, s *strategy) (*registry.Store, error) {
	store := &registry.Store{
		NewFunc:                   NewOf(k.Type),
		NewListFunc:               NewOf(k.List),
		DefaultQualifiedResource:  group,
		SingularQualifiedResource: schema.GroupResource{Group: group.Group, Resource: k.singular(kind)},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            tables{k},
		PredicateFunc:             predicate(k),
		ReturnDeletedObject:       k.ReturnsDeleted,
	}
	if k.TTL > 0 {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return uint64(k.TTL.Seconds()), nil }
	}
	if k.DeletesOnUpdate != nil {
		store.ShouldDeleteDuringUpdate = func(_ context.Context, _ string, obj, old runtime.Object) bool {
			return k.DeletesOnUpdate(obj.(Object), old.(Object))
		}
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: i.Storage,
		AttrFunc: attributes(k), TriggerFunc: indexed(k)}); err != nil {
		return nil, err
	}
	if k.Allocator != nil {
		allocator := k.Allocator(newStored(store, s))
		allocate(store, allocator)
		if i.OnReset != nil {
			i.OnReset(allocator.Reset)
		}
	}
	return store, nil
}

// scope returns the scope of a resource or subresource for upstream's handlers.
func (i *installer) scope(gvr schema.GroupVersionResource, subresource string, kind schema.GroupVersionKind, hub schema.GroupVersion,
	namespaced bool, storage rest.Storage, filters map[fieldpath.APIVersion]fieldpath.Filter) (*endpoint.RequestScope, error) {
	scheme := i.Scheme
	convert := convertor(scheme, hub, kind.GroupVersion())
	scope := &endpoint.RequestScope{
		Namer:                    endpoint.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: !namespaced},
		Serializer:               serializerFor(i.Codecs, convert),
		ParameterCodec:           i.parameters,
		Creater:                  scheme,
		Convertor:                convert,
		UnsafeConvertor:          convert,
		Defaulter:                scheme,
		Typer:                    scheme,
		Authorizer:               i.Authorizer,
		EquivalentResourceMapper: i.equivalents,
		Resource:                 gvr,
		Subresource:              subresource,
		Kind:                     kind,
		HubGroupVersion:          hub,
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		MaxRequestBodyBytes:      i.MaxRequestBodyBytes,
	}
	scope.TableConvertor, _ = storage.(rest.TableConvertor)
	if acceptor, ok := storage.(rest.GroupVersionAcceptor); ok {
		scope.AcceptsGroupVersionDelegate = acceptor
	}
	i.equivalents.RegisterKindFor(gvr, subresource, kind)
	var err error
	scope.FieldManager, err = i.FieldManagers.get(fieldManagerKey{gvr, subresource, kind, hub}, func() (*upstream.FieldManager, error) {
		return upstream.NewDefaultFieldManager(i.TypeConverter, convert, scheme, scheme, kind, hub, subresource, filters)
	})
	return scope, err
}

// FieldManagers has the field managers of all resources, which do not change. Servers with the same options may share
// them. The zero value is ready to use.
type FieldManagers struct{ managers sync.Map } // of *upstream.FieldManager by fieldManagerKey

// fieldManagerKey identifies a resource or subresource in a version.
type fieldManagerKey struct {
	resource    schema.GroupVersionResource
	subresource string
	kind        schema.GroupVersionKind
	hub         schema.GroupVersion
}

// get returns a field manager, which is made if necessary. A nil f has none.
func (f *FieldManagers) get(key fieldManagerKey, make func() (*upstream.FieldManager, error)) (*upstream.FieldManager, error) {
	if f == nil {
		return make()
	}
	if m, ok := f.managers.Load(key); ok {
		return m.(*upstream.FieldManager), nil
	}
	m, err := make()
	if err == nil {
		f.managers.Store(key, m)
	}
	return m, err
}

var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType),
	string(types.ApplyYAMLPatchType),
}

// kindOf returns the kind of a registered Go type.
func (i *installer) kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := i.Scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

// NewOf returns a function that returns new, empty objects of the Go type of example.
func NewOf(example runtime.Object) func() runtime.Object {
	t := reflect.TypeOf(example).Elem()
	return func() runtime.Object { return reflect.New(t).Interface().(runtime.Object) }
}
