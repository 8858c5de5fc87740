package crd

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
)

// scheme returns the scheme with the types of definitions, and with the types in responses for custom resources, such
// as Status.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, unversioned)
	s.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.WatchEvent{}, &metav1.APIVersions{},
		&metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
})

// codecs are the encodings of the types in scheme.
var codecs = onceByCBOR(func(withCBOR bool) serializer.CodecFactory { return codecsFor(scheme(), withCBOR) })

func codecsFor(s *runtime.Scheme, withCBOR bool) serializer.CodecFactory {
	options := []serializer.CodecFactoryOptionsMutator{serializer.WithStreamingCollectionEncodingToJSON(),
		serializer.WithStreamingCollectionEncodingToProtobuf()}
	if withCBOR {
		options = append(options, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(s, options...)
}

// definitionCodec is the storage codec of definitions. Like kube-apiserver, it stores them as JSON in v1beta1, which is
// shorter than v1.
var definitionCodec = sync.OnceValue(func() runtime.Codec {
	return codecs().LegacyCodec(v1beta1.SchemeGroupVersion, v1.SchemeGroupVersion)
})

// external returns a definition in version v1. The result shares memory with crd.
func external(crd *apiextensions.CustomResourceDefinition) (*v1.CustomResourceDefinition, error) {
	out := &v1.CustomResourceDefinition{}
	err := scheme().Convert(crd, out, nil)
	return out, err
}
