package crd

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	fields "flyball.dev/apiserver/managedfields"
)

// lazyTypes is a TypeConverter that is built for the first write.
type lazyTypes struct {
	build func() (managedfields.TypeConverter, error)
	shape *shape // nil for kinds of the Kubernetes libraries
}

func (t *lazyTypes) ObjectToTyped(obj runtime.Object, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	types, err := t.build()
	if err != nil {
		return nil, err
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || t.shape == nil {
		return types.ObjectToTyped(obj, o...)
	}
	extent := fields.ExtentOf(u.Object)
	if extent.Paths > maxPaths {
		return nil, fmt.Errorf("the paths of the object's fields have %d bytes, more than %d", extent.Paths, maxPaths)
	}
	if err := t.shape.checkLoad(u.Object, u.GroupVersionKind().Version); err != nil { // an apply is not decoded
		return nil, err
	}
	v, err := types.ObjectToTyped(obj, o...)
	if err == nil && extent.Wide() {
		v = fields.Sorted(v)
	}
	return v, err
}

func (t *lazyTypes) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	types, err := t.build()
	if err != nil {
		return nil, err
	}
	return types.TypedToObject(v)
}

// customTypes returns the merge schemas of all versions of a custom kind.
func customTypes(s *shape) *lazyTypes {
	return &lazyTypes{shape: s, build: sync.OnceValues(func() (managedfields.TypeConverter, error) {
		schemas := maps.Clone(metadataTypes())
		for version, schema := range s.schemas {
			schemas[s.kind.Group+"."+version+"."+s.kind.Kind] = customType(s.kind.WithVersion(version), schema())
		}
		return managedfields.NewTypeConverter(schemas, s.preserveUnknown)
	})}
}

// customType returns the schema of one version, including the fields of all objects.
func customType(kind schema.GroupVersionKind, s *structural.Structural) *spec.Schema {
	if s == nil {
		return &spec.Schema{
			SchemaProps:      spec.SchemaProps{Type: spec.StringOrArray{"object"}},
			VendorExtensible: spec.VendorExtensible{Extensions: kindExtension(kind)},
		}
	}
	out := s.ToKubeOpenAPI()
	embed(out)
	addObjectProperties(out)
	out.Extensions = maps.Clone(out.Extensions)
	if out.Extensions == nil {
		out.Extensions = spec.Extensions{}
	}
	maps.Copy(out.Extensions, kindExtension(kind))
	return out
}

func kindExtension(kind schema.GroupVersionKind) spec.Extensions {
	return spec.Extensions{"x-kubernetes-group-version-kind": []any{
		map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
	}}
}

// addObjectProperties adds the properties that all objects have.
func addObjectProperties(s *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *spec.RefSchema(reference(metav1.ObjectMeta{}.OpenAPIModelName())))
}

// embed adds the properties of all objects to the embedded resources of a schema.
func embed(s *spec.Schema) {
	for name, property := range s.Properties {
		embed(&property)
		if embedded, _ := property.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
			addObjectProperties(&property)
		}
		s.Properties[name] = property
	}
	for _, inner := range []*spec.Schema{itemsOf(s), valuesOf(s)} {
		if inner == nil {
			continue
		}
		embed(inner)
		if embedded, _ := inner.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
			addObjectProperties(inner)
		}
	}
}

func itemsOf(s *spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func valuesOf(s *spec.Schema) *spec.Schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

const referencePrefix = "#/components/schemas/"

func reference(name string) string { return referencePrefix + common.EscapeJsonPointer(name) }

// metadataTypes are the schemas of object metadata. They are built once and must not be changed.
var metadataTypes = sync.OnceValue(func() map[string]*spec.Schema {
	return libraryTypes(metav1.ObjectMeta{}.OpenAPIModelName())
})

// libraryKind returns the merge schema of a kind of the Kubernetes libraries.
func libraryKind(name string, kind schema.GroupVersionKind) *lazyTypes {
	return libraryKinds(map[string]schema.GroupVersionKind{name: kind})
}

// libraryKinds returns the merge schema of kinds of the Kubernetes libraries, by the names of their types.
func libraryKinds(kinds map[string]schema.GroupVersionKind) *lazyTypes {
	return &lazyTypes{build: sync.OnceValues(func() (managedfields.TypeConverter, error) {
		types := map[string]*spec.Schema{}
		for name, kind := range kinds {
			maps.Copy(types, libraryTypes(name))
			types[name].Extensions = kindExtension(kind)
		}
		return managedfields.NewTypeConverter(types, false)
	})}
}

// libraryTypes returns the schemas of a type of the Kubernetes libraries and of all types within it.
func libraryTypes(root string) map[string]*spec.Schema {
	library := generated.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(reference(name)) })
	types := map[string]*spec.Schema{}
	var add func(s *spec.Schema)
	add = func(s *spec.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref.String(), referencePrefix); ok && types[name] == nil {
			found := library[name].Schema
			types[name] = &found
			add(&found)
		}
		for _, property := range s.Properties {
			add(&property)
		}
		for i := range s.AllOf {
			add(&s.AllOf[i])
		}
		add(itemsOf(s))
		add(valuesOf(s))
	}
	add(spec.RefSchema(reference(root)))
	return types
}
