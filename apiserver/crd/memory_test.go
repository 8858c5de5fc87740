package crd_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"flyball.dev/internal/heaptest"
)

const appsDefinition = definitionsPath + "/apps.example.com"

// TestReplacedDefinitionsAreCollected checks that the served kind of a changed or deleted definition is
// garbage-collected, although its objects are still in the history of the storage.
func TestReplacedDefinitionsAreCollected(t *testing.T) {
	s := newApps(t)
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	for replicas := range 3 {
		s.want(200, "PATCH", appsPath+"/a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas+3), mergePatch...)
		s.want(200, "PATCH", appsPath+"/a/status", `{"status":{"replicas":1}}`, mergePatch...)
		s.want(200, "PATCH", appsPath+"/a?fieldManager=m", app("a", "{class: gold}"), applyPatch...)
		before := s.kinds.Served("apps.example.com")
		field := fmt.Sprintf(`{type: integer, maximum: %d}`, replicas)
		s.want(200, "PUT", appsDefinition, s.changed(strings.Replace(apps, "{type: integer}", field, 1)))
		wantCollected(t, "changed", before)
	}
	s.want(200, "PATCH", appsPath+"/a", `{"spec":{"replicas":7}}`, mergePatch...)
	before := s.kinds.Served("apps.example.com")
	gone := s.watchDeletion("apps.example.com")
	s.want(200, "DELETE", appsDefinition, "")
	gone()
	wantCollected(t, "deleted", before)
}

// changed returns a definition of apps with the resource version of the stored one.
func (s *server) changed(definition string) string {
	version := field(s.want(200, "GET", appsDefinition, "").object, "metadata", "resourceVersion").(string)
	return strings.Replace(definition, "metadata: {", `metadata: {resourceVersion: "`+version+`", `, 1)
}

// wantCollected expects that no part is reachable after garbage collections. The first may only empty
// pools.
func wantCollected(t *testing.T, when string, parts map[string]func() bool) {
	t.Helper()
	for range 3 {
		runtime.GC()
	}
	for name, reachable := range parts {
		if reachable() {
			t.Errorf("%s: %s can still be reached", when, name)
		}
	}
}

// TestUnusedDefinitionsAreSmall bounds the memory of definitions that nobody uses, in proportion to the JSON of their schemas, which is
// in the storage too. A tree of a schema takes more than ten times its JSON.
func TestUnusedDefinitionsAreSmall(t *testing.T) {
	const n, fields = 4, 200
	text := "The field of a large schema, which has a description as most fields have. It takes about a hundred bytes."
	properties := map[string]any{}
	for i := range fields {
		properties[fmt.Sprint("field", i)] = map[string]any{"type": "object", "description": fmt.Sprint(text, i), "properties": map[string]any{
			"name": map[string]any{"type": "string", "description": fmt.Sprint(text, -i)}}}
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}}}
	encoded, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	define := func(s *server, i int) {
		definition, err := json.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": fmt.Sprintf("wide%ds.example.com", i)},
			"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
				"names": map[string]any{"plural": fmt.Sprintf("wide%ds", i), "kind": fmt.Sprint("Wide", i)},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": schema}}}}})
		if err != nil {
			t.Fatal(err)
		}
		s.want(201, "POST", definitionsPath, string(definition))
	}
	s := newServer(t)
	define(s, n)                                          // what is made once
	heap := heaptest.New(t, "flyball.dev/apiserver/crd.") // a request is served by goroutines of upstream
	for i := range n {
		define(s, i)
	}
	if got := float64(heap.Held()) / float64(n*len(encoded)); got > 2.5 {
		t.Errorf("a definition takes %.1f times the %d bytes of its schema", got, len(encoded))
	}
	runtime.KeepAlive(s)
}

// TestUnchangedSchemasAreNotCompiled expects that validations are compiled once for each change of a
// version, and only if they are used.
func TestUnchangedSchemasAreNotCompiled(t *testing.T) {
	const second = `
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`
	s := newServer(t)
	s.define(apps + second)
	use := func(replicas int) {
		t.Helper()
		s.want(200, "PATCH", appsPath+"/a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), mergePatch...)
		s.want(200, "PATCH", "/apis/example.com/v2/namespaces/default/apps/a", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), mergePatch...)
	}
	s.want(201, "POST", appsPath, app("a", "{image: x}"))
	use(3)
	compiled := s.kinds.Compilations()
	want := func(what string, more int64) {
		t.Helper()
		if got := s.kinds.Compilations() - compiled; got != more {
			t.Errorf("%s: %d compilations, want %d", what, got, more)
		}
		compiled = s.kinds.Compilations()
	}
	for i := range 10 {
		s.want(200, "PATCH", appsDefinition, fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), mergePatch...)
		s.want(200, "PATCH", appsDefinition, fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/additionalPrinterColumns/0/name","value":"N%d"}]`, i), jsonPatch...)
		use(10 + i)
	}
	want("metadata and columns changed", 0)
	for i := range 5 {
		s.want(200, "PATCH", appsDefinition, fmt.Sprintf(`[{"op":"add","path":"/spec/versions/1/schema/openAPIV3Schema/properties/spec/maxProperties","value":%d}]`, 50+i), jsonPatch...)
	}
	want("a schema changed, unused", 0)
	use(20)
	use(21)
	want("a schema changed", 1)
}
