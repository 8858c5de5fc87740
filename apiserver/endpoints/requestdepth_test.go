package endpoints_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"flyball.dev/controlplane/controlplanetest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/yaml"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/controlplane"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	tooDeep         = 9000
)

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

func widget(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":%s}`, name, spec)
}

// deepSchema returns a schema with nested schemas.
func deepSchema(depth int) string {
	return strings.Repeat(`{"not":`, depth) + `{"type":"object"}` + strings.Repeat("}", depth)
}

// deepDefinition returns a definition in protobuf. The protobuf decoder does not limit the depth.
func deepDefinition(t *testing.T, depth int) string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal([]byte(definition(`{"type":"object"}`)), crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec.Versions[0].Schema = nil
	rest, err := crd.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const not, schema, openAPIV3Schema, versions, spec = 30, 4, 1, 7, 2
	fields := append([]int{spec, versions, schema, openAPIV3Schema}, slices.Repeat([]int{not}, depth)...)
	var headers [][]byte // from the innermost
	size := 0
	for _, field := range slices.Backward(fields) {
		header := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field<<3|2)), uint64(size))
		headers, size = append(headers, header), size+len(header)
	}
	slices.Reverse(headers)
	inside := bytes.Join(headers, nil)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, Raw: append(rest, inside...)}
	envelope, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(envelope)
}

func asYAML(t *testing.T, text string) string {
	t.Helper()
	out, err := utilyaml.JSONToYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestDepthIsBounded: a request with a deep document is refused before it takes a path. Only the fallback supports the one patch that makes
// a deep document of others.
func TestDepthIsBounded(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	send := controlplanetest.Sender(t, plane.Config())
	if code, body := send(http.MethodPost, definitionsPath, "application/json", definition(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)); code != http.StatusCreated {
		t.Fatalf("the definition: %d %s", code, body)
	}
	if code, body := send(http.MethodPost, widgetsPath, "application/json", widget("there", nested(100))); code != http.StatusCreated {
		t.Fatalf("100 levels: %d %s", code, body)
	}
	const there = widgetsPath + "/there"
	for _, tc := range []struct{ name, method, path, kind, body string }{
		{"create", http.MethodPost, widgetsPath, "application/json", widget("x", nested(tooDeep))},
		{"create in YAML", http.MethodPost, widgetsPath, "application/yaml", asYAML(t, widget("x", nested(500)))},
		{"update", http.MethodPut, there, "application/json", widget("there", nested(tooDeep))},
		{"merge patch", http.MethodPatch, there, "application/merge-patch+json", fmt.Sprintf(`{"spec":%s}`, nested(tooDeep))},
		{"JSON patch", http.MethodPatch, there, "application/json-patch+json", fmt.Sprintf(`[{"op":"add","path":"/spec/b","value":%s}]`, nested(tooDeep))},
		{"JSON patch that copies", http.MethodPatch, there, "application/json-patch+json", fmt.Sprintf(`[{"op":"copy","from":"/spec","path":"/spec%s/b"}]`, strings.Repeat("/a", 50))},
		{"apply", http.MethodPatch, there + "?fieldManager=me", "application/apply-patch+yaml", widget("there", nested(tooDeep))},
		{"delete", http.MethodDelete, there, "application/json", nested(tooDeep)},
		{"strategic merge patch", http.MethodPatch, "/api/v1/namespaces/default", "application/strategic-merge-patch+json", fmt.Sprintf(`{"spec":%s}`, nested(tooDeep))},
		{"built-in kind with a document inside", http.MethodPost, "/apis/apps/v1/namespaces/default/controllerrevisions", "application/json",
			fmt.Sprintf(`{"metadata":{"name":"x"},"revision":1,"data":%s}`, nested(tooDeep))},
		{"definition", http.MethodPost, definitionsPath, "application/json", definition(deepSchema(tooDeep))},
		{"definition in YAML", http.MethodPost, definitionsPath, "application/yaml", asYAML(t, definition(deepSchema(500)))},
		{"definition in protobuf", http.MethodPost, definitionsPath, "application/vnd.kubernetes.protobuf", deepDefinition(t, 300_000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, before := send(http.MethodGet, there, "", "")
			paths := endpointstest.Count(t, "", endpointstest.Writes...)
			code, body := send(tc.method, tc.path, tc.kind, tc.body)
			if tc.name == "JSON patch that copies" {
				paths().Require(t, endpointstest.Fallback("patch"), 1)
			} else if took := paths(); took.Sum() > 0 {
				t.Errorf("the request took the path %v", took)
			}
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil {
				t.Fatalf("the response %d is not a Status: %.200q", code, body)
			}
			if (code != http.StatusBadRequest && code != http.StatusUnprocessableEntity) || !strings.Contains(status.Message, "nested more than 128 levels deep") {
				t.Errorf("got %d %s: %.300s", code, status.Reason, status.Message)
			}
			if _, after := send(http.MethodGet, there, "", ""); string(before) != string(after) {
				t.Error("the object has changed")
			}
		})
	}
}
