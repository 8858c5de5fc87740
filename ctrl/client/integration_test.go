package client_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
	"flyball.dev/ctrl/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Widget is a custom kind.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size int `json:"size,omitempty"`
	} `json:"spec,omitzero"`
	Status struct {
		Ready bool `json:"ready,omitempty"`
	} `json:"status,omitzero"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	// Without metav1.AddToGroupVersion, as careless programs do it.
	s.AddKnownTypes(widgetKind.GroupVersion(), &Widget{}, &WidgetList{})
	return s
}

// start starts a control plane and returns a client for it.
func start(t *testing.T) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(testserver.Start(t), client.Options{Scheme: testScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// define installs the definition of widgets.
func define(t *testing.T, c client.Client) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	object := func(props map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: widgetKind.Group,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: widgetKind.Version, Served: true, Storage: true,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: new(object(map[string]apiextensionsv1.JSONSchemaProps{
				"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Minimum: new(0.0)}}),
				"status": object(map[string]apiextensionsv1.JSONSchemaProps{"ready": {Type: "boolean"}}),
			}))},
		}},
	}
	expectNoError(t, c.Create(context.Background(), crd))
	testserver.Eventually(t, func() error { return c.List(context.Background(), &WidgetList{}) })
	return crd
}

// expectNoError fails the test if there is an error.
func expectNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func loosely(t *testing.T, c client.Client, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	expectNoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	gvk, err := c.GroupVersionKindFor(obj)
	expectNoError(t, err)
	u.SetGroupVersionKind(gvk)
	return u
}

// TestVerbs tests all verbs with typed and unstructured objects of built-in and custom kinds.
func TestVerbs(t *testing.T) {
	c := start(t)
	define(t, c)
	ctx := context.Background()
	objects := map[string]client.Object{
		"built-in": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{"step": "create"}}},
		"custom":   &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{"step": "create"}}},
	}
	for name, obj := range maps.Clone(objects) {
		objects[name+" unstructured"] = loosely(t, c, obj)
	}
	for name, obj := range objects {
		t.Run(name, func(t *testing.T) {
			key := client.ObjectKeyFromObject(obj)
			empty := obj.DeepCopyObject().(client.Object)

			expectNoError(t, c.Create(ctx, obj, client.FieldOwner("test")))
			if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
				t.Fatalf("created %v", obj)
			}
			if owner := obj.GetManagedFields()[0].Manager; owner != "test" {
				t.Errorf("owner %q", owner)
			}
			if err := c.Create(ctx, empty.DeepCopyObject().(client.Object)); !apierrors.IsAlreadyExists(err) {
				t.Errorf("create again: %v", err)
			}
			stale := obj.DeepCopyObject().(client.Object)

			obj.SetLabels(map[string]string{"step": "update"})
			expectNoError(t, c.Update(ctx, obj))
			if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
				t.Errorf("update of an old version: %v", err)
			}

			before := obj.DeepCopyObject().(client.Object)
			obj.SetLabels(map[string]string{"step": "patch"})
			expectNoError(t, c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
			err := c.Patch(ctx, obj.DeepCopyObject().(client.Object), client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{}))
			if !apierrors.IsConflict(err) {
				t.Errorf("patch of an old version: %v", err)
			}

			dry := obj.DeepCopyObject().(client.Object)
			dry.SetLabels(map[string]string{"step": "dry"})
			expectNoError(t, client.NewDryRunClient(c).Update(ctx, dry))

			got := empty.DeepCopyObject().(client.Object)
			expectNoError(t, c.Get(ctx, key, got))
			if got.GetLabels()["step"] != "patch" || got.GetResourceVersion() != obj.GetResourceVersion() {
				t.Errorf("got %v", got)
			}

			err = c.Delete(ctx, obj, client.Preconditions{UID: new(types.UID("another"))})
			if !apierrors.IsConflict(err) {
				t.Errorf("delete of another: %v", err)
			}
			expectNoError(t, c.Delete(ctx, obj))
			if err := c.Delete(ctx, obj); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("delete again: %v", err)
			}
			if err := c.Get(ctx, key, got); !apierrors.IsNotFound(err) {
				t.Errorf("get of what is gone: %v", err)
			}
		})
	}
}

func TestMetadataVerbs(t *testing.T) {
	c := start(t)
	define(t, c)
	ctx := context.Background()
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{"app": "web"}}, Data: map[string]string{"k": "v"}},
		&Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{"app": "web"}}},
	} {
		expectNoError(t, c.Create(ctx, obj))
		gvk, err := c.GroupVersionKindFor(obj)
		expectNoError(t, err)

		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		expectNoError(t, c.Get(ctx, client.ObjectKeyFromObject(obj), m))
		if m.UID != obj.GetUID() || m.GroupVersionKind() != gvk {
			t.Errorf("got %v", m)
		}

		before := m.DeepCopy()
		m.Annotations = map[string]string{"k": "v"}
		expectNoError(t, c.Patch(ctx, m, client.MergeFrom(before)))

		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		expectNoError(t, c.List(ctx, l, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
		if len(l.Items) != 1 || l.Items[0].Annotations["k"] != "v" || l.Items[0].GroupVersionKind() != gvk || l.ResourceVersion == "" {
			t.Errorf("listed %v", l)
		}

		w, err := c.Watch(ctx, l, client.InNamespace("default"), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: l.ResourceVersion}})
		expectNoError(t, err)
		expectNoError(t, c.Delete(ctx, m))
		e := <-w.ResultChan()
		w.Stop()
		if got, ok := e.Object.(*metav1.PartialObjectMetadata); e.Type != watch.Deleted || !ok || got.Name != "x" || got.GroupVersionKind() != gvk {
			t.Errorf("watched %v", e)
		}
	}
}

func TestInvalid(t *testing.T) {
	c := start(t)
	define(t, c)
	ctx := context.Background()
	w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	w.Spec.Size = -1
	err := c.Create(ctx, w)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.size") {
		t.Errorf("error %v", err)
	}
	if w.Spec.Size != -1 || w.UID != "" {
		t.Errorf("the object is now %v", w)
	}

	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	u := loosely(t, c, &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	expectNoError(t, unstructured.SetNestedField(u.Object, "large", "spec", "sise"))
	if err := strict.Create(ctx, u); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.sise") {
		t.Errorf("unknown field: %v", err)
	}
}

func TestListPages(t *testing.T) {
	c := start(t)
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		expectNoError(t, c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"set": "x", "name": name}}}))
	}
	var names []string
	var l corev1.SecretList
	for {
		expectNoError(t, c.List(ctx, &l, client.InNamespace("default"), client.HasLabels{"set"}, client.Limit(2), client.Continue(l.Continue)))
		for i := range l.Items {
			names = append(names, l.Items[i].Name)
		}
		if l.Continue == "" {
			break
		}
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("listed %q", names)
	}

	count := func(want int, opts ...client.ListOption) {
		t.Helper()
		u := &unstructured.UnstructuredList{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
		expectNoError(t, c.List(ctx, u, append(opts, client.InNamespace("default"))...))
		if len(u.Items) != want {
			t.Errorf("%d items, want %d", len(u.Items), want)
		}
	}
	count(1, client.MatchingFields{"metadata.name": "b"})
	outer, err := labels.Parse("name in (a,c)")
	expectNoError(t, err)
	count(2, &client.ListOptions{FieldSelector: client.InNamespace("default").AsSelector(), LabelSelector: outer})
	count(0, client.MatchingLabelsSelector{})
	count(0, client.MatchingFieldsSelector{})

	expectNoError(t, c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default"), client.MatchingLabelsSelector{}))
	count(3, client.HasLabels{"set"})
	expectNoError(t, c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default"), client.MatchingLabels{"name": "a"}))
	count(2, client.HasLabels{"set"})
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	expectNoError(t, c.DeleteAllOf(ctx, m, client.InNamespace("default"), client.HasLabels{"set"}))
	count(0, client.HasLabels{"set"})
}

func TestApply(t *testing.T) {
	c := start(t)
	ctx := context.Background()
	mine := client.WithFieldOwner(c, "me")
	data := func(v string) *corev1ac.ConfigMapApplyConfiguration {
		return corev1ac.ConfigMap("x", "default").WithData(map[string]string{"k": v})
	}
	ac := data("1")
	expectNoError(t, mine.Apply(ctx, ac))
	if ac.UID == nil || *ac.UID == "" {
		t.Errorf("applied %v", ac)
	}
	if err := c.Apply(ctx, data("2"), client.FieldOwner("you")); !apierrors.IsConflict(err) {
		t.Errorf("apply over another's field: %v", err)
	}
	expectNoError(t, c.Apply(ctx, data("2"), client.FieldOwner("you"), client.ForceOwnership))
	if err := c.Apply(ctx, data("3")); err == nil {
		t.Error("apply without an owner succeeded")
	}

	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "default", "name": "x"}, "data": map[string]any{"other": "4"}}}
	expectNoError(t, mine.Apply(ctx, client.ApplyConfigurationFromUnstructured(u)))
	if got, _, _ := unstructured.NestedStringMap(u.Object, "data"); got["k"] != "2" || got["other"] != "4" {
		t.Errorf("applied %v", got)
	}

	var cm corev1.ConfigMap
	expectNoError(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "x"}, &cm))
	if cm.Data["k"] != "2" || cm.Data["other"] != "4" {
		t.Errorf("got %v", cm.Data)
	}
}

func TestSubResources(t *testing.T) {
	c := start(t)
	define(t, c)
	ctx := context.Background()

	w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	expectNoError(t, c.Create(ctx, w))
	w.Status.Ready, w.Spec.Size = true, 7
	expectNoError(t, c.Status().Update(ctx, w))
	if !w.Status.Ready || w.Spec.Size != 0 {
		t.Errorf("updated %+v", w)
	}
	before := w.DeepCopyObject().(*Widget)
	w.Status.Ready = false
	expectNoError(t, c.Status().Patch(ctx, w, client.MergeFrom(before)))
	expectNoError(t, c.Get(ctx, client.ObjectKeyFromObject(w), w))
	if w.Status.Ready {
		t.Errorf("patched %+v", w)
	}

	one := int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Replicas = &one
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	expectNoError(t, c.Create(ctx, d))

	scale := &autoscalingv1.Scale{}
	expectNoError(t, c.SubResource("scale").Get(ctx, d, scale))
	if scale.Spec.Replicas != 1 {
		t.Errorf("scale %+v", scale)
	}
	expectNoError(t, c.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}})))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	expectNoError(t, c.SubResource("scale").Patch(ctx, d, patch, client.WithSubResourceBody(scale)))
	if scale.Spec.Replicas != 3 {
		t.Errorf("scale %+v", scale)
	}
	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	expectNoError(t, c.SubResource("scale").Get(ctx, d, loose))
	if n, _, _ := unstructured.NestedInt64(loose.Object, "spec", "replicas"); n != 3 {
		t.Errorf("scale %+v", loose)
	}
	expectNoError(t, c.Get(ctx, client.ObjectKeyFromObject(d), d))
	if *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas", *d.Spec.Replicas)
	}
}

func TestPatchTypes(t *testing.T) {
	c := start(t)
	ctx := context.Background()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "1"}, {Name: "b", Image: "1"}}
	expectNoError(t, c.Create(ctx, p))

	before := p.DeepCopy()
	p.Spec.Containers[1].Image = "2"
	patch := client.StrategicMergeFrom(before)
	if data, err := patch.Data(p); err != nil || strings.Contains(string(data), `"image":"1"`) {
		t.Errorf("strategic patch %s, %v", data, err)
	}
	expectNoError(t, c.Patch(ctx, p, patch))
	expectNoError(t, c.Patch(ctx, p, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"3"}]`))))
	if p.Spec.Containers[0].Image != "3" || p.Spec.Containers[1].Image != "2" {
		t.Errorf("patched %v", p.Spec.Containers)
	}
	if err := c.Patch(ctx, p, client.RawPatch(types.JSONPatchType, []byte(`{`))); !apierrors.IsBadRequest(err) {
		t.Errorf("malformed patch: %v", err)
	}
}

