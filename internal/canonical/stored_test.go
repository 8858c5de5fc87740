package canonical

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStoredDefinitions: a definition, which is stored in v1beta1, is the one that clients read in v1.
func TestStoredDefinitions(t *testing.T) {
	const stored = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"orders.shop.example.com"},
		"spec":{"group":"shop.example.com","version":"v1","names":{"plural":"orders","kind":"Order"},"scope":"Namespaced","preserveUnknownFields":false,
		"validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},"versions":[{"name":"v1","served":true,"storage":true}]},
		"status":{"conditions":[],"acceptedNames":{"plural":"orders","kind":"Order"},"storedVersions":["v1"]}}`
	const want = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"orders.shop.example.com"},
		"spec":{"group":"shop.example.com","names":{"plural":"orders","singular":"order","kind":"Order","listKind":"OrderList"},"scope":"Namespaced","conversion":{"strategy":"None"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}}}]},
		"status":{"conditions":[],"acceptedNames":{"plural":"orders","kind":"Order"},"storedVersions":["v1"]}}`
	decoded, err := Decode([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
