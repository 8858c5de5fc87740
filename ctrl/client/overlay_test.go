package client_test

import (
	"context"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/fakeapi"
)

// document is a program's own type of ConfigMaps, which has no protobuf.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Any               map[string]any    `json:"any,omitempty"`
	List              []string          `json:"list,omitempty"`
	Quantity          resource.Quantity `json:"quantity"`
	Status            string            `json:"status,omitempty"`
}

func (d *document) DeepCopyObject() runtime.Object {
	out := *d
	out.ObjectMeta = *d.ObjectMeta.DeepCopy()
	out.Any, out.List = runtime.DeepCopyJSON(d.Any), append([]string(nil), d.List...)
	return &out
}

// keeper is a cache that keeps what it is notified of.
type keeper struct {
	recorder
	kept client.Object
}

func (k *keeper) Wrote(_ context.Context, obj client.Object) { k.kept = obj }

// TestCacheGetsResponseAlone expects that the cache is notified of what the server has answered to a
// write, in the form in which a watch delivers it, and of nothing that the caller's object had.
func TestCacheGetsResponseAlone(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("ConfigMap"), &document{})
	response := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "a", "resourceVersion": "5"},
		"any": map[string]any{"int": 1, "float": 1.5}, "quantity": 0.5,
	}
	want := &document{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a", ResourceVersion: "5"},
		Any:        map[string]any{"int": int64(1), "float": 1.5}, Quantity: resource.MustParse("0.5"),
	}
	sent := func() *document {
		return &document{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a", Labels: map[string]string{"old": "1"}},
			Any:        map[string]any{"old": int64(1)}, List: []string{}, Quantity: resource.MustParse("1Gi"), Status: "sent, but not stored",
		}
	}
	for name, write := range map[string]func(context.Context, client.Client) error{
		"create":        func(ctx context.Context, c client.Client) error { return c.Create(ctx, sent()) },
		"update":        func(ctx context.Context, c client.Client) error { return c.Update(ctx, sent()) },
		"patch":         func(ctx context.Context, c client.Client) error { return c.Patch(ctx, sent(), client.Merge) },
		"status update": func(ctx context.Context, c client.Client) error { return c.Status().Update(ctx, sent()) },
		"status patch": func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, sent(), client.Merge)
		},
		"apply": func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, corev1ac.ConfigMap("x", "a"), client.FieldOwner("me"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{}
			c := newClient(t, responding(response), cachedIn(k), func(o *client.Options) { o.Scheme = scheme })
			if err := write(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if k.kept == nil {
				t.Fatal("the cache is not notified")
			}
			k.kept.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
			if !reflect.DeepEqual(k.kept, client.Object(want)) {
				t.Errorf("got %#v, want %#v", k.kept, want)
			}
		})
	}
}

// TestApplyAsWatched expects that the response to an apply, which is JSON, has the form that
// protobuf has if that is how the kind is watched.
func TestApplyAsWatched(t *testing.T) {
	role := rbacv1.SchemeGroupVersion.WithKind("Role")
	for contentType, want := range map[string][]rbacv1.PolicyRule{"": nil, runtime.ContentTypeJSON: {}} {
		k, s := &keeper{}, responding(map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"name": "x", "namespace": "a", "resourceVersion": "5"}, "rules": []any{},
		})
		config := s.config()
		config.ContentType = contentType
		o := client.Options{Scheme: clientgoscheme.Scheme, Mapper: fakeapi.New(role).Mapper()}
		cachedIn(k)(&o)
		c, err := client.New(config, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), rbacv1ac.Role("x", "a"), client.FieldOwner("me")); err != nil {
			t.Fatal(err)
		}
		if got, ok := k.kept.(*rbacv1.Role); !ok || !reflect.DeepEqual(got.Rules, want) {
			t.Errorf("content type %q: got %#v, want the rules %#v", contentType, k.kept, want)
		}
	}
}
