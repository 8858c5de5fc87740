package apiutil

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// builtin has the kinds for which every API server supports protobuf. It is a separate scheme
// because programs add kinds to client-go's.
var builtin = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
})

// registered has the kinds that a program has registered with AddToProtobufScheme. They can only be
// kinds of aggregated API servers, as custom resources do not support protobuf.
var registered = struct {
	sync.RWMutex
	scheme *runtime.Scheme
}{scheme: runtime.NewScheme()}

// AddToProtobufScheme registers kinds whose server supports protobuf. The built-in kinds of
// Kubernetes need not be registered.
func AddToProtobufScheme(addToScheme func(*runtime.Scheme) error) error {
	registered.Lock()
	defer registered.Unlock()
	return addToScheme(registered.scheme)
}

func servedAsProtobuf(gvk schema.GroupVersionKind) bool {
	if builtin().Recognizes(gvk) {
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
		Unmarshal([]byte) error
	}); !ok {
		return false
	}
	switch obj.(type) {
	case runtime.ProtobufMarshaller, interface{ Marshal() ([]byte, error) }:
		return !promoted(reflect.TypeOf(obj), "Unmarshal")
	default:
		return false
	}
}

// promoted reports whether a pointer to a struct has a method from an embedded field. If several
// embedded fields have the method, as TypeMeta and ObjectMeta may, none is promoted.
func promoted(pointer reflect.Type, method string) bool {
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
		if _, ok := t.MethodByName(method); ok {
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
