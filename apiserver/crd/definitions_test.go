package crd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage/memory"
)

// minimal is a definition with nothing in it that is not needed.
const minimal = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
`

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

const (
	widgetsPath      = "/apis/example.com/v1/namespaces/default/widgets"
	widgetDefinition = definitionsPath + "/widgets.example.com"
)

// widget returns the manifest of a Widget.
func widget(name string) string {
	return "{apiVersion: example.com/v1, kind: Widget, metadata: {name: " + name + "}}"
}

// heldWidget returns the manifest of a Widget with a finalizer.
func heldWidget(name string) string {
	return "{apiVersion: example.com/v1, kind: Widget, metadata: {name: " + name + ", finalizers: [example.com/stay]}}"
}

// renamed is the minimal definition with other names.
func renamed(plural, kind string) string {
	r := strings.NewReplacer("widgets", plural, "WidgetList", kind+"List", "Widget", kind, "widget", strings.ToLower(kind), "wd", plural+"-short")
	return r.Replace(minimal)
}

func TestEstablishedAtOnce(t *testing.T) {
	s := newServer(t)
	crd := s.define(minimal)
	if got := condition(crd, "NamesAccepted"); got != "True NoConflicts" {
		t.Errorf("NamesAccepted: %q", got)
	}
	if got := condition(crd, "Established"); got != "True InitialNamesAccepted" {
		t.Errorf("Established: %q", got)
	}
	if got := field(crd.Object, "status", "storedVersions"); !cmp.Equal(got, []any{"v1"}) {
		t.Errorf("storedVersions: %v", got)
	}
	if got := field(crd.Object, "status", "acceptedNames"); !cmp.Equal(got, field(crd.Object, "spec", "names")) {
		t.Errorf("acceptedNames: %v", got)
	}
	r, ok := s.catalog.Snapshot().Lookup(widgets)
	if !ok {
		t.Fatal("not in the catalog")
	}
	if r.StorageVersionHash == "" || !r.Namespaced || r.ListKind != "WidgetList" || !cmp.Equal(r.ShortNames, []string{"wd"}) || !cmp.Equal(r.Categories, []string{"all"}) {
		t.Errorf("resource is %+v", r)
	}
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}")
	list := s.want(200, "GET", "/apis/example.com/v1/widgets", "")
	if n := len(list.object["items"].([]any)); n != 1 || list.object["kind"] != "WidgetList" {
		t.Errorf("list: %s", list.body)
	}
}

// TestInvalidCABundle has a conversion webhook with certificates that cannot be parsed, which is
// refused only of an established definition.
func TestInvalidCABundle(t *testing.T) {
	s := newServer(t)
	webhook := func(bundle string) string {
		return strings.Replace(minimal, "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1", caBundle: `+bundle+`}}
  versions:`, 1)
	}
	crd := s.define(webhook("Cg=="))
	if got := condition(crd, "NamesAccepted"); got != "True NoConflicts" {
		t.Errorf("NamesAccepted: %q", got)
	}
	if got := condition(crd, "Established"); got != "False InvalidCABundle" {
		t.Errorf("Established: %q", got)
	}
	s.want(404, "GET", widgetsPath, "")

	crd.Object = s.want(200, "PATCH", widgetDefinition, `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`,
		mergePatch...).object
	if got := condition(crd, "Established"); got != "True InitialNamesAccepted" {
		t.Errorf("Established: %q", got)
	}
	s.want(200, "GET", widgetsPath, "")
	s.refused(422, []string{"caBundle: Invalid value"}, "PATCH", widgetDefinition,
		`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"Cg=="}}}}}`, mergePatch...)
}

