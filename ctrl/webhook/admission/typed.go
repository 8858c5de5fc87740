package admission

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typedDecoder decodes the objects of requests for the handlers of a [Defaulter] and a [Validator].
type typedDecoder[T runtime.Object] struct {
	decoder Decoder
	new     func(Request) (T, error) // returns an empty object to decode into
}

// newTypedDecoder returns a decoder of objects of type T or, if T is an interface, of the type that
// scheme has for the kind in the request.
func newTypedDecoder[T runtime.Object](scheme *runtime.Scheme) typedDecoder[T] {
	t := typedDecoder[T]{decoder: NewDecoder(scheme)}
	switch typ := reflect.TypeFor[T](); typ.Kind() {
	case reflect.Pointer:
		t.new = func(Request) (T, error) { return reflect.New(typ.Elem()).Interface().(T), nil }
	case reflect.Interface:
		t.new = func(req Request) (obj T, err error) {
			created, err := scheme.New(schema.GroupVersionKind(req.Kind))
			if err != nil {
				return obj, err
			}
			obj, ok := created.(T)
			if !ok {
				return obj, fmt.Errorf("%T is not a %v", created, typ)
			}
			return obj, nil
		}
	default:
		t.new = func(Request) (obj T, _ error) { return obj, nil }
	}
	return t
}

// decoderLike returns a decoder of objects of the same type as obj.
func decoderLike(scheme *runtime.Scheme, obj runtime.Object) typedDecoder[runtime.Object] {
	return typedDecoder[runtime.Object]{
		decoder: NewDecoder(scheme),
		new:     func(Request) (runtime.Object, error) { return obj.DeepCopyObject(), nil },
	}
}

// decode returns the object in raw.
func (t typedDecoder[T]) decode(req Request, raw runtime.RawExtension) (T, error) {
	obj, err := t.new(req)
	if err == nil {
		err = t.decoder.DecodeRaw(raw, obj)
	}
	return obj, err
}
