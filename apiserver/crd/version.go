package crd

import (
	"maps"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// customVersion is one version of a custom kind.
type customVersion struct {
	*customKind
	*v1.CustomResourceDefinitionVersion
	gvk    schema.GroupVersionKind
	main   *customresource.REST
	status *resource.Status          // nil if there is none
	scale  *customresource.ScaleREST // nil if there is none
}

// version builds the storage of one version.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func (c *customKind) version(v *v1.CustomResourceDefinitionVersion) (*customVersion, error) {
	gv := schema.GroupVersion{Group: c.crd.Spec.Group, Version: v.Name}
	plural, kind := gv.WithResource(c.names.Plural).GroupResource(), gv.WithKind(c.names.Kind)
	compiled := c.schemas.versions[v.Name]
	subresources, whole := compiled.terms.subresources, compiled.strategies
	table, err := tableconvertor.New(columns(v))
	if err != nil {
		// Stored definitions may have columns that validation no longer accepts. Print only the name.
		table = rest.NewDefaultTableConvertor(plural)
	}
	bare := customresource.NewStrategy(typer{}, c.namespaced(), kind, nil, nil, nil, subresources.Status,
		subresources.Scale, v.SelectableFields)
	storage, err := customresource.NewStorage(plural, gv.WithResource(c.names.Singular).GroupResource(), kind,
		gv.WithKind(c.names.ListKind), bare, c.storedAs(c.codec(gv)), c.names.Categories, table, c.replicas)
	if err != nil {
		return nil, err
	}
	out := &customVersion{customKind: c, CustomResourceDefinitionVersion: v, gvk: kind,
		main: storage.CustomResource, scale: storage.Scale}
	main := lazyStrategy{bare, func() (versionStrategy, error) { s, err := whole(); return s.main, err },
		subresources.Status != nil}
	out.main.CreateStrategy, out.main.UpdateStrategy = main, main
	if subresources.Status != nil {
		out.status = resource.NewStatus(out.main.Store, lazyStatusStrategy{lazyStrategy{
			customresource.NewStatusStrategy(bare),
			func() (versionStrategy, error) { s, err := whole(); return s.status, err }, true}})
	}
	return out, nil
}

// codec returns the storage encoding for one version.
func (c *customKind) codec(gv schema.GroupVersion) runtime.Codec {
	codec := &storageCodec{shape: c.shape, stored: c.stored, served: gv, convertor: c.convertor, unsafe: c.unsafe,
		webhook: c.crd.Spec.Conversion.Strategy == v1.WebhookConverter, cbor: servesCBOR()}
	if gv == c.stored && !codec.cbor {
		return textCodec{codec}
	}
	return codec
}

func (c *customKind) namespaced() bool { return c.crd.Spec.Scope == v1.NamespaceScoped }

// columns returns the table columns of the version after the name.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor.New
func columns(v *v1.CustomResourceDefinitionVersion) []v1.CustomResourceColumnDefinition {
	if len(v.AdditionalPrinterColumns) > 0 {
		return v.AdditionalPrinterColumns
	}
	return []v1.CustomResourceColumnDefinition{ageColumn()}
}

func ageColumn() v1.CustomResourceColumnDefinition {
	return v1.CustomResourceColumnDefinition{
		Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		JSONPath: ".metadata.creationTimestamp",
	}
}