func TestInvalidDefinitions(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string
		message  []string
	}{
		"not structural": {
			"{size: {type: integer}}", "{size: {description: x}}",
			[]string{"spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value"},
		},
		"bad CEL": {
			"{size: {type: integer}}", "{size: {type: integer, x-kubernetes-validations: [{rule: 'self.foo > 1'}]}}",
			[]string{"spec.validation.openAPIV3Schema.properties[spec].properties[size].x-kubernetes-validations[0].rule: Invalid value", "compilation failed"},
		},
		"name": {
			"name: widgets.example.com", "name: gadgets.example.com",
			[]string{`metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group`},
		},
		"kind": {
			"kind: Widget, ", "kind: wid_get, ",
			[]string{"spec.names.kind: Invalid value"},
		},
		"two storage versions": {
			"versions:", "versions:\n  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}",
			[]string{"spec.versions: Invalid value", "must have exactly one version marked as storage version"},
		},
		"no schema": {
			"    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec: {type: object, properties: {size: {type: integer}}}\n", "",
			[]string{"spec.versions[0].schema.openAPIV3Schema: Required value"},
		},
		"bad default": {
			"{size: {type: integer}}", "{size: {type: integer, default: big}}",
			[]string{"default", "must be of type integer"},
		},
		"protected group without approval": {
			"example.com", "example.k8s.io",
			[]string{"metadata.annotations[api-approved.kubernetes.io]: Required value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			before := s.catalog.Snapshot()
			body := strings.Replace(minimal, test.old, test.new, -1)
			if body == minimal {
				t.Fatal("nothing was replaced")
			}
			s.refused(422, test.message, "POST", definitionsPath, body)
			if s.catalog.Snapshot() != before {
				t.Error("the catalog has changed")
			}
			if n := len(s.want(200, "GET", definitionsPath, "").object["items"].([]any)); n != 0 {
				t.Errorf("%d definitions are stored", n)
			}
		})
	}
}

func TestDefinitionEncodings(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	path := definitionsPath + "/widgets.example.com"
	protobuf := s.want(200, "GET", path, "", "Accept", "application/vnd.kubernetes.protobuf").body
	if !strings.HasPrefix(protobuf, "k8s\x00") {
		t.Errorf("not protobuf: %q", protobuf)
	}
	table := s.want(200, "GET", definitionsPath, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").object
	if row := table["rows"].([]any)[0].(map[string]any)["cells"].([]any); row[0] != "widgets.example.com" {
		t.Errorf("row: %v", row)
	}
	a := s.want(200, "PATCH", path+"?fieldManager=me", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com, labels: {a: b}}}", applyPatch...)
	if field(a.object, "metadata", "labels", "a") != "b" {
		t.Errorf("applied: %s", a.body)
	}
	s.want(200, "PATCH", path, `{"metadata":{"labels":{"a":null}}}`, "Content-Type", "application/strategic-merge-patch+json")
}

// TestDefinitionInProtobuf has a schema for additional properties which, unlike in JSON, does not
// say that they are allowed.
func TestDefinitionInProtobuf(t *testing.T) {
	s := newServer(t)
	client, err := clientset.NewForConfig(&rest.Config{Host: "http://test", Transport: inProcess{s.handler}, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	crd := &v1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(minimal), crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	sizes := v1.JSONSchemaProps{Type: "object", AdditionalProperties: &v1.JSONSchemaPropsOrBool{Schema: &v1.JSONSchemaProps{Type: "integer"}}}
	schema.Properties["sizes"] = sizes
	if crd, err = crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["sizes"].AdditionalProperties.Allows {
		t.Error("read in protobuf, the additional properties are not allowed")
	}
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, sizes: {x: 1}}")
	s.refused(422, []string{"sizes.x: Invalid value"}, "POST", widgetsPath,
		"{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, sizes: {x: big}}")

	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["more"] = sizes
	if _, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, more: {x: 1}}")
}

func TestDefinitionFieldValidation(t *testing.T) {
	s := newServer(t)
	body := strings.Replace(minimal, "scope:", "scopee: x\n  scope:", 1)
	s.refused(400, []string{`unknown field "spec.scopee"`}, "POST", definitionsPath+"?fieldValidation=Strict", body)
	a := s.want(201, "POST", definitionsPath+"?fieldValidation=Warn&dryRun=All", body)
	if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "spec.scopee") {
		t.Errorf("warnings: %q", a.warnings)
	}
	if _, served := s.catalog.Snapshot().Lookup(widgets); served {
		t.Error("a dry run took effect")
	}
}

func TestAlreadyDefined(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	before := s.catalog.Snapshot()
	s.refused(409, []string{`customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" already exists`}, "POST", definitionsPath, minimal)
	if s.catalog.Snapshot() != before {
		t.Error("the catalog has changed")
	}
}

