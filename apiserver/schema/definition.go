package schema

import (
	"reflect"
	"strings"
	"sync"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	openapi "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Definition is a Go type under its OpenAPI name.
type Definition struct {
	// Name is the model's name, such as io.k8s.api.core.v1.Pod.
	Name string
	// Type is the Go type, never a pointer.
	Type reflect.Type

	v2, v3 func() *spec.Schema
	merge  func() smd.TypeDef
	closed func() []*Definition
}

var definitions sync.Map // reflect.Type → *Definition

// Of returns the definition of a struct, or of a type that implements its OpenAPI definition. For a pointer, it returns
// the definition of the element.
func Of(t reflect.Type) *Definition {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := definitions.Load(t); ok {
		return d.(*Definition)
	}
	d := &Definition{Name: modelName(t), Type: t}
	d.v2 = untilCollected(func() *spec.Schema { return describe(d, v2) })
	d.v3 = untilCollected(func() *spec.Schema { return describe(d, v3) })
	d.merge = sync.OnceValue(d.mergeType)
	d.closed = sync.OnceValue(d.walk)
	kept, _ := definitions.LoadOrStore(t, d)
	return kept.(*Definition)
}

// untilCollected returns a function that builds a value for the first caller. While a caller has the value, and until the next
// collection of garbage, all callers get the same one. The schemas of all kinds take megabytes, and documents are built rarely.
func untilCollected[T any](build func() *T) func() *T {
	var mu sync.Mutex
	var built weak.Pointer[T]
	return func() *T {
		mu.Lock()
		defer mu.Unlock()
		if v := built.Value(); v != nil {
			return v
		}
		v := build()
		built = weak.Make(v)
		return v
	}
}

// V2 returns the schema in OpenAPI v2, where references have siblings such as descriptions and
// defaults.
func (d *Definition) V2() *spec.Schema { return d.v2() }

// V3 returns the schema in OpenAPI v3, where a reference with siblings is wrapped in allOf, and a
// value of several types has oneOf.
func (d *Definition) V3() *spec.Schema { return d.v3() }

// Closure returns the definition, followed by all definitions to which it refers directly or indirectly.
func (d *Definition) Closure() []*Definition { return d.closed() }

func (d *Definition) walk() []*Definition {
	closure := []*Definition{d}
	seen := map[*Definition]bool{d: true}
	for i := 0; i < len(closure); i++ {
		for _, next := range references(closure[i].Type) {
			if !seen[next] {
				seen[next] = true
				closure = append(closure, next)
			}
		}
	}
	return closure
}

// references returns the definitions that the fields of a type refer to.
func references(t reflect.Type) []*Definition {
	if t.Kind() != reflect.Struct || selfDescribed(t) {
		return nil
	}
	var found []*Definition
	for _, f := range Fields(t) {
		for t := f.Type; t != nil; {
			switch {
			case isDefined(t):
				found = append(found, Of(t))
				t = nil
			case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
				t = t.Elem()
			default:
				t = nil
			}
		}
	}
	return found
}

// isDefined reports whether a type has its own definition.
func isDefined(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || selfDescribed(t)
}

type (
	// modelNamer is implemented by types with an OpenAPI model name.
	modelNamer interface{ OpenAPIModelName() string }
	// documented is implemented by types with generated descriptions of their fields.
	documented interface{ SwaggerDoc() map[string]string }
	// selfTyped is implemented by types that are encoded as something other than their fields.
	selfTyped interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	// oneOfTyped is implemented by types that are encoded in one of several OpenAPI types.
	oneOfTyped interface{ OpenAPIV3OneOfTypes() []string }
)

var selfTypedType = reflect.TypeFor[selfTyped]()

// selfDescribed reports whether a type implements its OpenAPI definition, as Time and Quantity do.
func selfDescribed(t reflect.Type) bool { return t.Implements(selfTypedType) }

// modelName returns the OpenAPIModelName of a type, or else the name that Kubernetes derives from the package and the
// name of the type. It ignores methods promoted from embedded fields.
func modelName(t reflect.Type) string {
	if namer, ok := reflect.Zero(t).Interface().(modelNamer); ok {
		if name := namer.OpenAPIModelName(); strings.HasSuffix(name, "."+t.Name()) {
			return name
		}
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	domain := strings.Split(host, ".")
	for i, j := 0, len(domain)-1; i < j; i, j = i+1, j-1 {
		domain[i], domain[j] = domain[j], domain[i]
	}
	parts := append(domain, strings.Split(rest, "/")...)
	return strings.Join(append(parts, t.Name()), ".")
}

// texts returns the descriptions of a type, under "", and of its fields, under their JSON names.
func texts(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(documented); ok {
		return d.SwaggerDoc()
	}
	if d, ok := definedUpstream(t); ok {
		texts := map[string]string{"": d.Schema.Description}
		for name, property := range d.Schema.Properties {
			texts[name] = property.Description
		}
		return texts
	}
	if texts, ok := apiServiceTexts[modelName(t)]; ok {
		return texts
	}
	return map[string]string{"": ownText(t)}
}

// definedUpstream returns the definition of a type of CustomResourceDefinitions in k8s.io/apiextensions-apiserver.
func definedUpstream(t reflect.Type) (openapi.OpenAPIDefinition, bool) {
	if t.PkgPath() != reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]().PkgPath() {
		return openapi.OpenAPIDefinition{}, false
	}
	d, ok := upstream()[modelName(t)]
	return d, ok
}

var upstream = sync.OnceValue(func() map[string]openapi.OpenAPIDefinition {
	return generated.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} })
})

