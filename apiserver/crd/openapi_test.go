package crd_test

import (
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestOpenAPI(t *testing.T) {
	s := newApps(t)
	r, _ := s.catalog.Snapshot().Lookup(appsResource)
	v2, err := r.OpenAPI.V2()
	if err != nil {
		t.Fatal(err)
	}
	v3, err := r.OpenAPI.V3()
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range map[string]spec.Schema{
		"v2": v2.Definitions["com.example.v1.App"],
		"v3": *v3.Components.Schemas["com.example.v1.App"],
	} {
		minimum := schema.Properties["spec"].Properties["replicas"].Minimum
		if minimum == nil || *minimum != 2 {
			t.Errorf("%s: minimum of replicas: %v", name, minimum)
		}
		if m := schema.Properties["metadata"]; m.Ref.String() == "" && len(m.AllOf) == 0 {
			t.Errorf("%s: metadata refers to nothing", name)
		}
		if _, ok := schema.Extensions["x-kubernetes-group-version-kind"]; !ok {
			t.Errorf("%s: no kind", name)
		}
	}
	path := "/apis/example.com/v1/namespaces/{namespace}/apps/{name}/scale"
	if v2.Paths.Paths[path].Get == nil || v3.Paths.Paths[path].Get == nil {
		t.Errorf("no %s", path)
	}
}
