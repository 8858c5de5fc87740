package crd

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
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
	crd     *apiextensions.CustomResourceDefinition
	version string
}

func (o *openAPI) V2() (*spec.Swagger, error) {
	crd, err := external(o.crd)
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
	crd, err := external(o.crd)
	if err != nil {
		return nil, err
	}
	return builder.BuildOpenAPIV3(crd, o.version, builder.Options{IncludeSelectableFields: true})
}