// TestRestartWithConflict: a definition that did not get its names does not get them because it is the first one that the next server
// reads. The server reads more definitions than it lists at once.
func TestRestartWithConflict(t *testing.T) {
	backend := memory.New(memory.Options{})
	s := newServerOn(t, backend, &resource.Catalog{})
	s.define(minimal)
	refused := s.define(strings.Replace(renamed("accessories", "Accessory"), "kind: Accessory,", "kind: Widget,", 1))
	const n = 40
	for i := range n {
		s.define(renamed(fmt.Sprintf("gadgets%ds", i), fmt.Sprint("Gadget", i)))
	}
	s.kinds.Close()
	s = open(t, backend, &resource.Catalog{})
	for i := range n {
		s.want(200, "GET", fmt.Sprintf("/apis/example.com/v1/namespaces/default/gadgets%ds", i), "")
	}
	s.want(200, "GET", "/apis/example.com/v1/namespaces/default/widgets", "")
	s.want(404, "GET", "/apis/example.com/v1/namespaces/default/accessories", "")
	now := &unstructured.Unstructured{Object: s.want(200, "GET", definitionsPath+"/accessories.example.com", "").object}
	if got, want := now.GetResourceVersion(), refused.GetResourceVersion(); got != want {
		t.Errorf("the definition without its names was written: resource version %s, and not %s: %s", got, want, condition(now, "NamesAccepted"))
	}
}

func TestNameConflict(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	second := strings.Replace(renamed("gadgets", "Gadget"), "kind: Gadget,", "kind: Widget,", 1)
	crd := s.define(strings.Replace(second, "shortNames: [gadgets-short]", "shortNames: [wd]", 1))
	if got := condition(crd, "NamesAccepted"); got != "False KindConflict" {
		t.Errorf("NamesAccepted: %q", got)
	}
	if got := condition(crd, "Established"); got != "False NotAccepted" {
		t.Errorf("Established: %q", got)
	}
	gadgets := widgets.GroupVersion().WithResource("gadgets")
	if _, served := s.catalog.Snapshot().Lookup(gadgets); served {
		t.Error("a definition whose names are refused is served")
	}
	// The other definition is deleted, which frees the names.
	watch, err := s.client.Resource(definitions).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=gadgets.example.com", ResourceVersion: crd.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	s.want(200, "DELETE", widgetDefinition, "")
	changed := (<-watch.ResultChan()).Object.(*unstructured.Unstructured)
	if got := condition(changed, "NamesAccepted") + ", " + condition(changed, "Established"); got != "True NoConflicts, True InitialNamesAccepted" {
		t.Errorf("after the deletion of the other definition: %s", got)
	}
	if _, served := s.catalog.Snapshot().Lookup(gadgets); !served {
		t.Error("not served")
	}
}

func TestConflictWithBuiltIn(t *testing.T) {
	catalog := &resource.Catalog{}
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	catalog.Set("built-in", &resource.Resource{GroupVersion: gv, Name: "things", Singular: "widget", Kind: gv.WithKind("Thing"), ListKind: "ThingList"})
	s := newServerOn(t, memory.New(memory.Options{}), catalog)
	if got := condition(s.define(minimal), "NamesAccepted"); got != "False SingularConflict" {
		t.Errorf("NamesAccepted: %q", got)
	}
}

func TestApprovalOfProtectedGroups(t *testing.T) {
	s := newServer(t)
	body := strings.Replace(minimal, "metadata: {name: widgets.example.com}",
		"metadata: {name: widgets.example.k8s.io, annotations: {api-approved.kubernetes.io: 'unapproved, a test'}}", 1)
	crd := s.define(strings.Replace(body, "group: example.com", "group: example.k8s.io", 1))
	if got := condition(crd, "KubernetesAPIApprovalPolicyConformant"); got != "False UnapprovedAnnotation" {
		t.Errorf("condition: %q", got)
	}
}

func TestDefinitionStatus(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	path := definitionsPath + "/widgets.example.com"
	// A write of the status changes neither the condition Established nor the spec.
	a := s.want(200, "PATCH", path+"/status", `{"spec":{"scope":"Cluster"},"status":{"conditions":[]}}`, mergePatch...)
	crd := &unstructured.Unstructured{Object: a.object}
	if field(a.object, "spec", "scope") != "Namespaced" || condition(crd, "Established") != "True InitialNamesAccepted" || field(a.object, "metadata", "generation") != float64(1) {
		t.Errorf("after a write of the status: %s", a.body)
	}
	a = s.want(200, "PATCH", path, `{"status":{"storedVersions":[]},"metadata":{"labels":{"a":"b"}}}`, mergePatch...)
	if got := field(a.object, "status", "storedVersions"); !cmp.Equal(got, []any{"v1"}) {
		t.Errorf("storedVersions: %v", got)
	}
}

