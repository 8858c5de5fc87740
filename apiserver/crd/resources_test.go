package crd_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/storage"
)

// apps is a definition with status, scale, columns, selectable fields, rules and defaults.
const apps = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: apps, singular: app, kind: App, listKind: AppList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Image, type: string, jsonPath: .spec.image, priority: 1}
    selectableFields:
    - jsonPath: .spec.image
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [image]
            x-kubernetes-validations:
            - {rule: "!has(self.max) || self.replicas <= self.max", message: replicas must not exceed max}
            properties:
              image: {type: string, pattern: '^[a-z:.0-9]+$', x-kubernetes-validations: [{rule: self != 'bad', message: image must not be bad}]}
              replicas: {type: integer, minimum: 2, default: 3}
              max: {type: integer}
              class: {type: string, enum: [gold, silver], x-kubernetes-validations: [{rule: self == oldSelf, message: class is immutable}]}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer, default: 80}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              note: {type: string, nullable: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}}}
`

const appsPath = "/apis/example.com/v1/namespaces/default/apps"

var (
	appsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "apps"}
	mergePatch   = []string{"Content-Type", "application/merge-patch+json"}
	jsonPatch    = []string{"Content-Type", "application/json-patch+json"}
	applyPatch   = []string{"Content-Type", "application/apply-patch+yaml"}
)

// app is an App of a name with a spec.
func app(name, spec string) string {
	return "{apiVersion: example.com/v1, kind: App, metadata: {name: " + name + "}, spec: " + spec + "}"
}

func newApps(t testing.TB) *server {
	s := newServer(t)
	s.define(apps)
	return s
}

func TestValidation(t *testing.T) {
	s := newApps(t)
	for name, test := range map[string]struct {
		body    string
		message []string
	}{
		"minimum":   {app("a", "{image: x, replicas: 1}"), []string{`App.example.com "a" is invalid: spec.replicas: Invalid value: 1: spec.replicas in body should be greater than or equal to 2`}},
		"enum":      {app("a", "{image: x, class: lead}"), []string{`spec.class: Unsupported value: "lead": supported values: "gold", "silver"`}},
		"required":  {app("a", "{}"), []string{"spec.image: Required value"}},
		"pattern":   {app("a", "{image: X Y}"), []string{`spec.image: Invalid value: "X Y": spec.image in body should match '^[a-z:.0-9]+$'`}},
		"type":      {app("a", "{image: 1}"), []string{`spec.image: Invalid value: "integer": spec.image in body must be of type string`}},
		"CEL":       {app("a", "{image: bad}"), []string{`spec.image: Invalid value: "bad": image must not be bad`}},
		"CEL above": {app("a", "{image: x, max: 2}"), []string{"spec: Invalid value", "replicas must not exceed max"}},
		"list map":  {app("a", "{image: x, ports: [{name: a}, {name: a}]}"), []string{`spec.ports[1]: Duplicate value: {"name":"a"}`}},
		"name":      {app("A_B", "{image: x}"), []string{`metadata.name: Invalid value: "A_B"`}},
		"embedded":  {app("a", "{image: x, template: {kind: Pod, metadata: {name: x}}}"), []string{"spec.template.apiVersion: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			sub := *s
			sub.t = t
			sub.refused(422, test.message, "POST", appsPath, test.body)
		})
	}
	if n := len(s.want(200, "GET", appsPath, "").object["items"].([]any)); n != 0 {
		t.Errorf("%d apps are stored", n)
	}
	s.refused(400, []string{"the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"},
		"POST", appsPath, "{apiVersion: example.com/v2, kind: App, metadata: {name: a}}")
	s.refused(400, []string{"cannot unmarshal array into Go struct field ObjectMeta.labels"}, "POST", appsPath, "{apiVersion: example.com/v1, kind: App, metadata: {name: a, labels: [x]}}")
}

func TestPruningAndDefaulting(t *testing.T) {
	s := newApps(t)
	a := s.want(201, "POST", appsPath, app("a", "{image: x, unknown: 1, replicas: null, note: null, ports: [{name: p, extra: 1}], free: {any: {thing: 1}}, template: {apiVersion: v1, kind: Pod, metadata: {name: x, bogus: 1}, spec: {a: 1}}}"))
	want := map[string]any{
		"image": "x", "replicas": float64(3), "note": nil,
		"ports":    []any{map[string]any{"name": "p", "port": float64(80)}},
		"free":     map[string]any{"any": map[string]any{"thing": float64(1)}},
		"template": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"a": float64(1)}},
	}
	if diff := cmp.Diff(want, a.object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a.object, s.want(200, "GET", appsPath+"/a", "").object); diff != "" {
		t.Errorf("read back differs:\n%s", diff)
	}
}

func TestFieldValidation(t *testing.T) {
	s := newApps(t)
	body := app("a", "{image: x, unknown: 1, ports: [{name: p, extra: 1}], template: {apiVersion: v1, kind: Pod, metadata: {bogus: 1}}}")
	unknown := []string{`unknown field "spec.unknown"`, `unknown field "spec.ports[0].extra"`, `unknown field "spec.template.metadata.bogus"`}
	s.refused(400, unknown, "POST", appsPath+"?fieldValidation=Strict", body)
	a := s.want(201, "POST", appsPath+"?fieldValidation=Warn", body)
	if got := strings.Join(a.warnings, "\n"); len(a.warnings) != 3 || !strings.Contains(got, "spec.ports[0].extra") {
		t.Errorf("warnings: %s", got)
	}
	a = s.want(200, "PATCH", appsPath+"/a?fieldValidation=Ignore", `{"spec":{"unknown":1}}`, mergePatch...)
	if len(a.warnings) != 0 {
		t.Errorf("warnings: %v", a.warnings)
	}
	s.refused(422, unknown[:1], "PATCH", appsPath+"/a?fieldValidation=Strict", `{"spec":{"unknown":1}}`, mergePatch...)
	s.refused(400, []string{`duplicate field "metadata"`}, "POST", appsPath+"?fieldValidation=Strict",
		`{"apiVersion":"example.com/v1","kind":"App","metadata":{"name":"b"},"metadata":{"name":"b"},"spec":{"image":"x"}}`)
}

func TestTransitionRuleAndRatcheting(t *testing.T) {
	s := newApps(t)
	s.want(201, "POST", appsPath, app("a", "{image: x, class: gold, replicas: 2}"))
	s.refused(422, []string{`spec.class: Invalid value: "silver": class is immutable`}, "PATCH", appsPath+"/a", `{"spec":{"class":"silver"}}`, mergePatch...)
	// A stored value that violates a rule that was added later may stay, but not change.
	s.want(200, "PATCH", definitionsPath+"/apps.example.com",
		`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/minimum","value":5},
		  {"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/default","value":5}]`, jsonPatch...)
	s.want(200, "PATCH", appsPath+"/a", `{"spec":{"image":"other"}}`, mergePatch...)
	s.refused(422, []string{"spec.replicas: Invalid value: 3"}, "PATCH", appsPath+"/a", `{"spec":{"replicas":3}}`, mergePatch...)
}

func TestStatusSubresource(t *testing.T) {
	s := newApps(t)
	a := s.want(201, "POST", appsPath, "{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {image: x}, status: {replicas: 9}}")
	if a.object["status"] != nil {
		t.Errorf("create wrote the status: %v", a.object["status"])
	}
	a = s.want(200, "PATCH", appsPath+"/a/status", `{"spec":{"image":"other"},"status":{"replicas":1},"metadata":{"labels":{"a":"b"}}}`, mergePatch...)
	if field(a.object, "spec", "image") != "x" || field(a.object, "status", "replicas") != float64(1) || field(a.object, "metadata", "generation") != float64(1) {
		t.Errorf("write of the status: %s", a.body)
	}
	if field(a.object, "metadata", "labels") != nil {
		t.Errorf("a write of the status wrote the labels")
	}
	a = s.want(200, "PATCH", appsPath+"/a", `{"spec":{"image":"z"},"status":{"replicas":7}}`, mergePatch...)
	if field(a.object, "spec", "image") != "z" || field(a.object, "status", "replicas") != float64(1) || field(a.object, "metadata", "generation") != float64(2) {
		t.Errorf("write of the spec: %s", a.body)
	}
	s.refused(422, []string{"status.replicas: Invalid value"}, "PATCH", appsPath+"/a/status", `{"status":{"replicas":"many"}}`, mergePatch...)
	s.want(404, "GET", widgetsPath+"/a/status", "")
}

func TestScaleSubresource(t *testing.T) {
	s := newApps(t)
	s.want(201, "POST", appsPath, app("a", "{image: x, replicas: 2}"))
	s.want(200, "PATCH", appsPath+"/a/status", `{"status":{"replicas":1,"selector":"app=a"}}`, mergePatch...)
	a := s.want(200, "GET", appsPath+"/a/scale", "")
	if a.object["kind"] != "Scale" || a.object["apiVersion"] != "autoscaling/v1" ||
		!cmp.Equal(a.object["spec"], map[string]any{"replicas": float64(2)}) || !cmp.Equal(a.object["status"], map[string]any{"replicas": float64(1), "selector": "app=a"}) {
		t.Errorf("scale: %s", a.body)
	}
	table := s.want(200, "GET", appsPath+"/a/scale", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").object
	if row := table["rows"].([]any)[0].(map[string]any)["cells"].([]any); len(row) != 4 || row[1] != float64(2) || row[2] != float64(1) {
		t.Errorf("scale as a table: %v", row)
	}
	a = s.want(200, "PUT", appsPath+"/a/scale", "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a, namespace: default}, spec: {replicas: 4}}")
	s.want(200, "PATCH", appsPath+"/a/scale", `{"spec":{"replicas":5}}`, mergePatch...)
	if got := field(s.want(200, "GET", appsPath+"/a", "").object, "spec", "replicas"); got != float64(5) {
		t.Errorf("replicas: %v", got)
	}
	s.refused(422, []string{"spec.replicas"}, "PATCH", appsPath+"/a/scale", `{"spec":{"replicas":1}}`, mergePatch...)
	s.refused(409, []string{".spec.replicas"}, "PATCH", appsPath+"/a/scale?fieldManager=scaler",
		"{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 6}}", applyPatch...)
	s.want(200, "PATCH", appsPath+"/a/scale?fieldManager=scaler&force=true",
		"{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 6}}", applyPatch...)
	a = s.want(200, "GET", appsPath+"/a", "")
	if got := field(a.object, "spec", "replicas"); got != float64(6) {
		t.Errorf("replicas: %v", got)
	}
	var scaler any
	for _, m := range field(a.object, "metadata", "managedFields").([]any) {
		if m := m.(map[string]any); m["manager"] == "scaler" {
			scaler = m["fieldsV1"]
		}
	}
	if !cmp.Equal(scaler, map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}) {
		t.Errorf("the scaler manages %v", scaler)
	}
}

func TestTable(t *testing.T) {
	s := newApps(t)
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	s.want(200, "PATCH", appsPath+"/a/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, mergePatch...)
	a := s.want(200, "GET", appsPath, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	var names []string
	for _, c := range a.object["columnDefinitions"].([]any) {
		names = append(names, c.(map[string]any)["name"].(string))
	}
	if !cmp.Equal(names, []string{"Name", "Replicas", "Ready", "Image"}) {
		t.Errorf("columns: %v", names)
	}
	row := a.object["rows"].([]any)[0].(map[string]any)["cells"]
	if !cmp.Equal(row, []any{"a", float64(3), "True", "x"}) {
		t.Errorf("row: %v", row)
	}
	a = s.want(200, "GET", appsPath+"/a", "", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if a.object["kind"] != "PartialObjectMetadata" || a.object["spec"] != nil {
		t.Errorf("metadata only: %s", a.body)
	}
	s.want(200, "GET", appsPath+"/a", "", "Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	s.want(406, "GET", appsPath+"/a", "", "Accept", "application/vnd.kubernetes.protobuf")
	if body := s.want(200, "GET", appsPath+"/a", "", "Accept", "application/yaml").body; !strings.Contains(body, "kind: App\n") {
		t.Errorf("as YAML: %s", body)
	}
}

func TestApply(t *testing.T) {
	s := newApps(t)
	s.want(201, "PATCH", appsPath+"/a?fieldManager=one", app("a", "{image: x, ports: [{name: web, port: 1}]}"), applyPatch...)
	a := s.want(200, "PATCH", appsPath+"/a?fieldManager=two", app("a", "{ports: [{name: admin, port: 2}]}"), applyPatch...)
	want := []any{map[string]any{"name": "web", "port": float64(1)}, map[string]any{"name": "admin", "port": float64(2)}}
	if diff := cmp.Diff(want, field(a.object, "spec", "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	s.refused(409, []string{`conflict with "one"`, ".spec.image"}, "PATCH", appsPath+"/a?fieldManager=two", app("a", "{image: other, ports: [{name: admin, port: 2}]}"), applyPatch...)
	s.want(200, "PATCH", appsPath+"/a?fieldManager=two&force=true", app("a", "{image: other, ports: [{name: admin, port: 2}]}"), applyPatch...)
	// A manager removes a port by not applying it any more.
	a = s.want(200, "PATCH", appsPath+"/a?fieldManager=one", app("a", "{}"), applyPatch...)
	if diff := cmp.Diff(want[1:], field(a.object, "spec", "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	s.want(200, "PATCH", appsPath+"/a/status?fieldManager=three", "{apiVersion: example.com/v1, kind: App, metadata: {name: a}, status: {replicas: 1}}", applyPatch...)
	managers := map[string]string{}
	for _, m := range field(s.want(200, "GET", appsPath+"/a", "").object, "metadata", "managedFields").([]any) {
		m := m.(map[string]any)
		sub, _ := m["subresource"].(string)
		managers[m["manager"].(string)] = m["operation"].(string) + sub
	}
	if diff := cmp.Diff(map[string]string{"one": "Apply", "two": "Apply", "three": "Applystatus"}, managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
}

func TestDryRun(t *testing.T) {
	s := newApps(t)
	s.want(201, "POST", appsPath+"?dryRun=All", app("a", "{image: x}"))
	s.want(404, "GET", appsPath+"/a", "")
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	s.want(200, "PATCH", appsPath+"/a?dryRun=All", `{"spec":{"image":"other"}}`, mergePatch...)
	s.want(200, "DELETE", appsPath+"/a?dryRun=All", "")
	s.want(200, "DELETE", definitionsPath+"/apps.example.com?dryRun=All", "")
	if got := field(s.want(200, "GET", appsPath+"/a", "").object, "spec", "image"); got != "x" {
		t.Errorf("image: %v", got)
	}
	s.want(201, "POST", appsPath, app("b", "{image: x}"))
}

func TestWatchAndSelectors(t *testing.T) {
	s := newApps(t)
	w, err := s.client.Resource(appsResource).Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.image=x"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	s.want(201, "POST", appsPath, app("b", "{image: other}"))
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	s.want(200, "PATCH", appsPath+"/a", `{"spec":{"image":"other"}}`, mergePatch...)
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		e := <-w.ResultChan()
		if e.Type != want || e.Object.(*unstructured.Unstructured).GetName() != "a" {
			t.Errorf("event %v, want %s of a", e, want)
		}
	}
	if n := len(s.want(200, "GET", appsPath+"?fieldSelector=spec.image%3Dother", "").object["items"].([]any)); n != 2 {
		t.Errorf("%d apps with the other image", n)
	}
	s.refused(400, []string{"field label not supported: spec.replicas"}, "GET", appsPath+"?fieldSelector=spec.replicas%3D3", "")
}

func TestDeprecation(t *testing.T) {
	s := newServer(t)
	s.define(strings.Replace(minimal, "  versions:", "  versions:\n  - {name: v1beta1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}", 1))
	r, _ := s.catalog.Snapshot().Lookup(widgets.GroupResource().WithVersion("v1beta1"))
	if r == nil || r.Warning != "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget" {
		t.Errorf("%+v", r)
	}
	if r, _ := s.catalog.Snapshot().Lookup(widgets); r == nil || r.Warning != "" {
		t.Errorf("%+v", r)
	}
}

func TestSecondVersion(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}")
	a := s.want(200, "PATCH", widgetDefinition, `[
		{"op":"replace","path":"/spec/versions/0/storage","value":false},
		{"op":"add","path":"/spec/versions/-","value":{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{
			"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"},"color":{"type":"string","default":"red"}}}}}}}}]`,
		jsonPatch...)
	if got := field(a.object, "status", "storedVersions"); !cmp.Equal(got, []any{"v1", "v2"}) {
		t.Errorf("storedVersions: %v", got)
	}
	v2 := "/apis/example.com/v2/namespaces/default/widgets"
	a = s.want(200, "GET", v2+"/a", "")
	// Defaults come from the stored version.
	if a.object["apiVersion"] != "example.com/v2" || !cmp.Equal(a.object["spec"], map[string]any{"size": float64(1)}) {
		t.Errorf("in v2: %s", a.body)
	}
	s.want(201, "POST", v2, "{apiVersion: example.com/v2, kind: Widget, metadata: {name: b}, spec: {size: 2, color: blue}}")
	a = s.want(200, "GET", widgetsPath, "")
	if items := a.object["items"].([]any); len(items) != 2 || !cmp.Equal(items[1].(map[string]any)["spec"], map[string]any{"size": float64(2)}) {
		t.Errorf("in v1: %s", a.body)
	}
	// A write in v1 drops the fields that v1 does not have: only the version is converted.
	s.want(200, "PATCH", widgetsPath+"/b", `{"metadata":{"labels":{"a":"b"}}}`, mergePatch...)
	if got := field(s.want(200, "GET", v2+"/b", "").object, "spec"); !cmp.Equal(got, map[string]any{"size": float64(2), "color": "red"}) {
		t.Errorf("after a write through v1: %v", got)
	}
	// A version that is no longer served is gone at once.
	s.want(200, "PATCH", widgetDefinition, `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, jsonPatch...)
	s.want(404, "GET", widgetsPath, "")
	s.want(200, "GET", v2, "")
}

