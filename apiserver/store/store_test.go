package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"flyball.dev/apiserver/store"
	_ "flyball.dev/internal/orphans"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundTrip(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	in := newPod(1)
	created := createPod(t, s, in)
	got := &corev1.Pod{}
	if err := s.Get(t.Context(), podKey(in), apistorage.GetOptions{}, got); err != nil {
		t.Fatal(err)
	}
	want := newPod(1)
	want.ResourceVersion = "2"
	for what, pod := range map[string]*corev1.Pod{"created": created, "got": got, "listed": &listPods(t, s, "/core/pods", apistorage.ListOptions{}).Items[0]} {
		if want.TypeMeta = (metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}); what == "listed" {
			want.TypeMeta = metav1.TypeMeta{}
		}
		if !apiequality.Semantic.DeepEqual(pod, want) {
			t.Errorf("%s: %+v, want %+v", what, pod, want)
		}
	}
	if deleted := deletePod(t, s, podKey(in)); deleted.ResourceVersion != "3" || deleted.Name != in.Name {
		t.Errorf("deleted: %+v", deleted.ObjectMeta)
	}
}

// TestUpdate updates objects that exist and that do not.
func TestUpdate(t *testing.T) {
	key := podKey(newPod(1))
	uid, otherUID, version := types.UID("uid-web-000001"), types.UID("other"), "2"
	label := func(pod *corev1.Pod) error {
		pod.Labels = map[string]string{"new": "label"}
		return nil
	}
	for _, test := range []struct {
		name           string
		key            string
		ignoreNotFound bool
		preconditions  *apistorage.Preconditions
		change         func(*corev1.Pod) error
		wantVersion    string // of the result
		wantErr        func(error) bool
	}{
		{name: "changes", key: key, change: label, wantVersion: "3"},
		{name: "changes nothing", key: key, change: func(*corev1.Pod) error { return nil }, wantVersion: "2"},
		{name: "changes what is not stored", key: key, wantVersion: "2", change: func(pod *corev1.Pod) error {
			pod.ResourceVersion = "17"
			pod.SetSelfLink("link")
			return nil
		}},
		{name: "absent", key: "/core/pods/ns/absent", change: label, wantErr: apistorage.IsNotFound},
		{name: "absent, created", key: "/core/pods/ns/absent", ignoreNotFound: true, change: label, wantVersion: "3"},
		{name: "UID", key: key, preconditions: &apistorage.Preconditions{UID: &uid}, change: label, wantVersion: "3"},
		{name: "wrong UID", key: key, preconditions: &apistorage.Preconditions{UID: &otherUID}, change: label, wantErr: apistorage.IsInvalidObj},
		{name: "version", key: key, preconditions: &apistorage.Preconditions{ResourceVersion: &version}, change: label, wantVersion: "3"},
		{name: "fails", key: key, change: func(*corev1.Pod) error { return errors.New("no") },
			wantErr: func(err error) bool { return err.Error() == "no" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, backend := podStore(t, memory.Options{})
			createPod(t, s, newPod(1))
			out := &corev1.Pod{}
			err := s.GuaranteedUpdate(t.Context(), test.key, out, test.ignoreNotFound, test.preconditions,
				func(obj runtime.Object, meta apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
					pod := obj.(*corev1.Pod)
					if pod.Name != "" && meta.ResourceVersion != 2 {
						t.Errorf("%s has version %d in the ResponseMeta", pod.Name, meta.ResourceVersion)
					}
					return pod, nil, test.change(pod)
				}, nil)
			latest, _, _ := backend.Revisions(t.Context())
			if test.wantErr != nil {
				if err == nil || !test.wantErr(err) || latest != 2 {
					t.Errorf("error %v, at revision %d", err, latest)
				}
				return
			}
			if err != nil || out.ResourceVersion != test.wantVersion || out.GetSelfLink() != "" {
				t.Errorf("got version %s and link %q, %v; want %s", out.ResourceVersion, out.GetSelfLink(), err, test.wantVersion)
			}
		})
	}
}

