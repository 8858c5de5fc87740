package schema

import (
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestEveryFieldHasADescription checks the descriptions that "kubectl explain" prints. The JSON Schema types have no
// descriptions in apiextensions-apiserver.
func TestEveryFieldHasADescription(t *testing.T) {
	jsonSchema := []reflect.Type{reflect.TypeFor[apiextensionsv1.JSONSchemaProps](), reflect.TypeFor[apiextensionsv1.ExternalDocumentation]()}
	for _, kind := range []any{corev1.Pod{}, corev1.Service{}, appsv1.Deployment{}, apiextensionsv1.CustomResourceDefinition{}} {
		for _, d := range Of(reflect.TypeOf(kind)).Closure() {
			for name, property := range d.V3().Properties {
				if property.Description == "" && !slices.Contains(jsonSchema, d.Type) {
					t.Errorf("%s.%s has none", d.Name, name)
				}
			}
		}
	}
}
