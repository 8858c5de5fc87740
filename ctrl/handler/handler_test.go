package handler_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// entry is what a handler put on a queue.
type entry struct {
	name     string
	priority int
}

// enqueued returns what f puts on a priority queue, ordered by name.
func enqueued(t *testing.T, f func(queue)) []entry {
	t.Helper()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	f(q)
	var entries []entry
	for q.Len() > 0 {
		req, priority, _ := q.GetWithPriority()
		q.Done(req)
		entries = append(entries, entry{req.String(), priority})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries
}

func expect(t *testing.T, what string, got []entry, want ...entry) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func pod(name, version string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, ResourceVersion: version, OwnerReferences: owners,
	}}
}

// all calls every method of a handler with events of an old and a new object.
func all(t *testing.T, h handler.EventHandler, before, after client.Object) map[string][]entry {
	t.Helper()
	ctx := context.Background()
	return map[string][]entry{
		"create":  enqueued(t, func(q queue) { h.Create(ctx, event.CreateEvent{Object: after}, q) }),
		"initial": enqueued(t, func(q queue) { h.Create(ctx, event.CreateEvent{Object: after, IsInInitialList: true}, q) }),
		"update":  enqueued(t, func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q) }),
		"resync":  enqueued(t, func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: after, ObjectNew: after}, q) }),
		"delete":  enqueued(t, func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: after}, q) }),
		"generic": enqueued(t, func(q queue) { h.Generic(ctx, event.GenericEvent{Object: after}, q) }),
	}
}

func TestForObject(t *testing.T) {
	got := all(t, &handler.EnqueueRequestForObject{}, pod("a", "1"), pod("a", "2"))
	for what, entries := range got {
		priority := 0
		if what == "initial" || what == "resync" {
			priority = handler.LowPriority
		}
		expect(t, what, entries, entry{"ns/a", priority})
	}
	for what, entries := range all(t, &handler.EnqueueRequestForObject{}, nil, nil) {
		expect(t, what+" of nothing", entries)
	}
	onlyOld := enqueued(t, func(q queue) {
		(&handler.EnqueueRequestForObject{}).Update(t.Context(), event.UpdateEvent{ObjectOld: pod("old", "1")}, q)
	})
	expect(t, "update without a new object", onlyOld, entry{"ns/old", 0})
}

func TestFromMapFunc(t *testing.T) {
	h := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{
			{NamespacedName: types.NamespacedName{Name: "for-" + obj.GetName()}},
			{NamespacedName: types.NamespacedName{Name: "always"}},
			{NamespacedName: types.NamespacedName{Name: "always"}},
		}
	})
	for what, entries := range all(t, h, pod("a", "1"), pod("b", "2")) {
		switch what {
		case "update":
			expect(t, what, entries, entry{"/always", 0}, entry{"/for-a", 0}, entry{"/for-b", 0})
		case "initial", "resync":
			expect(t, what, entries, entry{"/always", -100}, entry{"/for-b", -100})
		default:
			expect(t, what, entries, entry{"/always", 0}, entry{"/for-b", 0})
		}
	}
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return m
}

func owner(apiVersion, kind, name string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &controller}
}

func TestForOwner(t *testing.T) {
	owned := []metav1.OwnerReference{
		owner("apps/v1", "ReplicaSet", "first", false),
		owner("apps/v1", "ReplicaSet", "second", true),
		owner("extensions/v1", "ReplicaSet", "other-group", false),
		owner("apps/v1", "Deployment", "other-kind", false),
		owner("a/b/c", "ReplicaSet", "malformed", false),
		owner("v1", "Node", "node", false),
	}
	before, after := pod("a", "1", owner("apps/v1", "ReplicaSet", "past", true)), pod("a", "2", owned...)
	of := func(obj client.Object, opts ...handler.OwnerOption) map[string][]entry {
		return all(t, handler.EnqueueRequestForOwner(scheme.Scheme, mapper(), obj, opts...), before, after)
	}

	got := of(&appsv1.ReplicaSet{})
	for _, what := range []string{"create", "delete", "generic"} {
		expect(t, what, got[what], entry{"ns/first", 0}, entry{"ns/second", 0})
	}
	for _, what := range []string{"initial", "resync"} {
		expect(t, what, got[what], entry{"ns/first", -100}, entry{"ns/second", -100})
	}
	expect(t, "update", got["update"], entry{"ns/first", 0}, entry{"ns/past", 0}, entry{"ns/second", 0})

	got = of(&appsv1.ReplicaSet{}, handler.OnlyControllerOwner())
	expect(t, "controller only", got["update"], entry{"ns/past", 0}, entry{"ns/second", 0})
	expect(t, "cluster-scoped owner", of(&corev1.Node{})["create"], entry{"/node", 0})
	expect(t, "owner without a mapping", of(&appsv1.Deployment{})["create"])
	for what, entries := range all(t, handler.EnqueueRequestForOwner(scheme.Scheme, mapper(), &corev1.Node{}), nil, nil) {
		expect(t, what+" of nothing", entries)
	}
}

func TestForOwnerOfUnknownKindPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	handler.EnqueueRequestForOwner(scheme.Scheme, mapper(), &metav1.PartialObjectMetadata{})
}

func TestFuncs(t *testing.T) {
	for what, entries := range all(t, handler.Funcs{}, pod("a", "1"), pod("a", "2")) {
		expect(t, what+" without functions", entries)
	}
	add := func(q queue) { q.AddRateLimited(reconcile.Request{NamespacedName: types.NamespacedName{Name: "x"}}) }
	h := handler.WithLowPriorityWhenUnchanged(handler.EventHandler(handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(reconcile.Request{}, 0) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) {
			q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: new(7)}, reconcile.Request{})
		},
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { q.Add(reconcile.Request{}) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { q.Add(reconcile.Request{}) },
	}))
	got := all(t, h, pod("a", "1"), pod("a", "2"))
	expect(t, "create", got["create"], entry{"/", 0})
	expect(t, "initial", got["initial"], entry{"/", -100})
	expect(t, "resync with a priority of its own", got["resync"], entry{"/", 7})
	expect(t, "delete", got["delete"], entry{"/", 0})
	expect(t, "generic", got["generic"], entry{"/", 0})

	// A queue without priorities gets everything all the same.
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](0, 0))
	defer q.ShutDown()
	handler.Funcs{CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.Add(reconcile.Request{}); add(q) }}.
		Create(t.Context(), event.CreateEvent{IsInInitialList: true}, q)
	if _, shutdown := q.Get(); shutdown {
		t.Error("nothing was added")
	}
}

// TestSeveralControllers is about an object that claims to have two controllers.
func TestSeveralControllers(t *testing.T) {
	owned := pod("a", "1",
		owner("apps/v1", "ReplicaSet", "no-controller", false),
		owner("v1", "Node", "node", true),
		owner("apps/v1", "ReplicaSet", "second", true))
	for kind, want := range map[client.Object][]entry{
		&corev1.Node{}:       {{"/node", 0}},
		&appsv1.ReplicaSet{}: nil, // the controller is the node
	} {
		h := handler.EnqueueRequestForOwner(scheme.Scheme, mapper(), kind, handler.OnlyControllerOwner())
		expect(t, "only the first controller counts", all(t, h, owned, owned)["create"], want...)
	}
}

// addWithOpts is a priority queue that implements nothing but AddWithOpts.
type addWithOpts struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	added []priorityqueue.AddOpts
}

func (q *addWithOpts) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	for range items {
		q.added = append(q.added, o)
	}
}

func TestQueueThatImplementsAddWithOptsOnly(t *testing.T) {
	for name, add := range map[string]func(queue){
		"Add":            func(q queue) { q.Add(reconcile.Request{}) },
		"AddAfter":       func(q queue) { q.AddAfter(reconcile.Request{}, time.Minute) },
		"AddRateLimited": func(q queue) { q.AddRateLimited(reconcile.Request{}) },
	} {
		h := handler.WithLowPriorityWhenUnchanged(handler.EventHandler(handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { add(q) },
			UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { add(q) },
		}))
		q := &addWithOpts{}
		h.Create(t.Context(), event.CreateEvent{Object: pod("a", "1")}, q)
		h.Create(t.Context(), event.CreateEvent{Object: pod("a", "1"), IsInInitialList: true}, q)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod("a", "1"), ObjectNew: pod("a", "2")}, q)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod("a", "1"), ObjectNew: pod("a", "1")}, q)
		if len(q.added) != 4 {
			t.Fatalf("%s: %d additions, want 4", name, len(q.added))
		}
		for i, low := range []bool{false, true, false, true} {
			o := q.added[i]
			if low != (o.Priority != nil && *o.Priority == handler.LowPriority) {
				t.Errorf("%s, event %d: priority %v, want it low: %t", name, i, o.Priority, low)
			}
			if (o.After == time.Minute) != (name == "AddAfter") || o.RateLimited != (name == "AddRateLimited") {
				t.Errorf("%s, event %d: added with %+v", name, i, o)
			}
		}
	}
}
