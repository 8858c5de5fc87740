package fake_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientset "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/fake"
	"flyball.dev/ctrl/client/interceptor"
)

func configMap(name string, labels ...string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	for _, label := range labels {
		metav1.SetMetaDataLabel(&m.ObjectMeta, label, "yes")
	}
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next returns the event that a watch has buffered, as text.
func next(w watch.Interface) string {
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "ended"
		}
		obj := e.Object.(client.Object)
		return fmt.Sprintf("%s %T %s", e.Type, obj, obj.GetName())
	default:
		return "none"
	}
}

// The event of a write is there when the write returns. Objects that begin or cease to match a
// selector are added or deleted, and they are represented as the list is.
func TestWatchSelectors(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(configMap("initial", "on")).Build()
	ctx := t.Context()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	labeled, err := c.Watch(ctx, list, client.InNamespace("x"), client.HasLabels{"on"})
	must(t, err)
	defer labeled.Stop()
	named, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.MatchingFields{"metadata.name": "a"})
	must(t, err)
	defer named.Stop()
	other, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("y"))
	must(t, err)
	defer other.Stop()

	a := configMap("a")
	steps := []struct {
		do            func() error
		labeled, name string
	}{
		{func() error { return c.Create(ctx, a) }, "none", "ADDED *v1.ConfigMap a"},
		{func() error { a.Labels = map[string]string{"on": "yes"}; return c.Update(ctx, a) },
			"ADDED *v1.PartialObjectMetadata a", "MODIFIED *v1.ConfigMap a"},
		{func() error {
			return c.Patch(ctx, a, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"v"}}`)))
		},
			"MODIFIED *v1.PartialObjectMetadata a", "MODIFIED *v1.ConfigMap a"},
		{func() error { a.Labels = nil; return c.Update(ctx, a) },
			"DELETED *v1.PartialObjectMetadata a", "MODIFIED *v1.ConfigMap a"},
		{func() error { return c.Delete(ctx, a) }, "none", "DELETED *v1.ConfigMap a"},
		{func() error { return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("x")) },
			"DELETED *v1.PartialObjectMetadata initial", "none"},
	}
	for i, step := range steps {
		must(t, step.do())
		if got := next(labeled); got != step.labeled {
			t.Errorf("step %d, with the label: got %s, want %s", i, got, step.labeled)
		}
		if got := next(named); got != step.name {
			t.Errorf("step %d, by name: got %s, want %s", i, got, step.name)
		}
	}
	if got := next(other); got != "none" {
		t.Errorf("in another namespace: %s", got)
	}
	if _, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.MatchingFields{"data.k": "v"}); err == nil {
		t.Error("a watch selects by a field without an index")
	}
}

// Clients, the receivers of events, and lists are independent of each other, which the race detector
// proves.
func TestConcurrentWatch(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	w, err := c.Watch(t.Context(), &corev1.ConfigMapList{})
	must(t, err)
	var writers, receiver sync.WaitGroup
	receiver.Go(func() {
		for e := range w.ResultChan() {
			e.Object.(client.Object).SetLabels(map[string]string{"mine": "yes"})
		}
	})
	for i := range 8 {
		writers.Go(func() {
			for j := range 50 {
				m := configMap(fmt.Sprint("m", j%5))
				switch (i + j) % 5 { // errors come from competing writers
				case 0:
					_ = c.Create(t.Context(), m)
				case 1:
					_ = c.Apply(t.Context(), corev1ac.ConfigMap(m.Name, "x").WithData(map[string]string{"i": fmt.Sprint(i)}),
						client.FieldOwner(fmt.Sprint("o", i)), client.ForceOwnership)
				case 2:
					_ = c.Delete(t.Context(), m)
				case 3:
					_ = c.DeleteAllOf(t.Context(), m, client.InNamespace("x"))
				default:
					var list corev1.ConfigMapList
					_ = c.List(t.Context(), &list)
					for i := range list.Items {
						if list.Items[i].Labels["mine"] != "" {
							t.Error("the store has a label that only a receiver of an event has set")
						}
						list.Items[i].Data = map[string]string{"changed": "yes"}
					}
				}
			}
		})
	}
	writers.Wait()
	w.Stop()
	receiver.Wait()
}

// A watch delivers more events than it buffers, in order, and ends with its context. goleak proves
// that a stopped watch leaves nothing behind, even if nobody receives its events.
func TestWatchMany(t *testing.T) {
	const n = 350
	c := fake.NewClientBuilder().Build()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.Watch(ctx, &corev1.ConfigMapList{})
	must(t, err)
	ignored, err := c.Watch(t.Context(), &corev1.ConfigMapList{})
	must(t, err)
	for i := range n {
		must(t, c.Create(ctx, configMap(fmt.Sprint("m", i))))
	}
	for i := range n {
		if e := <-w.ResultChan(); e.Object.(client.Object).GetName() != fmt.Sprint("m", i) {
			t.Fatalf("event %d is of %s", i, e.Object.(client.Object).GetName())
		}
	}
	cancel()
	if _, ok := <-w.ResultChan(); ok {
		t.Error("an event after the end of the context")
	}
	ignored.Stop()
	ignored.Stop()
}

// The objects of a client are not shared with its callers, and its scheme is not changed.
func TestIsolation(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	known := len(scheme.AllKnownTypes())
	c := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build()
	ctx := t.Context()
	m := configMap("a", "on")
	must(t, c.Create(ctx, m))
	m.Labels["on"], m.ManagedFields[0].Manager = "changed", "changed"
	m.ManagedFields[0].FieldsV1.SetRawString(`{}`)
	var list corev1.ConfigMapList
	for range 2 {
		must(t, c.List(ctx, &list))
		got := list.Items[0]
		if got.Labels["on"] != "yes" || got.ManagedFields[0].Manager == "changed" || got.ManagedFields[0].FieldsV1.GetRawString() == `{}` {
			t.Fatalf("got %+v", got)
		}
		got.Labels["on"], got.ManagedFields[0].Manager = "changed", "changed"
	}
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Thing")
	u.SetName("t")
	must(t, c.Create(ctx, u))
	if n := len(scheme.AllKnownTypes()); n != known {
		t.Errorf("the scheme has %d kinds, and had %d", n, known)
	}
}

// A configuration of the status owns only the status, and one that does not mention a finalizer
// does not remove the finalizer of another manager.
func TestApplyOwnership(t *testing.T) {
	c := fake.NewClientBuilder().WithReturnManagedFields().Build()
	ctx := t.Context()
	pod := corev1ac.Pod("p", "x").WithFinalizers("example.com/f").WithSpec(corev1ac.PodSpec().WithNodeName("n"))
	must(t, c.Apply(ctx, pod, client.FieldOwner("spec")))
	status := corev1ac.Pod("p", "x").WithStatus(corev1ac.PodStatus().WithPhase(corev1.PodRunning))
	must(t, c.Status().Apply(ctx, status, client.FieldOwner("spec")))
	if status.Spec.NodeName == nil || *status.Spec.NodeName != "n" {
		t.Error("the status was applied, and the result has no spec")
	}
	var applied corev1.Pod
	must(t, c.Get(ctx, client.ObjectKey{Namespace: "x", Name: "p"}, &applied))
	entries := map[string]string{}
	for _, e := range applied.ManagedFields {
		entries[e.Subresource] = e.FieldsV1.GetRawString()
	}
	if entries["status"] != `{"f:status":{"f:phase":{}}}` || !strings.Contains(entries[""], "f:nodeName") {
		t.Errorf("managed fields: %v", entries)
	}
	err := c.Apply(ctx, corev1ac.Pod("p", "x").WithSpec(corev1ac.PodSpec().WithNodeName("m")), client.FieldOwner("other"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "spec") {
		t.Errorf("an apply of another manager's field: %v", err)
	}
	must(t, c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}))
	must(t, c.Apply(ctx, corev1ac.Pod("p", "x").WithLabels(map[string]string{"l": "v"}), client.FieldOwner("other")))
	got := &corev1.Pod{}
	must(t, c.Get(ctx, client.ObjectKey{Namespace: "x", Name: "p"}, got))
	if got.DeletionTimestamp == nil || len(got.Finalizers) != 1 {
		t.Errorf("got %+v", got.ObjectMeta)
	}
	absent := corev1ac.Pod("absent", "x").WithStatus(corev1ac.PodStatus().WithPhase(corev1.PodRunning))
	if err := c.Status().Apply(ctx, absent, client.FieldOwner("spec")); !apierrors.IsNotFound(err) {
		t.Errorf("the status of an object that does not exist: %v", err)
	}
}

func TestGarbageCollection(t *testing.T) {
	ctx := t.Context()
	owned := func(name string, owners ...string) *corev1.ConfigMap {
		m := configMap(name)
		for _, owner := range owners {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner})
		}
		return m
	}
	build := func() client.Client {
		finalized := owned("finalized", "a")
		finalized.Finalizers = []string{"example.com/f"}
		return fake.NewClientBuilder().WithGarbageCollection().WithObjects(configMap("a"), configMap("b"),
			owned("child", "a"), owned("grandchild", "child"), owned("shared", "a", "b"), owned("dangling", "a", "absent"), finalized).Build()
	}
	names := func(c client.Client) (names []string) {
		var list corev1.ConfigMapList
		must(t, c.List(ctx, &list))
		for _, m := range list.Items {
			name := m.Name
			if m.DeletionTimestamp != nil {
				name += " (deleted)"
			}
			names = append(names, fmt.Sprint(name, " ", len(m.OwnerReferences)))
		}
		return names
	}
	c := build()
	must(t, c.Delete(ctx, configMap("a")))
	if got, want := fmt.Sprint(names(c)), "[b 0 finalized (deleted) 1 shared 1]"; got != want {
		t.Errorf("background: got %s, want %s", got, want)
	}
	c = build()
	must(t, c.Delete(ctx, configMap("a"), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	if got, want := fmt.Sprint(names(c)), "[b 0 child 0 dangling 1 finalized 0 grandchild 1 shared 1]"; got != want {
		t.Errorf("orphan: got %s, want %s", got, want)
	}
}

// Preconditions and field selectors of deletions are honored.
func TestDeletions(t *testing.T) {
	ctx := t.Context()
	a := configMap("a")
	a.UID = "1"
	c := fake.NewClientBuilder().WithObjects(a, configMap("b")).
		WithIndex(&corev1.ConfigMap{}, "name", func(obj client.Object) []string { return []string{obj.GetName()} }).Build()
	wrong := types.UID("2")
	if err := c.Delete(ctx, a, client.Preconditions{UID: &wrong}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	must(t, c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.MatchingFields{"name": "b"}))
	var list corev1.ConfigMapList
	must(t, c.List(ctx, &list))
	if len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Errorf("got %+v", list.Items)
	}
	if err := c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.MatchingFields{"unknown": "b"}); err == nil {
		t.Error("a selector without an index deletes")
	}
	must(t, c.List(ctx, &list, &client.ListOptions{FieldSelector: fields.Nothing()}))
	if len(list.Items) != 0 {
		t.Errorf("a selector of nothing has %d", len(list.Items))
	}
}

// unregistered is a kind that no scheme has.
type unregistered struct{ corev1.ConfigMap }

func (u *unregistered) DeepCopyObject() runtime.Object { copied := *u; return &copied }

// Wrong objects are errors and change nothing.
func TestBadInput(t *testing.T) {
	ctx := t.Context()
	m := metav1.ObjectMeta{Namespace: "x", Name: "a"}
	deployment, pod, account := &appsv1.Deployment{ObjectMeta: m}, &corev1.Pod{ObjectMeta: m}, &corev1.ServiceAccount{ObjectMeta: m}
	c := fake.NewClientBuilder().WithObjects(configMap("a"), deployment, pod, account).Build()
	unknown := &unregistered{*configMap("u")}
	noKind := &unstructured.Unstructured{Object: map[string]any{}}
	noKind.SetName("n")
	merge := client.RawPatch(types.MergePatchType, []byte(`{}`))
	for name, err := range map[string]error{
		"create nil":              c.Create(ctx, nil),
		"create nil pointer":      c.Create(ctx, (*corev1.Pod)(nil)),
		"get into nil":            c.Get(ctx, client.ObjectKey{Name: "a"}, nil),
		"list into nil":           c.List(ctx, nil),
		"list into nil pointer":   c.List(ctx, (*corev1.PodList)(nil)),
		"delete nil":              c.Delete(ctx, nil),
		"create unregistered":     c.Create(ctx, unknown),
		"update unregistered":     c.Update(ctx, unknown),
		"delete unregistered":     c.Delete(ctx, unknown),
		"patch unregistered":      c.Patch(ctx, unknown, merge),
		"get unregistered":        c.Get(ctx, client.ObjectKey{Name: "u"}, unknown),
		"create without kind":     c.Create(ctx, noKind),
		"create without name":     c.Create(ctx, configMap("")),
		"update without name":     c.Update(ctx, configMap("")),
		"delete without name":     c.Delete(ctx, configMap("")),
		"patch without name":      c.Patch(ctx, configMap(""), merge),
		"nil patch":               c.Patch(ctx, configMap("a"), nil),
		"patch that is no JSON":   c.Patch(ctx, configMap("a"), client.RawPatch(types.MergePatchType, []byte(`{`))),
		"patch of a wrong type":   c.Patch(ctx, configMap("a"), client.RawPatch(types.MergePatchType, []byte(`{"data":[]}`))),
		"patch of unknown type":   c.Patch(ctx, configMap("a"), client.RawPatch("x", []byte(`{}`))),
		"patch of the name":       c.Patch(ctx, configMap("a"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"name":"b"}}`))),
		"apply nil":               c.Apply(ctx, nil, client.FieldOwner("o")),
		"apply without kind":      c.Apply(ctx, client.ApplyConfigurationFromUnstructured(noKind), client.FieldOwner("o")),
		"apply without owner":     c.Apply(ctx, corev1ac.ConfigMap("a", "x")),
		"apply without name":      c.Apply(ctx, corev1ac.ConfigMap("", "x"), client.FieldOwner("o")),
		"status without a status": c.Status().Update(ctx, configMap("a")),
		"scale without a body":    c.SubResource("scale").Update(ctx, configMap("a")),
		"scale of a config map":   c.SubResource("scale").Get(ctx, configMap("a"), configMap("b")),
		"scale into nil":          c.SubResource("scale").Get(ctx, deployment, (*autoscalingv1.Scale)(nil)),
		"scale of nil":            c.SubResource("scale").Get(ctx, nil, &autoscalingv1.Scale{}),
		"scale to nil":            c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody((*autoscalingv1.Scale)(nil))),
		"nil token":               c.SubResource("token").Create(ctx, account, (*authenticationv1.TokenRequest)(nil)),
		"nil eviction":            c.SubResource("eviction").Create(ctx, pod, (*policyv1.Eviction)(nil)),
		"unknown subresource":     c.SubResource("x").Create(ctx, configMap("a"), configMap("a")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var list corev1.ConfigMapList
	must(t, c.List(ctx, &list))
	if len(list.Items) != 1 || list.Items[0].ResourceVersion != "999" {
		t.Errorf("got %+v", list.Items)
	}
}

