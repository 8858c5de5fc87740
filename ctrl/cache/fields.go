package cache

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client"
)

// fieldsOf reads the fields of an object by their path.
type fieldsOf struct {
	object  client.Object
	content map[string]any
}

var _ fields.Fields = &fieldsOf{}

// Has implements fields.Fields.
func (f *fieldsOf) Has(string) bool {
	return true
}

// Get implements fields.Fields. A field that is not set is empty, as it is for
// the server.
func (f *fieldsOf) Get(path string) string {
	switch path {
	case "metadata.name":
		return f.object.GetName()
	case namespaceField:
		return f.object.GetNamespace()
	}
	if f.content == nil {
		f.content = contentOf(f.object)
	}
	value, found, err := unstructured.NestedFieldNoCopy(f.content, strings.Split(path, ".")...)
	if !found || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

// contentOf returns what the object would be as JSON, empty if it has no such
// form.
func contentOf(obj client.Object) map[string]any {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.UnstructuredContent()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return map[string]any{}
	}
	return content
}