// TestUpdateConflict writes while an update is computed: it is computed again each time, with the
// current object.
func TestUpdateConflict(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	key := podKey(createPod(t, s, newPod(1)))
	var seen []string
	err := s.GuaranteedUpdate(t.Context(), key, &corev1.Pod{}, true, nil,
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			pod := obj.(*corev1.Pod)
			seen = append(seen, pod.Labels["by"])
			switch len(seen) {
			case 1:
				updatePod(t, s, key, func(p *corev1.Pod) { p.Labels = map[string]string{"by": "another"} })
			case 2:
				deletePod(t, s, key)
			}
			pod.Name, pod.Labels = "web", map[string]string{"by": "me"}
			return pod, nil
		}), nil)
	if want := ",another,"; err != nil || strings.Join(seen, ",") != want {
		t.Errorf("saw %q, %v; want %q", seen, err, want)
	}
}

// TestUpdateOfDeleted deletes an object while an update of it is computed: the update fails, and
// does not create the object again.
func TestUpdateOfDeleted(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	key := podKey(createPod(t, s, newPod(1)))
	err := s.GuaranteedUpdate(t.Context(), key, &corev1.Pod{}, false, nil,
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*corev1.Pod).Labels = map[string]string{"by": "me"}
			deletePod(t, s, key)
			return obj, nil
		}), nil)
	if !apistorage.IsNotFound(err) {
		t.Errorf("update: %v; want not found", err)
	}
	if err := s.Get(t.Context(), key, apistorage.GetOptions{}, &corev1.Pod{}); !apistorage.IsNotFound(err) {
		t.Errorf("get: %v; want not found", err)
	}
}

// TestDeleteAfterRequest deletes objects when the request has ended. It completes deletions that have
// begun, and changes nothing else.
func TestDeleteAfterRequest(t *testing.T) {
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		deletes bool
	}{
		"not being deleted": {func(*corev1.Pod) {}, false},
		"being deleted":     {deleting, true},
		"with a finalizer":  {func(p *corev1.Pod) { deleting(p); p.Finalizers = []string{"example.com/wait"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := podStore(t, memory.Options{})
			key := podKey(createPod(t, s, newPod(1)))
			updatePod(t, s, key, tc.change)
			ctx, cancel := context.WithCancel(t.Context())
			validate := func(ctx context.Context, _ runtime.Object) error { cancel(); return ctx.Err() }
			err := s.Delete(ctx, key, &corev1.Pod{}, nil, validate, nil, apistorage.DeleteOptions{})
			if tc.deletes && err != nil || !tc.deletes && !errors.Is(err, context.Canceled) {
				t.Errorf("delete: %v", err)
			}
			if err := s.Get(t.Context(), key, apistorage.GetOptions{}, &corev1.Pod{}); apistorage.IsNotFound(err) != tc.deletes {
				t.Errorf("then get: %v", err)
			}
		})
	}
}

// TestDelayedDeletionOfAnother removes an object and creates another of its name while the deletion of the
// first is delayed. The second is kept.
func TestDelayedDeletionOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend := podStore(t, memory.Options{})
		c := podConfig
		c.DeletionDelay = time.Second
		delayed := store.New(backend, c)
		key := podKey(createPod(t, s, newPod(1)))
		updatePod(t, s, key, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		deleted := make(chan error, 1)
		go func() {
			deleted <- delayed.Delete(t.Context(), key, &corev1.Pod{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{})
		}()
		synctest.Wait()
		deletePod(t, s, key)
		createPod(t, s, newPod(1))
		if err := <-deleted; !apistorage.IsNotFound(err) {
			t.Errorf("delete: %v; want not found", err)
		}
		if err := s.Get(t.Context(), key, apistorage.GetOptions{}, &corev1.Pod{}); err != nil {
			t.Errorf("the other pod: %v", err)
		}
	})
}

// TestWriteAfterDeadline checks that a write after the deadline of its request gets a timeout error.
func TestWriteAfterDeadline(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	ctx := storagetest.PastDeadline{Context: t.Context()}
	if err := s.Create(ctx, podKey(newPod(1)), newPod(1), &corev1.Pod{}, 0); !apierrors.IsTimeout(err) {
		t.Errorf("create: %v", err)
	}
	key := podKey(createPod(t, s, newPod(2)))
	err := s.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, nil, apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		obj.(*corev1.Pod).Labels = map[string]string{"by": "me"}
		return obj, nil
	}), nil)
	if !apierrors.IsTimeout(err) {
		t.Errorf("update: %v", err)
	}
}