func TestClusterScoped(t *testing.T) {
	s := newServer(t)
	s.define(strings.Replace(minimal, "Namespaced", "Cluster", 1))
	s.want(201, "POST", "/apis/example.com/v1/widgets", widget("a"))
	s.want(200, "GET", "/apis/example.com/v1/widgets/a", "")
	s.want(404, "GET", widgetsPath+"/a", "")
}

// TestPathsThatDoNotExist has paths of the wrong scope and of subresources that a definition does
// not have.
func TestPathsThatDoNotExist(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	s.want(201, "POST", widgetsPath, widget("a"))
	s.want(200, "GET", "/apis/example.com/v1/widgets", "")
	s.want(404, "POST", "/apis/example.com/v1/widgets", widget("b"))
	s.want(404, "DELETE", "/apis/example.com/v1/widgets", "")
	s.want(404, "GET", "/apis/example.com/v1/widgets/a", "")
	s.refused(404, []string{`widgets.example.com "a" not found`}, "GET", widgetsPath+"/a/status", "")
	s.refused(404, []string{`widgets.example.com "a" not found`}, "PUT", widgetsPath+"/a/scale", widget("a"))
	s.want(404, "GET", widgetsPath+"/a/status/more", "")
	s.want(405, "POST", widgetsPath+"/a", widget("a"))
}

