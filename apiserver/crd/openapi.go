package crd

import (
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI builds the OpenAPI documents of one version. It implements [resource.OpenAPI].
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.BuildOpenAPIV2
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.BuildOpenAPIV3
type openAPI struct {
	crd     *v1.CustomResourceDefinition // without schemas
	version string
	schema  schemaText
}

// definition returns the definition with the schema of the version.
func (o *openAPI) definition() (*v1.CustomResourceDefinition, error) {
	schema, err := o.schema.external()
	if schema == nil || err != nil {
		return o.crd, err
	}
	out := *o.crd
	out.Spec.Versions = slices.Clone(out.Spec.Versions)
	for i := range out.Spec.Versions {
		if v := &out.Spec.Versions[i]; v.Name == o.version {
			v.Schema = &v1.CustomResourceValidation{OpenAPIV3Schema: schema}
		}
	}
	return &out, nil
}

func (o *openAPI) V2() (*spec.Swagger, error) {
	crd, err := o.definition()
	if err != nil {
		return nil, err
	}
	doc, err := builder.BuildOpenAPIV2(crd, o.version, builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		return nil, err
	}
	doc.Definitions = handler.PruneDefaults(doc.Definitions)
	return doc, nil
}

func (o *openAPI) V3() (*spec3.OpenAPI, error) {
	crd, err := o.definition()
	if err != nil {
		return nil, err
	}
	return builder.BuildOpenAPIV3(crd, o.version, builder.Options{IncludeSelectableFields: true})
}