// TestOwnership changes whatever can be reached from the results, and expects that no other reader
// sees it.
func TestOwnership(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	modify := func(pod *corev1.Pod) {
		pod.Labels["app"] = "modified"
		pod.Spec.Containers[0].Image = "modified"
		pod.ManagedFields[0].FieldsV1.GetRawBytes()[0] = '?'
		pod.OwnerReferences[0].Name = "modified"
	}
	in := newPod(1)
	key := podKey(in)
	modify(createPod(t, s, in))
	modify(in)
	got := &corev1.Pod{}
	if err := s.Get(t.Context(), key, apistorage.GetOptions{}, got); err != nil {
		t.Fatal(err)
	}
	modify(got)
	modify(updatePod(t, s, key, func(p *corev1.Pod) { p.Generation++ }))
	err := s.GuaranteedUpdate(t.Context(), key, &corev1.Pod{}, false, nil,
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			modify(obj.(*corev1.Pod))
			return nil, errors.New("never mind")
		}), nil)
	if err == nil {
		t.Error("the update has succeeded")
	}
	item := &listPods(t, s, "/core/pods", apistorage.ListOptions{}).Items[0]
	item.Labels, item.Kind, item.ResourceVersion = nil, "modified", "modified" // which callers may set

	w, err := s.Watch(t.Context(), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	object := receive(t, w).Object
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Spoilt"))
	event := object.(runtime.CacheableObject)
	modify(event.GetObject().(*corev1.Pod))

	if err := store.Verify(t.Context(), backend); err != nil {
		t.Error(err)
	}
	want := newPod(1)
	want.Generation, want.ResourceVersion, want.Kind, want.APIVersion = 1, "4", "Pod", "v1"
	if got := deletePod(t, s, key); !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("deleted: %+v, want %+v", got, want)
	}
}

// TestVerify modifies the items of a list, which Verify must detect.
func TestVerify(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	createPod(t, s, newPod(1))
	createPod(t, s, newPod(2))
	listPods(t, s, "/core/pods", apistorage.ListOptions{}).Items[1].Labels["app"] = "modified"
	if err := store.Verify(t.Context(), backend); err == nil || !strings.Contains(err.Error(), "web-000002") {
		t.Errorf("Verify: %v", err)
	}
}

func TestUnstructured(t *testing.T) {
	backend := memory.New(memory.Options{})
	defer backend.Close()
	s := widgetStore(backend)
	out := &unstructured.Unstructured{}
	if err := s.Create(t.Context(), "/example.com/widgets/default/w", newWidget("w"), out, 0); err != nil {
		t.Fatal(err)
	}
	out.SetLabels(map[string]string{"modified": "yes"})

	list := &unstructured.UnstructuredList{}
	opts := apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}
	for range 2 {
		if err := s.GetList(t.Context(), "/example.com/widgets", opts, list); err != nil {
			t.Fatal(err)
		}
		w := list.Items[0]
		if w.GetName() != "w" || w.GetKind() != "Widget" || w.GetResourceVersion() != "2" || w.GetLabels()["app"] != "web" {
			t.Errorf("listed: %v", w.Object)
		}
		w.SetKind("Spoilt")
		w.SetResourceVersion("17")
		w.SetLabels(nil)
	}
	err := s.GuaranteedUpdate(t.Context(), "/example.com/widgets/default/w", out, false, nil,
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			u := obj.(*unstructured.Unstructured)
			return u, unstructured.SetNestedField(u.Object, int64(4), "spec", "size")
		}), nil)
	if size, _, _ := unstructured.NestedInt64(out.Object, "spec", "size"); err != nil || size != 4 || out.GetResourceVersion() != "3" {
		t.Errorf("updated: %v, %v", out.Object, err)
	}
	gone := &unstructured.Unstructured{}
	err = s.Delete(t.Context(), "/example.com/widgets/default/w", gone, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{})
	if err != nil || gone.GetResourceVersion() != "4" {
		t.Errorf("deleted: %v, %v", gone.Object, err)
	}
	err = s.Get(t.Context(), "/example.com/widgets/default/w", apistorage.GetOptions{IgnoreNotFound: true}, gone)
	if err != nil || len(gone.Object) != 0 {
		t.Errorf("absent: %v, %v", gone.Object, err)
	}
}

// TestSharedPrefix has the same objects decoded by two stores, as when a kind is served in two
// versions.
func TestSharedPrefix(t *testing.T) {
	one, backend := podStore(t, memory.Options{})
	two := podStoreOn(backend)
	key := podKey(createPod(t, one, newPod(1)))
	updatePod(t, two, key, func(p *corev1.Pod) { p.Generation = 7 })
	for _, s := range []apistorage.Interface{one, two} {
		if items := listPods(t, s, "/core/pods", apistorage.ListOptions{}).Items; len(items) != 1 || items[0].Generation != 7 {
			t.Errorf("listed: %v", items)
		}
	}
}

