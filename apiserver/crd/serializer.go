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

// negotiated decodes and encodes the custom resources of one kind in requests and responses.
type negotiated struct {
	shape     *shape
	convertor runtime.ObjectConvertor
}

func (n *negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return mediaTypes() }

func (n *negotiated) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, n.convertor, scheme(), scheme(), scheme(), gv, nil, "custom")
}

func (n *negotiated) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	shaping := shapingDecoder{Decoder: d, shape: n.shape, options: shapeOptions{report: reportsUnknown(d)}}
	return versioning.NewCodec(nil, shaping, runtime.UnsafeObjectConvertor(scheme()), scheme(), scheme(), n.shape,
		nil, gv, "custom")
}

// mediaTypes are those of all custom resources.
var mediaTypes = sync.OnceValue(func() []runtime.SerializerInfo {
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
			// For Status and metadata only, not for the resources.
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			Serializer:       binary,
			StrictSerializer: binary, // protobuf drops unknown fields
			StreamSerializer: &runtime.StreamSerializerInfo{
				Serializer: protobuf.NewRawSerializer(creator{}, typer{}), Framer: protobuf.LengthDelimitedFramer,
			},
		},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		types = append(types, cbor.NewSerializerInfo(creator{}, typer{}))
	}
	return types
})

// objectMediaTypes are the media types of the resources.
var objectMediaTypes = sync.OnceValue(func() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(mediaTypes()), func(i runtime.SerializerInfo) bool {
		return i.MediaType == runtime.ContentTypeProtobuf
	})
})

// creator creates empty custom resources.
type creator struct{}

func (creator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// typer gets the kind of a custom resource from the resource, and that of other objects from the
// scheme.
type typer struct{}

func (typer) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return crdserverscheme.NewUnstructuredObjectTyper().ObjectKinds(obj)
	}
	return scheme().ObjectKinds(obj)
}

func (typer) Recognizes(gvk schema.GroupVersionKind) bool { return scheme().Recognizes(gvk) }
