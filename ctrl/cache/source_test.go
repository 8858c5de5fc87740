package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// The typed objects of events have no kind, but the causes of requests do.
func TestCausesNameTheKind(t *testing.T) {
	testserver.Test(t, func(t *testing.T) {
		c, informers := startControlPlane(t)
		q := priorityqueue.New[reconcile.Request]("")
		defer q.ShutDown()
		s := source.Kind[client.Object](informers, &corev1.Secret{}, &handler.EnqueueRequestForObject{})
		if err := s.Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}); err != nil {
			t.Fatal(err)
		}
		_, _, causes, _ := q.(priorityqueue.CauseRecorder[reconcile.Request]).GetWithCauses()
		if len(causes.List) != 1 || causes.List[0].GVK != corev1.SchemeGroupVersion.WithKind("Secret") {
			t.Errorf("got %v", causes)
		}
	})
}

// A source does not wait for an informer that was removed before it has synced.
func TestSourceOfRemovedInformer(t *testing.T) {
	testserver.Test(t, func(t *testing.T) {
		c, err := cache.New(testserver.Start(t), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := source.Kind[client.Object](c, &corev1.Secret{}, &handler.EnqueueRequestForObject{})
		if err := s.Start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		testserver.Wait() // for the informer, which will not sync as the cache is not started
		if err := c.RemoveInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitForSync(t.Context()); err == nil || err.Error() != "cache did not sync" {
			t.Errorf("got %v", err)
		}
	})
}
