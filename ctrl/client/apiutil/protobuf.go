package apiutil

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"flyball.dev/internal/clientscheme"
)

// registered has the kinds that a program has registered with AddToProtobufScheme. They can only be
// kinds of aggregated API servers, as custom resources do not support protobuf.
var registered = struct {
	sync.RWMutex
	scheme *runtime.Scheme
}{scheme: runtime.NewScheme()}

// AddToProtobufScheme registers kinds of servers that support protobuf. The built-in kinds of
// Kubernetes need not be registered.
func AddToProtobufScheme(addToScheme func(*runtime.Scheme) error) error {
	registered.Lock()
	defer registered.Unlock()
	return addToScheme(registered.scheme)
}

func servedAsProtobuf(gvk schema.GroupVersionKind) bool {
	if clientscheme.Scheme().Recognizes(gvk) { // every API server supports protobuf for them
		return true
	}
	registered.RLock()
	defer registered.RUnlock()
	return registered.scheme.Recognizes(gvk)
}

// protobufDecodes reports whether the Go types in codecs of a kind and of its list implement
// protobuf. A missing type does not prevent it.
func protobufDecodes(gvk schema.GroupVersionKind, codecs serializer.CodecFactory) bool {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return true
	}
	for _, kind := range []string{gvk.Kind, gvk.Kind + "List"} {
		kind := gvk.GroupVersion().WithKind(kind)
		obj, _, err := info.Serializer.Decode([]byte("{}"), &kind, nil)
		if err == nil && !ImplementsProtobuf(obj) {
			return false
		}
	}
	return true
}

// ImplementsProtobuf reports whether the serializers of k8s.io/apimachinery can encode obj as
// protobuf and decode it. They cannot if the methods are promoted from an embedded field, as they
// would encode that field alone.
func ImplementsProtobuf(obj runtime.Object) bool {
	if _, ok := obj.(interface {
		Reset()
		unmarshaler
	}); !ok {
		return false
	}
	switch obj.(type) {
	case runtime.ProtobufMarshaller, interface{ Marshal() ([]byte, error) }:
		return !promotesUnmarshal(reflect.TypeOf(obj))
	default:
		return false
	}
}

// unmarshaler has the method by which generated code decodes protobuf.
type unmarshaler interface{ Unmarshal([]byte) error }

// promotesUnmarshal reports whether a pointer to a struct has the method Unmarshal from an embedded field. If several
// embedded fields have the method, as TypeMeta and ObjectMeta may, none is promoted. A lookup of the method by its name
// in a variable would make the linker keep all methods of all types in every operator.
func promotesUnmarshal(pointer reflect.Type) bool {
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return false
	}
	promoters := 0
	for field := range pointer.Elem().Fields() {
		if !field.Anonymous {
			continue
		}
		t := field.Type
		if t.Kind() == reflect.Struct {
			t = reflect.PointerTo(t)
		}
		if t.Implements(reflect.TypeFor[unmarshaler]()) {
			promoters++
		}
	}
	return promoters == 1
}

// withoutProtobuf removes protobuf from the content types of cfg.
func withoutProtobuf(cfg *rest.Config) {
	if isProtobuf(cfg.ContentType) {
		cfg.ContentType = runtime.ContentTypeJSON
	}
	if cfg.AcceptContentTypes != "" {
		accepted := slices.DeleteFunc(strings.Split(cfg.AcceptContentTypes, ","), isProtobuf)
		cfg.AcceptContentTypes = strings.Join(accepted, ",")
	}
}

func isProtobuf(mediaType string) bool {
	return strings.HasPrefix(strings.TrimSpace(mediaType), runtime.ContentTypeProtobuf)
}
