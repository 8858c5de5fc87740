package fake_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"flyball.dev/controllers"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
)

// TestServer compares a client with a server with the client of another control plane: the same
// random operations have the same results. Identity, times and the numbers of resource versions
// are not compared.
func TestServer(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			ctx := t.Context()
			real, err := client.NewWithWatch(startPlane(t, noController), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			both := map[string]client.WithWatch{
				"fake":          fake.NewClientBuilder().WithServer(startPlane(t, noController)).Build(),
				"control plane": real,
			}
			histories := map[string][]string{}
			for name, c := range both {
				r := rand.New(rand.NewPCG(seed, 1))
				for range 150 {
					histories[name] = append(histories[name], operate(ctx, r, c))
				}
			}
			if diff := cmp.Diff(histories["control plane"], histories["fake"]); diff != "" {
				t.Errorf("control plane (-), fake (+):\n%s", diff)
			}
		})
	}
}

// noController and onlyCollector are the controllers of a control plane.
var (
	noController  = controlplane.Options{WithoutControllers: true}
	onlyCollector = controlplane.Options{Controllers: controllers.Options{
		Without: slices.DeleteFunc(controllers.Names(), func(name string) bool { return name == "garbage-collector-controller" }),
	}}
)

// startPlane starts a control plane, which runs until the test ends.
func startPlane(t *testing.T, o controlplane.Options) *rest.Config {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane.Config()
}

// operate does a random operation and describes it with its result.
func operate(ctx context.Context, r *rand.Rand, c client.WithWatch) string {
	namespaces, names := []string{"default", "default", "default", "absent"}, []string{"a", "b", "c", "Invalid_"}
	key := client.ObjectKey{Namespace: namespaces[r.IntN(4)], Name: names[r.IntN(4)]}
	obj := randomObject(r, key)
	var err error
	what := ""
	switch r.IntN(10) {
	case 0, 1, 2:
		what, err = "create", c.Create(ctx, obj, dryRun(r)...)
	case 3:
		what, err = "update", c.Update(ctx, obj)
	case 4:
		what = "change"
		if err = c.Get(ctx, key, obj); err == nil {
			obj.SetLabels(map[string]string{"n": fmt.Sprint(r.IntN(3))})
			obj.SetFinalizers([]string{"example.com/f"}[:r.IntN(2)])
			err = c.Update(ctx, obj)
		}
	case 5:
		what = "merge"
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"},"finalizers":null},"data":{"k":"v%d"},"spec":{"replicas":%d}}`,
			r.IntN(9), r.IntN(9), r.IntN(4)-1)
		err = c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))
	case 6:
		what = "apply"
		u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": fmt.Sprint(r.IntN(3))}}}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		u.SetNamespace(key.Namespace)
		u.SetName(key.Name)
		owner := client.FieldOwner([]string{"x", "y", ""}[r.IntN(3)])
		obj, err = u, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner)
	case 7:
		what, err = "delete", c.Delete(ctx, obj)
	case 8:
		what = "status"
		if d, ok := obj.(*appsv1.Deployment); ok {
			d.Status.Replicas = int32(r.IntN(3)) - 1
		}
		err = c.Status().Update(ctx, obj)
	case 9:
		what = "scale"
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(r.IntN(4)) - 1}}
		obj, err = scale, c.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale))
	}
	if err != nil {
		return fmt.Sprintf("%s %s %T: %s", what, key, obj, describe(err))
	}
	return fmt.Sprintf("%s %s: %s", what, key, normalized(obj))
}

func dryRun(r *rand.Rand) []client.CreateOption {
	if r.IntN(5) == 0 {
		return []client.CreateOption{client.DryRunAll}
	}
	return nil
}

func randomObject(r *rand.Rand, key client.ObjectKey) client.Object {
	m := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	if r.IntN(2) == 0 {
		return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"k": fmt.Sprint(r.IntN(3))}}
	}
	replicas := int32(r.IntN(4)) - 1
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
}

func describe(err error) string {
	return fmt.Sprintf("%s %s", apierrors.ReasonForError(err), err)
}

// normalized returns an object as text without what differs between servers.
func normalized(obj client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err.Error()
	}
	u := unstructured.Unstructured{Object: content}
	u.SetUID("")
	u.SetResourceVersion("")
	u.SetCreationTimestamp(metav1.Time{})
	if u.GetDeletionTimestamp() != nil {
		u.SetDeletionTimestamp(&metav1.Time{})
	}
	managed := u.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { // they are ordered by time
		return strings.Compare(a.Manager+"/"+a.Subresource+"/"+string(a.Operation), b.Manager+"/"+b.Subresource+"/"+string(b.Operation))
	})
	u.SetManagedFields(managed)
	data, _ := u.MarshalJSON()
	return string(data)
}

