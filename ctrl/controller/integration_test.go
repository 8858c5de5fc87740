package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/internal/testserver"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

// TestAnOperatorAndItsOwnWrites runs two operators in a control plane. Each of them owns a Secret
// for every ConfigMap: one that converges, and one that writes the time into the Secret.
func TestAnOperatorAndItsOwnWrites(t *testing.T) {
	for _, restless := range []bool{false, true} {
		t.Run(fmt.Sprint("restless=", restless), func(t *testing.T) {
			testserver.Test(t, func(t *testing.T) { operate(t, restless) })
		})
	}
}

func operate(t *testing.T, restless bool) {
	var mu sync.Mutex
	var found []controller.HotLoop
	var seen []string
	mgr, err := manager.New(testserver.Start(t), manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
		Controller: config.Controller{OnHotLoop: func(h controller.HotLoop) {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, h)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := mgr.GetClient()
	err = builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(
		reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			mu.Lock()
			seen = append(seen, reconcile.CausesFrom(ctx).String())
			mu.Unlock()
			owner := &corev1.ConfigMap{}
			if err := c.Get(ctx, req.NamespacedName, owner); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			time.Sleep(10 * time.Millisecond)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
				secret.Data = map[string][]byte{"password": []byte("hunter2")}
				if restless {
					secret.Data["time"] = []byte(time.Now().Format(time.RFC3339Nano))
				}
				return controllerutil.SetControllerReference(owner, secret, scheme.Scheme)
			})
			return reconcile.Result{}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(seen) < 2 || !strings.Contains(seen[0], "created ConfigMap default/web at ") && !strings.Contains(seen[0], "listed ConfigMap default/web at ") ||
		!strings.Contains(seen[1], "created Secret default/web at ") {
		t.Errorf("the causes were %q", seen)
	}
	if !restless {
		if len(found) != 0 || len(seen) > 3 {
			t.Errorf("an operator that converges was reconciled for %q and reported as %v", seen, found)
		}
		return
	}
	if len(found) != 1 {
		t.Fatalf("%d hot loops found after %d reconciles, want 1", len(found), len(seen))
	}
	text := found[0].Error()
	if !strings.Contains(text, "updated Secret default/web") || !strings.Contains(text, "(data.time by ") || strings.Contains(text, "hunter2") {
		t.Errorf("the report is: %s", text)
	}
}
