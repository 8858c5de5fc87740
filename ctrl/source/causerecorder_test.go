package source

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

func pod(version string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", ResourceVersion: version},
	}
}

// ofPods is an informer that returns its kind, which typed objects do not carry.
type ofPods struct{ cache.Informer }

func (ofPods) GroupVersionKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("Pod")
}

// TestEventsAreCauses lets all sorts of handlers add requests.
func TestEventsAreCauses(t *testing.T) {
	toOther := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "other"}}}
	}
	late := handler.Funcs{
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.AddAfter(reconcile.Request{}, -1)
			q.AddRateLimited(reconcile.Request{})
		},
	}
	for name, c := range map[string]struct {
		handler handler.EventHandler
		notify  func(toolscache.ResourceEventHandler)
		want    []string
	}{
		"listed": {&handler.EnqueueRequestForObject{}, func(h toolscache.ResourceEventHandler) { h.OnAdd(pod("1"), true) },
			[]string{"default/p -100 listed Pod default/p at 1"}},
		"created": {handler.EnqueueRequestsFromMapFunc(toOther), func(h toolscache.ResourceEventHandler) { h.OnAdd(pod("1"), false) },
			[]string{"/other 0 created Pod default/p at 1"}},
		"updated": {&handler.EnqueueRequestForObject{}, func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("1"), pod("2")) },
			[]string{"default/p 0 updated Pod default/p at 2"}},
		"updated, later": {late, func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("1"), pod("2")) },
			[]string{"/ 0 updated Pod default/p at 2, 2 times in all"}},
		"resync": {&handler.EnqueueRequestForObject{}, func(h toolscache.ResourceEventHandler) { h.OnUpdate(pod("2"), pod("2")) },
			[]string{"default/p -100 resync Pod default/p at 2"}},
		"deleted": {&handler.EnqueueRequestForObject{}, func(h toolscache.ResourceEventHandler) { h.OnDelete(pod("3")) },
			[]string{"default/p 0 deleted Pod default/p at 3"}},
		"many": {&handler.EnqueueRequestForObject{}, func(h toolscache.ResourceEventHandler) {
			h.OnAdd(pod("1"), true)
			h.OnUpdate(pod("1"), pod("2"))
			h.OnUpdate(pod("2"), pod("3"))
		}, []string{"default/p 0 listed Pod default/p at 1, updated Pod default/p at 3, 3 times in all"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := priorityqueue.New[reconcile.Request]("", func(o *priorityqueue.Opts[reconcile.Request]) {
				o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](0, time.Second)
			})
			defer q.ShutDown()
			c.notify(newDelivery(t.Context(), q, ofPods{}, c.handler, nil))
			var got []string
			for q.Len() > 0 {
				req, priority, causes, _ := q.(priorityqueue.CauseRecorder[reconcile.Request]).GetWithCauses()
				got = append(got, fmt.Sprint(req, " ", priority, " ", causes))
				q.Done(req)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestDiffFilterSelectsRequests checks that changes are recorded for the selected requests only.
func TestDiffFilterSelectsRequests(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("")
	defer q.ShutDown()
	q.(priorityqueue.DiffRecorder[reconcile.Request]).SetDiffFilter(func(r reconcile.Request) bool { return r.Name == "p" })
	d := newDelivery(t.Context(), q, ofPods{}, handler.EventHandler(&handler.EnqueueRequestForObject{}), nil)
	other := func(p *corev1.Pod) *corev1.Pod { p.Name = "other"; return p }
	changed := func(p *corev1.Pod) *corev1.Pod { p.Spec.NodeName = "n"; return p }
	d.OnUpdate(pod("1"), changed(pod("2")))
	d.OnUpdate(other(pod("1")), other(changed(pod("2"))))
	for _, want := range []string{"updated Pod default/p at 2 (spec.nodeName)", "updated Pod default/other at 2"} {
		req, _, causes, _ := q.(priorityqueue.CauseRecorder[reconcile.Request]).GetWithCauses()
		if got := causes.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		q.Done(req)
	}
}

func TestEventsWithoutObjects(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("")
	defer q.ShutDown()
	for _, obj := range []client.Object{nil, (*corev1.Pod)(nil)} {
		withCause(q, reconcile.CauseGeneric, nil, obj, obj).Add(reconcile.Request{})
		req, _, causes, _ := q.(priorityqueue.CauseRecorder[reconcile.Request]).GetWithCauses()
		q.Done(req)
		if causes.String() != "generic" {
			t.Errorf("got %q", causes)
		}
	}
}
