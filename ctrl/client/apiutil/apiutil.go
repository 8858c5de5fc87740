// Package apiutil has what clients and caches need to access an API: the kind of a Go value, the
// resource of a kind, and a REST client with the encoding of that resource.
package apiutil

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// IsObjectNamespaced reports whether obj's kind is namespaced.
func IsObjectNamespaced(obj runtime.Object, scheme *runtime.Scheme, restmapper meta.RESTMapper) (bool, error) {
	gvk, err := GVKForObject(obj, scheme)
	if err != nil {
		return false, err
	}
	return IsGVKNamespaced(gvk, restmapper)
}

// IsGVKNamespaced reports whether the kind is namespaced.
func IsGVKNamespaced(gvk schema.GroupVersionKind, restmapper meta.RESTMapper) (bool, error) {
	mapping, err := restmapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("failed to get restmapping: %w", err)
	}
	switch mapping.Scope.Name() {
	case meta.RESTScopeNameRoot:
		return false, nil
	case "":
		return false, fmt.Errorf("scope of %s cannot be identified, empty scope returned", gvk)
	default:
		return true, nil
	}
}

// GVKForObject returns the kind of obj: of an unstructured or metadata-only object the one that is
// set in it, of others that in the scheme. If a Go type is registered with several kinds, one of
// them must be set in obj.
func GVKForObject(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		gvk := obj.GetObjectKind().GroupVersionKind()
		if gvk.Kind == "" {
			return schema.GroupVersionKind{}, runtime.NewMissingKindErr("metadata-only object has no kind")
		}
		if gvk.Version == "" {
			return schema.GroupVersionKind{}, runtime.NewMissingVersionErr("metadata-only object has no version")
		}
		return gvk, nil
	}
	gvks, unversioned, err := scheme.ObjectKinds(obj)
	switch {
	case err != nil:
		return schema.GroupVersionKind{}, err
	case unversioned:
		return schema.GroupVersionKind{}, fmt.Errorf("cannot create group-version-kind for unversioned type %T", obj)
	case len(gvks) == 1:
		return gvks[0], nil
	}
	own := obj.GetObjectKind().GroupVersionKind()
	if slices.Contains(gvks, own) {
		return own, nil
	}
	if own.Empty() {
		return schema.GroupVersionKind{},
			fmt.Errorf("multiple GroupVersionKinds associated with Go type %T within the Scheme, "+
				"and the object has none: %q", obj, gvks)
	}
	return schema.GroupVersionKind{},
		fmt.Errorf("multiple GroupVersionKinds associated with Go type %T within the Scheme, "+
			"none of which is %q of the object: %q", obj, own, gvks)
}

// RESTClientForGVK returns a REST client for the group and version of a kind. Its
// configuration is the result of ConfigForGVK.
func RESTClientForGVK(
	gvk schema.GroupVersionKind,
	forceDisableProtoBuf bool,
	isUnstructured bool,
	baseConfig *rest.Config,
	codecs serializer.CodecFactory,
	httpClient *http.Client,
) (rest.Interface, error) {
	if httpClient == nil {
		return nil, errors.New("httpClient must not be nil, consider using rest.HTTPClientFor(c) to create a client")
	}
	cfg := ConfigForGVK(gvk, forceDisableProtoBuf, isUnstructured, baseConfig, codecs)
	return rest.RESTClientForConfigAndClient(cfg, httpClient)
}

// ConfigForGVK returns the configuration of a REST client for the group and
// version of a kind. With isUnstructured, the client decodes into unstructured
// objects, and encodes them as JSON. Otherwise it decodes into the Go types of
// codecs' scheme, and a decoded object replaces the one that it is decoded into completely.
//
// Typed objects are encoded as baseConfig.ContentType, or by default as protobuf if the server of
// the kind supports it. If the Go types of the kind and of its list do not implement protobuf, or
// forceDisableProtoBuf is true, it is neither sent nor accepted, whatever baseConfig has.
func ConfigForGVK(
	gvk schema.GroupVersionKind,
	forceDisableProtoBuf bool,
	isUnstructured bool,
	baseConfig *rest.Config,
	codecs serializer.CodecFactory,
) *rest.Config {
	cfg := rest.CopyConfig(baseConfig)
	cfg.GroupVersion = new(gvk.GroupVersion())
	cfg.APIPath = "/apis"
	if gvk.Group == "" {
		cfg.APIPath = "/api"
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if isUnstructured {
		return dynamic.ConfigFor(cfg)
	}
	switch {
	case forceDisableProtoBuf || !protobufDecodes(gvk, codecs):
		withoutProtobuf(cfg)
	case cfg.ContentType == "" && servedAsProtobuf(gvk):
		cfg.ContentType = runtime.ContentTypeProtobuf
	}
	cfg.NegotiatedSerializer = replacingSerializer{serializer.WithoutConversionCodecFactory{CodecFactory: codecs}}
	return cfg
}

// replacingSerializer is a serializer. Its decoders replace the object that they decode into.
// Plain decoders merge: fields that are not in the data are preserved.
type replacingSerializer struct {
	runtime.NegotiatedSerializer
}

func (s replacingSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return replacingDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

// replacingDecoder decodes into an empty object and then replaces the target with it, so that
// nothing of the target's previous content is left.
type replacingDecoder struct{ decoder runtime.Decoder }

func (d replacingDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		return d.decoder.Decode(data, defaults, nil)
	}
	// If the data cannot be decoded, or is of another kind, the target must not be changed.
	target := reflect.ValueOf(into).Elem()
	fresh := reflect.New(target.Type())
	out, gvk, err := d.decoder.Decode(data, defaults, fresh.Interface().(runtime.Object))
	if err != nil || out != fresh.Interface() {
		return out, gvk, err
	}
	target.Set(fresh.Elem())
	return into, gvk, nil
}