// Build and the methods of a builder panic where the arguments cannot be used.
func TestBuilderPanics(t *testing.T) {
	deleted := configMap("a")
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	index := func(client.Object) []string { return nil }
	for name, f := range map[string]func(){
		"the same object twice": func() { fake.NewClientBuilder().WithObjects(configMap("a"), configMap("a")).Build() },
		"unregistered kind":     func() { fake.NewFakeClient(&unregistered{}) },
		"nil object":            func() { fake.NewClientBuilder().WithObjects(nil).Build() },
		"deleted object":        func() { fake.NewFakeClient(deleted) },
		"index twice": func() {
			fake.NewClientBuilder().WithIndex(&corev1.Pod{}, "f", index).WithIndex(&corev1.Pod{}, "f", index)
		},
		"index of an unregistered kind": func() { fake.NewClientBuilder().WithIndex(&unregistered{}, "f", index) },
		"status of an unregistered kind": func() {
			fake.NewClientBuilder().WithStatusSubresource(&unregistered{}).Build()
		},
		"no server": func() { fake.NewClientBuilder().WithServer(nil) },
		"index of another client": func() {
			_ = fake.AddIndex(client.NewNamespacedClient(fake.NewFakeClient(), "x"), &corev1.Pod{}, "f", index)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{}).WithIndex(&corev1.Pod{}, "f", index).Build()
	if err := fake.AddIndex(c, &corev1.Pod{}, "f", index); err == nil {
		t.Error("an index of the same name: no error")
	}
}

// BenchmarkBuild builds a client as a test case does, and BenchmarkWrite writes with it.
func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(configMap("a")).Build()
	}
}

