package kinds

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	endpoint "k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/managedfields"
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
	// More are further subresources, by resource and name.
	More map[schema.GroupResource]map[string]rest.Storage
	// MaxRequestBodyBytes bounds a request's body.
	MaxRequestBodyBytes int64
}

// Resources returns the resources of the kinds, each of which is registered in o.Scheme.
func Resources(o Options, kinds []Kind) ([]*resource.Resource, error) {
	i := &installer{Options: o, parameters: runtime.NewParameterCodec(o.Scheme),
		equivalents: runtime.NewEquivalentResourceRegistry()}
	for _, kind := range kinds {
		if err := kind.install(i); err != nil {
			return nil, err
		}
	}
	return i.resources, nil
}

// installer makes resources of kinds.
type installer struct {
	Options
	parameters  runtime.ParameterCodec
	equivalents runtime.EquivalentResourceRegistry
	resources   []*resource.Resource
}

// Register adds the kind's defaults and selectable fields to the scheme.
func (k Of[T]) Register(scheme *runtime.Scheme) {
	if k.Default != nil {
		scheme.AddTypeDefaultingFunc(k.Type, func(obj any) { k.Default(obj.(T)) })
		scheme.AddTypeDefaultingFunc(k.List, defaultItems(k.Default))
	}
	known := map[string]string{}
	for label := range k.fields(k.Type) {
		known[label] = label
	}
	selectable(scheme, k.Type, known)
	for _, alias := range k.AlsoServed {
		labels := known
		if alias.Fields != nil {
			labels = maps.Clone(alias.Fields)
			labels["metadata.name"], labels["metadata.namespace"] = "metadata.name", "metadata.namespace"
		}
		selectable(scheme, alias.Type, labels)
		if alias.Default != nil {
			scheme.AddTypeDefaultingFunc(alias.Type, func(obj any) { alias.Default(obj.(runtime.Object)) })
		}
	}
}

// selectable registers the field labels of a type, each with its key in the kind's fields. The error
// for other labels is kube-apiserver's, which has the list of the labels only where there are no more
// than those of every type.
func selectable(scheme *runtime.Scheme, served runtime.Object, keys map[string]string) {
	gvks, _, err := scheme.ObjectKinds(served)
	utilruntime.Must(err)
	own := false // whether the kind has fields besides those that all have
	for label := range keys {
		own = own || !strings.HasPrefix(label, "metadata.")
	}
	utilruntime.Must(scheme.AddFieldLabelConversionFunc(gvks[0], func(label, value string) (string, string, error) {
		key, ok := keys[label]
		if !ok && !own {
			return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
		}
		if !ok {
			return "", "", fmt.Errorf("field label not supported: %s", label)
		}
		return key, value, nil
	}))
}

// defaultItems applies a default to every item of a typed list.
func defaultItems[T Object](one func(T)) func(any) {
	return func(list any) {
		items := reflect.ValueOf(list).Elem().FieldByName("Items")
		for i := range items.Len() {
			one(items.Index(i).Addr().Interface().(T))
		}
	}
}

// install adds the resources of the kind and of its aliases, with their subresources.
func (k Of[T]) install(i *installer) error {
	gvk, err := i.kindOf(k.Type)
	if err != nil {
		return err
	}
	group := schema.GroupResource{Group: gvk.Group, Resource: k.Plural}
	main := &strategy[T]{
		ObjectTyper: i.Scheme, NameGenerator: names.SimpleNameGenerator,
		kind: &k, layout: layoutOf(reflect.TypeOf(k.Type).Elem()), version: gvk.GroupVersion(),
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
func (k *Of[T]) store(i *installer, group schema.GroupResource, kind string, s *strategy[T]) (*registry.Store, error) {
	store := &registry.Store{
		NewFunc:                   NewOf(k.Type),
		NewListFunc:               NewOf(k.List),
		DefaultQualifiedResource:  group,
		SingularQualifiedResource: schema.GroupResource{Group: group.Group, Resource: k.singular(kind)},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            tables[T]{k},
		PredicateFunc:             predicate[T](k),
		ReturnDeletedObject:       k.ReturnsDeleted,
	}
	if k.TTL > 0 {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return uint64(k.TTL.Seconds()), nil }
	}
	if k.DeletesOnUpdate != nil {
		store.ShouldDeleteDuringUpdate = func(_ context.Context, _ string, obj, old runtime.Object) bool {
			return k.DeletesOnUpdate(obj.(T), old.(T))
		}
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: i.Storage,
		AttrFunc: attributes[T](k)}); err != nil {
		return nil, err
	}
	if k.Allocator != nil {
		allocate(store, k.Allocator(newStored(store, s)))
	}
	return store, nil
}

