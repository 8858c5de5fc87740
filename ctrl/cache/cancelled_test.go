package cache

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		if i, err := c.GetInformer(done, &corev1.ConfigMap{}); i != nil || !apierrors.IsTimeout(err) {
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
