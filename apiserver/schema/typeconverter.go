package schema

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// TypeConverter returns the converter for the kinds of a scheme. It builds the merge schema of a kind for the first
// object; all converters of the process share the schema.
func TypeConverter(scheme *runtime.Scheme) managedfields.TypeConverter { return converter{scheme} }

// converter converts objects of the scheme's kinds to typed values and back.
type converter struct{ scheme *runtime.Scheme }

// ObjectToTyped converts an object to a typed value. It returns an error if the object's kind is not in the scheme, or
// if the object does not match its schema.
func (c converter) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, ok := c.scheme.AllKnownTypes()[obj.GetObjectKind().GroupVersionKind()]
	if !ok {
		return nil, runtime.NewNotRegisteredErrForKind(c.scheme.Name(), obj.GetObjectKind().GroupVersionKind())
	}
	parseable := Mergeable(t)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return parseable.FromUnstructured(u.UnstructuredContent(), options...)
	}
	return parseable.FromStructured(obj, options...)
}

// TypedToObject returns the value as an unstructured object.
func (c converter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	content, ok := value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("not an object but a %T", value.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}

var mergeables sync.Map // reflect.Type → func() *typed.ParseableType

// Mergeable returns the merge schema of a Go type.
func Mergeable(t reflect.Type) *typed.ParseableType {
	build, ok := mergeables.Load(t)
	if !ok {
		build, _ = mergeables.LoadOrStore(t, sync.OnceValue(func() *typed.ParseableType { return mergeable(Of(t)) }))
	}
	return build.(func() *typed.ParseableType)()
}

func mergeable(d *Definition) *typed.ParseableType {
	types := anyTypes()
	for _, part := range d.Closure() {
		types = append(types, part.merge())
	}
	return &typed.ParseableType{
		Schema:  &smd.Schema{Types: types},
		TypeRef: smd.TypeRef{NamedType: &d.Name},
	}
}

// anyTypes returns the definitions of values without a schema. Other definitions refer to them.
func anyTypes() []smd.TypeDef {
	s, err := schemaconv.ToSchemaFromOpenAPI(nil, false)
	if err != nil {
		panic(err) // unreachable without definitions
	}
	return s.Types
}

// mergeType returns the merge schema of a single definition.
func (d *Definition) mergeType() smd.TypeDef {
	s, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{d.Name: d.V2()}, false)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", d.Name, err)) // built by this package
	}
	return s.Types[0]
}