func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	c := fake.NewFakeClient()
	replicas := int32(1)
	for b.Loop() {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "x", GenerateName: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
		if err := c.Create(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		d.Labels = map[string]string{"a": "b"}
		if err := c.Update(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}

// A client shares its objects with a clientset of client-go by a tracker.
func TestObjectTracker(t *testing.T) {
	ctx := t.Context()
	set := clientset.NewClientset(configMap("theirs"))
	c := fake.NewClientBuilder().WithObjectTracker(set.Tracker()).WithObjects(configMap("ours", "on")).Build()
	w, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.HasLabels{"on"})
	must(t, err)
	defer w.Stop()
	ours := configMap("ours")
	must(t, c.Get(ctx, client.ObjectKeyFromObject(ours), ours))
	ours.Data = map[string]string{"k": "v"}
	must(t, c.Update(ctx, ours))
	must(t, c.Patch(ctx, configMap("theirs"), client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"v"}}`))))
	must(t, c.Apply(ctx, corev1ac.ConfigMap("applied", "x").WithData(map[string]string{"k": "v"}), client.FieldOwner("o")))
	must(t, c.Apply(ctx, corev1ac.ConfigMap("applied", "x").WithLabels(map[string]string{"l": "v"}), client.FieldOwner("o")))
	list, err := set.CoreV1().ConfigMaps("x").List(ctx, metav1.ListOptions{})
	must(t, err)
	var got []string
	for _, m := range list.Items {
		got = append(got, m.Name+" "+m.ResourceVersion+" "+m.Data["k"])
	}
	// The tracker keeps what clientset has created without a resource version.
	if want := "[applied 2  ours 1000 v theirs 1 v]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	must(t, c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("x")))
	for _, want := range []string{"MODIFIED ours", "DELETED ours"} {
		e := <-w.ResultChan()
		if got := fmt.Sprint(e.Type, " ", e.Object.(client.Object).GetName()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	var none corev1.ConfigMapList
	if err := c.List(ctx, &none); err != nil || len(none.Items) > 0 {
		t.Errorf("%d objects, %v", len(none.Items), err)
	}
}
