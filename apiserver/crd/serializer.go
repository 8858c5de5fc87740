package crd

import (
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// negotiated is the serializer of the custom resources of one kind in requests and responses.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredNegotiatedSerializer
type negotiated struct {
	shape     *shape
	convertor runtime.ObjectConvertor
	types     []runtime.SerializerInfo
}

func (n *negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return n.types }

func (n *negotiated) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, n.convertor, scheme(), scheme(), scheme(), gv, nil, "custom")
}

func (n *negotiated) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	shaping := shapingDecoder{Decoder: d, shape: n.shape, options: shapeOptions{report: reportsUnknown(d)}}
	return versioning.NewCodec(nil, shaping, runtime.UnsafeObjectConvertor(scheme()), scheme(), scheme(), n.shape,
		nil, gv, "custom")
}

// servesCBOR reports whether CBOR is served and stored.
func servesCBOR() bool { return utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) }

// onceByCBOR returns a function that calls make at most once with CBOR and once without. The function returns the
// result for the current state of the feature gate.
func onceByCBOR[T any](make func(withCBOR bool) T) func() T {
	with, without := sync.OnceValue(func() T { return make(true) }), sync.OnceValue(func() T { return make(false) })
	return func() T {
		if servesCBOR() {
			return with()
		}
		return without()
	}
}

// mediaTypes are the media types of all custom resources.
var mediaTypes = onceByCBOR(func(withCBOR bool) []runtime.SerializerInfo {
	text := func(o json.SerializerOptions) runtime.Serializer {
		s := json.NewSerializerWithOptions(json.DefaultMetaFactory, creator{}, typer{}, o)
		if o.Yaml || o.Pretty {
			return s
		}
		return textSerializer{s}
	}
	binary := protobuf.NewSerializerWithOptions(creator{}, typer{},
		protobuf.SerializerOptions{StreamingCollectionsEncoding: true})
	types := []runtime.SerializerInfo{
		{
			MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json",
			EncodesAsText:    true,
			Serializer:       text(json.SerializerOptions{StreamingCollectionsEncoding: true}),
			StrictSerializer: text(json.SerializerOptions{StreamingCollectionsEncoding: true, Strict: true}),
			PrettySerializer: text(json.SerializerOptions{Pretty: true}),
			StreamSerializer: &runtime.StreamSerializerInfo{
				EncodesAsText: true, Serializer: text(json.SerializerOptions{}), Framer: json.Framer,
			},
		},
		{
			MediaType: runtime.ContentTypeYAML, MediaTypeType: "application", MediaTypeSubType: "yaml",
			EncodesAsText:    true,
			Serializer:       text(json.SerializerOptions{Yaml: true}),
			StrictSerializer: text(json.SerializerOptions{Yaml: true, Strict: true}),
		},
		{
			// Protobuf is only for Status and metadata, not for custom resources.
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			Serializer:       binary,
			StrictSerializer: binary, // protobuf drops unknown fields
			StreamSerializer: &runtime.StreamSerializerInfo{
				Serializer: protobuf.NewRawSerializer(creator{}, typer{}), Framer: protobuf.LengthDelimitedFramer,
			},
		},
	}
	if withCBOR {
		types = append(types, cbor.NewSerializerInfo(creator{}, typer{}))
	}
	return types
})

// withoutProtobuf returns the media types of custom resources.
func withoutProtobuf(types []runtime.SerializerInfo) []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(types), func(i runtime.SerializerInfo) bool {
		return i.MediaType == runtime.ContentTypeProtobuf
	})
}

// creator creates empty custom resources.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredCreator
type creator struct{}

func (creator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// typer returns the kind that a custom resource has set, and the kind of other objects from the scheme.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/apiserver.UnstructuredObjectTyper
type typer struct{}

func (typer) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return crdserverscheme.NewUnstructuredObjectTyper().ObjectKinds(obj)
	}
	return scheme().ObjectKinds(obj)
}

func (typer) Recognizes(gvk schema.GroupVersionKind) bool { return scheme().Recognizes(gvk) }