func TestSelect(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	for i := range 20 {
		createPod(t, s, newPod(i))
	}
	for _, test := range []struct {
		labels, fields string
		want           int
	}{
		{"", "", 20},
		{"app=web", "", 20},
		{"shard in (1,2)", "", 2},
		{"app!=web", "", 0},
		{"", "metadata.name=web-000003", 1},
		{"", "metadata.name!=web-000003", 19},
		{"", "metadata.namespace=ns-3", 2},
		{"shard=13", "metadata.namespace=ns-3", 1},
		{"shard=13", "metadata.namespace=ns-4", 0},
		{"", "spec.nodeName=node-5", 1},
		{"shard=5", "spec.nodeName=node-5,metadata.namespace=ns-5", 1},
		{"shard=6", "spec.nodeName=node-5", 0},
	} {
		label, err := labels.Parse(test.labels)
		if err != nil {
			t.Fatal(err)
		}
		p := apistorage.SelectionPredicate{Label: label, Field: fields.ParseSelectorOrDie(test.fields), GetAttrs: podAttrs}
		if got := len(listPods(t, s, "/core/pods", apistorage.ListOptions{Predicate: p}).Items); got != test.want {
			t.Errorf("labels %q, fields %q: %d pods, want %d", test.labels, test.fields, got, test.want)
		}
	}
}

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	l, f, err := apistorage.DefaultNamespaceScopedAttr(obj)
	f["spec.nodeName"] = obj.(*corev1.Pod).Spec.NodeName
	return l, f, err
}

func TestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := podStore(t, memory.Options{})
		key := podKey(newPod(1))
		if err := s.Create(t.Context(), key, newPod(1), nil, 3600); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		w, err := s.Watch(t.Context(), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, w)
		if e := receive(t, w); e.Type != "DELETED" || time.Since(start) != time.Hour {
			t.Errorf("%s after %v", e.Type, time.Since(start))
		}
		w.Stop()
	})
}

