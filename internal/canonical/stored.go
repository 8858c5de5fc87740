package canonical

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/internal/clientscheme"
)

// records are the prefixes of keys without state of users: records that change also at rest, and what the API server keeps for
// itself.
var records = []string{"/registry/events/", "/registry/leases/", "/registry/masterleases/", "/registry/ranges/",
	"/registry/apiregistration.k8s.io/"}

// IsState reports whether a key of a storage belongs to the state of a cluster.
func IsState(key string) bool {
	return strings.HasPrefix(key, "/registry/") &&
		!slices.ContainsFunc(records, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// protobufPrefix begins each object that Kubernetes encodes as protobuf.
var protobufPrefix = []byte("k8s\x00")

// definitions has the versions of definitions of custom resources.
var definitions = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
})

// Decode decodes a stored object, in the version of the API. The caller owns the content.
func Decode(value []byte) (map[string]any, error) {
	if bytes.HasPrefix(value, protobufPrefix) {
		typed, kind, err := clientscheme.Codecs().UniversalDeserializer().Decode(value, nil, nil)
		if err != nil {
			return nil, err
		}
		return unstructuredOf(typed, *kind)
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(value, &object); err != nil {
		return nil, err
	}
	// The API server stores definitions in a version that it does not serve.
	if object["apiVersion"] != v1beta1.SchemeGroupVersion.String() || object["kind"] != "CustomResourceDefinition" {
		return object, nil
	}
	internal, _, err := serializer.NewCodecFactory(definitions()).UniversalDecoder().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	typed, err := definitions().ConvertToVersion(internal, v1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return unstructuredOf(typed, v1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
}

// unstructuredOf returns the content of an object.
func unstructuredOf(typed runtime.Object, kind schema.GroupVersionKind) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	object["apiVersion"], object["kind"] = kind.GroupVersion().String(), kind.Kind
	return object, nil
}
