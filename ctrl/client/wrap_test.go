package client_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
)

// writes are all the ways to write. ns is the namespace that objects claim.
func writes(ctx context.Context, c client.Client, ns string) map[string]error {
	return map[string]error{
		"create":        c.Create(ctx, pod(ns, "x")),
		"update":        c.Update(ctx, pod(ns, "x")),
		"patch":         c.Patch(ctx, pod(ns, "x"), client.Merge),
		"apply":         c.Apply(ctx, corev1ac.Pod("x", ns)),
		"delete":        c.Delete(ctx, pod(ns, "x")),
		"status update": c.Status().Update(ctx, pod(ns, "x")),
		"status patch":  c.Status().Patch(ctx, pod(ns, "x"), client.Merge),
		"status apply":  c.Status().Apply(ctx, corev1ac.Pod("x", ns)),
		"sub create":    c.SubResource("binding").Create(ctx, pod(ns, "x"), &corev1.Binding{}),
		"sub update":    c.SubResource("resize").Update(ctx, pod(ns, "x")),
		"sub patch":     c.SubResource("resize").Patch(ctx, pod(ns, "x"), client.Merge),
		"sub apply":     c.SubResource("resize").Apply(ctx, corev1ac.Pod("x", ns)),
	}
}

// podServer responds to all requests with a pod.
func podServer() *server { return responding(objectAt("")) }

func TestDefaults(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name string
		wrap func(client.Client) client.Client
		// want is what the query must have; apply has no field validation.
		want, wantApply string
		body            string // what the body of deletes must have
	}{
		{"dry run", client.NewDryRunClient, "dryRun=All", "dryRun=All", `"dryRun":["All"]`},
		{"field owner", func(c client.Client) client.Client { return client.WithFieldOwner(c, "me") }, "fieldManager=me", "fieldManager=me", ""},
		{"field validation", func(c client.Client) client.Client { return client.WithFieldValidation(c, "Strict") }, "fieldValidation=Strict", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := podServer()
			for name, err := range writes(ctx, tt.wrap(newClient(t, s)), "a") {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, r := range s.Requests() {
				switch {
				case r.Method == http.MethodDelete:
					if !strings.Contains(r.Body, tt.body) {
						t.Errorf("%s %s: body %q", r.Method, r.Path, r.Body)
					}
				case strings.Contains(r.ContentType, "apply-patch"):
					if r.Query != tt.wantApply {
						t.Errorf("%s %s: query %q, want %q", r.Method, r.Path, r.Query, tt.wantApply)
					}
				case r.Query != tt.want:
					t.Errorf("%s %s: query %q, want %q", r.Method, r.Path, r.Query, tt.want)
				}
			}
		})
	}
}

// TestDefaultsYield checks what a caller can override and what not.
func TestDefaultsYield(t *testing.T) {
	ctx := context.Background()
	s := podServer()
	c := newClient(t, s, func(o *client.Options) {
		o.DryRun, o.FieldOwner, o.FieldValidation = new(true), "me", "Warn"
	})
	if err := c.Create(ctx, pod("a", "x"), client.FieldOwner("you"), client.FieldValidation("Strict"), &client.CreateOptions{DryRun: []string{}}); err != nil {
		t.Fatal(err)
	}
	if got := s.last(t).Query; got != "dryRun=All&fieldManager=you&fieldValidation=Strict" {
		t.Errorf("query %q", got)
	}
	if err := c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a")); err != nil {
		t.Fatal(err)
	}
	if got := s.last(t).Body; !strings.Contains(got, `"dryRun":["All"]`) {
		t.Errorf("body %q", got)
	}
	w, err := c.Watch(ctx, &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
}

func TestNamespaced(t *testing.T) {
	ctx := context.Background()
	s := podServer()
	c := client.NewNamespacedClient(newClient(t, s), "home")
	for _, ns := range []string{"", "home"} {
		for name, err := range writes(ctx, c, ns) {
			if err != nil {
				t.Errorf("%s from %q: %v", name, ns, err)
			}
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "x"}, &corev1.Pod{}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteAllOf(ctx, &corev1.Pod{}); err != nil {
		t.Error(err)
	}
	s.Answer(&corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
	// The client's namespace wins: a list cannot look elsewhere.
	if err := c.List(ctx, &corev1.PodList{}, client.InNamespace("away")); err != nil {
		t.Error(err)
	}
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r.Path, "/api/v1/namespaces/home/pods") {
			t.Errorf("%s %s leaves the namespace", r.Method, r.Path)
		}
	}

	for name, err := range writes(ctx, c, "away") {
		if err == nil || err.Error() != "namespace away of the object x does not match the namespace home on the client" {
			t.Errorf("%s from another namespace: %v", name, err)
		}
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "away", Name: "x"}, &corev1.Pod{}); err == nil {
		t.Error("get from another namespace succeeded")
	}
	if sent := s.Requests(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}

	s.Answer(objectAt("/nodes/"))
	if err := c.Get(ctx, client.ObjectKey{Name: "x"}, &corev1.Node{}); err != nil {
		t.Errorf("cluster-scoped: %v", err)
	}
	if got := s.last(t).Path; got != "/api/v1/nodes/x" {
		t.Errorf("cluster-scoped: %s", got)
	}
}
