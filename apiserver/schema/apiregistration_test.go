package schema

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestAPIServiceSchemasEqualUpstream compares the fields of APIServices with kube-aggregator's definitions.
func TestAPIServiceSchemasEqualUpstream(t *testing.T) {
	definitions := aggregator.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) })
	compared := 0
	for _, d := range Of(reflect.TypeFor[apiregistrationv1.APIServiceList]()).Closure() {
		if !strings.HasPrefix(d.Name, apiregistration) {
			continue
		}
		got, want := d.V2(), definitions[d.Name].Schema
		if got.Description == "" {
			t.Errorf("%s has no description", d.Name)
		}
		slices.Sort(got.Required)
		slices.Sort(want.Required)
		if !slices.Equal(got.Required, want.Required) {
			t.Errorf("%s requires %v, upstream %v", d.Name, got.Required, want.Required)
		}
		if len(got.Properties) != len(want.Properties) {
			t.Errorf("%s has %d fields, upstream %d", d.Name, len(got.Properties), len(want.Properties))
		}
		for name, theirs := range want.Properties {
			compared++
			ours := got.Properties[name]
			if ours.Description == "" && name != "kind" && name != "apiVersion" {
				t.Errorf("%s.%s has no description", d.Name, name)
			}
			if !slices.Equal(ours.Type, theirs.Type) || ours.Format != theirs.Format || ours.Ref.String() != theirs.Ref.String() {
				t.Errorf("%s.%s is %v %s %s, upstream %v %s %s", d.Name, name, ours.Type, ours.Format, &ours.Ref, theirs.Type, theirs.Format, &theirs.Ref)
			}
			for _, extension := range []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy"} {
				if theirs.Format == "byte" {
					continue // a string, for which upstream has a list type
				}
				a, b := ours.Extensions[extension], theirs.Extensions[extension]
				if extension == "x-kubernetes-list-type" && name == "items" {
					continue // of lists, nobody applies one
				}
				if !reflect.DeepEqual(a, b) {
					t.Errorf("%s.%s: %s is %v, upstream %v", d.Name, name, extension, a, b)
				}
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d fields compared", compared)
	}
}