// resource returns the resource of the kind in one of its versions.
func (k *Of[T]) resource(i *installer, served, stored schema.GroupVersionKind, store *registry.Store,
	s *strategy[T]) (*resource.Resource, error) {
	r := &resource.Resource{
		GroupVersion:       served.GroupVersion(),
		Kind:               served,
		ListKind:           served.Kind + "List",
		Name:               k.Plural,
		Singular:           k.singular(served.Kind),
		ShortNames:         k.ShortNames,
		Categories:         k.Categories,
		Namespaced:         !k.Cluster,
		StorageVersionHash: discovery.StorageVersionHash(stored.Group, stored.Version, stored.Kind),
		Storage:            store,
		PatchTypes:         patchTypes,
		Warning:            i.deprecated(served),
		TypeConverter:      i.TypeConverter,
	}
	if served == stored {
		apiVersion := served.GroupVersion().String()
		r.ManagedFields = managedfields.ForType(reflect.TypeOf(k.Type).Elem(), apiVersion,
			s.reset[fieldpath.APIVersion(apiVersion)])
	}
	if k.BeforeDelete != nil {
		r.Storage = deleting[T]{store, k.BeforeDelete}
	}
	if k.Terminate != nil {
		r.Storage = terminating[T]{store, k.Terminate}
		r.Verbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	if guard := i.Guards[r.GroupVersionResource().GroupResource()]; guard != nil {
		r.Storage = guarded{store, guard}
	}
	var err error
	if r.Scope, err = i.scope(r.GroupVersionResource(), "", served, stored.GroupVersion(), r.Namespaced, store, fieldpath.NewExcludeFilterSetMap(s.reset)); err != nil {
		return nil, err
	}
	sub := func(name string, kind schema.GroupVersionKind, hub schema.GroupVersion, storage rest.Storage, filters map[fieldpath.APIVersion]fieldpath.Filter) error {
		child := &resource.Resource{GroupVersion: r.GroupVersion, Kind: kind, Name: name, Namespaced: r.Namespaced,
			Storage: storage, PatchTypes: patchTypes}
		child.Scope, err = i.scope(r.GroupVersionResource(), name, kind, hub, r.Namespaced, storage, filters)
		r.Subresources = append(r.Subresources, child)
		return err
	}
	if k.Status {
		status := statusStrategy[T]{s}
		if err := sub("status", served, stored.GroupVersion(), resource.NewStatus(store, status), fieldpath.NewExcludeFilterSetMap(status.GetResetFields())); err != nil {
			return nil, err
		}
		if served == stored {
			apiVersion := served.GroupVersion().String()
			r.Subresource("status").ManagedFields = managedfields.ForType(reflect.TypeOf(k.Type).Elem(), apiVersion,
				status.GetResetFields()[fieldpath.APIVersion(apiVersion)])
		}
	}
	for name, part := range k.Parts {
		var filters map[fieldpath.APIVersion]fieldpath.Filter
		if part.Filter != nil {
			filters = map[fieldpath.APIVersion]fieldpath.Filter{
				fieldpath.APIVersion(served.GroupVersion().String()): part.Filter}
		}
		if err := sub(name, served, stored.GroupVersion(), resource.NewStatus(store, partStrategy[T]{s, part}), filters); err != nil {
			return nil, err
		}
	}
	if k.Scale != nil {
		if err := sub("scale", scaleKind, scaleKind.GroupVersion(), &scaleREST[T]{store: store, scale: k.Scale, kind: stored, resource: r.GroupVersionResource().GroupResource()}, nil); err != nil {
			return nil, err
		}
	}
	more := maps.Clone(i.More[r.GroupVersionResource().GroupResource()])
	if k.More != nil {
		if more == nil {
			more = map[string]rest.Storage{}
		}
		maps.Copy(more, k.More(newStored(store, s)))
	}
	for name, storage := range more {
		kind, err := i.subresourceKind(storage, served.GroupVersion())
		if err != nil {
			return nil, err
		}
		var filters map[fieldpath.APIVersion]fieldpath.Filter
		if s, ok := storage.(rest.ResetFieldsStrategy); ok {
			filters = fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
		}
		if err := sub(name, kind, kind.GroupVersion(), storage, filters); err != nil {
			return nil, err
		}
		if creater, ok := storage.(rest.NamedCreater); ok && !isUpdater(storage) {
			r.Subresource(name).ManagedFields = managedfields.ForType(reflect.TypeOf(creater.New()).Elem(),
				kind.GroupVersion().String(), nil)
		}
	}
	return r, nil
}

// isUpdater reports whether objects of a storage can be written again.
func isUpdater(s rest.Storage) bool {
	_, ok := s.(rest.Updater)
	return ok
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
	scope.FieldManager, err = upstream.NewDefaultFieldManager(i.TypeConverter, convert, scheme, scheme,
		kind, hub, subresource, filters)
	return scope, err
}

var patchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType),
	string(types.ApplyYAMLPatchType),
}

