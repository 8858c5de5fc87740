package builtin_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/openapi/openapitest"
)

// servedSince are the resources of releases newer than the documents.
var servedSince = []string{"pods/resize"}

// verbOfAction is the verb behind an operation in kube-apiserver's documents.
var verbOfAction = map[string]string{
	"post": "create", "put": "update", "get": "get", "list": "list", "patch": "patch", "delete": "delete", "deletecollection": "deletecollection",
	"watch": "watch", "watchlist": "watch",
}

// TestVerbsEqualUpstream compares the verbs with the discovery documents of a real server in client-go.
func TestVerbsEqualUpstream(t *testing.T) {
	_, client := serve(t)
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for path, gv := range map[string]string{"api/v1": "v1", "apis/apps/v1": "apps/v1", "apis/batch/v1": "batch/v1", "apis/discovery.k8s.io/v1": "discovery.k8s.io/v1"} {
		document, err := paths[path].Schema("application/json")
		if err != nil {
			t.Fatal(err)
		}
		want := documented(t, document)
		list, err := client.Discovery().ServerResourcesForGroupVersion(gv)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, r := range list.APIResources {
			got[r.Name] = r.Verbs
		}
		for _, name := range servedSince {
			delete(got, name)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-upstream +ours):\n%s", gv, d)
		}
	}
}

// documented are the verbs of each resource and subresource in an OpenAPI document.
func documented(t *testing.T, document []byte) map[string][]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]map[string]bool{}
	for path, operations := range doc.Paths {
		name := resourceIn(path)
		for method, raw := range operations {
			var op struct {
				Action string `json:"x-kubernetes-action"`
			}
			if json.Unmarshal(raw, &op) != nil || op.Action == "" || name == "" {
				continue
			}
			if op.Action == "connect" {
				op.Action = method
			}
			verb := verbOfAction[op.Action]
			if verb == "" {
				continue // head and options
			}
			if verbs[name] == nil {
				verbs[name] = map[string]bool{}
			}
			verbs[name][verb] = true
		}
	}
	all := map[string][]string{}
	for name, v := range verbs {
		all[name] = slices.Sorted(maps.Keys(v))
	}
	return all
}

// resourceIn names the resource in a path such as
// /api/v1/namespaces/{namespace}/pods/{name}/status.
func resourceIn(path string) string {
	path = strings.Replace(path, "/watch/", "/", 1)
	path = strings.Replace(path, "/namespaces/{namespace}/", "/", 1)
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	}
	switch len(parts) {
	case 1, 2:
		return parts[0]
	case 3, 4:
		return parts[0] + "/" + parts[2]
	}
	return ""
}
