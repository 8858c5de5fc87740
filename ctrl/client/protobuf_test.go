package client_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/testserver"
)

// ConfigMap is a Go type of a program's own for a kind that is built in. It does not implement
// protobuf.
type ConfigMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]string `json:"data,omitempty"`
}

func (c *ConfigMap) DeepCopyObject() runtime.Object {
	out := &ConfigMap{TypeMeta: c.TypeMeta, Data: maps.Clone(c.Data)}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

type ConfigMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ConfigMap `json:"items"`
}

func (l *ConfigMapList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = slices.Clone(l.Items)
	return &out
}

// ownTypes is a scheme in which some types of a group and version implement protobuf and some do
// not.
func ownTypes() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &ConfigMap{}, &ConfigMapList{}, &corev1.Secret{}, &corev1.SecretList{}, &corev1.Namespace{})
	return s
}

// Everything works with a Go type that does not implement protobuf, as it does with its neighbors
// that do, whatever the configuration prefers.
func TestOwnTypesOfBuiltInKinds(t *testing.T) {
	for name, contentType := range map[string]string{"by default": "", "protobuf preferred": protobufType} {
		t.Run(name, func(t *testing.T) {
			testserver.Test(t, func(t *testing.T) { testOwnTypes(t, contentType) })
		})
	}
}

func testOwnTypes(t *testing.T, contentType string) {
	cfg := testserver.Start(t)
	cfg.ContentType = contentType
	ctx, cancel := context.WithCancel(t.Context())
	reader, err := cache.New(cfg, cache.Options{Scheme: ownTypes()})
	expectNoError(t, err)
	stopped := make(chan error)
	go func() { stopped <- reader.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		expectNoError(t, <-stopped)
	})
	if !reader.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: ownTypes()})
	expectNoError(t, err)
	expectNoError(t, client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})))

	w, err := c.Watch(ctx, &ConfigMapList{}, client.InNamespace("default"))
	expectNoError(t, err)
	defer w.Stop()
	next := func(want watch.EventType, data string) {
		t.Helper()
		e := <-w.ResultChan()
		cm, ok := e.Object.(*ConfigMap)
		if !ok || e.Type != want || cm.Data["a"] != data {
			t.Errorf("got %s %+v, want %s of %q", e.Type, e.Object, want, data)
		}
	}

	cm := &ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}, Data: map[string]string{"a": "1"}}
	expectNoError(t, c.Create(ctx, cm))
	if cm.UID == "" {
		t.Errorf("created %+v", cm)
	}
	next(watch.Added, "1")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "neighbor"}}
	expectNoError(t, c.Create(ctx, secret))

	key := client.ObjectKeyFromObject(cm)
	for _, r := range []client.Reader{c, reader} {
		got, list, neighbor := &ConfigMap{}, &ConfigMapList{}, &corev1.Secret{}
		expectNoError(t, r.Get(ctx, key, got))
		expectNoError(t, r.List(ctx, list, client.InNamespace("default")))
		expectNoError(t, r.Get(ctx, client.ObjectKeyFromObject(secret), neighbor))
		if got.Data["a"] != "1" || got.UID != cm.UID || len(list.Items) != 1 || list.Items[0].Data["a"] != "1" || neighbor.UID != secret.UID {
			t.Errorf("%T: got %+v, %+v and %+v", r, got, list, neighbor)
		}
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(m.GroupVersionKind())
		expectNoError(t, r.Get(ctx, key, m))
		expectNoError(t, r.Get(ctx, key, u))
		if m.UID != cm.UID || u.GetUID() != cm.UID {
			t.Errorf("%T: got %+v and %+v", r, m, u)
		}
	}

	cm.Data["a"] = "2"
	expectNoError(t, c.Update(ctx, cm))
	next(watch.Modified, "2")
	expectNoError(t, c.Patch(ctx, cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"3"}}`))))
	next(watch.Modified, "3")
	expectNoError(t, c.Apply(ctx, corev1ac.ConfigMap("own", "default").WithData(map[string]string{"a": "4"}), client.FieldOwner("me"), client.ForceOwnership))
	next(watch.Modified, "4")
	testserver.Wait()
	expectNoError(t, reader.Get(ctx, key, cm)) // what the watch brought
	if cm.Data["a"] != "4" {
		t.Errorf("the cache has %+v", cm)
	}
	expectNoError(t, c.Delete(ctx, cm, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &cm.UID}))
	next(watch.Deleted, "4")
	expectNoError(t, c.DeleteAllOf(ctx, &ConfigMap{}, client.InNamespace("default"), client.GracePeriodSeconds(0)))
	expectNoError(t, c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default")))
}

// OwnScale is a Go type of a program's own for the scale of a built-in kind.
type OwnScale struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

func (s *OwnScale) DeepCopyObject() runtime.Object {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// The body of a subresource is encoded as its own Go type can be, not as the Go type of the object can.
func TestOwnTypesOfSubresources(t *testing.T) {
	scheme := runtime.NewScheme()
	expectNoError(t, clientgoscheme.AddToScheme(scheme))
	own := runtime.NewScheme()
	expectNoError(t, appsv1.AddToScheme(own))
	own.AddKnownTypeWithName(autoscalingv1.SchemeGroupVersion.WithKind("Scale"), &OwnScale{})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	for _, tt := range []struct {
		scheme *runtime.Scheme
		body   client.Object
		want   string
	}{
		{scheme, &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, protobufType},
		{own, &OwnScale{}, jsonType},
	} {
		s := responding(&autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}})
		c := newClient(t, s, func(o *client.Options) { o.Scheme = tt.scheme })
		expectNoError(t, c.SubResource("scale").Get(t.Context(), d, tt.body))
		expectNoError(t, c.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(tt.body)))
		expectNoError(t, c.SubResource("scale").Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte("{}")), client.WithSubResourceBody(tt.body)))
		expectNoError(t, c.SubResource("scale").Create(t.Context(), d, tt.body))
		for _, r := range s.Requests() {
			if accept := tt.want + ", */*"; r.Accept != accept || r.ContentType != "" && r.ContentType != tt.want && r.Method != http.MethodPatch {
				t.Errorf("%T: %s sent as %q, response requested as %q", tt.body, r.Method, r.ContentType, r.Accept)
			}
		}
	}
}
