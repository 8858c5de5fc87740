package client_test

import (
	"context"
	"encoding/json"
	"net/http"
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
		want   sent
		answer any
	}{
		{
			name: "get typed",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})
			},
			want: sent{method: "GET", path: "/api/v1/namespaces/a/pods/x", accept: protobufType},
		},
		{
			name: "get cluster-scoped ignores the namespace",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Node{})
			},
			want: sent{method: "GET", path: "/api/v1/nodes/x"},
		},
		{
			name: "get unstructured at a version",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, widget("", ""), &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "7"}})
			},
			want:   sent{method: "GET", path: "/apis/example.com/v1/namespaces/a/widgets/x", query: "resourceVersion=7", accept: jsonType},
			answer: widget("a", "x"),
		},
		{
			name: "get metadata",
			call: func(c client.WithWatch) error {
				return c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "x"}, podMetadata("", ""))
			},
			want: sent{method: "GET", path: "/api/v1/namespaces/a/pods/x", accept: "as=PartialObjectMetadata;"},
		},
		{
			name: "list",
			call: func(c client.WithWatch) error {
				return c.List(ctx, &corev1.PodList{}, client.InNamespace("a"), client.MatchingLabels{"app": "web"},
					client.MatchingFields{"spec.nodeName": "n"}, client.Limit(5), client.Continue("token"))
			},
			want:   sent{method: "GET", path: "/api/v1/namespaces/a/pods", query: "continue=token&fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dweb&limit=5"},
			answer: &corev1.PodList{},
		},
		{
			name:   "list everything",
			call:   func(c client.WithWatch) error { return c.List(ctx, &corev1.PodList{}) },
			want:   sent{method: "GET", path: "/api/v1/pods"},
			answer: &corev1.PodList{},
		},
		{
			name: "list nothing",
			call: func(c client.WithWatch) error {
				return c.List(ctx, &corev1.PodList{}, client.MatchingLabelsSelector{Selector: labels.Nothing()}, client.MatchingFieldsSelector{Selector: fields.Nothing()})
			},
			want:   sent{method: "GET", path: "/api/v1/pods", query: "fieldSelector=metadata.name%3D&labelSelector=flyball.dev%2Fnone%2C%21flyball.dev%2Fnone"},
			answer: &corev1.PodList{},
		},
		{
			name: "list metadata",
			call: func(c client.WithWatch) error {
				l := &metav1.PartialObjectMetadataList{}
				l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
				return c.List(ctx, l, client.InNamespace("a"))
			},
			want:   sent{method: "GET", path: "/api/v1/namespaces/a/pods", accept: "as=PartialObjectMetadataList;"},
			answer: &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}},
		},
		{
			name: "create typed",
			call: func(c client.WithWatch) error {
				return c.Create(ctx, pod("a", "x"), client.FieldOwner("me"), client.FieldValidation("Strict"), client.DryRunAll)
			},
			want: sent{method: "POST", path: "/api/v1/namespaces/a/pods", query: "dryRun=All&fieldManager=me&fieldValidation=Strict", contentType: protobufType},
		},
		{
			name:   "create unstructured",
			call:   func(c client.WithWatch) error { return c.Create(ctx, widget("a", "x")) },
			want:   sent{method: "POST", path: "/apis/example.com/v1/namespaces/a/widgets", contentType: jsonType, body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","namespace":"a"}}`},
			answer: widget("a", "x"),
		},
		{
			name: "update",
			call: func(c client.WithWatch) error { return c.Update(ctx, pod("a", "x"), client.FieldOwner("me")) },
			want: sent{method: "PUT", path: "/api/v1/namespaces/a/pods/x", query: "fieldManager=me", contentType: protobufType},
		},
		{
			name: "json patch",
			call: func(c client.WithWatch) error {
				return c.Patch(ctx, pod("a", "x"), client.RawPatch(types.JSONPatchType, []byte(`[]`)))
			},
			want: sent{method: "PATCH", path: "/api/v1/namespaces/a/pods/x", contentType: "application/json-patch+json", body: `[]`},
		},
		{
			name: "merge patch of metadata",
			call: func(c client.WithWatch) error {
				m := podMetadata("a", "x")
				changed := m.DeepCopy()
				changed.Labels = map[string]string{"k": "v"}
				return c.Patch(ctx, changed, client.MergeFrom(m))
			},
			want: sent{method: "PATCH", path: "/api/v1/namespaces/a/pods/x", contentType: "application/merge-patch+json", accept: "as=PartialObjectMetadata;", body: `{"metadata":{"labels":{"k":"v"}}}`},
		},
		{
			name: "apply patch",
			call: func(c client.WithWatch) error {
				return c.Patch(ctx, widget("a", "x"), client.Apply, client.FieldOwner("me"), client.ForceOwnership)
			},
			want:   sent{method: "PATCH", path: "/apis/example.com/v1/namespaces/a/widgets/x", query: "fieldManager=me&force=true", contentType: "application/apply-patch+yaml", body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","namespace":"a"}}`},
			answer: widget("a", "x"),
		},
		{
			name: "apply a configuration",
			call: func(c client.WithWatch) error {
				return c.Apply(ctx, corev1ac.ConfigMap("x", "a").WithData(map[string]string{"k": ""}), client.FieldOwner("me"), client.ForceOwnership)
			},
			want:   sent{method: "PATCH", path: "/api/v1/namespaces/a/configmaps/x", query: "fieldManager=me&force=true", contentType: "application/apply-patch+yaml", accept: jsonType, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"a"},"data":{"k":""}}`},
			answer: &corev1.ConfigMap{},
		},
		{
			name:   "delete",
			call:   func(c client.WithWatch) error { return c.Delete(ctx, pod("a", "x")) },
			want:   sent{method: "DELETE", path: "/api/v1/namespaces/a/pods/x"},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete with options",
			call: func(c client.WithWatch) error {
				return c.Delete(ctx, podMetadata("a", "x"), client.GracePeriodSeconds(0), client.PropagationPolicy("Orphan"),
					client.Preconditions{UID: new(types.UID("u"))}, client.DryRunAll)
			},
			want:   sent{method: "DELETE", path: "/api/v1/namespaces/a/pods/x", contentType: jsonType, body: `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u"},"propagationPolicy":"Orphan","dryRun":["All"]}`},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete a collection",
			call: func(c client.WithWatch) error {
				return c.DeleteAllOf(ctx, widget("", ""), client.InNamespace("a"), client.HasLabels{"old"}, client.PropagationPolicy("Background"))
			},
			want:   sent{method: "DELETE", path: "/apis/example.com/v1/namespaces/a/widgets", query: "labelSelector=old", contentType: jsonType, body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "delete nothing",
			call: func(c client.WithWatch) error {
				return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("a"), client.HasLabels{"not a label"})
			},
			want:   sent{method: "DELETE", path: "/api/v1/namespaces/a/pods", query: "labelSelector=flyball.dev%2Fnone%2C%21flyball.dev%2Fnone"},
			answer: &metav1.Status{Status: "Success"},
		},
		{
			name: "update status",
			call: func(c client.WithWatch) error { return c.Status().Update(ctx, widget("a", "x")) },
			want: sent{method: "PUT", path: "/apis/example.com/v1/namespaces/a/widgets/x/status", contentType: jsonType}, answer: widget("a", "x"),
		},
		{
			name: "patch status",
			call: func(c client.WithWatch) error {
				return c.Status().Patch(ctx, pod("a", "x"), client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)), client.FieldOwner("me"))
			},
			want: sent{method: "PATCH", path: "/api/v1/namespaces/a/pods/x/status", query: "fieldManager=me", contentType: "application/strategic-merge-patch+json", body: `{}`},
		},
		{
			name: "apply status",
			call: func(c client.WithWatch) error {
				return c.Status().Apply(ctx, corev1ac.Pod("x", "a").WithStatus(corev1ac.PodStatus().WithMessage("m")), client.FieldOwner("me"))
			},
			want:   sent{method: "PATCH", path: "/api/v1/namespaces/a/pods/x/status", query: "fieldManager=me", contentType: "application/apply-patch+yaml", body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a"},"status":{"message":"m"}}`},
			answer: &corev1.Pod{},
		},
		{
			name: "get scale",
			call: func(c client.WithWatch) error {
				return c.SubResource("scale").Get(ctx, deployment, &autoscalingv1.Scale{})
			},
			want:   sent{method: "GET", path: "/apis/apps/v1/namespaces/a/deployments/web/scale"},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "update scale",
			call: func(c client.WithWatch) error {
				return c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}))
			},
			want:   sent{method: "PUT", path: "/apis/apps/v1/namespaces/a/deployments/web/scale", contentType: protobufType},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "unstructured scale of a typed object",
			call: func(c client.WithWatch) error {
				scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
				return c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
			},
			want:   sent{method: "PUT", path: "/apis/apps/v1/namespaces/a/deployments/web/scale", contentType: jsonType, body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"a"}}`},
			answer: &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}},
		},
		{
			name: "create an eviction",
			call: func(c client.WithWatch) error {
				return c.SubResource("eviction").Create(ctx, pod("a", "x"), &policyv1.Eviction{}, client.DryRunAll)
			},
			want:   sent{method: "POST", path: "/api/v1/namespaces/a/pods/x/eviction", query: "dryRun=All", contentType: protobufType},
			answer: &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.answer == nil {
				tt.answer = answerOf(tt.want.path)
			}
			s := say(http.StatusOK, tt.answer)
			if err := tt.call(newClient(t, s)); err != nil {
				t.Fatal(err)
			}
			got := s.last(t)
			if got.method != tt.want.method || got.path != tt.want.path || got.query != tt.want.query {
				t.Errorf("sent %s %s?%s\nwant %s %s?%s", got.method, got.path, got.query, tt.want.method, tt.want.path, tt.want.query)
			}
			if !strings.HasPrefix(got.contentType, tt.want.contentType) {
				t.Errorf("content type %q, want %q", got.contentType, tt.want.contentType)
			}
			if !strings.Contains(got.accept, tt.want.accept) {
				t.Errorf("accepts %q, want %q", got.accept, tt.want.accept)
			}
			switch {
			case tt.want.contentType == protobufType:
				if !strings.HasPrefix(got.body, "k8s\x00") {
					t.Errorf("body is not protobuf: %q", got.body)
				}
			case tt.want.body != "":
				if !sameJSON(t, got.body, tt.want.body) {
					t.Errorf("body %s\nwant %s", got.body, tt.want.body)
				}
			case tt.want.contentType == "" && got.body != "":
				t.Errorf("body %q, want none", got.body)
			}
		})
	}
}

// answerOf returns an object such as the server would answer with.
func answerOf(path string) any {
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

// TestNotSent checks what is refused before anything is sent.
func TestNotSent(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name string
		call func(c client.Client) error
		want string
	}{
		{"create metadata", func(c client.Client) error { return c.Create(ctx, podMetadata("a", "x")) }, "metadata alone"},
		{"update metadata", func(c client.Client) error { return c.Update(ctx, podMetadata("a", "x")) }, "metadata alone"},
		{"update the status of metadata", func(c client.Client) error { return c.Status().Update(ctx, podMetadata("a", "x")) }, "metadata alone"},
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
			s := say(http.StatusOK, nil)
			err := tt.call(newClient(t, s))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if len(s.seen) != 0 {
				t.Errorf("sent %v", s.seen)
			}
		})
	}
}
