package crd

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// removedResource returns the resource customresourcedefinitions of apiextensions.k8s.io/v1beta1, which Kubernetes has removed. It
// has the storage of the resource of v1.
func (k *Kinds) removedResource(of *resource.Resource) (*resource.Resource, error) {
	r, kind := *of, v1beta1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	r.GroupVersion, r.Kind, r.Storage = v1beta1.SchemeGroupVersion, kind, removedDefinitions{of.Storage.(definitionResources)}
	status := *of.Subresources[0]
	status.GroupVersion, status.Kind = v1beta1.SchemeGroupVersion, kind
	r.Subresources = []*resource.Resource{&status}
	var err error
	if r.Scope, err = k.definitionScope(kind, r.GroupVersionResource(), "", of.Scope.TableConvertor, of.Scope.EquivalentResourceMapper,
		of.Storage.(rest.ResetFieldsStrategy).GetResetFields()); err != nil {
		return nil, err
	}
	status.Scope, err = k.definitionScope(kind, r.GroupVersionResource(), "status", of.Scope.TableConvertor, of.Scope.EquivalentResourceMapper,
		k.status.(rest.ResetFieldsStrategy).GetResetFields())
	return &r, err
}

// removedDefinitions is the storage of definitions for requests of v1beta1. What they write becomes what v1 accepts.
type removedDefinitions struct{ definitionResources }

// Create implements rest.Creater.
func (r removedDefinitions) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	open(&obj.(*apiextensions.CustomResourceDefinition).Spec)
	return r.definitionResources.Create(ctx, obj, validate, o)
}

// Update implements rest.Updater.
func (r removedDefinitions) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	info = rest.WrapUpdatedObjectInfo(info, func(_ context.Context, obj, _ runtime.Object) (runtime.Object, error) {
		obj = obj.DeepCopyObject()
		open(&obj.(*apiextensions.CustomResourceDefinition).Spec)
		return obj, nil
	})
	return r.definitionResources.Update(ctx, name, info, create, validate, force, o)
}

// open makes a definition that preserves unknown fields one that v1 accepts: with structural schemas in which each object preserves
// unknown fields.
func open(spec *apiextensions.CustomResourceDefinitionSpec) {
	if p := spec.PreserveUnknownFields; p != nil && !*p {
		return
	}
	spec.PreserveUnknownFields = new(false)
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil {
		openRoot(spec.Validation.OpenAPIV3Schema)
		return
	}
	for i := range spec.Versions {
		v := &spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			v.Schema = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{}}
		}
		openRoot(v.Schema.OpenAPIV3Schema)
	}
}

// openRoot opens the schema of a custom resource. The metadata of custom resources is Kubernetes' own.
func openRoot(s *apiextensions.JSONSchemaProps) {
	metadata, ok := s.Properties["metadata"]
	openSchema(s)
	s.Type = "object"
	if ok {
		s.Properties["metadata"] = apiextensions.JSONSchemaProps{Type: "object", Description: metadata.Description}
	}
}

// openSchema makes a schema structural, and lets its objects have fields that it does not know.
func openSchema(s *apiextensions.JSONSchemaProps) {
	if s.XIntOrString {
		return
	}
	if s.Format == "int-or-string" || isIntOrString(s.AnyOf) || isIntOrString(s.OneOf) {
		s.Type, s.Format, s.AnyOf, s.OneOf, s.XIntOrString = "", "", nil, nil, true
		return
	}
	if s.Type == "" && len(s.Properties) > 0 {
		s.Type = "object"
	}
	if s.Type == "" || s.Type == "object" && s.AdditionalProperties == nil {
		s.XPreserveUnknownFields = new(true)
	}
	for name, property := range s.Properties {
		openSchema(&property)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		openSchema(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		openSchema(s.AdditionalProperties.Schema)
	}
}

// isIntOrString reports whether alternatives are the types integer and string, as tools have written them.
func isIntOrString(alternatives []apiextensions.JSONSchemaProps) bool {
	types := []string{}
	for _, a := range alternatives {
		types = append(types, a.Type)
	}
	slices.Sort(types)
	return slices.Equal(types, []string{"integer", "string"})
}