// A kind of the scheme needs no definition, and built-in kinds have defaults and validation.
func TestServerKinds(t *testing.T) {
	ctx := t.Context()
	c := fake.NewClientBuilder().WithScheme(widgetScheme(t)).WithStatusSubresource(&widget{}).
		WithObjects(&widget{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "w"}, Size: 3, Status: widgetStatus{Phase: "Ready"}}).
		WithIndex(&widget{}, "size", func(obj client.Object) []string { return []string{fmt.Sprint(obj.(*widget).Size)} }).
		WithServer(startPlane(t, noController)).Build()
	var w widget
	if err := c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "w"}, &w); err != nil {
		t.Fatal(err)
	}
	if w.UID == "" || w.Generation != 1 || w.Status.Phase != "Ready" || w.Size != 3 {
		t.Errorf("got %+v", w)
	}
	w.Size, w.Status.Phase = 4, "Ignored"
	if err := c.Update(ctx, &w); err != nil {
		t.Fatal(err)
	}
	if w.Generation != 2 || w.Status.Phase != "Ready" {
		t.Errorf("after an update: %+v", w)
	}
	for size, want := range map[string]int{"3": 0, "4": 1} {
		var list widgetList
		selector := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("size", size)}
		if err := c.List(ctx, &list, selector); err != nil || len(list.Items) != want {
			t.Errorf("size %s: %d widgets, %v", size, len(list.Items), err)
		}
	}
	err := c.Create(ctx, &widget{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "Not_Valid"}})
	if !apierrors.IsInvalid(err) {
		t.Errorf("an invalid name: %v", err)
	}
	err = c.Create(ctx, &widget{ObjectMeta: metav1.ObjectMeta{Namespace: "absent", Name: "w"}})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an absent namespace: %v", err)
	}
	if err := fake.AddIndex(c, &widget{}, "name", func(obj client.Object) []string { return []string{obj.GetName()} }); err != nil {
		t.Error(err)
	}
}

// Initial objects have the identity that the server gives them, so that others can be their
// dependents.
func TestServerGarbageCollection(t *testing.T) {
	ctx := t.Context()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner"}}
	c := fake.NewClientBuilder().WithObjects(owner).WithServer(startPlane(t, onlyCollector)).Build()
	if owner.UID == "" {
		t.Fatal("the initial object has no UID")
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dependent",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}}}
	if err := c.Create(ctx, dependent); err != nil {
		t.Fatal(err)
	}
	events, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"),
		client.MatchingFields{"metadata.name": "dependent"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := c.Delete(ctx, owner); err != nil {
		t.Fatal(err)
	}
	for e := range events.ResultChan() {
		if e.Type == "DELETED" {
			return
		}
	}
	t.Error("the watch has ended")
}

// A namespace that is being deleted has the initial objects in it. One that the server has made keeps
// what it has and gets the labels and annotations of the initial one.
func TestServerNamespaces(t *testing.T) {
	now := metav1.Now()
	terminating := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "ending", Finalizers: []string{"example.com/f"}, DeletionTimestamp: &now}}
	standard := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}}
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "left"}}
	c := fake.NewClientBuilder().WithServer(startPlane(t, noController)).
		WithObjects(terminating, standard, left).Build()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(left), left))
	for _, ns := range []*corev1.Namespace{terminating, standard} {
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	}
	if terminating.Status.Phase != corev1.NamespaceTerminating || terminating.DeletionTimestamp == nil {
		t.Errorf("the namespace that is being deleted: %v", terminating)
	}
	if standard.Labels["team"] != "a" || standard.Annotations["note"] != "b" || standard.Labels[corev1.LabelMetadataName] != "default" {
		t.Errorf("the namespace that existed: %v", standard)
	}
}

// Initial objects that the server refuses are an error of the build.
func TestServerRefuses(t *testing.T) {
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, "Bad_Name") {
			t.Errorf("got %v", message)
		}
	}()
	fake.NewClientBuilder().WithServer(startPlane(t, noController)).
		WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "Bad_Name"}}).Build()
}

// widget is a custom kind.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Size              int          `json:"size,omitempty"`
	Status            widgetStatus `json:"status,omitempty"`
}

type widgetStatus struct {
	Phase string `json:"phase,omitempty"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []widget `json:"items"`
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	out := &widgetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*widget))
	}
	return out
}

var widgetVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

func widgetScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetVersion.WithKind("Widget"), &widget{})
	scheme.AddKnownTypeWithName(widgetVersion.WithKind("WidgetList"), &widgetList{})
	metav1.AddToGroupVersion(scheme, widgetVersion)
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}
