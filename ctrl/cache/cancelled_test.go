package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// With a context that is done, an informer that has not synced is a timeout, and one that has is
// returned, as in controller-runtime.
func TestDoneContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(t, newServer(), Options{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		done, cancel := context.WithCancel(ctx)
		cancel()
		if i, err := c.GetInformer(done, &corev1.ConfigMap{}); i != nil || !apierrors.IsTimeout(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("before it has synced: %v, %v", i, err)
		}
		synctest.Wait()
		if i, err := c.GetInformer(done, &corev1.ConfigMap{}); i == nil || err != nil {
			t.Errorf("when it has synced: %v, %v", i, err)
		}
		if err := c.List(done, &corev1.ConfigMapList{}); err != nil {
			t.Errorf("a list: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The same holds if the cache does not know the resource of the kind yet.
func TestDoneContextBeforeDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(&rest.Config{Host: "http://server", Transport: newServer()}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		startCache(t, c)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if i, err := c.GetInformer(done, &corev1.ConfigMap{}); i != nil || !apierrors.IsTimeout(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("an informer: %v, %v", i, err)
		}
		if err := c.List(done, &corev1.ConfigMapList{}); !apierrors.IsTimeout(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("a list: %v", err)
		}
	})
}

// A read that waits while its context or the cache ends has an error of the context, which a controller that
// stops does not log.
func TestReadWhileStopping(t *testing.T) {
	for name, stop := range map[string]func(read, cache context.CancelFunc){
		"the read":  func(read, _ context.CancelFunc) { read() },
		"the cache": func(_, cache context.CancelFunc) { cache() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.setMissing(true)
				c := newTestCache(t, s, Options{})
				ctx, endCache := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- c.Start(ctx) }()
				synctest.Wait()
				readCtx, endRead := context.WithCancel(t.Context())
				read := make(chan error)
				go func() { read <- c.List(readCtx, &corev1.ConfigMapList{}) }()
				synctest.Wait()
				stop(endRead, endCache)
				if err := <-read; !apierrors.IsTimeout(err) || !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				endRead()
				endCache()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