func TestUpdateTakesEffectAtOnce(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 1, color: red}}")
	if got := field(s.want(200, "GET", widgetsPath+"/a", "").object, "spec", "color"); got != nil {
		t.Fatalf("an unknown field was kept: %v", got)
	}
	watch, err := s.client.Resource(widgets).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	<-watch.ResultChan()
	a := s.want(200, "PATCH", widgetDefinition,
		`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color","value":{"type":"string","default":"blue"}}]`,
		jsonPatch...)
	if field(a.object, "metadata", "generation") != float64(2) {
		t.Errorf("generation: %v", field(a.object, "metadata", "generation"))
	}
	if got := field(s.want(200, "GET", widgetsPath+"/a", "").object, "spec", "color"); got != "blue" {
		t.Errorf("the new default is not there: %v", got)
	}
	s.want(201, "POST", widgetsPath, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {color: red}}")
	if got := field(s.want(200, "GET", widgetsPath+"/b", "").object, "spec", "color"); got != "red" {
		t.Errorf("the new field was not kept: %v", got)
	}
	// The watch had begun with the old schema, and has ended with it.
	for range watch.ResultChan() {
	}
}

func TestUnrelatedUpdateKeepsWatches(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	before := s.catalog.Snapshot()
	s.want(200, "PATCH", widgetDefinition, `{"metadata":{"labels":{"a":"b"}}}`, mergePatch...)
	if s.catalog.Snapshot() != before {
		t.Error("the catalog has changed")
	}
}

func TestRestart(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	s.define(renamed("gadgets", "Gadget"))
	s.want(201, "POST", widgetsPath, heldWidget("a"))
	s.want(200, "DELETE", widgetDefinition, "")
	s.kinds.Close()

	s = open(t, s.backend, &resource.Catalog{})
	if n := len(s.want(200, "GET", "/apis/example.com/v1/gadgets", "").object["items"].([]any)); n != 0 {
		t.Errorf("%d gadgets", n)
	}
	s.refused(403, []string{"create not allowed while custom resource definition is terminating"},
		"POST", widgetsPath, widget("b"))
	gone := s.watchDeletion("widgets.example.com")
	s.want(200, "PATCH", widgetsPath+"/a", `{"metadata":{"finalizers":null}}`, mergePatch...)
	gone()
	s.want(404, "GET", widgetsPath, "")
}

// watchDeletion begins to watch a definition, and returns a function that waits until it is
// deleted, and returns its last state.
func (s *server) watchDeletion(name string) (wait func() *unstructured.Unstructured) {
	s.t.Helper()
	list, err := s.client.Resource(definitions).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	w, err := s.client.Resource(definitions).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		s.t.Fatal(err)
	}
	return func() *unstructured.Unstructured {
		defer cancel()
		defer w.Stop()
		for e := range w.ResultChan() {
			if e.Type == "DELETED" {
				return e.Object.(*unstructured.Unstructured)
			}
		}
		s.t.Fatal("the watch ended")
		return nil
	}
}

func TestServedBeforeObserved(t *testing.T) {
	s := newServer(t)
	w, err := s.client.Resource(definitions).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i := range 30 {
		name := fmt.Sprintf("n%d", i)
		var request sync.WaitGroup
		request.Go(func() { s.do("POST", definitionsPath, renamed(name+"s", "N"+name)) })
		e := <-w.ResultChan()
		crd := e.Object.(*unstructured.Unstructured)
		if condition(crd, "Established") != "True InitialNamesAccepted" {
			t.Fatalf("event %s of %s", e.Type, crd.GetName())
		}
		if _, served := s.catalog.Snapshot().Lookup(widgets.GroupVersion().WithResource(name + "s")); !served {
			t.Fatal("an event precedes the service of its definition")
		}
		request.Wait()
	}
}

func TestConcurrentDefinitions(t *testing.T) {
	s := newServer(t)
	var group sync.WaitGroup
	var accepted atomic.Int32
	for i := range 8 {
		group.Go(func() {
			name := fmt.Sprintf("n%d", i)
			a := s.do("POST", definitionsPath, strings.Replace(renamed(name+"s", "N"+name), "shortNames: ["+name+"s-short]", "shortNames: [same]", 1))
			if condition(&unstructured.Unstructured{Object: a.object}, "NamesAccepted") == "True NoConflicts" {
				accepted.Add(1)
			}
		})
	}
	group.Wait()
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d definitions got the same short name", n)
	}
}
