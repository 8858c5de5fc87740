package crd

import (
	"sync"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI builds the documents of one version. It implements [resource.OpenAPI].
type openAPI struct {
	v2 func() (*spec.Swagger, error)
	v3 func() (*spec3.OpenAPI, error)
}

func (o *openAPI) V2() (*spec.Swagger, error)  { return o.v2() }
func (o *openAPI) V3() (*spec3.OpenAPI, error) { return o.v3() }

func documents(crd *v1.CustomResourceDefinition, version string) *openAPI {
	return &openAPI{
		v2: sync.OnceValues(func() (*spec.Swagger, error) {
			doc, err := builder.BuildOpenAPIV2(crd, version, builder.Options{V2: true, IncludeSelectableFields: true})
			if err != nil {
				return nil, err
			}
			doc.Definitions = handler.PruneDefaults(doc.Definitions)
			return doc, nil
		}),
		v3: sync.OnceValues(func() (*spec3.OpenAPI, error) {
			return builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
		}),
	}
}
