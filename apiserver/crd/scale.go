package crd

import (
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"
)

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaleResources is the storage of the scale subresource of one version.
type scaleResources struct{ *customresource.ScaleREST }

// Destroy implements [rest.Storage].
func (scaleResources) Destroy() {}

// scaleScope returns the request scope of the scale subresource of resources with the given scope. Unlike custom
// resources, a Scale has a Go type and one version.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
func scaleScope(scope handlers.RequestScope) (*handlers.RequestScope, error) {
	scope.Subresource = "scale"
	scope.Kind = scaleKind
	scope.HubGroupVersion = scaleKind.GroupVersion()
	scope.Serializer = scaleCodecs()
	scope.StandardSerializers = nil
	scope.Creater = scaleScheme()
	scope.Convertor = scaleScheme()
	scope.UnsafeConvertor = runtime.UnsafeObjectConvertor(scaleScheme())
	scope.Defaulter = scaleScheme()
	scope.Typer = scaleScheme()
	scope.TableConvertor = scaleTable()
	var err error
	scope.FieldManager, err = managedfields.NewDefaultFieldManager(scaleTypes, scope.Convertor, scope.Defaulter,
		scope.Creater, scope.Kind, scope.HubGroupVersion, scope.Subresource, nil)
	return &scope, err
}

var scaleScheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(autoscalingv1.AddToScheme(s))
	return s
})

var scaleCodecs = onceByCBOR(func(withCBOR bool) serializer.CodecFactory { return codecsFor(scaleScheme(), withCBOR) })

var scaleTypes = libraryKind(autoscalingv1.Scale{}.OpenAPIModelName(), scaleKind)

// scaleTable prints the scale subresource.
var scaleTable = sync.OnceValue(func() rest.TableConvertor {
	table, err := tableconvertor.New([]v1.CustomResourceColumnDefinition{
		{Name: "Desired", Type: "integer", Description: "Number of desired replicas", JSONPath: ".spec.replicas"},
		{Name: "Available", Type: "integer", Description: "Number of actual replicas", JSONPath: ".status.replicas"},
		ageColumn(),
	})
	utilruntime.Must(err)
	return table
})
