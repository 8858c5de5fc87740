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

// builtin has the kinds that every API server speaks protobuf for. It is a scheme
// of its own because programs add kinds of theirs to client-go's.
var builtin = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
})

// registered has the kinds that a program says are served as protobuf too. Only
// those of aggregated servers can be, as custom resources never are.
var registered = struct {
	sync.RWMutex
	scheme *runtime.Scheme
}{scheme: runtime.NewScheme()}

// AddToProtobufScheme registers kinds whose server speaks protobuf. Kinds that
// are built into Kubernetes need not be registered.
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

// protobufDecodes tells whether the Go types that codecs have for a kind and for
// its list implement protobuf. Types that codecs do not have are not in the way.
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

// ImplementsProtobuf tells whether obj can be encoded as protobuf, and be decoded
// from it, by the serializers of k8s.io/apimachinery. A type that has the methods
// from a single embedded field does not count: they are about that field alone,
// and would lose what is beside it.
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

// promoted tells whether a pointer to a struct has a method from an embedded
// field. Fields that would both have it to give, as the metadata of an object, hide
// each other's.
func promoted(pointer reflect.Type, method string) bool {
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return false
	}
	givers := 0
	for field := range pointer.Elem().Fields() {
		if !field.Anonymous {
			continue
		}
		t := field.Type
		if t.Kind() == reflect.Struct {
			t = reflect.PointerTo(t)
		}
		if _, ok := t.MethodByName(method); ok {
			givers++
		}
	}
	return givers == 1
}

// withoutProtobuf makes cfg neither send protobuf nor ask for it.
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
