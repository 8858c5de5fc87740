package controller_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/fakeapi"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// witness is an event handler of an informer. It exists as long as the informer does.
type witness struct {
	toolscache.ResourceEventHandlerFuncs
	_ *int // so that it is not allocated together with others
}

// witnessOf adds a witness to the informer of ConfigMaps, which it creates if there is none.
func witnessOf(t *testing.T, c cache.Cache) weak.Pointer[witness] {
	t.Helper()
	informer, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	if _, err := informer.AddEventHandler(w); err != nil {
		t.Fatal(err)
	}
	return weak.Make(w)
}

// collected reports whether the informers of all witnesses are garbage.
func collected(all []weak.Pointer[witness]) bool {
	runtime.GC()
	for _, w := range all {
		if w.Value() != nil {
			return false
		}
	}
	return true
}

// A controller that runs keeps no informer that has ended, nor its objects: neither the informers of
// another cache that it has watched, nor an informer that was removed.
func TestEndedInformersAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		newCache := func() cache.Cache {
			c, err := cache.New(&rest.Config{Host: "http://server"},
				cache.Options{HTTPClient: &http.Client{Transport: server}, Mapper: server.Mapper()})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c, err := controller.NewUnmanaged(t.Name(), controller.Options{
			SkipNameValidation: ptr.To(true),
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		watch := func(from cache.Cache) {
			s := source.Kind(from, client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{})
			if err := c.Watch(s); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		own := newCache()
		go func() { _ = own.Start(ctx) }()
		watch(own) // before the start
		go func() { _ = c.Start(ctx) }()
		synctest.Wait()

		var others, removed []weak.Pointer[witness]
		for range 5 {
			other, stop := context.WithCancel(ctx)
			from := newCache()
			go func() { _ = from.Start(other) }()
			watch(from)
			others = append(others, witnessOf(t, from))
			stop()

			removed = append(removed, witnessOf(t, own))
			if err := own.RemoveInformer(ctx, &corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
			watch(own)
		}
		present := witnessOf(t, own)
		synctest.Wait()
		if !collected(others) {
			t.Error("informers of caches that have ended are kept")
		}
		if !collected(removed) {
			t.Error("informers that were removed are kept")
		}
		if present.Value() == nil {
			t.Error("the witness of an informer that exists is gone")
		}
	})
}