// attributes returns the function that gets the labels and fields of an object for selectors.
func attributes[T Object](k *Of[T]) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		o, ok := obj.(T)
		if !ok {
			return nil, nil, fmt.Errorf("%T is no %T", obj, k.Type)
		}
		return o.GetLabels(), k.fields(o), nil
	}
}

func predicate[T Object](k *Of[T]) func(labels.Selector, fields.Selector) storage.SelectionPredicate {
	return func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes(k)}
	}
}

func (k *Of[T]) fields(obj T) fields.Set {
	var set fields.Set
	if k.Fields != nil {
		set = k.Fields(obj)
	} else {
		set = fields.Set{}
	}
	set["metadata.name"] = obj.GetName()
	if !k.Cluster {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}

func (k *Of[T]) singular(kind string) string {
	if k.Singular != "" {
		return k.Singular
	}
	return strings.ToLower(kind)
}

// warnings returns the warnings for a write of an object.
func (k *Of[T]) warnings(obj, old T) []string {
	var all []string
	if k.Unenforced != "" {
		all = append(all, fmt.Sprintf("this server stores %s but does not enforce them: %s", k.Plural, k.Unenforced))
	}
	if k.Warnings != nil {
		all = append(all, k.Warnings(obj, old)...)
	}
	return all
}

// kindOf returns the kind of a registered Go type.
func (i *installer) kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := i.Scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return kinds[0], nil
}

// deprecated returns the warning for a deprecated kind, empty for others.
func (i *installer) deprecated(kind schema.GroupVersionKind) string {
	obj, err := i.Scheme.New(kind)
	if err != nil {
		return ""
	}
	parts := strings.Split(resource.Release, ".")
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	if !deprecation.IsDeprecated(obj, major, minor) {
		return ""
	}
	obj.GetObjectKind().SetGroupVersionKind(kind) // the message has it
	return deprecation.WarningMessage(obj)
}

// subresourceKind returns the kind that the storage provides, or else that of its objects.
func (i *installer) subresourceKind(storage rest.Storage, gv schema.GroupVersion) (schema.GroupVersionKind, error) {
	if p, ok := storage.(rest.GroupVersionKindProvider); ok {
		return p.GroupVersionKind(gv), nil
	}
	return i.kindOf(storage.New())
}

// NewOf returns a function that returns new, empty objects of the Go type of example.
func NewOf(example runtime.Object) func() runtime.Object {
	t := reflect.TypeOf(example).Elem()
	return func() runtime.Object { return reflect.New(t).Interface().(runtime.Object) }
}