func TestWatch(t *testing.T) {
	c := start(t)
	ctx := context.Background()
	loose := &unstructured.UnstructuredList{}
	loose.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMapList"})
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, loose} {
		w, err := c.Watch(ctx, list, client.InNamespace("default"), client.HasLabels{"seen"})
		expectNoError(t, err)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unseen"}}
		expectNoError(t, c.Create(ctx, cm))
		expectNoError(t, c.Delete(ctx, cm))
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{"seen": ""}}}
		expectNoError(t, c.Create(ctx, cm))
		expectNoError(t, c.Delete(ctx, cm))
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			e := <-w.ResultChan()
			if obj, ok := e.Object.(client.Object); e.Type != want || !ok || obj.GetName() != "x" {
				t.Errorf("event %v", e)
			}
		}
		w.Stop()
	}
}

// TestRecreatedCustomResourceDefinition checks that a client works after a definition was created,
// deleted, and created again with another scope.
func TestRecreatedCustomResourceDefinition(t *testing.T) {
	testserver.Test(t, func(t *testing.T) {
		c := start(t)
		ctx := context.Background()
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		if err := c.Create(ctx, w); !meta.IsNoMatchError(err) {
			t.Fatalf("before it is defined: %v", err)
		}
		crd := define(t, c)
		expectNoError(t, c.Create(ctx, w))
		expectNoError(t, c.Delete(ctx, crd))
		testserver.Eventually(t, func() error { // the server takes it down in the background
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the definition is still there: %w", err)
			}
			return nil
		})
		if err := c.Get(ctx, client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
			t.Fatalf("after it is gone: %v", err)
		}

		anew := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, Spec: crd.Spec}
		anew.Spec.Scope = apiextensionsv1.ClusterScoped
		expectNoError(t, c.Create(ctx, anew))
		testserver.Eventually(t, func() error {
			return c.Create(ctx, &Widget{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		})
		if namespaced, err := c.IsObjectNamespaced(w); err != nil || namespaced {
			t.Errorf("namespaced: %v, %v", namespaced, err)
		}
	})
}

func TestInterceptor(t *testing.T) {
	var calls []string
	c := interceptor.NewClient(start(t), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			calls = append(calls, "create "+obj.GetName())
			return c.Create(ctx, obj, opts...)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, name string, obj client.Object, _ ...client.SubResourceUpdateOption) error {
			calls = append(calls, name+" "+obj.GetName())
			return apierrors.NewServiceUnavailable("on purpose")
		},
	})
	ctx := context.Background()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	expectNoError(t, c.Create(ctx, ns))
	if err := c.Status().Update(ctx, ns); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error %v", err)
	}
	expectNoError(t, c.Get(ctx, client.ObjectKey{Name: "x"}, ns)) // passed on
	if !slices.Equal(calls, []string{"create x", "status x"}) {
		t.Errorf("calls %q", calls)
	}
}