// resource returns the resource of the version. reset has the fields that updates of the status reset.
func (v *customVersion) resource(reset map[fieldpath.APIVersion]*fieldpath.Set) (*resource.Resource, error) {
	main := &customResources{REST: v.main, gate: v.gate, live: v.live}
	r := &resource.Resource{
		GroupVersion:       v.gvk.GroupVersion(),
		Kind:               v.gvk,
		ListKind:           v.names.ListKind,
		Name:               v.names.Plural,
		Singular:           v.names.Singular,
		ShortNames:         v.names.ShortNames,
		Categories:         v.names.Categories,
		Namespaced:         v.namespaced(),
		StorageVersionHash: discovery.StorageVersionHash(v.stored.Group, v.stored.Version, v.names.Kind),
		Warning:            v.warning(v.CustomResourceDefinitionVersion),
		Storage:            main,
		PatchTypes:         patchTypes(),
		OpenAPI:            &openAPI{v.crd, v.Name, v.schemas.versions[v.Name].text},
	}
	scope := v.scope(r)
	var err error
	if r.Scope, err = v.withFieldManager(scope, main.GetResetFields()); err != nil {
		return nil, err
	}
	r.TypeConverter = v.schemas.types
	r.Normalized = func(u *unstructured.Unstructured) bool { return v.shape.normalized(u, v.gvk) }
	r.ManagedFields = managedfields.ForUnstructured(v.schemas.types, v.gvk,
		main.GetResetFields()[fieldpath.APIVersion(v.gvk.GroupVersion().String())])
	if v.status != nil {
		scope.Subresource = "status"
		status, err := v.withFieldManager(scope, reset)
		if err != nil {
			return nil, err
		}
		addSubresource(r, status, v.status)
		r.Subresource("status").Normalized = r.Normalized
		r.Subresource("status").ManagedFields = managedfields.ForUnstructured(v.schemas.types, v.gvk,
			reset[fieldpath.APIVersion(v.gvk.GroupVersion().String())])
	}
	if v.scale != nil {
		scale, err := scaleScope(scope)
		if err != nil {
			return nil, err
		}
		addSubresource(r, scale, scaleResources{v.scale})
	}
	return r, nil
}

func addSubresource(r *resource.Resource, scope *handlers.RequestScope, storage rest.Storage) {
	r.Subresources = append(r.Subresources, &resource.Resource{
		GroupVersion: r.GroupVersion,
		Kind:         scope.Kind,
		Name:         scope.Subresource,
		Namespaced:   r.Namespaced,
		Warning:      r.Warning,
		Storage:      storage,
		Scope:        scope,
		PatchTypes:   r.PatchTypes,
	})
}

// scope returns the request scope, without the field manager.
func (v *customVersion) scope(r *resource.Resource) handlers.RequestScope {
	mediaTypes := mediaTypes()
	return handlers.RequestScope{
		Namer:                    handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: !r.Namespaced},
		Serializer:               &negotiated{shape: v.shape, convertor: v.convertor, types: mediaTypes},
		StandardSerializers:      withoutProtobuf(mediaTypes),
		ParameterCodec:           metav1.ParameterCodec,
		Creater:                  creator{},
		Convertor:                v.convertor,
		UnsafeConvertor:          v.unsafe,
		Defaulter:                v.shape,
		Typer:                    typer{},
		Authorizer:               v.options.Authorizer,
		EquivalentResourceMapper: v.equivalents,
		TableConvertor:           v.main,
		Resource:                 r.GroupVersionResource(),
		Kind:                     v.gvk,
		HubGroupVersion:          v.gvk.GroupVersion(),
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		MaxRequestBodyBytes:      v.options.MaxRequestBodyBytes,
	}
}

// withFieldManager returns a copy of a scope with a field manager.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.scopeWithFieldManager
func (v *customVersion) withFieldManager(scope handlers.RequestScope,
	reset map[fieldpath.APIVersion]*fieldpath.Set) (*handlers.RequestScope, error) {
	var err error
	scope.FieldManager, err = upstream.NewDefaultCRDFieldManager(v.schemas.types, scope.Convertor, scope.Defaulter, scope.Creater,
		scope.Kind, scope.HubGroupVersion, scope.Subresource, fieldpath.NewExcludeFilterSetMap(maps.Clone(reset)))
	return &scope, err
}

func patchTypes() []string {
	kinds := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if servesCBOR() {
		kinds = append(kinds, string(types.ApplyCBORPatchType))
	}
	return kinds
}
