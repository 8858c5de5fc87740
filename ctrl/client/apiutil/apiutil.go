// Package apiutil answers what a client or a cache needs to know of an API
// before it can talk to it: the kind of a Go value, the resource of a kind, and
// a REST client that speaks that resource's encoding.
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

// IsObjectNamespaced reports whether objects of obj's kind live in namespaces.
func IsObjectNamespaced(obj runtime.Object, scheme *runtime.Scheme, restmapper meta.RESTMapper) (bool, error) {
	gvk, err := GVKForObject(obj, scheme)
	if err != nil {
		return false, err
	}
	return IsGVKNamespaced(gvk, restmapper)
}

// IsGVKNamespaced reports whether objects of that kind live in namespaces.
func IsGVKNamespaced(gvk schema.GroupVersionKind, restmapper meta.RESTMapper) (bool, error) {
	mapping, err := restmapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("finding the resource of kind %s: %w", gvk.Kind, err)
	}
	switch mapping.Scope.Name() {
	case meta.RESTScopeNameRoot:
		return false, nil
	case "":
		return false, fmt.Errorf("the mapping of %s has no scope", gvk)
	default:
		return true, nil
	}
}

// GVKForObject returns the kind of obj. Unstructured and metadata-only objects
// say it themselves; for all others the scheme knows it. If the scheme has a Go
// type under several kinds, obj must say which of them it is.
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
		return schema.GroupVersionKind{}, fmt.Errorf("the Go type %T belongs to no API group and version", obj)
	case len(gvks) == 1:
		return gvks[0], nil
	}
	own := obj.GetObjectKind().GroupVersionKind()
	if slices.Contains(gvks, own) {
		return own, nil
	}
	if own.Empty() {
		return schema.GroupVersionKind{}, fmt.Errorf("the Go type %T is registered as each of %q: register it once, or set the object's kind", obj, gvks)
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the object says that it is a %q, but its Go type %T is registered as %q", own, obj, gvks)
}

// RESTClientForGVK returns a REST client for the group and version of a kind. Its
// configuration is that of ConfigForGVK.
func RESTClientForGVK(
	gvk schema.GroupVersionKind,
	forceDisableProtoBuf bool,
	isUnstructured bool,
	baseConfig *rest.Config,
	codecs serializer.CodecFactory,
	httpClient *http.Client,
) (rest.Interface, error) {
	if httpClient == nil {
		return nil, errors.New("httpClient must not be nil; rest.HTTPClientFor makes one of a rest.Config")
	}
	return rest.RESTClientForConfigAndClient(ConfigForGVK(gvk, forceDisableProtoBuf, isUnstructured, baseConfig, codecs), httpClient)
}

// ConfigForGVK returns the configuration of a REST client for the group and
// version of a kind. With isUnstructured, the client decodes into unstructured
// objects, and encodes them as JSON. Otherwise it decodes into the Go types of
// codecs' scheme, and a decoded object replaces the one that it is decoded into;
// nothing of that is left.
//
// Typed objects are encoded as baseConfig.ContentType says, or else as protobuf if
// the kind is known to be served so. Where protobuf cannot be, because the Go types
// of the kind and of its list do not implement it, or forceDisableProtoBuf is true,
// it is neither sent nor asked for, whatever baseConfig says.
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
	cfg.NegotiatedSerializer = replacing{serializer.WithoutConversionCodecFactory{CodecFactory: codecs}}
	return cfg
}

// replacing is a serializer whose decoders replace the object that they decode
// into. Plain decoders merge: what the data does not mention stays.
type replacing struct {
	runtime.NegotiatedSerializer
}

func (s replacing) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return replacingDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type replacingDecoder struct{ plain runtime.Decoder }

func (d replacingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		return d.plain.Decode(data, defaults, nil)
	}
	// What cannot be decoded, or turns out to be something else, leaves the
	// target as it was.
	target := reflect.ValueOf(into).Elem()
	fresh := reflect.New(target.Type())
	out, gvk, err := d.plain.Decode(data, defaults, fresh.Interface().(runtime.Object))
	if err != nil || out != fresh.Interface() {
		return out, gvk, err
	}
	target.Set(fresh.Elem())
	return into, gvk, nil
}
