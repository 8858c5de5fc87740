package admission

import (
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typed is what the handlers of a [Defaulter] and a [Validator] have in common.
type typed[T runtime.Object] struct {
	decoder Decoder
	new     func(Request) (T, error)
}

// newTyped returns the handler part for T. Objects are of the type T, or if that is an interface,
// of the type that scheme has for the kind in the request.
func newTyped[T runtime.Object](scheme *runtime.Scheme) typed[T] {
	t := typed[T]{decoder: NewDecoder(scheme)}
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

// copiesOf returns the handler part for objects that are of the same type as obj.
func copiesOf(scheme *runtime.Scheme, obj runtime.Object) typed[runtime.Object] {
	return typed[runtime.Object]{
		decoder: NewDecoder(scheme),
		new:     func(Request) (runtime.Object, error) { return obj.DeepCopyObject(), nil },
	}
}

// decode returns the object in raw.
func (t typed[T]) decode(req Request, raw runtime.RawExtension) (T, error) {
	obj, err := t.new(req)
	if err == nil {
		err = t.decoder.DecodeRaw(raw, obj)
	}
	return obj, err
}

// refused is the response to a request that was refused with err: with the status of an API error,
// otherwise Forbidden.
func refused(err error) Response {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return withStatus(false, status.Status())
	}
	return Denied(err.Error())
}
