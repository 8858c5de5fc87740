package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

func widget(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgetKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func podMetadata(namespace, name string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	m.Namespace, m.Name = namespace, name
	return m
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// TestRequests checks what each method sends. A body is checked for equality if
// it is JSON and given, for its type if it is protobuf.
func TestRequests(t *testing.T) {
	ctx := context.Background()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	tests := []struct {
		name   string
		call   func(c client.WithWatch) error
		want   fakeapi.Request
		answer any
	}{
		{
			name: "get typed",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})
			},
			want: fakeapi.Request{Method: "GET", Path: "/api/v1/namespaces/a/pods/x", Accept: protobufType},
		},
		{
			name: "get cluster-scoped ignores the namespace",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Node{})
			},
			want: fakeapi.Request{Method: "GET", Path: "/api/v1/nodes/x"},
		},
		{
			name: "get unstructured at a version",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, widget("", ""), &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "7"}})
			},
			want:   fakeapi.Request{Method: "GET", Path: "/apis/example.com/v1/namespaces/a/widgets/x", Query: "resourceVersion=7", Accept: jsonType},
			answer: widget("a", "x"),
		},
		{
			name: "get metadata",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, podMetadata("", ""))
			},
			want: fakeapi.Request{Method: "GET", Path: "/api/v1/namespaces/a/pods/x", Accept: "as=PartialObjectMetadata;"},
		},
		{
			name: "list",
			call: func(c client.WithWatch) error {
				return c.List(ctx, &corev1.PodList{}, client.InNamespace("a"), client.MatchingLabels{"app": "web"},
					client.MatchingFields{"spec.nodeName": "n"}, client.Limit(5), client.Continue("token"))
			},
			want:   fakeapi.Request{Method: "GET", Path: "/api/v1/namespaces/a/pods", Query: "continue=token&fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dweb&limit=5"},
			answer: &corev1.PodList{},
		},
		{
			name:   "list everything",
			call:   func(c client.WithWatch) error { return c.List(ctx, &corev1.PodList{}) },
			want:   fakeapi.Request{Method: "GET", Path: "/api/v1/pods"},
			answer: &corev1.PodList{},
		},
		{
			name: "list nothing",
			call: func(c client.WithWatch) error {
				return c.List(ctx, &corev1.PodList{}, client.MatchingLabelsSelector{Selector: labels.Nothing()}, client.MatchingFieldsSelector{Selector: fields.Nothing()})
			},
			want:   fakeapi.Request{Method: "GET", Path: "/api/v1/pods", Query: "fieldSelector=metadata.name%3D&labelSelector=flyball.dev%2Fnone%2C%21flyball.dev%2Fnone"},
			answer: &corev1.PodList{},
		},
		{
			name: "list metadata",
			call: func(c client.WithWatch) error {
				l := &metav1.PartialObjectMetadataList{}
				l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
				return c.List(ctx, l, client.InNamespace("a"))
			},
			want:   fakeapi.Request{Method: "GET", Path: "/api/v1/namespaces/a/pods", Accept: "as=PartialObjectMetadataList;"},
			answer: &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}},
		},
		{
			name: "create typed",
			call: func(c client.WithWatch) error {
				return c.Create(ctx, pod("a", "x"), client.FieldOwner("me"), client.FieldValidation("Strict"), client.DryRunAll)
			},
			want: fakeapi.Request{Method: "POST", Path: "/api/v1/namespaces/a/pods", Query: "dryRun=All&fieldManager=me&fieldValidation=Strict", ContentType: protobufType},
		},
		{
			name:   "create unstructured",
			call:   func(c client.WithWatch) error { return c.Create(ctx, widget("a", "x")) },
			want:   fakeapi.Request{Method: "POST", Path: "/apis/example.com/v1/namespaces/a/widgets", ContentType: jsonType, Body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","namespace":"a"}}`},
			answer: widget("a", "x"),
		},
		{
			name: "update",
			call: func(c client.WithWatch) error { return c.Update(ctx, pod("a", "x"), client.FieldOwner("me")) },
			want: fakeapi.Request{Method: "PUT", Path: "/api/v1/namespaces/a/pods/x", Query: "fieldManager=me", ContentType: protobufType},
		},
		{
			name: "json patch",
			call: func(c client.WithWatch) error {
				return c.Patch(ctx, pod("a", "x"), client.RawPatch(types.JSONPatchType, []byte(`[]`)))
			},
			want: fakeapi.Request{Method: "PATCH", Path: "/api/v1/namespaces/a/pods/x", ContentType: "application/json-patch+json", Body: `[]`},
		},
		{
			name: "merge patch of metadata",
			call: func(c client.WithWatch) error {
				m := podMetadata("a", "x")
				changed := m.DeepCopy()
				changed.Labels = map[string]string{"k": "v"}
				return c.Patch(ctx, changed, client.MergeFrom(m))
			},
			want: fakeapi.Request{Method: "PATCH", Path: "/api/v1/namespaces/a/pods/x", ContentType: "application/merge-patch+json", Accept: "as=PartialObjectMetadata;", Body: `{"metadata":{"labels":{"k":"v"}}}`},
		},
		{
			name: "apply patch",
			call: func(c client.WithWatch) error {
				return c.Patch(ctx, widget("a", "x"), client.Apply, client.FieldOwner("me"), client.ForceOwnership)
			},
			want:   fakeapi.Request{Method: "PATCH", Path: "/apis/example.com/v1/namespaces/a/widgets/x", Query: "fieldManager=me&force=true", ContentType: "application/apply-patch+yaml", Body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","namespace":"a"}}`},
			answer: widget("a", "x"),
		},
		{
			name: "apply a configuration",
			call: func(c client.WithWatch) error {
				return c.Apply(ctx, corev1ac.ConfigMap("x", "a").WithData(map[string]string{"k": ""}), client.FieldOwner("me"), client.ForceOwnership)
			},
			want:   fakeapi.Request{Method: "PATCH", Path: "/api/v1/namespaces/a/configmaps/x", Query: "fieldManager=me&force=true", ContentType: "application/apply-patch+yaml", Accept: jsonType, Body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"a"},"data":{"k":""}}`},
			answer: &corev1.ConfigMap{},
		},
		{
			name:   "delete",
			call:   func(c client.WithWatch) error { return c.Delete(ctx, pod("a", "x")) },
			want:   fakeapi.Request{Method: "DELETE", Path: "/api/v1/namespaces/a/pods/x"},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete with options",
			call: func(c client.WithWatch) error {
				return c.Delete(ctx, podMetadata("a", "x"), client.GracePeriodSeconds(0), client.PropagationPolicy("Orphan"),
					client.Preconditions{UID: new(types.UID("u"))}, client.DryRunAll)
			},
			want:   fakeapi.Request{Method: "DELETE", Path: "/api/v1/namespaces/a/pods/x", ContentType: jsonType, Body: `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u"},"propagationPolicy":"Orphan","dryRun":["All"]}`},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete a collection",
			call: func(c client.WithWatch) error {
				return c.DeleteAllOf(ctx, widget("", ""), client.InNamespace("a"), client.HasLabels{"old"}, client.PropagationPolicy("Background"))
			},
			want:   fakeapi.Request{Method: "DELETE", Path: "/apis/example.com/v1/namespaces/a/widgets", Query: "labelSelector=old", ContentType: jsonType, Body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete nothing",
			call: func(c client.WithWatch) error {
				return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a"), client.HasLabels{"not a label"})
			},
			want:   fakeapi.Request{Method: "DELETE", Path: "/api/v1/namespaces/a/pods", Query: "labelSelector=flyball.dev%2Fnone%2C%21flyball.dev%2Fnone"},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "update status",
			call: func(c client.WithWatch) error { return c.Status().Update(ctx, widget("a", "x")) },
			want: fakeapi.Request{Method: "PUT", Path: "/apis/example.com/v1/namespaces/a/widgets/x/status", ContentType: jsonType}, answer: widget("a", "x"),
		},
		{
			name: "patch status",
			call: func(c client.WithWatch) error {
				return c.Status().Patch(ctx, pod("a", "x"), client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)), client.FieldOwner("me"))
			},
			want: fakeapi.Request{Method: "PATCH", Path: "/api/v1/namespaces/a/pods/x/status", Query: "fieldManager=me", ContentType: "application/strategic-merge-patch+json", Body: `{}`},
		},
		{
			name: "apply status",
			call: func(c client.WithWatch) error {
				return c.Status().Apply(ctx, corev1ac.Pod("x", "a").WithStatus(corev1ac.PodStatus().WithMessage("m")), client.FieldOwner("me"))
			},
			want:   fakeapi.Request{Method: "PATCH", Path: "/api/v1/namespaces/a/pods/x/status", Query: "fieldManager=me", ContentType: "application/apply-patch+yaml", Body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a"},"status":{"message":"m"}}`},
			answer: &corev1.Pod{},
		},
		{
			name: "get scale",
			call: func(c client.WithWatch) error {
				return c.SubResource("scale").Get(ctx, deployment, &autoscalingv1.Scale{})
			},
			want:   fakeapi.Request{Method: "GET", Path: "/apis/apps/v1/namespaces/a/deployments/web/scale"},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "update scale",
			call: func(c client.WithWatch) error {
				return c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}))
			},
			want:   fakeapi.Request{Method: "PUT", Path: "/apis/apps/v1/namespaces/a/deployments/web/scale", ContentType: protobufType},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "unstructured scale of a typed object",
			call: func(c client.WithWatch) error {
				scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
				return c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
			},
			want:   fakeapi.Request{Method: "PUT", Path: "/apis/apps/v1/namespaces/a/deployments/web/scale", ContentType: jsonType, Body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"a"}}`},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "create an eviction",
			call: func(c client.WithWatch) error {
				return c.SubResource("eviction").Create(ctx, pod("a", "x"), &policyv1.Eviction{}, client.DryRunAll)
			},
			want:   fakeapi.Request{Method: "POST", Path: "/api/v1/namespaces/a/pods/x/eviction", Query: "dryRun=All", ContentType: protobufType},
			answer: &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.answer == nil {
				tt.answer = objectAt(tt.want.Path)
			}
			s := responding(tt.answer)
			if err := tt.call(newClient(t, s)); err != nil {
				t.Fatal(err)
			}
			got := s.last(t)
			if got.Method != tt.want.Method || got.Path != tt.want.Path || got.Query != tt.want.Query {
				t.Errorf("sent %s %s?%s\nwant %s %s?%s", got.Method, got.Path, got.Query, tt.want.Method, tt.want.Path, tt.want.Query)
			}
			if !strings.HasPrefix(got.ContentType, tt.want.ContentType) {
				t.Errorf("content type %q, want %q", got.ContentType, tt.want.ContentType)
			}
			if !strings.Contains(got.Accept, tt.want.Accept) {
				t.Errorf("accepts %q, want %q", got.Accept, tt.want.Accept)
			}
			switch {
			case tt.want.ContentType == protobufType:
				if !strings.HasPrefix(got.Body, "k8s\x00") {
					t.Errorf("body is not protobuf: %q", got.Body)
				}
			case tt.want.Body != "":
				if !sameJSON(t, got.Body, tt.want.Body) {
					t.Errorf("body %s\nwant %s", got.Body, tt.want.Body)
				}
			case tt.want.ContentType == "" && got.Body != "":
				t.Errorf("body %q, want none", got.Body)
			}
		})
	}
}

// objectAt returns an object as the server returns it for a path.
func objectAt(path string) any {
	kind := "Pod"
	if strings.Contains(path, "/nodes/") {
		kind = "Node"
	}
	return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "x", "resourceVersion": "1"}}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	normal := func(s string) string {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			return s
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return normal(a) == normal(b)
}

// TestNotSent checks which requests are rejected before they are sent.
func TestNotSent(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name string
		call func(c client.Client) error
		want string
	}{
		{"create metadata", func(c client.Client) error { return c.Create(ctx, podMetadata("a", "x")) }, "cannot create using only metadata"},
		{"update metadata", func(c client.Client) error { return c.Update(ctx, podMetadata("a", "x")) }, "cannot update using only metadata -- did you mean to patch?"},
		{"update the status of metadata", func(c client.Client) error { return c.Status().Update(ctx, podMetadata("a", "x")) }, "cannot update status using only metadata -- did you mean to patch?"},
		{"get without a name", func(c client.Client) error { return c.Get(ctx, client.ObjectKey{Namespace: "a"}, &corev1.Pod{}) }, "name may not be empty"},
		{"get without a namespace", func(c client.Client) error { return c.Get(ctx, client.ObjectKey{Name: "x"}, &corev1.Pod{}) }, "namespace"},
		{"unstructured without a kind", func(c client.Client) error { return c.Create(ctx, &unstructured.Unstructured{}) }, "Kind"},
		{"metadata without a kind", func(c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &metav1.PartialObjectMetadata{})
		}, "no kind"},
		{"an unknown kind", func(c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Service{})
		}, "no matches for kind"},
		{"a lock without a version", func(c client.Client) error {
			return c.Patch(ctx, pod("a", "x"), client.MergeFromWithOptions(pod("a", "x"), client.MergeFromWithOptimisticLock{}))
		}, "resource version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := responding(nil)
			err := tt.call(newClient(t, s))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if sent := s.Requests(); len(sent) != 0 {
				t.Errorf("sent %v", sent)
			}
		})
	}
}