// TestTooLarge reads at resource versions in the future, which are waited for, with a timeout.
func TestTooLarge(t *testing.T) {
	for name, read := range map[string]func(context.Context, apistorage.Interface) error{
		"get": func(ctx context.Context, s apistorage.Interface) error {
			return s.Get(ctx, podKey(newPod(1)), apistorage.GetOptions{ResourceVersion: "3"}, &corev1.Pod{})
		},
		"list": func(ctx context.Context, s apistorage.Interface) error {
			return s.GetList(ctx, "/core/pods", apistorage.ListOptions{ResourceVersion: "3", Recursive: true, Predicate: apistorage.Everything}, &corev1.PodList{})
		},
		"exact list": func(ctx context.Context, s apistorage.Interface) error {
			return s.GetList(ctx, "/core/pods", apistorage.ListOptions{ResourceVersion: "3", ResourceVersionMatch: metav1.ResourceVersionMatchExact,
				Recursive: true, Predicate: apistorage.Everything}, &corev1.PodList{})
		},
		"streaming list": func(ctx context.Context, s apistorage.Interface) error {
			yes := true
			w, err := s.Watch(ctx, "/core/pods", apistorage.ListOptions{ResourceVersion: "3", SendInitialEvents: &yes,
				Recursive: true, Predicate: apistorage.Everything})
			if err != nil {
				return err
			}
			defer w.Stop()
			if e := <-w.ResultChan(); e.Type == "ERROR" {
				return apierrors.FromObject(e.Object)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := podStore(t, memory.Options{})
				createPod(t, s, newPod(1))
				start := time.Now()
				err := read(t.Context(), s)
				seconds, _ := apierrors.SuggestsClientDelay(err)
				if !apistorage.IsTooLargeResourceVersion(err) || seconds != 1 || time.Since(start) != 3*time.Second {
					t.Errorf("after %v: %v, retry after %d s", time.Since(start), err, seconds)
				}
				time.AfterFunc(time.Second, func() { createPod(t, s, newPod(2)) })
				start = time.Now()
				if err := read(t.Context(), s); err != nil || time.Since(start) != time.Second {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestClosed(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	w, err := s.Watch(t.Context(), "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	backend.Close()
	if err := s.Get(t.Context(), "/core/pods/a/b", apistorage.GetOptions{}, &corev1.Pod{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("Get: %v", err)
	}
	if e := receive(t, w); !apierrors.IsServiceUnavailable(apierrors.FromObject(e.Object)) {
		t.Errorf("watch: %+v", e)
	}
	if _, ok := <-w.ResultChan(); ok {
		t.Error("the watch goes on")
	}
}

// TestCorrupt has a record that cannot be decoded.
func TestCorrupt(t *testing.T) {
	s, backend := podStore(t, memory.Options{})
	if _, err := backend.Put(t.Context(), storage.Write{Key: "/core/pods/a/b", Value: []byte("no pod")}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	opts := apistorage.ListOptions{Recursive: true, Predicate: apistorage.Everything}
	if err := s.Get(ctx, "/core/pods/a/b", apistorage.GetOptions{}, &corev1.Pod{}); !apistorage.IsCorruptObject(err) {
		t.Errorf("Get: %v", err)
	}
	createPod(t, s, newPod(1))
	paged := opts
	paged.Predicate.Limit = 1
	for _, opts := range []apistorage.ListOptions{opts, paged} {
		err := s.GetList(ctx, "/core/pods", opts, &corev1.PodList{})
		if details := status(t, err, metav1.StatusReasonStoreReadError).Details; len(details.Causes) != 1 || details.Causes[0].Field != "/core/pods/a/b" {
			t.Errorf("GetList with limit %d: %v %+v", opts.Predicate.Limit, err, details)
		}
	}
	w, err := s.Watch(ctx, "/core/pods", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := receive(t, w); e.Type != "ERROR" {
		t.Errorf("watched %+v", e)
	}
	for i := range 150 {
		if _, err := backend.Put(t.Context(), storage.Write{Key: fmt.Sprintf("/core/pods/a/%03d", i), Value: []byte("no pod")}); err != nil {
			t.Fatal(err)
		}
	}
	causes := status(t, s.GetList(ctx, "/core/pods", opts, &corev1.PodList{}), metav1.StatusReasonStoreReadError).Details.Causes
	if len(causes) != 101 || causes[100].Type != metav1.CauseTypeTooMany {
		t.Errorf("a list of many that are corrupt has %d causes", len(causes))
	}
}

// TestCorruptWithoutGate has a record that cannot be decoded, and nobody may delete it.
func TestCorruptWithoutGate(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, false)
	s, backend := podStore(t, memory.Options{})
	const key = "/core/pods/a/b"
	if _, err := backend.Put(t.Context(), storage.Write{Key: key, Value: []byte("no pod")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), key, apistorage.GetOptions{}, &corev1.Pod{}); err == nil || apistorage.IsCorruptObject(err) {
		t.Errorf("Get: %v", err)
	}
	err := s.Delete(t.Context(), key, &corev1.Pod{}, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{ExpectTransformOrDecodeError: true})
	if err == nil {
		t.Error("Delete succeeded")
	}
	if _, err := backend.Get(t.Context(), key); err != nil {
		t.Errorf("after Delete: %v", err)
	}
}

func status(t *testing.T, err error, reason metav1.StatusReason) metav1.Status {
	t.Helper()
	known, ok := err.(apierrors.APIStatus)
	if !ok || known.Status().Reason != reason {
		t.Fatalf("%v, want %s", err, reason)
	}
	return known.Status()
}

// endingSelector matches nothing, and ends a context when it has been asked often enough.
type endingSelector struct {
	labels.Selector
	asked, most int
	end         context.CancelFunc
}

func (s *endingSelector) Matches(labels.Labels) bool {
	if s.asked++; s.asked == s.most {
		s.end()
	}
	return false
}

// TestListEndsWithItsContext: a list with a selector, which may be costly, ends with its request.
func TestListEndsWithItsContext(t *testing.T) {
	s, _ := podStore(t, memory.Options{})
	for i := range 20 {
		createPod(t, s, newPod(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	selector := &endingSelector{Selector: labels.SelectorFromSet(labels.Set{"a": "b"}), most: 5, end: cancel}
	predicate := apistorage.SelectionPredicate{Label: selector, Field: fields.Everything(), GetAttrs: apistorage.DefaultNamespaceScopedAttr}
	err := s.GetList(ctx, "/core/pods", apistorage.ListOptions{Recursive: true, Predicate: predicate}, &corev1.PodList{})
	if !errors.Is(err, context.Canceled) || selector.asked != 5 {
		t.Errorf("the list ended with %v after %d objects", err, selector.asked)
	}
}