func TestOldStoredResource(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	old := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"old","namespace":"default","uid":"u","labels":{"a":1},"bogus":true},"spec":{"size":1,"gone":2}}`
	if _, err := s.backend.Put(t.Context(), storage.Write{Key: "/registry/example.com/widgets/default/old", Value: []byte(old), If: storage.Absent}); err != nil {
		t.Fatal(err)
	}
	a := s.want(200, "GET", widgetsPath+"/old", "")
	if !cmp.Equal(a.object["spec"], map[string]any{"size": float64(1)}) || field(a.object, "metadata", "generation") != float64(1) ||
		field(a.object, "metadata", "labels") != nil || field(a.object, "metadata", "bogus") != nil {
		t.Errorf("read: %s", a.body)
	}
}

// TestDefinitionChangesUnderLoad writes resources while their definition changes.
func TestDefinitionChangesUnderLoad(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	var writers sync.WaitGroup
	done := make(chan struct{})
	for i := range 3 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				body := fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w-%d-%d}, spec: {size: 1}}", i, n)
				if a := s.do("POST", widgetsPath, body); a.code != 201 {
					t.Errorf("create: %s", a.body)
					return
				}
			}
		})
	}
	for i := range 20 {
		s.want(200, "PATCH", widgetDefinition,
			fmt.Sprintf(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/f%d","value":{"type":"string","default":"x"}}]`, i),
			jsonPatch...)
	}
	close(done)
	writers.Wait()
	for _, item := range s.want(200, "GET", widgetsPath, "").object["items"].([]any) {
		if n := len(field(item.(map[string]any), "spec").(map[string]any)); n != 21 {
			t.Fatalf("%d fields: %v", n, item)
		}
	}
}
