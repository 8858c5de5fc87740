package claim

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/reconcile"
)

// TestSelectors follows Services through events.
func TestSelectors(t *testing.T) {
	s := NewSelectors(func(o client.Object) labels.Selector {
		if selector := o.(*corev1.Service).Spec.Selector; selector != nil {
			return labels.SelectorFromSet(selector)
		}
		return nil
	})
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	service := func(namespace, name string, selector map[string]string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	create := func(o client.Object) { s.Create(t.Context(), event.CreateEvent{Object: o}, q) }
	update := func(o client.Object) { s.Update(t.Context(), event.UpdateEvent{ObjectOld: o, ObjectNew: o}, q) }
	remove := func(o client.Object) { s.Delete(t.Context(), event.DeleteEvent{Object: o}, q) }
	a, b := map[string]string{"app": "a"}, map[string]string{"app": "b"}
	for i, step := range []struct {
		event func()
		ofA   string // the Services in x that select a pod with the label app=a
	}{
		{func() { create(service("x", "one", a)) }, "one"},
		{func() { create(service("x", "two", a)) }, "one two"},
		{func() { create(service("x", "none", nil)) }, "one two"},
		{func() { create(service("y", "other", a)) }, "one two"},
		{func() { update(service("x", "one", b)) }, "two"},
		{func() { update(service("x", "none", map[string]string{})) }, "none two"},
		{func() { update(service("x", "none", nil)) }, "two"},
		{func() { remove(service("x", "two", a)) }, ""},
		{func() { update(service("x", "one", a)) }, "one"},
		{func() { remove(service("x", "one", a)) }, ""},
		{func() { remove(service("y", "other", a)) }, ""},
	} {
		step.event()
		if q.Len() != 1 {
			t.Errorf("step %d: %d requests for the Service itself", i, q.Len())
		}
		req, _ := q.Get()
		q.Done(req)
		var names []string
		for _, r := range s.Of(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Labels: a}}) {
			if r.Namespace != "x" {
				t.Errorf("step %d: a request for %s", i, r)
			}
			names = append(names, r.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != step.ofA {
			t.Errorf("step %d: selected by %q, want %q", i, got, step.ofA)
		}
	}
	if len(s.byNamespace) > 0 {
		t.Errorf("%d namespaces are left", len(s.byNamespace))
	}
}
