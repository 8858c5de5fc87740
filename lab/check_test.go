package lab

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// owned returns a ConfigMap with an owner.
func owned(apiVersion, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"namespace": "default", "name": "a",
		"ownerReferences": []any{map[string]any{"apiVersion": apiVersion, "kind": kind, "name": "web", "uid": "1", "controller": true}}}}}
}

// TestOrphans: a Node and a Namespace may be older than the run, and no other kind with such a name.
func TestOrphans(t *testing.T) {
	for _, tc := range []struct{ apiVersion, kind, want string }{
		{"v1", "Node", ""},
		{"v1", "Namespace", ""},
		{"v1", "Secret", "ConfigMap default/a has the owner Secret web, which does not exist"},
		{"zoo.flyball.dev/v1", "Node", "has the owner Node.zoo.flyball.dev web"},
		{"zoo.flyball.dev/v1", "Namespace", "has the owner Namespace.zoo.flyball.dev web"},
	} {
		w := newWorld(&explorer{}, nil)
		w.checkOwners(&State{objects: map[string]*unstructured.Unstructured{"a": owned(tc.apiVersion, tc.kind)}})
		got := ""
		if w.finding != nil {
			got = w.finding.Message
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s %s: %q, want %q", tc.apiVersion, tc.kind, got, tc.want)
		}
	}
}

// TestRelations: controllers with the same kind and other groups are different ones.
func TestRelations(t *testing.T) {
	if a, b := relationTo(owned("apps/v1", "Deployment")), relationTo(owned("zoo.flyball.dev/v1", "Deployment")); a == b {
		t.Errorf("both are %q", a)
	}
}

// TestUserObject tells the objects of users by their keys in the storage.
func TestUserObject(t *testing.T) {
	users := map[string]bool{"/registry/ingress/default/web": true, "/registry/configmaps/my-default/web": true, "/registry/minions/a": true}
	for _, tc := range []struct {
		resource, object string
		want             bool
	}{
		{"ingresses.networking.k8s.io", "default/web", true},
		{"nodes", "/a", true},
		{"nodes", "/b", false},
		{"configmaps", "default/web", false},
		{"configmaps", "my-default/web", true},
	} {
		if got := userObject(users, &action{resource: tc.resource, object: tc.object}); got != tc.want {
			t.Errorf("%s %s: %v, want %v", tc.resource, tc.object, got, tc.want)
		}
	}
}
