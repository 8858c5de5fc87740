package cache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/testserver"
)

// startControlPlane starts a control plane, a cache of its default namespace and a client that reads from the cache.
func startControlPlane(t *testing.T) (client.Client, cache.Cache) {
	t.Helper()
	config := testserver.Start(t)
	c, err := cache.New(config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{"default": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(config, client.Options{Cache: &client.CacheOptions{Reader: c}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if err := live.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return live, c
}

// Concurrent writers read their own writes from the cache.
func TestReadYourWritesOnControlPlane(t *testing.T) {
	write := func(t *testing.T) {
		c, _ := startControlPlane(t)
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for n := range 50 {
					if err := runLifecycle(t.Context(), c, fmt.Sprintf("cm-%d-%d", w, n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
	}
	t.Run("in real time", write)
	t.Run("in virtual time", func(t *testing.T) { testserver.Test(t, write) })
}

// runLifecycle creates, changes and deletes a config map, and reads it after each step.
func runLifecycle(ctx context.Context, c client.Client, name string) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"flyball.dev/test"}}}
	key := client.ObjectKeyFromObject(cm)
	if err := c.Create(ctx, cm); err != nil {
		return err
	}
	read := func(step string) error {
		var got corev1.ConfigMap
		if err := c.Get(ctx, key, &got); err != nil {
			return fmt.Errorf("after %s: %w", step, err)
		}
		if got.ResourceVersion != cm.ResourceVersion {
			return fmt.Errorf("after %s: read version %s, wrote %s", step, got.ResourceVersion, cm.ResourceVersion)
		}
		return nil
	}
	if err := read("create"); err != nil {
		return err
	}
	cm.Labels = map[string]string{"name": name}
	if err := c.Update(ctx, cm); err != nil {
		return err
	}
	if err := read("update"); err != nil {
		return err
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.MatchingLabels{"name": name}); err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d objects have the label, %w", len(list.Items), err)
	}
	if err := c.Patch(ctx, cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`))); err != nil {
		return err
	}
	if err := read("patch"); err != nil {
		return err
	}
	if err := c.Delete(ctx, cm); err != nil {
		return err
	}
	var deleting corev1.ConfigMap
	if err := c.Get(ctx, key, &deleting); err != nil || deleting.DeletionTimestamp == nil {
		return fmt.Errorf("after delete: %v, %w", deleting.DeletionTimestamp, err)
	}
	deleting.Finalizers = nil
	if err := c.Update(ctx, &deleting); err != nil {
		return err
	}
	if err := c.Get(ctx, key, &deleting); !apierrors.IsNotFound(err) {
		return fmt.Errorf("after the last finalizer: %v", err)
	}
	return nil
}

// A handler is notified of changes on a control plane.
func TestHandlersOnControlPlane(t *testing.T) {
	c, informers := startControlPlane(t)
	i, err := informers.GetInformer(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan string, 10)
	if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { calls <- "add " + obj.(client.Object).GetName() },
		UpdateFunc: func(_, obj any) { calls <- "update " + obj.(client.Object).GetName() },
		DeleteFunc: func(obj any) { calls <- "delete " + obj.(client.Object).GetName() },
	}); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got := <-calls; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	if err := c.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	expect("add x")
	cm.Data = map[string]string{"a": "b"}
	if err := c.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	expect("update x")
	if err := c.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	expect("delete x")
}
