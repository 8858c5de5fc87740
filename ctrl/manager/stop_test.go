package manager_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/internal/fakeapi"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// TestStopDuringDiscovery stops a manager while its API server asks to be asked later what it serves.
func TestStopDuringDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeapi.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		s.Respond = func(fakeapi.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody}, nil
		}
		mgr, err := manager.New(&rest.Config{Host: "http://server", Transport: s}, manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			t.Fatal(err)
		}
		none := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
		if err := builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Named("stopped").Complete(none); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		synctest.Wait()
		if len(s.Requests()) == 0 {
			t.Fatal("the manager asked for nothing")
		}
		start := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}
