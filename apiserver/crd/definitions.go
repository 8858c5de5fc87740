package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
)

// definitionsResource returns the resource customresourcedefinitions, and sets the store of the definitions.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.NewREST
func (k *Kinds) definitionsResource() (*resource.Resource, error) {
	r, err := customresourcedefinition.NewREST(scheme(), definitionOptions{k})
	if err != nil {
		return nil, err
	}
	status := customresourcedefinition.NewStatusREST(scheme(), r)
	main := definitionResources{r}
	k.store = r.Storage.Storage.(*definitionStore)
	k.store.root = r.KeyRootFunc(request.NewContext())
	k.status = status

	kind := v1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	res := &resource.Resource{
		GroupVersion:       v1.SchemeGroupVersion,
		Kind:               kind,
		ListKind:           "CustomResourceDefinitionList",
		Name:               "customresourcedefinitions",
		Singular:           "customresourcedefinition",
		ShortNames:         r.ShortNames(),
		Categories:         r.Categories(),
		StorageVersionHash: discovery.StorageVersionHash(kind.Group, v1beta1.SchemeGroupVersion.Version, kind.Kind),
		Storage:            main,
		PatchTypes:         definitionPatchTypes,
		Subresources: []*resource.Resource{{
			GroupVersion: v1.SchemeGroupVersion,
			Kind:         kind,
			Name:         "status",
			Storage:      status,
			PatchTypes:   definitionPatchTypes,
		}},
	}
	equivalents := runtime.NewEquivalentResourceRegistry()
	equivalents.RegisterKindFor(res.GroupVersionResource(), "", kind)
	equivalents.RegisterKindFor(res.GroupVersionResource(), "status", kind)
	if res.Scope, err = k.definitionScope(kind, res.GroupVersionResource(), "", r, equivalents,
		r.GetResetFields()); err != nil {
		return nil, err
	}
	res.Subresources[0].Scope, err = k.definitionScope(kind, res.GroupVersionResource(), "status", r, equivalents,
		status.GetResetFields())
	return res, err
}

var definitionPatchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType),
	string(types.ApplyYAMLPatchType),
}

// definitionScope returns the request scope of definitions, or of one of their subresources.
func (k *Kinds) definitionScope(kind schema.GroupVersionKind, gvr schema.GroupVersionResource, subresource string,
	table rest.TableConvertor, equivalents runtime.EquivalentResourceMapper,
	reset map[fieldpath.APIVersion]*fieldpath.Set) (*handlers.RequestScope, error) {
	hub := apiextensions.SchemeGroupVersion
	fields, err := managedfields.NewDefaultFieldManager(definitionTypes, runtime.UnsafeObjectConvertor(scheme()),
		scheme(), scheme(), kind, hub, subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, err
	}
	return &handlers.RequestScope{
		Namer:                    handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: true},
		Serializer:               codecs(),
		ParameterCodec:           metav1.ParameterCodec,
		Creater:                  scheme(),
		Convertor:                scheme(),
		UnsafeConvertor:          runtime.UnsafeObjectConvertor(scheme()),
		Defaulter:                scheme(),
		Typer:                    scheme(),
		Authorizer:               k.options.Authorizer,
		EquivalentResourceMapper: equivalents,
		TableConvertor:           table,
		FieldManager:             fields,
		Resource:                 gvr,
		Subresource:              subresource,
		Kind:                     kind,
		HubGroupVersion:          hub,
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		MaxRequestBodyBytes:      k.options.MaxRequestBodyBytes,
	}, nil
}

// definitionResources is the storage of the resource customresourcedefinitions.
type definitionResources struct{ *customresourcedefinition.REST }

// DeleteCollection deletes definitions one by one, each together with its resources.
func (r definitionResources) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	o *metav1.DeleteOptions, l *metainternal.ListOptions) (runtime.Object, error) {
	list, err := r.List(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, crd := range list.(*apiextensions.CustomResourceDefinitionList).Items {
		if _, _, err := r.Delete(ctx, crd.Name, validate, o.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return list, nil
}

// storedAs returns the REST options of custom resources that are stored with the given codec.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdConversionRESTOptionsGetter
func (k *Kinds) storedAs(codec runtime.Codec) generic.RESTOptionsGetter {
	return store.RESTOptions(store.Options{
		Storage:       k.options.Storage,
		Codec:         func(schema.GroupResource) runtime.Codec { return codec },
		DeletionDelay: k.options.DeletionDelay,
		Require:       k.options.Require,
		Transformers:  k.options.Transformers,
	})
}

// definitionOptions wraps the storage of definitions in the definition store.
type definitionOptions struct{ *Kinds }

func (k definitionOptions) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	// There is no deletion delay, because definitions are deleted with the lock of Kinds held.
	o, err := store.RESTOptions(store.Options{
		Storage: k.options.Storage,
		Codec:   func(schema.GroupResource) runtime.Codec { return definitionCodec() },
		Owners:  k.options.Owners,

		CacheWeakly:  true,
		Transformers: k.options.Transformers,
	}).GetRESTOptions(r, example)
	open := o.Decorator
	o.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs,
		indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(config, prefix, key, newFunc, newListFunc, attrs, trigger, indexers)
		return &definitionStore{Interface: s, kinds: k.Kinds}, destroy, err
	}
	return o, err
}

// definitionTypes has the merge schema of definitions.
var definitionTypes = libraryKinds(map[string]schema.GroupVersionKind{
	v1.CustomResourceDefinition{}.OpenAPIModelName():      v1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
	v1beta1.CustomResourceDefinition{}.OpenAPIModelName(): v1beta1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
})