// ownText returns our descriptions of scalar types without a description.
func ownText(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return "A moment, to the second, as RFC 3339 writes it."
	case reflect.TypeFor[metav1.MicroTime]():
		return "A moment, to the microsecond, as RFC 3339 writes it."
	case reflect.TypeFor[metav1.Duration]():
		return "A span of time as Go writes it, such as 1h30m."
	case reflect.TypeFor[intstr.IntOrString]():
		return "An integer or a string, such as a port's number or its name."
	case reflect.TypeFor[resource.Quantity]():
		return "A number that may have a suffix: 500m is one half, 2k two thousand, 1Gi two to the power of 30. " +
			"It has at most three decimal places and is at most 2^63-1."
	case reflect.TypeFor[runtime.RawExtension]():
		return "Any object, kept as it was given."
	default:
		return ""
	}
}

// dialect is a version of OpenAPI.
type dialect struct {
	refs string // prefix of references
	v3   bool
}

var (
	v2 = dialect{refs: "#/definitions/"}
	v3 = dialect{refs: "#/components/schemas/", v3: true}
)

// describe returns the schema of a definition.
func describe(d *Definition, as dialect) *spec.Schema {
	s := &spec.Schema{}
	s.Description = texts(d.Type)[""]
	if selfDescribed(d.Type) {
		zero := reflect.Zero(d.Type).Interface().(selfTyped)
		s.Type, s.Format = zero.OpenAPISchemaType(), zero.OpenAPISchemaFormat()
		if o, ok := zero.(oneOfTyped); ok && as.v3 {
			s.Type, s.OneOf = nil, openapi.GenerateOpenAPIV3OneOfSchema(o.OpenAPIV3OneOfTypes())
		}
		return s
	}
	s.Type = spec.StringOrArray{"object"}
	setMapType(s, exceptionsOf(d.Name).mapType)
	for _, f := range Fields(d.Type) {
		if s.Properties == nil {
			s.Properties = map[string]spec.Schema{}
		}
		if f.isRequired() {
			s.Required = append(s.Required, f.JSONName)
		}
		s.Properties[f.JSONName] = as.property(f)
	}
	return s
}

// property returns the schema of a field: the schema of its type with the properties of the field.
func (as dialect) property(f Field) spec.Schema {
	s := as.value(f.Type)
	s.Description = f.text
	s.Default = f.Default()
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		s.AddExtension("x-kubernetes-patch-strategy", strategy)
	}
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		s.AddExtension("x-kubernetes-patch-merge-key", key)
	}
	if s.Items != nil {
		setListType(&s, f)
	} else {
		setMapType(&s, f.mapType)
	}
	return as.sealed(s)
}

func setMapType(s *spec.Schema, kind string) {
	if kind != "" {
		s.AddExtension("x-kubernetes-map-type", kind)
	}
}

func setListType(s *spec.Schema, f Field) {
	kind, keys := f.ListType()
	s.AddExtension("x-kubernetes-list-type", kind)
	if keys != nil {
		list := make([]any, len(keys)) // as it would be read from JSON
		for i, key := range keys {
			list[i] = key
		}
		s.AddExtension("x-kubernetes-list-map-keys", list)
	}
}

// value returns the schema of a Go type where it is used.
func (as dialect) value(t reflect.Type) spec.Schema {
	var s spec.Schema
	switch {
	case isDefined(t):
		s.Ref = spec.MustCreateRef(as.refs + Of(t).Name)
	case t.Kind() == reflect.Pointer:
		return as.value(t.Elem())
	case t == bytesType:
		s.Type, s.Format = spec.StringOrArray{"string"}, "byte"
	case t.Kind() == reflect.Slice:
		element := as.element(t.Elem())
		s.Type, s.Items = spec.StringOrArray{"array"}, &spec.SchemaOrArray{Schema: &element}
	case t.Kind() == reflect.Map:
		element := as.element(t.Elem())
		s.Type, s.AdditionalProperties = spec.StringOrArray{"object"}, &spec.SchemaOrBool{Allows: true, Schema: &element}
	case t.Kind() == reflect.Interface:
		s.Type = spec.StringOrArray{"object"}
	default:
		typ, format := openapi.OpenAPITypeFormat(t.Kind().String())
		s.Type, s.Format = spec.StringOrArray{typ}, format
	}
	return s
}

func (as dialect) element(t reflect.Type) spec.Schema {
	s := as.value(t)
	s.Default = zeroOf(t)
	return as.sealed(s)
}

// sealed wraps a reference with siblings in allOf for v3.
func (as dialect) sealed(s spec.Schema) spec.Schema {
	if as.v3 && s.Ref.GetURL() != nil && (s.Description != "" || s.Default != nil || len(s.Extensions) > 0) {
		s.AllOf = []spec.Schema{{SchemaProps: spec.SchemaProps{Ref: s.Ref}}}
		s.Ref = spec.Ref{}
	}
	return s
}
